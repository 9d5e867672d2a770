# SPDX-License-Identifier: MIT
"""What a fit will take, by a clock that tells what it is told to."""

import dataclasses
import itertools

import numpy as np
import pandas as pd
import pytest

import weft
from tests.estimator.tables import station_table
from weft.data.observations import take_rows
from weft.estimator.calibration import Hidden
from weft.estimator.learning import start_for
from weft.inference.regional import condition_regions
from weft.options import Options
from weft.project import cost
from weft.project.prepared import prepare

ROLES = {"time": "time", "space": ("lon", "lat"), "target": "value"}


def test_a_small_fit_is_what_goes_before_it_and_evaluations_and_passes(monkeypatch):
    prepared = prepare(weft.SpaceTimeGP(**ROLES).get_params(), station_table())
    monkeypatch.setattr(cost, "_of_passes", lambda *arguments: 0.25)
    # Ticks: the beginning, the end of the first step of a climb, and three evaluations beside it, of 3, 2 and 2.5 seconds.
    ticks = itertools.accumulate([10.0, 9.0, 0.0, 3.0, 0.0, 2.0, 0.0, 2.5])
    found = cost.cost_of(prepared, lambda: next(ticks))
    assert found.evaluation_seconds == 2.0
    # The step had two evaluations or three, so that 9 seconds are 3 or 5 more than these, which is above what loading may take.
    assert found.fit_seconds == pytest.approx(cost.MOST_LOADING + 2.0 * cost.EVALUATIONS_OF_PARTS + 0.25)
    assert found.num_learning_rows == 149
    assert "time to fit, by the clock" in dict(found.lines())


def test_choosing_components_is_an_evaluation_of_each_change_and_looks_at_what_is_left_out(monkeypatch):
    rng = np.random.default_rng(3)
    lon, lat = rng.uniform(8, 11, 30), rng.uniform(46, 48, 30)
    time, place = (each.ravel() for each in np.meshgrid(np.arange(70.0), np.arange(30), indexing="ij"))
    table = pd.DataFrame({"time": time, "lon": lon[place], "lat": lat[place], "value": rng.normal(size=len(time))})
    tried = []

    def trial(draft, parts, *others):
        tried.append(draft.names)
        return cost._Trial(seconds=2.0 if len(draft.names) == 2 else 3.0, loading=0.0, curving=0.5)

    monkeypatch.setattr(cost, "_tried", trial)
    monkeypatch.setattr(cost, "_seconds_of", lambda function, clock: 0.1)
    monkeypatch.setattr(cost, "_of_passes", lambda *arguments: 0.0)
    found = cost.cost_of(prepare(weft.SpaceTimeGP(**ROLES).get_params(), table))
    # All parts, the draft, and the changes to it: a local component, levels of places, and five that add none.
    assert tried[:2] == [("slow", "fast")] * 2
    changes = [2.0 if len(names) == 2 else 3.0 for names in tried[2:]]
    assert sorted(changes) == [2.0] * 6 + [3.0] * 2
    larger = np.mean(changes) / 2.0
    choosing = 2.0 * cost.EVALUATIONS_OF_DRAFT + sum(changes) * cost.EVALUATIONS_OF_CHANGE + 9 * 0.2
    assert found.fit_seconds == pytest.approx(choosing + larger * (2.0 * cost.EVALUATIONS_OF_PARTS + 0.5))


def test_passes_are_those_that_hide_rows_and_places_in_turn(monkeypatch):
    table = station_table()
    prepared = prepare(weft.SpaceTimeGP(**ROLES).get_params(), table)
    data = prepared.translation.observations(prepared.rows)
    model = start_for(prepared.options, prepared.translation, data).model
    # The first time of asking takes a second more than the others; the part is the whole table.
    steps = [0.0, 3.0, 0.0, 2.0, 0.0, 2.5, 0.0, 2.0]
    arguments = (prepared.options, prepared.translation, model, data, data)
    # Too few rows to hide any, or to tell the noise of places.
    monkeypatch.setattr(cost, "hide", lambda *arguments, **options: ())
    ticks = itertools.accumulate(steps)
    assert cost._of_passes(*arguments, lambda: next(ticks)) == 0.0
    shares = [0.9, 0.5]
    hidden = [Hidden(*(np.arange(data.num_rows) < share * data.num_rows for _ in range(3))) for share in shares]
    monkeypatch.setattr(cost, "hide", lambda *arguments, **options: tuple(hidden))
    for least, more in ((cost.ROWS_A_PLACE, 0.0), (1, 1.0)):
        monkeypatch.setattr(cost, "ROWS_A_PLACE", least)
        turns = sum(float(np.mean(each.rest)) for each in hidden)
        clock = itertools.accumulate(steps).__next__
        assert cost._of_passes(*arguments, clock) == pytest.approx(1.0 + 2.0 * (turns + more))
    without = dataclasses.replace(prepared.options, habits=None)
    assert cost._of_passes(without, *arguments[1:], lambda: 0.0) == 0.0


def test_a_fit_that_searches_for_sites_is_timed_by_a_search():
    table = station_table()
    table["value"] = np.rint(np.exp(table["value"] / table["value"].std() / 3))
    # With pseudo-points that were asked for; else parts of the table are learned from, and timed as they are.
    gp = weft.SpaceTimeGP(**ROLES, likelihood="poisson", pseudo_points=6)
    # The first search, which compiles, takes 7 seconds, the fastest of the others 1.
    ticks = itertools.accumulate([0.0, 0.0, 7.0, 0.0, 1.5, 0.0, 1.0, 0.0, 2.0])
    found = cost.cost_of(prepare(gp.get_params(), table), lambda: next(ticks))
    assert found.evaluation_seconds == pytest.approx(cost.SEARCH)
    assert found.fit_seconds == pytest.approx(6.0 + cost.EVALUATIONS * cost.SEARCH)
    assert found.num_learning_rows == 149


def test_how_many_regions_would_answer_is_told_before():
    rng = np.random.default_rng(8)
    model = weft.Model(weft.Separable(space=weft.Matern32([0.2, 0.2]), time=weft.Matern12(2.0)), weft.Gaussian(0.1))
    data = weft.Observations(rng.uniform(0, 9, 9000), rng.uniform(0, 9, (9000, 2)), rng.normal(size=9000))
    arguments = {"time": "time", "space": ("x", "y"), "target": "value"}
    expected = condition_regions(model, data).num_regions
    assert cost._num_regions(Options(**arguments), model, data, 2) == expected > 20
    assert cost._num_regions(Options(**arguments, regions=7), model, data, 2) == 7
    assert cost._num_regions(Options(**arguments, regions=None), model, data, 2) == 0
    assert cost._num_regions(Options(**arguments), model, take_rows(data, np.arange(300)), 2) == 0
    said = dict(cost.Cost(1, 2, 3.0, 4.0, 5, 60, expected).lines())
    assert said["regions to answer, about"] == str(expected)
    assert "pseudo-points in all" not in said
