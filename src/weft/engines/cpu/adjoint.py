# SPDX-License-Identifier: MIT
"""The backward sweep: the adjoint of the filter, which is the Bryson-Frazier smoother.

lam and Lam are minus the gradient and Hessian-like factors with dL/dm = lam and dL/dP = (lam lam' - Lam) / 2. Across an update, with
G = B' diag(precision) B the rows' information, X = H P_f Lam_f, Y = X P_f H' and S = H P_f H' - Y the smoothed covariance of z:

    lam = lam_f + H'(pull - G H P_f lam_f);   Lam = Lam_f - U'H - H'U,   U = G (X - Y G H / 2) - R'R H / 2.
"""

from typing import NamedTuple, no_type_check

import numpy as np
from numba import njit

from weft.engines.cpu.blas import OPTIONS, add_gram, multiply
from weft.engines.cpu.blocks import (
    add_latent_outer,
    add_latent_trace,
    add_read_in,
    add_symmetric_read_in,
    clear,
    copy,
    mirror,
    move_adjoint,
    move_mean,
    read_columns,
    read_rows,
)
from weft.engines.cpu.filter import project
from weft.engines.cpu.rows import dot, gather


class Gradient(NamedTuple):
    """Where the gradient is added up."""

    transition: np.ndarray
    process_noise: np.ndarray
    weights: np.ndarray
    value: np.ndarray
    precision: np.ndarray


@njit(**OPTIONS)
@no_type_check
def accumulate_rows(observed, start, count, num_bottleneck, rows, covered, centre, gradient):
    """Gradient of `count` rows from `start`: `rows` are their weights, `covered` those times the smoothed covariance of z."""
    for i in range(count):
        row = start + i
        first = i * num_bottleneck
        precision = observed.precision[row]
        residual = observed.value[row] - dot(num_bottleneck, rows, first, centre, 0)
        variance = max(dot(num_bottleneck, covered, first, rows, first), 0.0)
        gradient.value[row] = -precision * residual
        gradient.precision[row] = -(residual * residual + variance) / 2
        place = observed.place[row] * num_bottleneck
        target = gradient.weights[place : place + num_bottleneck]
        x = covered[first : first + num_bottleneck]
        for j in range(num_bottleneck):
            target[j] += precision * (residual * centre[j] - x[j])


