# SPDX-License-Identifier: MIT
"""The exact log evidence of one block of rows from what its kernels are there, and its slopes in that.

The cpu engine's sweeps and the matrix over the rows are called as the plain functions that they are, and what is around them has its
derivative by hand: as a compiled program, each model that is tried would take longer to compile than to learn. Other engines, which
know JAX alone, get a program.
"""

import dataclasses
from collections.abc import Sequence
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
from weft.engines.cpu.shared_places import SharedPlaces, value_and_slopes_at_places
from weft.inference.sites import NOISE_FLOOR
from weft.kernels.closed_forms import lower_triangle
from weft.linalg import cholesky_of_several
from weft.state_space.chain import Chain, ComponentChain, Rows
from weft.training.padding import PaddedBlock

__all__ = [
    "AlongChain",
    "AtPlaces",
    "ChainPieces",
    "FactoredMatrix",
    "InChain",
    "InMatrix",
    "MatrixPieces",
    "Pieces",
    "PlacePieces",
    "chain_and_weights",
    "chain_slopes",
    "covariance_of",
    "covariance_slopes",
    "factor_matrix",
    "given_rows_at_places",
    "matrix_slopes",
    "place_slopes",
    "value_and_slopes",
    "value_of",
    "whitened",
]


class InChain(NamedTuple):
    """A kernel of space where places are states of a chain: weights of places on its factor or features, and its variances."""

    weights: Float[AnyArray, "*block place _"]
    variances: Float[AnyArray, "*block place"]


class AtPlaces(NamedTuple):
    """A kernel of space where the state of a chain is what it is at the places: its covariance there."""

    covariance: Float[AnyArray, "*block place place"]


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


class PlacePieces(NamedTuple):
    """The same where all components stand at the places themselves."""

    space: list[AtPlaces]
    time: list[AlongChain]
    variance: list[Float[AnyArray, "*block"]]


class MatrixPieces(NamedTuple):
    """The same where a block is one matrix over its rows."""

    space: list[InMatrix]
    time: list[InMatrix]
    variance: list[Float[AnyArray, "*block"]]


Pieces = ChainPieces | PlacePieces | MatrixPieces


def value_of(pieces: Pieces, noise: float, block: PaddedBlock, engine: Engine) -> float:
    """The log evidence of one block whose noise has this variance."""
    assert not isinstance(pieces, PlacePieces)
    if isinstance(pieces, MatrixPieces):
        return _by_matrix(pieces, noise, block)[0]
    if isinstance(engine, CpuEngine):
        problem, of_rows = _problem(pieces, noise, block)
        return BySweeps(engine.limits).log_normaliser(problem) + of_rows.log_constant
    return float(_compiled_value((pieces, jnp.asarray(noise)), block, engine))


def value_and_slopes(
    pieces: Pieces, noise: float, block: PaddedBlock, engine: Engine
) -> tuple[float, Pieces, Float[np.ndarray, ""]]:
    """The same with its slopes, that in the variance of the noise last."""
    if isinstance(pieces, MatrixPieces):
        return _by_matrix(pieces, noise, block)
    if isinstance(pieces, PlacePieces):
        return _at_places(pieces, noise, block)
    if isinstance(engine, CpuEngine):
        return _by_sweeps(pieces, noise, block, engine)
    value, (slopes, of_noise) = _compiled_value_and_slopes((pieces, jnp.asarray(noise)), block, engine)
    return float(value), slopes, np.asarray(of_noise)


class _Noise(NamedTuple):
    """Of each row: the variance of its noise, whether that is the floor that the signal sets, and the precision."""

    variance: Float[np.ndarray, " row"]
    is_floor: Float[np.ndarray, " row"]
    precision: Float[np.ndarray, " row"]
    log_constant: float


def _noise_of(noise: float, signal: Float[np.ndarray, " row"], block: PaddedBlock) -> _Noise:
    given = np.full(block.values.shape, noise)
    if block.extra.noise_variance is not None:
        given = given + block.extra.noise_variance
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


