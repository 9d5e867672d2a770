# SPDX-License-Identifier: MIT
"""The forward sweep: a Kalman filter that factors nothing but I + E P E' >= I.

With F = E H P, W = I + F H' E' = C'C, Z = C'^-1 F and a = C'^-1 c:

    log factor = -log det C - (|a|^2 + remainder) / 2;   P_f = P - Z'Z;   m_f = m + Z'a.

The backward sweep needs P_f, m_f, Z, C, a and R = C'^-1 E of each step; E it takes from the rows again, except where they were
compressed.
"""

from typing import NamedTuple, no_type_check

import numpy as np
from numba import njit

from weft.engines.cpu.blas import OPTIONS, add_gram, borrow, multiply
from weft.engines.cpu.blocks import copy, mirror, move_covariance, move_mean, read_columns, read_rows
from weft.engines.cpu.rows import compress_by_gram, compress_by_rotation, dot, whiten
from weft.engines.cpu.triangular import factor_and_invert, multiply_symmetric, solve_transposed

# How much the rounding of a Gram matrix may move the log factor, per row, before the rows are rotated instead.
GRAM_TOLERANCE = 1e-11


class Sweep(NamedTuple):
    """A series in the order a filter meets it; `step[i]` follows place i in that order, -1 where nothing follows.

    Latent matrices are flat, component after component, one row a distinct step; `turned` are the transposes of `transition`.
    """

    step: np.ndarray
    row_start: np.ndarray
    row_stop: np.ndarray
    query_start: np.ndarray
    query_stop: np.ndarray
    transition: np.ndarray
    turned: np.ndarray
    process_noise: np.ndarray
    readout: np.ndarray


class Kept(NamedTuple):
    """What the backward sweep needs of each step, from step `base` on: P_f, m_f, Z, C, a and how many rows the last three have.

    E too if there are steps with compressed rows; else there is no room for it.
    """

    covariance: np.ndarray
    mean: np.ndarray
    gain: np.ndarray
    observe: np.ndarray
    factor: np.ndarray
    innovation: np.ndarray
    rank: np.ndarray


class Asked(NamedTuple):
    """Queries ordered by time, the weights of their distinct places, and where the answers go."""

    place: np.ndarray
    weights: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    total_variance: np.ndarray


class Work(NamedTuple):
    """Scratch space of one thread; nothing is allocated inside the loop over time."""

    half: np.ndarray
    prior: np.ndarray
    centre: np.ndarray
    gathered: np.ndarray
    residual: np.ndarray
    observe: np.ndarray
    innovation: np.ndarray
    gram: np.ndarray
    stack: np.ndarray
    scales: np.ndarray
    lapack: np.ndarray
    cross: np.ndarray
    other: np.ndarray
    spread: np.ndarray
    inner: np.ndarray
    second: np.ndarray
    inverse: np.ndarray
    root: np.ndarray
    panel: np.ndarray
    mixed: np.ndarray
    state: np.ndarray
    spare: np.ndarray
    vector: np.ndarray
    info: np.ndarray


@njit(**OPTIONS)
@no_type_check
def condition(routines, structure, readout, size, num_bottleneck, rank, gain, inner, work):
    """Whiten by W: `gain` becomes Z, `inner` C, work.innovation a. Whether it worked, and log det C + |a|^2 / 2."""
    observe, spread = work.observe, work.spread
    multiply(
        routines,
        rank,
        size,
        num_bottleneck,
        1.0,
        observe,
        num_bottleneck,
        False,
        work.half,
        size,
        False,
        0.0,
        gain,
        size,
    )
    read_columns(structure, readout, size, num_bottleneck, rank, gain, spread)
    multiply_symmetric(routines, rank, num_bottleneck, 1.0, spread, observe, True, inner)
    for i in range(rank):
        inner[i * rank + i] += 1.0
    if not factor_and_invert(routines, rank, inner, work.inverse, work.innovation, work.panel):
        return False, 0.0
    solve_transposed(routines, rank, size, inner, work.inverse, gain, work.panel)
    loss = 0.0
    for i in range(rank):
        loss += np.log(inner[i * rank + i]) + work.innovation[i] * work.innovation[i] / 2
    return np.isfinite(loss), loss


@njit(**OPTIONS)
@no_type_check
def remaining_variance(structure, readout, size, num_bottleneck, rank, gain, work):
    """Trace of the bottleneck's covariance after conditioning."""
    read_columns(structure, readout, size, num_bottleneck, rank, gain, work.spread)
    total = -dot(rank * num_bottleneck, work.spread, 0, work.spread, 0)
    for i in range(num_bottleneck):
        total += work.prior[i * num_bottleneck + i]
    return total


