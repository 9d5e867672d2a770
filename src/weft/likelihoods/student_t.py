# SPDX-License-Identifier: MIT
"""Noise with heavy tails."""

from typing import ClassVar

import jax.numpy as jnp
import numpy as np
import scipy.special
from jax.scipy.special import gammaln
from jaxtyping import Float

from weft.arrays import AnyArray
from weft.domains import positive
from weft.likelihoods.base import Likelihood
from weft.likelihoods.mixture import invert, mixed
from weft.likelihoods.quadrature import expect_around
from weft.likelihoods.rows import NO_EXTRAS, PerRow, Probability, RowExtras, Support


class StudentT(Likelihood):
    """(value - f) / scale has Student's t distribution with `df` degrees of freedom.

    The variance is infinite up to df = 2, and there is no mean up to df = 1 (NaN).
    """

    support: ClassVar[Support] = Support.REAL
    uses: ClassVar[tuple[str, ...]] = ()
    scale: Float[AnyArray, ""] = positive(default=1.0)
    df: Float[AnyArray, ""] = positive(default=4.0)

    def log_density(self, values: PerRow, f: PerRow, extra: RowExtras = NO_EXTRAS) -> PerRow:
        distance = (values - f) / self.scale
        normaliser = (
            gammaln((self.df + 1) / 2) - gammaln(self.df / 2) - 0.5 * jnp.log(jnp.pi * self.df) - jnp.log(self.scale)
        )
        return normaliser - (self.df + 1) / 2 * jnp.log1p(distance**2 / self.df)

    def expected_log_density(
        self, values: PerRow, mean: PerRow, variance: PerRow, extra: RowExtras = NO_EXTRAS
    ) -> PerRow:
        width = 2 * self.scale * jnp.sqrt(self.df)
        return expect_around(lambda f: self.log_density(values, f, extra), mean, variance, values, width)

    def predict(self, mean: PerRow, variance: PerRow, extra: RowExtras = NO_EXTRAS) -> tuple[PerRow, PerRow]:
        df = jnp.asarray(self.df)
        noise = jnp.where(df > 2, self.scale**2 * df / jnp.where(df > 2, df - 2, 1.0), jnp.inf)
        return jnp.where(df > 1, mean, jnp.nan), jnp.where(df > 1, variance + noise, jnp.nan)

    def quantile(
        self, probability: Probability, mean: PerRow, variance: PerRow, extra: RowExtras = NO_EXTRAS
    ) -> Float[np.ndarray, " row"]:
        scale, df = np.asarray(self.scale), np.asarray(self.df)

        def cumulative(values: np.ndarray, f: np.ndarray, rows: np.ndarray) -> np.ndarray:
            return scipy.special.stdtr(df, (values - f) / scale)

        def bend(values: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            return values, np.broadcast_to(scale, values.shape)

        step = np.sqrt(np.asarray(variance)) + scale
        # The identity: values are found as they are.
        return invert(mixed(cumulative, bend, mean, variance), probability, np.asarray(mean), step, np.asarray)

    def sample(
        self, seed: int | np.random.Generator, f: Float[AnyArray, "*sample row"], extra: RowExtras = NO_EXTRAS
    ) -> Float[np.ndarray, "*sample row"]:
        noise = np.random.default_rng(seed).standard_t(np.asarray(self.df), size=f.shape)
        return np.asarray(f) + np.asarray(self.scale) * noise

    def initial(self, values: PerRow, extra: RowExtras = NO_EXTRAS) -> tuple[PerRow, PerRow]:
        return jnp.asarray(values), jnp.broadcast_to(1 / self.scale**2, values.shape)
