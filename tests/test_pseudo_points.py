# SPDX-License-Identifier: MIT
"""Placement of pseudo-points: against brute force, and at the edges."""

import logging
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import weft
from tests.oracles import dense
from weft import pseudo_points


def mean_squared_distance(places, weight, points):
    squares = ((places[:, None] - points[None]) ** 2).sum(axis=-1).min(axis=1)
    return weight @ squares / weight.sum()


def unexplained(covariance, places, points):
    """Variance at the places given the points, from the definition."""
    cross = covariance(places, points)
    gram = covariance(points, points) + 1e-12 * np.eye(len(points))
    return np.diagonal(covariance(places, places) - cross @ np.linalg.solve(gram, cross.T))


@pytest.fixture
def clusters():
    rng = np.random.default_rng(0)
    centres = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0], [10.0, 10.0]])
    return np.concatenate([centre + 0.3 * rng.normal(size=(30, 2)) for centre in centres]) + 1e6


def test_kmeans_finds_clusters_far_from_the_origin(clusters):
    points = weft.place(clusters, 4)
    nearest = np.abs(points[:, None] - clusters.reshape(4, 30, 2).mean(axis=1)).max(axis=2).min(axis=0)
    assert_allclose(nearest, 0, atol=1e-6)


def test_kmeans_is_a_fixed_point_of_lloyds_turn():
    rng = np.random.default_rng(1)
    places = rng.normal(size=(300, 3))
    points = weft.place(places, 7, weights="places")
    owner = ((places[:, None] - points[None]) ** 2).sum(axis=-1).argmin(axis=1)
    # It stops when a turn gains less than 1e-5 of the cost, so centres still move a little.
    means = np.stack([places[owner == i].mean(axis=0) for i in range(7)])
    assert_allclose(points, means, atol=0.05)
    random = min(mean_squared_distance(places, np.ones(300), places[rng.choice(300, 7)]) for _ in range(50))
    assert mean_squared_distance(places, np.ones(300), points) < 0.9 * random


def test_rows_count_as_often_as_they_come():
    places = np.array([[0.0], [1.0], [10.0], [11.0]])
    often = np.repeat(places, [9, 1, 1, 4], axis=0)
    assert_allclose(np.sort(weft.place(often, 2).ravel()), [0.1, 10.8])
    assert_allclose(np.sort(weft.place(often, 2, weights="places").ravel()), [0.5, 10.5])
    data = weft.Observations(np.arange(15.0), often, np.zeros(15))
    assert_allclose(weft.place(data, 2), weft.place(often, 2))


@pytest.mark.parametrize("method", ["kmeans", "greedy", "grid"])
def test_no_more_points_than_places(method):
    places = np.array([[0.0, 1.0], [0.0, 1.0], [2.0, 1.0], [5.0, -3.0]])
    points = weft.place(places, 10, method=method)
    assert len(points) == 3
    assert {tuple(point) for point in points} == {tuple(place) for place in places}
    alone = weft.place(places[:2], 1, method=method)
    assert_allclose(alone, places[:1])


@pytest.mark.parametrize("method", ["kmeans", "greedy", "grid"])
def test_the_seed_decides(method):
    places = np.random.default_rng(2).normal(size=(3000, 2))
    first, second = (weft.place(places, 12, method=method, seed=3) for _ in range(2))
    assert_array_equal(first, second)
    if method == "kmeans":
        assert not np.array_equal(first, weft.place(places, 12, seed=4))


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 40), st.integers(1, 3), st.integers(1, 12), st.integers(0, 1000))
def test_kmeans_gives_distinct_centres_within_the_data(size, width, count, seed):
    """Rounded places: many coincide, and clusters go empty."""
    places = np.round(np.random.default_rng(seed).normal(size=(size, width)), 1)
    points = weft.place(places, count, seed=seed)
    assert points.shape == (min(count, len(np.unique(places, axis=0))), width)
    assert len(np.unique(points, axis=0)) == len(points)
    assert np.all((points >= places.min(axis=0) - 1e-9) & (points <= places.max(axis=0) + 1e-9))


