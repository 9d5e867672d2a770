# SPDX-License-Identifier: MIT
import json

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from weft.data.inspect import count_table, guess_columns
from weft.data.tables import as_table


def table(**columns):
    return as_table(pd.DataFrame(columns))


def found(guesses):
    return {
        name: None if guess is None else guess.columns
        for name, guess in ((part, getattr(guesses, part)) for part in ("time", "space", "target", "station"))
    }


def test_why_a_column_named_like_a_time_is_none_is_told():
    guesses = guess_columns(table(note=["a", "b"], date=["03/04/2020", "05/06/2020"], value=[1.0, 2.0]))
    assert guesses.time is None
    assert "column 'date' can be read as '%d/%m/%Y' and as '%m/%d/%Y'" in guesses.objections["time"]
    told = guess_columns(
        table(note=["a", "b"], date=["03/04/2020", "05/06/2020"], value=[1.0, 2.0]), time_format="%d/%m/%Y"
    )
    assert (told.time.columns, told.objections) == (("date",), {})


def test_what_the_first_rows_leave_open_later_rows_settle():
    many = ["03/04/2020"] * 2500 + ["04/25/2020"]
    guesses = guess_columns(table(date=many, value=np.arange(2501.0)))
    assert guesses.time.reason == "column 'date' is named like a time and holds text like %m/%d/%Y"


def test_a_table_of_stations_is_understood_with_reasons():
    guesses = guess_columns(
        table(
            STATION=["a", "b", "a"],
            DATE=["2020-01-01", "2020-01-01", "2020-01-02"],
            LATITUDE=[48.0, 49.0, 48.0],
            LONGITUDE=[-123.0, -122.0, -123.0],
            ELEVATION=[3.0, 9.0, 3.0],
            NAME=["x", "y", "x"],
            TMAX=[20.9, 17.0, 3.0],
            TMIN=[11.5, 10.6, 1.0],
        )
    )
    assert found(guesses) == {
        "time": ("DATE",),
        "space": ("LONGITUDE", "LATITUDE", "ELEVATION"),
        "target": ("TMAX",),
        "station": ("STATION",),
    }
    assert guesses.others == ("TMIN",)
    assert guesses.time.reason == "column 'DATE' is named like a time and holds text like %Y-%m-%d"
    assert "degrees" in guesses.space.reason
    assert "'ELEVATION'" in guesses.space.reason


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (
            {"t": [1, 2, 3], "x": [0.0, 1.0, 2.0], "y": [0.5, 1.0, 1.5], "value": [1.0, 2.0, 5.0]},
            (("t",), ("x", "y"), ("value",)),
        ),
        (
            {
                "Unnamed: 0": [0, 1, 2],
                "year": [1990, 1991, 1992],
                "easting": [1, 2, 3],
                "northing": [4, 5, 6],
                "level": [0.1, 0.5, 0.2],
            },
            (("year",), ("easting", "northing"), ("level",)),
        ),
        (
            {
                "when": ["01.02.2020", "02.02.2020", "13.02.2020"],
                "lon": [1.0, 2.0, 3.0],
                "lat": [1.0, 2.0, 3.0],
                "a": [5.0, 5.0, 5.0],
                "b": [1.0, 2.0, 4.0],
            },
            (("when",), ("lon", "lat"), ("b",)),
        ),
        (
            {"date": [20200101, 20200102, 20200103], "pm2_5": [3.0, 4.0, 9.0], "flag": [True, False, True]},
            (("date",), None, ("pm2_5",)),
        ),
        ({"word": ["a", "b", "c"]}, (None, None, None)),
    ],
)
def test_columns_of_many_tables(columns, expected):
    guesses = guess_columns(table(**columns))
    assert (found(guesses)["time"], found(guesses)["space"], found(guesses)["target"]) == expected


def test_a_grid_is_understood_too():
    grid = xr.Dataset(
        {"tmax": (("time", "lat", "lon"), np.arange(12.0).reshape(2, 3, 2))},
        coords={"time": pd.date_range("2020-01-01", periods=2), "lat": [1.0, 2.0, 3.0], "lon": [4.0, 5.0]},
    )
    guesses = guess_columns(as_table(grid))
    assert (found(guesses)["time"], found(guesses)["space"], found(guesses)["target"]) == (
        ("time",),
        ("lon", "lat"),
        ("tmax",),
    )


