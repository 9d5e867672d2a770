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


@njit(**OPTIONS)
@no_type_check
def mirror(size, matrix):
    """Copy the lower triangle onto the upper one, tile by tile for the cache's sake."""
    tile = 16
    for top in range(0, size, tile):
        bottom = min(top + tile, size)
        for left in range(0, top + 1, tile):
            for i in range(top, bottom):
                for j in range(left, min(left + tile, i)):
                    matrix[j * size + i] = matrix[i * size + j]


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
        for j in range(length):
            one, two, three = x[j], u[j], p[j]
            y[j] = a * one + b * two + c * three
            v[j] = d * one + e * two + f * three
            w[j] = g * one + h * two + i * three
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
def mix_columns(structure, matrix, row, row_first, target, target_first, num_components):
    """One row of a matrix times the transposes of the first components' latent matrices."""
    for p in range(num_components):
        mix(
            matrix,
            structure.matrix[p],
            structure.latent[p],
            row,
            row_first + structure.state[p],
            structure.pseudo[p],
            target,
            target_first + structure.state[p],
            structure.pseudo[p],
            structure.pseudo[p],
        )


@njit(**OPTIONS)
@no_type_check
def move_covariance(structure, size, matrix, noise, source, target, mixed):
    """Target = A source A' + Q, where A and Q act on the latent dimensions alone; `target` may be `source`."""
    for p in range(len(structure.latent)):
        latent, pseudo, state = structure.latent[p], structure.pseudo[p], structure.state[p]
        first = structure.matrix[p]
        for m in range(pseudo):
            for d in range(latent):
                mix_columns(structure, matrix, source, (state + d * pseudo + m) * size, mixed, d * size, p + 1)
            corner = (state + m) * size
            reach = state + (latent - 1) * pseudo + m + 1
            mix(matrix, first, latent, mixed, 0, size, target, corner, pseudo * size, reach)
            for d in range(latent):
                for e in range(d + 1):
                    target[(state + d * pseudo + m) * size + state + e * pseudo + m] += noise[first + d * latent + e]
    mirror(size, target)


@njit(**OPTIONS)
@no_type_check
def subtract_dots(latent, size, rows, row, target):
    """target[d * latent] -= rows[d] . row; `row` is read once for two or three of `rows`."""
    d = 0
    while d < latent:
        x = rows[d * size : (d + 1) * size]
        if latent - d == 1:
            one = 0.0
            for j in range(size):
                one += x[j] * row[j]
            target[d * latent] -= one
            return
        y = rows[(d + 1) * size : (d + 2) * size]
        if latent - d == 3:
            z = rows[(d + 2) * size : (d + 3) * size]
            one, two, three = 0.0, 0.0, 0.0
            for j in range(size):
                one += x[j] * row[j]
                two += y[j] * row[j]
                three += z[j] * row[j]
            target[d * latent] -= one
            target[(d + 1) * latent] -= two
            target[(d + 2) * latent] -= three
            return
        one, two = 0.0, 0.0
        for j in range(size):
            one += x[j] * row[j]
            two += y[j] * row[j]
        target[d * latent] -= one
        target[(d + 1) * latent] -= two
        d += 2


@njit(**OPTIONS)
@no_type_check
def move_adjoint(structure, size, matrix, turned, filtered, adjoint, mixed, gradient):
    """Adjoint = A' adjoint A in place; subtract trace-over-places of (adjoint A filtered) from `gradient`.

    `turned` is A', `filtered` the covariance before the step. The product with A is needed anyway, so the gradient costs dot products.
    """
    num_components = len(structure.latent)
    for p in range(num_components):
        latent, pseudo, state = structure.latent[p], structure.pseudo[p], structure.state[p]
        first = structure.matrix[p]
        for m in range(pseudo):
            for d in range(latent):
                mix_columns(
                    structure, turned, adjoint, (state + d * pseudo + m) * size, mixed, d * size, num_components
                )
            for e in range(latent):
                row = filtered[(state + e * pseudo + m) * size : (state + e * pseudo + m + 1) * size]
                subtract_dots(latent, size, mixed, row, gradient[first + e :])
            reach = state + (latent - 1) * pseudo + m + 1
            mix(turned, first, latent, mixed, 0, size, adjoint, (state + m) * size, pseudo * size, reach)
    mirror(size, adjoint)


@njit(**OPTIONS)
@no_type_check
def move_mean(structure, matrix, source, target):
    """Target = A source; the two must differ."""
    mix_columns(structure, matrix, source, 0, target, 0, len(structure.latent))


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
    for i in range(count):
        read_rows(
            structure,
            readout,
            1,
            source[i * size : (i + 1) * size],
            target[i * num_bottleneck : (i + 1) * num_bottleneck],
        )


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
def subtract_symmetric_read_in(structure, readout, size, num_bottleneck, source, target):
    """Subtract H' source + source' H, source[bottleneck, state], touching only the rows and columns that H reads."""
    num_components = len(structure.latent)
    for p in range(num_components):
        for d in range(structure.latent[p]):
            own = readout[structure.vector[p] + d]
            if own == 0.0:
                continue
            block = structure.state[p] + d * structure.pseudo[p]
            for m in range(structure.pseudo[p]):
                i = block + m
                row = target[i * size : (i + 1) * size]
                x = source[(structure.bottleneck[p] + m) * size : (structure.bottleneck[p] + m + 1) * size]
                for j in range(size):
                    row[j] -= own * x[j]
                # The other term, where it meets the same rows: lower triangle only, the mirror does the rest.
                for other in range(p + 1):
                    first = structure.bottleneck[other]
                    for e in range(structure.latent[other]):
                        h = readout[structure.vector[other] + e]
                        column = structure.state[other] + e * structure.pseudo[other]
                        if h == 0.0 or column > i:
                            continue
                        for k in range(min(structure.pseudo[other], i + 1 - column)):
                            row[column + k] -= h * source[(first + k) * size + i]
    for p in range(num_components):
        for d in range(structure.latent[p]):
            if readout[structure.vector[p] + d] != 0.0:
                mirror_rows(structure, readout, size, p, d, target)


@njit(**OPTIONS)
@no_type_check
def mirror_rows(structure, readout, size, p, d, target):
    """Copy the rows of one block onto its columns, except onto rows that H reads above it."""
    tile = 16
    block = structure.state[p] + d * structure.pseudo[p]
    end = block + structure.pseudo[p]
    for other in range(len(structure.latent)):
        for e in range(structure.latent[other]):
            first = structure.state[other] + e * structure.pseudo[other]
            last = first + structure.pseudo[other]
            read = readout[structure.vector[other] + e] != 0.0
            if read and first > block:
                continue
            for top in range(block, end, tile):
                for left in range(first, last, tile):
                    for i in range(top, min(top + tile, end)):
                        reach = min(left + tile, last)
                        if read:
                            reach = min(reach, i)
                        for j in range(left, reach):
                            target[j * size + i] = target[i * size + j]


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
