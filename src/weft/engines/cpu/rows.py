# SPDX-License-Identifier: MIT
"""The rows of one time as at most `bottleneck` whitened rows: E, c and a remainder with

sum_n precision_n (value_n - w_n z)^2 = |c - E (z - centre)|^2 + remainder.
"""

from typing import NamedTuple, no_type_check

import numpy as np
from jaxtyping import Float, Int

from weft.engines.cpu.blas import add_gram, factor, orthogonalise
from weft.engines.cpu.blocks import clear, copy
from weft.engines.cpu.inlined import inlined
from weft.engines.cpu.lanes import scale

# A Gram matrix knows directions without information only to its own rounding: this many units of it are added before factoring.
ROUNDING = float(np.finfo(np.float64).eps)
GRAM_JITTER = 8 * ROUNDING
SMALLEST_CORNER = 1e-15
# The trace of information where no row has any: its square is a number still.
SMALLEST = 1e-150


class Observed(NamedTuple):
    """Rows ordered by time, and the weights of the distinct places."""

    place: Int[np.ndarray, " row"]
    value: Float[np.ndarray, " row"]
    precision: Float[np.ndarray, " row"]
    weights: Float[np.ndarray, " place*bottleneck"]


class Batch(NamedTuple):
    """The rows from `start` to `stop`: those of one time, or a part of them."""

    observed: Observed
    start: int
    stop: int


@inlined
@no_type_check
def gather(batch, num_bottleneck, target):
    """target[row, bottleneck] = weights of the rows."""
    observed, start = batch.observed, batch.start
    for row in range(start, batch.stop):
        place = observed.place[row] * num_bottleneck
        copy(num_bottleneck, observed.weights[place:], target[(row - start) * num_bottleneck :])


@inlined
@no_type_check
def dot(length, left, left_first, right, right_first):
    x = left[left_first : left_first + length]
    y = right[right_first : right_first + length]
    total = 0.0
    for j in range(length):
        total += x[j] * y[j]
    return total


@inlined
@no_type_check
def weigh(batch, num_bottleneck, target):
    """target[row, bottleneck] = weights of the rows, times the root of their precision."""
    observed, start = batch.observed, batch.start
    for row in range(start, batch.stop):
        weights = observed.weights[observed.place[row] * num_bottleneck :]
        scale(num_bottleneck, np.sqrt(observed.precision[row]), weights, target[(row - start) * num_bottleneck :])


@inlined
@no_type_check
def whiten(batch, num_bottleneck, centre, target, residuals):
    """`weigh`, and the rows' residuals from `centre` times the same roots."""
    weigh(batch, num_bottleneck, target)
    observed, start = batch.observed, batch.start
    for row in range(start, batch.stop):
        place = observed.place[row] * num_bottleneck
        residual = observed.value[row] - dot(num_bottleneck, observed.weights, place, centre, 0)
        residuals[row - start] = np.sqrt(observed.precision[row]) * residual


@inlined
@no_type_check
def compress_by_gram(frame, batch, work):
    """E as a Cholesky factor of the rows' Gram matrix: fast, and exact where no direction is without information.

    Returns whether it worked, the remainder, the largest rounding error of the Gram matrix, and that of the remainder, which is what is
    left of the residuals' sum of squares.
    """
    num_bottleneck, chunk = frame.num_bottleneck, len(work.row_residuals)
    gram, upper, innovation = work.gram, work.whitened_rows, work.innovation
    clear(num_bottleneck * num_bottleneck, gram)
    clear(num_bottleneck, innovation)
    remainder = 0.0
    for first in range(batch.start, batch.stop, chunk):
        part = Batch(batch.observed, first, min(first + chunk, batch.stop))
        count = part.stop - first
        whiten(part, num_bottleneck, work.bottleneck_mean, work.row_weights, work.row_residuals)
        add_gram(frame.routines, num_bottleneck, count, 1.0, work.row_weights, 1.0, gram)
        for row in range(count):
            e = work.row_residuals[row]
            remainder += e * e
            x = work.row_weights[row * num_bottleneck : (row + 1) * num_bottleneck]
            for j in range(num_bottleneck):
                innovation[j] += e * x[j]
    largest = 0.0
    for i in range(num_bottleneck):
        largest = max(largest, gram[i * num_bottleneck + i])
    error = GRAM_JITTER * largest
    for i in range(num_bottleneck):
        row = i * num_bottleneck
        clear(i, upper[row:])
        upper[row + i] = gram[row + i] + error
        for j in range(i + 1, num_bottleneck):
            upper[row + j] = gram[j * num_bottleneck + i]
    if not factor(frame.routines, num_bottleneck, upper, work.info):
        return False, 0.0, error, 0.0
    lost = ROUNDING * remainder
    substitute(num_bottleneck, upper, innovation)
    for i in range(num_bottleneck):
        remainder -= innovation[i] * innovation[i]
    return True, max(remainder, 0.0), error, lost


@inlined
@no_type_check
def substitute(size, upper, vector):
    """The vector becomes upper'^-1 vector."""
    for j in range(size):
        vector[j] /= upper[j * size + j]
        x = vector[j]
        row = upper[j * size : (j + 1) * size]
        for i in range(j + 1, size):
            vector[i] -= row[i] * x


@inlined
@no_type_check
def compress_by_rotation(frame, batch, work):
    """E as the triangular factor of the rows themselves, chunk after chunk: half the speed, all the digits. The remainder."""
    num_bottleneck, chunk = frame.num_bottleneck, len(work.row_residuals)
    stride = num_bottleneck + chunk
    stack, upper, innovation = work.stack, work.whitened_rows, work.innovation
    clear(num_bottleneck * num_bottleneck, upper)
    clear(num_bottleneck, innovation)
    remainder = 0.0
    for first in range(batch.start, batch.stop, chunk):
        part = Batch(batch.observed, first, min(first + chunk, batch.stop))
        count = part.stop - first
        whiten(part, num_bottleneck, work.bottleneck_mean, work.row_weights, work.row_residuals)
        for j in range(num_bottleneck):
            for i in range(num_bottleneck):
                stack[j * stride + i] = upper[i * num_bottleneck + j]
            for i in range(count):
                stack[j * stride + num_bottleneck + i] = work.row_weights[i * num_bottleneck + j]
        for i in range(num_bottleneck):
            stack[num_bottleneck * stride + i] = innovation[i]
        for i in range(count):
            stack[num_bottleneck * stride + num_bottleneck + i] = work.row_residuals[i]
        orthogonalise(frame.routines, num_bottleneck + count, num_bottleneck + 1, stack, stride, work)
        for i in range(num_bottleneck):
            innovation[i] = stack[num_bottleneck * stride + i]
            for j in range(i, num_bottleneck):
                upper[i * num_bottleneck + j] = stack[j * stride + i]
        remainder += stack[num_bottleneck * stride + num_bottleneck] ** 2
    # A direction without rows gets a trace of information, far below what rounding leaves, so that E can be solved with.
    largest = 0.0
    for i in range(num_bottleneck):
        largest = max(largest, abs(upper[i * num_bottleneck + i]))
    least = max(SMALLEST_CORNER * largest, SMALLEST)
    for i in range(num_bottleneck):
        if abs(upper[i * num_bottleneck + i]) < least:
            upper[i * num_bottleneck + i] = least
    return remainder
