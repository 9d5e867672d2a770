# SPDX-License-Identifier: MIT
"""Triangular solves as matrix products: diagonal blocks are inverted, the rest is dgemm, at two to four times the speed of dtrsm here."""

from typing import no_type_check

from numba import njit

from weft.engines.cpu.blas import OPTIONS, multiply
from weft.engines.cpu.blocks import copy

# Small enough that the inverted blocks of I + E P E' are as well conditioned as one could wish, large enough for dgemm.
BLOCK = 32


@njit(**OPTIONS)
@no_type_check
def invert_diagonal_blocks(size, upper, inverse):
    """Inverses of the diagonal blocks of upper[size, size], one after another in inverse[size, BLOCK]."""
    for first in range(0, size, BLOCK):
        width = min(BLOCK, size - first)
        for i in range(width - 1, -1, -1):
            row = inverse[(first + i) * BLOCK : (first + i) * BLOCK + width]
            for j in range(width):
                row[j] = 0.0
            row[i] = 1.0
            for k in range(i + 1, width):
                a = upper[(first + i) * size + first + k]
                below = inverse[(first + k) * BLOCK : (first + k) * BLOCK + width]
                for j in range(width):
                    row[j] -= a * below[j]
            scale = 1.0 / upper[(first + i) * size + first + i]
            for j in range(width):
                row[j] *= scale


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
