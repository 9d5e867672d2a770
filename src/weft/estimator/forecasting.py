# SPDX-License-Identifier: MIT
"""Rows beyond the last time a model has seen: when, and where."""

import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from weft.data.categories import MISSING
from weft.data.clock import UNIT_SECONDS, Clock, read_time_step
from weft.data.tables import GridTable, Table, as_table, distinct_rows, frame_of_kind, time_columns
from weft.estimator.defaults import median_step
from weft.estimator.fitted import Fitted
from weft.estimator.gridding import time_coordinate

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["future_times", "in_clock_units", "rows_ahead", "station_columns", "stations"]

# Steps of so many days and more may be months of a calendar.
_SHORTEST_MONTH = 28.0
_MEAN_MONTH = 30.436875
# Rows that a place has on average, below which places are not stations: nobody comes back to them.
_FEWEST_ROWS = 2.0


def future_times(clock: Clock, seen: Float[np.ndarray, " time"], horizon: Any) -> Float[np.ndarray, " ahead"]:
    """Times after the last one seen, up to `horizon` later, at the usual step between times."""
    length = in_clock_units(horizon, clock)
    last = float(seen[-1])
    months = _months_of_a_step(clock, seen)
    if months is not None:
        ahead = _by_the_calendar(clock, last, length, months)
    else:
        step = _usual_step(clock, seen)
        ahead = last + step * np.arange(1, int(np.floor(length / step + 1e-9)) + 1)
    if len(ahead) == 0:
        raise ValueError(
            f"the horizon {horizon!r} is shorter than the step between times ({median_step(seen):g} {clock.unit}), "
            "so there is no time to forecast; give a longer one"
        )
    return ahead


def stations(fitted: Fitted) -> Float[np.ndarray, "place dim"]:
    """The places seen, as the posterior has them; refused where they are not stations."""
    if not fitted.batches:
        raise ValueError("the model was saved without its rows, so its stations are not known; say where with at=")
    places = fitted.seen_places()
    num_space = fitted.translation.num_space
    if len(distinct_rows(list(places[:, :num_space].T))[0]) < len(places):
        names = ", ".join(fitted.roles.covariates)
        raise ValueError(
            f"covariates ({names}) change in time, so those of the future are not known; "
            "give rows with their times and covariates to predict instead"
        )
    if fitted.num_rows < _FEWEST_ROWS * len(places):
        raise ValueError(
            f"the model has seen {len(places):,} places in {fitted.num_rows:,} rows, so there are no stations to forecast "
            "at; say where with at="
        )
    return places


def station_columns(fitted: Fitted, places: Float[np.ndarray, "place dim"]) -> dict[str, np.ndarray]:
    """Columns of space and covariates of places that the posterior has, for people to read."""
    translation, kinds, area = fitted.translation, fitted.roles.kinds, fitted.roles.area
    columns = translation.scaling.inverse(places[:, : translation.num_space])
    columns |= translation.covariates.inverse(places[:, translation.num_space : translation.num_numbers])
    # The way to kilometres and back costs the last digits; a billionth of a degree is a tenth of a millimetre.
    rounded = {name: column if name in (*kinds, area) else np.round(column, 9) for name, column in columns.items()}
    if area is not None:
        rounded[area] = columns[area].astype(object)
        rounded[area][columns[area] == MISSING] = None
    return rounded | translation.levels(places)


def rows_ahead(fitted: Fitted, at: Any, times: Float[np.ndarray, " time"]) -> Any:
    """Every place of `at`, a table or a grid, at each of these times; a table's own times only tell its rows apart."""
    roles = fitted.roles
    places = as_table(at, (*roles.space, *roles.covariates))
    if isinstance(places, GridTable):
        return _grid_ahead(fitted, places, times)
    import pandas as pd

    kept = np.arange(places.num_rows)
    own_times = time_columns(places.names, roles.time)
    if set(own_times) <= set(places.names):
        kept = _distinct_places(fitted, places)
    names = [name for name in places.names if name not in (*own_times, roles.target)]
    when = fitted.translation.clock.restore(times)
    columns = {roles.time: when.iloc[np.repeat(np.arange(len(times)), len(kept))].reset_index(drop=True)}
    again = np.tile(kept, len(times))
    columns |= {name: places.column(name).iloc[again].reset_index(drop=True) for name in names}
    return frame_of_kind(pd.DataFrame(columns), places.kind)


