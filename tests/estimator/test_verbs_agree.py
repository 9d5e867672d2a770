# SPDX-License-Identifier: MIT
"""Every question to a model with all the default may have, habits of places around regions, against its predictions."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import weft

# Dates can be told to be off from sixty steps that a place has in common with its neighbours.
STATIONS, DAYS = 45, 80

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    """Stations of which some are noisier and some are dated a day late; a twentieth is missing."""
    rng = np.random.default_rng(5)
    lat, lon = rng.uniform(45, 49, STATIONS), rng.uniform(-122, -116, STATIONS)
    apart = np.hypot((lat[:, None] - lat) * 111, (lon[:, None] - lon) * 76)
    shape = np.linalg.cholesky(np.exp(-apart / 300) + 1e-8 * np.eye(STATIONS))
    field = np.zeros((DAYS + 1, STATIONS))
    for day in range(1, DAYS + 1):
        field[day] = 0.5 * field[day - 1] + 3 * shape @ rng.normal(size=STATIONS)
    noise, is_late = np.exp(0.5 * rng.normal(size=STATIONS)), rng.random(STATIONS) < 0.25
    days = pd.date_range("2020-01-01", periods=DAYS)
    frames = [
        pd.DataFrame(
            {
                "date": days,
                "lat": lat[s],
                "lon": lon[s],
                "tmax": 10 + field[:DAYS, s] if is_late[s] else 10 + field[1:, s],
            }
        )
        for s in range(STATIONS)
    ]
    whole = pd.concat(frames, ignore_index=True)
    whole["tmax"] += np.repeat(noise, DAYS) * rng.normal(size=len(whole))
    whole["side"] = np.where(whole["lon"] < -119, "west", "east")
    return whole.assign(tmax=whole["tmax"].where(rng.random(len(whole)) > 0.05))


@pytest.fixture(scope="module")
def gp(table):
    arguments = {"time": "date", "space": ("lat", "lon"), "target": "tmax", "components": ("slow", "fast")}
    found = weft.SpaceTimeGP(**arguments, regions=3, max_iterations=15, progress=None).fit(table)
    assert {"noise", "shift"} <= set(found.habits_["habit"])
    assert len(found.regions_) == 3
    return found


def test_means_over_groups_are_means_of_predictions_and_as_uncertain_as_draws(gp, table):
    rows = table[table["date"] < "2020-01-04"]
    for of in ("field", "observation"):
        found = gp.aggregate(rows, by="side", of=of).set_index("side")
        mean = gp.predict(rows, of=of).groupby("side")["mean"].mean()
        draws = gp.sample(rows, num=400, of=of).filter(like="draw_").groupby(rows["side"]).mean()
        assert_allclose(found["mean"], mean[found.index], rtol=1e-9)
        assert_allclose(found["sd"], draws.std(axis=1)[found.index], rtol=0.2)
        assert set(found["uncertainty"]) == {"sampled"}


def test_draws_are_of_what_is_predicted(gp, table):
    rows = table[:40]
    draws, predicted = gp.sample(rows, num=400).filter(like="draw_"), gp.predict(rows)
    assert np.abs((draws.mean(axis=1) - predicted["mean"]) / predicted["sd"]).max() < 0.25
    assert_allclose(draws.std(axis=1), predicted["sd"], rtol=0.25)


def test_forecasts_series_and_gaps_are_predictions(gp, table):
    ahead = gp.forecast("3D")
    assert_array_equal(np.unique(ahead["date"]), pd.date_range("2020-03-21", periods=3).to_numpy())
    again = gp.predict(ahead[["date", "lat", "lon"]])
    assert_allclose(ahead[["mean", "sd"]], again[["mean", "sd"]], rtol=1e-6)
    series = gp.point({"lat": 47.0, "lon": -119.0})
    assert_array_equal(series["date"], pd.date_range("2020-01-01", periods=DAYS))
    assert_allclose(series["mean"], gp.predict(series[["date", "lat", "lon"]])["mean"], rtol=1e-9)
    filled, is_gap = gp.fill(table), table["tmax"].isna()
    assert_allclose(filled["tmax"][is_gap], gp.predict(table[is_gap])["mean"], rtol=1e-9)


def test_suggestions_audits_and_pictures(gp, table):
    chosen = gp.suggest(gp.grid(1.0), 2)
    assert len(chosen.drop_duplicates(["lat", "lon"])) == 2
    wrong = table["tmax"].copy()
    wrong[1800] = 60.0
    assert gp.audit(table.assign(tmax=wrong))["row"].iloc[0] == 1800
    assert len(gp.plot.regions().collections) == 3
    assert gp.plot.series(3).lines
    assert gp.plot.components(3).lines
    assert gp.plot.calibration(table[::17]).lines
    assert gp.plot.map("2020-02-01").collections
