# SPDX-License-Identifier: MIT
"""Kernels for means of many sets of values at once: covariances do not depend on values, so all share one filter.

A mean is here a flat matrix [state, draw], and so are lam, the pull and the bottleneck's mean.
"""

from typing import NamedTuple, no_type_check

import numpy as np
from numba import njit

from weft.engines.cpu.blas import OPTIONS, borrow, multiply, solve_any_transposed
from weft.engines.cpu.blocks import clear, copy, mix, move_covariance, read_rows
from weft.engines.cpu.filter import absorb
from weft.engines.cpu.rows import gather
from weft.engines.cpu.triangular import solve_transposed


class KeptDraws(NamedTuple):
    """H P_f, the filtered mean of z, and Z, R and a as in `filter`, of each step from `base` on."""

    half: np.ndarray
    centre: np.ndarray
    gain: np.ndarray
    root: np.ndarray
    innovation: np.ndarray
    rank: np.ndarray


@njit(**OPTIONS)
@no_type_check
def move_means(structure, matrix, draws, source, target):
    """A times `source`, into `target`, which must be another array."""
    for p in range(len(structure.latent)):
        length = structure.pseudo[p] * draws
        first = structure.state[p] * draws
        mix(matrix, structure.matrix[p], structure.latent[p], source, first, length, target, first, length, length)


@njit(**OPTIONS)
@no_type_check
def whitened_residuals(routines, observed, values, start, stop, num_bottleneck, draws, centre, gathered, residual):
    """Rows and, for every draw, residuals from `centre`, times the root of the precision."""
    count = stop - start
    gather(observed, start, stop, num_bottleneck, gathered)
    copy(count * draws, values[start * draws :], residual)
    multiply(
        routines,
        count,
        draws,
        num_bottleneck,
        -1.0,
        gathered,
        num_bottleneck,
        False,
        centre,
        draws,
        False,
        1.0,
        residual,
        draws,
    )
    for i in range(count):
        root = np.sqrt(observed.precision[start + i])
        for j in range(draws):
            residual[i * draws + j] *= root
        for j in range(num_bottleneck):
            gathered[i * num_bottleneck + j] *= root


@njit(**OPTIONS)
@no_type_check
def compressed_residuals(
    routines, observed, values, start, stop, num_bottleneck, draws, centre, work, residual, target
):
    """Solve E'c = sum over rows of weight times residual for c, with the triangular E that `absorb` left."""
    chunk = len(work.residual)
    clear(num_bottleneck * draws, target)
    for first in range(start, stop, chunk):
        last = min(first + chunk, stop)
        whitened_residuals(
            routines, observed, values, first, last, num_bottleneck, draws, centre, work.gathered, residual
        )
        multiply(
            routines,
            num_bottleneck,
            draws,
            last - first,
            1.0,
            work.gathered,
            num_bottleneck,
            True,
            residual,
            draws,
            False,
            1.0,
            target,
            draws,
        )
    solve_any_transposed(routines, num_bottleneck, draws, work.observe, num_bottleneck, target, draws)


