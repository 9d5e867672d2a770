# SPDX-License-Identifier: MIT
import datetime
import decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.data.tables import as_table, distinct_rows, numbers


@pytest.fixture
def frame():
    """Unsorted, with a duplicated row, an index with duplicates, a time zone and missing values."""
    return pd.DataFrame(
        {
            "time": pd.to_datetime(["2020-03-09", "2020-03-07", "2020-03-07", "2020-03-08"]).tz_localize(
                "America/Lima"
            ),
            "station": pd.Categorical(["b", "a", "a", "c"]),
            "value": [1.5, np.nan, np.nan, -2.0],
            "count": [3, 1, 1, 2],
        },
        index=[7, 7, 7, 2],
    )


def kinds(frame):
    return {
        "pandas": frame,
        "polars": pl.from_pandas(frame),
        "pyarrow": pa.Table.from_pandas(frame, preserve_index=False),
    }


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_frames_give_equal_columns_and_come_back_in_kind_and_order(frame, kind):
    table = as_table(kinds(frame)[kind], ["time", "value"])
    assert (table.kind, table.num_rows) == (kind, 4)
    np.testing.assert_array_equal(numbers(table.column("value"), "value"), [1.5, np.nan, np.nan, -2.0])
    np.testing.assert_array_equal(numbers(table.column("count"), "count"), [3.0, 1.0, 1.0, 2.0])
    assert str(table.column("time").dt.tz) == "America/Lima"
    assert list(table.column("time")) == list(frame["time"])
    out = table.with_columns({"mean": np.array([4.0, 3.0, 2.0, 1.0])})
    assert type(out) is type(kinds(frame)[kind])
    back = as_table(out)
    assert back.names == ("time", "station", "value", "count", "mean")
    np.testing.assert_array_equal(back.column("mean"), [4.0, 3.0, 2.0, 1.0])
    assert list(back.column("time")) == list(frame["time"])
    only = as_table(table.with_columns({"mean": np.arange(4.0), "sd": np.ones(4)}, keep=["time"]))
    assert only.names == ("time", "mean", "sd")
    assert as_table(table.with_columns({"mean": np.arange(4.0)}, keep=())).names == ("mean",)
    np.testing.assert_array_equal(table.rows(1, 3).column("count"), [1, 1])


def test_pandas_keeps_an_index_with_duplicates_and_leaves_the_input_alone(frame):
    before = frame.copy()
    out = as_table(frame).with_columns({"mean": np.arange(4.0)})
    pd.testing.assert_index_equal(out.index, frame.index)
    pd.testing.assert_frame_equal(frame, before)
    pd.testing.assert_frame_equal(out[frame.columns.tolist()], frame)


def test_named_levels_of_a_pandas_index_are_columns():
    frame = pd.DataFrame({"value": [1.0, 2.0]}, index=pd.DatetimeIndex(["2020-01-02", "2020-01-01"], name="date"))
    table = as_table(frame, ["date", "value"])
    assert list(table.column("date")) == list(frame.index)
    assert list(table.with_columns({"mean": np.zeros(2)}).index) == list(frame.index)


def grid():
    return xr.Dataset(
        {
            "tmax": (("time", "lat", "lon"), np.arange(24.0).reshape(2, 3, 4)),
            "elevation": (("lat", "lon"), np.arange(12.0).reshape(3, 4)),
        },
        coords={
            "time": pd.to_datetime(["2020-01-01", "2020-01-02"]),
            "lat": [1.0, 2.0, 3.0],
            "lon": [5.0, 6.0, 7.0, 8.0],
        },
    )


def test_points_of_a_grid_are_rows_and_come_back_as_a_grid():
    dataset = grid()
    table = as_table(dataset, ["lon", "lat", "elevation", "time", "tmax"])
    expected = dataset.to_dataframe().reset_index()
    assert table.num_rows == 24
    for name in ("time", "lat", "lon", "elevation", "tmax"):
        assert list(table.column(name)) == list(expected[name])
        assert list(table.rows(5, 17).column(name)) == list(expected[name][5:17])
        assert list(table.rows(5, 17).rows(2, 40).column(name)) == list(expected[name][7:17])
    out = table.with_columns({"mean": np.arange(24.0) * 2}, keep=())
    assert list(out.data_vars) == ["mean"]
    xr.testing.assert_equal(out["mean"], (dataset["tmax"] * 2).rename("mean"))
    with pytest.raises(ValueError, match="all 24 points"):
        table.rows(0, 3).with_columns({"mean": np.zeros(3)})


