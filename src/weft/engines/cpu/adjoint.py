# SPDX-License-Identifier: MIT
"""The backward sweep: the adjoint of the filter, which is the Bryson-Frazier smoother.

lam and Lam stand for the gradients dL/dm = lam and dL/dP = (lam lam' - Lam) / 2. Across an update (de Jong 1989, in the names of
`filter`), with X = Z Lam_f:

    lam = lam_f + H'R'(a - Z lam_f);   Lam = Lam_f - U'H - H'U,   U = R'(X - (I + X Z') R H / 2).

R and Z are at most of the size of the prior's precision and covariance. The same in terms of the rows' information, G H P_f in place of
R'Z, multiplies numbers as large as the precision with others as small as its inverse, and loses the digits between.

The rows' gradient needs E S, where S is the smoothed covariance of z: E H P_f = C^-1 Z, so E S = C^-1 (Z H' - X P_f H').
"""

from typing import NamedTuple, no_type_check

import numpy as np
from jaxtyping import Float

from weft.engines.cpu.blas import borrow, multiply, plain, solve_any, transposed
from weft.engines.cpu.blocks import (
    Belief,
    add_latent_outer,
    add_latent_trace,
    add_read_in,
    clear,
    copy,
    mirror,
    move_adjoint,
    move_means,
    move_symmetric,
    read_columns,
    read_rows,
    subtract_read_in_rows,
    subtract_symmetric_read_in,
)
from weft.engines.cpu.filter import gather_asked, project, tell_means
from weft.engines.cpu.inlined import inlined
from weft.engines.cpu.rows import Batch, dot, gather, weigh
from weft.engines.cpu.triangular import multiply_symmetric, read_inverse, solve, solve_transposed


class Gradient(NamedTuple):
    """Where the gradient is added up."""

    transition: Float[np.ndarray, "step flat"]
    process_noise: Float[np.ndarray, "step flat"]
    weights: Float[np.ndarray, " place*bottleneck"]
    value: Float[np.ndarray, " row"]
    precision: Float[np.ndarray, " row"]


class Update(NamedTuple):
    """One slot of `Kept`: Z, E where the rows were compressed, C, a, and how many rows these have."""

    gain: Float[np.ndarray, " rank*state"]
    whitened_rows: Float[np.ndarray, " rank*bottleneck"]
    factor: Float[np.ndarray, " rank*rank"]
    innovation: Float[np.ndarray, " rank"]
    rank: int


@inlined
@no_type_check
def accumulate_row(observed, row, centre, covered, push, variance, gradient):
    """Gradient of one row: `covered` times `push` is its weights times S times its precision, `variance` that of its smoothed f."""
    num_bottleneck = len(centre)
    precision = observed.precision[row]
    place = observed.place[row] * num_bottleneck
    residual = observed.value[row] - dot(num_bottleneck, observed.weights, place, centre, 0)
    gradient.value[row] = -precision * residual
    gradient.precision[row] = -(residual * residual + variance) / 2
    target = gradient.weights[place : place + num_bottleneck]
    pull = precision * residual
    for j in range(num_bottleneck):
        target[j] += pull * centre[j] - push * covered[j]


@inlined
@no_type_check
def variance_of_row(frame, observed, row, adjoint, work):
    """The smoothed variance of one row's f from P_f H' and Lam_f; only for a row of no precision, which E knows nothing of."""
    size, num_bottleneck = frame.size, frame.num_bottleneck
    place = observed.place[row] * num_bottleneck
    covariance = work.row_covariance
    for j in range(size):
        covariance[j] = dot(num_bottleneck, work.covariance_read, j * num_bottleneck, observed.weights, place)
    read_rows(frame, 1, covariance, work.row_covariance_read)
    variance = dot(num_bottleneck, work.row_covariance_read, 0, observed.weights, place)
    for j in range(size):
        variance -= covariance[j] * dot(size, adjoint.matrix, j * size, covariance, 0)
    return max(variance, 0.0)


