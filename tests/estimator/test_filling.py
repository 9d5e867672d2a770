# SPDX-License-Identifier: MIT
"""Gaps are filled with predictions, in the kind of table that was given; nothing else in it changes."""

import logging

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xarray as xr

import weft

GAPS = [3, 17, 40]


@pytest.fixture
def with_gaps(table: pd.DataFrame) -> pd.DataFrame:
    gaps = table.drop(columns=["wind", "own_noise"]).set_index("station")
    gaps.iloc[GAPS, gaps.columns.get_loc("value")] = np.nan
    return gaps[["value", "time", "lon", "lat", "elevation"]]


@pytest.mark.parametrize("of", ["observation", "field"])
def test_gaps_are_predictions_and_the_rest_stays(fitted: weft.SpaceTimeGP, with_gaps: pd.DataFrame, of: str) -> None:
    before = with_gaps.copy()
    filled = fitted.fill(with_gaps, of=of)
    expected = fitted.predict(with_gaps, quantiles=(), of=of)
    is_gap = with_gaps["value"].isna().to_numpy()
    assert list(np.flatnonzero(is_gap)) == GAPS
    assert list(filled.columns) == [*with_gaps.columns, "sd", "filled"]
    assert filled.index.equals(with_gaps.index)
    np.testing.assert_array_equal(filled["filled"], is_gap)
    np.testing.assert_array_equal(filled["value"], np.where(is_gap, expected["mean"], with_gaps["value"]))
    np.testing.assert_array_equal(filled["sd"], np.where(is_gap, expected["sd"], 0.0))
    pd.testing.assert_frame_equal(with_gaps, before)


@pytest.mark.parametrize("kind", ["polars", "pyarrow"])
def test_the_kind_of_table_comes_back(fitted: weft.SpaceTimeGP, with_gaps: pd.DataFrame, kind: str) -> None:
    arrow = pa.Table.from_pandas(with_gaps, preserve_index=False)
    given = pl.from_arrow(arrow) if kind == "polars" else arrow
    filled = fitted.fill(given)
    assert type(filled) is type(given)
    names = filled.columns if kind == "polars" else filled.column_names
    assert list(names) == [*with_gaps.columns, "sd", "filled"]
    np.testing.assert_array_equal(np.asarray(filled["value"]), fitted.fill(with_gaps)["value"].to_numpy())


def test_a_grid_keeps_its_dimensions(fitted: weft.SpaceTimeGP) -> None:
    grid = xr.Dataset(
        {
            "value": (("lat", "time", "lon"), np.where(np.arange(12).reshape(2, 3, 2) % 5 == 0, np.nan, 20.0)),
            "elevation": (("lat", "lon"), [[100.0, 300.0], [500.0, 50.0]]),
            "station": (("lat",), ["north", "south"]),
        },
        coords={"time": pd.date_range("2021-03-04", periods=3), "lat": [47.2, 48.1], "lon": [10.4, 11.7]},
    )
    grid["value"].attrs["units"] = "degC"
    filled = fitted.fill(grid)
    expected = fitted.predict(grid.drop_vars("value"))["mean"].transpose("lat", "time", "lon")
    assert filled["value"].dims == filled["sd"].dims == ("lat", "time", "lon")
    assert filled["value"].attrs == {"units": "degC"}
    assert list(filled["station"].values) == ["north", "south"]
    gap = np.isnan(grid["value"].values)
    np.testing.assert_array_equal(filled["filled"], gap)
    np.testing.assert_allclose(filled["value"].values[gap], expected.values[gap], rtol=1e-12)
    np.testing.assert_array_equal(filled["value"].values[~gap], 20.0)


def test_values_that_the_model_has_not_seen_are_said(
    fitted: weft.SpaceTimeGP, with_gaps: pd.DataFrame, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="weft"):
        fitted.fill(with_gaps)
        assert not caplog.records
        fitted.fill(with_gaps.assign(time=with_gaps["time"] + pd.Timedelta("100D")))
    assert f"{len(with_gaps) - len(GAPS)} of the table's values are at times and places" in caplog.text


def test_what_cannot_be_filled(fitted: weft.SpaceTimeGP, with_gaps: pd.DataFrame) -> None:
    with pytest.raises(KeyError, match="table has no column 'value'"):
        fitted.fill(with_gaps.drop(columns="value"))
    with pytest.raises(ValueError, match="already has a column 'sd', which is written here; rename it first"):
        fitted.fill(with_gaps.assign(sd=1.0))
    with pytest.raises(ValueError, match="of must be 'observation'"):
        fitted.fill(with_gaps, of="mean")
