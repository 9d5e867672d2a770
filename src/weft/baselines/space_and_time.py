# SPDX-License-Identifier: MIT
"""What rows near in space *and* time have: their weighted mean, and ordinary kriging with one variogram.

How far a unit of time is in units of space is learned by leaving rows out, so that stations of which each reports daily and
floats that are never twice at one place both have a neighbourhood worth the name.
"""

import dataclasses
from typing import final

import numpy as np
from jaxtyping import Float, Int
from scipy.spatial import cKDTree

from weft.baselines.by_time import Climatology, Persistence, cycles, fit_persistence
from weft.baselines.record import ROWS_LEFT_OUT, Baseline, Forecast, Record, as_columns, positive, sd_by

__all__ = ["LocalKriging", "NearestRows", "Neighbourhood", "choose_neighbourhood", "fit_kriging", "fit_nearest_rows"]

_NEAREST = 10
_KRIGED = 30
# Speeds tried: how many typical distances between places a step of time is worth.
_SPEEDS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
# Rows left out to choose a speed.
_ROWS_TO_CHOOSE = 2_000
_VARIOGRAM_BINS = 15
_RANGES = 24
# Rows kriged at once: few enough for what is made of them to stay near the processor.
_AT_ONCE = 1_000


@final
@dataclasses.dataclass(frozen=True)
class Neighbourhood:
    """Rows as points of space and time, with time in units of distance."""

    tree: cKDTree
    speed: float

    def near(
        self,
        times: Float[np.ndarray, " query"],
        places: Float[np.ndarray, "query dim"],
        count: int,
        left_out: Int[np.ndarray, " query"] | None = None,
    ) -> tuple[Float[np.ndarray, "query near"], Int[np.ndarray, "query near"]]:
        """Distances and numbers of the nearest rows, nearest first; `left_out` is a row that is not to be among them."""
        wanted = min(count + (left_out is not None), self.tree.n)
        points = np.concatenate([places, self.speed * times[:, None]], axis=1)
        distance, found = self.tree.query(points, k=np.arange(1, wanted + 1))
        if left_out is None:
            return distance, found
        # The row itself goes last, and then away; where it was not found, the furthest does.
        order = np.argsort(found == left_out[:, None], axis=1, kind="stable")[:, : max(wanted - 1, 1)]
        return np.take_along_axis(distance, order, axis=1), np.take_along_axis(found, order, axis=1)


def _neighbourhood(record: Record, speed: float) -> Neighbourhood:
    times = record.times[record.time_of_row]
    return Neighbourhood(cKDTree(np.concatenate([record.places[record.place], speed * times[:, None]], axis=1)), speed)


def choose_neighbourhood(record: Record, generator: np.random.Generator) -> Neighbourhood:
    """By the error of the weighted mean of rows left out."""
    steps = np.diff(record.times)
    step = float(np.median(steps)) if len(steps) else 1.0
    apart = cKDTree(record.places).query(record.places, k=[2])[0] if len(record.places) > 1 else np.ones(1)
    known = apart[np.isfinite(apart) & (apart > 0)]
    distance = float(np.median(known)) if len(known) else 1.0
    rows = _some(record, _ROWS_TO_CHOOSE, generator)
    times, places = record.row_times(rows), record.row_places(rows)
    least, best = np.inf, None
    for factor in _SPEEDS:
        each = _neighbourhood(record, factor * distance / step)
        mean = _weighted(*each.near(times, places, _NEAREST, rows), record.values)
        error = float(np.mean(np.abs(record.values[rows] - mean)))
        # A tree of all rows takes longer than what is asked of it here: the best is kept.
        if best is None or error < least:
            least, best = error, each
    assert best is not None
    return best


def _some(record: Record, most: int, generator: np.random.Generator) -> Int[np.ndarray, " row"]:
    count = len(record.values)
    return np.sort(generator.choice(count, size=min(count, most), replace=False))


def _weighted(
    distance: Float[np.ndarray, "query near"], found: Int[np.ndarray, "query near"], values: Float[np.ndarray, " row"]
) -> Float[np.ndarray, " query"]:
    """By 1 / distance^2, relative to the nearest, so that nothing overflows; right there only what is right there counts."""
    nearest = distance[:, :1]
    ratio = np.where(nearest > 0, nearest / np.where(distance > 0, distance, 1.0), distance == 0)
    return np.sum(ratio**2 * values[found], axis=1) / np.sum(ratio**2, axis=1)


