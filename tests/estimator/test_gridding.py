# SPDX-License-Identifier: MIT
"""Grids by hand: where points lie, what terrain says there, and what is refused."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import weft
from weft.estimator.gridding import _in_one_piece

TERRAIN = xr.Dataset(
    {"elevation": (("lat", "lon"), 100.0 * np.arange(4)[:, None] + np.arange(5) - 2.0)},
    coords={"lat": [46.5, 47.5, 48.5, 49.5], "lon": [9.0, 10.0, 11.0, 12.0, 13.0]},
)


def test_points_are_multiples_of_the_step(fitted: weft.SpaceTimeGP, table: pd.DataFrame) -> None:
    grid = fitted.grid(0.25, times=["2021-03-05", "2021-03-07"], terrain=TERRAIN)
    for name in ("lon", "lat"):
        low, high = np.floor(table[name].min() / 0.25), np.ceil(table[name].max() / 0.25)
        np.testing.assert_array_equal(grid[name], np.arange(low, high + 1) * 0.25)
    np.testing.assert_array_equal(grid["time"], pd.to_datetime(["2021-03-05", "2021-03-07"]))
    assert grid["elevation"].dims == ("lat", "lon")
    lat, lon = np.meshgrid(grid["lat"], grid["lon"], indexing="ij")
    # Linear over the terrain's own cells.
    np.testing.assert_allclose(grid["elevation"], 100.0 * (lat - 46.5) + (lon - 9.0) - 2.0, atol=1e-9)
    maps = fitted.predict(grid, of="field")
    assert maps["mean"].dims == ("time", "lat", "lon")
    assert np.isfinite(maps["mean"]).all()


def test_kilometres(fitted: weft.SpaceTimeGP, table: pd.DataFrame) -> None:
    grid = fitted.grid("10km", terrain=TERRAIN["elevation"].rename({"lat": "latitude", "lon": "longitude"}))
    up = 10 / 111.195
    middle = np.radians((table["lat"].min() + table["lat"].max()) / 2)
    np.testing.assert_allclose(np.diff(grid["lat"]), up, rtol=1e-5)
    np.testing.assert_allclose(np.diff(grid["lon"]), up / np.cos(middle), rtol=1e-5)
    assert grid["lon"].min() <= table["lon"].min() < grid["lon"].min() + up / np.cos(middle)
    assert grid["time"].to_index().tolist() == [table["time"].max()]
    same = fitted.grid("10000m", terrain=TERRAIN.to_dataframe().reset_index())
    np.testing.assert_allclose(same["elevation"], grid["elevation"], rtol=1e-12)


def test_land_only(fitted: weft.SpaceTimeGP) -> None:
    sea = TERRAIN.copy()
    sea["elevation"] = sea["elevation"].where(sea["lat"] > 47.0, -50.0).where(sea["lon"] < 11.5)
    land = fitted.grid(0.5, terrain=sea, land_only=True)
    whole = fitted.grid(0.5, terrain=TERRAIN)
    assert land["elevation"].dims == land["lat"].dims == ("point",)
    assert 0 < land.sizes["point"] < whole["elevation"].size
    assert (land["elevation"] > 0).all()
    assert (land["lon"] <= 11.5).all()
    maps = fitted.predict(land)
    assert set(maps["mean"].dims) == {"time", "point"}
    with pytest.raises(ValueError, match=r"terrain has no 'elevation' at .* leave points without one out"):
        fitted.grid(0.5, terrain=sea)


def test_longitudes_stay_in_one_piece() -> None:
    np.testing.assert_allclose(_in_one_piece(np.array([179.0, -178.0, 177.0])), [179.0, 182.0, 177.0])
    np.testing.assert_array_equal(_in_one_piece(np.array([-5.0, 3.0, 10.0])), [-5.0, 3.0, 10.0])


def test_what_makes_no_grid(fitted: weft.SpaceTimeGP) -> None:
    for wrong in ("10 miles", "km", 0, -1.0, None, "nan"):
        with pytest.raises(ValueError, match="step must be a length such as '10km'"):
            fitted.grid(wrong, terrain=TERRAIN)
    with pytest.raises(ValueError, match="each point of the grid needs 'elevation'; give terrain="):
        fitted.grid(0.5)
    with pytest.raises(KeyError, match="terrain has no 'elevation'"):
        fitted.grid(0.5, terrain=TERRAIN.rename(elevation="height"))
    with pytest.raises(ValueError, match=r"terrain reaches from 46\.5 to 47\.5 of 'lat'"):
        fitted.grid(0.1, terrain=TERRAIN.isel(lat=[0, 1]))
    with pytest.raises(ValueError, match=r"makes .* points; choose a wider one"):
        fitted.grid("1m", terrain=TERRAIN)
    with pytest.raises(ValueError, match=r"makes .* points; choose a wider one"):
        fitted.grid(1e-9, terrain=TERRAIN)  # an axis alone would not fit into memory
    with pytest.raises(ValueError, match="times is empty"):
        fitted.grid(0.5, times=[], terrain=TERRAIN)
