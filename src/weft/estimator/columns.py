# SPDX-License-Identifier: MIT
"""Which column of a table is what, and the columns themselves as read from it."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, final

import numpy as np
from jaxtyping import Bool, Float, Int

from weft.data.categories import Labels, is_category, is_kinds, labels_of
from weft.data.clock import Binning, Clock, Times, times_of
from weft.data.missing import target_values, without_missing
from weft.data.observations import ROW_EXTRAS
from weft.data.packed import PackedTable, Repeated
from weft.data.scaling import Column
from weft.data.tables import Table, as_table, distinct_rows, numbers
from weft.phases import timing

__all__ = [
    "Measurements",
    "PackedMeasurements",
    "Roles",
    "make_roles",
    "read_measurements",
    "read_packed",
    "read_to_learn",
    "roles_among",
]

# What a covariate's slope may be: one, or one that varies in space.
LINEAR, LOCAL = "linear", "local"
EXTRAS = tuple(ROW_EXTRAS)


@final
@dataclasses.dataclass(frozen=True)
class Roles:
    """Columns by what they are for; `extras` maps noise_variance, exposure and trials to theirs, where there is one.

    A time in parts is named by its columns: "year,month,day". `missing` are values of the target that mean there is none.
    `categories` are those covariates that say of which kind a row is, `kinds` those columns of space, as far as a table has told
    (`seen_in`); `local` are covariates whose slopes vary in space. `area` names the area a row is the mean over.
    """

    time: str
    space: tuple[str, ...]
    target: str
    covariates: tuple[str, ...]
    extras: dict[str, str]
    categories: tuple[str, ...] = ()
    local: tuple[str, ...] = ()
    missing: tuple[float, ...] = ()
    kinds: tuple[str, ...] = ()
    area: str | None = None

    @property
    def where(self) -> tuple[str, ...]:
        """The columns that say where a row is, or which area it is the mean over."""
        return self.space if self.area is None else (*self.space, self.area)

    @property
    def coordinates(self) -> tuple[str, ...]:
        """The columns that every table needs, to say when and where."""
        return (self.time, *self.space, *self.covariates)

    @property
    def columns(self) -> tuple[str, ...]:
        """All that a table to learn from has; that of areas may be missing from others, whose rows are all at places."""
        area = () if self.area is None else (self.area,)
        return (*self.coordinates, *area, self.target, *self.extras.values())

    @property
    def numeric(self) -> tuple[str, ...]:
        """The columns that are numbers in every row of a table to learn from."""
        return (self.target, *self.extras.values())

    @property
    def of_places(self) -> tuple[str, ...]:
        """The columns that tell places apart."""
        return tuple(dict.fromkeys((*self.where, *self.covariates)))

    def table(self, data: Any, *, with_target: bool) -> Table:
        """`data` as a table with the columns needed; those of extras must be there where the target must."""
        needed = [name for name in self.columns if name != self.area] if with_target else self.coordinates
        return as_table(data, needed)

    def seen_in(self, table: Table) -> "Roles":
        """The same, with the covariates and columns of space that are categories by what the table holds."""
        found = tuple(name for name in self.covariates if is_category(table.column(name), name))
        for name in found:
            if name in self.local:
                raise TypeError(
                    f"covariate {name!r} holds kinds, which have no slope to vary in space; leave out 'local'"
                )
        if self.area is not None:
            table.column(self.area)
        kinds = tuple(name for name in self.space if is_kinds(table.column(name), name))
        return dataclasses.replace(self, categories=found, kinds=kinds)

    def read(self, table: Table, name: str) -> Column:
        """A column of space or a covariate: numbers, or the kind of each row."""
        column = table.column(name)
        return labels_of(column) if name in (*self.categories, *self.kinds, self.area) else numbers(column, name)


def make_roles(
    time: Any, space: Any, target: Any, covariates: Any = (), missing: Any = (), area: Any = None, **extras: Any
) -> Roles:
    """Checked roles; one column's name may stand for a tuple of one, and None for none."""
    if isinstance(time, tuple | list) and all(isinstance(part, str) for part in time):
        time = ",".join(time)
    names, local = read_covariates(covariates)
    chosen = {"space": _several(space), "covariates": names}
    given = {name: column for name, column in extras.items() if column is not None}
    single = {"time": time, "target": target, **({} if area is None else {"area": area}), **given}
    for option, column in [
        *single.items(),
        *((option, column) for option, columns in chosen.items() for column in columns),
    ]:
        if not isinstance(column, str):
            raise TypeError(f"{option} must name a column of the table; it is {column!r}")
    if not chosen["space"]:
        raise ValueError("space names no column; give at least one, such as space=('lon', 'lat')")
    # An elevation may say where, and have a linear effect of its own.
    for others in chosen.values():
        used = [time, *others, target, *(() if area is None else (area,))]
        repeated = sorted({column for column in used if used.count(column) > 1})
        if repeated:
            raise ValueError(
                f"column {repeated[0]!r} is named twice among time, space, covariates, target and area; name it once (a column of "
                "space may be a covariate too)"
            )
    return Roles(
        time,
        chosen["space"],
        target,
        chosen["covariates"],
        given,
        local=local,
        missing=_missing_values(missing),
        area=area,
    )


