# SPDX-License-Identifier: MIT
"""The forward sweep: a Kalman filter that factors nothing but I + E P E' >= I.

With F = E H P, W = I + F H' E' = C'C, Z = C'^-1 F and a = C'^-1 c:

    log factor = -log det C - (|a|^2 + remainder) / 2;   P_f = P - Z'Z;   m_f = m + Z'a.

The backward sweep needs P_f, m_f, Z, C, a and R = C'^-1 E of each step; E it takes from the rows again, except where they were
compressed.
"""

from typing import NamedTuple, no_type_check

import numpy as np
from jaxtyping import Float, Int

from weft.engines.cpu.blas import add_gram, borrow, multiply, plain
from weft.engines.cpu.blocks import Belief, copy, mirror, move_covariance, move_means, read_columns, read_rows
from weft.engines.cpu.inlined import inlined
from weft.engines.cpu.rows import Batch, Observed, compress_by_gram, compress_by_rotation, dot, whiten
from weft.engines.cpu.triangular import factor_and_invert, multiply_symmetric, solve_transposed
from weft.engines.cpu.work import Work

__all__ = ["Asked", "Kept", "Series", "Stretch", "Sweep", "Work", "absorb", "project", "run_forward"]

# How much the rounding of a Gram matrix may move the log factor, per row, before the rows are rotated instead.
GRAM_TOLERANCE = 1e-11


class Sweep(NamedTuple):
    """A series in the order a filter meets it; `step[i]` follows place i in that order, -1 where nothing follows.

    Latent matrices are flat, component after component, one row a distinct step; `transposed` are the transposes of `transition`.
    """

    step: Int[np.ndarray, " time"]
    row_start: Int[np.ndarray, " time"]
    row_stop: Int[np.ndarray, " time"]
    query_start: Int[np.ndarray, " time"]
    query_stop: Int[np.ndarray, " time"]
    transition: Float[np.ndarray, "step flat"]
    transposed: Float[np.ndarray, "step flat"]
    process_noise: Float[np.ndarray, "step flat"]


class Asked(NamedTuple):
    """Queries ordered by time, the weights of their distinct places, and where the answers go.

    Variances of components are found only if `by_component`.
    """

    place: Int[np.ndarray, " query"]
    weights: Float[np.ndarray, " place*bottleneck"]
    mean: Float[np.ndarray, " query*component"]
    variance: Float[np.ndarray, " query*component"]
    total_variance: Float[np.ndarray, " query"]
    by_component: bool


class Series(NamedTuple):
    """What is met along the way: steps, rows, queries."""

    sweep: Sweep
    observed: Observed
    asked: Asked


class Stretch(NamedTuple):
    """Steps from `first` up to `last`; what is kept of step i lies in slot i - `base`."""

    first: int
    last: int
    base: int


class Kept(NamedTuple):
    """What the backward sweep needs of each step: P_f, m_f, Z, E, C, a, and how many rows the last four have.

    E only if there are steps with compressed rows; else there is no room for it.
    """

    covariance: Float[np.ndarray, " slot*state*state"]
    mean: Float[np.ndarray, " slot*state"]
    gain: Float[np.ndarray, " slot*rank*state"]
    whitened_rows: Float[np.ndarray, " slot*rank*bottleneck"]
    factor: Float[np.ndarray, " slot*rank*rank"]
    innovation: Float[np.ndarray, " slot*rank"]
    rank: Int[np.ndarray, " slot"]


@inlined
@no_type_check
def condition(frame, rank, gain, factor, work):
    """Whiten by W: `gain` becomes Z, `factor` C, work.innovation a. Whether it worked, and log det C + |a|^2 / 2."""
    routines, size, num_bottleneck = frame.routines, frame.size, frame.num_bottleneck
    left, right = plain(work.whitened_rows, num_bottleneck), plain(work.read_covariance, size)
    multiply(routines, (rank, size, num_bottleneck), 1.0, left, right, 0.0, (gain, size))
    read_columns(frame, rank, gain, work.gain_read)
    multiply_symmetric(routines, rank, num_bottleneck, 1.0, work.gain_read, work.whitened_rows, True, factor)
    for i in range(rank):
        factor[i * rank + i] += 1.0
    if not factor_and_invert(routines, rank, factor, work.inverse_blocks, work.innovation, work.panel):
        return False, 0.0
    solve_transposed(routines, rank, size, factor, work.inverse_blocks, gain, work.panel)
    loss = 0.0
    for i in range(rank):
        loss += np.log(factor[i * rank + i]) + work.innovation[i] * work.innovation[i] / 2
    return np.isfinite(loss), loss


