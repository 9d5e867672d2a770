# SPDX-License-Identifier: MIT
"""Waiting times."""

from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from weft.arrays import AnyArray
from weft.likelihoods.base import Likelihood, check_extras, refuse
from weft.likelihoods.gamma import gamma_mixture_quantile
from weft.likelihoods.links import rate_moments
from weft.likelihoods.rows import NO_EXTRAS, PerRow, Probability, RowExtras, Support


class Exponential(Likelihood):
    """An exponential variable of mean e^f; zero is allowed."""

    support: ClassVar[Support] = Support.POSITIVE
    uses: ClassVar[tuple[str, ...]] = ()

    def log_density(self, values: PerRow, f: PerRow, extra: RowExtras = NO_EXTRAS) -> PerRow:
        return -f - values * jnp.exp(-f)

    def expected_log_density(
        self, values: PerRow, mean: PerRow, variance: PerRow, extra: RowExtras = NO_EXTRAS
    ) -> PerRow:
        return -mean - values * jnp.exp(0.5 * variance - mean)

    def predict(self, mean: PerRow, variance: PerRow, extra: RowExtras = NO_EXTRAS) -> tuple[PerRow, PerRow]:
        expected, spread = rate_moments(jnp.ones(mean.shape), mean, variance)
        return expected, 2 * spread + expected**2

    def quantile(
        self, probability: Probability, mean: PerRow, variance: PerRow, extra: RowExtras = NO_EXTRAS
    ) -> Float[np.ndarray, " row"]:
        return gamma_mixture_quantile(probability, mean, variance, 1.0)

    def sample(
        self, seed: int | np.random.Generator, f: Float[AnyArray, "*sample row"], extra: RowExtras = NO_EXTRAS
    ) -> Float[np.ndarray, "*sample row"]:
        return np.random.default_rng(seed).exponential(np.exp(np.asarray(f)))

    def check(self, values: PerRow, extra: RowExtras = NO_EXTRAS, rows: Int[AnyArray, " row"] | None = None) -> None:
        check_extras(self, values, extra, rows)
        given = np.asarray(values)
        bad = ~((given >= 0) & np.isfinite(given)) & ~np.isnan(given)
        refuse(self, "values must be finite and zero or positive", given, bad, rows)

    def initial(self, values: PerRow, extra: RowExtras = NO_EXTRAS) -> tuple[PerRow, PerRow]:
        # A zero says only that f is low: a hundredth of a typical value is low enough to start from.
        typical = jnp.mean(values)
        low = jnp.where(typical > 0, 0.01 * typical, 1.0)
        return jnp.log(jnp.maximum(values, low)), jnp.ones(values.shape)
