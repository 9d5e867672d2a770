# SPDX-License-Identifier: MIT
"""What a fit will take, by a clock that tells what it is told to."""

import itertools

import pytest

import weft
from tests.estimator.tables import station_table
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
