# SPDX-License-Identifier: MIT
"""Which column of a table is what, and the columns themselves as read from it."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, final

import numpy as np
from jaxtyping import Float, Int

from weft.data.clock import Times, times_of
from weft.data.tables import Table, as_table, numbers

__all__ = ["Measurements", "Roles", "make_roles", "read_measurements", "roles_among"]

EXTRAS = ("noise_variance", "exposure", "trials")


@final
@dataclasses.dataclass(frozen=True)
class Roles:
    """Columns by what they are for; `extras` maps noise_variance, exposure and trials to theirs, where there is one."""

    time: str
    space: tuple[str, ...]
    target: str
    covariates: tuple[str, ...]
    extras: dict[str, str]

    @property
    def coordinates(self) -> tuple[str, ...]:
        """The columns that every table needs, to say when and where."""
        return (self.time, *self.space, *self.covariates)

    @property
    def columns(self) -> tuple[str, ...]:
        """All that a table to learn from needs."""
        return (*self.coordinates, self.target, *self.extras.values())

    def table(self, data: Any, *, with_target: bool) -> Table:
        """`data` as a table with the columns needed; those of extras must be there where the target must."""
        return as_table(data, self.columns if with_target else self.coordinates)


def make_roles(time: Any, space: Any, target: Any, covariates: Any = (), **extras: Any) -> Roles:
    """Checked roles; one column's name may stand for a tuple of one, and None for none."""
    chosen = {"space": _several(space), "covariates": _several(covariates)}
    given = {name: column for name, column in extras.items() if column is not None}
    single = {"time": time, "target": target, **given}
    for option, column in [
        *single.items(),
        *((option, column) for option, columns in chosen.items() for column in columns),
    ]:
        if not isinstance(column, str):
            raise TypeError(f"{option} must name a column of the table; it is {column!r}")
    if not chosen["space"]:
        raise ValueError("space names no column; give at least one, such as space=('lon', 'lat')")
    used = [time, *chosen["space"], *chosen["covariates"], target]
    repeated = sorted({column for column in used if used.count(column) > 1})
    if repeated:
        raise ValueError(
            f"column {repeated[0]!r} is named twice among time, space, covariates and target; name it once"
        )
    return Roles(time, chosen["space"], target, chosen["covariates"], given)


def roles_among(arguments: Mapping[str, Any]) -> Roles:
    """The roles that an estimator's arguments say."""
    extras = {name: arguments[name] for name in EXTRAS}
    return make_roles(*(arguments[name] for name in ("time", "space", "target", "covariates")), **extras)


def _several(columns: Any) -> tuple[Any, ...]:
    if columns is None:
        return ()
    return (columns,) if isinstance(columns, str) or not isinstance(columns, Iterable) else tuple(columns)


@final
@dataclasses.dataclass(frozen=True)
class Measurements:
    """Columns of a table by role, in its order; `values` is None where the target was not asked for."""

    time: Times
    space: dict[str, Float[np.ndarray, " row"]]
    covariates: dict[str, Float[np.ndarray, " row"]]
    values: Float[np.ndarray, " row"] | None
    extras: dict[str, Float[np.ndarray, " row"]]

    @property
    def num_rows(self) -> int:
        return len(self.time)

    @property
    def num_missing(self) -> int:
        """Rows without a value."""
        return 0 if self.values is None else int(np.isnan(self.values).sum())

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
            values=None if self.values is None else self.values[rows],
            extras={name: column[rows] for name, column in self.extras.items()},
        )


def read_measurements(table: Table, roles: Roles, *, with_target: bool) -> Measurements:
    """The columns of `roles`. Extras are optional where the target is: a new row has none unless the table says so."""
    return Measurements(
        time=times_of(table, roles.time),
        space={name: numbers(table.column(name), name) for name in roles.space},
        covariates={name: numbers(table.column(name), name) for name in roles.covariates},
        values=numbers(table.column(roles.target), roles.target) if with_target else None,
        extras={
            extra: numbers(table.column(column), column)
            for extra, column in roles.extras.items()
            if with_target or column in table.names
        },
    )
