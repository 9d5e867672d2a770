# SPDX-License-Identifier: MIT
"""Rows that are means over areas, against a dense Gaussian process with averaged covariance."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import weft
from tests.oracles import dense
from weft.testing import check_kernel

POINTS = np.random.default_rng(0).uniform(0, 3, (2, 4, 2))
WEIGHTS = np.array([[0.1, 0.2, 0.3, 0.4], [0.25, 0.25, 0.25, 0.25]])
LENGTHS = np.array([0.8, 1.3])
# Two places, both areas, a place, an area again.
PLACES = np.array([[0.3, 0.4, -1], [2.0, 1.1, -1], [1.0, 1.0, 0], [1.5, 1.5, 1], [0.9, 2.7, -1], [9.0, 9.0, 0]])


def averaging(places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All points that rows are made of, and how much of each is in each row."""
    points, rows = [], []
    for number, place in enumerate(places):
        area = int(place[-1])
        for point, weight in zip(POINTS[area], WEIGHTS[area], strict=True) if area >= 0 else [(place[:2], 1.0)]:
            points.append(point)
            rows.append(weight * (np.arange(len(places)) == number))
    return np.array(points), np.array(rows).T


def covariance(xs: np.ndarray, ys: np.ndarray) -> np.ndarray:
    (of_x, x_rows), (of_y, y_rows) = averaging(xs), averaging(ys)
    return x_rows @ dense.matern32(of_x, of_y, LENGTHS) @ y_rows.T


def kernel() -> weft.Averages:
    return weft.Averages(weft.Matern32(LENGTHS), POINTS, WEIGHTS)


def test_a_mean_goes_with_another_as_its_points_do():
    assert_allclose(kernel()(PLACES, PLACES[1:4]), covariance(PLACES, PLACES[1:4]), rtol=1e-12)
    check_kernel(kernel(), PLACES[:5])
    even = weft.Averages(weft.Matern32(LENGTHS), POINTS)
    assert_allclose(even(PLACES[2:3])[0, 0], np.mean(dense.matern32(POINTS[0], POINTS[0], LENGTHS)), rtol=1e-12)
    line = weft.Averages(weft.Linear(), POINTS, WEIGHTS)
    assert_allclose(line.features(PLACES) @ line.features(PLACES).T, line(PLACES), rtol=1e-12)
    waves = kernel().random_features(PLACES, 4000, np.random.default_rng(1))
    assert_allclose(waves @ waves.T, covariance(PLACES, PLACES), atol=0.1)


@pytest.mark.parametrize("pseudo_points", [None, PLACES[:4]], ids=["exact", "pseudo-points"])
def test_rows_that_are_means_are_conditioned_on_as_a_dense_process_does(pseudo_points):
    rng = np.random.default_rng(3)
    times, places, values = np.array([0.0, 0.5, 0.5, 2.0, 2.0, 2.5]), PLACES, rng.normal(size=6)
    model = weft.Model(0.7 * weft.Separable(space=kernel(), time=weft.Matern12(1.4)), weft.Gaussian(0.1), pseudo_points)
    data = weft.Observations(times, places, values)
    asked_times, asked = np.array([0.2, 0.5, 3.0]), np.array([[1.0, 1.0, -1], [0.0, 0.0, 1], [2.0, 0.3, -1]])

    def whole(s, x, t, y):
        return 0.7 * covariance(x, y) * dense.matern12(s[:, None], t[:, None], 1.4)

    if pseudo_points is None:
        gram = whole(times, places, times, places) + 0.1 * np.eye(6)
        cross = whole(asked_times, asked, times, places)
        mean = cross @ np.linalg.solve(gram, values)
        variance = np.diag(whole(asked_times, asked, asked_times, asked) - cross @ np.linalg.solve(gram, cross.T))
        found = weft.condition(model, data).marginals(asked_times, asked)
        assert_allclose(found.mean, mean, rtol=1e-8)
        assert_allclose(found.variance, variance, rtol=1e-8)
        _, log_det = np.linalg.slogdet(2 * np.pi * gram)
        evidence = -0.5 * (values @ np.linalg.solve(gram, values) + log_det)
        assert_allclose(weft.log_evidence(model, data), evidence, rtol=1e-9)
        return
    # Titsias' bound, whose pseudo-points are at every time: Q = K_fu K_uu^-1 K_uf.
    at = np.repeat(np.unique(times), len(pseudo_points)), np.tile(pseudo_points, (len(np.unique(times)), 1))
    k_uf, k_uu = whole(*at, times, places), whole(*at, *at)
    explained = k_uf.T @ np.linalg.solve(k_uu, k_uf)
    gram = explained + 0.1 * np.eye(6)
    _, log_det = np.linalg.slogdet(2 * np.pi * gram)
    left = np.trace(whole(times, places, times, places) - explained) / 0.1
    bound = -0.5 * (values @ np.linalg.solve(gram, values) + log_det + left)
    assert_allclose(weft.log_evidence(model, data), bound, rtol=1e-7)


@pytest.mark.parametrize(
    ("places", "words"),
    [
        ([[0.0, 0.0]], "the last the number of the area"),
        ([[0.0, 0.0, 2.0]], "numbered 0 to 1"),
        ([[0.0, 0.0, 0.5]], "0.5"),
    ],
)
def test_what_is_no_area_is_refused(places, words):
    with pytest.raises(ValueError, match=words):
        kernel()(np.array(places))
