# SPDX-License-Identifier: MIT
"""The evidence of several blocks with one set of parameters, and what their disagreement says about it.

Blocks of about one length are padded to one shape, so that one compilation serves all of them, and are evaluated as tasks of the
current executor: on all processors, or on workers elsewhere. The sum is taken in the blocks' order, so that it does not depend on how
many there are.
"""

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from weft.arrays import AnyArray, require_float64
from weft.data.observations import Observations
from weft.engines.base import Engine
from weft.engines.choose import choose_engine
from weft.engines.cpu import CpuEngine
from weft.engines.dense import DenseEngine
from weft.inference.approximate import require_variational
from weft.inference.evidence import log_evidence
from weft.inference.exact_work import ExactWork, exact_work
from weft.inference.executor import current_executor
from weft.inference.fields import Natural
from weft.inference.sites import extras_of
from weft.inference.variational import LEARNING_TOLERANCE, SearchMemory
from weft.likelihoods import Gaussian
from weft.model import Model
from weft.training.estimate import shape_of
from weft.training.maximise import FunctionValue
from weft.training.padding import pad_blocks
from weft.training.parameters import ParameterSpace, Path, Prior, log_prior_and_slopes
from weft.training.pieces import (
    Batch,
    evidence_of,
    has_closed_kernels,
    make_batches,
    sited_slopes_of,
    slopes_of,
)

__all__ = ["CompositeObjective", "block_evidence", "block_sites", "is_learned_plainly"]

_MOST_ROWS_IN_PAIRS = 1500
# Blocks that differ in length by less than this factor are padded to one.
_SIMILAR = 2.0


class BlockGradients(NamedTuple):
    """Log evidence of each block and its gradient in the free numbers."""

    value: Float[np.ndarray, " block"]
    gradient: Float[np.ndarray, "block free"]


class CompositeObjective:
    """Log evidence of all blocks plus log priors as a function of the free numbers; the blocks one by one where asked for."""

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
        self.space, self.model, self.terms = space, model, terms
        self.num_blocks = len(blocks)
        # Ctrl-C would look like a failed trial point on threads and inside compiled code, and waits for the end of an evaluation.
        self.is_compiled = len(blocks) > 1
        self.evidence: _Together | _TogetherWithSites | _OneByOne
        if not model.is_exact:
            self.evidence = _OneByOne(space, model, blocks, power, engine)
        elif isinstance(model.likelihood, Gaussian):
            self.evidence = _Together(space, model, blocks, engine)
        else:
            require_variational(model, power)
            self.evidence = _TogetherWithSites(space, model, blocks, engine)

    @property
    def num_engine_calls(self) -> int:
        return self.evidence.num_engine_calls

    @property
    def batch_size(self) -> int:
        """How many blocks `slopes_by_some` asks."""
        return self.evidence.num_sampled

    def __call__(self, point: Float[np.ndarray, " free"]) -> FunctionValue:
        scores = self.scores(point)
        prior, slope = log_prior_and_slopes(self.space, self.space.place_numpy(self.model, point), self.terms)
        evidence = float(np.sum(scores.value))
        gradient = np.sum(scores.gradient, axis=0) + self.space.steepness(point) * slope
        return FunctionValue(evidence + prior, gradient, evidence)

    def scores(self, point: Float[np.ndarray, " free"]) -> BlockGradients:
        """Value and gradient of each block's log evidence at `point` on the real line."""
        return self.evidence.scores(point)

    def slopes_by_some(self, points: Sequence[Float[np.ndarray, " free"]]) -> Float[np.ndarray, "point free"]:
        """The gradient at each point as the first batch of blocks of each length has it, which stands for the others."""
        found = []
        for point, gradient in zip(points, self.evidence.gradients_by_some(points), strict=True):
            _, slope = log_prior_and_slopes(self.space, self.space.place_numpy(self.model, point), self.terms)
            found.append(gradient + self.space.steepness(point) * slope)
        return np.stack(found)


