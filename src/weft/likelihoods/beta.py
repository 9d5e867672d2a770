# SPDX-License-Identifier: MIT
"""Fractions strictly between zero and one."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jax.scipy.special import gammaln
from jaxtyping import Float

from weft.arrays import AnyArray
from weft.domains import positive
from weft.likelihoods.base import Likelihood
from weft.likelihoods.links import BEND_WIDTH, inverse, log_probability, probability_moments
from weft.likelihoods.mixture import invert, mixed
from weft.likelihoods.quadrature import expect_around
from weft.likelihoods.rows import NO_EXTRAS, PerRow, Probability, RowExtras, Support


class Beta(Likelihood):
    """A beta variable of mean mu = 1 / (1 + e^-f) and variance mu (1 - mu) / (1 + precision)."""

    support: ClassVar[Support] = Support.UNIT
    uses: ClassVar[tuple[str, ...]] = ()
    precision: Float[AnyArray, ""] = positive(default=1.0)

    def log_density(self, values: PerRow, f: PerRow, extra: RowExtras = NO_EXTRAS) -> PerRow:
        one, other = self.precision * jax.nn.sigmoid(f), self.precision * jax.nn.sigmoid(-f)
        log_values, log_rest = jnp.log(values), jnp.log1p(-values)
        # log Gamma(x) as log Gamma(1 + x) - log x, with log x from f: x itself is 0 far out.
        log_gammas = gammaln(1 + one) + gammaln(1 + other) - log_probability("logit", f) - log_probability("logit", -f)
        normaliser = gammaln(self.precision) + 2 * jnp.log(self.precision) - log_gammas
        return normaliser + one * log_values + other * log_rest - log_values - log_rest

    def expected_log_density(
        self, values: PerRow, mean: PerRow, variance: PerRow, extra: RowExtras = NO_EXTRAS
    ) -> PerRow:
        return expect_around(lambda f: self.log_density(values, f, extra), mean, variance, 0.0, BEND_WIDTH)

    def predict(self, mean: PerRow, variance: PerRow, extra: RowExtras = NO_EXTRAS) -> tuple[PerRow, PerRow]:
        expected, spread = probability_moments("logit", mean, variance)
        return expected, spread + (expected * (1 - expected) - spread) / (1 + self.precision)

    def quantile(
        self, probability: Probability, mean: PerRow, variance: PerRow, extra: RowExtras = NO_EXTRAS
    ) -> Float[np.ndarray, " row"]:
        precision = np.asarray(self.precision)

        def cumulative(values: np.ndarray, f: np.ndarray, rows: np.ndarray) -> np.ndarray:
            one, other = precision * scipy.special.expit(f), precision * scipy.special.expit(-f)
            return scipy.special.betainc(one, other, values)

        def bend(values: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            inside = np.clip(values, 1e-15, 1 - 1e-15)
            width = 1 / np.sqrt((1 + precision) * inside * (1 - inside))
            return scipy.special.logit(inside), np.minimum(width, 2.0)

        step = np.sqrt(np.asarray(variance) + 1 / precision)
        expit = scipy.special.expit
        return invert(mixed(cumulative, bend, mean, variance), probability, np.asarray(mean), step, expit)

    def sample(
        self, seed: int | np.random.Generator, f: Float[AnyArray, "*sample row"], extra: RowExtras = NO_EXTRAS
    ) -> Float[np.ndarray, "*sample row"]:
        precision, f = np.asarray(self.precision), np.asarray(f)
        one, other = precision * scipy.special.expit(f), precision * scipy.special.expit(-f)
        least = np.finfo(np.float64).tiny
        return np.random.default_rng(seed).beta(np.maximum(one, least), np.maximum(other, least))

    def initial(self, values: PerRow, extra: RowExtras = NO_EXTRAS) -> tuple[PerRow, PerRow]:
        mean, slope = inverse("logit", values, jnp)
        return mean, (1 + self.precision) / slope
