# SPDX-License-Identifier: MIT
"""Exact log evidence of blocks and its slopes, kernel by kernel.

What a kernel is at the places or times of a block, and how that moves with its parameters, is compiled for the kernel alone and for
several blocks at once: models that are tried one after another share most of theirs. Compiling each model as a whole took longer than
learning it. Blocks of rows at places of their own get one matrix over the rows, made from the kernels themselves; others a chain.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from weft.arrays import AnyArray
from weft.engines.base import Engine
from weft.engines.dense import DenseEngine, log_gaussian, root_of
from weft.inference.prior import TimeGrid, component_chain, time_variances
from weft.inference.sites import NOISE_FLOOR
from weft.kernels.base import Kernel
from weft.likelihoods import Gaussian
from weft.model import Model
from weft.state_space.basis import AllPlaces
from weft.state_space.chain import Chain, ComponentChain, Rows
from weft.training.padding import PaddedBlock
from weft.training.parameters import Path, follow

__all__ = ["Batch", "Slopes", "evidence_of", "make_batches", "slopes_of"]

# Blocks whose kernels are computed together: enough to make little of the calls, few enough to keep every processor busy.
_BLOCKS_AT_ONCE = 4
# Matrices of a chain's kernels are small, and compiling for them takes longer than all they will ever compute.
_QUICKLY = {"xla_backend_optimization_level": 0}


class InChain(eqx.Module):
    """A kernel of space where places are states of a chain: the factor of its covariance, and its variances."""

    weights: Float[AnyArray, "*block place place"]
    variances: Float[AnyArray, "*block place"]


class AlongChain(eqx.Module):
    """A kernel of time as a chain, and its variances."""

    chain: ComponentChain
    variances: Float[AnyArray, "*block time"]


class InMatrix(eqx.Module):
    """A kernel of space or time as a matrix."""

    covariance: Float[AnyArray, "*block point point"]

    @property
    def variances(self) -> Float[AnyArray, " point"]:
        return jnp.diagonal(self.covariance)


class Pieces(eqx.Module):
    """What a model is at the places and times of a block, or of several, component by component."""

    space: list[InChain | InMatrix]
    time: list[AlongChain | InMatrix]
    variance: list[Float[AnyArray, "*block"]]
    likelihood: Gaussian


class Batch(NamedTuple):
    """Some blocks of one shape, their arrays stacked; the last batch may repeat a block, which does not count."""

    blocks: PaddedBlock
    num_blocks: int

    @property
    def singly(self) -> list[PaddedBlock]:
        return [_entry(self.blocks, number) for number in range(self.num_blocks)]


def make_batches(blocks: Sequence[PaddedBlock]) -> list[Batch]:
    """All blocks in their order, so many at a time."""
    batches = []
    for first in range(0, len(blocks), _BLOCKS_AT_ONCE):
        some = list(blocks[first : first + _BLOCKS_AT_ONCE])
        whole = some + some[-1:] * (min(_BLOCKS_AT_ONCE, len(blocks)) - len(some))
        batches.append(Batch(jax.tree.map(lambda *each: np.stack(each), *whole), len(some)))
    return batches


class Slopes(NamedTuple):
    """Slopes of the evidence of each block of a batch in the parameters of a model, each where the parameter is."""

    space: list[Kernel]
    time: list[Kernel]
    variance: list[Float[np.ndarray, " block"]]
    likelihood: Gaussian

    def at(self, path: Path) -> Float[np.ndarray, "block number"]:
        """In the parameter with this path, laid out as a vector."""
        if path[0] == "likelihood":
            node: Any = follow(self.likelihood, path[1:])
        else:
            number, rest = (int(path[2]), path[3:]) if path[1] == "components" else (0, path[1:])
            node = follow(getattr(self, str(rest[0]))[number], rest[1:])
        return np.asarray(node).reshape(len(node), -1)


def evidence_of(model: Model, batch: Batch, engine: Engine) -> Float[np.ndarray, " block"]:
    """Of an exact model with Gaussian noise, block by block."""
    pieces = _pieces(model, batch.blocks, engine)
    return np.array([float(_value(_entry(pieces, number), block, engine)) for number, block in enumerate(batch.singly)])


def slopes_of(model: Model, batch: Batch, engine: Engine) -> tuple[Float[np.ndarray, " block"], Slopes]:
    """The same with its slopes."""
    pieces = _pieces(model, batch.blocks, engine)
    found = [_value_and_slopes(_entry(pieces, number), block, engine) for number, block in enumerate(batch.singly)]
    # A block that is there to fill the batch has the slopes of the last.
    found += found[-1:] * (len(batch.blocks.values) - batch.num_blocks)
    slopes: Pieces = jax.tree.map(lambda *each: np.stack(each), *(slope for _, slope in found))
    pull_space, pull_time = (
        (_pull_space, _pull_time) if _by_matrix(engine) else (_pull_space_quickly, _pull_time_quickly)
    )
    whole = Slopes(
        [
            pull_space(component.space, batch.blocks.places, slope)
            for component, slope in zip(model.components, slopes.space, strict=True)
        ],
        [
            pull_time(component.time, batch.blocks.grid, slope)
            for component, slope in zip(model.components, slopes.time, strict=True)
        ],
        slopes.variance,
        slopes.likelihood,
    )
    return np.array([float(value) for value, _ in found[: batch.num_blocks]]), _first(whole, batch.num_blocks)


def _by_matrix(engine: Engine) -> bool:
    return isinstance(engine, DenseEngine)


def _pieces(model: Model, blocks: PaddedBlock, engine: Engine) -> Pieces:
    """Of every block of a batch."""
    assert isinstance(model.likelihood, Gaussian)
    of_space, of_time = (_space, _time) if _by_matrix(engine) else (_space_quickly, _time_quickly)
    count = len(blocks.values)
    return Pieces(
        [of_space(component.space, blocks.places) for component in model.components],
        [of_time(component.time, blocks.grid) for component in model.components],
        [np.full(count, component.variance) for component in model.components],
        jax.tree.map(lambda array: np.broadcast_to(array, (count, *np.shape(array))), model.likelihood),
    )


# --- one kernel at the places or times of one block
# --------------------------------------------------------------------------


def _matrix_of_space(kernel: Kernel, places: Float[Array, "place dim"]) -> InMatrix:
    return InMatrix(kernel(places))


def _matrix_of_time(kernel: Kernel, grid: TimeGrid) -> InMatrix:
    return InMatrix(kernel(jnp.asarray(grid.times)[:, None]))


def _factor_of_space(kernel: Kernel, places: Float[Array, "place dim"]) -> InChain:
    weights, _ = AllPlaces().of(kernel, places).at_data(places)
    return InChain(weights, kernel.variances(places))


def _chain_of_time(kernel: Kernel, grid: TimeGrid) -> AlongChain:
    return AlongChain(component_chain(kernel, 0, grid), time_variances(kernel, grid.times))


def _for_all(function: Any, **options: Any) -> tuple[Any, Any]:
    """`function` of a kernel and of each block's arrays, and the pull-back of its slopes to the kernel's parameters, block by block."""

    @functools.partial(eqx.filter_jit, **options)
    def forward(kernel: Kernel, arrays: Any) -> Any:
        return eqx.filter_vmap(function, in_axes=(None, 0))(kernel, arrays)

    @functools.partial(eqx.filter_jit, **options)
    def pull_back(kernel: Kernel, arrays: Any, slopes: Any) -> Kernel:
        def of_one(arrays: Any, slope: Any) -> Any:
            return eqx.filter_vjp(lambda kernel: function(kernel, arrays), kernel)[1](slope)[0]

        return eqx.filter_vmap(of_one)(arrays, slopes)

    return forward, pull_back


_space, _pull_space = _for_all(_matrix_of_space)
_time, _pull_time = _for_all(_matrix_of_time)
_space_quickly, _pull_space_quickly = _for_all(_factor_of_space, compiler_options=_QUICKLY)
_time_quickly, _pull_time_quickly = _for_all(_chain_of_time, compiler_options=_QUICKLY)


# --- one block
# ---------------------------------------------------------------------------------------------------------------


def _log_evidence(pieces: Pieces, block: PaddedBlock, engine: Engine) -> Float[Array, ""]:
    place, time = block.place_of_row, block.time_of_row
    signal = sum(
        variance * across.variances[place] * along.variances[time]
        for variance, across, along in zip(pieces.variance, pieces.space, pieces.time, strict=True)
    )
    noise = jnp.broadcast_to(pieces.likelihood.noise_variance(block.noise_variance), block.values.shape)
    noise = jnp.where(block.present, jnp.maximum(noise, NOISE_FLOOR * signal), 1.0)
    precision = jnp.where(block.present, 1.0 / noise, 0.0)
    constant = -jnp.sum(jnp.where(block.present, jnp.log(2 * jnp.pi * noise), 0.0)) / 2
    if _by_matrix(engine):
        root = root_of(precision)
        covariance = _covariance(pieces, block)
        return log_gaussian(root[:, None] * covariance * root[None, :], root * block.values) + constant
    sites = Rows(block.layout, place, block.values, precision)
    return engine.log_normaliser(*_chain_and_weights(pieces, block), sites) + constant


def _covariance(pieces: Pieces, block: PaddedBlock) -> Float[Array, "row row"]:
    """Of f at the rows."""
    total = jnp.zeros(2 * block.values.shape)
    for variance, across, along in zip(pieces.variance, pieces.space, pieces.time, strict=True):
        assert isinstance(across, InMatrix)
        assert isinstance(along, InMatrix)
        between_places = across.covariance[block.place_of_row][:, block.place_of_row]
        total += variance * between_places * along.covariance[block.time_of_row][:, block.time_of_row]
    return total


def _chain_and_weights(pieces: Pieces, block: PaddedBlock) -> tuple[Chain, Float[Array, "place bottleneck"]]:
    parts, weights = [], []
    for variance, across, along in zip(pieces.variance, pieces.space, pieces.time, strict=True):
        assert isinstance(across, InChain)
        assert isinstance(along, AlongChain)
        parts.append(dataclasses.replace(along.chain, num_pseudo=across.weights.shape[1]))
        weights.append(jnp.sqrt(variance) * across.weights)
    return Chain(tuple(parts), block.grid.step_number), jnp.concatenate(weights, axis=1)


_value = eqx.filter_jit(_log_evidence)


@eqx.filter_jit
def _value_and_slopes(pieces: Pieces, block: PaddedBlock, engine: Engine) -> tuple[Float[Array, ""], Pieces]:
    return eqx.filter_value_and_grad(_log_evidence)(pieces, block, engine)


def _entry(tree: Any, number: int) -> Any:
    return jax.tree.map(lambda array: np.asarray(array)[number], tree)


def _first(tree: Any, count: int) -> Any:
    return jax.tree.map(lambda array: np.asarray(array)[:count], tree)
