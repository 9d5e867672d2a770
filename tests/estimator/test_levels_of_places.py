# SPDX-License-Identifier: MIT
"""Levels of places beside the field: found, used where they were seen, doubted where not, and kept."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import weft

PLACES, DAYS, LEVEL_SD, NOISE_SD = 40, 30, 2.0, 0.5
ARGUMENTS = {"time": "day", "space": ("x", "y"), "target": "value", "max_iterations": 15, "progress": None}


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    """A field that four pseudo-points hold, and a level of its own at each place; one place has a single row."""
    rng = np.random.default_rng(5)
    x, y = rng.uniform(0, 10, (2, PLACES))
    level = LEVEL_SD * rng.normal(size=PLACES)
    day, place = (each.ravel() for each in np.meshgrid(np.arange(float(DAYS)), np.arange(PLACES), indexing="ij"))
    field = 3 * np.sin(day / 4) + 0.1 * x[place] * np.cos(day / 6)
    value = 50 + field + level[place] + NOISE_SD * rng.normal(size=len(day))
    table = pd.DataFrame(
        {"day": day, "x": x[place], "y": y[place], "value": value, "place": place, "level": level[place]}
    )
    return table[(table["place"] != 7) | (table["day"] == 3)].reset_index(drop=True)


@pytest.fixture(scope="module")
def gp(table) -> weft.SpaceTimeGP:
    return weft.SpaceTimeGP(**ARGUMENTS, pseudo_points=4).fit(table)


def test_levels_are_found_and_shrunk(gp, table):
    (levels,) = gp.posterior_.habits()
    scale = gp.translation_.target.scale
    assert scale * levels.spread == pytest.approx(LEVEL_SD, rel=0.3)
    places = table.drop_duplicates("place")
    asked = gp.translation_.scaling.forward({name: places[name].to_numpy() for name in ("x", "y")})
    # Habits come last among the components.
    mean, variance = gp.posterior_.components(np.zeros(PLACES), asked)[-1]
    many = (places["place"] != 7).to_numpy()
    truth = places["level"].to_numpy()
    # The field has its share in the mean of all levels and in what of them is smooth.
    assert np.corrcoef(mean[many], truth[many])[0, 1] > 0.97
    assert np.all(variance[many] < 0.1 * variance[~many])
    assert variance[~many] < levels.spread**2
    (seen,) = gp.posterior_.batches
    assert_allclose(gp.translation_.target.inverse(np.asarray(seen.values)), table["value"].to_numpy()[seen.row])


def test_they_help_where_seen_and_widen_where_not(gp, table):
    plain = weft.SpaceTimeGP(**ARGUMENTS, pseudo_points=4, place_offsets=False).fit(table)
    assert plain.posterior_.habits() == ()
    ours, theirs = (
        each.cross_validate(table, by="random", folds=2).query("fold == 'all' and model == 'weft'").set_index("score")
        for each in (gp, plain)
    )
    assert ours.loc["mean_crps", "value"] < 0.5 * theirs.loc["mean_crps", "value"]
    by_station = gp.cross_validate(table, by="station", folds=2).query("fold == 'all' and model == 'weft'")
    covered = by_station.set_index("score").loc["coverage_90", "value"]
    assert 0.8 < covered < 0.97
    seen = table[table["place"] == 3].head(1)
    new = seen.assign(x=seen["x"] + 0.01)
    assert gp.predict(new)["sd"].iloc[0] > 3 * gp.predict(seen)["sd"].iloc[0]


def test_draws_share_a_level_within_a_place(gp, table):
    seen = table[table["place"] == 7]
    asked = pd.concat([seen, seen.assign(day=25.0)])
    draws = gp.sample(asked, num=400, seed=1, of="field").filter(like="draw_").to_numpy()
    expected = gp.predict(asked, of="field")
    assert_allclose(draws.mean(axis=1), expected["mean"], atol=4 * expected["sd"].max() / 20)
    assert_allclose(draws.std(axis=1), expected["sd"], rtol=0.15)
    assert np.corrcoef(draws)[0, 1] > 0.8


def test_they_are_kept_and_updated(gp, table, tmp_path):
    gp.save(tmp_path / "model.weft")
    loaded = weft.load(tmp_path / "model.weft")
    assert_allclose(loaded.predict(table[:50])["mean"], gp.predict(table[:50])["mean"], rtol=1e-12)
    later = table[table["day"] == 29].assign(day=30.0)
    before = gp.predict(later)["sd"]
    updated = loaded.update(later)
    assert np.all(updated.predict(later)["sd"] < before)
    assert "places" in updated.summary()
    assert_allclose(updated.fitted_.seen_values()[-len(later) :], later["value"], rtol=1e-9)


def test_a_pseudo_point_at_every_place_needs_none(table):
    few = table[table["place"] < 9]
    assert weft.SpaceTimeGP(**ARGUMENTS | {"max_iterations": 1}).fit(few).posterior_.habits() == ()
