# SPDX-License-Identifier: MIT
"""A posterior of regions against the dense Gaussian process over all rows, where both can be computed."""

import gc
import logging
import pickle
import re
import weakref

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import weft
from weft.inference.division import Division, num_regions_within
from weft.inference.executor import Threads, running_on
from weft.inference.reduced import MOST_UNEXPLAINED
from weft.inference.regional import condition_regions
from weft.inference.single import condition
from weft.inference.watching import tasks_shown
from weft.scores import crps_gaussian

NOISE = 0.15


def model():
    return weft.Model(
        kernel=1.1 * weft.Separable(space=weft.Matern32([1.2, 0.9]), time=weft.Matern32(4.0))
        + 0.4 * weft.Separable(space=weft.Matern12([0.6, 0.7]), time=weft.Matern12(1.5)),
        likelihood=weft.Gaussian(NOISE),
    )


class Dense:
    """The exact posterior from the kernel's matrix over all rows."""

    def __init__(self, times, places, values):
        self.times, self.places = times, places
        covariance = np.asarray(model().kernel(times, places)) + NOISE * np.eye(len(times))
        self.factor = np.linalg.cholesky(covariance)
        self.whitened = np.linalg.solve(self.factor, values)

    def joint(self, times, places):
        cross = np.asarray(model().kernel(self.times, self.places, times, places))
        half = np.linalg.solve(self.factor, cross)
        return half.T @ self.whitened, np.asarray(model().kernel(times, places)) - half.T @ half


