# SPDX-License-Identifier: MIT
"""A Markov chain and its rows as one dense Gaussian: no filter, no recursion backwards, everything by definition.

Every function also takes complex arrays, so that derivatives come from the complex step, exact to rounding.
"""

import itertools
from dataclasses import dataclass, field, replace

import mpmath
import numpy as np


@dataclass(frozen=True)
class Part:
    """One component: its latent matrices by distinct step."""

    transition: np.ndarray
    process_noise: np.ndarray
    initial: np.ndarray
    readout: np.ndarray
    num_pseudo: int
    reversal: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Dense:
    """A series: `offsets` say which rows are at which time."""

    parts: tuple[Part, ...]
    step_number: np.ndarray
    weights: np.ndarray
    offsets: np.ndarray
    place: np.ndarray
    value: np.ndarray
    precision: np.ndarray
    start: tuple[np.ndarray, np.ndarray] | None = field(default=None)


def block_diagonal(blocks):
    size = sum(len(block) for block in blocks)
    whole = np.zeros((size, sum(block.shape[1] for block in blocks)), dtype=np.result_type(*blocks))
    row = column = 0
    for block in blocks:
        whole[row : row + block.shape[0], column : column + block.shape[1]] = block
        row, column = row + block.shape[0], column + block.shape[1]
    return whole


def bottleneck_prior(series: Dense, most_times: int | None = None):
    """Mean and covariance of z at all times, stacked time after time."""

    def spread(matrices):
        return block_diagonal(
            [np.kron(matrix, np.eye(part.num_pseudo)) for matrix, part in zip(matrices, series.parts, strict=True)]
        )

    readout = block_diagonal([np.kron(part.readout[None, :], np.eye(part.num_pseudo)) for part in series.parts])
    mean, covariance = None, None
    rows = []
    for time, step in enumerate(series.step_number):
        move = spread([part.transition[step] for part in series.parts])
        noise = spread([part.process_noise[step] for part in series.parts])
        if time == 0:
            if series.start is None:
                covariance = spread([part.initial for part in series.parts])
                mean = np.zeros(len(covariance), dtype=covariance.dtype)
            else:
                mean, covariance = series.start
            cross = []
        # The covariance with every earlier z moves along.
        cross = [move @ earlier for earlier in cross]
        mean, covariance = move @ mean, move @ covariance @ move.T + noise
        cross.append(covariance @ readout.T)
        rows.append((readout @ mean, [readout @ block for block in cross]))
    size = len(readout)
    count = len(rows)
    kind = np.result_type(covariance, readout)
    means = np.concatenate([m for m, _ in rows])
    joint = np.zeros((count * size, count * size), dtype=kind)
    for i, (_, blocks) in enumerate(rows):
        for j, block in enumerate(blocks):
            joint[i * size : (i + 1) * size, j * size : (j + 1) * size] = block
            joint[j * size : (j + 1) * size, i * size : (i + 1) * size] = block.T
    return means, joint


def row_weights(offsets, place, weights, size):
    """Each row's weights as a row over the stacked z."""
    times = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    spread = np.zeros((len(place), (len(offsets) - 1) * size), dtype=weights.dtype)
    for row, (time, where) in enumerate(zip(times, place, strict=True)):
        spread[row, time * size : (time + 1) * size] = weights[where]
    return spread


def log_normaliser(series: Dense):
    means, joint = bottleneck_prior(series)
    size = series.weights.shape[1]
    spread = row_weights(series.offsets, series.place, series.weights, size)
    root = np.sqrt(series.precision)
    inner = np.eye(len(root)) + root[:, None] * (spread @ joint @ spread.T) * root[None, :]
    residual = root * (series.value - spread @ means)
    sign, size_of = np.linalg.slogdet(inner)
    return -(np.log(sign) + size_of + residual @ np.linalg.solve(inner, residual)) / 2


def log_normaliser_in_many_digits(series: Dense, digits: int = 50) -> float:
    """The same from the same prior over z: in double precision tiny noise leaves the dense matrix without correct digits."""
    means, joint = bottleneck_prior(series)
    spread = row_weights(series.offsets, series.place, series.weights, series.weights.shape[1])
    with mpmath.workdps(digits):
        rows, prior = mpmath.matrix(spread), mpmath.matrix(joint)
        root = [mpmath.sqrt(precision) for precision in series.precision]
        inner = rows * prior * rows.T
        for i, j in np.ndindex(len(root), len(root)):
            inner[i, j] = inner[i, j] * root[i] * root[j] + (i == j)
        residual = mpmath.matrix(series.value) - rows * mpmath.matrix(means)
        residual = mpmath.matrix([r * e for r, e in zip(root, residual, strict=True)])
        factor = mpmath.cholesky(inner)
        whitened = mpmath.lu_solve(factor, residual)
        log_determinant = 2 * sum(mpmath.log(factor[i, i]) for i in range(len(root)))
        return float(-(log_determinant + sum(w**2 for w in whitened)) / 2)


def posterior(series: Dense, until: int | None = None):
    """Mean and covariance of the stacked z given the rows of the first `until` times (of all)."""
    means, joint = bottleneck_prior(series)
    spread = row_weights(series.offsets, series.place, series.weights, series.weights.shape[1])
    seen = np.arange(len(series.value)) < (len(series.value) if until is None else series.offsets[until])
    root = np.sqrt(np.where(seen, series.precision, 0.0))
    inner = np.eye(len(root)) + root[:, None] * (spread @ joint @ spread.T) * root[None, :]
    gain = joint @ spread.T * root
    mean = means + gain @ np.linalg.solve(inner, root * (series.value - spread @ means))
    return mean, joint - gain @ np.linalg.solve(inner, gain.T)


def answers(series: Dense, offsets, place, weights, filtered: bool = False):
    """Mean and variance by component, and the variance of the sum, at each query."""
    size = series.weights.shape[1]
    times = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    edges = np.cumsum([0, *(part.num_pseudo for part in series.parts)])
    mean, variance, total = [], [], []
    for time, where in zip(times, place, strict=True):
        centre, covariance = posterior(series, time + 1 if filtered else None)
        block = slice(time * size, (time + 1) * size)
        centre, covariance = centre[block], covariance[block, block]
        w = weights[where]
        masks = [np.where((np.arange(size) >= a) & (np.arange(size) < b), w, 0.0) for a, b in itertools.pairwise(edges)]
        mean.append([mask @ centre for mask in masks])
        variance.append([mask @ covariance @ mask for mask in masks])
        total.append(w @ covariance @ w)
    return np.array(mean), np.array(variance), np.array(total)


def gradient_in(series: Dense, name: str, part: int | None = None):
    """The derivative of the log normaliser in every number of one array, by the complex step."""
    holder = series if part is None else series.parts[part]
    array = getattr(holder, name)
    gradient = np.zeros(array.shape)
    for index in np.ndindex(array.shape):
        moved = array.astype(complex)
        moved[index] += 1e-30j
        changed = replace(holder, **{name: moved})
        if part is not None:
            changed = replace(series, parts=(*series.parts[:part], changed, *series.parts[part + 1 :]))
        gradient[index] = log_normaliser(changed).imag / 1e-30
    return gradient
