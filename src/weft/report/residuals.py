# SPDX-License-Identifier: MIT
"""What the model leaves: residuals in predicted deviations, and whether they still hang together in space or time."""

import dataclasses
from typing import final

import numpy as np
from jaxtyping import Float, Int

from weft.estimator.fitted import Fitted
from weft.inference.prediction import Prediction
from weft.report.content import Figure
from weft.report.figures import residual_correlation_figure, variogram_figure
from weft.report.rows import SeenRows

__all__ = [
    "Autocorrelation",
    "Variogram",
    "autocorrelation",
    "last_rows",
    "residual_figures",
    "residuals_of",
    "variogram",
]

_NUM_LAGS = 14
_NUM_BINS = 12
_FEWEST_PAIRS = 30
_MOST_PAIRS = 400_000


@final
@dataclasses.dataclass(frozen=True)
class Variogram:
    """Half the mean squared difference of residuals at one time, relative to their variance, by distance."""

    distance: Float[np.ndarray, " bin"]
    gamma: Float[np.ndarray, " bin"]
    unit: str


@final
@dataclasses.dataclass(frozen=True)
class Autocorrelation:
    """Correlation of residuals at one place, by lag; `chance` is what 95 in 100 would stay below without any."""

    lags: Float[np.ndarray, " lag"]
    correlation: Float[np.ndarray, " lag"]
    chance: Float[np.ndarray, " lag"]
    unit: str


def last_rows(rows: SeenRows, most: int) -> SeenRows:
    """The last rows with a value, whole times of them, at most so many (one time at least)."""
    present = rows.present
    times = rows.times[present]
    distinct, counts = np.unique(times, return_counts=True)
    from_last = np.cumsum(counts[::-1])
    kept = max(1, int(np.sum(from_last <= most)))
    return rows.take(present[times >= distinct[-kept]])


def residuals_of(rows: SeenRows, prediction: Prediction) -> Float[np.ndarray, " row"]:
    """(value - mean) / deviation, as the model predicts rows it has seen."""
    return (rows.values - prediction.mean) / prediction.sd


def variogram(fitted: Fitted, rows: SeenRows, residuals: Float[np.ndarray, " row"], seed: int) -> Variogram:
    """Over pairs of rows at one time, in bins of equally many pairs, up to half the largest distance."""
    scaling = fitted.translation.scaling
    columns = scaling.map_dimensions
    scale = np.array([scaling.dimensions[k].scale for k in columns]) if scaling.geography is not None else 1.0
    places = scaling.forward(rows.measured.space)[:, columns] * scale
    unit = scaling.dimensions[columns[0]].unit if scaling.geography is not None else "standard deviations of space"
    first, second = _pairs_at_one_time(rows.times, seed)
    distance = np.linalg.norm(places[first] - places[second], axis=1)
    near = distance <= 0.5 * np.max(distance, initial=0.0)
    first, second, distance = first[near], second[near], distance[near]
    num_bins = min(_NUM_BINS, len(distance) // _FEWEST_PAIRS)
    if num_bins < 2:
        return Variogram(np.empty(0), np.empty(0), unit)
    half = (residuals[first] - residuals[second]) ** 2 / 2
    edges = np.quantile(distance, np.linspace(0, 1, num_bins + 1))
    bins = np.clip(np.searchsorted(edges, distance, side="right") - 1, 0, num_bins - 1)
    counts = np.bincount(bins, minlength=num_bins)
    filled = counts > 0
    middle = np.bincount(bins, distance, num_bins)[filled] / counts[filled]
    gamma = np.bincount(bins, half, num_bins)[filled] / counts[filled]
    return Variogram(middle, gamma / float(np.var(residuals)), unit)


def autocorrelation(fitted: Fitted, rows: SeenRows, residuals: Float[np.ndarray, " row"]) -> Autocorrelation:
    """Over pairs of rows at one place that are a whole number of usual steps apart."""
    unit = fitted.translation.clock.unit
    distinct = np.unique(rows.times)
    empty = np.empty(0)
    if len(distinct) < 3:
        return Autocorrelation(empty, empty, empty, unit)
    step = float(np.median(np.diff(distinct)))
    number = np.rint((rows.times - distinct[0]) / step).astype(np.int64)
    centred = residuals - residuals.mean()
    variance = float(np.mean(centred**2))
    width = int(number.max()) + 1 + _NUM_LAGS
    key = rows.place * width + number
    # One row a place and step: of several, the first.
    key, kept = np.unique(key, return_index=True)
    centred = centred[kept]
    lags, correlation, chance = [], [], []
    for lag in range(1, _NUM_LAGS + 1):
        later = np.minimum(np.searchsorted(key, key + lag), len(key) - 1)
        paired = np.flatnonzero(key[later] == key + lag)
        if len(paired) < _FEWEST_PAIRS:
            continue
        lags.append(lag * step)
        correlation.append(float(np.mean(centred[paired] * centred[later[paired]]) / variance))
        chance.append(1.96 / np.sqrt(len(paired)))
    return Autocorrelation(np.array(lags), np.array(correlation), np.array(chance), unit)


def residual_figures(in_space: Variogram, in_time: Autocorrelation) -> tuple[Figure, ...]:
    figures = []
    if len(in_space.distance):
        figures.append(variogram_figure("variogram", in_space.distance, in_space.gamma, in_space.unit))
    if len(in_time.lags):
        figures.append(
            residual_correlation_figure(
                "residual-lags", in_time.lags, in_time.correlation, in_time.chance, in_time.unit
            )
        )
    return tuple(figures)


def _pairs_at_one_time(
    times: Float[np.ndarray, " row"], seed: int
) -> tuple[Int[np.ndarray, " pair"], Int[np.ndarray, " pair"]]:
    """All pairs of rows at one time, or as many as settle a curve, drawn at random."""
    order = np.argsort(times, kind="stable")
    _, starts, counts = np.unique(times[order], return_index=True, return_counts=True)
    generator = np.random.default_rng(seed)
    share = min(1.0, np.sqrt(_MOST_PAIRS / max(1.0, float(np.sum(counts * (counts - 1.0) / 2)))))
    firsts, seconds = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
    for start, count in zip(starts, counts, strict=True):
        rows = order[start : start + count]
        if share < 1:
            rows = rows[generator.random(count) < share]
        first, second = np.triu_indices(len(rows), k=1)
        firsts.append(rows[first])
        seconds.append(rows[second])
    return np.concatenate(firsts), np.concatenate(seconds)
