# SPDX-License-Identifier: MIT
"""Copies of rows, counted by hash as pandas counts them by value."""

import numpy as np
import pandas as pd
import xarray as xr

from weft.data.copies import Copies, find_copies
from weft.data.tables import as_table


def odd_table() -> pd.DataFrame:
    """Few distinct values of every kind of column, so that many rows are equal in some columns and a few in all."""
    rng = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "time": pd.to_datetime("2020-01-01", utc=True) + pd.to_timedelta(rng.integers(0, 3, 90), unit="h"),
            "station": pd.Categorical(rng.choice(["a", "b", "c"], 90)),
            "first": rng.choice([0.1, 0.2, np.nan], 90),
            "second": rng.choice([0.1, 0.2, np.nan], 90),
            "note": rng.choice(np.array(["ok", None, 7], dtype=object), 90),
        }
    )


def test_copies_are_those_of_all_columns() -> None:
    table = odd_table()
    copied = table.duplicated()
    assert 0 < copied.sum() < 60
    first = int(np.argmax(copied))
    original = int(np.flatnonzero((table[:first].fillna(-1) == table.iloc[first].fillna(-1)).all(axis=1))[0])
    assert find_copies(as_table(table)) == Copies(int(copied.sum()), first, original)
    lists = pd.DataFrame({"a": [1, 1, 1], "b": pd.Series([[1, 2], [3], [1, 2]], dtype=object)})
    assert find_copies(as_table(lists)) == Copies(1, 2, 0)
    # The same values the other way round are another row.
    swapped = pd.DataFrame({"first": [0.1, 0.2], "second": [0.2, 0.1]})
    assert find_copies(as_table(swapped)) == Copies(0, -1, -1)
    assert find_copies(as_table(table[:0])).number == 0


def test_a_grid_has_copies_only_where_its_coordinates_repeat() -> None:
    grid = xr.Dataset({"value": (("time", "place"), np.zeros((3, 2)))}, {"time": [1, 2, 3], "place": [5.0, 6.0]})
    assert find_copies(as_table(grid)).number == 0
    assert find_copies(as_table(grid.assign_coords(time=[1, 2, 1]))) == Copies(2, 4, 0)