class _Batches:
    """Blocks of an exact model, in batches that share every compilation, and tasks that ask each batch."""

    def __init__(self, model: Model, blocks: Sequence[Observations], engine: str | Engine):
        self.engine = engine_for_blocks(model, blocks, engine)
        self.executor = current_executor()
        batches, self.samples = _batches_for(blocks, self.engine)
        self.whole = batches[0]
        self.sizes = [batch.num_blocks for batch in batches]
        self.num_sampled = sum(self.sizes[sample.number] for sample in self.samples)
        self.held = [self.executor.hold(batch) for batch in batches]
        self.names = _names_of(batches, blocks)

    def ask(self, task: Callable[..., Any], *beside: Sequence[Any], again: bool) -> list[Any]:
        """What a task says of each batch and of what each list has beside it."""
        if sum(self.sizes) == 1:
            # On the caller's own thread, with whatever threads the engine wants.
            return [task(self.whole, *(each[0] for each in beside))]
        return self.executor.map(task, self.held, *beside, names=self.names, again=again)

    def ask_some(self, task: Callable[..., Any], models: Sequence[Model], *beside: Sequence[Any]) -> list[Any]:
        """The same of each model and the sampled batches: a task is one of either."""
        told, *more, names = (
            [each[sample.number] for sample in self.samples] * len(models) for each in (self.held, *beside, self.names)
        )
        placed = [model for model in models for _ in self.samples]
        return self.executor.map(task, placed, told, *more, names=names, again=True)


class _Together:
    """Blocks of an exact model with Gaussian noise."""

    def __init__(self, space: ParameterSpace, model: Model, blocks: Sequence[Observations], engine: str | Engine):
        self.space, self.model = space, model
        self.batches = _Batches(model, blocks, engine)
        self.num_sampled = self.batches.num_sampled
        self.num_engine_calls = 0

    def scores(self, point: Float[np.ndarray, " free"]) -> BlockGradients:
        placed = self.space.place_numpy(self.model, point)
        task = functools.partial(_scores_of_batch, self.space, self.batches.engine, placed)
        values, slopes = zip(*self.batches.ask(task, again=self.num_engine_calls > 0), strict=True)
        found = BlockGradients(np.concatenate(values), np.concatenate(slopes) * self.space.steepness(point))
        self.num_engine_calls += len(found.value)
        return found

    def gradients_by_some(self, points: Sequence[Float[np.ndarray, " free"]]) -> list[Float[np.ndarray, " free"]]:
        task = functools.partial(_scores_of_batch, self.space, self.batches.engine)
        found = self.batches.ask_some(task, [self.space.place_numpy(self.model, point) for point in points])
        self.num_engine_calls += sum(len(value) for value, _ in found)
        return _weighted(self.space, self.batches.samples, points, [slope for _, slope in found])


class _TogetherWithSites:
    """The same with any other likelihood: the search for the sites of a block starts where its last one ended."""

    def __init__(self, space: ParameterSpace, model: Model, blocks: Sequence[Observations], engine: str | Engine):
        for block in blocks:
            model.likelihood.check(np.asarray(block.values), extras_of(block), block.row)
        self.space, self.model = space, model
        self.batches = _Batches(model, blocks, engine)
        self.num_sampled = self.batches.num_sampled
        self.starts: list[list[Natural | None]] = [[None] * size for size in self.batches.sizes]
        self.num_engine_calls = 0

    def scores(self, point: Float[np.ndarray, " free"]) -> BlockGradients:
        placed = self.space.place_numpy(self.model, point)
        task = functools.partial(_sited_scores_of_batch, self.space, self.batches.engine, placed)
        found = self.batches.ask(task, self.starts, again=self.num_engine_calls > 0)
        self.starts = [list(each.sites) for each in found]
        self.num_engine_calls += sum(each.num_calls for each in found)
        return BlockGradients(
            np.concatenate([each.bounds for each in found]),
            np.concatenate([each.gradient for each in found]) * self.space.steepness(point),
        )

    def gradients_by_some(self, points: Sequence[Float[np.ndarray, " free"]]) -> list[Float[np.ndarray, " free"]]:
        task = functools.partial(_sited_scores_of_batch, self.space, self.batches.engine)
        models = [self.space.place_numpy(self.model, point) for point in points]
        found = self.batches.ask_some(task, models, self.starts)
        self.num_engine_calls += sum(each.num_calls for each in found)
        return _weighted(self.space, self.batches.samples, points, [each.gradient for each in found])


