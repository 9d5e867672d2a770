# SPDX-License-Identifier: MIT
"""Means of many sets of values over a series, in bounded memory: the filter once for all of them, then back."""

import numpy as np
from jaxtyping import Float

from weft.data.layout import Layout
from weft.engines.base import filter_flops
from weft.engines.cpu.blas import ROUTINES
from weft.engines.cpu.compiled import draw_kernels
from weft.engines.cpu.draws import KeptDraws
from weft.engines.cpu.filter import Asked
from weft.engines.cpu.interrupts import Brake
from weft.engines.cpu.limits import Limits
from weft.engines.cpu.problem import Problem, forward_sweep
from weft.engines.cpu.sweeps import breakdown, make_work, segment_length, segments, slices
from weft.engines.cpu.threads import single_blas_thread


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


def _means_of(
    problem: Problem, limits: Limits, values: Float[np.ndarray, "row draw"], queries: Layout, asked: Asked
) -> Float[np.ndarray, "query draw"]:
    size, bottleneck, draws, count = problem.size, problem.num_bottleneck, values.shape[1], problem.num_times
    sweep = forward_sweep(problem, count, queries)
    work = make_work(problem.structure)
    scratch = np.zeros((size + 2 * bottleneck + len(work.residual)) * draws)
    rank = max(1, int(min(problem.layout.counts.max(initial=0), bottleneck)))
    step = 8 * (bottleneck * (size + draws) + rank * (size + bottleneck + draws))
    length = segment_length(count, step, 8 * size * (size + draws), limits)
    steps = min(length, count)
    kept = KeptDraws(
        half=np.empty(steps * bottleneck * size),
        centre=np.empty(steps * bottleneck * draws),
        gain=np.empty(steps * rank * size),
        root=np.empty(steps * rank * bottleneck),
        innovation=np.empty(steps * rank * draws),
        rank=np.empty(steps, dtype=np.int64),
    )
    brake = Brake()
    common = (ROUTINES, problem.structure, sweep, problem.observed, work)
    flops = (1 + draws / size) * filter_flops(problem.layout.counts, size, bottleneck)
    flops = np.concatenate([[0.0], np.cumsum(flops)])

    def forward(first: int, last: int, keep: bool, mean: np.ndarray, covariance: np.ndarray) -> None:
        for begin, end in slices(flops, first, last, limits):
            brake.check()
            broken = draw_kernels().forward(
                *common, begin, end, keep, first, kept, values.reshape(-1), draws, mean, covariance, scratch
            )
            if broken >= 0:
                raise breakdown(problem, broken)

    if problem.start_mean is None or problem.start_covariance is None:
        mean, covariance = np.zeros(size * draws), problem.initial_covariance()
    else:
        mean, covariance = np.repeat(problem.start_mean, draws), problem.start_covariance.reshape(-1).copy()
    checkpoints = []
    for first, last in segments(count, length):
        checkpoints.append((first, last, mean.copy(), covariance.copy()))
        forward(first, last, last == count, mean, covariance)

    pulled, answers = np.zeros(size * draws), np.zeros(queries.num_rows * draws)
    for first, last, mean, covariance in reversed(checkpoints):
        if last < count:
            forward(first, last, True, mean, covariance)
        for begin, end in reversed(slices(flops, first, last, limits)):
            brake.check()
            draw_kernels().backward(
                *common, begin, end, first, kept, draws, pulled, scratch, asked.place, asked.weights, answers
            )
    return answers.reshape(-1, draws)
