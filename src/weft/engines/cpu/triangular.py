# SPDX-License-Identifier: MIT
"""Triangular solves as matrix products: diagonal blocks are inverted, the rest is dgemm, at two to four times the speed of dtrsm here."""

from typing import no_type_check

from numba import njit

from weft.engines.cpu.blas import LEAST_PANEL, OPTIONS, multiply
from weft.engines.cpu.blocks import clear, copy

# Small enough that the inverted blocks of I + E P E' are as well conditioned as one could wish, large enough for dgemm.
BLOCK = 32
# Corners up to this size are inverted element by element.
CORNER = 8
# Rows of a symmetric product computed together.
PANEL = 24


@njit(**OPTIONS)
@no_type_check
def invert_corner(width, upper, stride, inverse):
    """inverse[width, width], of stride BLOCK, becomes that of the upper triangular upper[width, width]."""
    for i in range(width - 1, -1, -1):
        scale = 1.0 / upper[i * stride + i]
        inverse[i * BLOCK + i] = scale
        for j in range(i + 1, width):
            total = 0.0
            for k in range(i + 1, j + 1):
                total += upper[i * stride + k] * inverse[k * BLOCK + j]
            inverse[i * BLOCK + j] = -scale * total


@njit(**OPTIONS)
@no_type_check
def invert_diagonal_blocks(routines, size, upper, inverse, scratch):
    """Inverses of the diagonal blocks of upper[size, size], one after another in inverse[size, BLOCK].

    Each from inverted corners, which are joined two by two: [A B; 0 D]^-1 = [A^-1, -A^-1 B D^-1; 0, D^-1].
    """
    clear(size * BLOCK, inverse)
    for first in range(0, size, BLOCK):
        width = min(BLOCK, size - first)
        mine, source = inverse[first * BLOCK :], upper[first * size + first :]
        for i in range(0, width, CORNER):
            invert_corner(min(CORNER, width - i), source[i * size + i :], size, mine[i * BLOCK + i :])
        span = CORNER
        while span < width:
            for i in range(0, width - span, 2 * span):
                middle = i + span
                rest = min(span, width - middle)
                other = mine[middle * BLOCK + middle :]
                beside, target = source[i * size + middle :], mine[i * BLOCK + middle :]
                multiply(routines, span, rest, rest, 1.0, beside, size, False, other, BLOCK, False, 0.0, scratch, rest)
                own = mine[i * BLOCK + i :]
                multiply(routines, span, rest, span, -1.0, own, BLOCK, False, scratch, rest, False, 0.0, target, BLOCK)
            span *= 2


@njit(**OPTIONS)
@no_type_check
def multiply_symmetric(routines, size, inner, alpha, left, right, upper, target):
    """One triangle of the symmetric target[size, size] = alpha left[size, inner] right[size, inner]', in panels of rows.

    The panels reach a little beyond the diagonal; the rest of the other triangle is left as it was.
    """
    panel = LEAST_PANEL if routines.panels and size > PANEL else PANEL
    for first in range(0, size, panel):
        height = min(panel, size - first)
        column = first if upper else 0
        width = size - first if upper else first + height
        multiply(
            routines,
            height,
            width,
            inner,
            alpha,
            left[first * inner :],
            inner,
            False,
            right[column * inner :],
            inner,
            True,
            0.0,
            target[first * size + column :],
            size,
        )


@njit(**OPTIONS)
@no_type_check
def solve_transposed(routines, size, columns, upper, inverse, target, scratch):
    """target[size, columns] becomes upper'^-1 target, by the inverses of `invert_diagonal_blocks`."""
    for first in range(0, size, BLOCK):
        width = min(BLOCK, size - first)
        mine = target[first * columns :]
        if first > 0:
            multiply(
                routines,
                width,
                columns,
                first,
                -1.0,
                upper[first:],
                size,
                True,
                target,
                columns,
                False,
                1.0,
                mine,
                columns,
            )
        copy(width * columns, mine, scratch)
        multiply(
            routines,
            width,
            columns,
            width,
            1.0,
            inverse[first * BLOCK :],
            BLOCK,
            True,
            scratch,
            columns,
            False,
            0.0,
            mine,
            columns,
        )


@njit(**OPTIONS)
@no_type_check
def solve(routines, size, columns, upper, inverse, target, scratch):
    """target[size, columns] becomes upper^-1 target, by the inverses of `invert_diagonal_blocks`."""
    for first in range((size - 1) // BLOCK * BLOCK, -1, -BLOCK):
        width = min(BLOCK, size - first)
        after = first + width
        mine = target[first * columns :]
        if after < size:
            multiply(
                routines,
                width,
                columns,
                size - after,
                -1.0,
                upper[first * size + after :],
                size,
                False,
                target[after * columns :],
                columns,
                False,
                1.0,
                mine,
                columns,
            )
        copy(width * columns, mine, scratch)
        multiply(
            routines,
            width,
            columns,
            width,
            1.0,
            inverse[first * BLOCK :],
            BLOCK,
            False,
            scratch,
            columns,
            False,
            0.0,
            mine,
            columns,
        )