def _problem(pieces: ChainPieces, noise: float, block: PaddedBlock) -> tuple[Problem, _Noise]:
    place, time = np.asarray(block.place_of_row), np.asarray(block.time_of_row)
    signal = np.zeros(len(place))
    for variance, across, along in zip(pieces.variance, pieces.space, pieces.time, strict=True):
        signal += variance * across.variances[place] * along.variances[time]
    of_rows = _noise_of(noise, signal, block)
    rows = Rows(block.layout, place, block.values, of_rows.precision)
    return make_problem(*chain_and_weights(pieces, block), rows), of_rows


def _by_sweeps(
    pieces: ChainPieces, given: float, block: PaddedBlock, engine: CpuEngine
) -> tuple[float, ChainPieces, Float[np.ndarray, ""]]:
    problem, noise = _problem(pieces, given, block)
    total, slope = BySweeps(engine.limits).value_and_gradient(problem)
    of_noise = np.where(block.present, -slope.precision / noise.variance**2 - 0.5 / noise.variance, 0.0)
    # Where the signal sets the floor of the noise, the noise moves with the signal.
    of_signal = NOISE_FLOOR * noise.is_floor * of_noise
    of_pieces = chain_slopes(pieces, block, slope.components, slope.weights, of_signal)
    return total + noise.log_constant, of_pieces, np.asarray(np.sum(of_noise * (1 - noise.is_floor)))


def chain_slopes(
    pieces: ChainPieces,
    block: PaddedBlock,
    of_chains: Sequence[Any],
    of_weights: Float[np.ndarray, "place bottleneck"],
    of_signal: Float[np.ndarray, " row"],
) -> ChainPieces:
    """Slopes in the pieces from those in each component's matrices, in the weights, and in the variance of f at each row."""
    place, time = np.asarray(block.place_of_row), np.asarray(block.time_of_row)
    space, times, variances, first = [], [], [], 0
    for given, across, along, own in zip(pieces.variance, pieces.space, pieces.time, of_chains, strict=True):
        variance, last = float(given), first + across.weights.shape[1]
        of_own = of_weights[:, first:last]
        at_places, at_times = across.variances[place], along.variances[time]
        of_variance = np.sum(of_own * across.weights) / (2 * np.sqrt(variance)) + of_signal @ (at_places * at_times)
        variances.append(np.asarray(of_variance))
        by_place = np.bincount(place, of_signal * variance * at_times, minlength=len(across.variances))
        by_time = np.bincount(time, of_signal * variance * at_places, minlength=len(along.variances))
        space.append(InChain(np.sqrt(variance) * of_own, by_place))
        matrices = {name: getattr(own, name) for name in ("transition", "process_noise", "initial", "readout")}
        times.append(AlongChain(dataclasses.replace(along.chain, **matrices), by_time))
        first = last
    return ChainPieces(space, times, variances)


def chain_and_weights(pieces: ChainPieces, block: PaddedBlock) -> tuple[Chain, Any]:
    """Of NumPy arrays or traced ones."""
    numbers: Any = np if isinstance(pieces.space[0].weights, np.ndarray) else jnp
    parts, weights = [], []
    for variance, across, along in zip(pieces.variance, pieces.space, pieces.time, strict=True):
        parts.append(dataclasses.replace(along.chain, num_pseudo=across.weights.shape[1]))
        weights.append(numbers.sqrt(variance) * across.weights)
    return Chain(tuple(parts), block.grid.step_number), numbers.concatenate(weights, axis=1)


# --- in the coordinates of the places
# ----------------------------------------------------------------------------------------


