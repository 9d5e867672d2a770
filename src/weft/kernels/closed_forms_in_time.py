# SPDX-License-Identifier: MIT
"""State-space forms of built-in kernels at the steps of several series, and their slopes, in NumPy alone.

As `closed_forms`, for chains: the matrices are those of `weft.kernels.time` and `weft.kernels.periodic_in_time`, from the same tables.
"""

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Complex, Float
from scipy.special import gammainc

from weft.arrays import is_concrete
from weft.kernels.base import Kernel, Scaled
from weft.kernels.closed_forms import KernelSlopes, phase_of, total
from weft.kernels.periodic_in_time import FURTHER, harmonics
from weft.kernels.stationary import Constant, Cosine, Matern12, Matern32, Matern52, Matern72, Periodic
from weft.kernels.time import ENDLESS, matern_polynomials
from weft.kernels.trends import Wiener

__all__ = ["ChainForm", "ChainMatrices", "closed_chain", "has_closed_chain"]

# Of a number of order one; its square is nothing beside 1, so that an imaginary step this long is exact.
_IMAGINARY = 1e-30


class ChainMatrices(NamedTuple):
    """Matrices of a chain by distinct step, block by block, with the variances of its readout at every time; or slopes in all these."""

    transition: Float[np.ndarray, "block step latent latent"]
    process_noise: Float[np.ndarray, "block step latent latent"]
    initial: Float[np.ndarray, "block latent latent"]
    readout: Float[np.ndarray, "block latent"]
    variances: Float[np.ndarray, "block time"]


class ChainForm(NamedTuple):
    """The chain of a kernel of time, and how slopes in its matrices become slopes in the kernel's parameters."""

    matrices: ChainMatrices
    reversal: tuple[float, ...] | None
    pull_back: Callable[[ChainMatrices], KernelSlopes]


class _Grid(NamedTuple):
    steps: Float[np.ndarray, "block step"]
    times: Float[np.ndarray, "block time"]


def has_closed_chain(kernel: Kernel) -> bool:
    """Whether `closed_chain` knows this kernel; kinds derived from these may be anything."""
    if type(kernel) is Scaled:
        return has_closed_chain(kernel.kernel) and is_concrete(kernel.variance)
    return type(kernel) in _CHAINS and all(is_concrete(value) for value in vars(kernel).values())


def closed_chain(
    kernel: Kernel, steps: Float[np.ndarray, "block step"], times: Float[np.ndarray, "block time"]
) -> ChainForm:
    """Of the distinct steps between the times."""
    return _CHAINS[type(kernel)](kernel, _Grid(steps, times))


def _of_variance(kernel: Any, matrices: ChainMatrices, slopes: ChainMatrices) -> Float[np.ndarray, "block ..."]:
    """Slopes in a kernel's variance, whose root scales the readout of its stationary chain."""
    found = total(_to_readout(matrices, slopes), matrices.readout) / (2 * float(np.asarray(kernel.variance)))
    return found.reshape((-1, *np.shape(kernel.variance)))


def _to_readout(matrices: ChainMatrices, slopes: ChainMatrices) -> Float[np.ndarray, "block latent"]:
    """Slopes in the readout h, those through the variance h' P h included."""
    through = 2 * np.einsum("bij,bj->bi", matrices.initial, matrices.readout)
    return slopes.readout + through * slopes.variances.sum(axis=1)[:, None]


def _stationary(
    grid: _Grid,
    transition: Float[np.ndarray, "block step latent latent"],
    process_noise: Float[np.ndarray, "block step latent latent"],
    covariance: Float[np.ndarray, "latent latent"],
    readout: Float[np.ndarray, " latent"],
) -> ChainMatrices:
    num_blocks = len(grid.steps)
    return ChainMatrices(
        transition,
        process_noise,
        np.broadcast_to(covariance, (num_blocks, *covariance.shape)),
        np.broadcast_to(readout, (num_blocks, *readout.shape)),
        np.full(grid.times.shape, readout @ covariance @ readout),
    )


def _polynomial(
    coefficients: Float[np.ndarray, "power row column"], u: Float[np.ndarray, "block step"]
) -> Float[np.ndarray, "block step row column"]:
    value = np.zeros((*u.shape, *coefficients.shape[1:]))
    for coefficient in coefficients[::-1]:
        value = value * u[:, :, None, None] + coefficient
    return value


