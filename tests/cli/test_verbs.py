# SPDX-License-Identifier: MIT
"""Verbs against the library called by hand, over files of every kind."""

import os
import pathlib

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from tests.cli.conftest import COLUMNS, Run
from weft import SpaceTimeGP, load
from weft.data.files import read_table, write_table
from weft.demo import heights

EVERY_KIND = ("csv", "csv.gz", "parquet", "nc", "zarr")


@pytest.fixture(scope="session")
def by_hand(model_file: pathlib.Path, small_table: pathlib.Path) -> pd.DataFrame:
    """Predictions without the command line."""
    return load(model_file).predict(read_table(small_table), quantiles=(0.1, 0.9))


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_predictions_are_equal_whatever_the_file(
    kind: str, run: Run, model_file: pathlib.Path, small_table: pathlib.Path, by_hand: pd.DataFrame
) -> None:
    write_table(read_table(small_table), f"rows.{kind}")
    outcome = run("predict", model_file, f"rows.{kind}", "-o", f"answer.{kind}", "--quantiles", "0.1,0.9", "--json")
    assert outcome.status == 0, outcome.err
    assert outcome.json == {"output": f"answer.{kind}", "of": "observation"}
    answer = read_table(f"answer.{kind}")
    for name in ("mean", "sd", "latent_sd", "q0.1", "q0.9"):
        # csv is read back to the last digit too.
        np.testing.assert_array_equal(np.asarray(answer[name]), by_hand[name].to_numpy())
    assert list(np.asarray(answer["station"])) == list(by_hand["station"])
    np.testing.assert_array_equal(np.asarray(answer["tmax"]), by_hand["tmax"].to_numpy())
    dates = pd.Series(np.asarray(answer["date"]))
    if kind in ("nc", "zarr"):
        assert dates.dtype.kind == "M"
        assert answer.attrs["Conventions"] == "CF-1.11"
        assert answer["date"].attrs["standard_name"] == "time"
        dates = dates.dt.strftime("%Y-%m-%d")
    assert list(dates) == list(by_hand["date"])


def test_fit_is_equal_whatever_the_file(run: Run, model_file: pathlib.Path, small_table: pathlib.Path) -> None:
    """And equal to the library's own."""
    expected = run("info", model_file, "--json").json
    for kind in ("parquet", "nc"):
        write_table(read_table(small_table), f"rows.{kind}")
        found = run("fit", f"rows.{kind}", *COLUMNS, "--max-iterations", "3", "--json").json
        assert found["log_evidence"] == expected["log_evidence"]
        assert found["parameters"] == expected["parameters"]
    assert not pathlib.Path("model.weft.checkpoint").exists()
    gp = SpaceTimeGP(time="date", space=("lat", "lon", "elevation"), target="tmax", max_iterations=3)
    gp.fit(read_table(small_table))
    assert expected["log_evidence"] == gp.result_.log_evidence
    assert expected["num_rows"] == gp.num_rows_
    assert gp.summary() in run("info", model_file).out


def test_guesses_and_duplicated_rows_are_said(run: Run, small_table: pathlib.Path) -> None:
    """Rows may be there twice if that is said to be right: each then counts as a measurement."""
    table = pd.read_csv(small_table)
    pd.concat([table, table[:5]]).to_csv("twice.csv", index=False)
    outcome = run("fit", "twice.csv", "--max-iterations", "1", "--keep-duplicates", "--json")
    assert (outcome.json["time"], outcome.json["target"]) == ("date", "tmax")
    assert outcome.json["space"] == ["lon", "lat", "elevation"]
    assert "weft: time is date: column 'date' is named like a time" in outcome.err
    assert "5 rows repeat a time and place (5 with the same value); each counts as a measurement" in outcome.err
    assert outcome.json["num_rows"] == len(table) + 5


def test_options_go_before_the_config(run: Run, small_table: pathlib.Path) -> None:
    pathlib.Path("weft.toml").write_text(
        "[data]\ntime = 'date'\nspace = ['lat', 'lon']\ntarget = 'tmax'\n"
        "[model]\nmax_iterations = 1\npseudo_points = 4\n"
        "[[model.kernel]]\nspace = 'Matern32'\ntime = 'Matern12'\n"
        "space_lengthscale = [90.0, 110.0]\ntime_lengthscale = 5.0\nvariance = 0.7\n"
    )
    outcome = run("fit", small_table, "--config", "weft.toml", "--pseudo-points", "5", "--profile")
    assert outcome.status == 0, outcome.err
    gp = load("model.weft")
    assert gp.model_.pseudo_points.shape == (5, 2)
    assert len(gp.model_.kernel.components) == 1
    assert gp.space == ("lat", "lon")
    profile = [line.split()[0] for line in outcome.out.partition("\n\n")[2].splitlines()]
    assert (profile[0], profile[-1]) == ("phase", "total")
    assert {"import", "read", "survey", "learn", "write"} <= set(profile)


