# SPDX-License-Identifier: MIT
"""Yes or no."""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from weft.arrays import AnyArray
from weft.likelihoods.base import Likelihood
from weft.likelihoods.links import (
    check_link,
    expected_log_probability,
    inverse,
    log_probability,
    probability,
    probability_moments,
)
from weft.likelihoods.mixture import check_probability
from weft.likelihoods.rows import NO_EXTRAS, PerRow, Probability, RowExtras, Support


class Bernoulli(Likelihood):
    """1 with probability 1 / (1 + e^-f) (`link` "logit") or Phi(f) ("probit"), else 0."""

    support: ClassVar[Support] = Support.BINARY
    uses: ClassVar[tuple[str, ...]] = ()
    link: str = eqx.field(default="logit", static=True)

    def __check_init__(self) -> None:
        check_link(self.link)

    def log_density(self, values: PerRow, f: PerRow, extra: RowExtras = NO_EXTRAS) -> PerRow:
        return log_probability(self.link, (2 * values - 1) * f)

    def expected_log_density(
        self, values: PerRow, mean: PerRow, variance: PerRow, extra: RowExtras = NO_EXTRAS
    ) -> PerRow:
        return expected_log_probability(self.link, (2 * values - 1) * mean, variance)

    def predict(self, mean: PerRow, variance: PerRow, extra: RowExtras = NO_EXTRAS) -> tuple[PerRow, PerRow]:
        success, _ = probability_moments(self.link, mean, variance)
        return success, success * (1 - success)

    def quantile(
        self, probability: Probability, mean: PerRow, variance: PerRow, extra: RowExtras = NO_EXTRAS
    ) -> Float[np.ndarray, " row"]:
        failure, _ = probability_moments(self.link, -mean, variance)
        return np.where(np.asarray(failure) >= check_probability(probability), 0.0, 1.0)

    def sample(
        self, seed: int | np.random.Generator, f: Float[AnyArray, "*sample row"], extra: RowExtras = NO_EXTRAS
    ) -> Float[np.ndarray, "*sample row"]:
        uniform = np.random.default_rng(seed).uniform(size=f.shape)
        return (uniform < probability(self.link, f)).astype(np.float64)

    def initial(self, values: PerRow, extra: RowExtras = NO_EXTRAS) -> tuple[PerRow, PerRow]:
        fraction = 0.25 + 0.5 * jnp.asarray(values)
        mean, slope = inverse(self.link, fraction, jnp)
        return mean, 2 / (slope**2 * fraction * (1 - fraction))
