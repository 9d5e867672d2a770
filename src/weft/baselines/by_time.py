# SPDX-License-Identifier: MIT
"""What a place itself did before: its mean with the cycles common to all places, and its last value."""

import dataclasses
from collections.abc import Sequence
from typing import final

import numpy as np
from jaxtyping import Float, Int

from weft.baselines.record import ROWS_LEFT_OUT, Baseline, Forecast, Record, as_columns, positive, sd_by

__all__ = ["Climatology", "Persistence", "cycles", "fit_climatology", "fit_persistence", "natural_periods"]

_HARMONICS = 3
# A station's own deviation counts once it has many more rows than this; below, the deviation of all stations does.
_BORROWED_ROWS = 10.0
_HORIZONS = 24


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
        place = self.record.place_number(as_columns(places))
        seen = place >= 0
        distinct, number = np.unique(times, return_inverse=True)
        cycle = (cycles(distinct, self.periods) @ self.cycle)[number]
        mean = np.where(seen, self.place_mean[place], self.typical_mean) + cycle
        return Forecast(mean, np.where(seen, self.place_sd[place], self.typical_sd))


def fit_climatology(record: Record, periods: tuple[float, ...]) -> Climatology:
    num_places = len(record.places)
    time = record.time_of_row
    counts = np.bincount(record.place, minlength=num_places)
    features = cycles(record.times, periods)
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
    place_sd = np.maximum(np.sqrt(place_variance), positive(0.0, record.values))
    typical_sd = positive(float(np.sqrt(within + spread)), record.values)
    return Climatology(record, periods, cycle, place_mean, place_sd, typical_mean, typical_sd)


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

        places = as_columns(places)
        place = self.record.place_number(places)
        if np.any(place < 0):
            place = place.copy()
            place[place < 0] = cKDTree(self.record.places).query(places[place < 0])[1]
        value, since = _last_before(self.record, self.rows, self.keys, place, times)
        found = ~np.isnan(value)
        sd = self.horizon_sd[np.searchsorted(self.horizon_edges, np.where(found, since, 0.0))]
        overall = positive(float(np.std(self.record.values)), self.record.values)
        return Forecast(np.where(found, value, self.record.values.mean()), np.where(found, sd, overall))


def fit_persistence(record: Record, generator: np.random.Generator) -> Persistence:
    time = record.time_of_row
    key = record.place * (len(record.times) + 1) + time
    rows = np.argsort(key, kind="stable")
    keys = key[rows]
    num_rows = len(rows)
    chosen = generator.choice(num_rows, size=min(num_rows, ROWS_LEFT_OUT), replace=False)
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
    edges, sd = sd_by(np.concatenate(lags), np.concatenate(residuals), record.values, num_bins=_HORIZONS)
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


def cycles(times: Float[np.ndarray, " time"], periods: Sequence[float]) -> Float[np.ndarray, "time feature"]:
    waves = [
        wave(2 * np.pi * k * times / period)
        for period in periods
        for k in range(1, _HARMONICS + 1)
        for wave in (np.sin, np.cos)
    ]
    return np.stack(waves, axis=1) if waves else np.empty((len(times), 0))