def _matern(order: int) -> Callable[[Any, _Grid], ChainForm]:
    """See `matern_polynomials`: dA/du = F A, and dQ/du the intensity times a a' with a the last column of A."""

    def form(kernel: Any, grid: _Grid) -> ChainForm:
        table = matern_polynomials(order)
        lengthscale = float(np.asarray(kernel.lengthscale).reshape(()))
        decay = math.sqrt(2 * order + 1) / lengthscale
        u = np.minimum(decay * grid.steps, ENDLESS)
        transition = np.exp(-u)[:, :, None, None] * _polynomial(table.transition, u)
        # The tail of the exponential series, the regularised incomplete gamma function, keeps the digits of short steps.
        tail = gammainc(2 * order + 1, 2 * u)
        process_noise = (
            np.exp(-2 * u)[:, :, None, None] * _polynomial(table.process_noise, u)
            + tail[:, :, None, None] * table.covariance
        )
        readout = math.sqrt(float(np.asarray(kernel.variance))) * np.eye(order + 1)[0]
        matrices = _stationary(grid, transition, process_noise, table.covariance, readout)

        def pull_back(slopes: ChainMatrices) -> KernelSlopes:
            last = transition[:, :, :, -1]
            by_u = np.einsum("bsij,bsij->bs", slopes.transition, table.drift @ transition)
            by_u += table.intensity * np.einsum("bsij,bsi,bsj->bs", slopes.process_noise, last, last)
            of_lengthscale = -decay / lengthscale * total(by_u, grid.steps)
            return SimpleNamespace(
                lengthscale=of_lengthscale.reshape((-1, *np.shape(kernel.lengthscale))),
                variance=_of_variance(kernel, matrices, slopes),
            )

        return ChainForm(matrices, tuple((-1.0) ** k for k in range(order + 1)), pull_back)

    return form


def _constant(kernel: Constant, grid: _Grid) -> ChainForm:
    still = np.ones((*grid.steps.shape, 1, 1))
    readout = np.array([math.sqrt(float(np.asarray(kernel.variance)))])
    matrices = _stationary(grid, still, np.zeros_like(still), np.ones((1, 1)), readout)

    def pull_back(slopes: ChainMatrices) -> KernelSlopes:
        return SimpleNamespace(variance=_of_variance(kernel, matrices, slopes))

    return ChainForm(matrices, (1.0,), pull_back)


def _periodic(kernel: Periodic, grid: _Grid) -> ChainForm:
    period, size = float(np.asarray(kernel.period).reshape(())), 2 * kernel.order + 1
    harmonic, quarter_turn = harmonics(kernel.order)
    angle = phase_of(grid.steps, period)[:, :, None] * harmonic
    cosine, sine = np.cos(angle), np.sin(angle)
    each = np.eye(size)
    transition = cosine[:, :, :, None] * each + sine[:, :, :, None] * quarter_turn
    unscaled = _wave_readout(complex(float(np.asarray(kernel.lengthscale).reshape(())), _IMAGINARY), kernel.order)
    deviation = math.sqrt(float(np.asarray(kernel.variance)))
    matrices = _stationary(grid, transition, np.zeros_like(transition), each, deviation * unscaled.real)

    def pull_back(slopes: ChainMatrices) -> KernelSlopes:
        of_readout = _to_readout(matrices, slopes)
        # d angle / d period = -2 pi step / period^2, however many turns came off.
        faster = (-2 * np.pi / period**2) * grid.steps[:, :, None] * harmonic
        turned = -sine[:, :, :, None] * each + cosine[:, :, :, None] * quarter_turn
        of_period = np.einsum("bsij,bsij,bsi->b", slopes.transition, turned, faster)
        of_lengthscale = of_readout @ (deviation * unscaled.imag / _IMAGINARY)
        return SimpleNamespace(
            period=of_period.reshape((-1, *np.shape(kernel.period))),
            lengthscale=of_lengthscale.reshape((-1, *np.shape(kernel.lengthscale))),
            variance=_of_variance(kernel, matrices, slopes),
        )

    return ChainForm(matrices, (1.0, *(1.0, -1.0) * kernel.order), pull_back)


