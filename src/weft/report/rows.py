# SPDX-License-Identifier: MIT
"""The rows a model has seen, in people's units: read from a table, or from what the model itself has kept."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np
from jaxtyping import Float, Int

from weft.data.clock import UNIT_SECONDS, Clock, Times
from weft.data.tables import Table, distinct_rows
from weft.estimator.columns import Measurements, read_measurements

if TYPE_CHECKING:
    from weft.space_time_gp import SpaceTimeGP

__all__ = [
    "SeenRows",
    "as_seconds",
    "ask",
    "kept_rows",
    "place_in_words",
    "rows_of_table",
    "time_labels",
    "values_by_place",
]

_STATION_WORDS = ("station", "station_id", "station_name", "site", "site_id", "province", "place", "name", "id")


@final
@dataclasses.dataclass(frozen=True)
class SeenRows:
    """Measurements by row; a place is a distinct set of coordinates, and `names` are what to call each of them."""

    measured: Measurements
    times: Float[np.ndarray, " row"]  # in the clock's unit
    values: Float[np.ndarray, " row"]  # NaN where missing
    place: Int[np.ndarray, " row"]
    places: dict[str, np.ndarray]  # the columns of space at each place: numbers, or kinds
    names: tuple[str, ...]
    has_names: bool

    @property
    def num_places(self) -> int:
        return len(self.names)

    @property
    def present(self) -> Int[np.ndarray, " some"]:
        """Rows with a value."""
        return np.flatnonzero(~np.isnan(self.values))

    @property
    def varying(self) -> dict[str, Float[np.ndarray, " row"]]:
        """Covariates that are numbers, which a place has anew at each time."""
        return self.measured.covariates

    def counts(self) -> Int[np.ndarray, " place"]:
        """How many values each place has."""
        return np.bincount(self.place[self.present], minlength=self.num_places)

    def take(self, rows: Int[np.ndarray, " some"]) -> "SeenRows":
        """These rows; places keep their numbers."""
        return dataclasses.replace(
            self,
            measured=self.measured.take(rows),
            times=self.times[rows],
            values=self.values[rows],
            place=self.place[rows],
        )


def rows_of_table(gp: "SpaceTimeGP", data: Any, station: str | None = None) -> SeenRows:
    """The rows of a table with the model's columns; `station` names the column of names, looked for if not given."""
    table = gp.fitted_.roles.table(data, with_target=True)
    measured = read_measurements(table, gp.fitted_.roles, with_target=True)
    return _with_places(gp, measured, _station_column(table, station))


def kept_rows(gp: "SpaceTimeGP") -> SeenRows:
    """The rows the model's posterior has kept; their places have no names but their coordinates."""
    batches = gp.fitted_.batches
    if not batches:
        raise ValueError("the model was saved without its rows; give the table it was fitted to as well")
    translation = gp.fitted_.translation
    places = np.concatenate([np.asarray(batch.row_places) for batch in batches])
    num_space = translation.num_space
    extras = {
        extra: np.concatenate([np.asarray(getattr(batch, extra)) for batch in batches])
        for extra in gp.fitted_.roles.extras
    }
    if "noise_variance" in extras:
        extras["noise_variance"] = extras["noise_variance"] * translation.target.scale**2
    for name in {"lower", "upper"} & extras.keys():
        # In a table a limit that is none is a gap.
        extras[name] = translation.target.inverse(np.where(np.isinf(extras[name]), np.nan, extras[name]))
    measured = Measurements(
        time=Times(translation.clock.restore(np.concatenate([batch.row_times for batch in batches]))),
        space=translation.scaling.inverse(places[:, :num_space]),
        covariates=translation.covariates.inverse(places[:, num_space : translation.num_numbers]),
        categories=translation.levels(places),
        values=gp.fitted_.seen_values(),
        extras=extras,
    )
    return _with_places(gp, measured, None)


def ask(gp: "SpaceTimeGP", times: Float[np.ndarray, " row"], columns: Mapping[str, np.ndarray]) -> Measurements:
    """Rows to predict: times as the model's clock writes them, beside columns."""
    import pandas as pd

    roles = gp.fitted_.roles
    table = pd.DataFrame({roles.time: gp.fitted_.translation.clock.restore(times), **columns})
    return read_measurements(roles.table(table, with_target=False), roles, with_target=False)


