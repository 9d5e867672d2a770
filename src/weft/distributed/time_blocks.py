# SPDX-License-Identifier: MIT
"""An engine for one long series: blocks of its times are tasks, joined exactly.

Each block first tells what it does to whatever comes in (`engines.cpu.elements`). From those few numbers a block the caller tells every
block what comes in from before and what is known from after, and the blocks are swept once more with that: value, gradient and
moments are those of one sweep over the whole series.
"""

import dataclasses
import functools
import itertools
from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Float

from weft.arrays import AnyArray, require_float64
from weft.data.layout import Layout
from weft.engines.base import Cost, Engine, Moments, Shape, filter_flops
from weft.engines.cpu import CpuEngine, Limits
from weft.engines.cpu.adjoint import Gradient
from weft.engines.cpu.blocks import Adjoint
from weft.engines.cpu.elements import (
    Element,
    adjoint_of,
    element_of,
    joined,
    nothing_known,
    seen_from_before,
    times_of,
)
from weft.engines.cpu.ends import Side
from weft.engines.cpu.interrupts import Brake
from weft.engines.cpu.operation import log_normaliser
from weft.engines.cpu.problem import Problem, make_asked, make_problem
from weft.engines.cpu.series import SeriesGradient, Solver, gradient_of, load_kernels, make_end
from weft.engines.cpu.threads import single_blas_thread
from weft.inference.executor import current_executor
from weft.state_space.chain import Chain, Queries, Rows, State

__all__ = ["TimeBlocksEngine"]

# A block is swept by one thread: the others have blocks of their own.
LIMITS = Limits(threads=1)


@dataclasses.dataclass(frozen=True)
class TimeBlocksEngine(Engine):
    """The sweeps of the cpu engine, block by block wherever tasks run; for few places and very many times.

    The number of blocks is a setting, not that of the workers, so that numbers do not depend on who computes them.
    """

    num_blocks: int = 4

    @property
    def name(self) -> str:
        return "time_blocks"

    def cost(self, shape: Shape, *, gradient: bool = True) -> Cost:
        """See `Engine`. A third more for what blocks first tell of themselves: less where they soon forget, more where they never do."""
        flops, working = CpuEngine(LIMITS).cost(shape, gradient=gradient)
        return Cost(flops * 4 / 3, working)

    def log_normaliser(
        self, chain: Chain, weights: Float[AnyArray, "place bottleneck"], rows: Rows
    ) -> Float[Array, ""]:
        """See `Engine`. Inside `jit` the blocks are threads of this process."""
        require_float64()
        return log_normaliser(_InBlocks(self.num_blocks), chain, weights, rows)

    def moments(
        self,
        chain: Chain,
        weights: Float[AnyArray, "place bottleneck"],
        rows: Rows,
        queries: Queries,
        *,
        filtered: bool = False,
    ) -> Moments:
        """See `Engine`."""
        problem = make_problem(chain, weights, rows)
        make_asked(problem, queries)
        how = "filter" if filtered else "smooth"
        parts = _InBlocks(self.num_blocks).swept(problem, how, queries)
        by_component = (-1, len(problem.components))
        mean, variance, total = (
            np.concatenate(columns) for columns in zip(*(part.answers for part in parts), strict=True)
        )
        return Moments(mean.reshape(by_component), variance.reshape(by_component), total)

    def means(
        self,
        chain: Chain,
        weights: Float[AnyArray, "place bottleneck"],
        rows: Rows,
        values: Float[AnyArray, "row draw"],
        queries: Queries,
    ) -> Float[AnyArray, "query draw"]:
        """See `Engine`. Not in blocks: draws share one filter over the whole series."""
        return CpuEngine(LIMITS).means(chain, weights, rows, values, queries)

    def last_state(self, chain: Chain, weights: Float[AnyArray, "place bottleneck"], rows: Rows) -> tuple[State, float]:
        """See `Engine`."""
        parts = _InBlocks(self.num_blocks).swept(make_problem(chain, weights, rows), "value", None)
        last = parts[-1].out
        return State(last.vector, last.matrix), sum(part.log_normaliser for part in parts)


class Swept(NamedTuple):
    """What comes of a sweep over one block: its share of the log normaliser, the state after it, and on the way back the rest."""

    log_normaliser: float
    out: Side
    gradient: Gradient | None
    adjoint: Side
    answers: tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclasses.dataclass(frozen=True)
