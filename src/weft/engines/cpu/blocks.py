# SPDX-License-Identifier: MIT
"""What the chain's latent matrices do to a state, block by block: the identity over pseudo-points costs nothing.

A state's covariance is a flat row-major symmetric matrix. Each function works on one triangle and mirrors it: an antisymmetric rounding
error would grow without bound over a long series.
"""

from typing import NamedTuple, no_type_check

import numpy as np
from jaxtyping import Float, Int

from weft.engines.cpu.blas import Routines
from weft.engines.cpu.inlined import inlined


class Structure(NamedTuple):
    """Sizes and offsets, one entry a component: in the state, in the bottleneck, and in flat latent matrices and readouts."""

    latent: Int[np.ndarray, " component"]
    pseudo: Int[np.ndarray, " component"]
    state: Int[np.ndarray, " component"]
    bottleneck: Int[np.ndarray, " component"]
    matrix: Int[np.ndarray, " component"]
    vector: Int[np.ndarray, " component"]


class Frame(NamedTuple):
    """What every kernel is told: where routines are, how the state is built, what reads the bottleneck out of it, and their sizes."""

    routines: Routines
    structure: Structure
    readout: Float[np.ndarray, " flat"]
    size: int
    num_bottleneck: int


class Belief(NamedTuple):
    """A mean and a covariance, flat."""

    mean: Float[np.ndarray, " state"]
    covariance: Float[np.ndarray, " state*state"]


class Adjoint(NamedTuple):
    """The pair lam, Lam of `adjoint`, flat."""

    vector: Float[np.ndarray, " state"]
    matrix: Float[np.ndarray, " state*state"]


class Vectors(NamedTuple):
    """Several vectors in a flat array: where the first one begins, and how far they are apart."""

    numbers: Float[np.ndarray, " number"]
    first: int
    stride: int


class Quarters(NamedTuple):
    """The four vectors of a row of a block that is 2 x 2 in latent dimensions."""

    upper_left: Float[np.ndarray, " pseudo"]
    upper_right: Float[np.ndarray, " pseudo"]
    lower_left: Float[np.ndarray, " pseudo"]
    lower_right: Float[np.ndarray, " pseudo"]


# Rows mirrored together: their columns, side by side, are one store.
STRIP = 8


@inlined
@no_type_check
def mirror(size, matrix):
    """Copy the lower triangle onto the upper one, in strips of rows: three times as fast as element by element."""
    whole = size // STRIP * STRIP
    for top in range(0, whole, STRIP):
        mirror_strip(size, matrix, top, 0, top)
        for i in range(top, top + STRIP):
            for j in range(top, i):
                matrix[j * size + i] = matrix[i * size + j]
    for i in range(whole, size):
        for j in range(i):
            matrix[j * size + i] = matrix[i * size + j]


@inlined
@no_type_check
def mirror_strip(size, matrix, top, first, last):
    """Copy columns `first` to `last` of a strip of rows onto the strip of columns."""
    for j in range(first, last):
        x = matrix[top * size + j :]
        y = matrix[j * size + top : j * size + top + STRIP]
        y[0] = x[0]
        y[1] = x[size]
        y[2] = x[2 * size]
        y[3] = x[3 * size]
        y[4] = x[4 * size]
        y[5] = x[5 * size]
        y[6] = x[6 * size]
        y[7] = x[7 * size]


@inlined
@no_type_check
def copy(length, source, target):
    """The first `length` numbers; a loop, because a slice assignment compiles into far more than a copy."""
    for j in range(length):
        target[j] = source[j]


@inlined
@no_type_check
def clear(length, target):
    for j in range(length):
        target[j] = 0.0


@inlined
@no_type_check
def vector_of(vectors, number, length):
    first = vectors.first + number * vectors.stride
    return vectors.numbers[first : first + length]


