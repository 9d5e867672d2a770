# SPDX-License-Identifier: MIT
"""The evidence of several blocks with one set of parameters, and what their disagreement says about it.

Blocks are padded to one shape, so that one compilation serves all of them, and are evaluated as tasks of the current executor: on all
processors, or on workers elsewhere. The sum is taken in the blocks' order, so that it does not depend on how many there are.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from weft.arrays import AnyArray, require_float64
from weft.data.layout import Layout
from weft.data.observations import Observations
from weft.engines.base import Engine
from weft.engines.choose import choose_engine
from weft.engines.dense import DenseEngine
from weft.inference.evidence import log_evidence
from weft.inference.exact_work import ExactWork, exact_work
from weft.inference.executor import current_executor
from weft.inference.prior import TimeGrid, prior_at, signal_variances, time_grid
from weft.inference.sites import NOISE_FLOOR
from weft.inference.variational import SearchMemory
from weft.likelihoods import Gaussian
from weft.model import Model
from weft.state_space.chain import Rows
from weft.training.estimate import shape_of
from weft.training.maximise import Evaluation
from weft.training.parameters import ParameterSpace, Path, Prior, log_prior

__all__ = ["CompositeObjective", "block_evidence"]


class PaddedBlock(eqx.Module):
    """One block with as many times, places and rows as the largest of several; rows that are not `present` say nothing."""

    layout: Layout = eqx.field(static=True)
    grid: TimeGrid
    places: Float[AnyArray, "place dim"]
    time_of_row: Int[AnyArray, " row"]
    place_of_row: Int[AnyArray, " row"]
    values: Float[AnyArray, " row"]
    noise_variance: Float[AnyArray, " row"] | None
    present: Bool[AnyArray, " row"]


class Scores(NamedTuple):
    """Log evidence of each block and its gradient in the free numbers."""

    value: Float[np.ndarray, " block"]
    gradient: Float[np.ndarray, "block free"]


class CompositeObjective:
    """Log evidence of all blocks plus log priors as a function of the free numbers; the blocks one by one where asked for."""

    # Ctrl-C would look like a failed trial point inside compiled code, and waits for the end of an evaluation.
    is_compiled = True

    def __init__(
        self,
        space: ParameterSpace,
        model: Model,
        blocks: Sequence[Observations],
        terms: tuple[tuple[Path, Prior], ...],
        *,
        power: float,
        engine: str | Engine,
    ):
        self.space, self.model, self.terms, self.power = space, model, terms, power
        self.is_shared = is_shared(model)
        self.engine = engine
        self.shared_engine = engine_for_blocks(model, blocks, engine)
        self.executor = current_executor()
        by_row = isinstance(self.shared_engine, DenseEngine)
        pieces: Sequence[Any] = pad_blocks(blocks, by_row=by_row) if self.is_shared else blocks
        self.blocks = [self.executor.hold(piece) for piece in pieces]
        self.names = [name_of_block(number, block) for number, block in enumerate(blocks)]
        # The search for the sites of a likelihood that is not Gaussian starts where the block's last one ended.
        self.memories = [None if isinstance(model.likelihood, Gaussian) else SearchMemory() for _ in blocks]
        self.num_calls = 0

    @property
    def num_engine_calls(self) -> int:
        searches = [memory.engine_calls for memory in self.memories if memory is not None]
        return sum(searches) if searches else self.num_calls

    def __call__(self, point: Float[np.ndarray, " free"]) -> Evaluation:
        scores = self.scores(point)
        prior, slope = _prior_and_gradient(jnp.asarray(point), self.space, self.model, self.terms)
        evidence = float(np.sum(scores.value))
        return Evaluation(evidence + float(prior), np.sum(scores.gradient, axis=0) + np.asarray(slope), evidence)

    def scores(self, point: Float[np.ndarray, " free"]) -> Scores:
        """Value and gradient of each block's log evidence at `point` on the real line."""
        self.num_calls += len(self.blocks)
        if self.is_shared:
            task = functools.partial(_shared_score, point, self.space, self.model, self.shared_engine)
            found = self.executor.map(task, self.blocks, names=self.names)
        else:
            own = functools.partial(_own_score, point, self.space, self.model, self.power, self.engine)
            searched = self.executor.map(own, self.blocks, self.memories, names=self.names)
            # A worker searched with a copy of the memory.
            self.memories = [memory for _, _, memory in searched]
            found = [(value, slope) for value, slope, _ in searched]
        values, gradients = zip(*found, strict=True)
        return Scores(
            np.array([float(value) for value in values]), np.stack([np.asarray(slope) for slope in gradients])
        )


