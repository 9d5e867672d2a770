# SPDX-License-Identifier: MIT
"""The rows of one time as at most `bottleneck` whitened rows: E, c and a remainder with

sum_n precision_n (value_n - w_n z)^2 = |c - E (z - centre)|^2 + remainder.
"""

from typing import NamedTuple, no_type_check

import numpy as np
from numba import njit

from weft.engines.cpu.blas import OPTIONS, add_gram, factor, orthogonalise
from weft.engines.cpu.blocks import clear, copy
from weft.engines.cpu.lanes import scale

# A Gram matrix knows directions without information only to its own rounding: this many units of it are added before factoring.
GRAM_JITTER = 8 * np.finfo(np.float64).eps
SMALLEST_CORNER = 1e-15
# The trace of information where no row has any: its square is a number still.
SMALLEST = 1e-150


class Observed(NamedTuple):
    """Rows ordered by time, and the weights of the distinct places."""

    place: np.ndarray
    value: np.ndarray
    precision: np.ndarray
    weights: np.ndarray


@njit(**OPTIONS)
@no_type_check
def gather(observed, start, stop, num_bottleneck, target):
    """target[row, bottleneck] = weights of the rows from `start` to `stop`."""
    for row in range(start, stop):
        place = observed.place[row] * num_bottleneck
        copy(num_bottleneck, observed.weights[place:], target[(row - start) * num_bottleneck :])


@njit(**OPTIONS)
@no_type_check
def dot(length, left, left_first, right, right_first):
    x = left[left_first : left_first + length]
    y = right[right_first : right_first + length]
    total = 0.0
    for j in range(length):
        total += x[j] * y[j]
    return total


@njit(**OPTIONS)
@no_type_check
def weigh(observed, start, stop, num_bottleneck, target):
    """target[row, bottleneck] = weights of the rows from `start` to `stop`, times the root of their precision."""
    for row in range(start, stop):
        weights = observed.weights[observed.place[row] * num_bottleneck :]
        scale(num_bottleneck, np.sqrt(observed.precision[row]), weights, target[(row - start) * num_bottleneck :])


@njit(**OPTIONS)
@no_type_check
def whiten(observed, start, stop, num_bottleneck, centre, target, innovation):
    """`weigh`, and the rows' residuals from `centre` times the same roots."""
    weigh(observed, start, stop, num_bottleneck, target)
    for row in range(start, stop):
        place = observed.place[row] * num_bottleneck
        residual = observed.value[row] - dot(num_bottleneck, observed.weights, place, centre, 0)
        innovation[row - start] = np.sqrt(observed.precision[row]) * residual


@njit(**OPTIONS)
@no_type_check
def compress_by_gram(routines, observed, start, stop, num_bottleneck, centre, work):
    """E as a Cholesky factor of the rows' Gram matrix: fast, and exact where no direction is without information.

    Returns whether it worked, the remainder and the largest rounding error of the Gram matrix.
    """
    chunk = len(work.residual)
    gram, observe, innovation = work.gram, work.observe, work.innovation
    clear(num_bottleneck * num_bottleneck, gram)
    clear(num_bottleneck, innovation)
    remainder = 0.0
    for first in range(start, stop, chunk):
        last = min(first + chunk, stop)
        whiten(observed, first, last, num_bottleneck, centre, work.gathered, work.residual)
        add_gram(routines, num_bottleneck, last - first, 1.0, work.gathered, num_bottleneck, 1.0, gram, num_bottleneck)
        for row in range(last - first):
            e = work.residual[row]
            remainder += e * e
            x = work.gathered[row * num_bottleneck : (row + 1) * num_bottleneck]
            for j in range(num_bottleneck):
                innovation[j] += e * x[j]
    largest = 0.0
    for i in range(num_bottleneck):
        largest = max(largest, gram[i * num_bottleneck + i])
    error = GRAM_JITTER * largest
    for i in range(num_bottleneck):
        row = i * num_bottleneck
        clear(i, observe[row:])
        observe[row + i] = gram[row + i] + error
        for j in range(i + 1, num_bottleneck):
            observe[row + j] = gram[j * num_bottleneck + i]
    if not factor(routines, num_bottleneck, observe, num_bottleneck, work.info):
        return False, 0.0, error
    substitute(num_bottleneck, observe, innovation)
    for i in range(num_bottleneck):
        remainder -= innovation[i] * innovation[i]
    return True, max(remainder, 0.0), error


@njit(**OPTIONS)
@no_type_check
def substitute(size, upper, vector):
    """Vector becomes upper'^-1 vector."""
    for j in range(size):
        vector[j] /= upper[j * size + j]
        x = vector[j]
        row = upper[j * size : (j + 1) * size]
        for i in range(j + 1, size):
            vector[i] -= row[i] * x


@njit(**OPTIONS)
@no_type_check
def compress_by_rotation(routines, observed, start, stop, num_bottleneck, centre, work):
    """E as the triangular factor of the rows themselves, chunk after chunk: half the speed, all the digits. The remainder."""
    chunk = len(work.residual)
    stride = num_bottleneck + chunk
    stack, observe, innovation = work.stack, work.observe, work.innovation
    clear(num_bottleneck * num_bottleneck, observe)
    clear(num_bottleneck, innovation)
    remainder = 0.0
    for first in range(start, stop, chunk):
        last = min(first + chunk, stop)
        whiten(observed, first, last, num_bottleneck, centre, work.gathered, work.residual)
        for j in range(num_bottleneck):
            for i in range(num_bottleneck):
                stack[j * stride + i] = observe[i * num_bottleneck + j]
            for i in range(last - first):
                stack[j * stride + num_bottleneck + i] = work.gathered[i * num_bottleneck + j]
        for i in range(num_bottleneck):
            stack[num_bottleneck * stride + i] = innovation[i]
        for i in range(last - first):
            stack[num_bottleneck * stride + num_bottleneck + i] = work.residual[i]
        height = num_bottleneck + last - first
        orthogonalise(routines, height, num_bottleneck + 1, stack, stride, work.scales, work.lapack, work.info)
        for i in range(num_bottleneck):
            innovation[i] = stack[num_bottleneck * stride + i]
            for j in range(i, num_bottleneck):
                observe[i * num_bottleneck + j] = stack[j * stride + i]
        remainder += stack[num_bottleneck * stride + num_bottleneck] ** 2
    # A direction without rows gets a trace of information, far below what rounding leaves, so that E can be solved with.
    largest = 0.0
    for i in range(num_bottleneck):
        largest = max(largest, abs(observe[i * num_bottleneck + i]))
    least = max(SMALLEST_CORNER * largest, SMALLEST)
    for i in range(num_bottleneck):
        if abs(observe[i * num_bottleneck + i]) < least:
            observe[i * num_bottleneck + i] = least
    return remainder