def place_in_words(places: Mapping[str, np.ndarray], number: int, digits: int) -> str:
    """A place by its columns; kinds are words already."""
    said = [(name, column[number]) for name, column in places.items()]
    return ", ".join(f"{name} {value if isinstance(value, str) else f'{value:.{digits}g}'}" for name, value in said)


def values_by_place(
    rows: SeenRows, places: Int[np.ndarray, " place"], times: Float[np.ndarray, " time"]
) -> Float[np.ndarray, "place time"]:
    """What was measured at each of these places and times, NaN where nothing was; the mean where there is more than one."""
    number = np.full(rows.num_places, -1)
    number[places] = np.arange(len(places))
    column = np.minimum(np.searchsorted(times, rows.times), len(times) - 1)
    wanted = (number[rows.place] >= 0) & (times[column] == rows.times) & ~np.isnan(rows.values)
    cell = number[rows.place[wanted]] * len(times) + column[wanted]
    size = len(places) * len(times)
    counts, sums = np.bincount(cell, minlength=size), np.bincount(cell, rows.values[wanted], size)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan).reshape(len(places), len(times))


def as_seconds(clock: Clock, times: Float[np.ndarray, " row"]) -> Float[np.ndarray, " row"]:
    """Seconds since 1970 in UTC, or the numbers themselves where times have no date."""
    if clock.origin is None:
        return times
    return float(np.datetime64(clock.origin, "s").astype(np.int64)) + times * UNIT_SECONDS[clock.unit]


def time_labels(clock: Clock, times: Float[np.ndarray, " row"]) -> tuple[str, ...]:
    """Times as people write them, no longer than they need to be."""
    import pandas as pd

    if clock.origin is None:
        return tuple(f"{time:.6g}" for time in times)
    seconds = np.rint(as_seconds(clock, times)).astype(np.int64).astype("datetime64[s]")
    instants = pd.DatetimeIndex(seconds).tz_localize("UTC").tz_convert(clock.time_zone or "UTC")
    whole_days = bool(np.all(instants == instants.normalize()))
    return tuple(instants.strftime("%Y-%m-%d" if whole_days else "%Y-%m-%d %H:%M"))


def _with_places(gp: "SpaceTimeGP", measured: Measurements, labels: np.ndarray | None) -> SeenRows:
    assert measured.values is not None
    space = [name for name in gp.fitted_.roles.where if name in measured.space]
    first, place = distinct_rows([measured.space[name] for name in space])
    places = {name: measured.space[name][first] for name in space}
    names = [place_in_words(places, k, 5) for k in range(len(first))]
    if labels is not None:
        named = _first_named(labels, place, len(first))
        names = _made_distinct([names[k] if row < 0 else str(labels[row]) for k, row in enumerate(named)])
    times = gp.fitted_.translation.clock.numbers(measured.time, gp.fitted_.roles.time)
    return SeenRows(measured, times, measured.values, place, places, tuple(names), labels is not None)


def _station_column(table: Table, station: str | None) -> np.ndarray | None:
    """The column of names, or None where there is none."""
    by_lower = {str(name).lower(): name for name in table.names}
    found = station if station is not None else next((by_lower[w] for w in _STATION_WORDS if w in by_lower), None)
    return None if found is None else table.column(found).to_numpy(dtype=object)


def _first_named(labels: np.ndarray, place: Int[np.ndarray, " row"], num_places: int) -> Int[np.ndarray, " place"]:
    """The first row of each place whose label is neither missing nor blank; -1 where there is none."""
    import pandas as pd

    number, distinct = pd.factorize(labels)
    says_something = np.array([bool(str(label).strip()) for label in distinct], dtype=bool)
    rows = np.flatnonzero(number >= 0)
    rows = rows[says_something[number[rows]]]
    found = np.full(num_places, -1, dtype=np.int64)
    # Backwards, so that the first row is the one that stays.
    found[place[rows[::-1]]] = rows[::-1]
    return found


def _made_distinct(names: Sequence[str]) -> list[str]:
    """Names of places, with a number behind those that stand for several (a station that moved)."""
    seen: dict[str, int] = {}
    distinct = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        distinct.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return distinct
