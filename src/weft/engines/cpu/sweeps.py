# SPDX-License-Identifier: MIT
"""Forward and backward sweeps over a series, or a half of it, in bounded memory and in slices that can be interrupted."""

import itertools
from typing import NamedTuple

import numpy as np

from weft.engines.base import filter_flops
from weft.engines.cpu.adjoint import Gradient
from weft.engines.cpu.blocks import Adjoint, Belief
from weft.engines.cpu.compiled import kernels, switch_kernels
from weft.engines.cpu.filter import Kept, Series, Stretch
from weft.engines.cpu.interrupts import Brake
from weft.engines.cpu.limits import Limits
from weft.engines.cpu.problem import FilterFailure, Problem
from weft.engines.cpu.shelf import Shelf, aligned
from weft.engines.cpu.switches import SwitchedSeries
from weft.engines.cpu.work import make_work

# One for the process, whatever the limits of a call.
SHELF = Shelf(for_a_while=Limits().whole_bytes)


def kept_lengths(size: int, num_bottleneck: int, most_rows: int) -> tuple[int, ...]:
    """Numbers kept of one step, in the order of the fields of `Kept` but the last; `most_rows` of any time."""
    rank = min(most_rows, num_bottleneck)
    whitened_rows = rank * num_bottleneck if most_rows > num_bottleneck else 0
    return (size * size, size, rank * size, whitened_rows, rank * rank, rank)


def carve(buffer: np.ndarray, count: int, lengths: tuple[int, ...]) -> Kept:
    """`count` steps laid out in one piece of memory."""
    edges = itertools.accumulate((count * length for length in lengths), initial=0)
    parts = [buffer[first:last] for first, last in itertools.pairwise(edges)]
    return Kept._make([*parts, np.empty(count, dtype=np.int64)])


class SegmentPlan(NamedTuple):
    """Steps of one segment, and the bytes of them and of all checkpoints."""

    length: int
    bytes: int