@njit(**OPTIONS)
@no_type_check
def absorb(
    routines, structure, readout, size, num_bottleneck, observed, start, stop, mean, covariance, gain, inner, work
):
    """Condition mean and covariance on the rows from `start` to `stop`, in place: whether it worked, log factor, rank.

    Leaves Z in `gain`, C in `inner` (with work.inverse), E in work.observe and a in work.innovation.
    """
    count = stop - start
    rank = min(count, num_bottleneck)
    remainder = 0.0
    read_rows(structure, readout, size, covariance, work.half)
    read_rows(structure, readout, 1, mean, work.centre)
    if count <= num_bottleneck:
        whiten(observed, start, stop, num_bottleneck, work.centre, work.observe, work.innovation)
        worked, loss = condition(routines, structure, readout, size, num_bottleneck, rank, gain, inner, work)
    else:
        read_columns(structure, readout, size, num_bottleneck, num_bottleneck, work.half, work.prior)
        worked, remainder, error = compress_by_gram(routines, observed, start, stop, num_bottleneck, work.centre, work)
        if worked:
            worked, loss = condition(routines, structure, readout, size, num_bottleneck, rank, gain, inner, work)
        if worked:
            uncertain = error * remaining_variance(structure, readout, size, num_bottleneck, rank, gain, work)
            worked = uncertain <= GRAM_TOLERANCE * count
        if not worked:
            remainder = compress_by_rotation(routines, observed, start, stop, num_bottleneck, work.centre, work)
            worked, loss = condition(routines, structure, readout, size, num_bottleneck, rank, gain, inner, work)
    if not worked:
        return False, 0.0, rank
    add_gram(routines, size, rank, -1.0, gain, size, 1.0, covariance, size)
    mirror(size, covariance)
    for i in range(rank):
        a = work.innovation[i]
        x = gain[i * size : (i + 1) * size]
        for j in range(size):
            mean[j] += a * x[j]
    return True, -loss - remainder / 2, rank


@njit(**OPTIONS)
@no_type_check
def project(routines, structure, num_bottleneck, asked, start, stop, centre, covariance, work):
    """Answer the queries from `start` to `stop` where z has mean `centre` and `covariance`."""
    num_components = len(structure.latent)
    chunk = len(work.residual)
    for first in range(start, stop, chunk):
        count = min(first + chunk, stop) - first
        for i in range(count):
            place = asked.place[first + i] * num_bottleneck
            copy(num_bottleneck, asked.weights[place:], work.gathered[i * num_bottleneck :])
        # The components on their own, then (one more round, if there are several) their sum.
        for p in range(num_components + 1):
            begin, width = 0, num_bottleneck
            if p < num_components:
                begin, width = structure.bottleneck[p], structure.pseudo[p]
            elif num_components == 1:
                for i in range(count):
                    asked.total_variance[first + i] = asked.variance[first + i]
                break
            multiply(
                routines,
                count,
                width,
                width,
                1.0,
                work.gathered[begin:],
                num_bottleneck,
                False,
                covariance[begin * num_bottleneck + begin :],
                num_bottleneck,
                False,
                0.0,
                work.spread,
                width,
            )
            for i in range(count):
                variance = max(dot(width, work.spread, i * width, work.gathered, i * num_bottleneck + begin), 0.0)
                if p < num_components:
                    asked.variance[(first + i) * num_components + p] = variance
                    asked.mean[(first + i) * num_components + p] = dot(
                        width, work.gathered, i * num_bottleneck + begin, centre, begin
                    )
                else:
                    asked.total_variance[first + i] = variance


@no_type_check
def run_forward(
    routines, structure, sweep, observed, work, first, last, keep, base, kept, mean, covariance, answer, asked
):
    """Filter steps `first` to `last`; mean and covariance go in as predicted at `first`, come out as predicted at `last`.

    Returns the log normaliser's share and -1, or the step at which it broke down. With `keep`, every step is kept for the
    backward sweep; with `answer`, queries are answered by what was seen so far.
    """
    structure = borrow(structure)
    sweep = borrow(sweep)
    observed = borrow(observed)
    work = borrow(work)
    kept = borrow(kept)
    mean = borrow(mean)
    covariance = borrow(covariance)
    asked = borrow(asked)
    size = structure.state[-1] + structure.latent[-1] * structure.pseudo[-1]
    num_bottleneck = structure.bottleneck[-1] + structure.pseudo[-1]
    square = size * size
    most_rank = len(kept.innovation) // max(len(kept.rank), 1)
    total = 0.0
    current = covariance
    if keep and last > first:
        slot = first - base
        current = kept.covariance[slot * square : (slot + 1) * square]
        copy(square, covariance, current)
    for i in range(first, last):
        slot = i - base
        rank = 0
        start, stop = sweep.row_start[i], sweep.row_stop[i]
        gain, inner = work.cross, work.inner
        if keep:
            gain, inner = kept.gain[slot * most_rank * size :], kept.factor[slot * most_rank * most_rank :]
        if stop > start:
            worked, share, rank = absorb(
                routines,
                structure,
                sweep.readout,
                size,
                num_bottleneck,
                observed,
                start,
                stop,
                mean,
                current,
                gain,
                inner,
                work,
            )
            if not worked:
                return total, i
            total += share
        if keep:
            kept.rank[slot] = rank
            copy(size, mean, kept.mean[slot * size :])
            if rank > 0:
                copy(rank, work.innovation, kept.innovation[slot * most_rank :])
                if stop - start > num_bottleneck:
                    copy(rank * num_bottleneck, work.observe, kept.observe[slot * most_rank * num_bottleneck :])
        if answer and sweep.query_stop[i] > sweep.query_start[i]:
            read_rows(structure, sweep.readout, size, current, work.half)
            read_columns(structure, sweep.readout, size, num_bottleneck, num_bottleneck, work.half, work.prior)
            read_rows(structure, sweep.readout, 1, mean, work.centre)
            project(
                routines,
                structure,
                num_bottleneck,
                asked,
                sweep.query_start[i],
                sweep.query_stop[i],
                work.centre,
                work.prior,
                work,
            )
        if keep:
            following = covariance
            if i + 1 < last:
                following = kept.covariance[(slot + 1) * square : (slot + 2) * square]
            copy(square, current, following)
            current = following
        step = sweep.step[i]
        if step >= 0:
            move_covariance(structure, size, sweep.transition[step], sweep.process_noise[step], current, work.mixed)
            move_mean(structure, sweep.transition[step], mean, work.state)
            copy(size, work.state, mean)
    return total, -1
