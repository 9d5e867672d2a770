# SPDX-License-Identifier: MIT
"""State-space forms of the kernels that have one, each of unit variance and with a latent state free of units.

Derivatives in the state are divided by powers of the kernel's own rate, so the stationary covariance has entries of
order one and no lengthscale, however small or large, under- or overflows; the matrices depend on rate * step alone.
"""

import functools
import math
from fractions import Fraction
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from weft.arrays import AnyArray
from weft.domains import positive, real
from weft.kernels.base import Kernel, StateSpace
from weft.kernels.distances import phase


def one_time_parameter(kernel: Kernel, name: str) -> Float[AnyArray, ""]:
    """Parameter `name` of a kernel used in time, which has one column."""
    value = getattr(kernel, name)
    if value.shape not in ((), (1,)):
        raise ValueError(
            f"{type(kernel).__name__}: a {name} per column (there are {value.size}) has no state-space form; "
            f"time is one column, so give one {name}"
        )
    return value.reshape(())


class MaternPolynomials(NamedTuple):
    """What builds the Matern matrices: coefficients of polynomials in u = decay * step, and constants."""

    drift: Float[np.ndarray, "latent latent"]
    intensity: Float[np.ndarray, ""]
    transition: Float[np.ndarray, "power latent latent"]
    process_noise: Float[np.ndarray, "power latent latent"]
    covariance: Float[np.ndarray, "latent latent"]