class _OneByOne:
    """Blocks of any model, each a problem of its own."""

    def __init__(
        self, space: ParameterSpace, model: Model, blocks: Sequence[Observations], power: float, engine: str | Engine
    ):
        self.arguments = (space, model, power, engine)
        self.executor = current_executor()
        self.blocks = [self.executor.hold(block) for block in blocks]
        self.num_sampled = len(blocks)
        self.names = [f"block {number} to learn from, {_described(block)}" for number, block in enumerate(blocks)]
        # The search for the sites of a likelihood that is not Gaussian starts where the block's last one ended.
        self.memories = [None if isinstance(model.likelihood, Gaussian) else SearchMemory() for _ in blocks]
        self.num_calls = 0

    @property
    def num_engine_calls(self) -> int:
        searches = [memory.engine_calls for memory in self.memories if memory is not None]
        return sum(searches) if searches else self.num_calls

    def scores(self, point: Float[np.ndarray, " free"]) -> BlockGradients:
        self.num_calls += len(self.blocks)
        task = functools.partial(_own_score, point, *self.arguments)
        found = self.executor.map(task, self.blocks, self.memories, names=self.names)
        # A worker searched with a copy of the memory.
        self.memories = [memory for _, _, memory in found]
        return BlockGradients(
            np.array([float(value) for value, _, _ in found]), np.stack([np.asarray(slope) for _, slope, _ in found])
        )

    def gradients_by_some(self, points: Sequence[Float[np.ndarray, " free"]]) -> list[Float[np.ndarray, " free"]]:
        return [self.scores(point).gradient.sum(axis=0) for point in points]


def _described(block: Observations) -> str:
    return f"{block.num_rows} rows at times {block.times[0]:g} to {block.times[-1]:g}"


def _names_of(batches: Sequence[Batch], blocks: Sequence[Observations]) -> list[str]:
    """What each batch is called where its task fails."""
    ends = np.cumsum([batch.num_blocks for batch in batches])
    return [
        f"blocks {end - batch.num_blocks} to {end - 1} to learn from, the first {_described(blocks[end - batch.num_blocks])}"
        for batch, end in zip(batches, ends, strict=True)
    ]


class _Sample(NamedTuple):
    """A batch that stands for all blocks of about its length, and how many of its own these are as many as."""

    number: int
    weight: float


def _batches_for(blocks: Sequence[Observations], engine: Engine) -> tuple[list[Batch], list[_Sample]]:
    """Blocks in their order, neighbours of about one length padded to one shape: a long one would make all the others as long.

    And of each length the first batch, for what a few blocks are enough to tell.
    """
    by_row = isinstance(engine, DenseEngine)
    lengths = [block.num_rows if by_row else len(block.times) for block in blocks]
    ends = [
        number
        for number, (before, own) in enumerate(itertools.pairwise(lengths), 1)
        if max(before, own) > _SIMILAR * min(before, own)
    ]
    batches: list[Batch] = []
    samples = []
    for start, end in itertools.pairwise([0, *ends, len(blocks)]):
        of_length = make_batches(pad_blocks(blocks[start:end], by_row=by_row))
        samples.append(_Sample(len(batches), (end - start) / of_length[0].num_blocks))
        batches += of_length
    return batches, samples


def _weighted(
    space: ParameterSpace,
    samples: Sequence[_Sample],
    points: Sequence[Float[np.ndarray, " free"]],
    slopes: Sequence[Float[np.ndarray, "_ free"]],
) -> list[Float[np.ndarray, " free"]]:
    """At each point the gradient of all blocks, as sampled batches have it one after another."""
    size = len(samples)
    return [
        space.steepness(point)
        * np.sum([s.weight * own.sum(axis=0) for s, own in zip(samples, slopes[n * size :], strict=False)], axis=0)
        for n, point in enumerate(points)
    ]


