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
from numba import njit

from weft.engines.cpu.blas import OPTIONS, borrow, multiply, solve_any
from weft.engines.cpu.blocks import (
    add_latent_outer,
    add_latent_trace,
    add_read_in,
    clear,
    copy,
    mirror,
    move_adjoint,
    move_mean,
    read_columns,
    read_rows,
    subtract_read_in_rows,
    subtract_symmetric_read_in,
)
from weft.engines.cpu.filter import project
from weft.engines.cpu.rows import dot, gather, weigh
from weft.engines.cpu.triangular import multiply_symmetric, read_inverse, solve, solve_transposed


class Gradient(NamedTuple):
    """Where the gradient is added up."""

    transition: np.ndarray
    process_noise: np.ndarray
    weights: np.ndarray
    value: np.ndarray
    precision: np.ndarray


@njit(**OPTIONS)
@no_type_check
def accumulate_row(observed, row, num_bottleneck, covered, push, variance, centre, gradient):
    """Gradient of one row: `covered` times `push` is its weights times S times its precision, `variance` that of its smoothed f."""
    precision = observed.precision[row]
    place = observed.place[row] * num_bottleneck
    residual = observed.value[row] - dot(num_bottleneck, observed.weights, place, centre, 0)
    gradient.value[row] = -precision * residual
    gradient.precision[row] = -(residual * residual + variance) / 2
    target = gradient.weights[place : place + num_bottleneck]
    pull = precision * residual
    for j in range(num_bottleneck):
        target[j] += pull * centre[j] - push * covered[j]


@njit(**OPTIONS)
@no_type_check
def variance_of_row(structure, readout, size, num_bottleneck, observed, row, half, adjoint, work):
    """The smoothed variance of one row's f from P_f H' and Lam_f; only for a row of no precision, which E knows nothing of."""
    place = observed.place[row] * num_bottleneck
    for j in range(size):
        work.state[j] = dot(num_bottleneck, half, j * num_bottleneck, observed.weights, place)
    read_rows(structure, readout, 1, work.state, work.vector)
    variance = dot(num_bottleneck, work.vector, 0, observed.weights, place)
    for j in range(size):
        variance -= work.state[j] * dot(size, adjoint, j * size, work.state, 0)
    return max(variance, 0.0)


@njit(**OPTIONS)
@no_type_check
def accumulate_rows(
    routines,
    structure,
    readout,
    size,
    num_bottleneck,
    observed,
    start,
    stop,
    adjoint,
    covered,
    work,
    gradient,
):
    """Gradient of the rows from `start` to `stop`; `covered` is E S."""
    if stop - start <= num_bottleneck:
        for row in range(start, stop):
            root = np.sqrt(observed.precision[row])
            mine = covered[(row - start) * num_bottleneck : (row - start + 1) * num_bottleneck]
            if root > 0.0:
                place = observed.place[row] * num_bottleneck
                variance = max(dot(num_bottleneck, mine, 0, observed.weights, place), 0.0) / root
            else:
                variance = variance_of_row(
                    structure, readout, size, num_bottleneck, observed, row, work.half, adjoint, work
                )
            accumulate_row(observed, row, num_bottleneck, mine, root, variance, work.centre, gradient)
        return
    # More rows than E has: S from E S. Where E knows little S is inaccurate, but there the rows do not look.
    solve_any(routines, num_bottleneck, num_bottleneck, work.observe, num_bottleneck, covered, num_bottleneck)
    chunk = len(work.residual)
    for first in range(start, stop, chunk):
        last = min(first + chunk, stop)
        gather(observed, first, last, num_bottleneck, work.gathered)
        multiply(
            routines,
            last - first,
            num_bottleneck,
            num_bottleneck,
            1.0,
            work.gathered,
            num_bottleneck,
            False,
            covered,
            num_bottleneck,
            False,
            0.0,
            work.spread,
            num_bottleneck,
        )
        for i in range(last - first):
            mine = work.spread[i * num_bottleneck : (i + 1) * num_bottleneck]
            variance = max(dot(num_bottleneck, mine, 0, work.gathered, i * num_bottleneck), 0.0)
            precision = observed.precision[first + i]
            accumulate_row(observed, first + i, num_bottleneck, mine, precision, variance, work.centre, gradient)


