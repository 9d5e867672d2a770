# SPDX-License-Identifier: MIT
"""Counts with variance equal to their mean."""

from typing import ClassVar

import jax.numpy as jnp
import numpy as np
import scipy.special
from jax.scipy.special import gammaln
from jaxtyping import Float

from weft.arrays import AnyArray
from weft.likelihoods.base import Likelihood
from weft.likelihoods.links import rate_moments
from weft.likelihoods.mixture import draw_counts, invert_counts, mixed, usual_count
from weft.likelihoods.rows import NO_EXTRAS, PerRow, Probability, RowExtras, Support


class Poisson(Likelihood):
    """A count of mean exposure e^f."""

    support: ClassVar[Support] = Support.COUNTS
    uses: ClassVar[tuple[str, ...]] = ("exposure",)

    def log_density(self, values: PerRow, f: PerRow, extra: RowExtras = NO_EXTRAS) -> PerRow:
        exposure = extra.exposure_of(values)
        return values * (f + jnp.log(exposure)) - exposure * jnp.exp(f) - gammaln(values + 1)

    def expected_log_density(
        self, values: PerRow, mean: PerRow, variance: PerRow, extra: RowExtras = NO_EXTRAS
    ) -> PerRow:
        exposure = extra.exposure_of(values)
        rate = exposure * jnp.exp(mean + 0.5 * variance)
        return values * (mean + jnp.log(exposure)) - rate - gammaln(values + 1)

    def predict(self, mean: PerRow, variance: PerRow, extra: RowExtras = NO_EXTRAS) -> tuple[PerRow, PerRow]:
        rate, spread = rate_moments(extra.exposure_of(mean), mean, variance)
        return rate, rate + spread

    def quantile(
        self, probability: Probability, mean: PerRow, variance: PerRow, extra: RowExtras = NO_EXTRAS
    ) -> Float[np.ndarray, " row"]:
        return poisson_mixture_quantile(probability, mean, variance, np.asarray(extra.exposure_of(mean)))

    def sample(
        self, seed: int | np.random.Generator, f: Float[AnyArray, "*sample row"], extra: RowExtras = NO_EXTRAS
    ) -> Float[np.ndarray, "*sample row"]:
        rate = np.asarray(extra.exposure_of(f)) * np.exp(np.asarray(f))
        return draw_counts(np.random.default_rng(seed), rate)

    def initial(self, values: PerRow, extra: RowExtras = NO_EXTRAS) -> tuple[PerRow, PerRow]:
        return jnp.log((values + 0.5) / extra.exposure_of(values)), values + jnp.asarray(0.5)


def poisson_mixture_quantile(
    probability: Probability, mean: PerRow, variance: PerRow, exposure: Float[np.ndarray, " row"]
) -> Float[np.ndarray, " row"]:
    """Quantile of a Poisson count of mean exposure e^f where f ~ N(mean, variance)."""

    def cumulative(values: np.ndarray, f: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return scipy.special.gammaincc(values + 1, exposure[rows] * np.exp(f))

    def bend(values: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.log((values + 1) / exposure[rows]), 1 / np.sqrt(values + 1)

    return invert_counts(mixed(cumulative, bend, mean, variance), probability, usual_count(exposure, mean))
