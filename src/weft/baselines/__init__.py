# SPDX-License-Identifier: MIT
"""What anyone could predict without a model, with a deviation learned from leaving training rows out.

A model that does not beat these is not worth its cost. Each is fitted to rows of (time, place, value), in any order,
and gives a mean and a standard deviation anywhere; all work by sorting, grouping and small neighbourhoods, so millions of
rows are fine.
"""

import copy
import functools
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from jaxtyping import Float

from weft.baselines.boosting import fit_boosting, has_boosting
from weft.baselines.by_time import Climatology, fit_climatology, fit_persistence, natural_periods
from weft.baselines.neighbours import NUM_NEIGHBOURS, fit_neighbours
from weft.baselines.record import Baseline, Forecast, make_record
from weft.baselines.space_and_time import Neighbourhood, choose_neighbourhood, fit_kriging, fit_nearest_rows

__all__ = [
    "BASELINES",
    "Baseline",
    "Forecast",
    "available_baselines",
    "fit_baseline",
    "fit_baselines",
    "natural_periods",
]

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
    ((_, baseline),) = fit_baselines((name,), times, places, values, periods=periods, seed=seed)
    return baseline


def fit_baselines(
    names: Iterable[str],
    times: Float[np.ndarray, " row"],
    places: Float[np.ndarray, "row dim"],
    values: Float[np.ndarray, " row"],
    *,
    periods: Sequence[float] = (),
    seed: int = 0,
) -> Iterator[tuple[str, Baseline]]:
    """Several, one after another: what rows they have, and how far a day is, is found once for all."""
    record, cycles = make_record(times, places, values), tuple(periods)

    @functools.cache
    def near() -> tuple[Neighbourhood, np.random.Generator]:
        generator = np.random.default_rng(seed)
        return choose_neighbourhood(record, generator), generator

    @functools.cache
    def climatology() -> Climatology:
        return fit_climatology(record, cycles)

    for name in names:
        generator = np.random.default_rng(seed)
        if name == "climatology":
            yield name, climatology()
        elif name == "persistence":
            yield name, fit_persistence(record, generator)
        elif name in ("nearest_rows", "local_kriging"):
            neighbourhood, used = near()
            # Each goes on from where the choice has left the generator.
            generator = copy.deepcopy(used)
            found = (
                fit_nearest_rows(record, neighbourhood, generator)
                if name == "nearest_rows"
                else fit_kriging(record, climatology(), neighbourhood, generator)
            )
            yield name, found
        elif name == "boosting":
            yield name, fit_boosting(record, cycles, generator)
        else:
            yield name, fit_neighbours(record, 1 if name == "nearest_station" else NUM_NEIGHBOURS, generator)