@final
@dataclasses.dataclass(frozen=True)
class NearestRows(Baseline):
    """The ten rows nearest in space and time, weighted by 1 / distance^2; the deviation grows with the distance to the nearest."""

    record: Record
    neighbourhood: Neighbourhood
    bin_edges: Float[np.ndarray, " edge"]
    bin_sd: Float[np.ndarray, " bin"]
    waiting: Persistence

    def predict(self, times: Float[np.ndarray, " row"], places: Float[np.ndarray, "row dim"]) -> Forecast:
        distance, found = self.neighbourhood.near(times, as_columns(places), _NEAREST)
        mean = _weighted(distance, found, self.record.values)
        sd = self.bin_sd[np.searchsorted(self.bin_edges, distance[:, 0])]
        # Rows left out have neighbours on both sides; what waiting does beyond the last time, persistence knows.
        gap = np.abs(times - self.record.row_times(found[:, 0]))
        waited = self.waiting.horizon_sd[np.searchsorted(self.waiting.horizon_edges, gap)]
        beyond = (times > self.record.times[-1]) | (times < self.record.times[0])
        return Forecast(mean, np.where(beyond, np.maximum(sd, waited), sd))


def fit_nearest_rows(record: Record, neighbourhood: Neighbourhood, generator: np.random.Generator) -> NearestRows:
    rows = _some(record, ROWS_LEFT_OUT, generator)
    times, places = record.row_times(rows), record.row_places(rows)
    distance, found = neighbourhood.near(times, places, _NEAREST, rows)
    residual = record.values[rows] - _weighted(distance, found, record.values)
    edges, sd = sd_by(distance[:, 0], residual, record.values)
    return NearestRows(record, neighbourhood, edges, sd, fit_persistence(record, generator))


@final
@dataclasses.dataclass(frozen=True)
class LocalKriging(Baseline):
    """Ordinary kriging of what the common cycle leaves, from the thirty rows nearest in space and time.

    One variogram of the distance in space and time: `nugget` plus `sill` (1 - exp(-distance / reach)). Deviations are
    scaled by `factor`, so that those of rows left out are right on average.
    """

    record: Record
    neighbourhood: Neighbourhood
    periods: tuple[float, ...]
    cycle: Float[np.ndarray, " feature"]
    anomalies: Float[np.ndarray, " row"]
    nugget: float
    sill: float
    reach: float
    factor: float = 1.0

    def predict(self, times: Float[np.ndarray, " row"], places: Float[np.ndarray, "row dim"]) -> Forecast:
        mean, sd = self.krige(times, as_columns(places))
        sd = np.maximum(self.factor * sd, positive(0.0, self.record.values))
        return Forecast(mean + cycles(times, self.periods) @ self.cycle, sd)

    def krige(
        self,
        times: Float[np.ndarray, " row"],
        places: Float[np.ndarray, "row dim"],
        left_out: Int[np.ndarray, " row"] | None = None,
    ) -> tuple[Float[np.ndarray, " row"], Float[np.ndarray, " row"]]:
        """Anomalies and their deviations, a row of the record left out each where it is given."""
        mean, sd = np.empty(len(times)), np.empty(len(times))
        for start in range(0, len(times), _AT_ONCE):
            rows = slice(start, start + _AT_ONCE)
            distance, found = self.neighbourhood.near(
                times[rows], places[rows], _KRIGED, None if left_out is None else left_out[rows]
            )
            mean[rows], sd[rows] = self._solve(distance, found)
        return mean, sd

    def _solve(
        self, distance: Float[np.ndarray, "query near"], found: Int[np.ndarray, "query near"]
    ) -> tuple[Float[np.ndarray, " query"], Float[np.ndarray, " query"]]:
        points = self.neighbourhood.tree.data[found]
        # Column by column: all differences at once are several times as much memory as what comes of them.
        squares = np.zeros((*found.shape, found.shape[1]))
        for column in np.moveaxis(points, -1, 0):
            squares += (column[:, :, None] - column[:, None]) ** 2
        # Covariances; an unknown mean is a variance beyond all others.
        vague = 100.0 * (self.sill + self.nugget)
        near = distance.shape[1]
        matrix = self.sill * np.exp(-np.sqrt(squares) / self.reach) + vague + self.nugget * np.eye(near)
        towards = self.sill * np.exp(-distance / self.reach) + vague
        weights = np.linalg.solve(matrix, towards[..., None])[..., 0]
        variance = self.sill + self.nugget + vague - np.sum(weights * towards, axis=1)
        anomalies = self.anomalies[found]
        middle = anomalies.mean(axis=1)
        mean = middle + np.sum(weights * (anomalies - middle[:, None]), axis=1)
        return mean, np.sqrt(np.maximum(variance, 0.0))


