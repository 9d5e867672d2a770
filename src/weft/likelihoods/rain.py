# SPDX-License-Identifier: MIT
"""Amounts that are often zero and else skewed: rain, catches, discharges of streams that fall dry."""

from collections.abc import Callable
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from weft.arrays import AnyArray
from weft.domains import positive
from weft.likelihoods.base import Likelihood
from weft.likelihoods.censored import expected_log_below, log_below
from weft.likelihoods.mixture import normal_quantile
from weft.likelihoods.rows import NO_EXTRAS, PerRow, Probability, RowExtras, Support

# Nodes over the part of a normal distribution above zero, and how many deviations of it they reach.
_NUM_NODES = 96
_REACH = 12.0


class Rain(Likelihood):
    """value = max(f + noise, 0)^power with noise ~ N(0, variance): zero where f + noise is negative, else skewed.

    A censored normal variable under a power, as is usual for daily rain (Bardossy & Plate 1992, Allcroft & Glasbey 2003): the same
    field says whether it rains and how much, so that dry places are where little would fall. `power` and `variance` are learned.
    """

    support: ClassVar[Support] = Support.NON_NEGATIVE
    uses: ClassVar[tuple[str, ...]] = ()
    variance: Float[AnyArray, ""] = positive(default=1.0)
    power: Float[AnyArray, ""] = positive(default=2.0)

    def log_density(self, values: PerRow, f: PerRow, extra: RowExtras = NO_EXTRAS) -> PerRow:
        root, log_slope = self._root(values)
        wet = -0.5 * (jnp.log(2 * jnp.pi * self.variance) + (root - f) ** 2 / self.variance) + log_slope
        return jnp.where(values == 0, log_below(0.0, f, jnp.sqrt(self.variance)), wet)

    def expected_log_density(
        self, values: PerRow, mean: PerRow, variance: PerRow, extra: RowExtras = NO_EXTRAS
    ) -> PerRow:
        sd = jnp.broadcast_to(jnp.sqrt(self.variance), mean.shape)
        dry = expected_log_below(jnp.zeros(mean.shape), mean, variance, sd)
        wet = self.log_density(jnp.where(values == 0, 1.0, values), mean, extra) - 0.5 * variance / self.variance
        return jnp.where(values == 0, dry, wet)

    def predict(self, mean: PerRow, variance: PerRow, extra: RowExtras = NO_EXTRAS) -> tuple[PerRow, PerRow]:
        return _moments(mean, variance + self.variance, self.power)

    def quantile(
        self, probability: Probability, mean: PerRow, variance: PerRow, extra: RowExtras = NO_EXTRAS
    ) -> Float[np.ndarray, " row"]:
        # A growing function of a normal variable.
        return self._shown(normal_quantile(probability, mean, np.asarray(variance) + np.asarray(self.variance)))

    def sample(
        self, seed: int | np.random.Generator, f: Float[AnyArray, "*sample row"], extra: RowExtras = NO_EXTRAS
    ) -> Float[np.ndarray, "*sample row"]:
        return self._shown(np.random.default_rng(seed).normal(np.asarray(f), np.sqrt(np.asarray(self.variance))))

    def initial(self, values: PerRow, extra: RowExtras = NO_EXTRAS) -> tuple[PerRow, PerRow]:
        root, _ = self._root(values)
        precision = jnp.broadcast_to(1 / self.variance, values.shape)
        dry = jnp.asarray(values == 0)
        return jnp.where(dry, -jnp.sqrt(self.variance), root), jnp.where(dry, 0.5, 1.0) * precision

    def _shown(self, latent: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        return np.maximum(latent, 0.0) ** np.asarray(self.power)

    def _root(self, values: PerRow) -> tuple[PerRow, PerRow]:
        """value^(1 / power) and the logarithm of its derivative; of 1 where the value is 0, for the gradient's sake."""
        log_values = jnp.log(jnp.where(values == 0, 1.0, values))
        root = jnp.exp(log_values / self.power)
        return root, log_values / self.power - log_values - jnp.log(self.power)


# Compiled here, once a shape: called as it stands, the loop over nodes would be compiled anew at each call.
@jax.jit
def _moments(mean: PerRow, total: PerRow, power: Float[AnyArray, ""]) -> tuple[PerRow, PerRow]:
    """Mean and variance of max(x, 0)^power with x ~ N(mean, total)."""
    expected = _above_zero(lambda x: x**power, mean, total)
    wet = _above_zero(lambda x: (x**power - expected) ** 2, mean, total)
    dry = jnp.exp(log_below(0.0, mean, jnp.sqrt(total)))
    return expected, wet + dry * expected**2


def _above_zero(
    function: Callable[[AnyArray], AnyArray], mean: Float[Array, " row"], variance: Float[Array, " row"]
) -> Float[Array, " row"]:
    """E function(x) over the part of x ~ N(mean, variance) that is above 0."""
    sd = jnp.sqrt(variance)
    lowest = jnp.sqrt(jnp.maximum(mean - _REACH * sd, 0.0))
    highest = jnp.sqrt(jnp.maximum(mean + _REACH * sd, sd))
    positions, weights = np.polynomial.legendre.leggauss(_NUM_NODES)

    # In the root of x, in which a power of it is smooth at 0 too.
    def add(total: Array, node: tuple[Array, Array]) -> tuple[Array, None]:
        position, weight = node
        root = lowest + (highest - lowest) * 0.5 * (1 + position)
        density = jnp.exp(-0.5 * ((root**2 - mean) / sd) ** 2) / (sd * np.sqrt(2 * np.pi))
        return total + weight * (highest - lowest) * root * density * function(root**2), None

    found, _ = jax.lax.scan(add, jnp.zeros(mean.shape), (jnp.asarray(positions), jnp.asarray(weights)))
    return found
