# SPDX-License-Identifier: MIT
"""Stations that were there in both of two periods: a check of what a model says changed in between.

Stations come and go. Where those of the later period stand at warmer places, a model that cannot tell a place's own level from the
weather of its years takes the change of the network for one of the climate.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from weft.data.tables import distinct_rows
from weft.estimator.fitted import Fitted

__all__ = ["CommonStations", "common_stations"]

_FEWEST = 3
# A station counts in a period where it has at least this share of the values that the middle station has.
_ENOUGH = 0.5
# Below this share of stations in common the network is another one.
_SAME_NETWORK = 0.8
# Standard errors beyond which two differences do not agree.
_AGREES = 2.0


class CommonStations(NamedTuple):
    """How many stations have values in the first period, in the second and in both, and what changed at those, on average."""

    num_first: int
    num_second: int
    num_both: int
    difference: float
    standard_error: float

    @property
    def is_another_network(self) -> bool:
        return self.num_both < _SAME_NETWORK * max(self.num_first, self.num_second)

    def disagrees(self, difference: float, sd: float) -> bool:
        """Whether a difference that a model tells is not what these stations say."""
        return abs(difference - self.difference) > _AGREES * float(np.hypot(sd, self.standard_error))


def common_stations(
    fitted: Fitted, first: Float[np.ndarray, " earlier"], second: Float[np.ndarray, " later"]
) -> CommonStations | None:
    """The first period less the second at stations with values in both; None where the periods overlap or hardly any station is.

    Periods are from the first to the last of the times given, as the model counts them.
    """
    periods = [(float(times.min()), float(times.max())) for times in (first, second)]
    overlap = min(end for _, end in periods) >= max(start for start, _ in periods)
    if overlap or not fitted.batches:
        return None
    times = np.concatenate([batch.row_times for batch in fitted.batches])
    places = np.concatenate([batch.row_places for batch in fitted.batches])
    values = fitted.seen_values()
    _, place = distinct_rows(list(places[:, : fitted.translation.num_space].T))
    means = []
    for start, end in periods:
        inside = (times >= start) & (times <= end) & np.isfinite(values)
        counts = np.bincount(place[inside], minlength=int(place.max()) + 1)
        sums = np.bincount(place[inside], weights=values[inside], minlength=len(counts))
        enough = counts >= max(1.0, _ENOUGH * float(np.median(counts[counts > 0])) if np.any(counts) else 1.0)
        means.append(np.where(enough, sums / np.maximum(counts, 1), np.nan))
    changes = means[0] - means[1]
    changes = changes[np.isfinite(changes)]
    if len(changes) < _FEWEST:
        return None
    error = float(changes.std(ddof=1) / np.sqrt(len(changes)))
    first_there, second_there = (int(np.isfinite(mean).sum()) for mean in means)
    return CommonStations(first_there, second_there, len(changes), float(changes.mean()), error)
