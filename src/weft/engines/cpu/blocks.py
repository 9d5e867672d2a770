# SPDX-License-Identifier: MIT
"""What the chain's latent matrices do to a state, block by block: the identity over pseudo-points costs nothing.

A state's covariance is a flat row-major symmetric matrix. Each function works on one triangle and mirrors it: an antisymmetric rounding
error would grow without bound over a long series.
"""

from typing import NamedTuple, no_type_check

import numpy as np
from numba import njit

from weft.engines.cpu.blas import OPTIONS


class Structure(NamedTuple):
    """Sizes and offsets, one entry a component: in the state, in the bottleneck, and in flat latent matrices and readouts."""

    latent: np.ndarray
    pseudo: np.ndarray
    state: np.ndarray
    bottleneck: np.ndarray
    matrix: np.ndarray
    vector: np.ndarray


# Rows mirrored together: their columns, side by side, are one store.
STRIP = 8


@njit(**OPTIONS)
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


@njit(**OPTIONS)
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


@njit(**OPTIONS)
@no_type_check
def copy(length, source, target):
    """The first `length` numbers; a loop, because a slice assignment compiles into far more than a copy."""
    for j in range(length):
        target[j] = source[j]


@njit(**OPTIONS)
@no_type_check
def clear(length, target):
    for j in range(length):
        target[j] = 0.0


@njit(**OPTIONS)
@no_type_check
def mix(matrix, first, latent, source, source_first, source_stride, target, target_first, target_stride, length):
    """`latent` vectors of `target` become latent-matrix combinations of those of `source`."""
    if latent == 1:
        a = matrix[first]
        x = source[source_first : source_first + length]
        y = target[target_first : target_first + length]
        for j in range(length):
            y[j] = a * x[j]
    elif latent == 2:
        a, b, c, d = matrix[first], matrix[first + 1], matrix[first + 2], matrix[first + 3]
        x = source[source_first : source_first + length]
        u = source[source_first + source_stride : source_first + source_stride + length]
        y = target[target_first : target_first + length]
        v = target[target_first + target_stride : target_first + target_stride + length]
        for j in range(length):
            one, two = x[j], u[j]
            y[j] = a * one + b * two
            v[j] = c * one + d * two
    elif latent == 3:
        a, b, c = matrix[first], matrix[first + 1], matrix[first + 2]
        d, e, f = matrix[first + 3], matrix[first + 4], matrix[first + 5]
        g, h, i = matrix[first + 6], matrix[first + 7], matrix[first + 8]
        x = source[source_first : source_first + length]
        u = source[source_first + source_stride : source_first + source_stride + length]
        p = source[source_first + 2 * source_stride : source_first + 2 * source_stride + length]
        y = target[target_first : target_first + length]
        v = target[target_first + target_stride : target_first + target_stride + length]
        w = target[target_first + 2 * target_stride : target_first + 2 * target_stride + length]
        # Three loops: one that stores to three arrays is one the compiler does not vectorise.
        for j in range(length):
            y[j] = a * x[j] + b * u[j] + c * p[j]
        for j in range(length):
            v[j] = d * x[j] + e * u[j] + f * p[j]
        for j in range(length):
            w[j] = g * x[j] + h * u[j] + i * p[j]
    else:
        for row in range(latent):
            y = target[target_first + row * target_stride : target_first + row * target_stride + length]
            clear(length, y)
            for column in range(latent):
                a = matrix[first + row * latent + column]
                if a != 0.0:
                    x = source[source_first + column * source_stride : source_first + column * source_stride + length]
                    for j in range(length):
                        y[j] += a * x[j]


@njit(**OPTIONS)
@no_type_check
def turn_two(length, rows, columns, x, y, z, w):
    """A x A' for a 2 x 2 of vectors (x, y; z, w), with the matrix of the rows' component on the left and the columns' on the right."""
    a, b, c, d = rows[0], rows[1], rows[2], rows[3]
    e, f, g, h = columns[0], columns[1], columns[2], columns[3]
    for j in range(length):
        one, two = e * x[j] + f * y[j], g * x[j] + h * y[j]
        three, four = e * z[j] + f * w[j], g * z[j] + h * w[j]
        x[j], y[j] = a * one + b * three, a * two + b * four
        z[j], w[j] = c * one + d * three, c * two + d * four