def _at_places(
    pieces: PlacePieces, given: float, block: PaddedBlock
) -> tuple[float, PlacePieces, Float[np.ndarray, ""]]:
    place, time = np.asarray(block.place_of_row)[block.present], np.asarray(block.time_of_row)[block.present]
    signal = np.zeros(len(block.present))
    for variance, across, along in zip(pieces.variance, pieces.space, pieces.time, strict=True):
        signal[block.present] += variance * np.diagonal(across.covariance)[place] * along.variances[time]
    noise = _noise_of(given, signal, block)
    total, slope = given_rows_at_places(pieces, block, block.values[block.present], noise.precision[block.present])
    of_noise, is_floor = slope.noise[time, place], noise.is_floor[block.present]
    of_signal = np.zeros_like(slope.noise)
    # Where the signal sets the floor of the noise, the noise moves with the signal.
    of_signal[time, place] = NOISE_FLOOR * is_floor * of_noise
    of_pieces = place_slopes(pieces, slope, of_signal)
    return total + noise.log_constant, of_pieces, np.asarray(np.sum(of_noise * (1 - is_floor)))


def given_rows_at_places(
    pieces: PlacePieces, block: PaddedBlock, values: Float[np.ndarray, " seen"], precision: Float[np.ndarray, " seen"]
) -> tuple[float, SharedPlaces]:
    """The log normaliser of the rows that are present, with these values and precisions, and its slopes."""
    place, time = np.asarray(block.place_of_row)[block.present], np.asarray(block.time_of_row)[block.present]
    whole = np.zeros((2, len(pieces.time[0].variances), len(block.places)))
    whole[0, time, place], whole[1, time, place] = values, precision
    return value_and_slopes_at_places(
        [along.chain for along in pieces.time],
        [variance * across.covariance for variance, across in zip(pieces.variance, pieces.space, strict=True)],
        block.grid.step_number,
        *whole,
    )


def whitened(pieces: PlacePieces) -> ChainPieces:
    """The same with a state whose places are independent."""
    space = [
        InChain(cholesky_of_several(across.covariance[None])[0], np.diagonal(across.covariance))
        for across in pieces.space
    ]
    return ChainPieces(space, pieces.time, pieces.variance)


def place_slopes(pieces: PlacePieces, slope: SharedPlaces, of_signal: Float[np.ndarray, "time place"]) -> PlacePieces:
    """Slopes in the pieces from those in each component's matrices and covariance, and in the variance of f at each row."""
    space, times, variances = [], [], []
    each = np.arange(of_signal.shape[1])
    for given, across, along, own, of_places in zip(
        pieces.variance, pieces.space, pieces.time, slope.components, slope.covariances, strict=True
    ):
        variance, at_places = float(given), np.diagonal(across.covariance)
        by_place, by_time = along.variances @ of_signal, of_signal @ at_places
        of_covariance = variance * of_places
        of_covariance[each, each] += variance * by_place
        variances.append(np.asarray(np.sum(of_places * across.covariance) + by_place @ at_places))
        space.append(AtPlaces(of_covariance))
        matrices = {name: getattr(own, name) for name in ("transition", "process_noise", "initial", "readout")}
        times.append(AlongChain(dataclasses.replace(along.chain, **matrices), variance * by_time))
    return PlacePieces(space, times, variances)


# --- by one matrix over the rows
# ---------------------------------------------------------------------------------------------


class FactoredMatrix(NamedTuple):
    """I + R K R = factor factor' with R = `root`, its inverse below the diagonal, and that times R values."""

    root: Float[np.ndarray, " row"]
    factor: Float[np.ndarray, "row row"]
    inverse: Float[np.ndarray, "row row"]
    solved: Float[np.ndarray, " row"]
    log_normaliser: float


def factor_matrix(
    covariance: Float[np.ndarray, " pair"], values: Float[np.ndarray, " row"], precision: Float[np.ndarray, " row"]
) -> FactoredMatrix:
    """Rows of these precisions with the covariance K of f, as `EachWithEach` has it."""
    size, root = len(values), np.sqrt(precision)
    row, column = lower_triangle(size)
    # LAPACK's matrices go column by column.
    matrix = np.zeros((size, size), order="F")
    matrix[row, column] = root[row] * root[column] * covariance
    matrix[np.arange(size), np.arange(size)] += 1.0
    factor, failed = dpotrf(matrix, lower=1, clean=0, overwrite_a=1)
    if failed:
        raise FloatingPointError(
            "the covariance of a block's rows is not positive definite; look at the parameters of the kernels"
        )
    residual = root * values
    solved, _ = dpotrs(factor, residual, lower=1)
    inverse, _ = dpotri(factor, lower=1)
    value = -float(np.sum(np.log(np.diagonal(factor)))) - float(residual @ solved) / 2
    return FactoredMatrix(root, factor, inverse, solved, value)


