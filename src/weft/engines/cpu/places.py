# SPDX-License-Identifier: MIT
"""A series whose components all stand at the same few places, filtered and pulled back in the coordinates of these places.

The state of a component is what it is, and its derivatives in time, at every place; its prior is that of its time kernel times the
covariance of the places. A row then reads one number a component off the state, and the bottleneck is as wide as there are places,
however many components share them; with a whitened state it is as wide as all components together. No covariance of places is factored.

With C the reading of f at the places that have rows, r the roots of their precisions, F = C P, W = I + r F C' r = V'V, Z = V'^-1 r F:

    log factor = -log det V - |a|^2 / 2, a = V'^-1 r (y - C m);   P_f = P - Z'Z;   m_f = m + Z'a;   K' = r V^-1 Z.

Back, from lam and Lam after the step (Bryson and Frazier): with u = r V^-1 a - K'lam and D = r W^-1 r + K' Lam K,

    lam <- lam + C'u;   Lam <- (I - K C)' Lam (I - K C) + C' r W^-1 r C = Lam - C'K'Lam - Lam K C + C' D C,

and the slope in the variance of a row's noise is (u^2 - D) / 2.
"""

from typing import NamedTuple, no_type_check

import numpy as np
from jaxtyping import Float, Int, Int32

from weft.engines.cpu.blas import Routines, add_gram, borrow, multiply, plain, transposed
from weft.engines.cpu.blocks import clear, copy, mirror
from weft.engines.cpu.inlined import called, inlined
from weft.engines.cpu.triangular import factor_and_invert, multiply_symmetric, solve_transposed

__all__ = ["AtPlaces", "KeptAtPlaces", "PlaceSlopes", "PlaceWork", "run_at_places"]


class AtPlaces(NamedTuple):
    """A series at `num_places` places: latent dimensions one after another, `component` says whose each is.

    Matrices are flat; those by distinct step have latent * latent numbers a step, zero between components. Row i of `root` and `values`
    has a number for every place at time i; a root of zero is a row that is not there.
    """

    routines: Routines
    num_places: int
    component: Int[np.ndarray, " latent"]
    readout: Float[np.ndarray, " latent"]
    transition: Float[np.ndarray, " step*latent*latent"]
    process_noise: Float[np.ndarray, " step*latent*latent"]
    initial: Float[np.ndarray, " latent*latent"]
    covariance: Float[np.ndarray, " component*place*place"]
    step: Int[np.ndarray, " time"]
    root: Float[np.ndarray, " time*place"]
    values: Float[np.ndarray, " time*place"]


class KeptAtPlaces(NamedTuple):
    """Of every time: K', r W^-1 r, r V^-1 a, which places have rows and how many; and P_f A' of the step that follows, m_f."""

    gain: Float[np.ndarray, " time*place*state"]
    precision: Float[np.ndarray, " time*place*place"]
    pull: Float[np.ndarray, " time*place"]
    present: Int32[np.ndarray, " time*place"]
    num_rows: Int32[np.ndarray, " time"]
    moved: Float[np.ndarray, " time*state*state"]
    mean: Float[np.ndarray, " time*state"]


class PlaceSlopes(NamedTuple):
    """Slopes, to be added to: in matrices by step, in the initial one, in the covariances of places, in each row's noise variance; and u,
    what each row is off by when all have spoken, in units of its noise variance.
    """

    transition: Float[np.ndarray, " step*latent*latent"]
    process_noise: Float[np.ndarray, " step*latent*latent"]
    initial: Float[np.ndarray, " latent*latent"]
    covariance: Float[np.ndarray, " component*place*place"]
    noise: Float[np.ndarray, " time*place"]
    pull: Float[np.ndarray, " time*place"]


