# SPDX-License-Identifier: MIT
"""Counts with more zeros than a Poisson's."""

from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from weft.arrays import AnyArray
from weft.domains import between
from weft.likelihoods.base import Likelihood
from weft.likelihoods.links import rate_moments
from weft.likelihoods.mixture import check_probability
from weft.likelihoods.poisson import Poisson, poisson_mixture_quantile
from weft.likelihoods.quadrature import expect_around
from weft.likelihoods.rows import NO_EXTRAS, PerRow, Probability, RowExtras, Support


class ZeroInflatedPoisson(Likelihood):
    """Zero with probability `zero_probability`, else a Poisson count of mean exposure e^f (which may be zero too)."""

    support: ClassVar[Support] = Support.COUNTS
    uses: ClassVar[tuple[str, ...]] = ("exposure",)
    zero_probability: Float[AnyArray, ""] = between(0.0, 1.0, default=0.1)

    def log_density(self, values: PerRow, f: PerRow, extra: RowExtras = NO_EXTRAS) -> PerRow:
        counted = jnp.log1p(-self.zero_probability) + Poisson().log_density(values, f, extra)
        return jnp.where(values == 0, self._log_zero(f, extra.exposure_of(values)), counted)

    def expected_log_density(
        self, values: PerRow, mean: PerRow, variance: PerRow, extra: RowExtras = NO_EXTRAS
    ) -> PerRow:
        exposure = extra.exposure_of(values)
        zero = values == 0
        # The log probability of a zero has its nearest singularities where mu = log-odds +- i pi.
        log_odds = jnp.log1p(-self.zero_probability) - jnp.log(self.zero_probability)
        centre = 0.5 * jnp.log(log_odds**2 + jnp.pi**2) - jnp.log(exposure)
        width = jnp.arctan2(jnp.pi, log_odds)
        empty = expect_around(lambda f: self._log_zero(f, exposure), mean, variance, centre, width)
        # The branch not taken must stay finite, for the gradient's sake.
        elsewhere = Poisson().expected_log_density(
            values, jnp.where(zero, 0.0, mean), jnp.where(zero, 1.0, variance), extra
        )
        return jnp.where(zero, empty, jnp.log1p(-self.zero_probability) + elsewhere)

    def _log_zero(self, f: PerRow, exposure: PerRow) -> PerRow:
        return jnp.logaddexp(jnp.log(self.zero_probability), jnp.log1p(-self.zero_probability) - exposure * jnp.exp(f))

    def predict(self, mean: PerRow, variance: PerRow, extra: RowExtras = NO_EXTRAS) -> tuple[PerRow, PerRow]:
        rate, spread = rate_moments(extra.exposure_of(mean), mean, variance)
        kept = 1 - self.zero_probability
        return kept * rate, kept * (rate + spread + self.zero_probability * rate**2)

    def quantile(
        self, probability: Probability, mean: PerRow, variance: PerRow, extra: RowExtras = NO_EXTRAS
    ) -> Float[np.ndarray, " row"]:
        zero_probability = np.asarray(self.zero_probability)
        remaining = (check_probability(probability) - zero_probability) / (1 - zero_probability)
        counted = poisson_mixture_quantile(
            np.where(remaining > 0, remaining, 0.5), mean, variance, np.asarray(extra.exposure_of(mean))
        )
        return np.where(remaining > 0, counted, 0.0)

    def sample(
        self, seed: int | np.random.Generator, f: Float[AnyArray, "*sample row"], extra: RowExtras = NO_EXTRAS
    ) -> Float[np.ndarray, "*sample row"]:
        generator = np.random.default_rng(seed)
        counted = Poisson().sample(generator, f, extra)
        return np.where(generator.uniform(size=f.shape) < np.asarray(self.zero_probability), 0.0, counted)

    def initial(self, values: PerRow, extra: RowExtras = NO_EXTRAS) -> tuple[PerRow, PerRow]:
        mean, precision = Poisson().initial(values, extra)
        # A zero may be no count at all, and then says nothing about f.
        return mean, jnp.where(values == 0, (1 - self.zero_probability) * precision, precision)
