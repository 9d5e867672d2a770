# SPDX-License-Identifier: MIT
"""What anyone could predict without a model, with a deviation learned from leaving training rows out.

A model that does not beat these is not worth its cost. Each is fitted to rows of (time, place, value), in any order,
and gives a mean and a standard deviation anywhere; all work by sorting and grouping, so millions of rows are fine.
"""

import abc
import dataclasses
from collections.abc import Sequence
from typing import final

import numpy as np
from jaxtyping import Bool, Float, Int

from weft.data.tables import distinct_rows

__all__ = [
    "BASELINES",
    "Baseline",
    "Climatology",
    "Forecast",
    "NeighbourAverage",
    "Persistence",
    "Record",
    "fit_baseline",
    "natural_periods",
]

BASELINES = ("climatology", "nearest_station", "inverse_distance", "persistence")
_HARMONICS = 3
_NEIGHBOURS = 8
# Leaving out this many rows settles a deviation to about 1 %; more would only take longer.
_ROWS_LEFT_OUT = 20_000
# A station's own deviation counts once it has many more rows than this; below, the deviation of all stations does.
_BORROWED_ROWS = 10.0
_DISTANCE_BINS = 10
_HORIZONS = 24


@final
@dataclasses.dataclass(frozen=True)
class Forecast:
    """A Gaussian prediction for each row."""

    mean: Float[np.ndarray, " row"]
    sd: Float[np.ndarray, " row"]


class Baseline(abc.ABC):
    """A fitted baseline."""

    @abc.abstractmethod
    def predict(self, times: Float[np.ndarray, " row"], places: Float[np.ndarray, "row dim"]) -> Forecast: ...


@final
@dataclasses.dataclass(frozen=True)
class Record:
    """Training rows that have a value, sorted by time, with their distinct times and places."""

    times: Float[np.ndarray, " time"]  # distinct, increasing
    starts: Int[np.ndarray, " edge"]  # rows of time k are starts[k] up to starts[k + 1]
    places: Float[np.ndarray, "place dim"]  # distinct
    place: Int[np.ndarray, " row"]  # which place a row is at
    values: Float[np.ndarray, " row"]

    @property
    def time_of_row(self) -> Int[np.ndarray, " row"]:
        return np.repeat(np.arange(len(self.times)), np.diff(self.starts))

    def nearest_time(self, times: Float[np.ndarray, " query"]) -> Int[np.ndarray, " query"]:
        """The time itself where there is one, else the nearest, the earlier of two."""
        after = np.clip(np.searchsorted(self.times, times), 0, len(self.times) - 1)
        before = np.maximum(after - 1, 0)
        return np.where(np.abs(times - self.times[before]) <= np.abs(self.times[after] - times), before, after)

    def place_number(self, places: Float[np.ndarray, "query dim"]) -> Int[np.ndarray, " query"]:
        """The number of each place, -1 for one never seen."""
        num_known = len(self.places)
        kept, number = distinct_rows(list(np.concatenate([self.places, places]).T))
        known = np.where(kept < num_known, kept, -1)
        return known[number[num_known:]]


def fit_baseline(
    name: str,
    times: Float[np.ndarray, " row"],
    places: Float[np.ndarray, "row dim"],
    values: Float[np.ndarray, " row"],
    *,
    periods: Sequence[float] = (),
    seed: int = 0,
) -> Baseline:
    """The baseline of that name; `periods` are the cycles climatology knows of, in the unit of `times`.

    Distances are between rows of `places`, so give places in kilometres.
    """
    if name not in BASELINES:
        raise ValueError(f"baseline must be one of {', '.join(BASELINES)}; it is {name!r}")
    record = make_record(times, places, values)
    generator = np.random.default_rng(seed)
    if name == "climatology":
        return _fit_climatology(record, tuple(periods))
    if name == "persistence":
        return _fit_persistence(record, generator)
    return _fit_neighbours(record, 1 if name == "nearest_station" else _NEIGHBOURS, generator)


def make_record(
    times: Float[np.ndarray, " row"], places: Float[np.ndarray, "row dim"], values: Float[np.ndarray, " row"]
) -> Record:
    """Rows with a value, sorted; rows without one teach a baseline nothing."""
    present = ~np.isnan(values)
    if not present.any():
        raise ValueError(f"a baseline needs at least one value; all {len(values)} are missing")
    times, places, values = times[present], places[present], values[present]
    if places.shape[1] == 0:
        places = np.zeros((len(times), 1))
    kept, place = distinct_rows(list(places.T))
    order = np.argsort(times, kind="stable")
    distinct, starts = np.unique(times[order], return_index=True)
    return Record(distinct, np.append(starts, len(times)), places[kept], place[order], values[order])


