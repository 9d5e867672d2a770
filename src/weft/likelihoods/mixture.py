# SPDX-License-Identifier: MIT
"""Quantiles of an observation whose distribution mixes over an uncertain f, by inverting its cumulative distribution.

On the host, with SciPy's special functions: JAX's incomplete gamma and beta functions loop until the worst element of
an array has converged, and lose digits for counts of a million.
"""

from collections.abc import Callable

import numpy as np
import scipy.special
from jaxtyping import Float, Int

from weft.likelihoods.quadrature import NUM_WARPED, VARIANCE_FLOOR, make_warp, warped_node
from weft.likelihoods.rows import PerRow, Probability

# Narrower than this share of the deviation of f, a fall is a step to the quadrature.
NARROWEST = 1e-4
# Counts beyond cannot be told from their neighbours.
LARGEST_COUNT = 1e15
# Rows handled at once, which bounds the memory.
BLOCK = 20_000

# The probability of an observation of at most `value`, in the numbered rows.
Cumulative = Callable[[Float[np.ndarray, " row"], Int[np.ndarray, " row"]], Float[np.ndarray, " row"]]


def mixed(
    cumulative: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray],
    bend: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]],
    mean: PerRow,
    variance: PerRow,
) -> Cumulative:
    """E cumulative(value, f, rows) under f ~ N(mean, variance).

    `bend(value, rows)` says where, as a function of f, the cumulative probability falls, and over what width: it may be
    next to a step, for a count of a million. The error is below 1e-6 as long as f varies by less than a thousand times
    that width, and 1e-5 at ten thousand times; from there on it is taken for a step, smoothed by that width.
    """
    mean, deviation = np.asarray(mean), np.sqrt(np.asarray(variance) + VARIANCE_FLOOR)
    positions = np.linspace(0.0, 1.0, NUM_WARPED)[:, None]

    def mixture(values: np.ndarray, rows: np.ndarray) -> np.ndarray:
        centre, width = bend(values, rows)
        found = scipy.special.ndtr((centre - mean[rows]) / np.hypot(deviation[rows], width))
        smooth = np.flatnonzero(width >= NARROWEST * deviation[rows])
        values, rows, centre, width = values[smooth], rows[smooth], centre[smooth], width[smooth]
        warp = make_warp(mean[rows], deviation[rows], centre, width, np)
        scores, weights = warped_node(positions, warp, np)
        nodes = mean[rows] + deviation[rows] * np.asarray(scores)
        found[smooth] = np.sum(weights * cumulative(values, nodes, rows), axis=0) / np.sum(weights, axis=0)
        return found

    return mixture


def invert(
    cumulative: Cumulative,
    probability: Probability,
    start: PerRow,
    step: PerRow,
    transform: Callable[[np.ndarray], np.ndarray],
) -> Float[np.ndarray, " row"]:
    """The value at which `cumulative` reaches `probability`, one a row.

    Values are transform(x); the search begins with x within `step` of `start`, and widens from there.
    """
    from scipy.optimize import elementwise

    probability, start, step = np.broadcast_arrays(check_probability(probability), start, step)

    def invert_rows(rows: np.ndarray) -> np.ndarray:
        def excess(x: np.ndarray, rows: np.ndarray) -> np.ndarray:
            rows = rows.astype(np.int64)
            return cumulative(transform(x), rows) - probability[rows]

        bracket = elementwise.bracket_root(
            excess, start[rows] - step[rows], start[rows] + step[rows], args=(rows,), maxiter=200
        )
        root = elementwise.find_root(excess, bracket.bracket, args=(rows,), tolerances={"xrtol": 1e-12, "xatol": 1e-12})
        if not np.all(root.success):
            failed = rows[~root.success]
            raise ValueError(
                f"no quantile found in {len(failed)} rows, first in row {failed[0]} (probability "
                f"{probability[failed[0]]:g}); are the mean and variance of f there finite and sensible?"
            )
        return transform(root.x)

    return in_blocks(invert_rows, len(start))


def usual_count(exposure: Float[np.ndarray, " row"], mean: PerRow) -> Float[np.ndarray, " row"]:
    """Where to look for the quantile of a count first; an infinite one is cut to the largest count there."""
    with np.errstate(over="ignore"):
        return exposure * np.exp(np.asarray(mean))


def invert_counts(
    cumulative: Cumulative, probability: Probability, start: PerRow, largest: PerRow | float = np.inf
) -> Float[np.ndarray, " row"]:
    """The smallest whole number, up to `largest`, at which `cumulative` reaches `probability`, one a row.

    Bisection on whole numbers, after doubling from `start`: exact whatever the shape of the distribution.
    """
    probability, start, largest = np.broadcast_arrays(check_probability(probability), start, largest)

    def invert_rows(rows: np.ndarray) -> np.ndarray:
        above = np.minimum(np.clip(np.ceil(start[rows]), 1.0, LARGEST_COUNT), largest[rows])
        below = np.full(len(rows), -1.0)
        active = np.arange(len(rows))
        while len(active):
            reached = (above[active] >= largest[rows[active]]) | (
                cumulative(above[active], rows[active]) >= probability[rows[active]]
            )
            active = active[~reached]
            below[active] = above[active]
            above[active] = np.minimum(2 * above[active], largest[rows[active]])
            if not np.all(above[active] <= LARGEST_COUNT):
                raise ValueError(
                    f"no count below 1e15 reaches the probability in row {rows[active][0]}; are the mean and variance "
                    "of f there sensible?"
                )
        active = np.flatnonzero(above - below > 1)
        while len(active):
            middle = np.floor((above[active] + below[active]) / 2)
            reached = cumulative(middle, rows[active]) >= probability[rows[active]]
            above[active] = np.where(reached, middle, above[active])
            below[active] = np.where(reached, below[active], middle)
            active = active[above[active] - below[active] > 1]
        return above

    return in_blocks(invert_rows, len(start))


def draw_counts(generator: np.random.Generator, rate: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """Poisson counts; where NumPy has no integers for them, normal ones, which are the same to the last digit there."""
    large = rate > LARGEST_COUNT
    counts = generator.poisson(np.where(large, 1.0, rate)).astype(np.float64)
    if large.any():
        counts = np.where(large, np.round(generator.normal(rate, np.sqrt(rate))), counts)
    return counts


def in_blocks(function: Callable[[np.ndarray], np.ndarray], num_rows: int) -> np.ndarray:
    blocks = [function(np.arange(begin, min(begin + BLOCK, num_rows))) for begin in range(0, num_rows, BLOCK)]
    return np.concatenate([np.empty(0), *blocks])


def check_probability(probability: Probability) -> np.ndarray:
    probability = np.asarray(probability, dtype=np.float64)
    if not np.all((probability > 0) & (probability < 1)):
        raise ValueError(f"a quantile's probability must lie between 0 and 1; it is {probability.tolist()}")
    return probability


def normal_quantile(probability: Probability, mean: PerRow, variance: PerRow) -> Float[np.ndarray, " row"]:
    return np.asarray(mean) + np.sqrt(np.asarray(variance)) * scipy.special.ndtri(check_probability(probability))
