# SPDX-License-Identifier: MIT
"""Noise whose density falls off exponentially on both sides."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jaxtyping import Float

from weft.arrays import AnyArray
from weft.domains import positive
from weft.likelihoods.base import Likelihood
from weft.likelihoods.mixture import invert
from weft.likelihoods.quadrature import VARIANCE_FLOOR
from weft.likelihoods.rows import NO_EXTRAS, PerRow, Probability, RowExtras, Support


class Laplace(Likelihood):
    """A density proportional to exp(-|value - f| / scale), of variance 2 scale^2."""

    support: ClassVar[Support] = Support.REAL
    uses: ClassVar[tuple[str, ...]] = ()
    scale: Float[AnyArray, ""] = positive(default=1.0)

    def log_density(self, values: PerRow, f: PerRow, extra: RowExtras = NO_EXTRAS) -> PerRow:
        return -jnp.log(2 * self.scale) - jnp.abs(values - f) / self.scale

    def expected_log_density(
        self, values: PerRow, mean: PerRow, variance: PerRow, extra: RowExtras = NO_EXTRAS
    ) -> PerRow:
        return -jnp.log(2 * self.scale) - folded_mean(values - mean, variance) / self.scale

    def predict(self, mean: PerRow, variance: PerRow, extra: RowExtras = NO_EXTRAS) -> tuple[PerRow, PerRow]:
        return mean, variance + 2 * self.scale**2

    def quantile(
        self, probability: Probability, mean: PerRow, variance: PerRow, extra: RowExtras = NO_EXTRAS
    ) -> Float[np.ndarray, " row"]:
        mean = np.asarray(mean)
        scale, deviation = np.asarray(self.scale), np.sqrt(np.asarray(variance) + VARIANCE_FLOOR)

        def cumulative(values: np.ndarray, rows: np.ndarray) -> np.ndarray:
            return normal_plus_laplace(values - mean[rows], deviation[rows], scale)

        # The identity: values are found as they are.
        return invert(cumulative, probability, mean, deviation + scale, np.asarray)

    def sample(
        self, seed: int | np.random.Generator, f: Float[AnyArray, "*sample row"], extra: RowExtras = NO_EXTRAS
    ) -> Float[np.ndarray, "*sample row"]:
        return np.random.default_rng(seed).laplace(np.asarray(f), np.asarray(self.scale))

    def initial(self, values: PerRow, extra: RowExtras = NO_EXTRAS) -> tuple[PerRow, PerRow]:
        return jnp.asarray(values), jnp.broadcast_to(0.5 / self.scale**2, values.shape)


def folded_mean(mean: PerRow, variance: PerRow) -> PerRow:
    """E |x| under x ~ N(mean, variance)."""
    deviation = jnp.sqrt(variance + VARIANCE_FLOOR)
    ratio = mean / deviation
    density = jnp.exp(-0.5 * ratio**2) / jnp.sqrt(2 * jnp.pi)
    return 2 * deviation * density + mean * jax.scipy.special.erf(ratio / jnp.sqrt(2.0))


def normal_plus_laplace(distance: np.ndarray, deviation: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """The probability that a centred normal plus an independent centred Laplace variable is at most `distance`."""
    log_ndtr = scipy.special.log_ndtr
    ratio, reach = deviation / scale, distance / deviation
    upper = np.exp(0.5 * ratio**2 - distance / scale + log_ndtr(reach - ratio))
    lower = np.exp(0.5 * ratio**2 + distance / scale + log_ndtr(-reach - ratio))
    return scipy.special.ndtr(reach) - 0.5 * upper + 0.5 * lower
