# SPDX-License-Identifier: MIT
"""Means of many sets of values over a series, in bounded memory: the filter once for all of them, then back."""

import numpy as np
from jaxtyping import Float

from weft.data.layout import Layout
from weft.engines.base import filter_flops
from weft.engines.cpu.blocks import Belief
from weft.engines.cpu.compiled import draw_kernels
from weft.engines.cpu.draws import Draws, KeptDraws
from weft.engines.cpu.filter import Asked, Series, Stretch
from weft.engines.cpu.interrupts import Brake
from weft.engines.cpu.limits import Limits
from weft.engines.cpu.problem import Problem, forward_sweep
from weft.engines.cpu.sweeps import breakdown, segment_length, segments, slices
from weft.engines.cpu.threads import single_blas_thread
from weft.engines.cpu.work import Work, make_work


def smoothed_means(
    problem: Problem, limits: Limits, values: Float[np.ndarray, "row draw"], queries: Layout, asked: Asked
) -> Float[np.ndarray, "query draw"]:
    """The mean of f at each query given each draw's values; the problem's own values must be zero."""
    answers = np.zeros((queries.num_rows, values.shape[1]))
    with single_blas_thread():
        for first in range(0, values.shape[1], limits.draws_at_once):
            mine = slice(first, first + limits.draws_at_once)
            answers[:, mine] = _means_of(problem, limits, np.ascontiguousarray(values[:, mine]), queries, asked)
    return answers


def most_rank(problem: Problem) -> int:
    """Of the rows of any time, once they are compressed."""
    return max(1, int(min(problem.layout.counts.max(initial=0), problem.num_bottleneck)))


def make_draws(problem: Problem, work: Work, values: Float[np.ndarray, "row draw"]) -> Draws:
    width = values.shape[1]
    return Draws(
        num_draws=width,
        values=values.reshape(-1),
        moved=np.zeros(problem.size * width),
        bottleneck=np.zeros(problem.num_bottleneck * width),
        innovation=np.zeros(problem.num_bottleneck * width),
        residuals=np.zeros(len(work.row_residuals) * width),
    )


def room_for_steps(problem: Problem, steps: int, width: int) -> KeptDraws:
    """Innovations are zero until they are written, which those of times with few rows are not whole."""
    size, bottleneck, rank = problem.size, problem.num_bottleneck, most_rank(problem)
    return KeptDraws(
        read_covariance=np.empty(steps * bottleneck * size),
        bottleneck_mean=np.empty(steps * bottleneck * width),
        gain=np.empty(steps * rank * size),
        root=np.empty(steps * rank * bottleneck),
        innovation=np.zeros(steps * rank * width),
        rank=np.empty(steps, dtype=np.int64),
    )


def _means_of(
    problem: Problem, limits: Limits, values: Float[np.ndarray, "row draw"], queries: Layout, asked: Asked
) -> Float[np.ndarray, "query draw"]:
    size, bottleneck, width, count = problem.size, problem.num_bottleneck, values.shape[1], problem.num_times
    series = Series(forward_sweep(problem, count, queries), problem.observed, asked)
    work = make_work(problem.frame.structure)
    draws = make_draws(problem, work, values)
    rank = most_rank(problem)
    step = 8 * (bottleneck * (size + width) + rank * (size + bottleneck + width))
    length = segment_length(count, step, 8 * size * (size + width), limits)
    steps = min(length, count)
    kept = room_for_steps(problem, steps, width)
    brake = Brake()
    flops = (1 + width / size) * filter_flops(problem.layout.counts, size, bottleneck)
    flops = np.concatenate([[0.0], np.cumsum(flops)])

    def forward(first: int, last: int, keep: bool, belief: Belief) -> None:
        for begin, end in slices(flops, first, last, limits):
            brake.check()
            stretch = Stretch(begin, end, first)
            broken = draw_kernels().forward(problem.frame, series, work, stretch, kept, draws, belief, keep)
            if broken >= 0:
                raise breakdown(problem, broken)

    start = problem.start()
    belief = Belief(np.repeat(start.mean, width), start.covariance.copy())
    checkpoints = []
    for first, last in segments(count, length):
        checkpoints.append((first, last, Belief(belief.mean.copy(), belief.covariance.copy())))
        forward(first, last, last == count, belief)

    pulled, answers = np.zeros(size * width), np.zeros(queries.num_rows * width)
    for first, last, belief in reversed(checkpoints):
        if last < count:
            forward(first, last, True, belief)
        for begin, end in reversed(slices(flops, first, last, limits)):
            brake.check()
            draw_kernels().backward(problem.frame, series, Stretch(begin, end, first), kept, draws, pulled, answers)
    return answers.reshape(-1, width)
