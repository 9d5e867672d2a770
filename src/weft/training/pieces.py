# SPDX-License-Identifier: MIT
"""Exact log evidence of blocks and its slopes, kernel by kernel.

What a kernel is at the places or times of several blocks, and how that moves with its parameters, comes in closed form where there is
one; else it is compiled for the kernel alone, so that models that are tried one after another share most of theirs. Blocks of rows at
places of their own get one matrix over the rows, made from the kernels themselves; others a chain.
"""

import functools
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from weft.engines.base import Engine
from weft.engines.cpu import CpuEngine
from weft.engines.cpu.shared_places import fits_in_memory
from weft.engines.dense import DenseEngine
from weft.inference.fields import Natural
from weft.inference.prior import TimeGrid, component_chain, time_variances
from weft.kernels.base import Kernel
from weft.kernels.closed_forms import (
    EachWithEach,
    closed_features,
    closed_form,
    has_closed_features,
    has_closed_form,
    lower_triangle,
)
from weft.kernels.closed_forms_in_time import ChainMatrices, closed_chain, has_closed_chain
from weft.likelihoods import Gaussian
from weft.linalg import cholesky_of_several, pull_back_cholesky
from weft.model import Model
from weft.state_space.basis import AllPlaces, has_own_features, reduce_space
from weft.state_space.chain import ComponentChain
from weft.training.one_block import (
    AlongChain,
    AtPlaces,
    ChainPieces,
    InChain,
    InMatrix,
    MatrixPieces,
    Pieces,
    PlacePieces,
    value_and_slopes,
    value_of,
)
from weft.training.padding import PaddedBlock
from weft.training.parameters import Path, follow
from weft.training.sited_block import bound_and_slopes

__all__ = [
    "Batch",
    "Slopes",
    "WithSites",
    "evidence_of",
    "has_closed_kernels",
    "make_batches",
    "sited_slopes_of",
    "slopes_of",
]

# Blocks whose kernels are computed together: enough to make little of the calls, few enough to keep every processor busy.
_BLOCKS_AT_ONCE = 4
# Matrices of a chain's kernels are small, and compiling for them takes longer than all they will ever compute.
_QUICKLY = {"xla_backend_optimization_level": 0}


class Batch(NamedTuple):
    """Some blocks of one shape, their arrays stacked; the last batch may repeat a block, which does not count.

    `is_once` tells that no place has two rows at one time.
    """

    blocks: PaddedBlock
    num_blocks: int
    is_once: bool

    @property
    def singly(self) -> list[PaddedBlock]:
        return [_entry(self.blocks, number) for number in range(self.num_blocks)]