def natural_periods(unit_seconds: float | int, span: float | int, step: float | int) -> tuple[float, ...]:
    """Year and day, in units of `unit_seconds`, where data of this span and step can show them."""
    year, day = 31556952 / unit_seconds, 86400 / unit_seconds
    return tuple(period for period in (year, day) if span >= period and step <= period / (2 * _HARMONICS))


@final
@dataclasses.dataclass(frozen=True)
class Climatology(Baseline):
    """A place's own mean (a typical one where it was never seen) plus a cycle common to all places."""

    record: Record
    periods: tuple[float, ...]
    cycle: Float[np.ndarray, " feature"]
    place_mean: Float[np.ndarray, " place"]
    place_sd: Float[np.ndarray, " place"]
    typical_mean: float
    typical_sd: float

    def predict(self, times: Float[np.ndarray, " row"], places: Float[np.ndarray, "row dim"]) -> Forecast:
        place = self.record.place_number(_columns(places))
        seen = place >= 0
        distinct, number = np.unique(times, return_inverse=True)
        cycle = (_cycles(distinct, self.periods) @ self.cycle)[number]
        mean = np.where(seen, self.place_mean[place], self.typical_mean) + cycle
        return Forecast(mean, np.where(seen, self.place_sd[place], self.typical_sd))


def _fit_climatology(record: Record, periods: tuple[float, ...]) -> Climatology:
    num_places = len(record.places)
    time = record.time_of_row
    counts = np.bincount(record.place, minlength=num_places)
    features = _cycles(record.times, periods)
    rows_at_time = np.diff(record.starts).astype(np.float64)
    cycle = np.zeros(features.shape[1])
    place_mean = np.zeros(num_places)
    # Turn by turn: means of what the cycle leaves, then the cycle of what the means leave. A few rounds settle it even
    # where some places report in one season only.
    for _ in range(10 if periods else 1):
        place_mean = np.bincount(record.place, record.values - (features @ cycle)[time], num_places) / counts
        if not periods:
            break
        left = np.bincount(time, record.values - place_mean[record.place], len(record.times)) / rows_at_time
        root = np.sqrt(rows_at_time)
        cycle = np.linalg.lstsq(features * root[:, None], left * root, rcond=None)[0]
    residual = record.values - place_mean[record.place] - (features @ cycle)[time]
    # Without its own row, a mean of n lies further off by n / (n - 1).
    several = counts[record.place] > 1
    left_out = residual * np.where(several, counts[record.place] / np.maximum(counts[record.place] - 1, 1), 1.0)
    squares = np.bincount(record.place, np.where(several, left_out**2, 0.0), num_places)
    used = np.where(counts > 1, counts, 0)
    typical_mean = float(np.average(place_mean))
    other_means = place_mean - typical_mean
    spread = float(np.sum(other_means**2) / (num_places - 1)) * (1 + 1 / num_places) if num_places > 1 else 0.0
    within = float(squares.sum() / used.sum()) if used.sum() else spread
    place_variance = (squares + _BORROWED_ROWS * within) / (used + _BORROWED_ROWS)
    # A place seen once tells its level no better than one draw.
    place_variance = np.where(counts > 1, place_variance, within * 2)
    place_sd = np.maximum(np.sqrt(place_variance), _positive(0.0, record.values))
    typical_sd = _positive(float(np.sqrt(within + spread)), record.values)
    return Climatology(record, periods, cycle, place_mean, place_sd, typical_mean, typical_sd)


@final
@dataclasses.dataclass(frozen=True)
class NeighbourAverage(Baseline):
    """The values nearest in space at the same time (or the nearest time that has any), weighted by 1 / distance^2.

    One neighbour: the nearest station. The deviation grows with the distance to the nearest, as left-out rows show.
    """

    record: Record
    num_neighbours: int
    bin_edges: Float[np.ndarray, " edge"]
    bin_sd: Float[np.ndarray, " bin"]

    def predict(self, times: Float[np.ndarray, " row"], places: Float[np.ndarray, "row dim"]) -> Forecast:
        time = self.record.nearest_time(times)
        mean, distance = _average_neighbours(
            self.record, time, _columns(places), self.num_neighbours, np.full(len(times), -1)
        )
        sd = self.bin_sd[np.searchsorted(self.bin_edges, distance)]
        gap = np.abs(times - self.record.times[time])
        if np.any(gap > 0):
            # Values of another time are off in place and in time; what time does, persistence knows.
            waiting = _fit_persistence(self.record, np.random.default_rng(0))
            waited = waiting.horizon_sd[np.searchsorted(waiting.horizon_edges, gap)]
            sd = np.where(gap > 0, np.hypot(sd, waited), sd)
        return Forecast(mean, sd)