@inlined
@no_type_check
def remaining_variance(frame, rank, gain, work):
    """Trace of the bottleneck's covariance after conditioning."""
    num_bottleneck = frame.num_bottleneck
    read_columns(frame, rank, gain, work.gain_read)
    total = -dot(rank * num_bottleneck, work.gain_read, 0, work.gain_read, 0)
    for i in range(num_bottleneck):
        total += work.bottleneck_covariance[i * num_bottleneck + i]
    return total


@inlined
@no_type_check
def absorb(frame, batch, belief, gain, factor, work):
    """Condition on a batch of rows, in place: whether it worked, log factor, rank.

    Leaves Z in `gain`, C in `factor` (with work.inverse_blocks), E in work.whitened_rows and a in work.innovation.
    """
    size, num_bottleneck = frame.size, frame.num_bottleneck
    mean, covariance = belief
    count = batch.stop - batch.start
    rank = min(count, num_bottleneck)
    remainder = 0.0
    read_rows(frame, size, covariance, work.read_covariance)
    read_rows(frame, 1, mean, work.bottleneck_mean)
    if count <= num_bottleneck:
        whiten(batch, num_bottleneck, work.bottleneck_mean, work.whitened_rows, work.innovation)
        worked, loss = condition(frame, rank, gain, factor, work)
    else:
        read_columns(frame, num_bottleneck, work.read_covariance, work.bottleneck_covariance)
        worked, remainder, error, lost = compress_by_gram(frame, batch, work)
        if worked:
            worked, loss = condition(frame, rank, gain, factor, work)
        if worked:
            worked = error * remaining_variance(frame, rank, gain, work) <= GRAM_TOLERANCE * count
            # Where values are thousands of noise deviations from what was expected, and may well be: the variance of f is as large.
            worked = worked and lost <= GRAM_TOLERANCE * (count + loss + remainder)
        if not worked:
            remainder = compress_by_rotation(frame, batch, work)
            worked, loss = condition(frame, rank, gain, factor, work)
    if not worked:
        return False, 0.0, rank
    add_gram(frame.routines, size, rank, -1.0, gain, 1.0, covariance)
    mirror(size, covariance)
    for i in range(rank):
        a = work.innovation[i]
        x = gain[i * size : (i + 1) * size]
        for j in range(size):
            mean[j] += a * x[j]
    return True, -loss - remainder / 2, rank


@inlined
@no_type_check
def gather_asked(asked, start, stop, num_bottleneck, weights):
    """The weights of queries, one after another."""
    for i in range(stop - start):
        copy(num_bottleneck, asked.weights[asked.place[start + i] * num_bottleneck :], weights[i * num_bottleneck :])


@inlined
@no_type_check
def tell_means(frame, asked, query, first, work):
    """Answer a query, whose weights begin at `first` in work.row_weights, by the components' means in work.bottleneck_mean."""
    structure = frame.structure
    for p in range(len(structure.latent)):
        begin, width = structure.bottleneck[p], structure.pseudo[p]
        mean = dot(width, work.row_weights, first + begin, work.bottleneck_mean, begin)
        asked.mean[query * len(structure.latent) + p] = mean