def name_of_block(number: int, block: Observations) -> str:
    """What a block is called where its task fails."""
    return f"block {number} to learn from, {block.num_rows} rows at times {block.times[0]:g} to {block.times[-1]:g}"


def block_evidence(
    model: Model, blocks: Sequence[Observations], *, engine: str | Engine = "auto"
) -> Float[np.ndarray, " block"]:
    """Log evidence of each block by itself; of an exact model with a Gaussian likelihood by one compilation for all of them."""
    require_float64()
    if not is_shared(model):
        return np.array([float(log_evidence(model, block, engine=engine)) for block in blocks])
    chosen = engine_for_blocks(model, blocks, engine)
    padded = pad_blocks(blocks, by_row=isinstance(chosen, DenseEngine))
    task = functools.partial(_value, model, chosen)
    names = [name_of_block(number, block) for number, block in enumerate(blocks)]
    return np.array([float(value) for value in current_executor().map(task, padded, names=names)])


def is_shared(model: Model) -> bool:
    """Whether blocks of this model share a compilation: it is exact, and its noise Gaussian."""
    return model.is_exact and isinstance(model.likelihood, Gaussian)


def engine_for_blocks(model: Model, blocks: Sequence[Observations], engine: str | Engine) -> Engine:
    """For "auto" the cheaper of a matrix over the rows and a chain on one thread: other blocks keep the other processors busy."""
    if engine == "auto" and jax.default_backend() == "cpu":
        works = [exact_work(model, len(block.places), block.grouping.layout) for block in blocks]
        return ExactWork(*np.sum(works, axis=0)).engine
    return choose_engine(engine, shape_of(model, blocks[0]))


@eqx.filter_jit
def _prior_and_gradient(
    point: Float[Array, " free"], space: ParameterSpace, model: Model, terms: tuple[tuple[Path, Prior], ...]
) -> tuple[Float[Array, ""], Float[Array, " free"]]:
    return jax.value_and_grad(lambda free: log_prior(space.place(model, free), terms))(point)


# Tasks are plain functions, which pickle by their name; compiled ones do not.
def _value(model: Model, engine: Engine, block: PaddedBlock) -> Float[Array, ""]:
    return _compiled_value(model, block, engine)


def _shared_score(
    point: Float[AnyArray, " free"], space: ParameterSpace, model: Model, engine: Engine, block: PaddedBlock
) -> tuple[Float[Array, ""], Float[Array, " free"]]:
    return _compiled_score(point, space, model, block, engine)


@eqx.filter_jit
def _compiled_value(model: Model, block: PaddedBlock, engine: Engine) -> Float[Array, ""]:
    return padded_log_evidence(model, block, engine)


@eqx.filter_jit
def _compiled_score(
    point: Float[AnyArray, " free"], space: ParameterSpace, model: Model, block: PaddedBlock, engine: Engine
) -> tuple[Float[Array, ""], Float[Array, " free"]]:
    return jax.value_and_grad(lambda free: padded_log_evidence(space.place(model, free), block, engine))(point)


def _own_score(
    point: Float[AnyArray, " free"],
    space: ParameterSpace,
    model: Model,
    power: float,
    engine: str | Engine,
    block: Observations,
    memory: SearchMemory | None,
) -> tuple[Array, Array, SearchMemory | None]:
    """Of a model whose blocks do not share a compilation; the memory of the search comes back with what it learned."""
    value, slope = jax.value_and_grad(
        lambda free: log_evidence(space.place(model, free), block, power=power, engine=engine, memory=memory)
    )(jnp.asarray(point))
    return value, slope, memory


