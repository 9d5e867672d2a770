# SPDX-License-Identifier: MIT
"""Kernels for means of many sets of values at once: covariances do not depend on values, so all share one filter.

A mean is here a flat matrix [state, draw], and so are lam, the pull and the bottleneck's mean.
"""

from typing import NamedTuple, no_type_check

import numpy as np
from jaxtyping import Float, Int

from weft.engines.cpu.blas import borrow, multiply, plain, solve_any_transposed, transposed
from weft.engines.cpu.blocks import Belief, add_read_in, clear, copy, move_covariance, move_means, read_rows
from weft.engines.cpu.filter import absorb
from weft.engines.cpu.inlined import inlined
from weft.engines.cpu.rows import Batch, gather
from weft.engines.cpu.triangular import solve_transposed


class KeptDraws(NamedTuple):
    """H P_f, the filtered mean of z, and Z, R and a as in `filter`, of each step."""

    read_covariance: Float[np.ndarray, " slot*bottleneck*state"]
    bottleneck_mean: Float[np.ndarray, " slot*bottleneck*draw"]
    gain: Float[np.ndarray, " slot*rank*state"]
    root: Float[np.ndarray, " slot*rank*bottleneck"]
    innovation: Float[np.ndarray, " slot*rank*draw"]
    rank: Int[np.ndarray, " slot"]


class Draws(NamedTuple):
    """How many draws, their values, and scratch space for means or lam after a step, z's mean or pull, a, and residuals of rows."""

    num_draws: int
    values: Float[np.ndarray, " row*draw"]
    moved: Float[np.ndarray, " state*draw"]
    bottleneck: Float[np.ndarray, " bottleneck*draw"]
    innovation: Float[np.ndarray, " bottleneck*draw"]
    residuals: Float[np.ndarray, " chunk*draw"]


@inlined
@no_type_check
def whitened_residuals(frame, batch, draws, work, target):
    """Rows (into work.row_weights) and, for every draw, residuals from its mean of z, times the root of the precision."""
    num_bottleneck, count, width = frame.num_bottleneck, batch.stop - batch.start, draws.num_draws
    weights = work.row_weights
    gather(batch, num_bottleneck, weights)
    copy(count * width, draws.values[batch.start * width :], target)
    left, right = plain(weights, num_bottleneck), plain(draws.bottleneck, width)
    multiply(frame.routines, (count, width, num_bottleneck), -1.0, left, right, 1.0, (target, width))
    for i in range(count):
        root = np.sqrt(batch.observed.precision[batch.start + i])
        for j in range(width):
            target[i * width + j] *= root
        for j in range(num_bottleneck):
            weights[i * num_bottleneck + j] *= root


@inlined
@no_type_check
def compressed_residuals(frame, batch, draws, work, target):
    """Solve E'c = sum over rows of weight times residual for c, with the triangular E that `absorb` left."""
    num_bottleneck, width = frame.num_bottleneck, draws.num_draws
    chunk = len(work.row_residuals)
    clear(num_bottleneck * width, target)
    for first in range(batch.start, batch.stop, chunk):
        part = Batch(batch.observed, first, min(first + chunk, batch.stop))
        whitened_residuals(frame, part, draws, work, draws.residuals)
        left, right = transposed(work.row_weights, num_bottleneck), plain(draws.residuals, width)
        shape = (num_bottleneck, width, part.stop - first)
        multiply(frame.routines, shape, 1.0, left, right, 1.0, (target, width))
    solve_any_transposed(frame.routines, num_bottleneck, width, work.whitened_rows, target)


@inlined
@no_type_check
def absorb_draws(frame, batch, draws, mean, rank, gain, innovation, work):
    """Condition every draw's mean on its values of a batch, by Z in `gain` and what else `absorb` left; a into `innovation`."""
    size, width = frame.size, draws.num_draws
    read_rows(frame, width, mean, draws.bottleneck)
    if batch.stop - batch.start <= frame.num_bottleneck:
        whitened_residuals(frame, batch, draws, work, innovation)
    else:
        compressed_residuals(frame, batch, draws, work, innovation)
    # Residuals of rows are done with: room for a panel.
    solve_transposed(frame.routines, rank, width, work.factor, work.inverse_blocks, innovation, draws.residuals)
    left, right = transposed(gain, size), plain(innovation, width)
    multiply(frame.routines, (size, width, rank), 1.0, left, right, 1.0, (mean, width))