@njit(**OPTIONS)
@no_type_check
def subtract_read_in_rows(structure, readout, size, num_bottleneck, alpha, source, target):
    """target[row, state] -= alpha source[row, bottleneck] H, for `num_bottleneck` or fewer rows."""
    for i in range(len(source) // num_bottleneck):
        add_read_in(
            structure,
            readout,
            -alpha,
            source[i * num_bottleneck : (i + 1) * num_bottleneck],
            target[i * size : (i + 1) * size],
        )


@njit(**OPTIONS)
@no_type_check
def release_few(routines, structure, readout, size, num_bottleneck, observed, start, stop, adjoint, work, gradient):
    """U of a time with fewer rows than bottleneck, into work.half, and the rows' gradient: everything through the rows."""
    count = stop - start
    rows, product, carried = work.observe, work.cross, work.other
    covered, turned, inner = work.spread, work.gathered, work.inner
    gather(observed, start, stop, num_bottleneck, rows)
    multiply(
        routines,
        count,
        size,
        num_bottleneck,
        1.0,
        rows,
        num_bottleneck,
        False,
        work.half,
        size,
        False,
        0.0,
        product,
        size,
    )
    multiply(routines, count, size, size, 1.0, product, size, False, adjoint, size, False, 0.0, carried, size)
    # B Y, and from it B S = B P_z - B Y.
    multiply(
        routines,
        count,
        num_bottleneck,
        size,
        1.0,
        carried,
        size,
        False,
        work.half,
        size,
        True,
        0.0,
        turned,
        num_bottleneck,
    )
    read_columns(structure, readout, size, num_bottleneck, count, product, covered)
    for j in range(count * num_bottleneck):
        covered[j] -= turned[j]
    accumulate_rows(observed, start, count, num_bottleneck, rows, covered, work.centre, gradient)
    multiply(
        routines,
        count,
        count,
        num_bottleneck,
        0.5,
        turned,
        num_bottleneck,
        False,
        rows,
        num_bottleneck,
        True,
        0.0,
        inner,
        count,
    )
    for i in range(count):
        for j in range(count):
            inner[i * count + j] *= observed.precision[start + j]
    multiply(
        routines,
        count,
        num_bottleneck,
        count,
        1.0,
        inner,
        count,
        False,
        rows,
        num_bottleneck,
        False,
        0.0,
        turned,
        num_bottleneck,
    )
    subtract_read_in_rows(structure, readout, size, num_bottleneck, 1.0, turned[: count * num_bottleneck], carried)
    for i in range(count):
        precision = observed.precision[start + i]
        x = carried[i * size : (i + 1) * size]
        for j in range(size):
            x[j] *= precision
    multiply(
        routines,
        num_bottleneck,
        size,
        count,
        1.0,
        rows,
        num_bottleneck,
        True,
        carried,
        size,
        False,
        0.0,
        work.half,
        size,
    )


@njit(**OPTIONS)
@no_type_check
def smooth_bottleneck(routines, structure, readout, size, num_bottleneck, adjoint, work):
    """X into work.other, Y into work.second, S into work.prior, from H P_f in work.half."""
    multiply(
        routines, num_bottleneck, size, size, 1.0, work.half, size, False, adjoint, size, False, 0.0, work.other, size
    )
    multiply(
        routines,
        num_bottleneck,
        num_bottleneck,
        size,
        1.0,
        work.other,
        size,
        False,
        work.half,
        size,
        True,
        0.0,
        work.second,
        num_bottleneck,
    )
    mirror(num_bottleneck, work.second)
    read_columns(structure, readout, size, num_bottleneck, num_bottleneck, work.half, work.prior)
    for j in range(num_bottleneck * num_bottleneck):
        work.prior[j] -= work.second[j]


@njit(**OPTIONS)
@no_type_check
def release_many(routines, structure, readout, size, num_bottleneck, observed, start, stop, work, gradient):
    """U of a time with many rows, into work.half, and the rows' gradient: everything through z."""
    chunk = len(work.residual)
    gram, turned = work.gram, work.spread
    clear(num_bottleneck * num_bottleneck, gram)
    for first in range(start, stop, chunk):
        last = min(first + chunk, stop)
        count = last - first
        gather(observed, first, last, num_bottleneck, work.gathered)
        multiply(
            routines,
            count,
            num_bottleneck,
            num_bottleneck,
            1.0,
            work.gathered,
            num_bottleneck,
            False,
            work.prior,
            num_bottleneck,
            False,
            0.0,
            turned,
            num_bottleneck,
        )
        accumulate_rows(observed, first, count, num_bottleneck, work.gathered, turned, work.centre, gradient)
        for i in range(count):
            root = np.sqrt(observed.precision[first + i])
            x = work.gathered[i * num_bottleneck : (i + 1) * num_bottleneck]
            for j in range(num_bottleneck):
                x[j] *= root
        add_gram(routines, num_bottleneck, count, 1.0, work.gathered, num_bottleneck, 1.0, gram, num_bottleneck)
    mirror(num_bottleneck, gram)
    multiply(
        routines,
        num_bottleneck,
        num_bottleneck,
        num_bottleneck,
        0.5,
        work.second,
        num_bottleneck,
        False,
        gram,
        num_bottleneck,
        False,
        0.0,
        turned,
        num_bottleneck,
    )
    subtract_read_in_rows(
        structure, readout, size, num_bottleneck, 1.0, turned[: num_bottleneck * num_bottleneck], work.other
    )
    multiply(
        routines,
        num_bottleneck,
        size,
        num_bottleneck,
        1.0,
        gram,
        num_bottleneck,
        False,
        work.other,
        size,
        False,
        0.0,
        work.half,
        size,
    )


@njit(**OPTIONS)
@no_type_check
def cheaper_through_rows(count, size, num_bottleneck):
    """Whether `release_few` takes fewer multiplications than `release_many` (count them: both are in this file)."""
    if count > num_bottleneck:
        return False
    few = count * (2 * size * size + 6 * num_bottleneck * size + 4 * count * num_bottleneck)
    many = num_bottleneck * (2 * size * size + 4 * num_bottleneck * size + 2 * num_bottleneck * num_bottleneck)
    return few <= many + 3 * count * num_bottleneck * num_bottleneck


@njit(**OPTIONS)
@no_type_check
def pull_back(observed, start, stop, num_bottleneck, shift, target):
    """target -= G shift, through the rows."""
    for row in range(start, stop):
        place = observed.place[row] * num_bottleneck
        weight = observed.precision[row] * dot(num_bottleneck, observed.weights, place, shift, 0)
        x = observed.weights[place : place + num_bottleneck]
        for j in range(num_bottleneck):
            target[j] -= weight * x[j]


@no_type_check
def run_backward(
    routines, structure, sweep, observed, work, first, last, base, kept, pulled, adjoint, gradient, answer, asked
):
    """Sweep from step `last` - 1 down to `first`.

    `pulled` and `adjoint` are lam and Lam: they go in as predicted at `last` (as filtered, where no step follows), and come out as
    predicted at `first`. With `answer`, queries are answered by what was seen in the whole series.
    """
    size = structure.state[-1] + structure.latent[-1] * structure.pseudo[-1]
    num_bottleneck = structure.bottleneck[-1] + structure.pseudo[-1]
    square = num_bottleneck * num_bottleneck
    root_stride = len(kept.root) // len(kept.rank)
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
            # The smoothed mean of the whole state at i, for the gradient in the transition.
            for j in range(size):
                work.spare[j] = mean[j] + dot(size, covariance, j * size, work.state, 0)
            add_latent_outer(structure, 1.0, pulled, work.spare, gradient.transition[step])
            move_adjoint(
                structure,
                size,
                sweep.transition[step],
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
        read_rows(structure, readout, size, covariance, work.half)
        read_rows(structure, readout, 1, mean, work.centre)
        for j in range(num_bottleneck):
            work.vector[j] = dot(size, work.half, j * size, pulled, 0)
            work.centre[j] += work.vector[j]
        few = cheaper_through_rows(stop - start, size, num_bottleneck) and not asking
        if not few:
            smooth_bottleneck(routines, structure, readout, size, num_bottleneck, adjoint, work)
        if asking:
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
        if stop == start:
            continue
        if few:
            release_few(
                routines, structure, readout, size, num_bottleneck, observed, start, stop, adjoint, work, gradient
            )
        else:
            release_many(routines, structure, readout, size, num_bottleneck, observed, start, stop, work, gradient)
        root = kept.root[slot * root_stride : (slot + 1) * root_stride]
        add_gram(routines, num_bottleneck, kept.rank[slot], 0.5, root, num_bottleneck, 0.0, work.gram, num_bottleneck)
        mirror(num_bottleneck, work.gram)
        subtract_read_in_rows(structure, readout, size, num_bottleneck, 1.0, work.gram[:square], work.half)
        add_symmetric_read_in(structure, readout, size, num_bottleneck, work.half, work.other, adjoint)
        pull = work.innovation
        copy(num_bottleneck, kept.pull[slot * num_bottleneck :], pull)
        pull_back(observed, start, stop, num_bottleneck, work.vector, pull)
        add_read_in(structure, readout, 1.0, pull, pulled)
