# SPDX-License-Identifier: MIT
"""Positive values whose spread grows with their mean."""

from typing import ClassVar

import jax.numpy as jnp
import numpy as np
import scipy.special
from jax.scipy.special import gammaln
from jaxtyping import Float

from weft.arrays import AnyArray
from weft.domains import positive
from weft.likelihoods.base import Likelihood
from weft.likelihoods.links import rate_moments
from weft.likelihoods.mixture import invert, mixed
from weft.likelihoods.rows import NO_EXTRAS, PerRow, Probability, RowExtras, Support


class Gamma(Likelihood):
    """A gamma variable of mean e^f and variance e^2f / shape."""

    support: ClassVar[Support] = Support.POSITIVE
    uses: ClassVar[tuple[str, ...]] = ()
    shape: Float[AnyArray, ""] = positive(default=1.0)

    def log_density(self, values: PerRow, f: PerRow, extra: RowExtras = NO_EXTRAS) -> PerRow:
        return self._log_density(values, f, values * jnp.exp(-f))

    def expected_log_density(
        self, values: PerRow, mean: PerRow, variance: PerRow, extra: RowExtras = NO_EXTRAS
    ) -> PerRow:
        return self._log_density(values, mean, values * jnp.exp(0.5 * variance - mean))

    def _log_density(self, values: PerRow, f: PerRow, relative: PerRow) -> PerRow:
        """The log density given f and the value relative to e^f: linear in both, so also given their expectations."""
        log_values = jnp.log(values)
        normaliser = self.shape * jnp.log(self.shape) - gammaln(self.shape)
        return normaliser - log_values + self.shape * (log_values - f - relative)

    def predict(self, mean: PerRow, variance: PerRow, extra: RowExtras = NO_EXTRAS) -> tuple[PerRow, PerRow]:
        expected, spread = rate_moments(jnp.ones(mean.shape), mean, variance)
        return expected, spread + (spread + expected**2) / self.shape

    def quantile(
        self, probability: Probability, mean: PerRow, variance: PerRow, extra: RowExtras = NO_EXTRAS
    ) -> Float[np.ndarray, " row"]:
        return gamma_mixture_quantile(probability, mean, variance, float(self.shape))

    def sample(
        self, seed: int | np.random.Generator, f: Float[AnyArray, "*sample row"], extra: RowExtras = NO_EXTRAS
    ) -> Float[np.ndarray, "*sample row"]:
        shape = np.asarray(self.shape)
        return np.exp(np.asarray(f)) * np.random.default_rng(seed).gamma(shape, 1 / shape, size=f.shape)

    def initial(self, values: PerRow, extra: RowExtras = NO_EXTRAS) -> tuple[PerRow, PerRow]:
        return jnp.log(values), jnp.broadcast_to(jnp.asarray(self.shape), values.shape)


def gamma_mixture_quantile(
    probability: Probability, mean: PerRow, variance: PerRow, shape: float
) -> Float[np.ndarray, " row"]:
    """Quantile of a gamma variable of mean e^f where f ~ N(mean, variance)."""

    def cumulative(values: np.ndarray, f: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return scipy.special.gammainc(shape, shape * values * np.exp(-f))

    def bend(values: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.log(values), np.full(values.shape, 1 / np.sqrt(shape))

    step = np.sqrt(np.asarray(variance) + 1 / shape)
    return invert(mixed(cumulative, bend, mean, variance), probability, np.asarray(mean), step, np.exp)
