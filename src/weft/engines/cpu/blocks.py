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
    """target = A source A' + Q, where A and Q act on the latent dimensions alone; `target` may be `source`."""
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
def move_adjoint(structure, size, matrix, turned, filtered, adjoint, mixed, gradient):
    """adjoint = A' adjoint A in place; subtract trace-over-places of (adjoint A filtered) from `gradient`.

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
                for d in range(latent):
                    other = mixed[d * size : (d + 1) * size]
                    total = 0.0
                    for j in range(size):
                        total += other[j] * row[j]
                    gradient[first + d * latent + e] -= total
            reach = state + (latent - 1) * pseudo + m + 1
            mix(turned, first, latent, mixed, 0, size, adjoint, (state + m) * size, pseudo * size, reach)
    mirror(size, adjoint)


@njit(**OPTIONS)
@no_type_check
def move_mean(structure, matrix, source, target):
    """target = A source; the two must differ."""
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
def add_symmetric_read_in(structure, readout, size, num_bottleneck, source, turned, target):
    """target -= H' source + source' H for source[bottleneck, state]; `turned` is scratch for its transpose."""
    tile = 16
    for top in range(0, num_bottleneck, tile):
        for left in range(0, size, tile):
            for i in range(top, min(top + tile, num_bottleneck)):
                for j in range(left, min(left + tile, size)):
                    turned[j * num_bottleneck + i] = source[i * size + j]
    for p in range(len(structure.latent)):
        for d in range(structure.latent[p]):
            own = readout[structure.vector[p] + d]
            for m in range(structure.pseudo[p]):
                i = structure.state[p] + d * structure.pseudo[p] + m
                row = target[i * size : (i + 1) * size]
                if own != 0.0:
                    z = structure.bottleneck[p] + m
                    x = source[z * size : (z + 1) * size]
                    for j in range(i + 1):
                        row[j] -= own * x[j]
                add_read_in(structure, readout, -1.0, turned[i * num_bottleneck : (i + 1) * num_bottleneck], row)
    mirror(size, target)


@njit(**OPTIONS)
@no_type_check
def add_latent_trace(structure, size, alpha, matrix, gradient):
    """gradient += alpha trace over places of `matrix`."""
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
    """gradient += alpha trace over places of left right'."""
    for p in range(len(structure.latent)):
        latent, pseudo, state = structure.latent[p], structure.pseudo[p], structure.state[p]
        for d in range(latent):
            for e in range(latent):
                total = 0.0
                for m in range(pseudo):
                    total += left[state + d * pseudo + m] * right[state + e * pseudo + m]
                gradient[structure.matrix[p] + d * latent + e] += alpha * total