@inlined
@no_type_check
def mix(matrix, latent, source, target, length):
    """`latent` vectors of `target` become latent-matrix combinations of those of `source`."""
    if latent == 1:
        a = matrix[0]
        x, y = vector_of(source, 0, length), vector_of(target, 0, length)
        for j in range(length):
            y[j] = a * x[j]
    elif latent == 2:
        a, b, c, d = matrix[0], matrix[1], matrix[2], matrix[3]
        x, u = vector_of(source, 0, length), vector_of(source, 1, length)
        y, v = vector_of(target, 0, length), vector_of(target, 1, length)
        for j in range(length):
            one, two = x[j], u[j]
            y[j] = a * one + b * two
            v[j] = c * one + d * two
    elif latent == 3:
        a, b, c = matrix[0], matrix[1], matrix[2]
        d, e, f = matrix[3], matrix[4], matrix[5]
        g, h, i = matrix[6], matrix[7], matrix[8]
        x, u, p = vector_of(source, 0, length), vector_of(source, 1, length), vector_of(source, 2, length)
        y, v, w = vector_of(target, 0, length), vector_of(target, 1, length), vector_of(target, 2, length)
        # Three loops: one that stores to three arrays is one the compiler does not vectorise.
        for j in range(length):
            y[j] = a * x[j] + b * u[j] + c * p[j]
        for j in range(length):
            v[j] = d * x[j] + e * u[j] + f * p[j]
        for j in range(length):
            w[j] = g * x[j] + h * u[j] + i * p[j]
    else:
        for row in range(latent):
            y = vector_of(target, row, length)
            clear(length, y)
            for column in range(latent):
                a = matrix[row * latent + column]
                if a != 0.0:
                    x = vector_of(source, column, length)
                    for j in range(length):
                        y[j] += a * x[j]


@inlined
@no_type_check
def quarters(matrix, upper, lower, width):
    """The vectors that begin at `upper` and `lower`, and those right of them."""
    return Quarters(
        matrix[upper : upper + width],
        matrix[upper + width : upper + 2 * width],
        matrix[lower : lower + width],
        matrix[lower + width : lower + 2 * width],
    )


@inlined
@no_type_check
def move_two(length, rows, columns, block):
    """A x A' for a 2 x 2 of vectors, with the matrix of the rows' component on the left and the columns' on the right."""
    a, b, c, d = rows[0], rows[1], rows[2], rows[3]
    e, f, g, h = columns[0], columns[1], columns[2], columns[3]
    x, y, z, w = block
    for j in range(length):
        one, two = e * x[j] + f * y[j], g * x[j] + h * y[j]
        three, four = e * z[j] + f * w[j], g * z[j] + h * w[j]
        x[j], y[j] = a * one + b * three, a * two + b * four
        z[j], w[j] = c * one + d * three, c * two + d * four


@inlined
@no_type_check
def dots_of_two(length, columns, block, other):
    """Inner products of the two rows of a block, mixed by the columns' matrix, with the two rows of another.

    A loop of its own, not a part of `move_two`: a loop that stores to so many arrays is one the compiler does not vectorise.
    """
    e, f, g, h = columns[0], columns[1], columns[2], columns[3]
    x, y, z, w = block
    p, q, r, s = other
    i, k, m, n = 0.0, 0.0, 0.0, 0.0
    for j in range(length):
        one, two = e * x[j] + f * y[j], g * x[j] + h * y[j]
        three, four = e * z[j] + f * w[j], g * z[j] + h * w[j]
        i += one * p[j] + two * q[j]
        k += one * r[j] + two * s[j]
        m += three * p[j] + four * q[j]
        n += three * r[j] + four * s[j]
    return i, k, m, n


@inlined
@no_type_check
def mix_rows(frame, matrix, pair, first, source, mixed):
    """The rows of `mixed` become those of one pseudo-point of the first component, times the transpose of the second's matrix.

    They begin at `first` in `source`, one for each latent dimension.
    """
    structure, size = frame.structure, frame.size
    rows, columns = pair
    width, below = structure.pseudo[columns], structure.pseudo[rows] * size
    mine = matrix[structure.matrix[columns] :]
    for d in range(structure.latent[rows]):
        row, target = Vectors(source, first + d * below, width), Vectors(mixed, d * size, width)
        mix(mine, structure.latent[columns], row, target, width)


