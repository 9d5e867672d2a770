# SPDX-License-Identifier: MIT
"""Forecasts are predictions at the times that come next."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import xarray as xr

import weft
from weft.data.clock import learn_clock
from weft.estimator.forecasting import future_times

ANSWERS = ["mean", "sd", "latent_sd", "q0.05", "q0.95"]


class Seen:
    """A column of times as a model has seen it."""

    def __init__(self, column: pd.Series, **options: object):
        self.clock = learn_clock(column, **options)
        self.times = np.unique(self.clock.numbers(column))

    def ahead(self, horizon: object) -> list:
        return self.clock.restore(future_times(self.clock, self.times, horizon)).tolist()


def test_stations_are_forecast_at_the_next_days(fitted: weft.SpaceTimeGP, table: pd.DataFrame) -> None:
    answer = fitted.forecast("3D")
    assert list(answer.columns) == ["time", "lon", "lat", "elevation", *ANSWERS]
    assert len(answer) == 3 * 6
    assert list(answer["time"].unique()) == list(pd.date_range("2021-03-26", periods=3))
    stations = table.drop_duplicates("station")[["station", "lon", "lat", "elevation"]]
    asked = pd.concat([stations.assign(time=day) for day in pd.date_range("2021-03-26", periods=3)])
    expected = fitted.predict(asked)
    places = dict.fromkeys(("lon", "lat", "elevation"), 6)
    merged = answer.round(places).merge(expected.round(places), on=["time", *places])
    assert len(merged) == 18
    for name in ANSWERS:
        np.testing.assert_allclose(merged[f"{name}_x"], merged[f"{name}_y"], rtol=1e-7)


def test_places_of_a_table_or_a_grid(fitted: weft.SpaceTimeGP, table: pd.DataFrame) -> None:
    places = pd.DataFrame({"name": ["a", "b"], "lon": [10.3, 11.2], "lat": [47.7, 48.2], "elevation": [310.0, 90.0]})
    days = pd.date_range("2021-03-26", periods=2)
    asked = pd.concat([places.assign(time=day) for day in days], ignore_index=True)
    expected = fitted.predict(asked, quantiles=(0.3,), of="field")
    found = fitted.forecast("2D", at=places, quantiles=(0.3,), of="field")
    pd.testing.assert_frame_equal(found, expected[found.columns])
    assert list(found.columns) == ["time", "name", "lon", "lat", "elevation", "mean", "sd", "latent_sd", "q0.3"]

    from_polars = fitted.forecast("2D", at=pl.from_pandas(places))
    assert isinstance(from_polars, pl.DataFrame)
    np.testing.assert_allclose(from_polars["mean"], expected["mean"], rtol=1e-12)
    # A table with times of its own stands for its places.
    assert len(fitted.forecast("1D", at=table)) == 6

    grid = xr.Dataset(
        {"elevation": (("lat", "lon"), [[100.0, 300.0], [500.0, 50.0]])},
        coords={"lat": [47.2, 48.1], "lon": [10.4, 11]},
    )
    maps = fitted.forecast("2D", at=grid)
    assert maps["mean"].dims == ("time", "lat", "lon")
    np.testing.assert_array_equal(maps["time"], days)
    np.testing.assert_array_equal(maps["mean"], fitted.predict(grid.assign_coords(time=days))["mean"])
    np.testing.assert_array_equal(fitted.forecast("2D", at=maps[["elevation"]])["mean"], maps["mean"])


def test_times_that_come_next() -> None:
    days = pd.Series(pd.date_range("2020-01-01", periods=9))
    assert Seen(days).ahead("1W") == list(pd.date_range("2020-01-10", periods=7))
    assert Seen(days).ahead(pd.Timedelta("36h")) == [pd.Timestamp("2020-01-10")]
    # One gap does not change the usual step.
    assert Seen(days.drop(4)).ahead("2D") == list(pd.date_range("2020-01-10", periods=2))
    assert Seen(days.dt.strftime("%d.%m.%Y")).ahead("2D") == ["10.01.2020", "11.01.2020"]
    late = pd.Series(pd.date_range("2020-01-01 00:13", periods=9, freq="6h"))
    assert Seen(late, time_step="12h").ahead("1D") == list(pd.date_range("2020-01-03 12:00", periods=2, freq="12h"))
    months = pd.Series(pd.date_range("2019-01-01", periods=14, freq="MS"))
    assert Seen(months).ahead("365D") == list(pd.date_range("2020-03-01", periods=12, freq="MS"))
    ends = pd.Series(pd.date_range("2019-01-31", periods=14, freq="ME"))
    assert Seen(ends).ahead("100D") == list(pd.date_range("2020-03-31", periods=3, freq="ME"))
    assert Seen(pd.Series([0.0, 0.5, 1.0, 1.5])).ahead(1.2) == [2.0, 2.5]
    assert Seen(pd.Series([0.0, 0.5, 1.0, 1.5])).ahead("1") == [2.0, 2.5]


def test_horizons_that_are_none(fitted: weft.SpaceTimeGP, table: pd.DataFrame) -> None:
    for wrong in ("soon", "30", 30, None, "0D"):
        with pytest.raises(ValueError, match="the horizon must be like '1D', '6h'"):
            fitted.forecast(wrong)
    with pytest.raises(ValueError, match="the horizon must be positive"):
        fitted.forecast(pd.Timedelta("-1D"))
    with pytest.raises(ValueError, match=r"'6h' is shorter than the step between times \(1 days\)"):
        fitted.forecast("6h")
    for wrong in ("30D", -1, "x"):
        with pytest.raises(ValueError, match="times are plain numbers, so the horizon must be a positive number"):
            Seen(pd.Series([0.0, 1.0])).ahead(wrong)
    with pytest.raises(KeyError, match="table has no column 'elevation'"):
        fitted.forecast("3D", at=table[["lon", "lat"]])
    hills = xr.Dataset(
        {"elevation": (("time", "lat", "lon"), np.ones((2, 1, 1)))},
        coords={"time": pd.date_range("2021-01-01", periods=2), "lat": [47.2], "lon": [10.4]},
    )
    with pytest.raises(ValueError, match="'elevation' of the grid changes in time"):
        fitted.forecast("3D", at=hills)