@inlined
@no_type_check
def accumulate_rows(frame, batch, adjoint, work, gradient):
    """Gradient of a batch of rows from E S in work.rows_smoothed."""
    observed, num_bottleneck = batch.observed, frame.num_bottleneck
    smoothed, centre = work.rows_smoothed, work.bottleneck_mean
    if batch.stop - batch.start <= num_bottleneck:
        for row in range(batch.start, batch.stop):
            root = np.sqrt(observed.precision[row])
            first = (row - batch.start) * num_bottleneck
            mine = smoothed[first : first + num_bottleneck]
            if root > 0.0:
                place = observed.place[row] * num_bottleneck
                variance = max(dot(num_bottleneck, mine, 0, observed.weights, place), 0.0) / root
            else:
                variance = variance_of_row(frame, observed, row, adjoint, work)
            accumulate_row(observed, row, centre, mine, root, variance, gradient)
        return
    # More rows than E has: S from E S. Where E knows little S is inaccurate, but there the rows do not look.
    solve_any(frame.routines, num_bottleneck, num_bottleneck, work.whitened_rows, smoothed)
    covariance = plain(smoothed, num_bottleneck)
    chunk = len(work.row_residuals)
    for first in range(batch.start, batch.stop, chunk):
        part = Batch(observed, first, min(first + chunk, batch.stop))
        count = part.stop - first
        gather(part, num_bottleneck, work.row_weights)
        weights, covered = plain(work.row_weights, num_bottleneck), (work.weights_covered, num_bottleneck)
        multiply(frame.routines, (count, num_bottleneck, num_bottleneck), 1.0, weights, covariance, 0.0, covered)
        for i in range(count):
            mine = work.weights_covered[i * num_bottleneck : (i + 1) * num_bottleneck]
            variance = max(dot(num_bottleneck, mine, 0, work.row_weights, i * num_bottleneck), 0.0)
            accumulate_row(observed, first + i, centre, mine, observed.precision[first + i], variance, gradient)


@inlined
@no_type_check
def pull_back(frame, update, adjoint, work):
    """R and X into work, from E in work.whitened_rows."""
    routines, size, num_bottleneck = frame.routines, frame.size, frame.num_bottleneck
    rank = update.rank
    read_inverse(rank, update.factor, work.inverse_blocks)
    copy(rank * num_bottleneck, work.whitened_rows, work.root)
    solve_transposed(routines, rank, num_bottleneck, update.factor, work.inverse_blocks, work.root, work.panel)
    gain, matrix = plain(update.gain, size), plain(adjoint.matrix, size)
    multiply(routines, (rank, size, size), 1.0, gain, matrix, 0.0, (work.adjoint_gain, size))


@inlined
@no_type_check
def smooth_rows(frame, update, work):
    """E S into work, from X and the inverse blocks of C there, and P_f H' in work.covariance_read."""
    routines, size, num_bottleneck = frame.routines, frame.size, frame.num_bottleneck
    rank = update.rank
    read_columns(frame, rank, update.gain, work.rows_smoothed)
    left, right = plain(work.adjoint_gain, size), plain(work.covariance_read, num_bottleneck)
    target = (work.rows_smoothed, num_bottleneck)
    multiply(routines, (rank, num_bottleneck, size), -1.0, left, right, 1.0, target)
    solve(routines, rank, num_bottleneck, update.factor, work.inverse_blocks, work.rows_smoothed, work.panel)


