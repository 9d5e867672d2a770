# SPDX-License-Identifier: MIT
"""Moments, quantiles and samples of observations from nothing but their log density: slow, general, and checked.

The predictive density, E p(value | f), is tabulated over the values that have any weight, found by narrowing a wide
grid. It must add up to one, or else an error says so. About a millisecond a row; the likelihoods of this package
override it.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jaxtyping import Array, Float

from weft.arrays import AnyArray
from weft.likelihoods.mixture import check_probability
from weft.likelihoods.rows import PerRow, Probability, RowExtras, Support

NUM_POINTS = 801
NUM_NODES = 121
BLOCK = 128
MOST_COUNTS = 2**14
# Points whose log weight is this far below the heaviest are left out of the table.
NEGLIGIBLE = 30.0
# The table must add up to one this closely.
TOLERANCE = 1e-3

# Coordinates in which continuous values are spread: the value, the logarithm of its derivative, how far they reach.
COORDINATES: Mapping[Support, tuple[Callable[..., Any], Callable[..., Any], float]] = {
    Support.REAL: (np.sinh, lambda x: np.log(np.cosh(x)), 20.0),
    Support.POSITIVE: (np.exp, lambda x: x, 60.0),
    Support.UNIT: (scipy.special.expit, lambda x: -np.logaddexp(0, x) - np.logaddexp(0, -x), 36.0),
}


@runtime_checkable
class Density(Protocol):
    """What is needed of a likelihood here."""

    support: ClassVar[Support | None]

    def log_density(self, values: PerRow, f: PerRow, extra: RowExtras) -> PerRow: ...


def moments(
    likelihood: Density, mean: PerRow, variance: PerRow, extra: RowExtras
) -> tuple[Float[np.ndarray, " row"], Float[np.ndarray, " row"]]:
    """Mean and variance of an observation; NaN where its tails are too heavy for them to exist or to be summed here."""
    expected, spread = np.empty(len(mean)), np.empty(len(mean))
    for rows, values, weights in tables(likelihood, mean, variance, extra):
        expected[rows] = resolved_sum(weights * values, likelihood.support)
        spread[rows] = resolved_sum(weights * (values - expected[rows]) ** 2, likelihood.support)
    return expected, spread


def resolved_sum(terms: np.ndarray, support: Support | None) -> np.ndarray:
    """The sum of the terms [point, row]; NaN where the outermost of them matter, so that more would lie beyond."""
    size = np.abs(terms)
    if support is Support.BINARY:
        return np.sum(terms, axis=0)
    # Counts stop where they stop; other values are spread so that the outermost few points reach very far.
    outermost = size[-len(size) // 4 :] if support is Support.COUNTS else np.concatenate([size[:3], size[-3:]])
    return np.where(np.sum(outermost, axis=0) < 1e-4 * np.sum(size, axis=0), np.sum(terms, axis=0), np.nan)


def quantile(
    likelihood: Density, probability: Probability, mean: PerRow, variance: PerRow, extra: RowExtras
) -> Float[np.ndarray, " row"]:
    # Few likelihoods come here; all would wait for the import.
    from scipy.integrate import cumulative_simpson

    wanted = np.broadcast_to(check_probability(probability), mean.shape)
    found = np.empty(len(mean))
    for rows, values, weights in tables(likelihood, mean, variance, extra):
        discrete = likelihood.support in (Support.BINARY, Support.COUNTS)
        reached = np.cumsum(weights, axis=0) if discrete else cumulative_simpson(weights, axis=0, initial=0)
        for column, row in enumerate(rows):
            if discrete:
                position = np.searchsorted(reached[:, column], wanted[row])
                found[row] = values[min(position, len(values) - 1), column]
            else:
                found[row] = interpolate_quantile(wanted[row], reached[:, column], values[:, column])
    return found


def interpolate_quantile(probability: float, reached: np.ndarray, values: np.ndarray) -> float:
    """Where `reached`, a cumulative distribution at `values`, is `probability`."""
    from scipy.interpolate import PchipInterpolator

    # On the scale of normal scores quantiles are nearly a straight line. Far out, rounding stops the sums.
    growing = (reached > 1e-13) & (reached < 1 - 1e-13) & (np.diff(reached, prepend=0) > 0)
    scores = scipy.special.ndtri(reached[growing])
    return float(PchipInterpolator(scores, values[growing])(scipy.special.ndtri(probability)))


def sample(
    likelihood: Density, seed: int | np.random.Generator, f: Float[AnyArray, "*sample row"], extra: RowExtras
) -> Float[np.ndarray, "*sample row"]:
    flat = np.asarray(f).reshape(-1)
    row = np.broadcast_to(np.arange(f.shape[-1]), f.shape).reshape(-1)
    uniform = np.random.default_rng(seed).uniform(size=flat.shape)
    # The generator may give an exact 0, which is no probability of a quantile.
    uniform = np.maximum(uniform, np.finfo(np.float64).tiny)
    return quantile(likelihood, uniform, flat, np.zeros_like(flat), take(extra, row)).reshape(f.shape)


def take(extra: RowExtras, rows: np.ndarray) -> RowExtras:
    return jax.tree.map(lambda array: np.asarray(array)[rows], extra)


def tables(
    likelihood: Density, mean: PerRow, variance: PerRow, extra: RowExtras
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield, block by block, row numbers with the values [point, row] their observations may take and their weights."""
    if likelihood.support is None:
        name = type(likelihood).__name__
        raise TypeError(
            f"{name} does not say where observations may lie, so none can be predicted; give the class a support "
            f"(support = Support.REAL, POSITIVE, UNIT, BINARY or COUNTS), or its own predict, quantile and sample"
        )
    mean, variance = np.asarray(mean), np.asarray(variance)
    tabulate = continuous_table if likelihood.support in COORDINATES else count_table
    for begin in range(0, len(mean), BLOCK):
        rows = np.arange(begin, min(begin + BLOCK, len(mean)))
        values, weights = tabulate(likelihood, mean[rows], variance[rows], take(extra, rows))
        total = np.sum(weights, axis=0)
        bad = ~(np.abs(total - 1) < TOLERANCE)
        if bad.any():
            first = np.flatnonzero(bad)[0]
            raise ValueError(
                f"the density of {type(likelihood).__name__} adds up to {total[first]:.6g}, not 1, in row {rows[first]}"
                f" (f of mean {mean[rows[first]]:.6g}, variance {variance[rows[first]]:.6g}); check log_density and "
                "support, or give the class its own predict, quantile and sample"
            )
        yield rows, values, weights / total