def _fit_neighbours(record: Record, num_neighbours: int, generator: np.random.Generator) -> NeighbourAverage:
    num_rows = len(record.values)
    rows = np.sort(generator.choice(num_rows, size=min(num_rows, _ROWS_LEFT_OUT), replace=False))
    time = record.time_of_row[rows]
    mean, distance = _average_neighbours(record, time, record.places[record.place[rows]], num_neighbours, rows)
    alone = np.isnan(mean)
    if alone.any():
        # Nobody else reported then: what is left is a neighbouring time, as in a prediction.
        other = np.where(time[alone] > 0, time[alone] - 1, np.minimum(time[alone] + 1, len(record.times) - 1))
        mean[alone], distance[alone] = _average_neighbours(
            record, other, record.places[record.place[rows[alone]]], num_neighbours, rows[alone]
        )
    residual = record.values[rows] - mean
    known = ~np.isnan(residual)
    return NeighbourAverage(record, num_neighbours, *_sd_by(distance[known], residual[known], record.values))


def _average_neighbours(
    record: Record,
    time: Int[np.ndarray, " query"],
    places: Float[np.ndarray, "query dim"],
    num_neighbours: int,
    left_out: Int[np.ndarray, " query"],
) -> tuple[Float[np.ndarray, " query"], Float[np.ndarray, " query"]]:
    """Weighted means at given times and the distance to the nearest used; NaN where leaving a row out leaves none."""
    from scipy.spatial import cKDTree

    mean, nearest = np.full(len(time), np.nan), np.full(len(time), np.nan)
    order = np.argsort(time, kind="stable")
    asked, starts = np.unique(time[order], return_index=True)
    for slot, start, stop in zip(asked, starts, np.append(starts[1:], len(time)), strict=True):
        queries = order[start:stop]
        rows = slice(record.starts[slot], record.starts[slot + 1])
        values = record.values[rows]
        tree = cKDTree(record.places[record.place[rows]])
        # One more than needed, in case the row to leave out is among them.
        wanted = min(num_neighbours + 1, len(values))
        distance, found = tree.query(places[queries], k=np.arange(1, wanted + 1))
        usable = found + record.starts[slot] != left_out[queries, None]
        usable &= np.cumsum(usable, axis=1) <= num_neighbours
        mean[queries], nearest[queries] = _weigh(distance, values[found], usable)
    return mean, nearest


def _weigh(
    distance: Float[np.ndarray, "query near"],
    values: Float[np.ndarray, "query near"],
    usable: Bool[np.ndarray, "query near"],
) -> tuple[Float[np.ndarray, " query"], Float[np.ndarray, " query"]]:
    nearest = np.min(np.where(usable, distance, np.inf), axis=1)
    # Relative to the nearest, so nothing overflows; at distance zero only values right there count.
    ratio = np.where(nearest[:, None] > 0, nearest[:, None] / np.where(distance > 0, distance, 1.0), distance == 0)
    with np.errstate(invalid="ignore"):
        weights = np.where(usable, ratio**2, 0.0)
    total = weights.sum(axis=1)
    found = usable.any(axis=1)
    mean = np.where(found, (weights * values).sum(axis=1) / np.where(found, total, 1.0), np.nan)
    return mean, np.where(found, nearest, np.nan)


@final
@dataclasses.dataclass(frozen=True)
class Persistence(Baseline):
    """The last value at the place before the time (at the nearest place, where this one was never seen).

    The deviation depends on how long ago that was. Before a place's first value: the mean and deviation of all values.
    """

    record: Record
    rows: Int[np.ndarray, " row"]  # by place, then time
    keys: Int[np.ndarray, " row"]
    horizon_edges: Float[np.ndarray, " edge"]
    horizon_sd: Float[np.ndarray, " bin"]

    def predict(self, times: Float[np.ndarray, " row"], places: Float[np.ndarray, "row dim"]) -> Forecast:
        from scipy.spatial import cKDTree

        places = _columns(places)
        place = self.record.place_number(places)
        if np.any(place < 0):
            place = place.copy()
            place[place < 0] = cKDTree(self.record.places).query(places[place < 0])[1]
        value, since = _last_before(self.record, self.rows, self.keys, place, times)
        found = ~np.isnan(value)
        sd = self.horizon_sd[np.searchsorted(self.horizon_edges, np.where(found, since, 0.0))]
        overall = _positive(float(np.std(self.record.values)), self.record.values)
        return Forecast(np.where(found, value, self.record.values.mean()), np.where(found, sd, overall))