@inlined
@no_type_check
def release(frame, batch, update, adjoint, work, gradient, is_told):
    """The adjoint of `absorb`: lam and Lam before a batch of rows from those after it, in place, and if `is_told` the rows' gradient."""
    routines, size, num_bottleneck = frame.routines, frame.size, frame.num_bottleneck
    rank, root, inner, adjoint_gain = update.rank, work.root, work.inner, work.adjoint_gain
    if batch.stop - batch.start <= num_bottleneck:
        weigh(batch, num_bottleneck, work.whitened_rows)
    else:
        copy(rank * num_bottleneck, update.whitened_rows, work.whitened_rows)
    pull_back(frame, update, adjoint, work)
    if is_told:
        smooth_rows(frame, update, work)
        accumulate_rows(frame, batch, adjoint, work, gradient)
    multiply_symmetric(routines, rank, size, 0.5, adjoint_gain, update.gain, False, inner)
    mirror(rank, inner)
    for i in range(rank):
        inner[i * rank + i] += 0.5
    left, right = plain(inner, rank), plain(root, num_bottleneck)
    target = (work.inner_root, num_bottleneck)
    multiply(routines, (rank, num_bottleneck, rank), 1.0, left, right, 0.0, target)
    subtract_read_in_rows(frame, rank, work.inner_root, adjoint_gain)
    change, pulled = transposed(root, num_bottleneck), plain(adjoint_gain, size)
    multiply(routines, (num_bottleneck, size, rank), 1.0, change, pulled, 0.0, (work.adjoint_change, size))
    clear(num_bottleneck, work.pull)
    for i in range(rank):
        t = update.innovation[i] - dot(size, update.gain, i * size, adjoint.vector, 0)
        for j in range(num_bottleneck):
            work.pull[j] += t * root[i * num_bottleneck + j]
    add_read_in(frame, 1, work.pull, adjoint.vector)
    subtract_symmetric_read_in(frame, work.adjoint_change, adjoint.matrix)


@inlined
@no_type_check
def smooth_bottleneck(frame, adjoint, work):
    """S, the smoothed covariance of z, into work.bottleneck_covariance from P_f H' in work.covariance_read."""
    routines, size, num_bottleneck = frame.routines, frame.size, frame.num_bottleneck
    half = work.covariance_read
    left, right = plain(adjoint.matrix, size), plain(half, num_bottleneck)
    multiply(routines, (size, num_bottleneck, size), 1.0, left, right, 0.0, (work.adjoint_read, num_bottleneck))
    left, right = transposed(half, num_bottleneck), plain(work.adjoint_read, num_bottleneck)
    target = (work.explained, num_bottleneck)
    multiply(routines, (num_bottleneck, num_bottleneck, size), 1.0, left, right, 0.0, target)
    mirror(num_bottleneck, work.explained)
    read_rows(frame, num_bottleneck, half, work.bottleneck_covariance)
    for j in range(num_bottleneck * num_bottleneck):
        work.bottleneck_covariance[j] -= work.explained[j]


@inlined
@no_type_check
def answer_few(frame, asked, start, stop, adjoint, work):
    """Answer fewer queries than the bottleneck is wide, by components' sums alone: w S w' = w H x - x Lam x', where x = P_f H'w'.

    From P_f H' in work.covariance_read and the smoothed mean of z in work.bottleneck_mean.
    """
    routines, size, num_bottleneck, count = frame.routines, frame.size, frame.num_bottleneck, stop - start
    weights, reached, pulled = work.row_weights, work.gain, work.adjoint_gain
    gather_asked(asked, start, stop, num_bottleneck, weights)
    left, right = plain(weights, num_bottleneck), transposed(work.covariance_read, num_bottleneck)
    multiply(routines, (count, size, num_bottleneck), 1.0, left, right, 0.0, (reached, size))
    left, right = plain(reached, size), plain(adjoint.matrix, size)
    multiply(routines, (count, size, size), 1.0, left, right, 0.0, (pulled, size))
    read_columns(frame, count, reached, work.weights_covered)
    for i in range(count):
        before = dot(num_bottleneck, work.weights_covered, i * num_bottleneck, weights, i * num_bottleneck)
        asked.total_variance[start + i] = max(before - dot(size, reached, i * size, pulled, i * size), 0.0)
        tell_means(frame, asked, start + i, i * num_bottleneck, work)


