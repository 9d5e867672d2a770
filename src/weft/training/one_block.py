# SPDX-License-Identifier: MIT
"""The exact log evidence of one block of rows from what its kernels are there, and its slopes in that.

The cpu engine's sweeps and the matrix over the rows are called as the plain functions that they are, and what is around them has its
derivative by hand: as a compiled program, each model that is tried would take longer to compile than to learn. Other engines, which
know JAX alone, get a program.
"""

import dataclasses
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs

from weft.arrays import AnyArray
from weft.engines.base import Engine
from weft.engines.cpu import CpuEngine
from weft.engines.cpu.problem import Problem, make_problem
from weft.engines.cpu.series import BySweeps
from weft.inference.sites import NOISE_FLOOR
from weft.kernels.closed_forms import lower_triangle
from weft.state_space.chain import Chain, ComponentChain, Rows
from weft.training.padding import PaddedBlock

__all__ = ["AlongChain", "ChainPieces", "InChain", "InMatrix", "MatrixPieces", "Pieces", "value_and_slopes", "value_of"]


class InChain(NamedTuple):
    """A kernel of space where places are states of a chain: weights of places on its factor or features, and its variances."""

    weights: Float[AnyArray, "*block place _"]
    variances: Float[AnyArray, "*block place"]


class AlongChain(NamedTuple):
    """A kernel of time as a chain, and its variances."""

    chain: ComponentChain
    variances: Float[AnyArray, "*block time"]


class InMatrix(NamedTuple):
    """A kernel of space or time at each row with itself and every row before it, as `EachWithEach` has them."""

    pairs: Float[AnyArray, "*block pair"]


class ChainPieces(NamedTuple):
    """What a model is at the places and times of a block, or of several, component by component; or slopes in it."""

    space: list[InChain]
    time: list[AlongChain]
    variance: list[Float[AnyArray, "*block"]]
    noise: Float[AnyArray, "*block"]


class MatrixPieces(NamedTuple):
    """The same where a block is one matrix over its rows."""

    space: list[InMatrix]
    time: list[InMatrix]
    variance: list[Float[AnyArray, "*block"]]
    noise: Float[AnyArray, "*block"]


Pieces = ChainPieces | MatrixPieces


def value_of(pieces: Pieces, block: PaddedBlock, engine: Engine) -> float:
    """The log evidence of one block."""
    if isinstance(pieces, MatrixPieces):
        return _by_matrix(pieces, block)[0]
    if isinstance(engine, CpuEngine):
        problem, noise = _problem(pieces, block)
        return BySweeps(engine.limits).log_normaliser(problem) + noise.log_constant
    return float(_compiled_value(pieces, block, engine))


def value_and_slopes(pieces: Pieces, block: PaddedBlock, engine: Engine) -> tuple[float, Pieces]:
    """The same with its slopes."""
    if isinstance(pieces, MatrixPieces):
        return _by_matrix(pieces, block)
    if isinstance(engine, CpuEngine):
        return _by_sweeps(pieces, block, engine)
    value, slopes = _compiled_value_and_slopes(pieces, block, engine)
    return float(value), slopes


class _Noise(NamedTuple):
    """Of each row: the variance of its noise, whether that is the floor that the signal sets, and the precision."""

    variance: Float[np.ndarray, " row"]
    is_floor: Float[np.ndarray, " row"]
    precision: Float[np.ndarray, " row"]
    log_constant: float


def _noise_of(noise: float, signal: Float[np.ndarray, " row"], block: PaddedBlock) -> _Noise:
    given = np.full(block.values.shape, noise) if block.noise_variance is None else noise + block.noise_variance
    floor = NOISE_FLOOR * signal
    variance = np.where(block.present, np.maximum(given, floor), 1.0)
    return _Noise(
        variance,
        (block.present & (given < floor)).astype(np.float64),
        np.where(block.present, 1.0 / variance, 0.0),
        -float(np.sum(np.log(2 * np.pi * variance[block.present]))) / 2,
    )


# --- by the cpu engine
# -------------------------------------------------------------------------------------------------------


def _problem(pieces: ChainPieces, block: PaddedBlock) -> tuple[Problem, _Noise]:
    place, time = np.asarray(block.place_of_row), np.asarray(block.time_of_row)
    signal = np.zeros(len(place))
    for variance, across, along in zip(pieces.variance, pieces.space, pieces.time, strict=True):
        signal += variance * across.variances[place] * along.variances[time]
    noise = _noise_of(float(pieces.noise), signal, block)
    rows = Rows(block.layout, place, block.values, noise.precision)
    return make_problem(*_chain_and_weights(pieces, block), rows), noise


