# SPDX-License-Identifier: MIT
"""Tables of every kind in and out: equal numbers, same kind, order, index and time zone."""

import logging

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xarray as xr
from numpy.testing import assert_allclose, assert_array_equal

import weft
from tests.estimator.tables import DAYS, STATIONS
from weft import space_time_gp
from weft.data.files import read_table, write_table
from weft.data.tables import as_table
from weft.estimator.answers import quantile_name


def as_dataset(table: pd.DataFrame) -> xr.Dataset:
    """The same rows on a grid of times and stations."""
    first = table.iloc[:STATIONS]
    return xr.Dataset(
        {"value": (("time", "station"), table["value"].to_numpy().reshape(DAYS, STATIONS))},
        coords={
            "time": table["time"].to_numpy()[::STATIONS],
            **{name: ("station", first[name].to_numpy()) for name in ("lon", "lat", "elevation")},
        },
    )


KINDS = {
    "pandas": lambda table: table,
    "polars": pl.from_pandas,
    "pyarrow": lambda table: pa.Table.from_pandas(table, preserve_index=False),
    "xarray": as_dataset,
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_gives_the_same_numbers(fitted, table, kind):
    expected = fitted.predict(table)
    given = KINDS[kind](table)
    rows = fitted.fitted_.read(given)
    pandas_rows = fitted.fitted_.read(table)
    translation = fitted.translation_
    assert_array_equal(translation.times(rows), translation.times(pandas_rows))
    assert_array_equal(translation.places(rows), translation.places(pandas_rows))
    assert_array_equal(rows.values, pandas_rows.values)
    answer = fitted.predict(given)
    assert type(answer) is type(given)
    for name in ("mean", "sd", "latent_sd", "q0.05", "q0.95"):
        assert_array_equal(np.asarray(answer[name]).reshape(-1), expected[name])


def test_a_fit_from_polars_with_a_time_zone_equals_one_from_pandas(fitted, table):
    zoned = table.assign(time=table["time"].dt.tz_localize("UTC").dt.tz_convert("Europe/Rome"))
    gp = weft.SpaceTimeGP(**fitted.get_params()).fit(pl.from_pandas(zoned))
    # An hour before midnight is a day earlier by the clock of the origin, so the last digits of times differ.
    assert_allclose(gp.result_.log_evidence, fitted.result_.log_evidence, rtol=1e-6)
    answer = gp.predict(zoned)
    assert str(answer["time"].dtype) == str(zoned["time"].dtype)
    assert_allclose(answer["mean"], fitted.predict(table)["mean"], rtol=1e-5)
    with pytest.raises(ValueError, match="no time zone"):
        gp.predict(table)


def test_order_index_and_duplicates_are_kept(fitted, table):
    expected = fitted.predict(table)
    order = np.random.default_rng(0).permutation(len(table))[:60]
    order = np.concatenate([order, order[:3]])
    shuffled = table.iloc[order].set_index(pd.Index(["same"] * len(order), name="label"))
    answer = fitted.predict(shuffled)
    assert answer.index.equals(shuffled.index)
    assert_array_equal(answer["station"], shuffled["station"])
    assert_allclose(answer["mean"], expected["mean"].to_numpy()[order], rtol=1e-12)
    by_level = table.iloc[order].set_index(["time", "station"])
    assert_array_equal(fitted.predict(by_level)["mean"], answer["mean"])


def test_resolution_of_times_does_not_matter(fitted, table):
    fine, coarse = (table.assign(time=table["time"].astype(f"datetime64[{unit}]")) for unit in ("ns", "s"))
    expected = fitted.predict(table)
    for other in (fine, coarse):
        answer = fitted.predict(other)
        assert answer["time"].dtype == other["time"].dtype
        assert_array_equal(answer["mean"], expected["mean"])
        assert_array_equal(answer["q0.95"], expected["q0.95"])
    as_text = table.assign(time=table["time"].dt.strftime("%Y-%m-%d"))
    assert_array_equal(fitted.predict(as_text)["mean"], expected["mean"])


@pytest.mark.parametrize("ending", ["csv", "parquet", "nc"])
def test_files_round_trip(fitted, table, tmp_path, ending):
    path = tmp_path / f"table.{ending}"
    write_table(as_dataset(table) if ending == "nc" else table, path)
    answer = fitted.predict(read_table(path))
    assert_array_equal(np.asarray(answer["mean"]).reshape(-1), fitted.predict(table)["mean"])


def test_what_is_predicted_is_noted(fitted, table):
    few = table.iloc[:4]
    assert fitted.predict(few, of="field").attrs["of"] == "field"
    arrow = fitted.predict(pa.Table.from_pandas(few), of="field")
    assert arrow.schema.metadata[b"of"] == b"field"
    assert fitted.predict(few).attrs["of"] == "observation"
    with pytest.raises(ValueError, match="of must be 'observation'"):
        fitted.predict(few, of="mean")


def test_a_grid_gives_a_described_dataset(fitted, tmp_path):
    rng = np.random.default_rng(2)
    grid = xr.Dataset(
        {"elevation": (("lon", "lat"), rng.uniform(0, 800, (4, 3)))},
        coords={
            "lat": [47.0, 47.5, 48.0],
            "lon": [10.0, 10.5, 11.0, 11.5],
            "time": pd.date_range("2021-03-20", periods=9),
        },
    )
    maps = fitted.predict(grid, quantiles=(0.5,))
    assert maps["mean"].dims == ("time", "lat", "lon")
    point = pd.DataFrame(
        {
            "time": [grid["time"].to_numpy()[6]],
            "lon": [11.0],
            "lat": [47.5],
            "elevation": [float(grid["elevation"][2, 1])],
        }
    )
    assert_allclose(maps["mean"].sel(lat=47.5, lon=11.0)[6], fitted.predict(point)["mean"][0], rtol=1e-12)
    assert maps.attrs["Conventions"] == "CF-1.11"
    assert maps.attrs["of"] == "observation"
    assert maps["sd"].attrs["units"] == "degC"
    assert maps["mean"].attrs["grid_mapping"] == "crs"
    assert maps["crs"].attrs["grid_mapping_name"] == "latitude_longitude"
    assert maps["crs"].attrs["inverse_flattening"] == pytest.approx(298.257223563)
    assert maps["lat"].attrs == {"standard_name": "latitude", "units": "degrees_north", "axis": "Y"}
    assert maps["time"].attrs["standard_name"] == "time"
    write_table(maps, tmp_path / "maps.nc")
    again = read_table(tmp_path / "maps.nc")
    assert_array_equal(again["mean"], maps["mean"])
    assert again["mean"].attrs["units"] == "degC"


def test_rows_of_a_dataset_keep_every_variable(fitted, table, tmp_path):
    few = table.assign(time=table["time"].dt.strftime("%Y-%m-%d"), note="x").iloc[:7]
    write_table(few, tmp_path / "rows.nc")
    answer = fitted.predict(read_table(tmp_path / "rows.nc"))
    assert set(few.columns) <= set(answer.variables)
    assert_array_equal(answer["time"], table["time"].iloc[:7])
    assert_array_equal(answer["mean"], fitted.predict(few)["mean"])
    assert set(answer.coords) == {"time", "lon", "lat", "elevation"}
    assert (answer.attrs["Conventions"], answer.attrs["featureType"]) == ("CF-1.11", "point")
    assert answer["lat"].attrs == {"standard_name": "latitude", "units": "degrees_north"}
    assert (answer["sd"].attrs["of"], answer["sd"].attrs["units"]) == ("observation", "degC")
    # Answers of before are replaced by new ones; a variable of that name which is none of ours is not.
    xr.testing.assert_identical(fitted.predict(answer), answer)
    with pytest.raises(ValueError, match="already has a column 'mean'"):
        fitted.predict(answer.assign(mean=("row", np.zeros(7))))
    write_table(answer, tmp_path / "rows.csv")
    assert set(read_table(tmp_path / "rows.csv").columns) == set(answer.variables) - {"crs"}


def test_what_draws_a_map_is_no_column(fitted, table, tmp_path):
    maps = fitted.predict(as_dataset(table).isel(time=slice(0, 2)))
    assert "crs" in maps.variables
    assert "crs" not in as_table(maps).names
    assert "crs" in as_table(maps).with_columns({"more": np.zeros(2 * STATIONS)}).variables
    write_table(maps, tmp_path / "maps.csv")
    assert "crs" not in read_table(tmp_path / "maps.csv").columns


@pytest.mark.parametrize("kind", ["pandas", "pyarrow"])
def test_a_frame_written_to_netcdf_says_what_it_is_of(fitted, table, tmp_path, kind):
    write_table(fitted.predict(KINDS[kind](table.iloc[:3]), of="field"), tmp_path / "rows.nc")
    assert read_table(tmp_path / "rows.nc").attrs == {"Conventions": "CF-1.11", "of": "field"}


def test_pieces_are_the_whole(fitted, table, monkeypatch):
    monkeypatch.setattr(space_time_gp, "_ROWS_AT_ONCE", 40)
    monkeypatch.setattr(space_time_gp, "available_memory", lambda: 4 * 600 * 39)
    pieces = list(fitted.predict_pieces(table))
    assert [len(piece) for piece in pieces] == [40, 40, 40, 30]
    assert_allclose(pd.concat(pieces)["mean"], fitted.predict(table)["mean"], rtol=1e-12)
    maps = list(fitted.predict_pieces(as_dataset(table)))
    assert [piece.sizes["time"] for piece in maps] == [6, 6, 6, 6, 1]
    together = xr.concat([piece["mean"] for piece in maps], dim="time")
    assert_allclose(together.to_numpy().reshape(-1), fitted.predict(table)["mean"], rtol=1e-12)


def test_the_antimeridian_is_no_seam(table):
    """Distances, and so everything learned, do not change when the same places lie across 180 degrees."""
    from weft.estimator.columns import make_roles, read_measurements
    from weft.estimator.translation import learn_translation

    roles = make_roles("time", ("lon", "lat"), "value")
    apart = []
    for shift in (0.0, 169.0):
        moved = table.assign(lon=(table["lon"] + shift + 180) % 360 - 180)
        rows = read_measurements(roles.table(moved, with_target=True), roles, with_target=True)
        translation = learn_translation(
            rows, time_name="time", target_name="value", transform=None, standardise=True, time_step=None
        )
        places = translation.places(rows)[:STATIONS]
        apart.append(np.linalg.norm(places[:, None] - places[None], axis=2))
    assert np.ptp(moved["lon"]) > 300
    assert_allclose(apart[1], apart[0], rtol=1e-9, atol=1e-9)


def test_levels_that_differ_have_names_that_differ():
    levels = (0.05, 0.5, 0.95, 1e-5, 0.3333333, 0.3333334, 0.9999999)
    names = ["q0.05", "q0.5", "q0.95", "q1e-05", "q0.3333333", "q0.3333334", "q0.9999999"]
    assert [quantile_name(level) for level in levels] == names


def test_times_that_all_differ_are_put_on_a_step_of_their_own_and_it_is_said(tmp_path, monkeypatch, caplog):
    rng = np.random.default_rng(5)
    places = rng.uniform(0, 9, (40, 2))
    seconds = (np.arange(60)[None] * 3600 + rng.integers(0, 1800, (40, 60))).ravel()
    table = pd.DataFrame(
        {
            "time": pd.Timestamp("2021-01-01") + pd.to_timedelta(seconds, unit="s"),
            "x": np.repeat(places[:, 0], 60),
            "y": np.repeat(places[:, 1], 60),
            "value": rng.normal(size=2400),
        }
    )
    arguments = {"time": "time", "space": ("x", "y"), "target": "value", "pseudo_points": 4, "habits": None}
    arguments |= {"max_iterations": 0, "progress": None, "components": ("slow", "fast")}
    # A pass over so few is no trouble.
    assert weft.SpaceTimeGP(**arguments).fit(table).binning_ is None
    monkeypatch.setattr("weft.estimator.translation._STEP_SHARE", 0.0)
    with caplog.at_level(logging.INFO, logger="weft"):
        gp = weft.SpaceTimeGP(**arguments).fit(table)
    assert (gp.binning_.step, gp.binning_.is_chosen) == ("5min", True)
    assert gp.binning_.num_times_after == len(gp.fitted_.times) < len(np.unique(seconds)) / 2
    for said in (caplog.text, gp.summary()):
        assert "times put on a step of 5min" in said
        assert "time_step=None leaves it" in said
    gp.save(tmp_path / "gp.weft")
    again = weft.load(tmp_path / "gp.weft")
    assert again.binning_ == gp.binning_
    assert_array_equal(again.predict(table[:50])["mean"], gp.predict(table[:50])["mean"])
    exact = weft.SpaceTimeGP(**arguments, time_step=None).fit(table)
    assert exact.binning_ is None
    assert len(exact.fitted_.times) == len(np.unique(seconds))
    named = weft.SpaceTimeGP(**arguments, time_step="1h").fit(table)
    assert (named.binning_.step, named.binning_.is_chosen) == ("1h", False)
    assert "time_step=None" not in named.summary()
