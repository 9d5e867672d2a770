# SPDX-License-Identifier: MIT
"""What a model is given when nobody says: sizes bounded by work, and every bound said aloud."""

import logging

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import weft
from tests.estimator.tables import station_table
from weft.data.scaling import Marks
from weft.estimator import budget, learning, placement
from weft.estimator.budget import choose_stretches, num_folds_within, work_of
from weft.estimator.components import named_components, scales_of
from weft.estimator.defaults import variance_shares
from weft.estimator.placement import choose_pseudo_points


def test_stretches_are_within_the_work_and_reach_from_the_first_time_to_the_last():
    work = np.random.default_rng(0).uniform(1.0, 2.0, 5000)
    assert choose_stretches(work, work.sum()) is None
    found = choose_stretches(work, 0.2 * work.sum())
    assert found.num_stretches == 12
    assert found.chosen[[0, -1]].all()
    assert work[found.chosen].sum() == pytest.approx(0.2 * work.sum(), rel=0.05)
    starts = np.flatnonzero(np.diff(np.concatenate([[0], found.chosen.astype(int)])) == 1)
    assert len(starts) == 12
    # Evenly spread: no gap between starts is far from another.
    assert np.ptp(np.diff(starts)) <= 1
    few = choose_stretches(work, 40 * 1.5)
    assert few.num_stretches == 1
    assert 2000 < np.flatnonzero(few.chosen).mean() < 3000
    assert choose_stretches(work, 0.0).chosen.sum() == 2


def test_work_grows_with_pseudo_points_rows_and_times():
    counts = np.full(100, 30)
    base = work_of([(40, 2), (40, 1)], counts)
    assert work_of([(80, 2), (80, 1)], counts) > 3 * base
    assert work_of([(40, 2), (40, 1)], 4 * counts) > base
    assert_allclose(work_of([(40, 2), (40, 1)], np.full(300, 30)), 3 * base)


def test_folds_predicted_are_what_the_work_allows():
    assert num_folds_within(np.full(10, 1.0), 5) == 5
    assert num_folds_within(np.full(10, budget.EVALUATION_WORK / 25), 5) == 2
    assert num_folds_within(np.full(10, budget.EVALUATION_WORK), 5) == 1


def test_a_long_series_gets_fewer_pseudo_points(monkeypatch):
    rng = np.random.default_rng(2)
    places = np.tile(rng.uniform(0, 300, (200, 2)), (3, 1))
    data = weft.Observations(np.repeat(np.arange(3.0), 200), places, rng.normal(size=600))
    shares = variance_shares(data, np.asarray(data.values), 2)
    kernel = weft.SumSeparable(named_components(("slow", "fast"), scales_of(data, 2, (), Marks()), shares))
    monkeypatch.setattr(placement, "place", lambda data, count, **options: np.zeros((count, 2)))

    def count():
        return len(choose_pseudo_points("auto", data, 2, kernel, seed=0))

    assert count() == placement.MOST_POINTS
    for most in (60, 35):
        within = work_of([(most, 2), (most, 1)], np.full(3, 200))
        monkeypatch.setattr(placement, "PASS_WORK", within)
        assert count() == most
    monkeypatch.setattr(placement, "PASS_WORK", 0.0)
    assert count() == placement.FEWEST_POINTS


@pytest.fixture(scope="module")
def long_table() -> pd.DataFrame:
    return station_table()


def test_parameters_from_part_of_the_rows_and_answers_from_all(long_table, caplog):
    arguments = {"time": "time", "space": ("lon", "lat"), "target": "value", "max_iterations": 2, "progress": None}
    with caplog.at_level(logging.INFO, "weft"):
        part = weft.SpaceTimeGP(**arguments, learning_rows=60).fit(long_table)
    assert "parameters are learned from 60 of 149 rows (one stretch of the series)" in caplog.text
    assert part.num_rows_ == len(long_table)
    assert len(part.posterior_.times) == long_table["time"].nunique()
    middle = long_table[7 * 6 + 1 : 17 * 6 + 1]
    assert part.result_.log_evidence != weft.SpaceTimeGP(**arguments).fit(long_table).result_.log_evidence
    # All rows are used by predictions: the last day, which nothing was learned from, is known about.
    last = long_table[-6:]
    assert (
        part.predict(last)["latent_sd"].max()
        < part.predict(last.assign(time=last["time"] + pd.Timedelta("200D")))["latent_sd"].min()
    )
    assert len(middle) == 60
    with pytest.raises(ValueError, match="learning_rows must be 'auto', a number of rows, or None"):
        weft.SpaceTimeGP(**arguments, learning_rows="some").fit(long_table)


def test_a_model_so_large_that_folds_take_long_predicts_fewer_and_says_so(fitted, table, monkeypatch, caplog):
    whole = fitted.cross_validate(table, by="random", output="rows")
    assert_array_equal(np.unique(whole["fold"]), np.arange(5))
    monkeypatch.setattr(budget, "EVALUATION_WORK", 1.0)
    with caplog.at_level(logging.INFO, "weft"):
        one = fitted.cross_validate(table, by="random", output="rows")
    assert "held out by random: one of 5 folds predicted" in caplog.text
    expected = whole[whole["fold"] == 0].reset_index(drop=True)
    pd.testing.assert_frame_equal(one, expected)
    given = fitted.cross_validate(table, by="random", folds=3, output="rows")
    assert_array_equal(np.unique(given["fold"]), np.arange(3))


def test_learning_work_bounds_what_is_learned_from(long_table, monkeypatch, caplog):
    """By stretches of the series where somebody wants one model, by small parts of the table where nobody does."""
    monkeypatch.setattr(learning, "LEARNING_WORK", 25 * 7.5e5 / 2)
    arguments = {"time": "time", "space": ("lon", "lat"), "target": "value", "max_iterations": 1, "progress": None}
    with caplog.at_level(logging.INFO, "weft"):
        weft.SpaceTimeGP(**arguments, regions=None).fit(long_table)
    assert "parameters are learned from 72 of 149 rows (one stretch of the series)" in caplog.text
    monkeypatch.setattr(learning, "_BLOCKS_WORK", 1e3)
    with caplog.at_level(logging.INFO, "weft"):
        gp = weft.SpaceTimeGP(**arguments).fit(long_table)
    assert f"parameters are learned from {gp.result_.num_blocks} small parts of the table" in caplog.text
    assert gp.result_.num_blocks > 1