def count_table(
    likelihood: Density, mean: np.ndarray, variance: np.ndarray, extra: RowExtras
) -> tuple[np.ndarray, np.ndarray]:
    num = 2 if likelihood.support is Support.BINARY else 64
    while True:
        counts = np.repeat(np.arange(num, dtype=np.float64)[:, None], len(mean), axis=1)
        weights = np.exp(log_predictive(likelihood, counts, mean, variance, extra))
        if num in (2, MOST_COUNTS) or np.all(weights.sum(axis=0) > 1 - 1e-12):
            return counts, weights
        num *= 4


def continuous_table(
    likelihood: Density, mean: np.ndarray, variance: np.ndarray, extra: RowExtras
) -> tuple[np.ndarray, np.ndarray]:
    assert likelihood.support is not None
    value, log_slope, reach = COORDINATES[likelihood.support]
    lowest, highest = np.full(mean.shape, -reach), np.full(mean.shape, reach)
    columns = np.arange(len(mean))
    while True:
        points = np.linspace(lowest, highest, NUM_POINTS)
        spacing = (highest - lowest) / (NUM_POINTS - 1)
        values = value(points)
        log_weights = log_predictive(likelihood, values, mean, variance, extra) + log_slope(points) + np.log(spacing)
        heavy = log_weights > np.max(log_weights, axis=0) - NEGLIGIBLE
        # One point more on each side, so that what lies between two points is kept.
        first = np.maximum(np.argmax(heavy, axis=0) - 1, 0)
        last = np.minimum(NUM_POINTS - np.argmax(heavy[::-1], axis=0), NUM_POINTS - 1)
        if np.all(last - first > NUM_POINTS // 2):
            return values, np.exp(log_weights)
        lowest, highest = points[first, columns], points[last, columns]


def log_predictive(
    likelihood: Density, values: np.ndarray, mean: np.ndarray, variance: np.ndarray, extra: RowExtras
) -> np.ndarray:
    """The logarithm of E p(value | f), for values [point, row]: many values a row, where `log_expected_density` has one."""
    # Evenly spaced, not Gauss-Hermite: where noise is small the density is a sum of spikes, one a node.
    nodes = np.linspace(-6.5, 6.5, NUM_NODES) if np.any(variance > 0) else np.zeros(1)
    log_weights = -0.5 * nodes**2 - scipy.special.logsumexp(-0.5 * nodes**2)
    fs = mean + np.sqrt(variance) * nodes[:, None]
    log_weights = np.broadcast_to(log_weights[:, None], fs.shape)
    return np.asarray(log_mixture(likelihood, values, fs, log_weights, extra))


def log_expected_density(
    likelihood: Density,
    values: Float[np.ndarray, " row"],
    mean: Float[np.ndarray, " row"],
    variance: Float[np.ndarray, " row"],
    extra: RowExtras,
) -> Float[np.ndarray, " row"]:
    """Log E p(value | f), one value a row, by a trapezoid rule over points spread by f's deviation and, where p is narrow, by p's."""
    deviation = np.sqrt(variance + 1e-12)

    def log_weight(f: np.ndarray) -> np.ndarray:
        return -0.5 * ((f - mean) / deviation) ** 2 - np.log(deviation) - 0.5 * np.log(2 * np.pi)

    wide = np.linspace(-8.0, 8.0, 65)
    peak, width = mean, deviation
    # Each turn looks at 65 points and moves to the best of them, eight times closer.
    for _ in range(6):
        f = peak + width * wide[:, None]
        heights = np.stack([np.asarray(likelihood.log_density(values, each, extra)) for each in f]) + log_weight(f)
        best = np.argmax(heights, axis=0)
        peak = np.take_along_axis(f, best[None], axis=0)[0]
        # Narrow only as long as the peak is narrower than the points are apart.
        second = np.sort(heights, axis=0)[-3]
        width = np.where(heights.max(axis=0) - second > 0.5, width / 8, width)
    points = np.sort(np.concatenate([mean + deviation * wide[:, None], peak + width * wide[:, None]]), axis=0)
    gaps = np.diff(points, axis=0, prepend=points[:1], append=points[-1:])
    with np.errstate(divide="ignore"):
        log_weights = log_weight(points) + np.log((gaps[1:] + gaps[:-1]) / 2)
    return np.asarray(log_mixture(likelihood, values[None], points, log_weights, extra))[0]


@eqx.filter_jit
def log_mixture(
    likelihood: Density,
    values: Float[AnyArray, "point row"],
    fs: Float[AnyArray, "node row"],
    log_weights: Float[AnyArray, "node row"],
    extra: RowExtras,
) -> Float[Array, "point row"]:
    """Log of the sum over nodes of weight p(value | f)."""
    at_points = jax.vmap(likelihood.log_density, in_axes=(0, None, None))

    def add(total: Array, node: tuple[Array, Array]) -> tuple[Array, None]:
        f, log_weight = node
        return jnp.logaddexp(total, log_weight[None] + at_points(values, f, extra)), None

    total, _ = jax.lax.scan(add, jnp.full(values.shape, -jnp.inf), (jnp.asarray(fs), jnp.asarray(log_weights)))
    return total