def test_counts_of_rows_times_places_gaps_and_doubles():
    survey = count_table(
        table(
            # Days 0, 1, 2, 6: a gap of four days. (0, place 0) three times, twice with the same value.
            time=pd.to_datetime(["2020-01-03", "2020-01-01", "2020-01-01", "2020-01-01", "2020-01-02", "2020-01-07"]),
            lon=[8.0, 8.0, 8.0, 8.0, 8.5, 8.5],
            lat=[47.0, 47.0, 47.0, 47.0, 47.5, 47.5],
            value=[1.0, 2.5, 2.5, 3.0, np.nan, 100.0],
        ),
        time="time",
        space=("lon", "lat"),
        target="value",
    )
    assert (survey.num_rows, survey.num_missing_target, survey.num_times, survey.num_places) == (6, 1, 4, 2)
    assert (survey.num_duplicates, survey.num_identical) == (2, 1)
    assert (survey.num_gaps, survey.longest_gap, survey.span, survey.step) == (1, 4.0, 6.0, 1.0)
    assert (survey.first_time, survey.last_time) == ("2020-01-01 00:00:00", "2020-01-07 00:00:00")
    assert survey.share_present == 4 / 8
    assert survey.step_words == "1 day"
    # Half a degree of latitude is 55.6 km.
    assert survey.width_km == pytest.approx(55.6, abs=0.1)
    assert any("2 rows repeat a time and place (1 with the same value)" in note for note in survey.notes)
    assert any("a gap of 4 days" in note for note in survey.notes)
    json.dumps(survey.to_json())


def test_what_the_target_looks_like():
    def looks(values, num_places=1):
        times = np.repeat(np.arange(len(values) / num_places), num_places)
        x = np.tile(np.arange(float(num_places)), len(values) // num_places)
        return count_table(table(t=times, x=x, v=values), time="t", space=("x",), target="v")

    generator = np.random.default_rng(0)
    survey = looks(generator.poisson(3.0, 200).astype(float))
    assert survey.target_is_counts
    assert survey.advice.likelihood == "negative_binomial"
    assert "one place" in " ".join(survey.notes)
    assert looks(generator.integers(0, 2, 200).astype(float)).advice.likelihood == "bernoulli"
    survey = looks(generator.lognormal(0.0, 1.0, 200))
    assert not survey.target_is_counts
    assert survey.advice.transform == "log"
    assert "depends least on the level" in survey.advice.reason
    survey = looks(generator.normal(size=200))
    assert survey.advice.transform is survey.advice.likelihood is None
    assert survey.width_km is None


def test_the_transform_is_the_mildest_under_which_changes_do_not_depend_on_the_level():
    """Levels differ tenfold between places; changes grow with the level, with its root, or not at all."""
    generator = np.random.default_rng(1)
    levels = np.tile(np.geomspace(20.0, 200.0, 5), 300)
    draws = generator.normal(size=1500)
    times, x = np.repeat(np.arange(300.0), 5), np.tile(np.arange(5.0), 300)

    def chosen(values):
        survey = count_table(table(t=times, x=x, v=values), time="t", space=("x",), target="v")
        return survey.advice.likelihood or survey.advice.transform

    assert chosen(levels * np.exp(0.2 * draws)) == "log"
    assert chosen((np.sqrt(levels) + 0.5 * draws) ** 2) == "sqrt"
    assert chosen(levels + 3.0 * draws) is None
    # Between the two: noise of one size on the fourth root.
    assert chosen((levels**0.25 + 0.4 * draws) ** 4) == "fourth_root"
    with_zeros = levels * np.exp(0.6 * draws)
    with_zeros[::50] = 0.0
    assert chosen(with_zeros) == "log1p"
    # Rain: two days in three are dry, and the wet ones are far from even.
    wet = np.repeat(generator.random(300) < 0.4, 5)
    rain = np.where(wet, generator.gamma(0.6, 8.0, 1500), 0.0)
    assert chosen(rain) == "rain"
    # Values that are never at one place twice, so that only their own skew can tell.
    scattered = count_table(table(t=times, x=np.arange(1500.0), v=np.exp(draws)), time="t", space=("x",), target="v")
    assert scattered.advice.transform == "log"
    assert "skewed" in scattered.advice.reason
