# SPDX-License-Identifier: MIT
"""A first look at a network, without a model: rows and stations that differ from their neighbours as these do not from each other.

A model learns what its rows are like, faults and all: from a station in Fahrenheit a short length scale, from values ten times too
large a noise in which they are nothing odd. Medians of differences do not mind up to half of their rows.
"""

from typing import NamedTuple, final

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.spatial import cKDTree

__all__ = ["Screened", "screened"]

_NEIGHBOURS = 8
_FEWEST_NEIGHBOURS = 3
# Times that a station has in common with a neighbour, from which the two have a usual difference.
_FEWEST_TIMES = 10
# Deviations, by medians, beyond which a row is left out, and deviations of usual stations beyond which a station is.
_FAR, _UNLIKE = 6.0, 2.5
_TO_DEVIATIONS = 1.4826


@final
class Screened(NamedTuple):
    """Single rows that differ from their neighbours, all rows of stations that do, and by how much; NaN where there are none near."""

    rows: Bool[np.ndarray, " row"]
    stations: Bool[np.ndarray, " row"]
    apart: Float[np.ndarray, " row"]

    @property
    def either(self) -> Bool[np.ndarray, " row"]:
        return self.rows | self.stations


def screened(
    place: Int[np.ndarray, " row"],
    times: Float[np.ndarray, " row"],
    where: Float[np.ndarray, "row dim"],
    values: Float[np.ndarray, " row"],
) -> Screened:
    """Nothing where places hardly come again, or have too few neighbours. `values` may have gaps."""
    left = _from_neighbours(place, times, where, values)
    nothing = np.zeros(len(values), dtype=bool)
    if np.isnan(left).all():
        return Screened(nothing, nothing, left)
    num_places = int(place.max()) + 1
    spread = np.full(num_places, np.nan)
    for each in range(num_places):
        own = left[place == each]
        own = own[~np.isnan(own)]
        if len(own) >= _FEWEST_TIMES:
            spread[each] = _TO_DEVIATIONS * float(np.median(np.abs(own)))
    if np.isnan(spread).all():
        return Screened(nothing, nothing, left)
    usual = max(float(np.nanmedian(spread)), 1e-300)
    with np.errstate(invalid="ignore"):
        unlike = (spread > _UNLIKE * usual)[place]
        deviation = np.clip(spread[place], usual / 2, _UNLIKE * usual)
        far = np.abs(left) > _FAR * deviation
    return Screened(far & ~unlike, unlike, left)


def _from_neighbours(
    place: Int[np.ndarray, " row"],
    times: Float[np.ndarray, " row"],
    where: Float[np.ndarray, "row dim"],
    values: Float[np.ndarray, " row"],
) -> Float[np.ndarray, " row"]:
    """Each row's difference from neighbouring stations at its time, less the usual one, by medians; NaN where there are none."""
    found = np.full(len(values), np.nan)
    places, first = np.unique(place, return_index=True)
    if len(places) <= _FEWEST_NEIGHBOURS or len(values) < _FEWEST_TIMES * len(places):
        return found
    tick = np.unique(times, return_inverse=True)[1]
    by_place = [np.flatnonzero(place == each) for each in places]
    near = cKDTree(where[first]).query(where[first], k=min(_NEIGHBOURS + 1, len(places)))[1]
    series = np.full((len(places), int(tick.max()) + 1), np.nan)
    for line, rows in enumerate(by_place):
        series[line, tick[rows]] = values[rows]
    for line, rows in enumerate(by_place):
        others = [int(each) for each in near[line] if each != line]
        apart = values[rows] - series[others][:, tick[rows]]
        counts = np.count_nonzero(~np.isnan(apart), axis=1)
        apart = apart[counts >= _FEWEST_TIMES]
        if len(apart) < _FEWEST_NEIGHBOURS:
            continue
        apart = apart - np.nanmedian(apart, axis=1, keepdims=True)
        enough = np.count_nonzero(~np.isnan(apart), axis=0) >= _FEWEST_NEIGHBOURS
        found[rows[enough]] = np.nanmedian(apart[:, enough], axis=0)
    return found
