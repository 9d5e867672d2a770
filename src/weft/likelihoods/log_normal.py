# SPDX-License-Identifier: MIT
"""Positive values whose logarithm has normal noise."""

from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from weft.arrays import AnyArray
from weft.domains import positive
from weft.likelihoods.base import Likelihood
from weft.likelihoods.links import rate_moments
from weft.likelihoods.mixture import normal_quantile
from weft.likelihoods.rows import NO_EXTRAS, PerRow, Probability, RowExtras, Support


class LogNormal(Likelihood):
    """log(value) ~ N(f, variance): e^f is the median, not the mean."""

    support: ClassVar[Support] = Support.POSITIVE
    uses: ClassVar[tuple[str, ...]] = ()
    variance: Float[AnyArray, ""] = positive(default=1.0)

    def log_density(self, values: PerRow, f: PerRow, extra: RowExtras = NO_EXTRAS) -> PerRow:
        log_values = jnp.log(values)
        return -0.5 * (jnp.log(2 * jnp.pi * self.variance) + (log_values - f) ** 2 / self.variance) - log_values

    def expected_log_density(
        self, values: PerRow, mean: PerRow, variance: PerRow, extra: RowExtras = NO_EXTRAS
    ) -> PerRow:
        return self.log_density(values, mean, extra) - 0.5 * variance / self.variance

    def predict(self, mean: PerRow, variance: PerRow, extra: RowExtras = NO_EXTRAS) -> tuple[PerRow, PerRow]:
        return rate_moments(jnp.ones(mean.shape), mean, variance + self.variance)

    def quantile(
        self, probability: Probability, mean: PerRow, variance: PerRow, extra: RowExtras = NO_EXTRAS
    ) -> Float[np.ndarray, " row"]:
        return np.exp(normal_quantile(probability, mean, variance + self.variance))

    def sample(
        self, seed: int | np.random.Generator, f: Float[AnyArray, "*sample row"], extra: RowExtras = NO_EXTRAS
    ) -> Float[np.ndarray, "*sample row"]:
        return np.random.default_rng(seed).lognormal(np.asarray(f), np.sqrt(np.asarray(self.variance)))

    def initial(self, values: PerRow, extra: RowExtras = NO_EXTRAS) -> tuple[PerRow, PerRow]:
        return jnp.log(values), jnp.broadcast_to(1 / self.variance, values.shape)
