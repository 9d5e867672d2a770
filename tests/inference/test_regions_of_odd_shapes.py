# SPDX-License-Identifier: MIT
"""Tables that cut badly: islands, regions of few places, places silent for years, rows measured twice; held to the dense answer."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import weft
from weft.inference.regional import condition_regions

from .test_regional import NOISE, Dense, model


def held_to_dense(times, places, asked_times, asked_places, num_regions):
    """Regions and the dense answer at the questions, the error of the mean in deviations of it."""
    values = np.random.default_rng(5).normal(size=len(times)) + np.sin(places[:, 0])
    data = weft.Observations(times, places, values)
    post = condition_regions(model(), data, num_regions=num_regions)
    exact, covariance = Dense(data.row_times, data.row_places, np.asarray(data.values)).joint(asked_times, asked_places)
    found, deviation = post.marginals(asked_times, asked_places), np.sqrt(np.diagonal(covariance))
    return post, (found.mean - exact) / deviation, np.sqrt(found.variance) / deviation


def series_of(places, times, *, silent=None):
    """A row of every place at every time but those that `silent` says of a place and a time."""
    time, place = (each.ravel() for each in np.meshgrid(times, np.arange(len(places)), indexing="ij"))
    kept = np.ones(len(time), dtype=bool) if silent is None else ~silent(places[place], time)
    return time[kept], places[place[kept]]


def test_islands_of_stations_with_nothing_between():
    rng = np.random.default_rng(1)
    middles = np.array([[0.0, 0.0], [40.0, 5.0], [-30.0, 60.0]])
    # The largest is one region or two, the smallest is part of another's.
    islands = np.concatenate([rng.normal(size=(n, 2)) + m for n, m in zip((30, 18, 5), middles, strict=True)])
    times, places = series_of(islands, np.arange(6.0))
    asked = np.concatenate([rng.normal(size=(20, 2)) + middle for middle in middles])
    at_sea = np.array([[20.0, 2.0], [-15.0, 30.0], [500.0, 500.0]])
    asked_times = np.concatenate([rng.uniform(0, 5, 60), [2.0, 3.0, 4.0]])
    post, off, ratio = held_to_dense(times, places, asked_times, np.concatenate([asked, at_sea]), 4)
    assert np.sqrt(np.mean(off**2)) < 0.05
    assert_allclose(ratio, 1.0, rtol=0.03)
    # Far from all of them nothing is known.
    assert_allclose(post.marginals(asked_times[-3:], at_sea).variance, 1.5, rtol=1e-3)


def two_islands(rng):
    """A small one, and a long one ten length scales away: the border between lies at the shore of the long one."""
    return np.concatenate([rng.uniform(0, 1, (60, 2)), [10.0, 0.0] + rng.uniform(0, 1, (60, 2)) * [6.0, 1.0]])


def coast(rng):
    """Places along two sides of a square."""
    along = rng.uniform(0, 40, 240)[:, None]
    line = np.where(along < 20, along * [1.0, 0.0], [20.0, -20.0] + along * [0.0, 1.0])
    return line + 0.3 * rng.normal(size=line.shape)


@pytest.mark.parametrize(("shape", "num_regions"), [(two_islands, 4), (coast, 8)])
@pytest.mark.parametrize("seed", [0, 1])
def test_regions_have_no_say_at_places_that_they_have_not_seen(shape, num_regions, seed):
    """Though these lie at their border: they had drawn the answers of those who know towards the mean, by up to a deviation."""
    places = shape(np.random.default_rng(seed))
    times, rows = series_of(places, np.arange(4.0))
    post, off, ratio = held_to_dense(times, rows, np.full(len(places), 1.5), places + 0.05, num_regions)
    assert post.num_regions == num_regions
    assert np.abs(off).max() < 0.1
    assert_allclose(ratio, 1.0, rtol=0.01)
    assert post.seam().largest < 1.0


@pytest.mark.parametrize("num_places", [3, 7])
def test_a_region_with_three_places(num_places):
    rng = np.random.default_rng(2)
    times, places = series_of(rng.uniform(0, 5, (num_places, 2)), np.arange(8.0))
    post, off, ratio = held_to_dense(times, places, rng.uniform(-1, 9, 30), rng.uniform(0, 5, (30, 2)), 2)
    cores = [len(np.unique(post.rows.row_places[r.rows[r.is_core]], axis=0)) for r in post.division.regions]
    assert min(cores) <= 3
    assert np.abs(off).max() < 1e-6
    assert_allclose(ratio, 1.0, rtol=1e-6)


def test_a_region_that_is_silent_for_years_knows_nothing_then():
    """Its neighbours go on, and what reaches over its border is theirs."""
    rng = np.random.default_rng(3)
    places = rng.uniform(0, 1, (60, 2)) * [12.0, 5.0]
    times, rows = series_of(places, np.arange(0.0, 40.0, 4.0), silent=lambda at, t: (at[:, 0] < 6) & (t > 5) & (t < 35))
    asked_times, asked = np.full(40, 20.0), rng.uniform(0, 1, (40, 2)) * [12.0, 5.0]
    post, off, ratio = held_to_dense(times, rows, asked_times, asked, 4)
    assert np.sqrt(np.mean(off**2)) < 0.08
    assert_allclose(ratio, 1.0, rtol=0.05)
    west = asked[:, 0] < 3
    assert (post.marginals(asked_times[west], asked[west]).variance > 1.4).all()


def test_rows_measured_twice_count_twice():
    rng = np.random.default_rng(4)
    times, places = series_of(rng.uniform(0, 6, (30, 2)), np.arange(5.0))
    again = rng.choice(len(times), 60)
    times, places = np.concatenate([times, times[again]]), np.concatenate([places, places[again]])
    post, off, ratio = held_to_dense(times, places, rng.uniform(0, 4, 30), rng.uniform(0, 6, (30, 2)), 3)
    assert np.sqrt(np.mean(off**2)) < 0.05
    assert_allclose(ratio, 1.0, rtol=0.03)
    # A core has each row once, however often its place and time are there.
    assert sum(np.count_nonzero(region.is_core) for region in post.division.regions) == len(times)
    assert post.marginals(times[again[:1]], places[again[:1]]).variance < NOISE