def _distinct_places(fitted: Fitted, table: Table) -> np.ndarray:
    roles = fitted.roles
    space = [table.column(name).to_numpy() for name in roles.where if name in table.names]
    first, _ = distinct_rows(space)
    varying = [table.column(name).to_numpy() for name in roles.covariates]
    if varying and len(distinct_rows([*space, *varying])[0]) > len(first):
        raise ValueError(
            f"covariates ({', '.join(roles.covariates)}) change in time in this table, so those of the future are not "
            "known; give rows with their times and covariates to predict instead"
        )
    return np.sort(first)


def _grid_ahead(fitted: Fitted, grid: GridTable, times: Float[np.ndarray, " time"]) -> Any:
    roles, dataset = fitted.roles, grid.dataset
    if roles.time in dataset.dims:
        varying = [name for name in (*roles.space, *roles.covariates) if roles.time in dataset[name].dims]
        if varying:
            raise ValueError(
                f"{varying[0]!r} of the grid changes in time, so that of the future is not known; "
                "give a grid with its times to predict instead"
            )
        dataset = dataset.isel({roles.time: 0}, drop=True)
    dataset = dataset.drop_vars([name for name in (roles.time, roles.target) if name in dataset.variables])
    return dataset.assign_coords({roles.time: time_coordinate(fitted.translation.clock, roles.time, times)})


def in_clock_units(horizon: Any, clock: Clock) -> float:
    if clock.kind == "number":
        try:
            length = float(horizon)
        except (TypeError, ValueError):
            length = np.nan
        if not 0 < length < np.inf:
            raise ValueError(f"times are plain numbers, so the horizon must be a positive number; it is {horizon!r}")
        return length
    if isinstance(horizon, datetime.timedelta | np.timedelta64):
        seconds = float(np.timedelta64(horizon) / np.timedelta64(1, "us")) / 1e6
        if not seconds > 0:
            raise ValueError(f"the horizon must be positive; it is {horizon!r}")
    else:
        count, unit = read_time_step(horizon if isinstance(horizon, str | int | float) else str(horizon), "the horizon")
        seconds = float(count * UNIT_SECONDS[unit])
    return seconds / UNIT_SECONDS[clock.unit]


def _usual_step(clock: Clock, seen: Float[np.ndarray, " time"]) -> float:
    if clock.time_step is None:
        return median_step(seen)
    if clock.kind == "number":
        return float(clock.time_step)
    count, unit = read_time_step(clock.time_step)
    return count * UNIT_SECONDS[unit] / UNIT_SECONDS[clock.unit]


def _stamps(clock: Clock, times: Float[np.ndarray, " time"]) -> "pd.Series":
    return clock.datetimes(clock.restore(times))


def _months_of_a_step(clock: Clock, seen: Float[np.ndarray, " time"]) -> int | None:
    """How many calendar months lie between times that all are on one day of the month, or None for any others."""
    if clock.kind == "number" or clock.time_step is not None:
        return None
    days = median_step(seen) * UNIT_SECONDS[clock.unit] / UNIT_SECONDS["days"]
    if days < _SHORTEST_MONTH:
        return None
    stamps = _stamps(clock, seen)
    is_one_day = stamps.dt.day.nunique() == 1 or bool(stamps.dt.is_month_end.all())
    return max(1, round(days / _MEAN_MONTH)) if is_one_day else None


def _by_the_calendar(clock: Clock, last: float, length: float, months: int) -> Float[np.ndarray, " ahead"]:
    import pandas as pd

    stamp = _stamps(clock, np.array([last])).iloc[0]
    most = int(length * UNIT_SECONDS[clock.unit] / UNIT_SECONDS["days"] / _SHORTEST_MONTH / months) + 1
    offset = pd.offsets.MonthEnd if stamp.is_month_end and stamp.day > 28 else _months_later
    ahead = clock.numbers(pd.Series([stamp + offset(months * k) for k in range(1, most + 1)]))
    # A month is 30 days and a year 365 to whoever gives a horizon in days; the calendar's may be longer by one.
    grace = 1.5 * UNIT_SECONDS["days"] / UNIT_SECONDS[clock.unit]
    return ahead[ahead <= last + length + grace]


def _months_later(months: int) -> Any:
    import pandas as pd

    return pd.DateOffset(months=months)
