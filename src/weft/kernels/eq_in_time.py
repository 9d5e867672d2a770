# SPDX-License-Identifier: MIT
"""The EQ kernel in time: a chain of few states whose covariance is the Gaussian curve up to a small, known error.

A process with the EQ kernel and its derivatives, made orthonormal (Hermite polynomials in frequency), is an endless
chain: states k - 1 and k drive each other at rate sqrt(k), and none is damped. Cutting the chain after `order` states
and damping the last one gives

    dx = F x dt + noise on the last state,   F[k-1, k] = -F[k, k-1] = rate_k,   F[last, last] = -damping,

which has stationary covariance I for any positive rates (it is Schwarz's form of a rational spectral density without
zeros) and is therefore perfectly conditioned. `CHAINS` has the rates for which the largest covariance error over all
lags is smallest; they approach sqrt(k). Truncating the Taylor series of the reciprocal spectral density (Hartikainen &
Sarkka 2010; Sarkka & Piche 2014) gives chains of the same form with errors 30 times larger at order 6 and 170 times at
order 10.
"""

import functools
from fractions import Fraction
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from weft.arrays import AnyArray
from weft.domains import positive
from weft.kernels.base import StateSpace

# Rates between neighbours, then the damping, for lengthscale 1; by Remez exchange on exp(-lag^2 / 2), the error
# alternating between its two extremes `order` + 1 times.
CHAINS: dict[int, tuple[float, ...]] = {
    2: (1.25413396571, 1.89424058281),
    3: (1.0385934536, 2.10349709612, 3.25775253029),
    4: (1.00959765344, 1.54389014601, 2.97149135726, 4.72307150478),
    5: (1.00276736991, 1.45164319557, 2.0011120128, 3.87846039064, 6.27937716008),
    6: (1.00085286667, 1.42644681275, 1.81927154607, 2.45143781035, 4.82798192492, 7.91973241104),
    7: (1.00027227988, 1.41842841943, 1.76369503721, 2.16011541052, 2.90822350673, 5.82032290353, 9.63949046044),
    8: (
        *(1.00008873654, 1.41570278868, 1.7440569945, 2.06325904444),
        *(2.49199953622, 3.37697604847, 6.85495722919, 11.4353799896),
    ),
    9: (
        *(1.0000292964, 1.41474633543, 1.73669141255, 2.02604177729, 2.34449049061),
        *(2.82338901282, 3.86023482275, 7.9311479375, 13.3048953261),
    ),
    10: (
        *(1.00000975506, 1.41440529626, 1.73385620682, 2.01088250709, 2.28388085143),
        *(2.61728422341, 3.15877900156, 4.35920717778, 9.04806502816, 15.2458947096),
    ),
}

# Steps in lengthscales: up to the first, the noise is tabulated; up to the second, the transition; past the third, the
# transition is 0 in double precision.
SHORT, LONG, ENDLESS = 4, 16, 1024
# Fraction bits of the fixed-point tables: many more than doubles have, and more again for endless steps, over which the
# transition falls to 1e-308.
NEAR_BITS, FAR_BITS = 400, 1280


class Tables(NamedTuple):
    """The chain of lengthscale 1, right to the last bit: its matrices at multiples of `spacing`, series between."""

    drift: Float[np.ndarray, "latent latent"]
    spacing: float
    transition_series: Float[np.ndarray, "power latent latent"]
    noise_series: Float[np.ndarray, "power latent latent"]
    near_transition: Float[np.ndarray, "near latent latent"]
    near_noise: Float[np.ndarray, "short latent latent"]
    far_transition: Float[np.ndarray, "far latent latent"]