@njit(**OPTIONS)
@no_type_check
def dots_of_two(length, columns, x, y, z, w, p, q, r, s):
    """Inner products of the rows (x, y) and (z, w), mixed by the columns' matrix, with the rows (p, q) and (r, s).

    A loop of its own, not a part of `turn_two`: a loop that stores to so many arrays is one the compiler does not vectorise.
    """
    e, f, g, h = columns[0], columns[1], columns[2], columns[3]
    i, k, m, n = 0.0, 0.0, 0.0, 0.0
    for j in range(length):
        one, two = e * x[j] + f * y[j], g * x[j] + h * y[j]
        three, four = e * z[j] + f * w[j], g * z[j] + h * w[j]
        i += one * p[j] + two * q[j]
        k += one * r[j] + two * s[j]
        m += three * p[j] + four * q[j]
        n += three * r[j] + four * s[j]
    return i, k, m, n


@njit(**OPTIONS)
@no_type_check
def mix_rows(structure, size, matrix, latent, pseudo, other, corner, source, mixed):
    """`latent` rows of `mixed` become those of `source`, `pseudo` apart, times the transpose of component `other`'s matrix."""
    width = structure.pseudo[other]
    for d in range(latent):
        mix(
            matrix,
            structure.matrix[other],
            structure.latent[other],
            source,
            corner + d * pseudo * size,
            width,
            mixed,
            d * size,
            width,
            width,
        )


@njit(**OPTIONS)
@no_type_check
def turn(structure, size, matrix, p, other, target, mixed):
    """The block of components p and `other` between the two components' matrices, in place."""
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
            turn_two(
                width,
                rows,
                columns,
                target[corner + m : corner + m + width],
                target[corner + m + width : corner + m + 2 * width],
                target[below + m : below + m + width],
                target[below + m + width : below + m + 2 * width],
            )
    else:
        length = structure.latent[other] * width
        for m in range(pseudo):
            first = corner + m * size
            mix_rows(structure, size, matrix, latent, pseudo, other, first, target, mixed)
            mix(rows, 0, latent, mixed, 0, size, target, first, pseudo * size, length)


@njit(**OPTIONS)
@no_type_check
def move_covariance(structure, size, matrix, noise, covariance, mixed):
    """Covariance = A covariance A' + Q in place, where A and Q act on the latent dimensions alone."""
    for p in range(len(structure.latent)):
        latent, pseudo, state = structure.latent[p], structure.pseudo[p], structure.state[p]
        for other in range(p + 1):
            turn(structure, size, matrix, p, other, covariance, mixed)
        for d in range(latent):
            for e in range(d + 1):
                q = noise[structure.matrix[p] + d * latent + e]
                for m in range(pseudo):
                    covariance[(state + d * pseudo + m) * size + state + e * pseudo + m] += q
    mirror(size, covariance)


@njit(**OPTIONS)
@no_type_check
def turn_with_dots(structure, size, matrix, p, other, filtered, target, mixed, gradient):
    """`turn`; subtract the inner products of its intermediate rows with those of `filtered` from `gradient`."""
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
            x = target[corner + m : corner + m + width]
            y = target[corner + m + width : corner + m + 2 * width]
            z = target[below + m : below + m + width]
            w = target[below + m + width : below + m + 2 * width]
            one, two, three, four = dots_of_two(
                width,
                columns,
                x,
                y,
                z,
                w,
                filtered[corner + m : corner + m + width],
                filtered[corner + m + width : corner + m + 2 * width],
                filtered[below + m : below + m + width],
                filtered[below + m + width : below + m + 2 * width],
            )
            gradient[0] -= one
            gradient[1] -= two
            gradient[2] -= three
            gradient[3] -= four
            turn_two(width, rows, columns, x, y, z, w)
    else:
        length = structure.latent[other] * width
        for m in range(pseudo):
            first = corner + m * size
            mix_rows(structure, size, matrix, latent, pseudo, other, first, target, mixed)
            for e in range(latent):
                y = filtered[first + e * pseudo * size : first + e * pseudo * size + length]
                for d in range(latent):
                    x = mixed[d * size : d * size + length]
                    total = 0.0
                    for j in range(length):
                        total += x[j] * y[j]
                    gradient[d * latent + e] -= total
            mix(rows, 0, latent, mixed, 0, size, target, first, pseudo * size, length)