def _by_sweeps(pieces: ChainPieces, block: PaddedBlock, engine: CpuEngine) -> tuple[float, ChainPieces]:
    problem, noise = _problem(pieces, block)
    total, slope = BySweeps(engine.limits).value_and_gradient(problem)
    of_noise = np.where(block.present, -slope.precision / noise.variance**2 - 0.5 / noise.variance, 0.0)
    # Where the signal sets the floor of the noise, the noise moves with the signal.
    of_signal = NOISE_FLOOR * noise.is_floor * of_noise
    place, time = np.asarray(block.place_of_row), np.asarray(block.time_of_row)
    space, times, variances, first = [], [], [], 0
    for given, across, along, own in zip(pieces.variance, pieces.space, pieces.time, slope.components, strict=True):
        variance, last = float(given), first + across.weights.shape[1]
        of_weights = slope.weights[:, first:last]
        at_places, at_times = across.variances[place], along.variances[time]
        of_variance = np.sum(of_weights * across.weights) / (2 * np.sqrt(variance)) + of_signal @ (at_places * at_times)
        variances.append(np.asarray(of_variance))
        by_place = np.bincount(place, of_signal * variance * at_times, minlength=len(across.variances))
        by_time = np.bincount(time, of_signal * variance * at_places, minlength=len(along.variances))
        space.append(InChain(np.sqrt(variance) * of_weights, by_place))
        times.append(AlongChain(dataclasses.replace(along.chain, **own._asdict()), by_time))
        first = last
    of_given = np.asarray(np.sum(of_noise * (1 - noise.is_floor)))
    return total + noise.log_constant, ChainPieces(space, times, variances, of_given)


def _chain_and_weights(pieces: ChainPieces, block: PaddedBlock) -> tuple[Chain, Any]:
    """Of NumPy arrays or traced ones."""
    numbers: Any = np if isinstance(pieces.space[0].weights, np.ndarray) else jnp
    parts, weights = [], []
    for variance, across, along in zip(pieces.variance, pieces.space, pieces.time, strict=True):
        parts.append(dataclasses.replace(along.chain, num_pseudo=across.weights.shape[1]))
        weights.append(numbers.sqrt(variance) * across.weights)
    return Chain(tuple(parts), block.grid.step_number), numbers.concatenate(weights, axis=1)


# --- by one matrix over the rows
# ---------------------------------------------------------------------------------------------


def _by_matrix(pieces: MatrixPieces, block: PaddedBlock) -> tuple[float, MatrixPieces]:
    """N(values; 0, K + N) with I + R K R factored, R the roots of the precisions: its slope in K + N is (a a' - (K + N)^-1) / 2."""
    size = len(block.values)
    row, column = lower_triangle(size)
    own = np.flatnonzero(row == column)
    parts = [
        (float(variance), across.pairs, along.pairs)
        for variance, across, along in zip(pieces.variance, pieces.space, pieces.time, strict=True)
    ]
    covariance = sum((variance * across * along for variance, across, along in parts), np.zeros(len(row)))
    noise = _noise_of(float(pieces.noise), covariance[own], block)
    root = np.sqrt(noise.precision)
    both = root[row] * root[column]
    # LAPACK's matrices go column by column.
    matrix = np.zeros((size, size), order="F")
    matrix[row, column] = both * covariance
    matrix[np.arange(size), np.arange(size)] += 1.0
    factor, failed = dpotrf(matrix, lower=1, clean=0, overwrite_a=1)
    if failed:
        raise FloatingPointError(
            "the covariance of a block's rows is not positive definite; look at the parameters of the kernels"
        )
    residual = root * block.values
    solved, _ = dpotrs(factor, residual, lower=1)
    value = -float(np.sum(np.log(np.diagonal(factor)))) - float(residual @ solved) / 2 + noise.log_constant
    inverse, _ = dpotri(factor, lower=1, overwrite_c=1)
    whole = both * (solved[row] * solved[column] - inverse[row, column])
    # A pair of two rows is two entries of the matrix.
    of_noise = whole[own] / 2
    whole[own] = of_noise * (1 + NOISE_FLOOR * noise.is_floor)
    space, times, variances = [], [], []
    for variance, across, along in parts:
        variances.append(np.asarray(np.einsum("p,p,p->", whole, across, along)))
        space.append(InMatrix(variance * whole * along))
        times.append(InMatrix(variance * whole * across))
    of_given = np.asarray(np.sum(of_noise * (1 - noise.is_floor)))
    return value, MatrixPieces(space, times, variances, of_given)


# --- by any other engine
# -----------------------------------------------------------------------------------------------------


def _log_evidence(pieces: ChainPieces, block: PaddedBlock, engine: Engine) -> Float[Array, ""]:
    place, time = block.place_of_row, block.time_of_row
    signal = sum(
        variance * across.variances[place] * along.variances[time]
        for variance, across, along in zip(pieces.variance, pieces.space, pieces.time, strict=True)
    )
    own = pieces.noise if block.noise_variance is None else pieces.noise + block.noise_variance
    noise = jnp.broadcast_to(own, block.values.shape)
    noise = jnp.where(block.present, jnp.maximum(noise, NOISE_FLOOR * signal), 1.0)
    precision = jnp.where(block.present, 1.0 / noise, 0.0)
    constant = -jnp.sum(jnp.where(block.present, jnp.log(2 * jnp.pi * noise), 0.0)) / 2
    sites = Rows(block.layout, place, block.values, precision)
    return engine.log_normaliser(*_chain_and_weights(pieces, block), sites) + constant


_compiled_value = eqx.filter_jit(_log_evidence)


@eqx.filter_jit
def _compiled_value_and_slopes(
    pieces: ChainPieces, block: PaddedBlock, engine: Engine
) -> tuple[Float[Array, ""], ChainPieces]:
    return eqx.filter_value_and_grad(_log_evidence)(pieces, block, engine)
