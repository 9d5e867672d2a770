# SPDX-License-Identifier: MIT
"""Verbs that ask a fitted model something, against the library called by hand."""

import pathlib

import numpy as np
import pandas as pd

from tests.cli.conftest import Run, assert_refused
from weft import load
from weft.data.files import read_table, write_table
from weft.demo import heights


def test_fill(run: Run, model_file: pathlib.Path, small_table: pathlib.Path) -> None:
    table = pd.read_csv(small_table)
    table.loc[[2, 30], "tmax"] = np.nan
    table.to_csv("gaps.csv", index=False)
    outcome = run("fill", model_file, "gaps.csv", "-o", "complete.parquet", "--json")
    assert outcome.json == {"output": "complete.parquet", "num_filled": 2, "of": "observation"}
    complete = read_table("complete.parquet")
    pd.testing.assert_frame_equal(complete, load(model_file).fill(read_table("gaps.csv")))
    assert run("fill", model_file, "gaps.csv", "-o", "complete.nc").out == "filled 2 gaps; saved complete.nc\n"
    np.testing.assert_array_equal(read_table("complete.nc")["filled"], complete["filled"])


def test_forecast_grid_aggregate_and_point(run: Run, model_file: pathlib.Path, small_table: pathlib.Path) -> None:
    gp = load(model_file)
    assert run("forecast", model_file, "2D", "-o", "ahead.csv", "--json").json["horizon"] == "2D"
    expected = gp.forecast("2D")
    np.testing.assert_array_equal(read_table("ahead.csv")["mean"], expected["mean"])
    assert set(read_table("ahead.csv")["date"]) == {"2018-07-29", "2018-07-30"}

    terrain = heights()
    write_table(terrain, "terrain.nc")
    made = run(
        "grid",
        model_file,
        "--step",
        "40km",
        "--times",
        "2018-07-12,2018-07-13",
        "--terrain",
        "terrain.nc",
        "-o",
        "grid.nc",
    )
    assert made.status == 0, made.err
    grid = gp.grid("40km", ["2018-07-12", "2018-07-13"], terrain)
    np.testing.assert_allclose(read_table("grid.nc")["elevation"], grid["elevation"], rtol=1e-12)
    assert f"{grid.sizes['lat']} lat" in made.out

    averaged = run(
        *("aggregate", model_file, "grid.nc", "--by", "day", "--weights", "area", "--compare", "13,12"),
        "-o",
        "change.csv",
    )
    assert averaged.status == 0, averaged.err
    change = gp.aggregate(grid, by="day", weights="area", compare=(13, 12))
    np.testing.assert_allclose(read_table("change.csv")["sd"], change["sd"], rtol=1e-9)

    assert run("point", model_file, "--at", "lat=47.6, lon=-122.3, elevation=50", "-o", "here.csv").status == 0
    series = gp.point({"lat": 47.6, "lon": -122.3, "elevation": 50})
    np.testing.assert_array_equal(read_table("here.csv")["mean"], series["mean"])
    found = run("audit", model_file, small_table, "-o", "suspicious.csv", "--json").json
    assert sum(found["causes"].values()) == len(gp.audit(read_table(small_table)))
    assert run("suggest", model_file, "grid.nc", "--num", "2", "-o", "places.csv").status == 0
    np.testing.assert_allclose(read_table("places.csv")["lat"], gp.suggest(grid, 2)["lat"], rtol=1e-9)
    assert run("plot", model_file, "series", "--station", "1", "-o", "series.png").status == 0
    assert pathlib.Path("series.png").read_bytes().startswith(b"\x89PNG")
    assert_refused(run("plot", model_file, "map", "-o", "map.doc"), "a picture's name must end in .png, .svg, .pdf")
    assert_refused(run("point", model_file, "--at", "47.6,-122.3", "-o", "here.csv"), "--at must be like lat=47.6")
    assert_refused(run("forecast", model_file, "soon", "-o", "ahead.csv"), "the horizon must be like '1D'")


def test_stations_in_a_second_file(run: Run, model_file: pathlib.Path, small_table: pathlib.Path) -> None:
    whole = read_table(small_table)
    whole.drop(columns=["lat", "lon", "elevation"]).to_csv("rows.csv", index=False)
    whole[["station", "lat", "lon", "elevation"]].drop_duplicates().to_csv("stations.csv", index=False)
    gp = load(model_file)
    assert run("predict", model_file, "rows.csv", "--places", "stations.csv", "-o", "all.csv").status == 0
    np.testing.assert_allclose(read_table("all.csv")["mean"], gp.predict(whole)["mean"], rtol=1e-9)
    made = run("aggregate", model_file, "rows.csv", "--places", "stations.csv", "--by", "station", "-o", "means.csv")
    assert made.status == 0, made.err
    expected = gp.aggregate(whole, by="station")
    np.testing.assert_allclose(read_table("means.csv")["sd"], expected["sd"], rtol=1e-9)
    # The report reads both files before it does anything else, so a place that is missing is known at once.
    read_table("stations.csv")[1:].to_csv("fewer.csv", index=False)
    refused = run("report", model_file, "--table", "rows.csv", "--places", "fewer.csv", "-o", "report.html")
    assert_refused(refused, str(whole["station"].iloc[0]))