@njit(**OPTIONS)
@no_type_check
def release(
    routines,
    structure,
    readout,
    size,
    num_bottleneck,
    observed,
    start,
    stop,
    gain,
    compressed,
    factor,
    innovation,
    rank,
    pulled,
    adjoint,
    work,
    gradient,
):
    """The adjoint of `absorb`: lam and Lam before the rows from those after them, in place, and the rows' gradient.

    `compressed` is E where there are more rows than the bottleneck is wide.
    """
    carried, inner, covered, turned = work.other, work.inner, work.gram, work.prior
    observe, root = work.observe, work.root
    if stop - start <= num_bottleneck:
        weigh(observed, start, stop, num_bottleneck, observe)
    else:
        copy(rank * num_bottleneck, compressed, observe)
    read_inverse(rank, factor, work.inverse)
    copy(rank * num_bottleneck, observe, root)
    solve_transposed(routines, rank, num_bottleneck, factor, work.inverse, root, work.panel)
    multiply(routines, rank, size, size, 1.0, gain, size, False, adjoint, size, False, 0.0, carried, size)
    read_columns(structure, readout, size, num_bottleneck, rank, gain, covered)
    multiply(
        routines,
        rank,
        num_bottleneck,
        size,
        -1.0,
        carried,
        size,
        False,
        work.half,
        num_bottleneck,
        False,
        1.0,
        covered,
        num_bottleneck,
    )
    solve(routines, rank, num_bottleneck, factor, work.inverse, covered, work.panel)
    accumulate_rows(
        routines,
        structure,
        readout,
        size,
        num_bottleneck,
        observed,
        start,
        stop,
        adjoint,
        covered,
        work,
        gradient,
    )
    multiply_symmetric(routines, rank, size, 0.5, carried, gain, False, inner)
    mirror(rank, inner)
    for i in range(rank):
        inner[i * rank + i] += 0.5
    multiply(
        routines,
        rank,
        num_bottleneck,
        rank,
        1.0,
        inner,
        rank,
        False,
        root,
        num_bottleneck,
        False,
        0.0,
        turned,
        num_bottleneck,
    )
    subtract_read_in_rows(structure, readout, size, num_bottleneck, rank, turned, carried)
    multiply(
        routines,
        num_bottleneck,
        size,
        rank,
        1.0,
        root,
        num_bottleneck,
        True,
        carried,
        size,
        False,
        0.0,
        work.half,
        size,
    )
    clear(num_bottleneck, work.vector)
    for i in range(rank):
        t = innovation[i] - dot(size, gain, i * size, pulled, 0)
        for j in range(num_bottleneck):
            work.vector[j] += t * root[i * num_bottleneck + j]
    add_read_in(structure, readout, 1.0, work.vector, pulled)
    subtract_symmetric_read_in(structure, readout, size, work.half, adjoint)


@njit(**OPTIONS)
@no_type_check
def smooth_bottleneck(routines, structure, readout, size, num_bottleneck, adjoint, work):
    """S, the smoothed covariance of z, into work.prior from P_f H' in work.half."""
    half, other = work.half, work.other
    multiply(
        routines,
        size,
        num_bottleneck,
        size,
        1.0,
        adjoint,
        size,
        False,
        half,
        num_bottleneck,
        False,
        0.0,
        other,
        num_bottleneck,
    )
    multiply(
        routines,
        num_bottleneck,
        num_bottleneck,
        size,
        1.0,
        half,
        num_bottleneck,
        True,
        other,
        num_bottleneck,
        False,
        0.0,
        work.second,
        num_bottleneck,
    )
    mirror(num_bottleneck, work.second)
    read_rows(structure, readout, num_bottleneck, half, work.prior)
    for j in range(num_bottleneck * num_bottleneck):
        work.prior[j] -= work.second[j]


@no_type_check
def run_backward(
    routines, structure, sweep, observed, work, first, last, base, kept, pulled, adjoint, gradient, answer, asked
):
    """Sweep from step `last` - 1 down to `first`.

    `pulled` and `adjoint` are lam and Lam: they go in as predicted at `last` (as filtered, where no step follows), and come out as
    predicted at `first`. With `answer`, queries are answered by what was seen in the whole series.
    """
    structure = borrow(structure)
    sweep = borrow(sweep)
    observed = borrow(observed)
    work = borrow(work)
    kept = borrow(kept)
    pulled = borrow(pulled)
    adjoint = borrow(adjoint)
    gradient = borrow(gradient)
    asked = borrow(asked)
    size = structure.state[-1] + structure.latent[-1] * structure.pseudo[-1]
    num_bottleneck = structure.bottleneck[-1] + structure.pseudo[-1]
    most_rank = len(kept.innovation) // len(kept.rank)
    readout = sweep.readout
    for i in range(last - 1, first - 1, -1):
        slot = i - base
        covariance = kept.covariance[slot * size * size : (slot + 1) * size * size]
        mean = kept.mean[slot * size : (slot + 1) * size]
        step = sweep.step[i]
        if step >= 0:
            add_latent_trace(structure, size, -0.5, adjoint, gradient.process_noise[step])
            add_latent_outer(structure, 0.5, pulled, pulled, gradient.process_noise[step])
            move_mean(structure, sweep.turned[step], pulled, work.state)
        else:
            copy(size, pulled, work.state)
        # The smoothed mean of the whole state at i.
        for j in range(size):
            work.spare[j] = mean[j] + dot(size, covariance, j * size, work.state, 0)
        if step >= 0:
            add_latent_outer(structure, 1.0, pulled, work.spare, gradient.transition[step])
            move_adjoint(
                structure,
                size,
                sweep.turned[step],
                covariance,
                adjoint,
                work.mixed,
                gradient.transition[step],
            )
            copy(size, work.state, pulled)
        start, stop = sweep.row_start[i], sweep.row_stop[i]
        asking = answer and sweep.query_stop[i] > sweep.query_start[i]
        if stop == start and not asking:
            continue
        # P_f H', not its transpose: OpenBLAS is faster where the second factor of a product need not be turned.
        read_columns(structure, readout, size, num_bottleneck, size, covariance, work.half)
        read_rows(structure, readout, 1, work.spare, work.centre)
        if asking:
            smooth_bottleneck(routines, structure, readout, size, num_bottleneck, adjoint, work)
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
        if stop > start:
            release(
                routines,
                structure,
                readout,
                size,
                num_bottleneck,
                observed,
                start,
                stop,
                kept.gain[slot * most_rank * size :],
                kept.observe[slot * most_rank * num_bottleneck if stop - start > num_bottleneck else 0 :],
                kept.factor[slot * most_rank * most_rank :],
                kept.innovation[slot * most_rank :],
                kept.rank[slot],
                pulled,
                adjoint,
                work,
                gradient,
            )