class PlaceWork(NamedTuple):
    """Scratch space: P, then Lam; one more such matrix; F and Z, then K'Lam; W, then D; and smaller things."""

    matrix: Float[np.ndarray, " state*state"]
    other: Float[np.ndarray, " state*state"]
    read: Float[np.ndarray, " place*state"]
    square: Float[np.ndarray, " place*place"]
    inverse: Float[np.ndarray, " place*block"]
    panel: Float[np.ndarray, " block*state"]
    vector: Float[np.ndarray, " state"]
    mean: Float[np.ndarray, " state"]
    innovation: Float[np.ndarray, " place"]


@called
@no_type_check
def product(routines, shape, left, right, target):
    multiply(routines, shape, 1.0, left, right, 0.0, target)


@called
@no_type_check
def whiten(routines, count, columns, work, target):
    """V'^-1 target[count, columns]."""
    solve_transposed(routines, count, columns, work.square, work.inverse, target, work.panel)


@inlined
@no_type_check
def add_scaled(length, number, source, target):
    for j in range(length):
        target[j] += number * source[j]


@inlined
@no_type_check
def set_scaled(length, number, source, target):
    for j in range(length):
        target[j] = number * source[j]


@inlined
@no_type_check
def inner_product(length, left, right):
    total = 0.0
    for j in range(length):
        total += left[j] * right[j]
    return total


@inlined
@no_type_check
def combine_rows(num_latent, width, matrix, across, source, target):
    """Rows of `target`, `width` numbers each, are those of `source` combined by matrix[latent, latent], or its transpose."""
    for a in range(num_latent):
        mine, is_first = target[a * width : (a + 1) * width], True
        for b in range(num_latent):
            number = matrix[b * num_latent + a] if across else matrix[a * num_latent + b]
            if number == 0.0:
                continue
            if is_first:
                set_scaled(width, number, source[b * width :], mine)
            else:
                add_scaled(width, number, source[b * width :], mine)
            is_first = False
        if is_first:
            clear(width, mine)


@inlined
@no_type_check
def condition(problem, t, work, kept):
    """Take the rows of time t into work.matrix and work.mean: whether it worked, and the log factor."""
    routines, num_places, num_latent = problem.routines, problem.num_places, len(problem.readout)
    size = num_latent * num_places
    count = 0
    present = kept.present[t * num_places : (t + 1) * num_places]
    for i in range(num_places):
        if problem.root[t * num_places + i] > 0.0:
            present[count] = i
            count += 1
    kept.num_rows[t] = count
    if count == 0:
        mirror(size, work.matrix)
        return True, 0.0
    for k in range(count):
        i = present[k]
        row, root = work.read[k * size : (k + 1) * size], problem.root[t * num_places + i]
        clear(size, row)
        mean = 0.0
        for a in range(num_latent):
            h = problem.readout[a]
            if h != 0.0:
                add_scaled(size, h * root, work.matrix[(a * num_places + i) * size :], row)
                mean += h * work.mean[a * num_places + i]
        work.innovation[k] = root * (problem.values[t * num_places + i] - mean)
        for other in range(count):
            work.square[k * count + other] = 0.0
        for b in range(num_latent):
            h = problem.readout[b]
            if h != 0.0:
                for other in range(count):
                    work.square[k * count + other] += h * row[b * num_places + present[other]]
        for other in range(count):
            work.square[k * count + other] *= problem.root[t * num_places + present[other]]
        work.square[k * count + k] += 1.0
    if not factor_and_invert(routines, count, work.square, work.inverse, work.innovation, work.panel):
        return False, 0.0
    whiten(routines, count, size, work, work.read)
    loss = 0.0
    for k in range(count):
        loss += np.log(work.square[k * count + k]) + work.innovation[k] * work.innovation[k] / 2
        add_scaled(size, work.innovation[k], work.read[k * size :], work.mean)
    add_gram(routines, size, count, -1.0, work.read, 1.0, work.matrix)
    mirror(size, work.matrix)
    keep_rows(problem, t, count, present, work, kept)
    return np.isfinite(loss), -loss


