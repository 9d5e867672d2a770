# SPDX-License-Identifier: MIT
"""One image, and one series: tables that say nothing about time, or nothing about space."""

import numpy as np
import pandas as pd

import weft

ARGUMENTS = {"time": "time", "space": ("lon", "lat"), "target": "value", "progress": None}


def test_an_image_is_filled():
    rng = np.random.default_rng(0)
    lon, lat = rng.uniform(10, 13, 500), rng.uniform(40, 43, 500)
    value = np.sin(3 * lon) + np.cos(4 * lat) + 0.1 * rng.normal(size=500)
    table = pd.DataFrame({"time": pd.Timestamp("2020-06-01"), "lon": lon, "lat": lat, "value": value})
    gp = weft.SpaceTimeGP(**ARGUMENTS).fit(table[:400])
    scores = gp.score(table[400:])
    # The noise is a tenth, and the field of deviation 1 is known to about as much between so many pixels.
    assert scores["rmse"] < 0.2
    assert 0.8 < scores["coverage_90"] < 0.98


def test_a_series_is_filled_and_forecast():
    rng = np.random.default_rng(1)
    value = np.sin(np.arange(400) / 15) + 0.1 * rng.normal(size=400)
    days = pd.date_range("2020-01-01", periods=400)
    table = pd.DataFrame({"time": days, "lon": 5.0, "lat": 45.0, "value": value})
    gp = weft.SpaceTimeGP(**ARGUMENTS).fit(table[:390:2])
    assert gp.score(table[1:390:2])["rmse"] < 0.15
    ahead = gp.forecast("5D")
    # Every other day was seen, the 389th last.
    assert len(ahead) == 2
    assert np.abs(ahead["mean"].to_numpy()[0] - np.sin(390 / 15)) < 0.3


def test_a_report_of_one_time_and_of_one_place_draws_no_reach_there_is_none_of(tmp_path):
    """An axis of no length had been drawn, with a warning of matplotlib."""
    rng = np.random.default_rng(2)
    rows = pd.DataFrame({"time": np.arange(40.0), "lon": rng.uniform(5, 7, 40), "lat": rng.uniform(45, 46, 40)})
    rows["value"] = np.sin(rows["time"] / 5) + rows["lon"] + 0.1 * rng.normal(size=40)
    quick = {"components": ("slow",), "habits": None, "max_iterations": 2}
    for one in ({"time": 3.0}, {"lon": 5.0, "lat": 45.0}):
        weft.SpaceTimeGP(**ARGUMENTS, **quick).fit(rows.assign(**one)).report(tmp_path / "report.html")