@njit(**OPTIONS)
@no_type_check
def move_adjoint(structure, size, turned, filtered, adjoint, mixed, gradient):
    """Adjoint = A' adjoint A in place; subtract trace-over-places of (adjoint A filtered) from `gradient`.

    `turned` is A', `filtered` the covariance before the step. The product with A is needed anyway, so the gradient costs dot products.
    """
    num_components = len(structure.latent)
    for p in range(num_components):
        for other in range(num_components):
            turn_with_dots(structure, size, turned, p, other, filtered, adjoint, mixed, gradient[structure.matrix[p] :])
    mirror(size, adjoint)


@njit(**OPTIONS)
@no_type_check
def move_mean(structure, matrix, source, target):
    """Target = A source; the two must differ."""
    for p in range(len(structure.latent)):
        pseudo, state = structure.pseudo[p], structure.state[p]
        mix(matrix, structure.matrix[p], structure.latent[p], source, state, pseudo, target, state, pseudo, pseudo)


@njit(**OPTIONS)
@no_type_check
def read_rows(structure, readout, width, source, target):
    """target[bottleneck, width] = H source[state, width]."""
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


@njit(**OPTIONS)
@no_type_check
def read_columns(structure, readout, size, num_bottleneck, count, source, target):
    """target[count, bottleneck] = source[count, state] H'."""
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


@njit(**OPTIONS)
@no_type_check
def add_read_in(structure, readout, alpha, source, target):
    """target[state] += alpha H' source[bottleneck]."""
    for p in range(len(structure.latent)):
        pseudo, state, bottleneck = structure.pseudo[p], structure.state[p], structure.bottleneck[p]
        for d in range(structure.latent[p]):
            h = alpha * readout[structure.vector[p] + d]
            if h != 0.0:
                for m in range(pseudo):
                    target[state + d * pseudo + m] += h * source[bottleneck + m]


@njit(**OPTIONS)
@no_type_check
def subtract_read_in_rows(structure, readout, size, num_bottleneck, count, source, target):
    """target[count, state] -= source[count, bottleneck] H."""
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


@njit(**OPTIONS)
@no_type_check
def subtract_symmetric_read_in(structure, readout, size, source, target):
    """Subtract H' source + source' H, for source[bottleneck, state]: its rows, then its columns below the diagonal, then the mirror."""
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


@njit(**OPTIONS)
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


@njit(**OPTIONS)
@no_type_check
def add_latent_trace(structure, size, alpha, matrix, gradient):
    """Gradient += alpha trace over places of `matrix`."""
    for p in range(len(structure.latent)):
        latent, pseudo, state = structure.latent[p], structure.pseudo[p], structure.state[p]
        for d in range(latent):
            for e in range(latent):
                total = 0.0
                for m in range(pseudo):
                    total += matrix[(state + d * pseudo + m) * size + state + e * pseudo + m]
                gradient[structure.matrix[p] + d * latent + e] += alpha * total


@njit(**OPTIONS)
@no_type_check
def add_latent_outer(structure, alpha, left, right, gradient):
    """Gradient += alpha trace over places of left right'."""
    for p in range(len(structure.latent)):
        latent, pseudo, state = structure.latent[p], structure.pseudo[p], structure.state[p]
        for d in range(latent):
            for e in range(latent):
                total = 0.0
                for m in range(pseudo):
                    total += left[state + d * pseudo + m] * right[state + e * pseudo + m]
                gradient[structure.matrix[p] + d * latent + e] += alpha * total