def test_a_centre_without_places_moves_to_where_it_is_needed():
    places = np.array([[0.0], [1.0], [50.0]])
    weight = np.ones(3) / 3
    centres, cost = pseudo_points.lloyd(places, weight, np.array([[0.4], [0.6], [1000.0]]), 100)
    assert_allclose(np.sort(centres.ravel()), [0.0, 1.0, 50.0])
    assert_allclose(cost, 0, atol=1e-20)


# --- greedy ------------------------------------------------------------------------------------------------------------------


def test_greedy_takes_what_leaves_least_unexplained():
    """Each point against all alternatives, by dense conditional variances, with weights that differ."""
    rng = np.random.default_rng(5)
    places = rng.uniform(0, 4, (25, 2))
    rows = rng.integers(1, 6, 25)
    lengthscale = np.array([1.0, 2.5])
    points = weft.place(np.repeat(places, rows, axis=0), 6, method="greedy", kernel=weft.Matern32(lengthscale))

    def covariance(x, y):
        return dense.matern32(x, y, lengthscale)

    for i in range(6):
        rest = [rows @ unexplained(covariance, places, np.concatenate([points[:i], place[None]])) for place in places]
        assert_array_equal(points[i], places[np.argmin(rest)])


def test_auto_stops_at_the_tolerance():
    rng = np.random.default_rng(6)
    places = rng.uniform(0, 10, (200, 2))
    kernel = weft.EQ(3.0, variance=2.0)

    def covariance(x, y):
        return 2.0 * dense.eq(x, y, 3.0)

    for tolerance in (0.1, 0.01):
        points = weft.place(places, "auto", kernel=kernel, tolerance=tolerance)
        assert np.mean(unexplained(covariance, places, points)) <= tolerance * 2.0
        assert np.mean(unexplained(covariance, places, points[:-1])) > tolerance * 2.0


def test_components_share_the_tolerance():
    """A smooth component takes few points and a rough one many; what they leave together is what counts."""
    rng = np.random.default_rng(7)
    places = rng.uniform(0, 10, (120, 2))
    smooth = 3.0 * weft.Separable(space=weft.EQ(8.0), time=2.0 * weft.Matern32(5.0))
    rough = weft.Separable(space=weft.Matern32(2.0), time=weft.Matern12(1.0))
    constant = weft.Separable(space=weft.Constant(1.0), time=weft.Constant(4.0))
    first, second, third = weft.place(places, "auto", kernel=smooth + rough + constant, tolerance=0.05)
    assert 2 < len(first) < len(second)
    assert len(third) == 1

    def left(smooth_points, rough_points):
        of_smooth = 6.0 * unexplained(lambda x, y: dense.eq(x, y, 8.0), places, smooth_points)
        return np.mean(of_smooth + unexplained(lambda x, y: dense.matern32(x, y, 2.0), places, rough_points))

    assert left(first, second) <= 0.05 * 7.0
    assert min(left(first[:-1], second), left(first, second[:-1])) > 0.05 * 7.0
    one = weft.place(places, "auto", kernel=smooth)
    assert isinstance(one, np.ndarray)
    each = weft.place(places, 4, method="greedy", kernel=smooth + rough)
    assert [len(points) for points in each] == [4, 4]
    model = weft.Model(smooth + rough + constant, weft.Gaussian(0.1), (first, second, third))
    assert model.pseudo_points[1].shape == second.shape


def test_greedy_says_when_it_stops_short(caplog):
    places = np.random.default_rng(8).uniform(0, 100, (80, 2))
    with caplog.at_level(logging.WARNING, "weft"):
        points = weft.place(places, "auto", kernel=weft.Matern12(1.0), max_points=10)
    assert len(points) == 10
    assert "above the tolerance" in caplog.text


