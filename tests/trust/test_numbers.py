# SPDX-License-Identifier: MIT
"""Answers that were wrong where times are of the size of Unix seconds, or noise is floored."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

import weft
from weft.inference.paths import square_root


def test_draws_at_times_of_the_size_of_unix_seconds_were_far_too_wide() -> None:
    """Their deviation was six times that of the marginals, which were right."""
    kernel = weft.Separable(space=weft.EQ(0.86), time=weft.Linear(2e-18, -6.6e7))
    pseudo_points = np.array([[0.1], [0.7], [1.5], [2.2]])
    model = weft.Model(kernel=kernel, likelihood=weft.Gaussian(1e4), pseudo_points=pseudo_points)
    data = weft.Observations(np.array([3.5e8, 2.8e9]), np.array([[0.4], [1.1]]), np.array([30.0, -80.0]))
    posterior = weft.condition(model, data)
    times, places = np.array([4.0e9, 4.0e9, 1.0e9]), np.array([[0.3], [1.9], [0.3]])
    expected = posterior.marginals(times, places)
    # By the definition: noise is so large beside f that the data change its variance by less than 1e-2.
    prior = 2e-18 * (times + 6.6e7) ** 2
    assert_allclose(expected.variance, prior, rtol=1e-2)
    num = 20_000
    draws = posterior.sample(times, places, num=num, seed=2)
    deviation = np.sqrt(expected.variance)
    assert np.all(np.abs(draws.mean(axis=0) - expected.mean) < 5 * deviation / np.sqrt(num))
    # Five standard errors of an empirical variance.
    assert_allclose(draws.var(axis=0), expected.variance, rtol=5 * np.sqrt(2 / num))


def test_a_square_root_keeps_the_digits_of_the_small_entries() -> None:
    """Of a level and a slope over a long time, by which it is then multiplied: rank one, with exact numbers."""
    level, slope = 0.6, 1.4e-9
    loading = np.array([level, slope])
    root = square_root(np.stack([np.outer(loading, loading), np.zeros((2, 2))]))
    ahead = np.array([1.0, 3.65e9])
    assert_allclose(ahead @ root[0] @ root[0].T @ ahead, (level + slope * 3.65e9) ** 2, rtol=1e-12)
    assert_allclose(root[1], 0.0, atol=0)


def test_a_square_root_has_no_sign_to_choose() -> None:
    """Draws of a seed differed between processors, whose routines give eigenvectors one sign or the other."""
    covariance = np.array([[4.0, 1.2, -0.3], [1.2, 1.0, 0.2], [-0.3, 0.2, 0.25]])
    of_correlations = square_root(covariance) / np.sqrt(np.diagonal(covariance))[:, None]
    np.testing.assert_allclose(of_correlations, of_correlations.T, atol=1e-14)
    assert np.linalg.eigvalsh(of_correlations).min() > 0
    np.testing.assert_allclose(square_root(covariance) @ square_root(covariance).T, covariance, rtol=1e-13)


def test_a_square_root_of_rounding_was_a_million_times_as_large() -> None:
    """A zero variance among covariances of 1e-13, as differences of numbers near 1000 leave them."""
    rounding = 1.1e-13 * np.array(
        [[3.0, 1.0, 1.0, 2.0], [1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 2.0], [2.0, 1.0, 2.0, 0.0]]
    )
    root = square_root(rounding)
    assert_allclose(root @ root.T, rounding, atol=3e-13, rtol=0)


def test_a_sum_of_squares_lost_its_digits_where_noise_is_small_and_rows_are_many() -> None:
    """Of rows that f explains, 1e5 noise deviations from zero: of their sum of squares next to nothing may be left over."""
    rng = np.random.default_rng(1)
    kernel = weft.Separable(space=weft.EQ(2.0), time=weft.Matern32(1.3), variance=1.2)
    model = weft.Model(kernel=kernel, likelihood=weft.Gaussian(1e-9), pseudo_points=rng.uniform(0, 3, (4, 2)))
    times, places = np.repeat(np.arange(4.0), 15), np.tile(rng.uniform(0, 3, (15, 2)), (4, 1))
    empty = weft.Observations(times, places, np.zeros(60))
    grouping, weights = empty.grouping, np.asarray(weft.condition(model, empty).weights)
    field = np.sum(weights[grouping.place_of_row] * rng.normal(size=(4, 4))[grouping.time_of_row], axis=1)
    data = weft.Observations(empty.row_times, empty.places[grouping.place_of_row], field + 3e-5 * rng.normal(size=60))
    fast, plain = (float(weft.log_evidence(model, data, correction=False, engine=name)) for name in ("cpu", "scan"))
    # It was off by 4e-4. The plain engine meets rows in slots of four, each a difference from numbers 1e9 times as large as what is left.
    assert_allclose(fast, plain, rtol=1e-8)


@pytest.mark.parametrize("time", [weft.Linear(0.8, -1.0), weft.Wiener(0.7)], ids=["linear", "wiener"])
def test_an_update_differed_from_conditioning_at_once_where_noise_is_floored(time: weft.Kernel) -> None:
    """The floor was that of the first row of each batch, and the prior variance grows with time."""
    rng = np.random.default_rng(3)
    kernel = weft.Separable(space=weft.Matern32(0.9), time=time, variance=1.3)
    model = weft.Model(kernel=kernel, likelihood=weft.Gaussian(1e-14), pseudo_points=rng.uniform(0, 2, (3, 1)))
    times = np.repeat([0.5, 1.0, 8.0, 30.0], 2)
    places = rng.uniform(0, 2, (8, 1))
    values = rng.normal(size=8)
    first, later = slice(0, 4), slice(4, None)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the smallest noise variance")
        at_once = weft.condition(model, weft.Observations(times, places, values))
        begun = weft.condition(model, weft.Observations(times[first], places[first], values[first]))
        updated = begun.update(weft.Observations(times[later], places[later], values[later]))
    asked = np.array([0.7, 8.0, 31.0]), np.array([[0.5], [1.2], [1.9]])
    expected, found = at_once.marginals(*asked), updated.marginals(*asked)
    deviation = np.sqrt(expected.variance)
    # Noise 1e-10 of the variance leaves about six digits of a mean, by construction of the floor.
    assert np.all(np.abs(found.mean - expected.mean) < 1e-5 * deviation)
    assert_allclose(found.variance, expected.variance, rtol=1e-5)
