# SPDX-License-Identifier: MIT
"""A fit and what follows it, without the fit: what would be refused after hours is refused now."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from weft.arrays import require_whole
from weft.data.tables import FrameTable, Table, as_table
from weft.data.transforms import check_levels
from weft.estimator.answers import quantile_name
from weft.estimator.columns import Measurements, Roles, read_measurements, roles_among
from weft.estimator.evaluation import make_sheet
from weft.estimator.learning import options_among, translation_for
from weft.estimator.precision import in_float64
from weft.estimator.translation import Translation
from weft.estimator.validation import NUM_FOLDS, ahead_of, folds_of
from weft.inference.prediction import check_of
from weft.options import Options
from weft.phases import timing

__all__ = ["Prepared", "check_folds", "check_question", "check_station", "check_terrain", "prepare"]

# Rows of a table to predict that are looked at: all there are but of a grid that may be larger than memory.
_ROWS_LOOKED_AT = 1_000_000


class Prepared(NamedTuple):
    """What an estimator would learn from, and in which units."""

    options: Options
    roles: Roles
    table: Table
    rows: Measurements
    translation: Translation


@timing("survey")
@in_float64
def prepare(arguments: Mapping[str, Any], table: Any) -> Prepared:
    """Rows read and units learned as `SpaceTimeGP(**arguments).fit` does; what cannot be fitted raises as there."""
    options = options_among(arguments)
    named = roles_among(vars(options))
    seen = named.table(table, with_target=True)
    roles = named.seen_in(seen)
    rows = read_measurements(seen, roles, with_target=True)
    return Prepared(options, roles, seen, rows, translation_for(options, roles, rows))


def check_folds(prepared: Prepared, kinds: Sequence[str], num_folds: int | None, horizon: Any = None) -> None:
    """Refuse more folds than there are rows, places or times to hold out, and a horizon longer than the series."""
    count = NUM_FOLDS if num_folds is None else num_folds
    require_whole("folds", count, 1)
    sheet = make_sheet(prepared.rows, prepared.translation)
    for by in kinds:
        if by == "time" and horizon is not None:
            list(ahead_of(sheet, prepared.translation, by, horizon, count)[1])
            continue
        folds_of(sheet, by, count, prepared.options.seed)


def check_question(prepared: Prepared, table: Any, quantiles: Sequence[float], of: str) -> None:
    """Refuse a table that could not be predicted, or quantiles of no level."""
    check_of(of)
    levels = check_levels(quantiles).tolist()
    asked = prepared.roles.table(table, with_target=False)
    rows = read_measurements(asked.rows(0, _ROWS_LOOKED_AT), prepared.roles, with_target=False)
    prepared.translation.times(rows)
    prepared.translation.places(rows)
    if isinstance(asked, FrameTable):
        answer = np.zeros(min(asked.num_rows, 1))
        asked.rows(0, 1).with_columns(dict.fromkeys(("mean", "sd", "latent_sd", *map(quantile_name, levels)), answer))


def check_station(prepared: Prepared, station: str | None) -> None:
    """Refuse a column of stations' names that the table has not."""
    if station is not None:
        prepared.table.rows(0, 1).column(station)


def check_terrain(prepared: Prepared, terrain: Any) -> None:
    """Refuse heights without the columns of a map, which is of two columns of space and needs the others' values."""
    space = prepared.roles.space
    if terrain is None or len(space) < 3:
        return
    table = as_table(terrain, space)
    for name in space:
        prepared.roles.read(table, name)