def test_greedy_on_a_sphere_and_without_a_kernel():
    rng = np.random.default_rng(9)
    places = np.stack([rng.uniform(-80, 80, 60), rng.uniform(-180, 180, 60)], axis=1)
    points = weft.place(places, 5, method="greedy", kernel=weft.OnSphere(weft.Matern32(4000.0)))
    assert {tuple(point) for point in points} <= {tuple(place) for place in places}
    # The default kernel goes by each column's own spread, so units do not matter.
    chosen = weft.place(places, 5, method="greedy")
    scaled = weft.place(places * np.array([1e-3, 1e4]), 5, method="greedy")
    assert_allclose(scaled, chosen * np.array([1e-3, 1e4]))


# --- grid --------------------------------------------------------------------------------------------------------------------


def test_grid_is_regular_and_near_the_data():
    rng = np.random.default_rng(10)
    angle = rng.uniform(0, 2 * np.pi, 500)
    ring = np.stack([3 * np.cos(angle), 3 * np.sin(angle)], axis=1) + 0.1 * rng.normal(size=(500, 2))
    points = weft.place(ring, 40, method="grid")
    assert 30 < len(points) <= 40
    spacings = [np.diff(np.unique(np.round(column, 9))) for column in points.T]
    spacing = spacings[0][0]
    for gaps in spacings:
        assert_allclose(gaps / spacing, np.round(gaps / spacing), atol=1e-6)
    distance = np.sqrt(((points[:, None] - ring[None]) ** 2).sum(axis=-1)).min(axis=1)
    assert np.all(distance <= spacing / np.sqrt(2) + 1e-9)
    # The middle of the ring is empty.
    assert np.linalg.norm(points, axis=1).min() > 1.0


def test_grid_on_a_line_and_in_three_columns():
    line = np.linspace(0, 9, 100)[:, None]
    assert_allclose(np.diff(weft.place(line, 10, method="grid").ravel()), 1.0, rtol=0.05)
    cube = np.random.default_rng(11).uniform(size=(2000, 3))
    assert 20 < len(weft.place(cube, 30, method="grid")) <= 30


# --- many places and wrong arguments -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments", [{"count": 60}, {"count": "auto", "tolerance": 0.05}, {"count": 60, "method": "grid"}]
)
def test_many_places(arguments):
    """200,000 places here; the cost beyond that is linear, and a million take seconds."""
    rng = np.random.default_rng(12)
    places = rng.normal(size=(200_000, 2)) * [3.0, 1.0]
    begun = time.perf_counter()
    points = weft.place(places, **arguments)
    assert time.perf_counter() - begun < 60
    assert 5 < len(points) <= 60
    if "tolerance" in arguments:
        some = places[rng.choice(len(places), 3000)]
        left = unexplained(lambda x, y: dense.matern32(x, y, places.std(axis=0)), some, points)
        # Measured on 20,000 places and checked on 3000 others.
        assert_allclose(np.mean(left), 0.05, rtol=0.15)


def test_points_given_are_checked_and_returned():
    places = np.random.default_rng(13).normal(size=(20, 2))
    points = [[0.1, 0.2], [3.0, 4.0]]
    assert_array_equal(weft.place(places, points), points)
    with pytest.raises(ValueError, match="3 columns"):
        weft.place(places, np.ones((4, 3)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"count": "many"}, "'auto'"),
        ({"count": 0}, "at least 1"),
        ({"count": "auto", "method": "grid"}, "greedy"),
        ({"count": 3, "method": "dice"}, "'kmeans'"),
        ({"count": 3, "weights": "money"}, "'rows' or 'places'"),
        ({"count": "auto", "tolerance": 0.0}, "tolerance"),
        ({"count": "auto", "kernel": weft.EQ([1.0, 2.0, 3.0])}, "column"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        weft.place(np.random.default_rng(14).normal(size=(20, 2)), **arguments)


def test_places_that_are_not_numbers_are_refused():
    with pytest.raises(ValueError, match="finite"):
        weft.place(np.array([[1.0, np.nan]]), 1)
    with pytest.raises(TypeError, match="matrix of numbers"):
        weft.place([["a", "b"]], 1)
