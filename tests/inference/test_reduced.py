# SPDX-License-Identifier: MIT
"""Models on fewer functions of place than there are places, against dense matrices."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import weft
from weft.inference.prior import (
    features_at,
    features_to_draw_from,
    own_features,
    reductions_at,
    reductions_to_draw_from,
)
from weft.inference.reduced import Share, components_worth, noise_beside, reduced, sizes_within
from weft.state_space.basis import Leading

NOISE = 0.2


def model():
    return weft.Model(
        kernel=1.5 * weft.Separable(space=weft.Matern32([3.0, 2.0]), time=weft.Matern32(20.0))
        + 0.7 * weft.Separable(space=weft.EQ(1.1), time=weft.Matern12(1.5))
        + 0.1 * weft.Separable(space=weft.Matern12(0.1), time=weft.Constant(1.0)),
        likelihood=weft.Gaussian(NOISE),
    )


@pytest.fixture(scope="module")
def region():
    """Places, and how much each counts."""
    rng = np.random.default_rng(5)
    return rng.uniform(0, 3, (40, 2)), rng.uniform(0.2, 1.0, 40)


def unexplained(reduction_model, places, importance):
    """By component, from the best functions that a dense decomposition finds."""
    left = []
    for part, basis in zip(reduction_model.components, reduction_model.bases, strict=True):
        root = np.sqrt(float(part.variance) * importance)
        held = np.linalg.svd(root[:, None] * np.asarray(part.space.covariance(places, places)) * root)[1]
        left.append(np.sum(held[getattr(basis, "size", len(places)) :]) / np.sum(importance))
    return np.array(left)


def test_no_more_than_the_share_is_left_and_one_function_fewer_would_leave_more(region):
    places, importance = region
    times = np.arange(60.0)
    worth = components_worth(model(), times)
    few = reduced(model(), places, Share(0.05 * NOISE, importance, worth))
    left = unexplained(few, places, importance)
    assert_allclose(
        np.average(own_features(few, places).unexplained, axis=0, weights=importance), left, rtol=1e-6, atol=1e-12
    )
    counted = worth / [1.5, 0.7, 0.1]
    assert np.sum(counted * left) <= 0.05 * NOISE
    sizes = np.array([getattr(basis, "size", len(places)) for basis in few.bases])
    # The smooth ones take fewer functions than there are places, the rough one that no time changes takes all.
    assert sizes[2] == len(places)
    assert np.all(sizes[:2] < 0.8 * len(places))
    for number in range(3):
        fewer = [Leading(int(size), places, importance) for size in sizes]
        fewer[number] = Leading(int(sizes[number]) - 1, places, importance)
        less = weft.Model(model().kernel, model().likelihood, tuple(fewer))
        assert np.sum(counted * unexplained(less, places, importance)) > 0.05 * NOISE


def test_components_count_by_how_long_they_last():
    times = np.arange(60.0)
    counted = components_worth(model(), times) / [1.5, 0.7, 0.1]
    lags = np.abs(times - 30.0)
    fast = np.sum(np.exp(-lags / 1.5) ** 2)
    slow = np.sum(((1 + np.sqrt(3) * lags / 20) * np.exp(-np.sqrt(3) * lags / 20)) ** 2)
    assert_allclose(counted, np.sqrt([slow, fast, 60.0]), rtol=1e-9)


def test_leading_functions_are_the_same_compiled_and_not(region):
    places, importance = region
    few = reduced(model(), places, Share(0.05 * NOISE, importance, components_worth(model(), np.arange(60.0))))
    elsewhere = np.random.default_rng(6).uniform(-1, 4, (15, 2))
    found = features_at(few, reductions_at(few, places), elsewhere)
    compiled = features_to_draw_from(few, reductions_to_draw_from(few, places), elsewhere)
    # Signs of functions are anybody's.
    assert_allclose(found.weights @ found.weights.T, compiled.weights @ compiled.weights.T, rtol=1e-7, atol=1e-10)
    assert_allclose(found.unexplained, compiled.unexplained, rtol=1e-6, atol=1e-10)
    assert np.all(found.unexplained >= 0)


def test_nothing_is_left_out_where_nothing_may_be(region):
    places, importance = region
    share = Share(0.0, importance, components_worth(model(), np.arange(60.0)))
    assert sizes_within(model(), places, share).tolist() == [40, 40, 40]
    assert reduced(model(), places, share).is_exact


def test_noise_of_a_usual_place(region):
    places, _ = region
    given = weft.Observations(
        np.array([0.0, 0.0, 0.0, 1.0]), places[[0, 1, 2, 1]], np.zeros(4), noise_variance=np.array([0.1, 0.3, 9.0, 0.5])
    )
    assert_allclose(noise_beside(model(), given.noise_of_places), NOISE + 0.4)
    assert_allclose(noise_beside(model(), None), NOISE)