def test_grid_in_and_out(run: Run, model_file: pathlib.Path) -> None:
    grid = heights("2018-07-10", "2018-07-20").isel(lat=slice(0, None, 16), lon=slice(0, None, 32))
    write_table(grid, "grid.nc")
    assert run("predict", model_file, "grid.nc", "-o", "map.nc", "--of", "field").status == 0
    expected = load(model_file).predict(grid, of="field")
    with xr.open_dataset("map.nc", engine="h5netcdf") as written:
        assert written["mean"].dims == ("date", "lat", "lon")
        assert written.attrs["Conventions"] == "CF-1.11"
        assert written.attrs["of"] == "field"
        np.testing.assert_array_equal(written["mean"], expected["mean"])


def test_sample(run: Run, model_file: pathlib.Path, small_table: pathlib.Path) -> None:
    outcome = run("sample", model_file, small_table, "-o", "draws.parquet", "--num", "3", "--seed", "5", "--json")
    assert outcome.json == {"output": "draws.parquet", "num": 3, "of": "observation"}
    expected = load(model_file).sample(read_table(small_table), num=3, seed=5)
    for number in range(3):
        np.testing.assert_array_equal(read_table("draws.parquet")[f"draw_{number}"], expected[f"draw_{number}"])


def test_update_scores_and_comparison(run: Run, small_table: pathlib.Path, model_file: pathlib.Path) -> None:
    table = pd.read_csv(small_table)
    is_late = table["date"] > "2018-07-22"
    table[~is_late].to_csv("early.csv", index=False)
    table[is_late].to_csv("late.csv", index=False)
    assert run("fit", "early.csv", *COLUMNS, "-o", "early.weft", "--max-iterations", "2").status == 0
    updated = run("update", "early.weft", "late.csv", "-o", "updated.weft", "--json")
    counts = {"num_rows_added": is_late.sum(), "num_rows_repeated": 0, "num_rows": len(table)}
    assert updated.json == {"model": "updated.weft"} | counts

    assert "already" not in updated.err
    again = run("update", "early.weft", "early.csv", "-o", "again.weft")
    held = f"{(~is_late).sum()} of {(~is_late).sum()} rows are at a time and place the model has a value for already"
    assert f"weft: note: {held}" in again.err

    scored = run("score", "early.weft", "late.csv", "--rows", "early_rows.csv", "--json")
    expected = load("early.weft").score(table[is_late])
    assert scored.json["scores"]["weft"]["mean_crps"] == expected["mean_crps"]
    assert scored.json["scores"]["persistence"]["mean_crps"] == expected["mean_crps_persistence"]
    text = run("score", "early.weft", "late.csv").out
    assert "mean CRPS" in text
    assert "nearest station" in text

    # The updated model has seen these rows, so it must beat the one that has not.
    compared = run("compare", "updated.weft", "early.weft", "late.csv", "--json").json["scores"]
    crps = next(line for line in compared if line["score"] == "mean_crps")
    assert crps["b"] == pytest.approx(expected["mean_crps"], rel=1e-12)
    assert crps["difference"] < 0
    assert run("score", "updated.weft", "late.csv", "--rows", "updated_rows.csv").status == 0
    from_files = run("compare", "updated_rows.csv", "early_rows.csv", "--json").json["scores"]
    assert from_files[0]["difference"] == pytest.approx(compared[0]["difference"], rel=1e-12)
    write_table(read_table("early_rows.csv"), "early_rows.nc")
    assert run("compare", "updated_rows.csv", "early_rows.nc", "--json").json["scores"] == from_files
    assert "below 0, the first is better" in run("compare", "updated_rows.csv", "early_rows.csv").out


def test_evaluate(run: Run, small_table: pathlib.Path, model_file: pathlib.Path) -> None:
    outcome = run(
        *("evaluate", small_table, "--model", model_file, "--by", "station", "--folds", "2"),
        *("-o", "scores.csv", "--rows", "rows.parquet", "--json"),
    )
    assert outcome.status == 0, outcome.err
    expected = load(model_file).cross_validate(read_table(small_table), by="station", folds=2)
    written = pd.read_csv("scores.csv")
    np.testing.assert_allclose(written["value"], expected["value"], rtol=1e-12)
    assert list(written["model"]) == list(expected["model"])
    assert len(outcome.json["scores"]) == len(written)
    rows = read_table("rows.parquet")
    assert set(rows["by"]) == {"station"}
    assert (rows["model"] == "weft").sum() == len(read_table(small_table))
    assert sorted(os.listdir()) == ["rows.parquet", "scores.csv"]