def read_covariates(given: Any) -> tuple[tuple[Any, ...], tuple[str, ...]]:
    """Names of covariates, and those of them with slopes that vary in space: {"ndvi": "local"}, or "ndvi:local" where all is text."""
    if isinstance(given, Mapping):
        wrong = [kind for kind in given.values() if kind not in (LINEAR, LOCAL)]
        if wrong:
            raise ValueError(f"a covariate is {LINEAR!r} or {LOCAL!r}; one of them is {wrong[0]!r}")
        return tuple(given), tuple(name for name, kind in given.items() if kind == LOCAL)
    mark = f":{LOCAL}"
    marked = [
        (name.removesuffix(mark), name.endswith(mark)) if isinstance(name, str) else (name, False)
        for name in _several(given)
    ]
    return tuple(name for name, _ in marked), tuple(name for name, is_local in marked if is_local)


def roles_among(arguments: Mapping[str, Any]) -> Roles:
    """The roles that an estimator's arguments say."""
    extras = {name: arguments[name] for name in EXTRAS}
    named = ("time", "space", "target", "covariates", "missing", "area")
    return make_roles(*(arguments[name] for name in named), **extras)


def _missing_values(missing: Any) -> tuple[float, ...]:
    try:
        return tuple(float(value) for value in np.atleast_1d(np.asarray(() if missing is None else missing)))
    except (TypeError, ValueError):
        raise ValueError(f"missing must be numbers that mean no value, such as -9999; it is {missing!r}") from None


def _several(columns: Any) -> tuple[Any, ...]:
    if columns is None:
        return ()
    return (columns,) if isinstance(columns, str) or not isinstance(columns, Iterable) else tuple(columns)


@final
@dataclasses.dataclass(frozen=True)
class Measurements:
    """Columns of a table by role, in its order; `values` is None where the target was not asked for.

    `covariates` are those that are numbers, `categories` the levels of the others; `space` has the column of areas too, if there is one.
    """

    time: Times
    space: dict[str, Column]
    covariates: dict[str, Float[np.ndarray, " row"]]
    categories: dict[str, Labels]
    values: Float[np.ndarray, " row"] | None
    extras: dict[str, Float[np.ndarray, " row"]]

    @property
    def num_rows(self) -> int:
        return len(self.time)

    @property
    def num_missing(self) -> int:
        """Rows without a value."""
        return 0 if self.values is None else int(np.isnan(self.values).sum())

    def usual(self, name: str, rows: Any = slice(None)) -> float | str:
        """What a covariate is on average over rows, or the level that it, or a column of space, has most often."""
        if name in self.covariates:
            return float(np.mean(self.covariates[name][rows]))
        labels = self.categories[name] if name in self.categories else self.space[name]
        levels, counts = np.unique(labels[rows], return_counts=True)
        return str(levels[np.argmax(counts)])

    @property
    def covariates_of_rows(self) -> dict[str, Float[np.ndarray, " row"]]:
        return self.covariates

    def numbered_places(self) -> Int[np.ndarray, " row"]:
        """The number of each row's place among those that differ in space."""
        return distinct_rows(list(self.space.values()))[1]

    def of_each_row(self, numbers: Float[np.ndarray, " row"]) -> Float[np.ndarray, " row"]:
        """What was made of `time`, row by row."""
        return numbers

    def by_time(self, numbers: Float[np.ndarray, " row"]) -> Float[np.ndarray, " row"]:
        """What was made of `time`, for all rows."""
        return numbers

    def by_place(self, numbers: Float[np.ndarray, "row dim"]) -> Float[np.ndarray, "row dim"]:
        """What was made of the columns that tell places apart, for all rows."""
        return numbers

    def times_of(self, rows: Bool[np.ndarray, " row"]) -> np.ndarray:
        """Which entries of `time` these rows have."""
        return rows

    def places_of(self, rows: Bool[np.ndarray, " row"]) -> np.ndarray:
        """Which entries of the columns that tell places apart these rows have."""
        return rows

    def binning(self, clock: Clock, name: str) -> Binning | None:
        return clock.binning(self.time, name)

    def require_value(self, roles: Roles, purpose: str) -> None:
        """Raise unless a row has a value; `purpose` ends the sentence "there is nothing to ..."."""
        if self.num_missing == self.num_rows:
            raise ValueError(f"no row has a value of {roles.target!r}, so there is nothing to {purpose}")

    def take(self, rows: Int[np.ndarray, " some"]) -> "Measurements":
        """These rows, in this order."""
        return Measurements(
            time=self.time.take(rows),
            space={name: column[rows] for name, column in self.space.items()},
            covariates={name: column[rows] for name, column in self.covariates.items()},
            categories={name: column[rows] for name, column in self.categories.items()},
            values=None if self.values is None else self.values[rows],
            extras={name: column[rows] for name, column in self.extras.items()},
        )