@functools.cache
def tables(order: int) -> Tables:
    *rates, damping = CHAINS[order]
    drift = np.diag(rates, 1) - np.diag(rates, -1)
    drift[-1, -1] = -damping
    # Short enough for a series without cancellation; a power of two, so that what is left of a step is exact.
    halvings = int(np.ceil(np.log2(np.linalg.norm(drift, 2) / 1.5)))
    per_unit = 2**halvings

    transition_series, noise_series = [np.eye(order)], [np.zeros((order, order))]
    derivative = np.zeros((order, order))
    derivative[-1, -1] = 2 * damping
    # The slowest entry of the noise begins at power 2 order - 1; 24 more reach the last bit.
    for power in range(1, 2 * order + 24):
        transition_series.append(transition_series[-1] @ drift / power)
        noise_series.append(derivative / power)
        derivative = drift @ noise_series[-1] + noise_series[-1] @ drift.T

    near = fixed_point_powers(fixed_point_exponential(drift, per_unit, NEAR_BITS), LONG * per_unit, NEAR_BITS)
    far = fixed_point_powers(near[-1] * 2 ** (FAR_BITS - NEAR_BITS), ENDLESS // LONG, FAR_BITS)
    noise = [near[0] - (matrix @ matrix.T) // 2**NEAR_BITS for matrix in near[: SHORT * per_unit + 1]]
    return Tables(
        drift=drift,
        spacing=1.0 / per_unit,
        transition_series=np.array(transition_series),
        noise_series=np.array(noise_series),
        near_transition=as_floats(near[:-1], NEAR_BITS),
        near_noise=as_floats(noise, NEAR_BITS),
        far_transition=as_floats(far, FAR_BITS),
    )


def fixed_point_exponential(drift: Float[np.ndarray, "latent latent"], per_unit: int, bits: int) -> np.ndarray:
    """exp(drift / per_unit) in whole multiples of 2^-bits, by its series."""
    exact = np.array([[int(Fraction(entry) * 2**bits) for entry in row] for row in drift], dtype=object)
    term = total = fixed_point_identity(drift.shape[0], bits)
    power = 0
    # Floor division never gets from -1 to 0.
    while np.any(np.abs(term) > 1):
        power += 1
        term = (term @ exact) // (2**bits * per_unit * power)
        total = total + term
    return total


def fixed_point_powers(matrix: np.ndarray, count: int, bits: int) -> list[np.ndarray]:
    """Powers 0 to `count` of a fixed-point matrix."""
    powers = [fixed_point_identity(matrix.shape[0], bits)]
    for _ in range(count):
        powers.append((powers[-1] @ matrix) // 2**bits)
    return powers


def fixed_point_identity(size: int, bits: int) -> np.ndarray:
    return np.eye(size, dtype=int).astype(object) * 2**bits


def as_floats(matrices: list[np.ndarray], bits: int) -> Float[np.ndarray, "matrix latent latent"]:
    return np.array(np.stack(matrices) / 2**bits, dtype=np.float64)


def split(table: Tables, u: Float[Array, ""]) -> tuple[Int[Array, ""], Float[Array, ""]]:
    """How many whole spacings a step of `u` lengthscales has, and the rest."""
    number = jnp.floor(u / table.spacing)
    return number.astype(jnp.int32), u - number * table.spacing


def power_series(
    coefficients: Float[np.ndarray, "power latent latent"], u: Float[Array, ""]
) -> Float[Array, "latent latent"]:
    return jnp.einsum("k,kij->ij", u ** np.arange(float(len(coefficients))), coefficients)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def transition_over(order: int, u: Float[Array, ""]) -> Float[Array, "latent latent"]:
    """exp(F u), from the tables at the multiple of the spacing before u and the series for the rest."""
    table = tables(order)
    number, rest = split(table, jnp.minimum(u, ENDLESS))
    far, near = jnp.divmod(number, table.near_transition.shape[0])
    begun = jnp.asarray(table.far_transition)[far] @ jnp.asarray(table.near_transition)[near]
    return begun @ power_series(table.transition_series, rest)


@transition_over.defjvp
def transition_over_jvp(order: int, primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (u,), (tangent,) = primals, tangents
    transition = transition_over(order, u)
    return transition, tangent * (jnp.asarray(tables(order).drift) @ transition)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def process_noise_over(order: int, u: Float[Array, ""]) -> Float[Array, "latent latent"]:
    """The integral of 2 damping a a' over [0, u], a being the last column of exp(F s)."""
    table = tables(order)
    number, rest = split(table, jnp.minimum(u, SHORT))
    begun = jnp.asarray(table.near_transition)[number]
    added = begun @ power_series(table.noise_series, rest) @ begun.T
    # On long steps nothing cancels on the diagonal, and off it this difference is exact.
    transition = transition_over(order, u)
    remainder = jnp.eye(order) - transition @ transition.T
    return jnp.where(u < SHORT, jnp.asarray(table.near_noise)[number] + added, remainder)


@process_noise_over.defjvp
def process_noise_over_jvp(order: int, primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    # Not F Q + Q F' + noise, which cancels.
    (u,), (tangent,) = primals, tangents
    driven = transition_over(order, u)[:, -1]
    return process_noise_over(order, u), tangent * 2 * CHAINS[order][-1] * jnp.outer(driven, driven)


class EQForm(StateSpace):
    """The chain of `order` states whose covariance is nearest exp(-(lag / lengthscale)^2 / 2).

    Every entry of the process noise on a step below one lengthscale is right to 12 digits of its own; on longer steps
    to 12 digits of the noise's standard deviations, as is the transition of its largest entry.
    """

    order: int = eqx.field(static=True)
    lengthscale: Float[AnyArray, ""] = positive()

    @property
    def size(self) -> int:
        return self.order

    @property
    def reversal(self) -> tuple[float, ...]:
        return tuple((-1.0) ** k for k in range(self.order))

    @property
    def readout(self) -> Float[Array, " latent"]:
        return jnp.eye(self.order)[0]

    def covariance(self, time: Float[Array, ""]) -> Float[Array, "latent latent"]:
        return jnp.eye(self.order)

    def transition(self, step: Float[Array, ""]) -> Float[Array, "latent latent"]:
        return transition_over(self.order, step / self.lengthscale)

    def process_noise(self, step: Float[Array, ""]) -> Float[Array, "latent latent"]:
        return process_noise_over(self.order, step / self.lengthscale)