def fit_kriging(
    record: Record, climatology: Climatology, neighbourhood: Neighbourhood, generator: np.random.Generator
) -> LocalKriging:
    """What is kriged is what the cycle of `climatology`, fitted to the same rows, leaves."""
    periods, cycle = climatology.periods, climatology.cycle
    anomalies = record.values - (cycles(record.times, periods) @ cycle)[record.time_of_row]
    rows = _some(record, _ROWS_TO_CHOOSE, generator)
    nugget, sill, reach = _variogram(record, neighbourhood, anomalies, rows, generator)
    kriging = LocalKriging(record, neighbourhood, periods, cycle, anomalies, nugget, sill, reach)
    mean, sd = kriging.krige(record.row_times(rows), record.row_places(rows), rows)
    known = sd > 0
    if not known.any():
        return kriging
    ratio = (anomalies[rows] - mean)[known] / sd[known]
    return dataclasses.replace(kriging, factor=float(np.sqrt(np.mean(ratio**2))) or 1.0)


def _variogram(
    record: Record,
    neighbourhood: Neighbourhood,
    anomalies: Float[np.ndarray, " row"],
    rows: Int[np.ndarray, " some"],
    generator: np.random.Generator,
) -> tuple[float, float, float]:
    """Nugget, sill and reach, by least squares on half the mean squared difference of pairs, near ones and any."""
    times, places = record.row_times(rows), record.row_places(rows)
    distance, found = neighbourhood.near(times, places, _KRIGED, rows)
    others = generator.integers(len(record.values), size=(len(rows), _KRIGED))
    points = neighbourhood.tree.data
    far = np.sqrt(np.sum((points[rows][:, None] - points[others]) ** 2, axis=-1))
    lags = np.concatenate([distance.ravel(), far.ravel()])
    halves = 0.5 * np.concatenate(
        [
            ((anomalies[rows][:, None] - anomalies[found]) ** 2).ravel(),
            ((anomalies[rows][:, None] - anomalies[others]) ** 2).ravel(),
        ]
    )
    total = max(float(np.var(anomalies)), 1e-300)
    kept = lags > 0
    if not kept.any():
        return 0.5 * total, 0.5 * total, 1.0
    edges = np.unique(np.quantile(lags[kept], np.linspace(0, 1, _VARIOGRAM_BINS + 1)[1:-1]))
    bins = np.searchsorted(edges, lags[kept])
    count = np.bincount(bins, minlength=len(edges) + 1)
    lag, half = (np.bincount(bins, each[kept], len(edges) + 1) / np.maximum(count, 1) for each in (lags, halves))
    lag, half = lag[count > 0], half[count > 0]
    from scipy.optimize import nnls

    best = (np.inf, 0.5 * total, 0.5 * total, float(np.median(lag)))
    for reach in np.geomspace(max(lag.min(), 1e-12 * lag.max()), 3 * lag.max(), _RANGES):
        # Near pairs matter most, so errors are relative.
        design = (
            np.stack([np.ones_like(lag), 1 - np.exp(-lag / reach)], axis=1) / np.maximum(half, 1e-3 * total)[:, None]
        )
        (nugget, sill), error = nnls(design, half / np.maximum(half, 1e-3 * total))
        if error < best[0]:
            best = (error, nugget, sill, float(reach))
    _, nugget, sill, reach = best
    return max(nugget, 1e-6 * total), max(sill, 1e-6 * total), reach