def make_batches(blocks: Sequence[PaddedBlock]) -> list[Batch]:
    """All blocks in their order, so many at a time, in batches of nearly one size whose number is even: two processors end together."""
    count = min(2 * -(-len(blocks) // (2 * _BLOCKS_AT_ONCE)), len(blocks))
    batches = []
    for numbers in np.array_split(np.arange(len(blocks)), count):
        some = [blocks[number] for number in numbers]
        whole = some + some[-1:] * (-(-len(blocks) // count) - len(some))
        stacked = jax.tree.map(lambda *each: np.stack(each), *whole)
        batches.append(Batch(stacked, len(some), all(_has_rows_once(block) for block in some)))
    return batches


def _has_rows_once(block: PaddedBlock) -> bool:
    number = np.asarray(block.time_of_row) * len(block.places) + np.asarray(block.place_of_row)
    return bool(np.all(np.bincount(number[block.present]) <= 1))


class Slopes(NamedTuple):
    """Slopes of the evidence of each block of a batch in the parameters of a model, each where the parameter is."""

    space: list[Any]
    time: list[Any]
    variance: list[Float[np.ndarray, " block"]]
    likelihood: Any
    num_blocks: int

    def at(self, path: Path) -> Float[np.ndarray, "block number"]:
        """In the parameter with this path, laid out as a vector."""
        if path[0] == "likelihood":
            node: Any = follow(self.likelihood, path[1:])
        else:
            number, rest = (int(path[2]), path[3:]) if path[1] == "components" else (0, path[1:])
            node = follow(getattr(self, str(rest[0]))[number], rest[1:])
        return np.asarray(node)[: self.num_blocks].reshape(self.num_blocks, -1)


def has_closed_kernels(model: Model, width: int) -> bool:
    """Whether no kernel of the model has to be compiled, with places of so many columns."""
    return all(
        has_closed_chain(component.time)
        and has_closed_form(component.time)
        and has_closed_form(component.space)
        and (not has_own_features(component.space, width) or has_closed_features(component.space))
        for component in model.components
    )


def evidence_of(model: Model, batch: Batch, engine: Engine) -> Float[np.ndarray, " block"]:
    """Of an exact model with Gaussian noise, block by block."""
    assert isinstance(model.likelihood, Gaussian)
    noise, pieces = float(model.likelihood.variance), _of_kernels(model, batch, engine, is_whitened=True).pieces
    return np.array(
        [value_of(_entry(pieces, number), noise, block, engine) for number, block in enumerate(batch.singly)]
    )


def slopes_of(model: Model, batch: Batch, engine: Engine) -> tuple[Float[np.ndarray, " block"], Slopes]:
    """The same with its slopes."""
    assert isinstance(model.likelihood, Gaussian)
    noise, kernels = float(model.likelihood.variance), _of_kernels(model, batch, engine)
    found = [
        value_and_slopes(_entry(kernels.pieces, number), noise, block, engine)
        for number, block in enumerate(batch.singly)
    ]
    slopes = _put_together(kernels, batch, [(own, {"variance": of_noise}) for _, own, of_noise in found])
    return np.array([value for value, _, _ in found]), slopes


class WithSites(NamedTuple):
    """Bounds of the blocks of a batch, their slopes, the sites of each, and how often fields were asked for them."""

    bounds: Float[np.ndarray, " block"]
    slopes: Slopes
    sites: list[Natural]
    num_calls: int


def sited_slopes_of(
    model: Model, batch: Batch, engine: Engine, *, starts: Sequence[Natural | None], tolerance: float
) -> WithSites:
    """The variational bound of an exact model with any likelihood, block by block, with its slopes."""
    kernels = _of_kernels(model, batch, engine)
    found = [
        bound_and_slopes(
            _entry(kernels.pieces, number), model.likelihood, block, engine, start=start, tolerance=tolerance
        )
        for number, (block, start) in enumerate(zip(batch.singly, starts, strict=True))
    ]
    slopes = _put_together(kernels, batch, [(each.slopes, each.of_likelihood) for each in found])
    bounds = np.array([each.bound for each in found])
    return WithSites(bounds, slopes, [each.sites for each in found], sum(each.num_calls for each in found))


def _put_together(kernels: "_OfKernels", batch: Batch, found: list[tuple[Pieces, Any]]) -> Slopes:
    """Slopes in the model's parameters from those in the pieces of each block and in its likelihood."""
    # A block that is there to fill the batch has the slopes of the last.
    whole = found + found[-1:] * (len(batch.blocks.values) - batch.num_blocks)
    slopes, of_likelihood = jax.tree.map(lambda *each: np.stack(each), *whole)
    return Slopes(
        [of.pull_back(slope) for of, slope in zip(kernels.space, slopes.space, strict=True)],
        [of.pull_back(slope) for of, slope in zip(kernels.time, slopes.time, strict=True)],
        slopes.variance,
        SimpleNamespace(**of_likelihood) if isinstance(of_likelihood, dict) else of_likelihood,
        batch.num_blocks,
    )


class _OfKernel(NamedTuple):
    """A kernel at the places or times of every block of a batch, and how slopes in that become slopes in its parameters."""

    piece: Any
    pull_back: Callable[[Any], Any]


class _OfKernels(NamedTuple):
    space: list[_OfKernel]
    time: list[_OfKernel]
    pieces: Pieces


def _of_kernels(model: Model, batch: Batch, engine: Engine, *, is_whitened: bool = False) -> _OfKernels:
    """The state of a chain is whitened where `is_whitened` says so, and where a kernel or the rows ask for it."""
    components, blocks = model.components, batch.blocks
    kind: type[ChainPieces | PlacePieces | MatrixPieces]
    if isinstance(engine, DenseEngine):
        row_places = np.take_along_axis(blocks.places, np.asarray(blocks.place_of_row)[:, :, None], axis=1)
        of_places, of_times = EachWithEach(row_places), EachWithEach(np.asarray(blocks.grid.times)[:, :, None])
        space = [_in_matrix(component.space, of_places) for component in components]
        time = [_in_matrix(component.time, of_times) for component in components]
        kind = MatrixPieces
    else:
        pairs = EachWithEach(np.asarray(blocks.places))
        time = [_along_chain(component.time, blocks.grid) for component in components]
        is_apart = is_whitened or not _stand_at_places(model, batch, engine, time)
        space = [(_in_chain if is_apart else _at_places)(component.space, pairs) for component in components]
        kind = ChainPieces if is_apart else PlacePieces
    count = len(blocks.values)
    pieces: Pieces = kind(
        [of.piece for of in space],
        [of.piece for of in time],
        [np.full(count, component.variance) for component in components],
    )
    return _OfKernels(space, time, pieces)


def _stand_at_places(model: Model, batch: Batch, engine: Engine, time: Sequence["_OfKernel"]) -> bool:
    """Whether the state may be what components are at the places: none has fewer features of its own, and a row is all of its place."""
    num_times, (num_places, width) = batch.blocks.grid.times.shape[1], batch.blocks.places.shape[1:]
    num_latent = sum(of.piece.chain.readout.shape[-1] for of in time)
    return (
        isinstance(engine, CpuEngine)
        and batch.is_once
        and fits_in_memory(num_times, num_places, num_latent)
        and all(
            has_closed_form(component.space) and not has_own_features(component.space, width)
            for component in model.components
        )
    )


def _at_places(kernel: Kernel, pairs: EachWithEach) -> _OfKernel:
    form = closed_form(kernel, pairs)
    return _OfKernel(
        AtPlaces(pairs.matrices(form.value)), lambda slopes: form.pull_back(pairs.pair_slopes(slopes.covariance))
    )


def _in_matrix(kernel: Kernel, pairs: EachWithEach) -> _OfKernel:
    if not has_closed_form(kernel):
        return _from_jax(_pairs_of, _pull_pairs, kernel, pairs.first)
    form = closed_form(kernel, pairs)
    return _OfKernel(InMatrix(form.value), lambda slopes: form.pull_back(slopes.pairs))


def _in_chain(kernel: Kernel, pairs: EachWithEach) -> _OfKernel:
    if has_own_features(kernel, pairs.width):
        return (
            _by_features(kernel, pairs.first)
            if has_closed_features(kernel)
            else _from_jax(_weights, _pull_weights, kernel, pairs.first)
        )
    if not has_closed_form(kernel):
        return _from_jax(_weights, _pull_weights, kernel, pairs.first)
    form = closed_form(kernel, pairs)
    grams = pairs.matrices(form.value)
    factors = cholesky_of_several(grams)
    each = np.arange(pairs.num_points)

    def pull_back(slopes: InChain) -> Any:
        of_grams = pull_back_cholesky(grams, factors, slopes.weights)
        of_grams[:, each, each] += slopes.variances
        return form.pull_back(pairs.pair_slopes(of_grams))

    return _OfKernel(InChain(factors, grams[:, each, each]), pull_back)


def _by_features(kernel: Kernel, places: Float[np.ndarray, "block place dim"]) -> _OfKernel:
    form = closed_features(kernel, places)

    def pull_back(slopes: InChain) -> Any:
        return form.pull_back(slopes.weights + 2 * form.value * slopes.variances[:, :, None])

    return _OfKernel(InChain(form.value, np.sum(form.value**2, axis=2)), pull_back)


def _along_chain(kernel: Kernel, grid: TimeGrid) -> _OfKernel:
    if not has_closed_chain(kernel):
        return _from_jax(_chains, _pull_chains, kernel, grid)
    form = closed_chain(kernel, np.asarray(grid.steps), np.asarray(grid.times))
    matrices = form.matrices
    chain = ComponentChain(
        matrices.transition,
        matrices.process_noise,
        matrices.initial,
        matrices.readout,
        num_pseudo=0,
        reversal=form.reversal,
    )

    def pull_back(slopes: AlongChain) -> Any:
        own = slopes.chain
        return form.pull_back(
            ChainMatrices(own.transition, own.process_noise, own.initial, own.readout, slopes.variances)
        )

    return _OfKernel(AlongChain(chain, matrices.variances), pull_back)


# --- kernels without a closed form here
# --------------------------------------------------------------------------------------


def _from_jax(forward: Any, pull_back: Any, kernel: Kernel, arrays: Any) -> _OfKernel:
    return _OfKernel(
        jax.tree.map(np.asarray, forward(kernel, arrays)), lambda slopes: pull_back(kernel, arrays, slopes)
    )


def _pairs_of_one(kernel: Kernel, points: Float[Array, "point dim"]) -> InMatrix:
    row, column = lower_triangle(points.shape[0])
    return InMatrix(jnp.asarray(kernel.covariance(points, points))[row, column])


def _weights_of_one(kernel: Kernel, places: Float[Array, "place dim"]) -> InChain:
    weights, _ = reduce_space(kernel, AllPlaces(), places).at_data(places)
    return InChain(weights, jnp.asarray(kernel.variances(places)))


def _chain_of_one(kernel: Kernel, grid: TimeGrid) -> AlongChain:
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


_pairs_of, _pull_pairs = _for_all(_pairs_of_one)
_weights, _pull_weights = _for_all(_weights_of_one, compiler_options=_QUICKLY)
_chains, _pull_chains = _for_all(_chain_of_one, compiler_options=_QUICKLY)


def _entry(tree: Any, number: int) -> Any:
    return jax.tree.map(lambda array: array[number], tree)
