# SPDX-License-Identifier: MIT
"""Factors and triangular solves as matrix products: diagonal blocks are factored and inverted in one go, the rest is dgemm.

Two to four times the speed of dtrsm here, and twice that of dpotrf on matrices as small as a block.
"""

from typing import no_type_check

import numpy as np

from weft.engines.cpu.blas import GRAM_PANEL, LEAST_PANEL, multiply, plain, transposed
from weft.engines.cpu.blocks import clear, copy
from weft.engines.cpu.inlined import inlined
from weft.engines.cpu.lanes import scale, subtract_padded

# Small enough that the inverted blocks of I + E P E' are as well conditioned as one could wish, large enough for dgemm.
BLOCK = 32
# Rows of a symmetric product computed together.
PANEL = 24


@inlined
@no_type_check
def factor_block(width, stride, block, inverse, vector, scratch):
    """A diagonal block B = C'C, C'^-1 and C'^-1 times the vector, all by one elimination; whether it worked.

    The upper triangle of `block` goes in as B's and comes out as C's, with C'^-1 below it (and not on the diagonal). inverse[width, BLOCK]
    becomes C'^-1, with zeros above its diagonal.
    """
    for i in range(width):
        scale(width, 1.0, block[i * stride :], inverse[i * BLOCK :])
    copy(width, vector, scratch)
    for k in range(width):
        row = inverse[k * BLOCK : (k + 1) * BLOCK]
        pivot = row[k]
        if not pivot > 0.0:
            return False
        # Rows are scaled only when all is done: the next pivot need not wait for a root.
        reciprocal = 1.0 / pivot
        row[k] = 1.0
        block[k * stride + k] = pivot
        vector[k] = scratch[k]
        subtract_padded(width, vector[k] * reciprocal, row, scratch)
        for i in range(k + 1, width):
            other = inverse[i * BLOCK : (i + 1) * BLOCK]
            share = row[i] * reciprocal
            subtract_padded(width, share, row, other)
            # B's own number in this column is done with, and makes room for one of the inverse.
            other[k] = -share
    for k in range(width):
        row, pivot = inverse[k * BLOCK : (k + 1) * BLOCK], block[k * stride + k]
        root = 1.0 / np.sqrt(pivot)
        vector[k] *= root
        scale(width, root, row, block[k * stride :])
        block[k * stride + k] = pivot * root
        scale(k + 1, root, row, row)
        clear(BLOCK - k - 1, row[k + 1 :])
    return True


@inlined
@no_type_check
def factor_and_invert(routines, size, upper, inverse, vector, scratch):
    """The upper triangle of upper[size, size] becomes C of C'C, the vector C'^-1 times itself; whether it worked.

    The diagonal blocks of C'^-1 go to inverse[size, BLOCK], one after another, and below the diagonal of C's own blocks.
    """
    for first in range(0, size, BLOCK):
        width = min(BLOCK, size - first)
        after, mine = first + width, inverse[first * BLOCK :]
        if not factor_block(width, size, upper[first * size + first :], mine, vector[first:], scratch):
            return False
        rest = size - after
        if rest == 0:
            break
        beside = upper[first * size + after :]
        for i in range(width):
            copy(rest, beside[i * size :], scratch[i * rest :])
        shape = (width, rest, width)
        multiply(routines, shape, 1.0, plain(mine, BLOCK), plain(scratch, rest), 0.0, (beside, size))
        for i in range(width):
            a = vector[first + i]
            x, y = beside[i * size : i * size + rest], vector[after : after + rest]
            for j in range(rest):
                y[j] -= a * x[j]
        for top in range(0, rest, GRAM_PANEL):
            height = min(GRAM_PANEL, rest - top)
            right = beside[top:]
            below = upper[(after + top) * size + after + top :]
            shape = (height, rest - top, width)
            multiply(routines, shape, -1.0, transposed(right, size), plain(right, size), 1.0, (below, size))
    return True


@inlined
@no_type_check
def read_inverse(size, upper, inverse):
    """inverse[size, BLOCK] as `factor_and_invert` left it, from the diagonal blocks of upper[size, size]."""
    for i in range(size):
        first = i // BLOCK * BLOCK
        mine, row = upper[i * size + first :], inverse[i * BLOCK : (i + 1) * BLOCK]
        scale(i - first, 1.0, mine, row)
        row[i - first] = 1.0 / mine[i - first]
        clear(BLOCK - (i - first) - 1, row[i - first + 1 :])


@inlined
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
        rows, columns = plain(left[first * inner :], inner), transposed(right[column * inner :], inner)
        multiply(routines, (height, width, inner), alpha, rows, columns, 0.0, (target[first * size + column :], size))


@inlined
@no_type_check
def solve_transposed(routines, size, columns, upper, inverse, target, scratch):
    """target[size, columns] becomes upper'^-1 target, by the inverses of `factor_and_invert`."""
    for first in range(0, size, BLOCK):
        width = min(BLOCK, size - first)
        mine = target[first * columns :]
        if first > 0:
            above, solved = transposed(upper[first:], size), plain(target, columns)
            multiply(routines, (width, columns, first), -1.0, above, solved, 1.0, (mine, columns))
        copy(width * columns, mine, scratch)
        block, right = plain(inverse[first * BLOCK :], BLOCK), plain(scratch, columns)
        multiply(routines, (width, columns, width), 1.0, block, right, 0.0, (mine, columns))


@inlined
@no_type_check
def solve(routines, size, columns, upper, inverse, target, scratch):
    """target[size, columns] becomes upper^-1 target, by the inverses of `factor_and_invert`."""
    for first in range((size - 1) // BLOCK * BLOCK, -1, -BLOCK):
        width = min(BLOCK, size - first)
        after = first + width
        mine = target[first * columns :]
        if after < size:
            beside, solved = plain(upper[first * size + after :], size), plain(target[after * columns :], columns)
            multiply(routines, (width, columns, size - after), -1.0, beside, solved, 1.0, (mine, columns))
        copy(width * columns, mine, scratch)
        block, right = transposed(inverse[first * BLOCK :], BLOCK), plain(scratch, columns)
        multiply(routines, (width, columns, width), 1.0, block, right, 0.0, (mine, columns))