@no_type_check
def run_draws_forward(frame, series, work, stretch, kept, draws, belief, keep):
    """Filter a stretch for all draws, whose means the belief holds; -1, or the step at which it broke down."""
    frame, series, work, kept = borrow(frame), borrow(series), borrow(work), borrow(kept)
    draws, belief = borrow(draws), borrow(belief)
    sweep, size, num_bottleneck, width = series.sweep, frame.size, frame.num_bottleneck, draws.num_draws
    mean, covariance = belief
    most_rank = len(kept.root) // (num_bottleneck * len(kept.rank))
    # The one mean that `absorb` updates is of no interest here: its rows have value 0, and so it stays 0.
    clear(size, work.zero_mean)
    for i in range(stretch.first, stretch.last):
        slot = i - stretch.base
        batch = Batch(series.observed, sweep.row_start[i], sweep.row_stop[i])
        gain, innovation = work.gain, draws.innovation
        if keep:
            kept.rank[slot] = 0
            gain, innovation = kept.gain[slot * most_rank * size :], kept.innovation[slot * most_rank * width :]
        if batch.stop > batch.start:
            worked, _, rank = absorb(frame, batch, Belief(work.zero_mean, covariance), gain, work.factor, work)
            if not worked:
                return i
            absorb_draws(frame, batch, draws, mean, rank, gain, innovation, work)
            if keep:
                kept.rank[slot] = rank
                root = kept.root[slot * most_rank * num_bottleneck :]
                copy(rank * num_bottleneck, work.whitened_rows, root)
                solve_transposed(
                    frame.routines, rank, num_bottleneck, work.factor, work.inverse_blocks, root, work.panel
                )
        if keep:
            read_rows(frame, size, covariance, kept.read_covariance[slot * num_bottleneck * size :])
            read_rows(frame, width, mean, kept.bottleneck_mean[slot * num_bottleneck * width :])
        step = sweep.step[i]
        if step >= 0:
            move_covariance(frame, sweep.transition[step], sweep.process_noise[step], covariance, work.mixed)
            move_means(frame, sweep.transition[step], width, mean, draws.moved)
            copy(size * width, draws.moved, mean)
    return -1


@inlined
@no_type_check
def answer_draws(frame, series, i, centre, width, answer):
    """Answer the queries of step i by every draw's mean of z."""
    sweep, asked = series.sweep, series.asked
    for query in range(sweep.query_start[i], sweep.query_stop[i]):
        row = answer[query * width : (query + 1) * width]
        for z in range(frame.num_bottleneck):
            w = asked.weights[asked.place[query] * frame.num_bottleneck + z]
            x = centre[z * width : (z + 1) * width]
            for r in range(width):
                row[r] += w * x[r]


@no_type_check
def run_draws_backward(frame, series, stretch, kept, draws, pulled, answer):
    """Sweep lam of all draws from the last step of a stretch down to its first, answering queries: answer[query, draw]."""
    frame, series, kept, draws = borrow(frame), borrow(series), borrow(kept), borrow(draws)
    pulled, answer = borrow(pulled), borrow(answer)
    sweep, size, num_bottleneck, width = series.sweep, frame.size, frame.num_bottleneck, draws.num_draws
    routines, most_rank = frame.routines, len(kept.root) // (num_bottleneck * len(kept.rank))
    for i in range(stretch.last - 1, stretch.first - 1, -1):
        slot = i - stretch.base
        step = sweep.step[i]
        if step >= 0:
            move_means(frame, sweep.transposed[step], width, pulled, draws.moved)
            copy(size * width, draws.moved, pulled)
        if sweep.query_stop[i] > sweep.query_start[i]:
            centre = kept.bottleneck_mean[slot * num_bottleneck * width :]
            half = plain(kept.read_covariance[slot * num_bottleneck * size :], size)
            multiply(routines, (num_bottleneck, width, size), 1.0, half, plain(pulled, width), 1.0, (centre, width))
            answer_draws(frame, series, i, centre, width, answer)
        rank = kept.rank[slot]
        if rank == 0:
            continue
        # t = a - Z lam, then lam += H'R't.
        gain = plain(kept.gain[slot * most_rank * size :], size)
        root = transposed(kept.root[slot * most_rank * num_bottleneck :], num_bottleneck)
        shift = kept.innovation[slot * most_rank * width :]
        multiply(routines, (rank, width, size), -1.0, gain, plain(pulled, width), 1.0, (shift, width))
        pull = (draws.bottleneck, width)
        multiply(routines, (num_bottleneck, width, rank), 1.0, root, plain(shift, width), 0.0, pull)
        add_read_in(frame, width, draws.bottleneck, pulled)
