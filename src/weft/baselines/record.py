# SPDX-License-Identifier: MIT
"""What every baseline is made of: rows grouped by time and place, a mean and a deviation anywhere."""

import abc
import dataclasses
import functools
from typing import final

import numpy as np
from jaxtyping import Float, Int

from weft.data.places import distinct_places
from weft.data.tables import distinct_rows

__all__ = ["ROWS_LEFT_OUT", "Baseline", "Forecast", "Record", "as_columns", "make_record", "positive", "sd_by"]

# Leaving out this many rows settles a deviation to about 1 %; more would only take longer.
ROWS_LEFT_OUT = 20_000
_DISTANCE_BINS = 10


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

    @functools.cached_property
    def time_of_row(self) -> Int[np.ndarray, " row"]:
        return np.repeat(np.arange(len(self.times)), np.diff(self.starts))

    def row_times(self, rows: Int[np.ndarray, " some"]) -> Float[np.ndarray, " some"]:
        return self.times[self.time_of_row[rows]]

    def row_places(self, rows: Int[np.ndarray, " some"]) -> Float[np.ndarray, "some dim"]:
        return self.places[self.place[rows]]

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
    # In an order of their own, so that nothing depends on that of the table.
    where, place = distinct_places(places)
    order = np.lexsort((values, place, times))
    distinct, starts = np.unique(times[order], return_index=True)
    return Record(distinct, np.append(starts, len(times)), where, place[order], values[order])


def sd_by(
    covariate: Float[np.ndarray, " row"],
    residual: Float[np.ndarray, " row"],
    values: Float[np.ndarray, " value"],
    num_bins: int = _DISTANCE_BINS,
) -> tuple[Float[np.ndarray, " edge"], Float[np.ndarray, " bin"]]:
    """Root mean squared residuals in bins of equally many rows, at least 50 each; the deviation of values if none."""
    if len(residual) == 0:
        return np.empty(0), np.array([positive(float(np.std(values)), values)])
    num_bins = max(1, min(num_bins, len(residual) // 50))
    edges = np.unique(np.quantile(covariate, np.arange(1, num_bins) / num_bins))
    number = np.searchsorted(edges, covariate)
    counts = np.bincount(number, minlength=len(edges) + 1)
    squares = np.bincount(number, residual**2, len(edges) + 1)
    pooled = squares.sum() / counts.sum()
    variance = np.where(counts > 0, squares / np.maximum(counts, 1), pooled)
    return edges, np.array([positive(float(np.sqrt(each)), values) for each in variance])


def positive(sd: float, values: Float[np.ndarray, " value"]) -> float:
    """A deviation that gives a density: left-out rows may agree exactly, the next one will not."""
    floor = 1e-6 * max(float(np.std(values)), 1e-6 * float(np.max(np.abs(values))), 1e-300)
    return max(sd, floor)


def as_columns(places: Float[np.ndarray, "row dim"]) -> Float[np.ndarray, "row dim_or_one"]:
    return places if places.shape[1] else np.zeros((len(places), 1))