@inlined
@no_type_check
def keep_rows(problem, t, count, present, work, kept):
    """What the way back needs of the rows of time t: r V^-1 of the identity, of a and of Z."""
    routines, num_places = problem.routines, problem.num_places
    size = len(problem.readout) * num_places
    # V'^-1 r, then its square.
    root = work.other[: count * count]
    clear(count * count, root)
    for k in range(count):
        root[k * count + k] = problem.root[t * num_places + present[k]]
    whiten(routines, count, count, work, root)
    precision = kept.precision[t * num_places * num_places :]
    product(routines, (count, count, count), transposed(root, count), plain(root, count), (precision, count))
    gain = kept.gain[t * num_places * size :]
    product(routines, (count, size, count), transposed(root, count), plain(work.read, size), (gain, size))
    pull = kept.pull[t * num_places :]
    clear(count, pull)
    for k in range(count):
        add_scaled(k + 1, work.innovation[k], root[k * count :], pull)


@inlined
@no_type_check
def move(problem, t, work, kept):
    """From work.matrix and work.mean, as filtered at time t, to what is expected a step later."""
    num_places, num_latent = problem.num_places, len(problem.readout)
    size = num_latent * num_places
    first = problem.step[t + 1] * num_latent * num_latent
    transition, noise = problem.transition[first:], problem.process_noise[first:]
    copy(size, work.mean, kept.mean[t * size :])
    moved = kept.moved[t * size * size :]
    for row in range(size):
        combine_rows(num_latent, num_places, transition, False, work.matrix[row * size :], moved[row * size :])
    combine_rows(num_latent, num_places * size, transition, False, moved, work.matrix)
    combine_rows(num_latent, num_places, transition, False, kept.mean[t * size :], work.mean)
    add_prior(problem, noise, work.matrix)


@inlined
@no_type_check
def add_prior(problem, between, matrix):
    """Add, for latent dimensions of one component, between[latent, latent] times the covariance of the places."""
    num_places, num_latent = problem.num_places, len(problem.readout)
    size, square = num_latent * num_places, num_places * num_places
    for a in range(num_latent):
        covariance = problem.covariance[problem.component[a] * square :]
        for b in range(num_latent):
            number = between[a * num_latent + b]
            if number != 0.0:
                for i in range(num_places):
                    target = matrix[(a * num_places + i) * size + b * num_places :]
                    add_scaled(num_places, number, covariance[i * num_places :], target)


@inlined
@no_type_check
def pull_rows(problem, t, lam, work, kept, slopes):
    """Take lam and Lam (work.matrix) back through the rows of time t, with the slopes in the variances of their noise."""
    routines, num_places, num_latent = problem.routines, problem.num_places, len(problem.readout)
    size, count = num_latent * num_places, kept.num_rows[t]
    if count == 0:
        return
    gain, precision = kept.gain[t * num_places * size :], kept.precision[t * num_places * num_places :]
    present = kept.present[t * num_places :]
    product(routines, (count, size, size), plain(gain, size), plain(work.matrix, size), (work.read, size))
    multiply_symmetric(routines, count, size, 1.0, work.read, gain, False, work.square)
    pull = work.innovation
    for k in range(count):
        pull[k] = kept.pull[t * num_places + k] - inner_product(size, gain[k * size :], lam)
        for other in range(k + 1):
            work.square[k * count + other] += precision[k * count + other]
            work.square[other * count + k] = work.square[k * count + other]
        slopes.pull[t * num_places + present[k]] = pull[k]
        slopes.noise[t * num_places + present[k]] = (pull[k] * pull[k] - work.square[k * count + k]) / 2
    # X = K'Lam less half of D C, and its transpose: Lam loses C'X by rows, then X'C by columns.
    turned = work.other
    clear(size * num_places, turned)
    for k in range(count):
        i, row = present[k], work.read[k * size : (k + 1) * size]
        for b in range(num_latent):
            h = problem.readout[b]
            if h != 0.0:
                for other in range(count):
                    row[b * num_places + present[other]] -= h * work.square[k * count + other] / 2
        for j in range(size):
            turned[j * num_places + i] = row[j]
        for a in range(num_latent):
            h = problem.readout[a]
            if h != 0.0:
                lam[a * num_places + i] += h * pull[k]
                add_scaled(size, -h, row, work.matrix[(a * num_places + i) * size :])
    for j in range(size):
        for b in range(num_latent):
            h = problem.readout[b]
            if h != 0.0:
                add_scaled(num_places, -h, turned[j * num_places :], work.matrix[j * size + b * num_places :])