@final
@dataclasses.dataclass(frozen=True)
class PackedMeasurements:
    """The same of a `PackedTable`, to learn from: `time` has each time once, and columns that tell places apart have each place once."""

    time: Times
    space: dict[str, Float[np.ndarray, " place"] | Labels]
    covariates: dict[str, Float[np.ndarray, " place"]]
    categories: dict[str, Labels]
    values: Float[np.ndarray, " row"]
    extras: dict[str, Float[np.ndarray, " row"]]
    time_of_row: Int[np.ndarray, " row"]
    place_of_row: Int[np.ndarray, " row"]

    @property
    def num_rows(self) -> int:
        return len(self.values)

    @property
    def num_missing(self) -> int:
        """Rows without a value."""
        return int(np.isnan(self.values).sum())

    @property
    def covariates_of_rows(self) -> dict[str, Float[np.ndarray, " row"]]:
        return {name: column[self.place_of_row] for name, column in self.covariates.items()}

    # As of `Measurements`.

    def numbered_places(self) -> Int[np.ndarray, " row"]:
        return distinct_rows(list(self.space.values()))[1][self.place_of_row]

    def of_each_row(self, numbers: Float[np.ndarray, " time"]) -> Float[np.ndarray, " row"]:
        return numbers[self.time_of_row]

    def by_time(self, numbers: Float[np.ndarray, " time"]) -> Repeated:
        return Repeated(numbers, self.time_of_row)

    def by_place(self, numbers: Float[np.ndarray, "place dim"]) -> Repeated:
        return Repeated(numbers, self.place_of_row)

    def times_of(self, rows: Bool[np.ndarray, " row"]) -> np.ndarray:
        return np.flatnonzero(np.bincount(self.time_of_row[rows]))

    def places_of(self, rows: Bool[np.ndarray, " row"]) -> np.ndarray:
        return np.flatnonzero(np.bincount(self.place_of_row[rows]))

    def binning(self, clock: Clock, name: str) -> Binning | None:
        return clock.binning(self.time, name, np.bincount(self.time_of_row))


def read_to_learn(table: Table | PackedTable, named: Roles) -> tuple[Roles, Measurements | PackedMeasurements]:
    """Columns to learn from, and their roles by what they hold."""
    if isinstance(table, PackedTable):
        roles = named.seen_in(as_table(table.places.each))
        return roles, read_packed(table, roles)
    roles = named.seen_in(table)
    return roles, read_measurements(table, roles, with_target=True)


@timing("read")
def read_packed(table: PackedTable, roles: Roles) -> PackedMeasurements:
    times, places = as_table(table.times.each), as_table(table.places.each)
    values = table.numbers[roles.target]
    space = {name: roles.read(places, name) for name in roles.where}
    for name in roles.space if roles.area is None else ():
        nowhere = places.column(name).isna().to_numpy() & (name not in roles.kinds)
        if nowhere.any():
            count = int(np.count_nonzero(nowhere[table.places.number]))
            raise ValueError(
                f"column {name!r} must hold a number in every row; {count} row{'s' if count > 1 else ''} of "
                f"{table.num_rows} hold none: fill it in or leave the row out"
            )
    return PackedMeasurements(
        time=times_of(times, roles.time),
        space=space,
        covariates={
            name: numbers(places.column(name), name) for name in roles.covariates if name not in roles.categories
        },
        categories={name: labels_of(places.column(name)) for name in roles.categories},
        values=without_missing(values, roles.missing),
        extras={extra: table.numbers[column] for extra, column in roles.extras.items()},
        time_of_row=table.times.number,
        place_of_row=table.places.number,
    )


@timing("read")
def read_measurements(table: Table, roles: Roles, *, with_target: bool) -> Measurements:
    """The columns of `roles`. Extras are optional where the target is: a new row has none unless the table says so."""
    return Measurements(
        time=times_of(table, roles.time),
        space={name: roles.read(table, name) for name in roles.where if name != roles.area or name in table.names},
        covariates={
            name: numbers(table.column(name), name) for name in roles.covariates if name not in roles.categories
        },
        categories={name: labels_of(table.column(name)) for name in roles.categories},
        values=target_values(table, roles.target, roles.missing) if with_target else None,
        extras={
            extra: numbers(table.column(column), column)
            for extra, column in roles.extras.items()
            if with_target or column in table.names
        },
    )
