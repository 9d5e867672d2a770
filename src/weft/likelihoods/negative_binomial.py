# SPDX-License-Identifier: MIT
"""Counts that vary more than a Poisson's."""

from typing import ClassVar

import jax.numpy as jnp
import numpy as np
import scipy.special
from jax.scipy.special import gammaln
from jaxtyping import Array, Float

from weft.arrays import AnyArray
from weft.domains import positive
from weft.likelihoods.base import Likelihood
from weft.likelihoods.links import expected_softplus, rate_moments, softplus
from weft.likelihoods.mixture import draw_counts, invert_counts, mixed, usual_count
from weft.likelihoods.rows import NO_EXTRAS, PerRow, Probability, RowExtras, Support


class NegativeBinomial(Likelihood):
    """A count of mean mu = exposure e^f and variance mu + mu^2 / dispersion; Poisson as `dispersion` grows."""

    support: ClassVar[Support] = Support.COUNTS
    uses: ClassVar[tuple[str, ...]] = ("exposure",)
    dispersion: Float[AnyArray, ""] = positive(default=1.0)

    def log_density(self, values: PerRow, f: PerRow, extra: RowExtras = NO_EXTRAS) -> PerRow:
        log_rate = f + jnp.log(extra.exposure_of(values))
        overshoot = softplus(log_rate - jnp.log(self.dispersion))
        return self._log_base(values) + values * log_rate - (values + self.dispersion) * overshoot

    def expected_log_density(
        self, values: PerRow, mean: PerRow, variance: PerRow, extra: RowExtras = NO_EXTRAS
    ) -> PerRow:
        log_rate = mean + jnp.log(extra.exposure_of(values))
        overshoot = expected_softplus(log_rate - jnp.log(self.dispersion), variance)
        return self._log_base(values) + values * log_rate - (values + self.dispersion) * overshoot

    def _log_base(self, values: PerRow) -> PerRow:
        return log_rising(jnp.asarray(self.dispersion), values) - gammaln(values + 1)

    def predict(self, mean: PerRow, variance: PerRow, extra: RowExtras = NO_EXTRAS) -> tuple[PerRow, PerRow]:
        rate, spread = rate_moments(extra.exposure_of(mean), mean, variance)
        return rate, rate + spread + (spread + rate**2) / self.dispersion

    def quantile(
        self, probability: Probability, mean: PerRow, variance: PerRow, extra: RowExtras = NO_EXTRAS
    ) -> Float[np.ndarray, " row"]:
        exposure = np.asarray(extra.exposure_of(mean))
        dispersion = np.asarray(self.dispersion)

        def cumulative(values: np.ndarray, f: np.ndarray, rows: np.ndarray) -> np.ndarray:
            success = scipy.special.expit(np.log(dispersion) - f - np.log(exposure[rows]))
            return scipy.special.betainc(dispersion, values + 1, success)

        def bend(values: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            return np.log((values + 1) / exposure[rows]), np.sqrt(1 / (values + 1) + 1 / dispersion)

        return invert_counts(mixed(cumulative, bend, mean, variance), probability, usual_count(exposure, mean))

    def sample(
        self, seed: int | np.random.Generator, f: Float[AnyArray, "*sample row"], extra: RowExtras = NO_EXTRAS
    ) -> Float[np.ndarray, "*sample row"]:
        generator = np.random.default_rng(seed)
        dispersion = np.asarray(self.dispersion)
        rate = np.asarray(extra.exposure_of(f)) * np.exp(np.asarray(f))
        return draw_counts(generator, rate * generator.gamma(dispersion, 1 / dispersion, size=f.shape))

    def initial(self, values: PerRow, extra: RowExtras = NO_EXTRAS) -> tuple[PerRow, PerRow]:
        count = values + 0.5
        return jnp.log(count / extra.exposure_of(values)), count * self.dispersion / (count + self.dispersion)


def log_rising(base: Float[Array, ""], count: PerRow) -> PerRow:
    """Log Gamma(base + count) - log Gamma(base) - count log(base).

    By Stirling's series for a large base, where the difference of the first two has few digits left.
    """
    large = base > 20.0
    safe = jnp.where(large, base, 20.0)
    series = (safe + count - 0.5) * jnp.log1p(count / safe) - count + stirling_tail(safe + count) - stirling_tail(safe)
    safe = jnp.where(large, 1.0, base)
    return jnp.where(large, series, gammaln(safe + count) - gammaln(safe) - count * jnp.log(safe))


def stirling_tail(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """What log Gamma(x) has beyond (x - 1/2) log x - x + log(2 pi) / 2, for x of 20 or more (error below 1e-12)."""
    return (1 / 12 - (1 / 360 - (1 / 1260 - 1 / (1680 * x**2)) / x**2) / x**2) / x
