# SPDX-License-Identifier: MIT
"""Normal noise."""

from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from weft.arrays import AnyArray
from weft.domains import non_negative
from weft.likelihoods.base import Likelihood, check_extras, check_support, refuse
from weft.likelihoods.mixture import normal_quantile
from weft.likelihoods.rows import NO_EXTRAS, PerRow, Probability, RowExtras, Support


class Gaussian(Likelihood):
    """value ~ N(f, variance + the row's own noise variance); at variance 0 the rows' own noise alone."""

    support: ClassVar[Support] = Support.REAL
    uses: ClassVar[tuple[str, ...]] = ("noise_variance",)
    variance: Float[AnyArray, ""] = non_negative(default=1.0)

    def noise_variance(self, own: PerRow | None = None) -> Float[AnyArray, "..."]:
        """The variance of each row's noise, given the rows' own; one number for all rows if they have none."""
        return self.variance if own is None else self.variance + own

    def log_density(self, values: PerRow, f: PerRow, extra: RowExtras = NO_EXTRAS) -> PerRow:
        noise = self.noise_variance(extra.noise_variance)
        return -0.5 * (jnp.log(2 * jnp.pi * noise) + (values - f) ** 2 / noise)

    def expected_log_density(
        self, values: PerRow, mean: PerRow, variance: PerRow, extra: RowExtras = NO_EXTRAS
    ) -> PerRow:
        return self.log_density(values, mean, extra) - 0.5 * variance / self.noise_variance(extra.noise_variance)

    def predict(self, mean: PerRow, variance: PerRow, extra: RowExtras = NO_EXTRAS) -> tuple[PerRow, PerRow]:
        return mean, variance + self.noise_variance(extra.noise_variance)

    def quantile(
        self, probability: Probability, mean: PerRow, variance: PerRow, extra: RowExtras = NO_EXTRAS
    ) -> Float[np.ndarray, " row"]:
        return normal_quantile(probability, *self.predict(mean, variance, extra))

    def sample(
        self, seed: int | np.random.Generator, f: Float[AnyArray, "*sample row"], extra: RowExtras = NO_EXTRAS
    ) -> Float[np.ndarray, "*sample row"]:
        deviation = np.sqrt(np.asarray(self.noise_variance(extra.noise_variance)))
        return np.random.default_rng(seed).normal(f, deviation)

    def check(self, values: PerRow, extra: RowExtras = NO_EXTRAS, rows: Int[AnyArray, " row"] | None = None) -> None:
        check_extras(self, values, extra, rows)
        check_support(self, values, rows)
        own = np.zeros(len(values)) if extra.noise_variance is None else np.asarray(extra.noise_variance)
        total = np.asarray(self.variance) + own
        wanted = "at variance 0 every row needs a positive noise_variance of its own"
        refuse(self, wanted, total, (total == 0) & ~np.isnan(np.asarray(values)), rows)

    def initial(self, values: PerRow, extra: RowExtras = NO_EXTRAS) -> tuple[PerRow, PerRow]:
        noise = self.noise_variance(extra.noise_variance)
        return jnp.asarray(values), jnp.broadcast_to(1 / noise, values.shape)