def plan_segments(count: int, lengths: tuple[int, ...], size: int, limits: Limits, share: float = 1.0) -> SegmentPlan:
    """How `count` steps, of which so many numbers are kept each (see `kept_lengths`), are kept in a share of the limits."""
    step, checkpoint = 8 * (sum(lengths) + 1), 8 * (size * size + size)
    length = min(segment_length(count, step, checkpoint, limits, share), count)
    return SegmentPlan(length, length * step + -(-count // max(length, 1)) * checkpoint)


def segment_length(count: int, step: int, checkpoint: int, limits: Limits, share: float = 1.0) -> int:
    """The whole series if its kept steps fit the limits, else the longest segment that does; about sqrt(count) if none does.

    `step` and `checkpoint` (one a segment) are the bytes of one of each; `share` is the part of the limits to use.
    """
    if count * step + checkpoint <= share * limits.whole_bytes:
        return count
    # length * step + (count / length + 1) * checkpoint = budget, the larger root.
    room = share * limits.segment_bytes - checkpoint
    discriminant = room**2 - 4 * step * checkpoint * count
    smallest_memory = int(np.ceil(np.sqrt(count * checkpoint / step)))
    if room <= 0 or discriminant < 0:
        return smallest_memory
    return max(int((room + np.sqrt(discriminant)) / (2 * step)), smallest_memory)


def segments(count: int, length: int, begin: int = 0) -> list[tuple[int, int]]:
    """`begin` to `count` in segments; an odd piece comes first, so that the last, which is kept as it is met, is a long one."""
    if begin >= count:
        return []
    return list(itertools.pairwise([begin, *range(count - (count - begin - 1) // length * length, count + 1, length)]))


def slices(flops: np.ndarray, first: int, last: int, limits: Limits) -> list[tuple[int, int]]:
    """`first` to `last` in pieces of about `slice_seconds`, by the cumulative work before each step."""
    whole = flops[last] - flops[first]
    pieces = int(whole / (limits.flops_per_second * limits.slice_seconds))
    if pieces <= 1:
        return [(first, last)]
    inner = np.searchsorted(flops, flops[first] + whole * np.arange(1, pieces) / pieces)
    edges = np.unique(np.clip(np.concatenate([[first], inner, [last]]), first, last))
    return [(int(begin), int(end)) for begin, end in itertools.pairwise(edges)]


class Filter:
    """A filter over one sweep: mean and covariance so far, and what is kept for the way back."""

    def __init__(
        self,
        problem: Problem,
        limits: Limits,
        series: Series | SwitchedSeries,
        start: Belief,
        brake: Brake,
        times: np.ndarray,
    ):
        self.problem, self.limits, self.series, self.brake, self.times = problem, limits, series, brake, times
        self.start, self.belief = start, Belief(aligned(start.mean), aligned(start.covariance))
        self.work = make_work(problem.frame.structure)
        self._kernels = kernels() if isinstance(series, Series) else switch_kernels().sweeps
        self.log_normaliser = 0.0
        sweep = series.sweep
        self.num_steps = len(sweep.step)
        counts = sweep.row_stop - sweep.row_start + sweep.query_stop - sweep.query_start
        self._flops = np.concatenate([[0.0], np.cumsum(filter_flops(counts, problem.size, problem.num_bottleneck))])
        self._most_rows = int((sweep.row_stop - sweep.row_start).max(initial=0))
        asked = np.flatnonzero(sweep.query_stop > sweep.query_start)
        self._first_asked = int(asked[0]) if len(asked) else self.num_steps
        self._memory = np.empty(0)
        self._kept = carve(self._memory, 0, kept_lengths(1, 1, 1))
        self._checkpoints: list[tuple[int, Belief | None]] = []

    def _forward(self, first: int, last: int, keep: bool, base: int, answer: bool) -> float:
        total = 0.0
        for begin, end in slices(self._flops, first, last, self.limits):
            self.brake.check()
            stretch = Stretch(begin, end, base)
            share, broken = self._kernels.forward(
                self.problem.frame, self.series, self.work, stretch, self._kept, self.belief, keep, answer
            )
            if broken >= 0:
                raise breakdown(self.problem, int(self.times[broken]))
            total += share
        return total

    def run(self, answer: bool = False) -> None:
        """The value alone (and filtered answers, with `answer`)."""
        self.log_normaliser = self._forward(0, self.num_steps, False, 0, answer)

    def run_keeping(self, share: float, answer: bool = False) -> None:
        """The value, keeping what the way back needs in a share of the budgets: a checkpoint a segment, and every step of the last.

        With `answer` the way back ends at the first step that is asked about.
        """
        begin = self._first_asked if answer else 0
        lengths = kept_lengths(self.problem.size, self.problem.num_bottleneck, self._most_rows)
        plan = plan_segments(self.num_steps - begin, lengths, self.problem.size, self.limits, share)
        self._memory = SHELF.take(plan.length * sum(lengths))
        self._kept = carve(self._memory, plan.length, lengths)
        self.log_normaliser += self._forward(0, begin, False, 0, False)
        for first, last in segments(self.num_steps, plan.length, begin):
            final = last == self.num_steps
            # The last segment is kept as it is met.
            checkpoint = None if final else Belief(aligned(self.belief.mean), aligned(self.belief.covariance))
            self._checkpoints.append((first, checkpoint))
            self.log_normaliser += self._forward(first, last, final, first, False)

    def run_back(self, adjoint: Adjoint, gradient: Gradient, answer: bool = False) -> None:
        """Sweep the adjoint back from after the last step to the first that was kept, in place."""
        last = self.num_steps
        while self._checkpoints:
            first, checkpoint = self._checkpoints.pop()
            if checkpoint is not None:
                self.belief = checkpoint
                self._forward(first, last, True, first, False)
            for begin, end in reversed(slices(self._flops, first, last, self.limits)):
                self.brake.check()
                stretch = Stretch(begin, end, first)
                self._kernels.backward(
                    self.problem.frame, self.series, self.work, stretch, self._kept, adjoint, gradient, answer
                )
            last = first
        SHELF.give_back(self._memory)
        self._memory = np.empty(0)
        self._kept = carve(self._memory, 0, kept_lengths(1, 1, 1))


def breakdown(problem: Problem, time: int) -> FilterFailure:
    """Why the filter could not go on at a time."""
    first, last = problem.layout.offsets[time], problem.layout.offsets[time + 1]
    precision = problem.observed.precision[first:last]
    return FilterFailure(
        f"the filter broke down at time step {time} of {problem.num_times} ({last - first} rows, precisions up to "
        f"{precision.max(initial=0.0):.3g}): the covariance there is no longer positive or finite; likely causes are a noise variance "
        "too small for the signal, a process noise that is not positive semi-definite, or parameters that overflow"
    )
