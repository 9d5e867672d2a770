# SPDX-License-Identifier: MIT
"""What anyone could predict without a model, with a deviation learned from leaving training rows out.

A model that does not beat these is not worth its cost. Each is fitted to rows of (time, place, value), in any order,
and gives a mean and a standard deviation anywhere; all work by sorting, grouping and small neighbourhoods, so millions of
rows are fine.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from weft.baselines.boosting import fit_boosting, has_boosting
from weft.baselines.by_time import fit_climatology, fit_persistence, natural_periods
from weft.baselines.neighbours import NUM_NEIGHBOURS, fit_neighbours
from weft.baselines.record import Baseline, Forecast, make_record
from weft.baselines.space_and_time import fit_kriging, fit_nearest_rows

__all__ = ["BASELINES", "Baseline", "Forecast", "available_baselines", "fit_baseline", "natural_periods"]

BASELINES = (
    "climatology",
    "nearest_station",
    "inverse_distance",
    "nearest_rows",
    "local_kriging",
    "boosting",
    "persistence",
)


def available_baselines() -> tuple[str, ...]:
    """All but those whose package is not installed."""
    return tuple(name for name in BASELINES if name != "boosting" or has_boosting())


def fit_baseline(
    name: str,
    times: Float[np.ndarray, " row"],
    places: Float[np.ndarray, "row dim"],
    values: Float[np.ndarray, " row"],
    *,
    periods: Sequence[float] = (),
    seed: int = 0,
) -> Baseline:
    """The baseline of that name; `periods` are the cycles climatology and kriging know of, in the unit of `times`.

    Distances are between rows of `places`, so give places in kilometres.
    """
    if name not in BASELINES:
        raise ValueError(f"baseline must be one of {', '.join(BASELINES)}; it is {name!r}")
    record = make_record(times, places, values)
    generator = np.random.default_rng(seed)
    if name == "climatology":
        return fit_climatology(record, tuple(periods))
    if name == "persistence":
        return fit_persistence(record, generator)
    if name == "nearest_rows":
        return fit_nearest_rows(record, generator)
    if name == "local_kriging":
        return fit_kriging(record, tuple(periods), generator)
    if name == "boosting":
        return fit_boosting(record, tuple(periods), generator)
    return fit_neighbours(record, 1 if name == "nearest_station" else NUM_NEIGHBOURS, generator)