def uneven(rng, count):
    """Places in a box of 8 by 6, half of them crowded into a corner."""
    places = rng.uniform(0, 1, (count, 2)) * [8.0, 6.0]
    places[: count // 2] = rng.uniform(0, 1, (count // 2, 2)) * [3.0, 2.5]
    return places


class Problem:
    def __init__(self, times, places, asked_times, asked_places):
        rng = np.random.default_rng(11)
        everything = np.asarray(
            model().kernel(np.concatenate([times, asked_times]), np.concatenate([places, asked_places]))
        )
        field = np.linalg.cholesky(everything + 1e-9 * np.eye(len(everything))) @ rng.normal(size=len(everything))
        self.data = weft.Observations(times, places, field[: len(times)] + np.sqrt(NOISE) * rng.normal(size=len(times)))
        self.truth = field[len(times) :]
        self.asked = asked_times, asked_places
        self.dense = Dense(self.data.row_times, self.data.row_places, np.asarray(self.data.values))


@pytest.fixture(scope="module")
def floats():
    """No place twice, every row at a time of its own."""
    rng = np.random.default_rng(10)
    return Problem(rng.uniform(0, 9, 900), uneven(rng, 900), rng.uniform(-1, 10, 300), uneven(rng, 300))


@pytest.fixture(scope="module")
def stations():
    """Places seen again and again, some of the times."""
    rng = np.random.default_rng(12)
    places = uneven(rng, 110)
    time, place = np.nonzero(rng.uniform(size=(12, 110)) > 0.3)
    return Problem(time.astype(float), places[place], rng.uniform(-1, 13, 300), uneven(rng, 300))


@pytest.fixture(scope="module", params=["floats", "stations", "stations, a share left out"])
def both(request):
    name, _, is_reduced = request.param.partition(", ")
    problem = request.getfixturevalue(name)
    post = condition_regions(
        model(),
        problem.data,
        num_regions=7 if name == "floats" else 4,
        share=MOST_UNEXPLAINED if is_reduced else None,
    )
    # Rough components keep a function a place, smooth ones do not.
    assert all(region.model.is_exact != bool(is_reduced) for region in map(post._here.conditioned, range(4)))
    return problem, post


def scores(mean, variance, truth):
    z = (truth - mean) / np.sqrt(variance)
    density = np.mean(0.5 * z**2 + 0.5 * np.log(variance))
    crps = np.mean(crps_gaussian(truth, mean, np.sqrt(variance)))
    return np.sqrt(np.mean((truth - mean) ** 2)), crps, density, np.mean(abs(z) < 1.645)


def test_answers_are_nearly_the_exact_ones(both):
    problem, post = both
    mean, covariance = problem.dense.joint(*problem.asked)
    deviation = np.sqrt(np.diagonal(covariance))
    found = post.marginals(*problem.asked)
    # In deviations of the exact answer: what is lost by cutting the table into regions.
    assert np.sqrt(np.mean(((found.mean - mean) / deviation) ** 2)) < 0.07
    assert_allclose(np.sqrt(found.variance), deviation, rtol=0.05)
    exact, ours = scores(mean, deviation**2, problem.truth), scores(*found, problem.truth)
    assert_allclose(ours[:2], exact[:2], rtol=0.01)
    assert abs(ours[2] - exact[2]) < 0.01
    # Of 300 points: one or two on the edge of their interval are half a per cent.
    assert abs(ours[3] - exact[3]) <= 0.01


def test_components_add_up_to_the_whole(both):
    problem, post = both
    found, parts = post.marginals(*problem.asked), post.components(*problem.asked)
    assert len(parts) == 2
    assert_allclose(sum(part.mean for part in parts), found.mean, atol=1e-9)


def test_regions_heard_at_rows_of_few_places_are_those_of_every_row(stations, monkeypatch):
    """Looked up place by place, and asked some at a time, they say what they say."""
    post = condition_regions(model(), stations.data, num_regions=4)
    times, places = np.repeat([1.0, 4.5, 5.0, 7.0, 9.0], 40), np.tile(stations.asked[1][:40], (5, 1))
    mixed = np.random.default_rng(1).permutation(200)
    times, places = times[mixed], places[mixed]
    shares = post.division.shares(times, places)
    for region, point, weight in post.division.heard(times, places):
        mine = shares.cell == region
        assert_array_equal(point, shares.point[mine])
        assert_array_equal(weight, shares.weight[mine])
    whole = post.marginals(times, places)
    monkeypatch.setattr("weft.inference.regional.POINTS_TOLD", 50)
    monkeypatch.setattr("weft.inference.division.POINTS_AT_ONCE", 30)
    for found, expected in zip(post.marginals(times, places), whole, strict=True):
        assert_array_equal(found, expected)
    for field, expected in zip(post.division.shares(times, places), shares, strict=True):
        assert_array_equal(field, expected)


def test_one_region_is_the_exact_posterior(stations):
    post, exact = condition_regions(model(), stations.data, num_regions=1), condition(model(), stations.data)
    for one, other in zip(post.marginals(*stations.asked), exact.marginals(*stations.asked), strict=True):
        assert_allclose(one, other, rtol=1e-8, atol=1e-9)
    assert_allclose(post.log_evidence, exact.log_evidence, rtol=1e-9)
    assert_allclose(post.fitted_values(), exact.fitted_values(), rtol=1e-7, atol=1e-9)


def test_no_step_at_the_borders(both):
    problem, post = both
    line = np.stack([np.linspace(0.1, 7.9, 600), np.full(600, 2.2)], axis=1)
    times = np.full(600, 5.0)
    found, (mean, covariance) = post.marginals(times, line), problem.dense.joint(times, line)
    # What regions add to the exact mean moves smoothly: a seam would be a step in it. The line crosses borders.
    assert len(np.unique(post.division.cuts.cell_of(post.division.nearness(times, line)))) >= 2
    steps = np.abs(np.diff(found.mean - mean)) / np.sqrt(np.diagonal(covariance)[1:])
    assert steps.max() < 0.03


def test_draws_vary_as_the_exact_posterior_over_areas(both):
    problem, post = both
    corners = np.stack(np.meshgrid(np.linspace(1.0, 7.0, 9), np.linspace(1.0, 5.0, 7)), axis=-1).reshape(-1, 2)
    times = np.full(len(corners), 4.0)
    assert len(np.unique(post.division.cuts.cell_of(post.division.nearness(times, corners)))) >= 4
    assert not post.is_exact_over(times, corners)
    draws = post.sample(times, corners, num=400, seed=3)
    mean, covariance = problem.dense.joint(times, corners)
    average = np.full(len(corners), 1 / len(corners))
    # The deviation of 400 draws is known to 3.5 %.
    assert_allclose(np.std(draws @ average), np.sqrt(average @ covariance @ average), rtol=0.1)
    assert_allclose(np.std(draws, axis=0), np.sqrt(np.diagonal(covariance)), rtol=0.2)
    assert abs(np.mean(draws @ average) - average @ mean) < 0.2 * np.sqrt(average @ covariance @ average)


def test_a_sum_within_one_region_is_exact(stations):
    post = condition_regions(model(), stations.data, num_regions=3)
    inside = np.flatnonzero(
        post.division.cuts.cell_of(post.division.nearness(np.full(300, 2.0), stations.asked[1])) == 1
    )[:5]
    times, places = np.linspace(1.0, 3.0, 5), stations.asked[1][inside]
    assert post.is_exact_over(times, places)
    weights = np.array([0.1, 0.3, 0.2, 0.15, 0.25])
    found = post.aggregate(times, places, weights)
    assert_allclose(found.variance, weights @ post.covariance(times, places) @ weights, rtol=1e-8)
    assert_allclose(found.mean, weights @ post.region(1).marginals(times, places).mean, rtol=1e-8)


def test_update_equals_all_rows_at_once(stations):
    data = stations.data
    early = data.row_times < 9
    post = condition_regions(
        model(), weft.Observations(data.row_times[early], data.row_places[early], data.values[early]), num_regions=3
    )
    more = weft.Observations(data.row_times[~early], data.row_places[~early], data.values[~early])
    updated = post.update(more)
    whole = condition_regions(model(), data, num_regions=3)
    asked = stations.asked
    # The regions are those of the early rows, so equal up to what regions leave out.
    deviation = np.sqrt(whole.marginals(*asked).variance)
    assert np.sqrt(np.mean(((updated.marginals(*asked).mean - whole.marginals(*asked).mean) / deviation) ** 2)) < 0.1
    assert updated.batches[0].num_rows == data.num_rows
    ahead = updated.one_step_ahead()
    assert len(ahead.residual) == data.num_rows
    assert np.all(np.isfinite(ahead.residual))
    assert np.all(ahead.variance > NOISE)


@pytest.mark.parametrize("is_saved", [False, True])
def test_regions_that_have_grown_are_cut_anew(is_saved, tmp_path, caplog):
    """Rows that come at the end of a series come to the few regions that end there: a matrix of them had no end."""
    rng = np.random.default_rng(13)

    def rows(num, since):
        return weft.Observations(
            rng.uniform(since, since + 9, num), rng.uniform(0, 1, (num, 2)) * 8, rng.normal(size=num)
        )

    post = first = condition_regions(model(), rows(600, 0.0), num_regions=6)
    if is_saved:
        post.save(tmp_path / "regions.weft")
        post = weft.load(tmp_path / "regions.weft")
    with caplog.at_level(logging.INFO, "weft"):
        for turn in range(1, 6):
            post = post.update(rows(600, 9.0 * turn))
            assert max(len(region.rows) for region in post.division.regions) <= 2 * post.division.largest
            # What a gap adds to what a region sees is that of the cuts of the day.
            assert post.division.largest <= 1.5 * first.division.largest
    assert 600 / 6 / 2 < 3600 / post.num_regions < 2 * 600 / 6
    assert "so that none sees far more than they did" in caplog.text
    assert_array_equal(np.sort(np.concatenate([r.rows[r.is_core] for r in post.division.regions])), np.arange(3600))


def test_stations_that_go_on_for_long_are_not_cut_anew(stations):
    post = condition_regions(model(), stations.data, num_regions=3)
    data = stations.data
    for turn in range(1, 6):
        post = post.update(weft.Observations(data.row_times + 20 * turn, data.row_places, data.values))
    assert post.num_regions == 3


@pytest.mark.parametrize("share", [0.0, MOST_UNEXPLAINED])
def test_it_is_saved_and_sent(stations, tmp_path, share):
    post = condition_regions(model(), stations.data, num_regions=3, share=share)
    times, places = stations.asked[0][:20], stations.asked[1][:20]
    expected = post.marginals(times, places)
    post.save(tmp_path / "regions.weft", rows=True)
    for again in (weft.load(tmp_path / "regions.weft"), pickle.loads(pickle.dumps(post))):
        assert again.division.share == share
        for one, other in zip(again.marginals(times, places), expected, strict=True):
            assert np.array_equal(one, other)


def test_forecasts_and_filtered_answers_see_no_future(stations):
    post = condition_regions(model(), stations.data, num_regions=3)
    places = stations.asked[1][:12]
    beyond = post.marginals(np.full(12, 60.0), places)
    assert_allclose(beyond.variance, 1.5, rtol=1e-3)
    early = stations.data.row_times <= 5
    data = stations.data
    known = condition_regions(
        model(), weft.Observations(data.row_times[early], data.row_places[early], data.values[early]), num_regions=3
    )
    found, expected = post.filtered(np.full(12, 5.0), places), known.marginals(np.full(12, 5.0), places)
    # Regions differ a little where a place has no early row.
    assert_allclose(found.mean, expected.mean, atol=0.1)


def test_regions_that_disagree_are_told():
    rng = np.random.default_rng(13)
    data = weft.Observations(rng.uniform(0, 9, 400), uneven(rng, 400), rng.normal(size=400))
    seam = condition_regions(model(), data, num_regions=5).seam(num=100)
    assert 0 <= seam.usual <= seam.largest < 1.0
    assert seam.num_points == 100


def test_it_is_let_go_with_all_its_regions_the_moment_nobody_needs_it(both):
    """Fits make several one after another: waiting for the collector, they were in memory all at once."""
    problem, _ = both
    gc.disable()
    try:
        post = condition_regions(model(), problem.data, num_regions=3)
        post.marginals(*problem.asked)
        kept = weakref.ref(post._here.conditioned(1)), weakref.ref(post)
        assert kept[0]() is post._here.conditioned(1)
        del post
        assert [each() for each in kept] == [None, None]
    finally:
        gc.enable()


def test_regions_beyond_what_is_kept_are_made_again_and_say_the_same(stations, monkeypatch):
    whole = condition_regions(model(), stations.data, num_regions=7)
    monkeypatch.setattr("weft.inference.regional.KEPT_BYTES", 1)
    monkeypatch.setattr("weft.inference.regional.num_processors", lambda: 1)
    post = condition_regions(model(), stations.data, num_regions=7)
    for _ in range(2):
        assert_array_equal(post.marginals(*stations.asked).mean, whole.marginals(*stations.asked).mean)
    assert len(post._here._kept) == 2


@pytest.mark.parametrize(("kind", "share"), [("floats", None), ("stations", None), ("stations", MOST_UNEXPLAINED)])
def test_one_and_two_threads_agree_to_the_bit(kind, share, request):
    problem = request.getfixturevalue(kind)
    found = []
    for count in (1, 2):
        post = condition_regions(model(), problem.data, num_regions=5, share=share)
        with running_on(Threads(count)):
            times, places = (each[:40] for each in problem.asked)
            found.append((*post.marginals(times, places), post.sample(times, places, num=3, seed=1), post.log_evidence))
    for one, two in zip(*found, strict=True):
        assert_array_equal(one, two)


def test_how_far_regions_are_is_said_where_they_take_long(stations, caplog, monkeypatch):
    monkeypatch.setattr("weft.inference.watching.SECONDS_BEFORE", 0.0)
    post = condition_regions(model(), stations.data, num_regions=3)
    with running_on(Threads(1)), caplog.at_level(logging.INFO, "weft"), tasks_shown("log"):
        post.fitted_values()
    said = [message for message in caplog.messages if "tasks done" in message]
    assert len(said) == 2
    assert re.match(r"1 of 3 tasks done, the last region 0, \d+ rows at times 0 to 11 about .* left", said[0])


def test_regions_in_files_that_say_nothing_of_a_share_are_exact(stations):
    plain = condition_regions(model(), stations.data, num_regions=3, share=MOST_UNEXPLAINED).division.to_plain()
    del plain["share"]
    assert Division.from_plain(model(), (stations.data.num_rows, stations.data.places.shape[1]), plain).share == 0.0


def test_regions_in_files_that_do_not_say_where_their_points_are_answer_all_over_their_cells(stations):
    plain = condition_regions(model(), stations.data, num_regions=3).division.to_plain()
    del plain["cut_least"], plain["cut_most"]
    cuts = Division.from_plain(model(), (stations.data.num_rows, stations.data.places.shape[1]), plain).cuts
    assert_array_equal(cuts.least, cuts.lower)
    assert_array_equal(cuts.most, cuts.upper)


def test_a_share_is_left_out_where_exact_regions_would_take_long(stations, monkeypatch):
    assert condition_regions(model(), stations.data).division.share == 0.0
    monkeypatch.setattr("weft.inference.division.REGIONS_WORK", 1.0)
    few = condition_regions(model(), stations.data)
    assert few.division.share == MOST_UNEXPLAINED
    assert few.num_regions == num_regions_within(model(), stations.data)
    assert condition_regions(model(), stations.data, num_regions=4).division.share == MOST_UNEXPLAINED
    assert few.given_only(stations.data).division.share == MOST_UNEXPLAINED
    # Of other rows too, whatever they would take.
    monkeypatch.undo()
    assert few.given_only(stations.data).division.share == MOST_UNEXPLAINED
    assert few.update(stations.data).division.share == MOST_UNEXPLAINED