def padded_log_evidence(model: Model, block: PaddedBlock, engine: Engine) -> Float[Array, ""]:
    """Exact log evidence of a block's rows."""
    assert isinstance(model.likelihood, Gaussian)
    prior = prior_at(model, block.grid, block.places, block.time_of_row, block.place_of_row)
    floor = NOISE_FLOOR * signal_variances(model, block.grid.times, block.places, block.time_of_row, block.place_of_row)
    noise = jnp.broadcast_to(model.likelihood.noise_variance(block.noise_variance), block.values.shape)
    noise = jnp.where(block.present, jnp.maximum(noise, floor), 1.0)
    sites = Rows(block.layout, block.place_of_row, block.values, jnp.where(block.present, 1.0 / noise, 0.0))
    constant = -jnp.sum(jnp.where(block.present, jnp.log(2 * jnp.pi * noise), 0.0)) / 2
    return engine.log_normaliser(prior.chain, prior.weights, sites) + constant


def pad_blocks(blocks: Sequence[Observations], *, by_row: bool = False) -> tuple[PaddedBlock, ...]:
    """All blocks with one shape. A block with fewer places borrows some of another's, at which it has no rows.

    `by_row` gives each row a time of its own, rows of one time a step of length zero apart: where every time has another number of
    rows in every block, a shape with as many as the most at each would be several times as large.
    """
    num_times = max(len(block.times) for block in blocks)
    num_places = max(len(block.places) for block in blocks)
    if by_row:
        layout = Layout(np.arange(max(block.num_rows for block in blocks) + 1))
    else:
        counts = np.zeros((len(blocks), num_times), dtype=np.int64)
        for number, block in enumerate(blocks):
            counts[number, : len(block.times)] = block.grouping.layout.counts
        layout = Layout(np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts.max(axis=0))]))
    grids = [time_grid(block.row_times if by_row else block.times) for block in blocks]
    num_steps = max(len(grid.steps) for grid in grids)
    with_noise = any(block.noise_variance is not None for block in blocks)
    return tuple(
        _pad_block(block, grid, layout, num_steps, _fill_up(block.places, blocks, num_places), with_noise)
        for block, grid in zip(blocks, grids, strict=True)
    )


def _pad_block(
    block: Observations,
    grid: TimeGrid,
    layout: Layout,
    num_steps: int,
    places: Float[np.ndarray, "place dim"],
    with_noise: bool,
) -> PaddedBlock:
    grouping = block.grouping
    more_times = layout.num_times - len(grid.times)
    slot = np.arange(block.num_rows)
    if len(grid.times) == len(block.times):
        time_of_row = np.asarray(grouping.time_of_row)
        slot = layout.offsets[time_of_row] + slot - grouping.layout.offsets[time_of_row]

    def spread(numbers: AnyArray, filler: float | bool, dtype: type = np.float64) -> np.ndarray:
        whole: np.ndarray = np.full(layout.num_rows, filler, dtype=dtype)
        whole[slot] = np.asarray(numbers)
        return whole

    noise = np.zeros(block.num_rows) if block.noise_variance is None else block.noise_variance
    return PaddedBlock(
        layout=layout,
        grid=TimeGrid(
            # Times added at the end lie a step of length zero further.
            times=np.pad(grid.times, (0, more_times), mode="edge"),
            steps=np.pad(grid.steps, (0, num_steps - len(grid.steps))),
            step_number=np.pad(grid.step_number, (0, more_times)),
        ),
        places=places,
        time_of_row=np.repeat(np.arange(layout.num_times, dtype=np.int32), layout.counts),
        place_of_row=spread(grouping.place_of_row, 0.0, np.int32),
        values=spread(block.values, 0.0),
        noise_variance=spread(noise, 1.0) if with_noise else None,
        present=spread(np.ones(block.num_rows, dtype=bool), False, bool),
    )


def _fill_up(
    places: Float[np.ndarray, "own dim"], blocks: Sequence[Observations], count: int
) -> Float[np.ndarray, "place dim"]:
    """The block's own places, then others' that are not among them."""
    for block in blocks:
        if len(places) == count:
            break
        own = {tuple(place) for place in places.tolist()}
        others = [place for place in block.places.tolist() if tuple(place) not in own]
        if others:
            places = np.concatenate([places, np.array(others[: count - len(places)])])
    assert len(places) == count
    return places