class _InBlocks(Solver):
    """Solves a problem in so many blocks of times."""

    num_blocks: int

    def load(self, rows: Rows, num_bottleneck: int) -> None:
        load_kernels(rows, num_bottleneck, LIMITS)

    def log_normaliser(self, problem: Problem) -> float:
        return sum(part.log_normaliser for part in self.swept(problem, "value", None))

    def value_and_gradient(self, problem: Problem) -> tuple[float, SeriesGradient]:
        parts = self.swept(problem, "gradient", None)
        rows = problem.observed
        by_row = np.empty_like(rows.value), np.empty_like(rows.precision)
        # What one end would have gathered over the whole series.
        end = make_end(problem, LIMITS, 1, False, None, make_asked(problem, None), Brake(), by_row)
        gradients = [part.gradient for part in parts if part.gradient is not None]
        for found in gradients:
            for name in ("transition", "process_noise", "weights"):
                getattr(end.gradient, name)[...] += getattr(found, name)
        for name in ("value", "precision"):
            getattr(end.gradient, name)[...] = np.concatenate([getattr(found, name) for found in gradients])
        end.adjoint.vector[:], end.adjoint.matrix[:] = parts[0].adjoint
        return sum(part.log_normaliser for part in parts), gradient_of(problem, [end], None)

    def swept(self, problem: Problem, how: str, queries: Queries | None) -> list[Swept]:
        """Every block swept with what comes in from both sides; `how` is "value", "gradient", "filter" or "smooth"."""
        executor, edges = current_executor(), self._edges(problem)
        names = [f"times {first} to {last} of {problem.num_times}" for first, last in edges]
        # Each is asked twice, and sent once.
        blocks = [executor.hold(times_of(problem, first, last)) for first, last in edges]
        lengths = [last - first for first, last in edges]
        elements = executor.map(_element, blocks, lengths, names=names) if len(edges) > 1 else []
        start = problem.start()
        befores = [Side(start.mean, start.covariance.reshape(problem.size, -1))]
        for element in elements[:-1]:
            befores.append(joined(element, befores[-1]))
        afters = [Side(np.zeros(problem.size), np.zeros((problem.size, problem.size)))] * len(edges)
        if how in ("gradient", "smooth"):
            known = nothing_known(problem.size)
            for number in range(len(edges) - 1, 0, -1):
                known = seen_from_before(elements[number], known)
                afters[number - 1] = adjoint_of(known, befores[number])
        asked = [None if queries is None else _queries_of(queries, first, last) for first, last in edges]
        return executor.map(functools.partial(_sweep, how), blocks, lengths, befores, afters, asked, names=names)

    def _edges(self, problem: Problem) -> list[tuple[int, int]]:
        """Blocks of about equal work, each of a few times at least."""
        work = np.cumsum(filter_flops(problem.layout.counts, problem.size, problem.num_bottleneck))
        count = max(1, min(self.num_blocks, problem.num_times // 2))
        inner = np.searchsorted(work, work[-1] * np.arange(1, count) / count)
        edges = np.unique(np.concatenate([[0], inner, [problem.num_times]]))
        return list(itertools.pairwise(edges.tolist()))


def _element(block: Problem, length: int) -> Element:
    with single_blas_thread():
        return element_of(block, length)


def _sweep(how: str, block: Problem, length: int, before: Side, after: Side, queries: Queries | None) -> Swept:
    block = dataclasses.replace(block, start_mean=before.vector, start_covariance=before.matrix)
    asked = make_asked(block, queries)
    by_row = np.empty_like(block.observed.value), np.empty_like(block.observed.precision)
    layout = None if queries is None else queries.layout
    with single_blas_thread():
        end = make_end(block, LIMITS, length, False, layout, asked, Brake(), by_row)
        if how in ("value", "filter"):
            end.filter.run(answer=how == "filter")
        else:
            end.filter.run_keeping(1.0)
        out = Side(end.filter.belief.mean.copy(), end.filter.belief.covariance.reshape(block.size, -1).copy())
        if how in ("gradient", "smooth"):
            end.adjoint.vector[:], end.adjoint.matrix[:] = after
            end.filter.run_back(
                Adjoint(end.adjoint.vector, end.adjoint.matrix.reshape(-1)), end.gradient, how == "smooth"
            )
    answers = asked.mean, asked.variance, asked.total_variance
    return Swept(end.filter.log_normaliser, out, end.gradient if how == "gradient" else None, end.adjoint, answers)


def _queries_of(queries: Queries, first: int, last: int) -> Queries:
    """Those of some times, and none at the time after them."""
    offsets = queries.layout.offsets
    inside = np.append(offsets[first : last + 1], offsets[last])
    if last == queries.layout.num_times:
        inside = inside[:-1]
    return Queries(
        Layout(inside - offsets[first]),
        np.asarray(queries.place)[offsets[first] : offsets[last]],
        np.asarray(queries.weights),
    )