@functools.cache
def matern_polynomials(order: int) -> MaternPolynomials:
    """With x = (f, f', ...) and time in units of 1/decay, in exact fractions:

    dx = F x dt + noise with (F + I) nilpotent, so
        A(u) = exp(-u) sum_k (F + I)^k u^k / k!
        P_ij = (-1)^((i-j)/2) E[w^(i+j)] for w with density proportional to (1 + w^2)^-(order+1), 0 for odd i + j
        A P A' = exp(-2u) R(u),    R a polynomial matrix of degree 2 order
        Q(u) = P - exp(-2u) R(u) = exp(-2u) (P exp(2u) - R(u)) = exp(-2u) C(u) + P gamma_tail(2 order, 2u),
    where C is the part of P exp(2u) - R(u) up to degree 2 order: the powers that cancel on short steps cancel here,
    exactly.
    """
    # Object arrays of integers and fractions: NumPy multiplies them exactly.
    size = order + 1
    shifted = np.eye(size, dtype=int).astype(object) + np.eye(size, k=1, dtype=int)
    shifted[-1] -= [math.comb(size, j) for j in range(size)]
    powers = [np.eye(size, dtype=int).astype(object)]
    for k in range(1, size):
        powers.append(powers[-1] @ shifted * Fraction(1, k))

    moments = [Fraction(1)]
    for k in range(1, size):
        moments.append(moments[-1] * Fraction(2 * k - 1, 2 * order + 1 - 2 * k))
    stationary = np.zeros((size, size), dtype=int).astype(object)
    for i in range(size):
        for j in range(i % 2, size, 2):
            stationary[i, j] = (-1) ** (abs(i - j) // 2) * moments[(i + j) // 2]

    noise = [stationary * Fraction(2**k, math.factorial(k)) for k in range(2 * order + 1)]
    for k, left in enumerate(powers):
        for m, right in enumerate(powers):
            noise[k + m] = noise[k + m] - left @ stationary @ right.T
    drift = shifted - powers[0]
    # F P + P F' + noise = 0, and the noise is in the last state alone.
    intensity = -2 * (drift @ stationary)[-1, -1]
    tables = (drift, intensity, powers, noise, stationary)
    return MaternPolynomials(*(np.array(table, dtype=np.float64) for table in tables))


def polynomial(coefficients: Float[np.ndarray, "power row column"], u: Float[Array, ""]) -> Float[Array, "row column"]:
    """sum_k coefficients[k] u^k by Horner's rule."""
    value = jnp.zeros(coefficients.shape[1:])
    for coefficient in coefficients[::-1]:
        value = value * u + coefficient
    return value


def gamma_tail(degree: int, x: Float[Array, ""]) -> Float[Array, ""]:
    """exp(-x) sum_(k > degree) x^k / k!, to full relative precision for every x >= 0.

    It is the regularised incomplete gamma function P(degree + 1, x).
    """
    if degree == 0:
        return -jnp.expm1(-x)
    # Past this point the difference from 1 costs less than a digit; before it, 30 terms reach the last bit.
    threshold = 1.0 + (degree + 1) / 2
    few = jnp.minimum(x, threshold)
    series = head = jnp.ones_like(x)
    for k in range(30, 0, -1):
        series = 1.0 + series * few / (degree + 1 + k)
    short = jnp.exp(-few) * few ** (degree + 1) / math.factorial(degree + 1) * series
    for k in range(degree, 0, -1):
        head = 1.0 + head * x / k
    return jnp.where(x < threshold, short, 1.0 - jnp.exp(-x) * head)


# exp(-1000) is 0; without a cap, an endless step would give 0 times infinity.
ENDLESS = 1000.0


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def matern_transition(order: int, u: Float[Array, ""]) -> Float[Array, "latent latent"]:
    capped = jnp.minimum(u, ENDLESS)
    return jnp.exp(-capped) * polynomial(matern_polynomials(order).transition, capped)


@matern_transition.defjvp
def matern_transition_jvp(order: int, primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (u,), (tangent,) = primals, tangents
    transition = matern_transition(order, u)
    return transition, tangent * (jnp.asarray(matern_polynomials(order).drift) @ transition)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def matern_process_noise(order: int, u: Float[Array, ""]) -> Float[Array, "latent latent"]:
    table, capped = matern_polynomials(order), jnp.minimum(u, ENDLESS)
    tail = gamma_tail(2 * order, 2 * capped)
    return jnp.exp(-2 * capped) * polynomial(table.process_noise, capped) + tail * jnp.asarray(table.covariance)


@matern_process_noise.defjvp
def matern_process_noise_jvp(order: int, primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    # The noise enters through the last state: dQ/du is its intensity times a a', a being the last column of A.
    (u,), (tangent,) = primals, tangents
    driven = matern_transition(order, u)[:, -1]
    rate = matern_polynomials(order).intensity * jnp.outer(driven, driven)
    return matern_process_noise(order, u), tangent * rate


class MaternForm(StateSpace):
    """Matern of smoothness order + 1/2: the process and its first `order` derivatives, the k-th divided by decay^k.

    Hartikainen & Sarkka (2010), with the noise of a step in closed form.
    """

    order: int = eqx.field(static=True)
    decay: Float[AnyArray, ""] = positive()

    @property
    def size(self) -> int:
        return self.order + 1

    @property
    def reversal(self) -> tuple[float, ...]:
        return tuple((-1.0) ** k for k in range(self.size))

    @property
    def readout(self) -> Float[Array, " latent"]:
        return jnp.eye(self.size)[0]

    def covariance(self, time: Float[Array, ""]) -> Float[Array, "latent latent"]:
        return jnp.asarray(matern_polynomials(self.order).covariance)

    def transition(self, step: Float[Array, ""]) -> Float[Array, "latent latent"]:
        return matern_transition(self.order, self.decay * step)

    def process_noise(self, step: Float[Array, ""]) -> Float[Array, "latent latent"]:
        return matern_process_noise(self.order, self.decay * step)


class CosineForm(StateSpace):
    """A wave of fixed period: the process and its quarter-period shift, turning without noise."""

    period: Float[AnyArray, ""] = positive()

    @property
    def size(self) -> int:
        return 2

    @property
    def reversal(self) -> tuple[float, ...]:
        return (1.0, -1.0)

    @property
    def readout(self) -> Float[Array, " latent"]:
        return jnp.array([1.0, 0.0])

    def covariance(self, time: Float[Array, ""]) -> Float[Array, "latent latent"]:
        return jnp.eye(2)

    def transition(self, step: Float[Array, ""]) -> Float[Array, "latent latent"]:
        angle = phase(step, self.period)
        return jnp.array([[jnp.cos(angle), -jnp.sin(angle)], [jnp.sin(angle), jnp.cos(angle)]])

    def process_noise(self, step: Float[Array, ""]) -> Float[Array, "latent latent"]:
        return jnp.zeros((2, 2))


class ConstantForm(StateSpace):
    """A constant: it stays what it is."""

    @property
    def size(self) -> int:
        return 1

    @property
    def reversal(self) -> tuple[float, ...]:
        return (1.0,)

    @property
    def readout(self) -> Float[Array, " latent"]:
        return jnp.ones(1)

    def covariance(self, time: Float[Array, ""]) -> Float[Array, "latent latent"]:
        return jnp.ones((1, 1))

    def transition(self, step: Float[Array, ""]) -> Float[Array, "latent latent"]:
        return jnp.ones((1, 1))

    def process_noise(self, step: Float[Array, ""]) -> Float[Array, "latent latent"]:
        return jnp.zeros((1, 1))


class LinearForm(StateSpace):
    """A straight line through 0 at `centre`: its value and its slope, which has unit variance; no noise."""

    centre: Float[AnyArray, ""] = real()

    @property
    def size(self) -> int:
        return 2

    @property
    def reversal(self) -> None:
        return None

    @property
    def readout(self) -> Float[Array, " latent"]:
        return jnp.array([1.0, 0.0])

    def covariance(self, time: Float[Array, ""]) -> Float[Array, "latent latent"]:
        loading = jnp.stack([time - self.centre, jnp.ones(())])
        return jnp.outer(loading, loading)

    def transition(self, step: Float[Array, ""]) -> Float[Array, "latent latent"]:
        one = jnp.ones(())
        return jnp.array([[one, step], [0 * one, one]])

    def process_noise(self, step: Float[Array, ""]) -> Float[Array, "latent latent"]:
        return jnp.zeros((2, 2))


class WienerForm(StateSpace):
    """Brownian motion from 0 at `origin`; NaN before it, where it is not defined."""

    origin: Float[AnyArray, ""] = real()

    @property
    def size(self) -> int:
        return 1

    @property
    def reversal(self) -> None:
        return None

    @property
    def readout(self) -> Float[Array, " latent"]:
        return jnp.ones(1)

    def covariance(self, time: Float[Array, ""]) -> Float[Array, "latent latent"]:
        elapsed = time - self.origin
        return jnp.reshape(jnp.where(elapsed >= 0, elapsed, jnp.nan), (1, 1))

    def transition(self, step: Float[Array, ""]) -> Float[Array, "latent latent"]:
        return jnp.ones((1, 1))

    def process_noise(self, step: Float[Array, ""]) -> Float[Array, "latent latent"]:
        return jnp.reshape(step, (1, 1))
