# SPDX-License-Identifier: MIT
"""The climb: its optimum, its endings, and trial points where nothing can be computed."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from weft.training.maximise import FunctionValue, Outcome, maximise, outcome_in

SETTINGS = {"max_iterations": 300, "tolerance": 1e-13, "gradient_tolerance": 1e-7}


def banana(point):
    """Minus Rosenbrock's function, highest (0) at (1, 1)."""
    x, y = point
    value = -(100 * (y - x**2) ** 2 + (1 - x) ** 2)
    gradient = np.array([400 * x * (y - x**2) + 2 * (1 - x), -200 * (y - x**2)])
    return FunctionValue(value, gradient, value)


def test_reaches_the_top():
    ascent = maximise(banana, np.array([-1.2, 1.0]), **SETTINGS)
    assert ascent.converged
    assert "gradient" in ascent.message
    assert_allclose(ascent.best.point, [1, 1], atol=1e-6)


def test_first_trial_is_no_further_than_one():
    tried = []

    def steep(point):
        tried.append(point)
        return FunctionValue(-1e8 * float(point @ point), -2e8 * point, 0.0)

    maximise(steep, np.array([3.0, 4.0]), **SETTINGS)
    assert_allclose(np.linalg.norm(tried[1] - tried[0]), 1.0)


def fails_by_value(point):
    return FunctionValue(np.nan, np.full(2, np.nan), np.nan)


def fails_by_gradient(point):
    return FunctionValue(-1.0, np.array([np.inf, 0.0]), -1.0)


def fails_by_error(point):
    raise FloatingPointError("the filter broke down at time step 3")


def fails_by_linear_algebra(point):
    raise np.linalg.LinAlgError("singular")


@pytest.mark.parametrize("fails", [fails_by_value, fails_by_gradient, fails_by_error, fails_by_linear_algebra])
@pytest.mark.parametrize("start", [(-1.2, 1.0), (0.0, 0.0), (0.5, 0.9)])
def test_failed_trial_points_are_survived(fails, start):
    """Nothing can be computed off a band around the ridge, and the first step, of length one, leaves it."""
    failures = []

    def evaluate(point):
        return banana(point) if abs(point[1] - point[0] ** 2) < 0.7 else fails(point)

    ascent = maximise(evaluate, np.array(start), **SETTINGS, on_failure=failures.append)
    assert failures
    assert ascent.converged
    assert_allclose(ascent.best.point, [1, 1], atol=1e-6)


def test_a_failed_trial_shortens_the_step_by_four():
    tried = []

    def cliff(point):
        tried.append(float(point[0]))
        return FunctionValue(point[0], np.ones(1), point[0]) if point[0] < 0.1 else fails_by_value(point)

    maximise(cliff, np.zeros(1), max_iterations=1, tolerance=0.0, gradient_tolerance=0.0)
    assert_allclose(tried[:4], [0.0, 1.0, 0.25, 0.0625])


def test_a_start_that_fails_is_an_error():
    with pytest.raises(FloatingPointError, match="at the start is nan"):
        maximise(fails_by_value, np.zeros(2), **SETTINGS)
    with pytest.raises(FloatingPointError, match="time step 3"):
        maximise(fails_by_error, np.zeros(2), **SETTINGS)


def test_surrounded_by_failure_it_stays_and_says_so():
    def island(point):
        return banana(point) if np.all(point == 0.5) else fails_by_error(point)

    ascent = maximise(island, np.array([0.5, 0.5]), **SETTINGS)
    assert not ascent.converged
    assert "cannot be computed" in ascent.message
    assert_allclose(ascent.best.point, [0.5, 0.5])


def test_a_wrong_gradient_is_not_called_convergence():
    def wrong(point):
        return FunctionValue(-float(point @ point), 10.0 * (point + 1.0), 0.0)

    ascent = maximise(wrong, np.zeros(2), **SETTINGS)
    assert not ascent.converged
    assert "no step along the gradient" in ascent.message


def test_endings():
    few = maximise(banana, np.array([-1.2, 1.0]), max_iterations=3, tolerance=1e-13, gradient_tolerance=1e-7)
    assert not few.converged
    assert "3 iterations" in few.message
    loose = maximise(banana, np.array([-1.2, 1.0]), max_iterations=300, tolerance=1e-4, gradient_tolerance=0.0)
    assert loose.converged
    assert "two iterations" in loose.message
    there = maximise(banana, np.ones(2), **SETTINGS)
    assert there.converged
    assert there.best.num_evaluations == 1
    none = maximise(banana, np.zeros(2), max_iterations=0, tolerance=0.0, gradient_tolerance=0.0)
    assert not none.converged


@pytest.mark.parametrize("reason", [StopIteration("enough"), KeyboardInterrupt()])
def test_stopping_returns_the_best_so_far(reason):
    steps = []

    def on_step(step):
        steps.append(step)
        if len(steps) == 4:
            raise reason

    ascent = maximise(banana, np.array([-1.2, 1.0]), **SETTINGS, on_step=on_step)
    assert not ascent.converged
    assert ascent.best is steps[-1]
    assert ("enough" if isinstance(reason, StopIteration) else "interrupted") in ascent.message


def test_one_evaluation_a_point():
    seen = []

    def evaluate(point):
        seen.append(point.tobytes())
        return banana(point)

    ascent = maximise(evaluate, np.array([-1.2, 1.0]), **SETTINGS)
    assert len(seen) == len(set(seen)) == ascent.best.num_evaluations


@pytest.mark.parametrize(
    ("converged", "message", "outcome"),
    [
        (True, "converged: two iterations gained less than 1e-09 of the value each", Outcome.CONVERGED),
        (False, "interrupted: this is the best point so far", Outcome.INTERRUPTED),
        (False, "stopped after 7 iterations, the most allowed, before it converged", Outcome.STOPPED),
    ],
)
def test_outcomes_in_files_of_0_1_are_understood(converged, message, outcome):
    assert outcome_in({"converged": converged, "message": message}) is outcome
    assert outcome_in({"outcome": outcome.value, "message": "anything"}) is outcome
