# SPDX-License-Identifier: MIT
"""Normal noise, of which an instrument shows only what lies within its limits."""

from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from weft.arrays import AnyArray
from weft.domains import positive
from weft.likelihoods.base import Likelihood, check_extras, check_support, refuse
from weft.likelihoods.censored import expected_log_below, expected_log_between, log_below, log_between
from weft.likelihoods.mixture import normal_quantile
from weft.likelihoods.rows import NO_EXTRAS, PerRow, Probability, RowExtras, Support, broadcast_rows


class Tobit(Likelihood):
    """value ~ N(f, variance + the row's own noise variance), censored at the row's limits (Tobin 1958).

    A value at or below `lower` says only that the truth is at or below `lower`, one at or above `upper` only that it is at or
    above `upper`; any other is the measurement itself. Where both hold (`upper` below `lower`), the truth lies between the
    two. A row without limits is never censored. What is predicted is the truth, not what the instrument would show of it.
    """

    support: ClassVar[Support] = Support.REAL
    uses: ClassVar[tuple[str, ...]] = ("noise_variance", "lower", "upper")
    variance: Float[AnyArray, ""] = positive(default=1.0)

    def log_density(self, values: PerRow, f: PerRow, extra: RowExtras = NO_EXTRAS) -> PerRow:
        kinds, noise = _Kinds(values, extra), self._noise(values, extra)
        sd = jnp.sqrt(noise)
        return kinds.choose(
            -0.5 * (jnp.log(2 * jnp.pi * noise) + (values - f) ** 2 / noise),
            log_below(kinds.lower, f, sd),
            log_below(-kinds.upper, -f, sd),
            log_between(*kinds.ends, f, sd),
        )

    def expected_log_density(
        self, values: PerRow, mean: PerRow, variance: PerRow, extra: RowExtras = NO_EXTRAS
    ) -> PerRow:
        kinds, noise = _Kinds(values, extra), self._noise(values, extra)
        sd = jnp.sqrt(noise)
        return kinds.choose(
            -0.5 * (jnp.log(2 * jnp.pi * noise) + ((values - mean) ** 2 + variance) / noise),
            expected_log_below(kinds.lower, mean, variance, sd),
            expected_log_below(-kinds.upper, -mean, variance, sd),
            expected_log_between(*kinds.ends, mean, variance, sd),
        )

    def predict(self, mean: PerRow, variance: PerRow, extra: RowExtras = NO_EXTRAS) -> tuple[PerRow, PerRow]:
        return mean, variance + self._noise(mean, extra)

    def quantile(
        self, probability: Probability, mean: PerRow, variance: PerRow, extra: RowExtras = NO_EXTRAS
    ) -> Float[np.ndarray, " row"]:
        return normal_quantile(probability, *self.predict(mean, variance, extra))

    def sample(
        self, seed: int | np.random.Generator, f: Float[AnyArray, "*sample row"], extra: RowExtras = NO_EXTRAS
    ) -> Float[np.ndarray, "*sample row"]:
        return np.random.default_rng(seed).normal(np.asarray(f), np.sqrt(np.asarray(self._noise(f, extra))))

    def check(self, values: PerRow, extra: RowExtras = NO_EXTRAS, rows: Int[AnyArray, " row"] | None = None) -> None:
        check_extras(self, values, extra, rows)
        check_support(self, values, rows)
        lower, upper = (np.asarray(limit) for limit in _limits(np.asarray(values), extra))
        nowhere = (lower == upper) & ~np.isnan(np.asarray(values))
        refuse(self, "lower and upper of a row must differ", lower, nowhere, rows)

    def initial(self, values: PerRow, extra: RowExtras = NO_EXTRAS) -> tuple[PerRow, PerRow]:
        kinds, noise = _Kinds(values, extra), self._noise(values, extra)
        sd = jnp.sqrt(noise)
        lowest, highest = kinds.ends
        mean = kinds.choose(jnp.asarray(values), kinds.lower - sd, kinds.upper + sd, 0.5 * (lowest + highest))
        precision = 1 / noise
        between = 1 / (noise + (highest - lowest) ** 2 / 12)
        return mean, kinds.choose(precision, 0.5 * precision, 0.5 * precision, between)

    def _noise(self, like: Float[AnyArray, "..."], extra: RowExtras) -> Float[AnyArray, "..."]:
        return self.variance + broadcast_rows(extra.noise_variance, 0.0, like)


def _limits(values: PerRow, extra: RowExtras) -> tuple[PerRow, PerRow]:
    return broadcast_rows(extra.lower, -jnp.inf, values), broadcast_rows(extra.upper, jnp.inf, values)


class _Kinds:
    """Which rows are censored and how; limits are finite everywhere, for the gradient's sake, and mean nothing where they are not used."""

    def __init__(self, values: PerRow, extra: RowExtras):
        lower, upper = _limits(values, extra)
        self.below: Bool[Array, " row"] = jnp.asarray(values <= lower)
        self.above: Bool[Array, " row"] = jnp.asarray(values >= upper)
        self.lower = jnp.where(self.below, lower, 0.0)
        self.upper = jnp.where(self.above, upper, 0.0)
        both = self.below & self.above
        self.ends = (jnp.where(both, upper, -1.0), jnp.where(both, lower, 1.0))

    def choose(self, exact: PerRow, below: PerRow, above: PerRow, between: PerRow) -> PerRow:
        one_sided = jnp.where(self.below, below, jnp.where(self.above, above, exact))
        return jnp.where(self.below & self.above, between, one_sided)