@inlined
@no_type_check
def answer_smoothed(frame, asked, start, stop, adjoint, work):
    """Answer the queries from `start` to `stop`, from P_f H' in work.covariance_read and the smoothed mean of z in work.bottleneck_mean."""
    if not asked.by_component and stop - start < frame.num_bottleneck:
        answer_few(frame, asked, start, stop, adjoint, work)
    else:
        smooth_bottleneck(frame, adjoint, work)
        project(frame, asked, start, stop, work)


@inlined
@no_type_check
def step_back(frame, sweep, step, filtered, adjoint, work, gradient, is_told):
    """The adjoint of a prediction, in place, and if `is_told` the chain's gradient; the smoothed mean into work.

    No step where `step` is -1.
    """
    size, vector, covariance = frame.size, adjoint.vector, filtered.covariance
    if step >= 0:
        if is_told:
            add_latent_trace(frame, -0.5, adjoint.matrix, gradient.process_noise[step])
            add_latent_outer(frame, 0.5, vector, vector, gradient.process_noise[step])
        move_means(frame, sweep.transposed[step], 1, vector, work.moved)
    else:
        copy(size, vector, work.moved)
    for j in range(size):
        work.smoothed_mean[j] = filtered.mean[j] + dot(size, covariance, j * size, work.moved, 0)
    if step >= 0:
        if is_told:
            of_step = gradient.transition[step]
            add_latent_outer(frame, 1.0, vector, work.smoothed_mean, of_step)
            move_adjoint(frame, sweep.transposed[step], covariance, adjoint.matrix, work.mixed, of_step)
        else:
            move_symmetric(frame, sweep.transposed[step], adjoint.matrix, work.mixed)
        copy(size, work.moved, vector)


@no_type_check
def run_backward(frame, series, work, stretch, kept, adjoint, gradient, answer):
    """Sweep from the last step of a stretch down to its first.

    The adjoint goes in as predicted after the last step (as filtered, where no step follows), and comes out as predicted at the
    first. With `answer`, queries are answered by what was seen in the whole series, and nobody is told a gradient.
    """
    frame, series, work, kept = borrow(frame), borrow(series), borrow(work), borrow(kept)
    adjoint, gradient = borrow(adjoint), borrow(gradient)
    sweep, size, num_bottleneck = series.sweep, frame.size, frame.num_bottleneck
    square, most_rank = size * size, len(kept.innovation) // len(kept.rank)
    for i in range(stretch.last - 1, stretch.first - 1, -1):
        slot = i - stretch.base
        covariance = kept.covariance[slot * square : (slot + 1) * square]
        filtered = Belief(kept.mean[slot * size : (slot + 1) * size], covariance)
        step_back(frame, sweep, sweep.step[i], filtered, adjoint, work, gradient, not answer)
        batch = Batch(series.observed, sweep.row_start[i], sweep.row_stop[i])
        asking = answer and sweep.query_stop[i] > sweep.query_start[i]
        if batch.stop == batch.start and not asking:
            continue
        # P_f H', not its transpose: OpenBLAS is faster where the second factor of a product need not be transposed.
        read_columns(frame, size, covariance, work.covariance_read)
        read_rows(frame, 1, work.smoothed_mean, work.bottleneck_mean)
        if asking:
            answer_smoothed(frame, series.asked, sweep.query_start[i], sweep.query_stop[i], adjoint, work)
        if batch.stop > batch.start:
            compressed = slot * most_rank * num_bottleneck if batch.stop - batch.start > num_bottleneck else 0
            update = Update(
                kept.gain[slot * most_rank * size :],
                kept.whitened_rows[compressed:],
                kept.factor[slot * most_rank * most_rank :],
                kept.innovation[slot * most_rank :],
                kept.rank[slot],
            )
            release(frame, batch, update, adjoint, work, gradient, not answer)