@inlined
@no_type_check
def move_block(frame, matrix, pair, target, mixed):
    """The block of a pair of components between the two components' matrices, in place."""
    structure, size = frame.structure, frame.size
    p, other = pair
    latent, pseudo, width = structure.latent[p], structure.pseudo[p], structure.pseudo[other]
    corner = structure.state[p] * size + structure.state[other]
    rows, columns = matrix[structure.matrix[p] :], matrix[structure.matrix[other] :]
    if latent == 1 and structure.latent[other] == 1:
        a = rows[0] * columns[0]
        for m in range(pseudo):
            x = target[corner + m * size : corner + m * size + width]
            for j in range(width):
                x[j] *= a
    elif latent == 2 and structure.latent[other] == 2:
        below = corner + pseudo * size
        for m in range(0, pseudo * size, size):
            move_two(width, rows, columns, quarters(target, corner + m, below + m, width))
    else:
        length = structure.latent[other] * width
        for m in range(pseudo):
            first = corner + m * size
            mix_rows(frame, matrix, pair, first, target, mixed)
            mix(rows, latent, Vectors(mixed, 0, size), Vectors(target, first, pseudo * size), length)


@inlined
@no_type_check
def move_covariance(frame, matrix, noise, covariance, mixed):
    """In place, covariance = A covariance A' + Q, where A and Q act on the latent dimensions alone."""
    structure, size = frame.structure, frame.size
    for p in range(len(structure.latent)):
        latent, pseudo, state = structure.latent[p], structure.pseudo[p], structure.state[p]
        for other in range(p + 1):
            move_block(frame, matrix, (p, other), covariance, mixed)
        for d in range(latent):
            for e in range(d + 1):
                q = noise[structure.matrix[p] + d * latent + e]
                for m in range(pseudo):
                    covariance[(state + d * pseudo + m) * size + state + e * pseudo + m] += q
    mirror(size, covariance)


@inlined
@no_type_check
def move_symmetric(frame, matrix, symmetric, mixed):
    """In place, A symmetric A', where A acts on the latent dimensions alone."""
    for p in range(len(frame.structure.latent)):
        for other in range(p + 1):
            move_block(frame, matrix, (p, other), symmetric, mixed)
    mirror(frame.size, symmetric)


@inlined
@no_type_check
def move_block_with_dots(frame, matrix, pair, filtered, target, mixed, gradient):
    """`move_block`; subtract the inner products of its intermediate rows with those of `filtered` from `gradient`."""
    structure, size = frame.structure, frame.size
    p, other = pair
    latent, pseudo, width = structure.latent[p], structure.pseudo[p], structure.pseudo[other]
    corner = structure.state[p] * size + structure.state[other]
    rows, columns = matrix[structure.matrix[p] :], matrix[structure.matrix[other] :]
    if latent == 1 and structure.latent[other] == 1:
        a, total = rows[0] * columns[0], 0.0
        for m in range(pseudo):
            x = target[corner + m * size : corner + m * size + width]
            y = filtered[corner + m * size : corner + m * size + width]
            for j in range(width):
                total += x[j] * y[j]
                x[j] *= a
        gradient[0] -= columns[0] * total
    elif latent == 2 and structure.latent[other] == 2:
        below = corner + pseudo * size
        for m in range(0, pseudo * size, size):
            block = quarters(target, corner + m, below + m, width)
            dots = dots_of_two(width, columns, block, quarters(filtered, corner + m, below + m, width))
            one, two, three, four = dots
            gradient[0] -= one
            gradient[1] -= two
            gradient[2] -= three
            gradient[3] -= four
            move_two(width, rows, columns, block)
    else:
        length = structure.latent[other] * width
        for m in range(pseudo):
            first = corner + m * size
            mix_rows(frame, matrix, pair, first, target, mixed)
            for e in range(latent):
                y = filtered[first + e * pseudo * size : first + e * pseudo * size + length]
                for d in range(latent):
                    x = mixed[d * size : d * size + length]
                    total = 0.0
                    for j in range(length):
                        total += x[j] * y[j]
                    gradient[d * latent + e] -= total
            mix(rows, latent, Vectors(mixed, 0, size), Vectors(target, first, pseudo * size), length)