def _fit_persistence(record: Record, generator: np.random.Generator) -> Persistence:
    time = record.time_of_row
    key = record.place * (len(record.times) + 1) + time
    rows = np.argsort(key, kind="stable")
    keys = key[rows]
    num_rows = len(rows)
    chosen = generator.choice(num_rows, size=min(num_rows, _ROWS_LEFT_OUT), replace=False)
    span = record.times[-1] - record.times[0]
    shortest = float(np.min(np.diff(record.times), initial=np.inf))
    lags, residuals = [np.empty(0)], [np.empty(0)]
    # As if nothing had been seen for a while: errors at horizons from one step to the whole span.
    for horizon in np.geomspace(shortest, span, _HORIZONS) if len(record.times) > 1 else ():
        # Just before the row, less one shortest step: at the first horizon this is the row's predecessor.
        until = record.times[time[chosen]] - (horizon - shortest)
        value, since = _last_before(record, rows, keys, record.place[chosen], until)
        known = ~np.isnan(value)
        lags.append((since + horizon - shortest)[known])
        residuals.append((record.values[chosen] - value)[known])
    edges, sd = _sd_by(np.concatenate(lags), np.concatenate(residuals), record.values, num_bins=_HORIZONS)
    return Persistence(record, rows, keys, edges, sd)


def _last_before(
    record: Record,
    rows: Int[np.ndarray, " row"],
    keys: Int[np.ndarray, " row"],
    place: Int[np.ndarray, " query"],
    times: Float[np.ndarray, " query"],
) -> tuple[Float[np.ndarray, " query"], Float[np.ndarray, " query"]]:
    """The last value at a place strictly before a time, and how long before; NaN where there is none."""
    key = place * (len(record.times) + 1) + np.searchsorted(record.times, times, side="left")
    last = np.searchsorted(keys, key, side="left") - 1
    row = rows[np.maximum(last, 0)]
    found = (last >= 0) & (record.place[row] == place)
    when = record.times[keys[np.maximum(last, 0)] % (len(record.times) + 1)]
    return np.where(found, record.values[row], np.nan), np.where(found, times - when, np.nan)


def _sd_by(
    covariate: Float[np.ndarray, " row"],
    residual: Float[np.ndarray, " row"],
    values: Float[np.ndarray, " value"],
    num_bins: int = _DISTANCE_BINS,
) -> tuple[Float[np.ndarray, " edge"], Float[np.ndarray, " bin"]]:
    """Root mean squared residuals in bins of equally many rows, at least 50 each; the deviation of values if none."""
    if len(residual) == 0:
        return np.empty(0), np.array([_positive(float(np.std(values)), values)])
    num_bins = max(1, min(num_bins, len(residual) // 50))
    edges = np.unique(np.quantile(covariate, np.arange(1, num_bins) / num_bins))
    number = np.searchsorted(edges, covariate)
    counts = np.bincount(number, minlength=len(edges) + 1)
    squares = np.bincount(number, residual**2, len(edges) + 1)
    pooled = squares.sum() / counts.sum()
    variance = np.where(counts > 0, squares / np.maximum(counts, 1), pooled)
    return edges, np.array([_positive(float(np.sqrt(each)), values) for each in variance])


def _positive(sd: float, values: Float[np.ndarray, " value"]) -> float:
    """A deviation that gives a density: left-out rows may agree exactly, the next one will not."""
    floor = 1e-6 * max(float(np.std(values)), 1e-6 * float(np.max(np.abs(values))), 1e-300)
    return max(sd, floor)


def _cycles(times: Float[np.ndarray, " time"], periods: Sequence[float]) -> Float[np.ndarray, "time feature"]:
    waves = [
        wave(2 * np.pi * k * times / period)
        for period in periods
        for k in range(1, _HARMONICS + 1)
        for wave in (np.sin, np.cos)
    ]
    return np.stack(waves, axis=1) if waves else np.empty((len(times), 0))


def _columns(places: Float[np.ndarray, "row dim"]) -> Float[np.ndarray, "row dim_or_one"]:
    return places if places.shape[1] else np.zeros((len(places), 1))
