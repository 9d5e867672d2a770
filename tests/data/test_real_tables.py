# SPDX-License-Identifier: MIT
"""The lower layers together, on real data."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from weft.data.clock import learn_clock
from weft.data.files import read_table, write_table
from weft.data.inspect import count_table, guess_columns
from weft.data.scaling import learn_scaling
from weft.data.tables import as_table, numbers


def coordinates(data):
    table = as_table(data)
    clock = learn_clock(table.column("time"))
    places = {name: numbers(table.column(name), name) for name in ("lon", "lat")}
    return (
        clock.numbers(table.column("time")),
        learn_scaling(places).forward(places),
        numbers(table.column("value"), "value"),
    )


def test_microsecond_and_nanosecond_frames_give_the_same_bits(shared_data):
    """Pandas 3 reads microseconds, pandas 2 nanoseconds."""
    frame = read_table(shared_data / "ghcn_pnw" / "paper_box_tmax.parquet")
    micro = frame.assign(time=frame["time"].astype("datetime64[us]"))
    nano = frame.assign(time=frame["time"].astype("datetime64[ns]"))
    for one, other in zip(coordinates(micro), coordinates(nano), strict=True):
        assert one.tobytes() == other.tobytes()
    times = coordinates(micro)[0]
    assert (times.min(), times.max()) == (0.0, (pd.Timestamp("2020-06-04") - pd.Timestamp("2000-01-01")).days)


def test_every_kind_of_file_gives_the_same_numbers(shared_data, tmp_path):
    """Provinces of Italy: NA is Naples, not a missing value."""
    frame = read_table(shared_data / "italy_covid" / "italy_covid_daily.parquet").iloc[::40]
    expected = coordinates(frame)
    for name in ("t.csv", "t.csv.gz", "t.parquet", "t.nc", "t.zarr"):
        write_table(frame.reset_index(drop=True), tmp_path / name)
        back = read_table(tmp_path / name)
        assert list(as_table(back).column("station")) == list(frame["station"])
        times, places, values = coordinates(back)
        np.testing.assert_array_equal(times, expected[0])
        np.testing.assert_array_equal(values, expected[2])
        # Single precision degrees, written in decimals and read in double: 1e-7 of 18 degrees is 0.2 m, in km.
        np.testing.assert_allclose(places, expected[1], atol=5e-4)


@pytest.mark.parametrize(
    ("path", "space", "target"),
    [
        ("beijing_air/beijing_air_hourly.parquet", ("lon", "lat"), "value"),
        ("germany_pm10/germany_pm10_daily.parquet", ("lon", "lat"), "value"),
        ("ghcn_pnw/paper_box_tmax.parquet", ("lon", "lat", "elevation"), "value"),
        ("italy_covid/italy_covid_daily.parquet", ("lon", "lat"), "value"),
        ("price_paid/flats_sw19_2010_2020.parquet", ("lon", "lat"), "value"),
    ],
)
def test_columns_are_guessed_right(shared_data, path, space, target):
    guesses = guess_columns(as_table(read_table(shared_data / path)))
    assert (guesses.time.columns, guesses.space.columns, guesses.target.columns) == (("time",), space, (target,))


def test_a_file_as_its_publisher_wrote_it(shared_data):
    table = as_table(read_table(shared_data / "ghcn_pnw" / "raw" / "access_csv" / "CA001016640.csv"))
    guesses = guess_columns(table)
    assert guesses.space.columns == ("LONGITUDE", "LATITUDE", "ELEVATION")
    survey = count_table(table, time="DATE", space=guesses.space.columns, target="TMAX")
    assert (survey.num_rows, survey.num_places, survey.first_time) == (699, 1, "2018-06-18")


def test_none_of_this_loads_jax():
    modules = [
        "tables",
        "clock",
        "time_text",
        "files",
        "csv_text",
        "grids",
        "atomic",
        "scaling",
        "transforms",
        "inspect",
    ]
    names = [f"weft.data.{name}" for name in modules] + ["weft.scores", "weft.baselines", "weft.folds"]
    code = f"import sys, {', '.join(names)}; print([n for n in ('jax', 'pandas', 'pyproj') if n in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