@inlined
@no_type_check
def gather(problem, between, lam, work, of_between, of_covariance):
    """Slopes in what `add_prior` added, from V = lam lam' - Lam: half of V's sums with the covariances, and of V itself."""
    num_places, num_latent = problem.num_places, len(problem.readout)
    size, square = num_latent * num_places, num_places * num_places
    for a in range(num_latent):
        first = problem.component[a] * square
        for b in range(num_latent):
            if problem.component[a] != problem.component[b]:
                continue
            number, total = between[a * num_latent + b] / 2, 0.0
            right = lam[b * num_places :]
            for i in range(num_places):
                left = lam[a * num_places + i]
                adjoint = work.matrix[(a * num_places + i) * size + b * num_places :]
                covariance = problem.covariance[first + i * num_places :]
                target = of_covariance[first + i * num_places :]
                for j in range(num_places):
                    v = left * right[j] - adjoint[j]
                    total += v * covariance[j]
                    target[j] += number * v
            of_between[a * num_latent + b] += total / 2


@inlined
@no_type_check
def pull_move(problem, t, lam, work, kept, slopes):
    """Take lam and Lam back through the step from time t to the next, with the slopes in its matrices."""
    num_places, num_latent = problem.num_places, len(problem.readout)
    size = num_latent * num_places
    first = problem.step[t + 1] * num_latent * num_latent
    transition = problem.transition[first:]
    gather(problem, problem.process_noise[first:], lam, work, slopes.process_noise[first:], slopes.covariance)
    moved, mean = kept.moved[t * size * size :], kept.mean[t * size :]
    for b in range(num_latent):
        for i in range(num_places):
            row = (b * num_places + i) * size
            along = inner_product(size, moved[row:], lam) + mean[b * num_places + i]
            for a in range(num_latent):
                if problem.component[a] == problem.component[b]:
                    other = (a * num_places + i) * size
                    lost = inner_product(size, work.matrix[other:], moved[row:])
                    slopes.transition[first + a * num_latent + b] += lam[a * num_places + i] * along - lost
    for row in range(size):
        combine_rows(num_latent, num_places, transition, True, work.matrix[row * size :], work.other[row * size :])
    combine_rows(num_latent, num_places * size, transition, True, work.other, work.matrix)
    mirror(size, work.matrix)
    copy(size, lam, work.vector)
    combine_rows(num_latent, num_places, transition, True, work.vector, lam)


@no_type_check
def run_at_places(problem, kept, work, slopes):
    """The log normaliser with its slopes, and -1 or the time at which the filter broke down."""
    problem, kept, work, slopes = borrow(problem), borrow(kept), borrow(work), borrow(slopes)
    num_places, num_latent, num_times = problem.num_places, len(problem.readout), len(problem.step)
    size = num_latent * num_places
    clear(size * size, work.matrix)
    clear(size, work.mean)
    add_prior(problem, problem.initial, work.matrix)
    total = 0.0
    for t in range(num_times):
        worked, share = condition(problem, t, work, kept)
        if not worked:
            return total, t
        total += share
        if t + 1 < num_times:
            move(problem, t, work, kept)
    lam = work.mean
    clear(size * size, work.matrix)
    clear(size, lam)
    for t in range(num_times - 1, -1, -1):
        pull_rows(problem, t, lam, work, kept, slopes)
        if t > 0:
            pull_move(problem, t - 1, lam, work, kept, slopes)
    gather(problem, problem.initial, lam, work, slopes.initial, slopes.covariance)
    return total, -1
