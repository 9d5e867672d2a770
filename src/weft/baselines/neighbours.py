# SPDX-License-Identifier: MIT
"""What neighbours have at the same time: the nearest one, or several weighted by their distance."""

import dataclasses
from typing import final

import numpy as np
from jaxtyping import Bool, Float, Int

from weft.baselines.by_time import fit_persistence
from weft.baselines.record import ROWS_LEFT_OUT, Baseline, Forecast, Record, as_columns, sd_by

__all__ = ["NUM_NEIGHBOURS", "NeighbourAverage", "fit_neighbours"]

NUM_NEIGHBOURS = 8
# Rows in one tree, with what is asked of it: bounds memory.
_ROWS_AT_ONCE = 500_000


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
            self.record, time, as_columns(places), self.num_neighbours, np.full(len(times), -1)
        )
        sd = self.bin_sd[np.searchsorted(self.bin_edges, distance)]
        gap = np.abs(times - self.record.times[time])
        if np.any(gap > 0):
            # Values of another time are off in place and in time; what time does, persistence knows.
            waiting = fit_persistence(self.record, np.random.default_rng(0))
            waited = waiting.horizon_sd[np.searchsorted(waiting.horizon_edges, gap)]
            sd = np.where(gap > 0, np.hypot(sd, waited), sd)
        return Forecast(mean, sd)


def fit_neighbours(record: Record, num_neighbours: int, generator: np.random.Generator) -> NeighbourAverage:
    num_rows = len(record.values)
    rows = np.sort(generator.choice(num_rows, size=min(num_rows, ROWS_LEFT_OUT), replace=False))
    time = record.time_of_row[rows]
    mean, distance = _average_neighbours(record, time, record.row_places(rows), num_neighbours, rows)
    alone = np.isnan(mean)
    if alone.any():
        # Nobody else reported then: what is left is a neighbouring time, as in a prediction.
        other = np.where(time[alone] > 0, time[alone] - 1, np.minimum(time[alone] + 1, len(record.times) - 1))
        mean[alone], distance[alone] = _average_neighbours(
            record, other, record.row_places(rows[alone]), num_neighbours, rows[alone]
        )
    residual = record.values[rows] - mean
    known = ~np.isnan(residual)
    return NeighbourAverage(record, num_neighbours, *sd_by(distance[known], residual[known], record.values))


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
    if len(time) == 0:
        return mean, nearest
    # Times lie along a further axis, each beyond the reach of the others: one tree for many times, where hourly rows of a few stations
    # would have tens of thousands of trees.
    apart = 1.0 + 2.0 * float(np.linalg.norm(np.ptp(np.concatenate([record.places, places]), axis=0)))
    order = np.argsort(time, kind="stable")
    asked, first = np.unique(time[order], return_index=True)
    first = np.append(first, len(time))
    counts = np.diff(record.starts)[asked]
    for start, stop in _in_parts(counts + np.diff(first)):
        slots, queries = asked[start:stop], order[first[start] : first[stop]]
        rows = np.concatenate([np.arange(record.starts[slot], record.starts[slot + 1]) for slot in slots])
        level = np.repeat(np.arange(len(slots)), counts[start:stop])
        of_query = np.searchsorted(slots, time[queries])
        tree = cKDTree(np.column_stack([record.row_places(rows), apart * level]))
        # One more than needed, in case the row to leave out is among them.
        wanted = min(num_neighbours + 1, len(rows))
        distance, found = tree.query(np.column_stack([places[queries], apart * of_query]), k=np.arange(1, wanted + 1))
        usable = (level[found] == of_query[:, None]) & (rows[found] != left_out[queries, None])
        usable &= np.cumsum(usable, axis=1) <= num_neighbours
        mean[queries], nearest[queries] = _weigh(distance, record.values[rows[found]], usable)
    return mean, nearest


def _in_parts(sizes: Int[np.ndarray, " time"]) -> list[tuple[int, int]]:
    """From where to where, so that parts hold about so many rows and queries, or one time."""
    part = np.cumsum(sizes) // _ROWS_AT_ONCE
    starts = np.flatnonzero(np.diff(part, prepend=-1))
    return list(zip(starts.tolist(), [*starts[1:].tolist(), len(sizes)], strict=True))


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