def test_only_the_dimensions_asked_for_make_rows():
    table = as_table(grid(), ["lat", "lon"])
    assert table.num_rows == 12
    assert table.names == ("lat", "lon", "elevation")
    out = table.with_columns({"mean": np.arange(12.0)})
    assert out["mean"].dims == ("lat", "lon")
    assert "time" not in out.coords


def test_stations_along_a_dimension_of_their_own():
    dataset = xr.Dataset(
        {"value": (("time", "station"), np.arange(6.0).reshape(2, 3))},
        coords={"time": [0, 1], "station": ["NA", "b", "c"], "lat": ("station", [4.0, 5.0, 6.0])},
    )
    table = as_table(dataset["value"], ["time", "lat", "value"])
    assert list(table.column("lat")) == [4.0, 5.0, 6.0, 4.0, 5.0, 6.0]
    assert list(table.column("station")) == ["NA", "b", "c"] * 2


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ([1, 2], "builtins.list"),
        (np.zeros((2, 2)), "numpy.ndarray"),
        (pl.LazyFrame({"a": [1]}), "collect"),
        (pd.Series([1.0]), "pandas"),
    ],
)
def test_what_is_no_table_is_refused_by_its_type(data, words):
    with pytest.raises(TypeError, match=words):
        as_table(data)


def test_missing_and_clashing_columns_are_named(frame):
    with pytest.raises(KeyError, match=r"no column 'valu'; it has .*did you mean 'value'"):
        as_table(frame, ["valu"])
    with pytest.raises(KeyError, match="no column 'x'"):
        as_table(grid(), ["x"])
    with pytest.raises(ValueError, match="already has a column 'value'"):
        as_table(frame).with_columns({"value": np.zeros(4)})
    with pytest.raises(ValueError, match="3 values for 4 rows"):
        as_table(frame).with_columns({"mean": np.zeros(3)})
    with pytest.raises(ValueError, match=r"have one name; .*'a'"):
        as_table(pd.DataFrame(np.zeros((1, 2)), columns=["a", "a"]))
    with pytest.raises(ValueError, match=r"have one name; .*'a'"):
        as_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]))


@pytest.mark.parametrize(
    "column",
    [
        pd.Series([1, None, 3], dtype="Int64"),
        pd.Series([1.0, None, 3.0], dtype="Float64"),
        pd.Series(["1", "NA", " 3 "]),
        pd.Series(["1", "", "3"], dtype="category"),
        pd.Series([decimal.Decimal(1), None, decimal.Decimal(3)]),
        pd.Series([1, None, 3], dtype="int64[pyarrow]"),
    ],
)
def test_numbers_in_any_dress_are_read(column):
    np.testing.assert_array_equal(numbers(column, "x"), [1.0, np.nan, 3.0])


def test_what_is_no_number_is_named_by_row_and_value():
    with pytest.raises(
        ValueError, match=r"'x' must hold numbers; row 1 \(counting from 0\) has 'cold', and 1 more row"
    ):
        numbers(pd.Series(["1", "cold", "hot"]), "x")
    with pytest.raises(ValueError, match=r"finite numbers; row 2 \(counting from 0\) has -?inf"):
        numbers(pd.Series([1.0, 2.0, -np.inf]), "x")
    with pytest.raises(TypeError, match="holds times"):
        numbers(pd.Series([datetime.datetime(2020, 1, 1)]), "x")


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.sampled_from([0.0, -1.5, np.nan]), st.integers(0, 2)), max_size=12))
def test_distinct_rows_equal_a_dictionary(rows):
    columns = [np.array([row[0] for row in rows]), np.array([row[1] for row in rows])]
    first, inverse = distinct_rows(columns)
    seen: dict = {}
    for number, (a, b) in enumerate(rows):
        seen.setdefault((str(a), b), number)
    assert list(first) == list(seen.values())
    assert [list(seen)[code] for code in inverse] == [(str(a), b) for a, b in rows]