@inlined
@no_type_check
def move_adjoint(frame, matrix, filtered, adjoint, mixed, gradient):
    """In place, adjoint = A' adjoint A; subtract trace-over-places of (adjoint A filtered) from `gradient`.

    `matrix` is A', `filtered` the covariance before the step. The product with A is needed anyway, so the gradient costs dot products.
    """
    structure = frame.structure
    num_components = len(structure.latent)
    for p in range(num_components):
        for other in range(num_components):
            move_block_with_dots(frame, matrix, (p, other), filtered, adjoint, mixed, gradient[structure.matrix[p] :])
    mirror(frame.size, adjoint)


@inlined
@no_type_check
def move_means(frame, matrix, width, source, target):
    """target[state, width] = A source[state, width]; the two must differ."""
    structure = frame.structure
    for p in range(len(structure.latent)):
        length, first = structure.pseudo[p] * width, structure.state[p] * width
        mine = matrix[structure.matrix[p] :]
        mix(mine, structure.latent[p], Vectors(source, first, length), Vectors(target, first, length), length)


@inlined
@no_type_check
def read_rows(frame, width, source, target):
    """target[bottleneck, width] = H source[state, width]."""
    structure, readout = frame.structure, frame.readout
    for p in range(len(structure.latent)):
        pseudo, state, bottleneck = structure.pseudo[p], structure.state[p], structure.bottleneck[p]
        length = pseudo * width
        y = target[bottleneck * width : bottleneck * width + length]
        written = False
        for d in range(structure.latent[p]):
            h = readout[structure.vector[p] + d]
            if h == 0.0:
                continue
            x = source[(state + d * pseudo) * width : (state + d * pseudo) * width + length]
            if written:
                for j in range(length):
                    y[j] += h * x[j]
            elif h == 1.0:
                copy(length, x, y)
            else:
                for j in range(length):
                    y[j] = h * x[j]
            written = True
        if not written:
            clear(length, y)


@inlined
@no_type_check
def read_columns(frame, count, source, target):
    """target[count, bottleneck] = source[count, state] H'."""
    structure, readout, size, num_bottleneck = frame.structure, frame.readout, frame.size, frame.num_bottleneck
    for p in range(len(structure.latent)):
        pseudo, state, bottleneck = structure.pseudo[p], structure.state[p], structure.bottleneck[p]
        written = False
        for d in range(structure.latent[p]):
            h = readout[structure.vector[p] + d]
            if h == 0.0:
                continue
            for i in range(count):
                x = source[i * size + state + d * pseudo : i * size + state + (d + 1) * pseudo]
                y = target[i * num_bottleneck + bottleneck : i * num_bottleneck + bottleneck + pseudo]
                if written:
                    for j in range(pseudo):
                        y[j] += h * x[j]
                else:
                    for j in range(pseudo):
                        y[j] = h * x[j]
            written = True
        if not written:
            for i in range(count):
                clear(pseudo, target[i * num_bottleneck + bottleneck :])


@inlined
@no_type_check
def add_read_in(frame, width, source, target):
    """target[state, width] += H' source[bottleneck, width]."""
    structure, readout = frame.structure, frame.readout
    for p in range(len(structure.latent)):
        length = structure.pseudo[p] * width
        first = structure.bottleneck[p] * width
        x = source[first : first + length]
        for d in range(structure.latent[p]):
            h = readout[structure.vector[p] + d]
            if h != 0.0:
                first = structure.state[p] * width + d * length
                y = target[first : first + length]
                for j in range(length):
                    y[j] += h * x[j]


