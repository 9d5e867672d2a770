# SPDX-License-Identifier: MIT
"""What a fit will take, by a clock that tells what it is told to."""

import itertools

import numpy as np
import pytest

import weft
from tests.estimator.tables import station_table
from weft.data.observations import take_rows
from weft.inference.regional import condition_regions
from weft.options import Options
from weft.project import cost
from weft.project.prepared import prepare


def test_a_fit_is_compilations_evaluations_and_passes():
    gp = weft.SpaceTimeGP(time="time", space=("lon", "lat"), target="value")
    prepared = prepare(gp.get_params(), station_table())
    # The first evaluation, which compiles, takes 5 seconds, the fastest of the others 2.
    ticks = itertools.accumulate([0.0, 5.0, 0.0, 3.0, 0.0, 2.0, 0.0, 2.5])
    found = cost.cost_of(prepared, lambda: next(ticks))
    assert found.evaluation_seconds == 2.0
    # One pass over so small a table is as much work as an evaluation: the only part is all of it. 150 rows are too few for habits.
    expected = 3.0 * cost.COMPILED_ALWAYS + 2.0 * (cost.EVALUATIONS_OF_PARTS + cost.PASSES)
    assert found.fit_seconds == pytest.approx(expected)
    assert found.num_learning_rows == 149


def test_a_fit_that_searches_for_sites_is_timed_by_a_search():
    table = station_table()
    table["value"] = np.rint(np.exp(table["value"] / table["value"].std() / 3))
    # With pseudo-points that were asked for; else parts of the table are learned from, and timed as they are.
    roles = {"time": "time", "space": ("lon", "lat"), "target": "value"}
    gp = weft.SpaceTimeGP(**roles, likelihood="poisson", pseudo_points=6)
    # The first search, which compiles, takes 7 seconds, the fastest of the others 1.
    ticks = itertools.accumulate([0.0, 7.0, 0.0, 1.5, 0.0, 1.0, 0.0, 2.0])
    found = cost.cost_of(prepare(gp.get_params(), table), lambda: next(ticks))
    assert found.evaluation_seconds == pytest.approx(cost.SEARCH)
    assert found.fit_seconds == pytest.approx(cost.COMPILED_TO_SEARCH * 6.0 + cost.EVALUATIONS * cost.SEARCH)
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