def covariance_of(pieces: MatrixPieces) -> Float[np.ndarray, " pair"]:
    parts = zip(pieces.variance, pieces.space, pieces.time, strict=True)
    return sum((float(variance) * across.pairs * along.pairs for variance, across, along in parts), np.zeros(()))


def covariance_slopes(found: FactoredMatrix) -> Float[np.ndarray, " pair"]:
    """Slopes of the log normaliser in K: (a a' - (K + N)^-1) / 2 with a = (K + N)^-1 values; a pair of two rows is two entries."""
    row, column = lower_triangle(len(found.root))
    both = found.root[row] * found.root[column]
    whole = both * (found.solved[row] * found.solved[column] - found.inverse[row, column])
    whole[row == column] /= 2
    return whole


def matrix_slopes(pieces: MatrixPieces, whole: Float[np.ndarray, " pair"]) -> MatrixPieces:
    """Slopes in the pieces from those in the covariance."""
    space, times, variances = [], [], []
    for given, across, along in zip(pieces.variance, pieces.space, pieces.time, strict=True):
        variance = float(given)
        variances.append(np.asarray(np.einsum("p,p,p->", whole, across.pairs, along.pairs)))
        space.append(InMatrix(variance * whole * along.pairs))
        times.append(InMatrix(variance * whole * across.pairs))
    return MatrixPieces(space, times, variances)


def _by_matrix(
    pieces: MatrixPieces, given: float, block: PaddedBlock
) -> tuple[float, MatrixPieces, Float[np.ndarray, ""]]:
    """N(values; 0, K + N)."""
    row, column = lower_triangle(len(block.values))
    own = np.flatnonzero(row == column)
    covariance = covariance_of(pieces)
    noise = _noise_of(given, covariance[own], block)
    found = factor_matrix(covariance, block.values, noise.precision)
    whole = covariance_slopes(found)
    of_noise = whole[own].copy()
    # Where the signal sets the floor of the noise, the noise moves with the signal.
    whole[own] *= 1 + NOISE_FLOOR * noise.is_floor
    value = found.log_normaliser + noise.log_constant
    return value, matrix_slopes(pieces, whole), np.asarray(np.sum(of_noise * (1 - noise.is_floor)))


# --- by any other engine
# -----------------------------------------------------------------------------------------------------


def _log_evidence(given: tuple[ChainPieces, Float[Array, ""]], block: PaddedBlock, engine: Engine) -> Float[Array, ""]:
    pieces, noise = given
    place, time = block.place_of_row, block.time_of_row
    signal = sum(
        variance * across.variances[place] * along.variances[time]
        for variance, across, along in zip(pieces.variance, pieces.space, pieces.time, strict=True)
    )
    own = noise if block.extra.noise_variance is None else noise + block.extra.noise_variance
    noise = jnp.broadcast_to(own, block.values.shape)
    noise = jnp.where(block.present, jnp.maximum(noise, NOISE_FLOOR * signal), 1.0)
    precision = jnp.where(block.present, 1.0 / noise, 0.0)
    constant = -jnp.sum(jnp.where(block.present, jnp.log(2 * jnp.pi * noise), 0.0)) / 2
    sites = Rows(block.layout, place, block.values, precision)
    return engine.log_normaliser(*chain_and_weights(pieces, block), sites) + constant


_compiled_value = eqx.filter_jit(_log_evidence)


@eqx.filter_jit
def _compiled_value_and_slopes(
    given: tuple[ChainPieces, Float[Array, ""]], block: PaddedBlock, engine: Engine
) -> tuple[Float[Array, ""], tuple[ChainPieces, Float[Array, ""]]]:
    return eqx.filter_value_and_grad(_log_evidence)(given, block, engine)