@inlined
@no_type_check
def project(frame, asked, start, stop, work):
    """Answer the queries from `start` to `stop` by work.bottleneck_mean and work.bottleneck_covariance."""
    structure, num_bottleneck = frame.structure, frame.num_bottleneck
    num_components = len(structure.latent)
    chunk = len(work.row_residuals)
    weights, covered = work.row_weights, work.weights_covered
    for first in range(start, stop, chunk):
        count = min(first + chunk, stop) - first
        gather_asked(asked, first, first + count, num_bottleneck, weights)
        for i in range(count):
            tell_means(frame, asked, first + i, i * num_bottleneck, work)
        # The components on their own, then (one more round, if there are several) their sum.
        for p in range(0 if asked.by_component else num_components, num_components + 1):
            begin, width = 0, num_bottleneck
            if p < num_components:
                begin, width = structure.bottleneck[p], structure.pseudo[p]
            elif num_components == 1 and asked.by_component:
                for i in range(count):
                    asked.total_variance[first + i] = asked.variance[first + i]
                break
            block = plain(work.bottleneck_covariance[begin * num_bottleneck + begin :], num_bottleneck)
            shape, mine = (count, width, width), plain(weights[begin:], num_bottleneck)
            multiply(frame.routines, shape, 1.0, mine, block, 0.0, (covered, width))
            for i in range(count):
                variance = max(dot(width, covered, i * width, weights, i * num_bottleneck + begin), 0.0)
                if p < num_components:
                    asked.variance[(first + i) * num_components + p] = variance
                else:
                    asked.total_variance[first + i] = variance


@inlined
@no_type_check
def keep_update(frame, kept, slot, rank, is_compressed, mean, work):
    """What `absorb` left in `work`, and the filtered mean, into a slot."""
    size, num_bottleneck = frame.size, frame.num_bottleneck
    most_rank = len(kept.innovation) // max(len(kept.rank), 1)
    kept.rank[slot] = rank
    copy(size, mean, kept.mean[slot * size :])
    if rank > 0:
        copy(rank, work.innovation, kept.innovation[slot * most_rank :])
        if is_compressed:
            target = kept.whitened_rows[slot * most_rank * num_bottleneck :]
            copy(rank * num_bottleneck, work.whitened_rows, target)


@inlined
@no_type_check
def answer_filtered(frame, series, i, belief, work):
    """Answer the queries of step i by what was seen so far."""
    sweep = series.sweep
    read_rows(frame, frame.size, belief.covariance, work.read_covariance)
    read_columns(frame, frame.num_bottleneck, work.read_covariance, work.bottleneck_covariance)
    read_rows(frame, 1, belief.mean, work.bottleneck_mean)
    project(frame, series.asked, sweep.query_start[i], sweep.query_stop[i], work)


@no_type_check
def run_forward(frame, series, work, stretch, kept, belief, keep, answer):
    """Filter a stretch; the belief goes in as predicted at its first step and comes out as predicted after its last.

    Returns the log normaliser's share and -1, or the step at which it broke down. With `keep`, every step is kept for the
    backward sweep; with `answer`, queries are answered by what was seen so far.
    """
    frame, series, work, kept, belief = borrow(frame), borrow(series), borrow(work), borrow(kept), borrow(belief)
    sweep, size, num_bottleneck = series.sweep, frame.size, frame.num_bottleneck
    mean, square = belief.mean, size * size
    most_rank = len(kept.innovation) // max(len(kept.rank), 1)
    total = 0.0
    current = belief.covariance
    if keep and stretch.last > stretch.first:
        slot = stretch.first - stretch.base
        current = kept.covariance[slot * square : (slot + 1) * square]
        copy(square, belief.covariance, current)
    for i in range(stretch.first, stretch.last):
        slot = i - stretch.base
        rank = 0
        batch = Batch(series.observed, sweep.row_start[i], sweep.row_stop[i])
        gain, factor = work.gain, work.factor
        if keep:
            gain, factor = kept.gain[slot * most_rank * size :], kept.factor[slot * most_rank * most_rank :]
        if batch.stop > batch.start:
            worked, share, rank = absorb(frame, batch, Belief(mean, current), gain, factor, work)
            if not worked:
                return total, i
            total += share
        if keep:
            keep_update(frame, kept, slot, rank, batch.stop - batch.start > num_bottleneck, mean, work)
        if answer and sweep.query_stop[i] > sweep.query_start[i]:
            answer_filtered(frame, series, i, Belief(mean, current), work)
        if keep:
            following = belief.covariance
            if i + 1 < stretch.last:
                following = kept.covariance[(slot + 1) * square : (slot + 2) * square]
            copy(square, current, following)
            current = following
        step = sweep.step[i]
        if step >= 0:
            move_covariance(frame, sweep.transition[step], sweep.process_noise[step], current, work.mixed)
            move_means(frame, sweep.transition[step], 1, mean, work.moved)
            copy(size, work.moved, mean)
    return total, -1