@no_type_check
def run_draws_forward(
    routines, structure, sweep, observed, work, first, last, keep, base, kept, values, draws, mean, covariance, scratch
):
    """Filter steps `first` to `last` for all draws; -1, or the step at which it broke down."""
    structure = borrow(structure)
    sweep = borrow(sweep)
    observed = borrow(observed)
    work = borrow(work)
    kept = borrow(kept)
    values = borrow(values)
    mean = borrow(mean)
    covariance = borrow(covariance)
    scratch = borrow(scratch)
    size = structure.state[-1] + structure.latent[-1] * structure.pseudo[-1]
    num_bottleneck = structure.bottleneck[-1] + structure.pseudo[-1]
    most_rank = len(kept.root) // (num_bottleneck * len(kept.rank))
    # The one mean that `absorb` updates is of no interest here: its rows have value 0, and so it stays 0.
    clear(size, work.spare)
    moved = scratch[: size * draws]
    centre = scratch[size * draws : (size + num_bottleneck) * draws]
    # Both are of use between two rows of calls only.
    residual = scratch[(size + 2 * num_bottleneck) * draws :]
    panel = residual
    for i in range(first, last):
        slot = i - base
        start, stop = sweep.row_start[i], sweep.row_stop[i]
        gain, innovation = work.cross, scratch[(size + num_bottleneck) * draws :]
        if keep:
            kept.rank[slot] = 0
            gain, innovation = kept.gain[slot * most_rank * size :], kept.innovation[slot * most_rank * draws :]
        if stop > start:
            worked, _, rank = absorb(
                routines,
                structure,
                sweep.readout,
                size,
                num_bottleneck,
                observed,
                start,
                stop,
                work.spare,
                covariance,
                gain,
                work.inner,
                work,
            )
            if not worked:
                return i
            read_rows(structure, sweep.readout, draws, mean, centre)
            if stop - start <= num_bottleneck:
                whitened_residuals(
                    routines, observed, values, start, stop, num_bottleneck, draws, centre, work.gathered, innovation
                )
            else:
                compressed_residuals(
                    routines, observed, values, start, stop, num_bottleneck, draws, centre, work, residual, innovation
                )
            solve_transposed(routines, rank, draws, work.inner, work.inverse, innovation, panel)
            multiply(routines, size, draws, rank, 1.0, gain, size, True, innovation, draws, False, 1.0, mean, draws)
            if keep:
                kept.rank[slot] = rank
                root = kept.root[slot * most_rank * num_bottleneck :]
                copy(rank * num_bottleneck, work.observe, root)
                solve_transposed(routines, rank, num_bottleneck, work.inner, work.inverse, root, work.panel)
        if keep:
            read_rows(structure, sweep.readout, size, covariance, kept.half[slot * num_bottleneck * size :])
            read_rows(structure, sweep.readout, draws, mean, kept.centre[slot * num_bottleneck * draws :])
        step = sweep.step[i]
        if step >= 0:
            move_covariance(structure, size, sweep.transition[step], sweep.process_noise[step], covariance, work.mixed)
            move_means(structure, sweep.transition[step], draws, mean, moved)
            copy(size * draws, moved, mean)
    return -1


@no_type_check
def run_draws_backward(
    routines, structure, sweep, observed, work, first, last, base, kept, draws, pulled, scratch, place, weights, answer
):
    """Sweep lam of all draws from step `last` - 1 down to `first`, answering queries: answer[query, draw]."""
    structure = borrow(structure)
    sweep = borrow(sweep)
    work = borrow(work)
    kept = borrow(kept)
    pulled = borrow(pulled)
    scratch = borrow(scratch)
    place = borrow(place)
    weights = borrow(weights)
    answer = borrow(answer)
    size = structure.state[-1] + structure.latent[-1] * structure.pseudo[-1]
    num_bottleneck = structure.bottleneck[-1] + structure.pseudo[-1]
    most_rank = len(kept.root) // (num_bottleneck * len(kept.rank))
    moved = scratch[: size * draws]
    pull = scratch[size * draws : (size + num_bottleneck) * draws]
    for i in range(last - 1, first - 1, -1):
        slot = i - base
        step = sweep.step[i]
        if step >= 0:
            move_means(structure, sweep.turned[step], draws, pulled, moved)
            copy(size * draws, moved, pulled)
        if sweep.query_stop[i] > sweep.query_start[i]:
            centre = kept.centre[slot * num_bottleneck * draws :]
            half = kept.half[slot * num_bottleneck * size :]
            multiply(
                routines, num_bottleneck, draws, size, 1.0, half, size, False, pulled, draws, False, 1.0, centre, draws
            )
            for query in range(sweep.query_start[i], sweep.query_stop[i]):
                row = answer[query * draws : (query + 1) * draws]
                for z in range(num_bottleneck):
                    w = weights[place[query] * num_bottleneck + z]
                    x = centre[z * draws : (z + 1) * draws]
                    for r in range(draws):
                        row[r] += w * x[r]
        rank = kept.rank[slot]
        if rank == 0:
            continue
        # t = a - Z lam, then lam += H'R't.
        gain, root = kept.gain[slot * most_rank * size :], kept.root[slot * most_rank * num_bottleneck :]
        shift = kept.innovation[slot * most_rank * draws :]
        multiply(routines, rank, draws, size, -1.0, gain, size, False, pulled, draws, False, 1.0, shift, draws)
        multiply(
            routines,
            num_bottleneck,
            draws,
            rank,
            1.0,
            root,
            num_bottleneck,
            True,
            shift,
            draws,
            False,
            0.0,
            pull,
            draws,
        )
        for p in range(len(structure.latent)):
            length = structure.pseudo[p] * draws
            x = pull[structure.bottleneck[p] * draws : structure.bottleneck[p] * draws + length]
            for d in range(structure.latent[p]):
                h = sweep.readout[structure.vector[p] + d]
                if h != 0.0:
                    y = pulled[structure.state[p] * draws + d * length : structure.state[p] * draws + (d + 1) * length]
                    for j in range(length):
                        y[j] += h * x[j]