def _cosine(kernel: Cosine, grid: _Grid) -> ChainForm:
    period = float(np.asarray(kernel.period).reshape(()))
    angle = phase_of(grid.steps, period)
    cosine, sine = np.cos(angle), np.sin(angle)
    transition = _rotations(cosine, sine)
    readout = math.sqrt(float(np.asarray(kernel.variance))) * np.eye(2)[0]
    matrices = _stationary(grid, transition, np.zeros_like(transition), np.eye(2), readout)

    def pull_back(slopes: ChainMatrices) -> KernelSlopes:
        faster = (-2 * np.pi / period**2) * grid.steps
        of_period = np.einsum("bsij,bsij,bs->b", slopes.transition, _rotations(-sine, cosine), faster)
        return SimpleNamespace(
            period=of_period.reshape((-1, *np.shape(kernel.period))), variance=_of_variance(kernel, matrices, slopes)
        )

    return ChainForm(matrices, (1.0, -1.0), pull_back)


def _rotations(
    cosine: Float[np.ndarray, "block step"], sine: Float[np.ndarray, "block step"]
) -> Float[np.ndarray, "block step 2 2"]:
    return np.stack([np.stack([cosine, -sine], axis=-1), np.stack([sine, cosine], axis=-1)], axis=-2)


def _wave_readout(lengthscale: complex, order: int) -> Complex[np.ndarray, " latent"]:
    """See `PeriodicForm.readout`; of a complex number, so that its imaginary part is the derivative."""
    x, last = 1 / lengthscale**2, order + FURTHER
    ratio = x / (last - 0.5 + np.sqrt(last**2 - 0.25 + x**2))
    ratios = np.empty(order, dtype=np.complex128)
    for j in range(last - 1, 0, -1):
        ratio = x / (2 * j + x * ratio)
        if j <= order:
            ratios[j - 1] = ratio
    amplitudes = np.sqrt(2.0) * np.cumprod(np.sqrt(ratios))
    unscaled = np.concatenate([np.ones(1), np.stack([amplitudes, np.zeros(order)], axis=1).reshape(-1)])
    return unscaled / np.sqrt(np.sum(unscaled**2))


def _wiener(kernel: Wiener, grid: _Grid) -> ChainForm:
    variance, origin = float(np.asarray(kernel.variance)), float(np.asarray(kernel.origin))
    elapsed = np.where(grid.times >= origin, grid.times - origin, np.nan)
    num_blocks = len(grid.times)
    matrices = ChainMatrices(
        np.ones((*grid.steps.shape, 1, 1)),
        grid.steps[:, :, None, None],
        elapsed[:, :1, None],
        np.full((num_blocks, 1), math.sqrt(variance)),
        variance * elapsed,
    )

    def pull_back(slopes: ChainMatrices) -> KernelSlopes:
        of_readout = slopes.readout[:, 0] * math.sqrt(variance) / (2 * variance)
        return SimpleNamespace(
            variance=of_readout + total(slopes.variances, elapsed),
            origin=-slopes.initial[:, 0, 0] - variance * slopes.variances.sum(axis=1),
        )

    return ChainForm(matrices, None, pull_back)


def _scaled(kernel: Scaled, grid: _Grid) -> ChainForm:
    inner, variance = closed_chain(kernel.kernel, *grid), float(np.asarray(kernel.variance))
    deviation, own = math.sqrt(variance), inner.matrices
    matrices = own._replace(readout=deviation * own.readout, variances=variance * own.variances)

    def pull_back(slopes: ChainMatrices) -> KernelSlopes:
        scaled = slopes._replace(readout=deviation * slopes.readout, variances=variance * slopes.variances)
        of_readout = total(slopes.readout, own.readout) / (2 * deviation)
        return SimpleNamespace(
            kernel=inner.pull_back(scaled), variance=of_readout + total(slopes.variances, own.variances)
        )

    return ChainForm(matrices, inner.reversal, pull_back)


_CHAINS: dict[type, Callable[[Any, _Grid], ChainForm]] = {
    Matern12: _matern(0),
    Matern32: _matern(1),
    Matern52: _matern(2),
    Matern72: _matern(3),
    Constant: _constant,
    Periodic: _periodic,
    Cosine: _cosine,
    Wiener: _wiener,
    Scaled: _scaled,
}