@inlined
@no_type_check
def subtract_read_in_rows(frame, count, source, target):
    """target[count, state] -= source[count, bottleneck] H."""
    structure, readout, size, num_bottleneck = frame.structure, frame.readout, frame.size, frame.num_bottleneck
    for p in range(len(structure.latent)):
        pseudo, state, bottleneck = structure.pseudo[p], structure.state[p], structure.bottleneck[p]
        for d in range(structure.latent[p]):
            h = readout[structure.vector[p] + d]
            if h == 0.0:
                continue
            for i in range(count):
                x = source[i * num_bottleneck + bottleneck : i * num_bottleneck + bottleneck + pseudo]
                y = target[i * size + state + d * pseudo : i * size + state + (d + 1) * pseudo]
                for j in range(pseudo):
                    y[j] -= h * x[j]


@inlined
@no_type_check
def subtract_symmetric_read_in(frame, source, target):
    """Subtract H' source + source' H, for source[bottleneck, state]: its rows, then its columns below the diagonal, then the mirror."""
    structure, readout, size = frame.structure, frame.readout, frame.size
    for p in range(len(structure.latent)):
        pseudo, bottleneck = structure.pseudo[p], structure.bottleneck[p]
        whole = pseudo // STRIP * STRIP
        for d in range(structure.latent[p]):
            h = readout[structure.vector[p] + d]
            if h == 0.0:
                continue
            block = structure.state[p] + d * pseudo
            rows = target[block * size : (block + pseudo) * size]
            own = source[bottleneck * size : (bottleneck + pseudo) * size]
            for j in range(pseudo * size):
                rows[j] -= h * own[j]
            for m in range(0, whole, STRIP):
                subtract_strip(size, h, own[m * size :], block + m, target)
            for m in range(whole, pseudo):
                for j in range(block + m, size):
                    target[j * size + block + m] -= h * own[m * size + j]
    mirror(size, target)


@inlined
@no_type_check
def subtract_strip(size, h, source, first, target):
    """Subtract a strip of rows, times h, from the columns of `target` that start at `first`, from the diagonal down."""
    for j in range(first, size):
        x = source[j:]
        y = target[j * size + first : j * size + first + STRIP]
        y[0] -= h * x[0]
        y[1] -= h * x[size]
        y[2] -= h * x[2 * size]
        y[3] -= h * x[3 * size]
        y[4] -= h * x[4 * size]
        y[5] -= h * x[5 * size]
        y[6] -= h * x[6 * size]
        y[7] -= h * x[7 * size]


@inlined
@no_type_check
def add_latent_trace(frame, alpha, matrix, gradient):
    """Add alpha times the trace over places of `matrix` to `gradient`."""
    structure, size = frame.structure, frame.size
    for p in range(len(structure.latent)):
        latent, pseudo, state = structure.latent[p], structure.pseudo[p], structure.state[p]
        for d in range(latent):
            for e in range(latent):
                total = 0.0
                for m in range(pseudo):
                    total += matrix[(state + d * pseudo + m) * size + state + e * pseudo + m]
                gradient[structure.matrix[p] + d * latent + e] += alpha * total


@inlined
@no_type_check
def add_latent_outer(frame, alpha, left, right, gradient):
    """Add alpha times the trace over places of left right' to `gradient`."""
    structure = frame.structure
    for p in range(len(structure.latent)):
        latent, pseudo, state = structure.latent[p], structure.pseudo[p], structure.state[p]
        for d in range(latent):
            for e in range(latent):
                total = 0.0
                for m in range(pseudo):
                    total += left[state + d * pseudo + m] * right[state + e * pseudo + m]
                gradient[structure.matrix[p] + d * latent + e] += alpha * total
