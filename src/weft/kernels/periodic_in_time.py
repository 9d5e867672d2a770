# SPDX-License-Identifier: MIT
"""The periodic kernel in time: its first harmonics, each a rotation."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from weft.arrays import AnyArray
from weft.domains import positive
from weft.kernels.base import StateSpace
from weft.kernels.distances import phase

# Further ratios than are asked for from which the recursion starts.
FURTHER = 200


def bessel_ratios(x: Float[Array, ""], count: int) -> Float[Array, " count"]:
    """I_j(x) / I_(j-1)(x) of modified Bessel functions for j = 1 to `count`.

    Backwards by I_(j-1) - I_(j+1) = (2 j / x) I_j, which damps the error of the start, an approximation for large x of
    the kind of Amos (1974). Right to the last digit for x up to 1500, and to nine digits beyond.
    """
    last = count + FURTHER
    start = x / (last - 0.5 + jnp.sqrt(last**2 - 0.25 + x**2))

    def previous(ratio: Float[Array, ""], j: Float[Array, ""]) -> tuple[Float[Array, ""], Float[Array, ""]]:
        ratio = x / (2 * j + x * ratio)
        return ratio, ratio

    _, ratios = jax.lax.scan(previous, start, jnp.arange(last - 1.0, 0.0, -1.0))
    return ratios[::-1][:count]


def harmonics(order: int) -> tuple[Float[np.ndarray, " latent"], Float[np.ndarray, "latent latent"]]:
    """The harmonic of each state, and what a quarter of a turn does to the states."""
    size = 2 * order + 1
    quarter_turn = np.zeros((size, size))
    for j in range(1, size, 2):
        quarter_turn[j, j + 1], quarter_turn[j + 1, j] = -1.0, 1.0
    return np.repeat(np.arange(order + 1.0), 2)[1:], quarter_turn


class PeriodicForm(StateSpace):
    """A constant and `order` pairs of a harmonic and its quarter-turn shift, of unit variance, turning without noise.

    exp(x (cos(angle) - 1)) = exp(-x) (I_0(x) + 2 sum_j I_j(x) cos(j angle)) with x = 1 / lengthscale^2 (Solin & Sarkka
    2014); the harmonics kept are scaled up together so that the variance is exactly 1.
    """

    order: int = eqx.field(static=True)
    period: Float[AnyArray, ""] = positive()
    lengthscale: Float[AnyArray, ""] = positive()

    @property
    def size(self) -> int:
        return 2 * self.order + 1

    @property
    def reversal(self) -> tuple[float, ...]:
        return (1.0, *(1.0, -1.0) * self.order)

    @property
    def readout(self) -> Float[Array, " latent"]:
        # Roots of the ratios, not of the products: those may underflow, where a root has no derivative.
        roots = jnp.sqrt(bessel_ratios(1 / jnp.asarray(self.lengthscale) ** 2, self.order))
        amplitudes = jnp.sqrt(2.0) * jnp.cumprod(roots)
        pairs = jnp.stack([amplitudes, jnp.zeros(self.order)], axis=1)
        unscaled = jnp.concatenate([jnp.ones(1), jnp.ravel(pairs)])
        return unscaled / jnp.linalg.norm(unscaled)

    def covariance(self, time: Float[Array, ""]) -> Float[Array, "latent latent"]:
        return jnp.eye(self.size)

    def transition(self, step: Float[Array, ""]) -> Float[Array, "latent latent"]:
        harmonic, quarter_turn = harmonics(self.order)
        angle = phase(step, self.period) * harmonic
        return jnp.diag(jnp.cos(angle)) + jnp.sin(angle)[:, None] * quarter_turn

    def process_noise(self, step: Float[Array, ""]) -> Float[Array, "latent latent"]:
        return jnp.zeros((self.size, self.size))