def block_evidence(
    model: Model, blocks: Sequence[Observations], *, engine: str | Engine = "auto"
) -> Float[np.ndarray, " block"]:
    """Log evidence of each block by itself; of an exact model with a Gaussian likelihood by one compilation for all of them."""
    require_float64()
    if not (model.is_exact and isinstance(model.likelihood, Gaussian)):
        return np.array([float(log_evidence(model, block, engine=engine)) for block in blocks])
    chosen = engine_for_blocks(model, blocks, engine)
    batches, _ = _batches_for(blocks, chosen)
    task = functools.partial(_values_of_batch, model, chosen)
    return np.concatenate(current_executor().map(task, batches, names=_names_of(batches, blocks)))


def block_sites(model: Model, blocks: Sequence[Observations]) -> list[Natural]:
    """The sites that stand for the likelihood of an exact model in each block by itself."""
    require_float64()
    chosen = engine_for_blocks(model, blocks, "auto")
    batches, _ = _batches_for(blocks, chosen)
    starts: list[list[Natural | None]] = [[None] * batch.num_blocks for batch in batches]
    task = functools.partial(_sites_of_batch, model, chosen)
    found = current_executor().map(task, batches, starts, names=_names_of(batches, blocks))
    return [sites for each in found for sites in each]


def is_learned_plainly(model: Model, block: Observations, engine: Engine) -> bool:
    """Whether nothing has to be compiled for the evidence of one block with its slopes, and it is better so.

    Beyond some rows, what all pairs of them take on the way to a matrix is too much memory.
    """
    if not model.is_exact or not has_closed_kernels(model, block.places.shape[1]):
        return False
    return isinstance(engine, CpuEngine) or (isinstance(engine, DenseEngine) and block.num_rows <= _MOST_ROWS_IN_PAIRS)


def engine_for_blocks(model: Model, blocks: Sequence[Observations], engine: str | Engine) -> Engine:
    """For "auto" the cheaper of a matrix over the rows and a chain on one thread: other blocks keep the other processors busy."""
    if engine == "auto" and jax.default_backend() == "cpu":
        works = [exact_work(model, len(block.places), block.grouping.layout) for block in blocks]
        return ExactWork(*np.sum(works, axis=0)).engine
    return choose_engine(engine, shape_of(model, blocks[0]))


# Tasks are plain functions, which pickle by their name; compiled ones do not.
def _values_of_batch(model: Model, engine: Engine, batch: Batch) -> Float[np.ndarray, " block"]:
    return evidence_of(model, batch, engine)


def _scores_of_batch(
    space: ParameterSpace, engine: Engine, model: Model, batch: Batch
) -> tuple[Float[np.ndarray, " block"], Float[np.ndarray, "block free"]]:
    """The evidence of `model` and its slopes in the free numbers themselves."""
    values, slopes = slopes_of(model, batch, engine)
    return values, np.concatenate([slopes.at(path) for path in space.paths], axis=1)[:, space.free]


def _sites_of_batch(model: Model, engine: Engine, batch: Batch, starts: Sequence[Natural | None]) -> list[Natural]:
    return sited_slopes_of(model, batch, engine, starts=starts, tolerance=LEARNING_TOLERANCE).sites


class _SitedScores(NamedTuple):
    """Bounds of the blocks of a batch with their slopes, where the next search for their sites starts, and what this one took."""

    bounds: Float[np.ndarray, " block"]
    gradient: Float[np.ndarray, "block free"]
    sites: list[Natural]
    num_calls: int


def _sited_scores_of_batch(
    space: ParameterSpace, engine: Engine, model: Model, batch: Batch, starts: Sequence[Natural | None]
) -> _SitedScores:
    bounds, slopes, sites, num_calls = sited_slopes_of(
        model, batch, engine, starts=starts, tolerance=LEARNING_TOLERANCE
    )
    gradient = np.concatenate([slopes.at(path) for path in space.paths], axis=1)[:, space.free]
    return _SitedScores(bounds, gradient, sites, num_calls)


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
