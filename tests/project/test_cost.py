# SPDX-License-Identifier: MIT
"""What a fit will take, by a clock that tells what it is told to."""

import dataclasses
import itertools
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

import weft
from tests.estimator.tables import station_table
from weft.data.observations import take_rows
from weft.estimator import learning
from weft.estimator.calibration import Hidden
from weft.estimator.learning import start_for
from weft.inference.regional import condition_regions
from weft.options import Options
from weft.project import cost, passes, rehearsal
from weft.project.prepared import prepare
from weft.project.rehearsal import Timed

ROLES = {"time": "time", "space": ("lon", "lat"), "target": "value"}


def clock_of(*steps: float) -> Callable[[], float]:
    """A clock that is looked at after so many seconds each time."""
    return itertools.accumulate(steps).__next__


def test_what_is_timed_is_timed_again_until_that_took_long_enough():
    asked: list[int] = []
    few = rehearsal.timed(asked.append, clock_of(0.0, 1.5, 1.0))
    assert few == Timed(1.0, 0.5)
    assert few.of(3.0) == 3.5
    # Quick ones as often as is allowed, of which the middle one counts; what takes long the first time is compiling, which is done once.
    quick = rehearsal.timed(asked.append, clock_of(0.0, 60.0, 0.01, 0.002, 0.001))
    assert quick == pytest.approx((0.002, rehearsal.MOST_LOADING))
    assert asked == [0, 1, 0, 1, 2, 3]


def test_a_small_fit_is_what_goes_before_it_and_evaluations_and_passes(monkeypatch):
    prepared = prepare(weft.SpaceTimeGP(**ROLES).get_params(), station_table())
    monkeypatch.setattr(rehearsal, "timed", lambda function, clock, *, begun=None: Timed(2.0, 0.5))
    monkeypatch.setattr(cost, "rehearse_passes", lambda *arguments: 0.25)
    # A second from look to look: to cut the table into parts, for a few steps of a climb, of one evaluation each at least, and to keep
    # what was learned.
    ticks = itertools.count()
    found = cost.cost_of(prepared, lambda: float(next(ticks)))
    assert 0.1 < found.evaluation_seconds <= 1 / (1 + rehearsal.STEPS)
    climb = found.evaluation_seconds * rehearsal.EVALUATIONS_UNCHOSEN
    assert found.fit_seconds == pytest.approx(1.0 + 1.0 + 0.5 + climb + 0.25)
    assert found.num_learning_rows == 149
    assert "time to fit, by the clock" in dict(found.lines())


def test_choosing_components_is_evaluations_of_each_change_and_looks_at_what_is_left_out(monkeypatch):
    rng = np.random.default_rng(3)
    lon, lat = rng.uniform(8, 11, 30), rng.uniform(46, 48, 30)
    time, place = (each.ravel() for each in np.meshgrid(np.arange(70.0), np.arange(30), indexing="ij"))
    table = pd.DataFrame({"time": time, "lon": lon[place], "lat": lat[place], "value": rng.normal(size=len(time))})
    prepared = prepare(weft.SpaceTimeGP(**ROLES).get_params(), table)
    data = prepared.translation.observations(prepared.rows)
    start = start_for(prepared.options, prepared.translation, data)
    tried = []

    def evaluations(draft, parts):
        tried.append(draft.names)
        return lambda turn: draft.names

    monkeypatch.setattr(rehearsal, "_evaluations", evaluations)
    monkeypatch.setattr(
        rehearsal,
        "timed",
        lambda function, clock, *, begun=None: Timed(2.0 if function(0) == ("slow", "fast") else 3.0, 0.5),
    )
    seconds, larger = rehearsal._rehearse_choice(
        prepared.options, prepared.translation, start, data, clock_of(0.0, 7.0, 1.0, 0.2), 0.0
    )
    # The draft, and the changes to it: a local component, levels of places, and six that add none.
    changes = [2.0 if len(names) == 2 else 3.0 for names in tried[1:]]
    assert tried[0] == ("slow", "fast")
    assert sorted(changes) == [2.0] * 6 + [3.0] * 2
    looks = 0.2 * (1 + 8 * rehearsal.SHARE_TRIED)
    loading = 0.5 * (1 + 8 * rehearsal.SHARE_TRIED)
    climbs = 2.0 * rehearsal.EVALUATIONS_OF_DRAFT + sum(changes) * rehearsal.EVALUATIONS_OF_CHANGE
    assert seconds == pytest.approx(7.0 + loading + climbs + looks)
    assert larger == pytest.approx(np.mean(changes) / 2.0)


def test_the_rows_that_are_timed_are_those_that_a_fit_learns_from(monkeypatch):
    prepared = prepare(weft.SpaceTimeGP(**ROLES).get_params(), station_table())
    seen = []
    before = learning.small_parts
    for module in (learning, rehearsal):
        monkeypatch.setattr(module, "small_parts", lambda *arguments: seen.append(before(*arguments)) or seen[-1])
    cost.cost_of(prepared)
    weft.SpaceTimeGP(**ROLES, max_iterations=1).fit(station_table())
    assert [[part.num_rows for part in parts] for parts in seen] == [[149]] * 2


def test_passes_are_those_that_hide_rows_and_places_in_turn(monkeypatch):
    prepared = prepare(weft.SpaceTimeGP(**ROLES).get_params(), station_table())
    data = prepared.translation.observations(prepared.rows)
    model = start_for(prepared.options, prepared.translation, data).model
    who = passes.Answering(model, None, first=0.5, again=0.25)

    def asked(options, who, data, clock, question):
        question(lambda rows: weft.condition(who.model, rows), data)
        return Timed(8.0, 3.0) if question is passes._ask_all else Timed(2.0, 1.0)

    monkeypatch.setattr(passes, "_over_the_series", asked)
    # Too few rows to hide any, or to tell the noise of places.
    monkeypatch.setattr(passes, "hide", lambda *arguments, **options: ())
    arguments = (prepared.options, prepared.translation, who, data, lambda: 0.0)
    assert passes.rehearse_passes(*arguments) == 0.75
    numbers = np.arange(data.num_rows)
    hidden = [Hidden(numbers % 9 == 8, numbers % 9 == 7, numbers < share * data.num_rows) for share in (0.8, 0.4)]
    monkeypatch.setattr(passes, "hide", lambda *arguments, **options: tuple(hidden))
    monkeypatch.setattr(passes, "_num_shapes", lambda *arguments: 2)
    sizes = [float(np.mean(each.rest)) for each in hidden]
    # One matrix is compiled for two shapes.
    turns = 1.0 + 2.0 * sum(sizes) / sizes[0] + 1.0
    by_matrix = dataclasses.replace(prepared.options, engine="dense")
    assert passes.rehearse_passes(by_matrix, *arguments[1:]) == pytest.approx(0.5 * 3 + 0.25 + turns)
    # A chain is compiled for none.
    turns -= 1.0
    assert passes.rehearse_passes(*arguments) == pytest.approx(0.5 * 3 + 0.25 + turns)
    monkeypatch.setattr(passes, "tells_noise", lambda *arguments: True)
    assert passes.rehearse_passes(*arguments) == pytest.approx(0.5 * 3 + 0.25 + turns + 11.0)
    without = dataclasses.replace(prepared.options, habits=None)
    assert passes.rehearse_passes(without, *arguments[1:]) == 0.5


def test_a_long_series_is_told_of_by_a_stretch(monkeypatch):
    rng = np.random.default_rng(5)
    data = weft.Observations(
        np.repeat(np.arange(400.0), 4), np.tile(rng.normal(size=(4, 2)), (400, 1)), rng.normal(size=1600)
    )
    model = weft.Model(weft.Separable(space=weft.Matern32([1.0, 1.0]), time=weft.Matern12(2.0)), weft.Gaussian(0.1))
    who = passes.Answering(model, None, 0.0, 0.0)
    asked = []
    # Two questions about each stretch; the first takes half a second more the first time.
    clock = clock_of(0.0, 0.51, 0.01, 0.0, 0.05, 0.2)
    found = passes._over_the_series(
        Options(**ROLES), who, data, clock, lambda given, rows: asked.append(len(rows.times))
    )
    assert asked == [32, 32, 128, 128]
    # An evaluation of a chain takes as long for every time.
    assert found.seconds == pytest.approx(0.2 * 400 / 128, rel=1e-3)
    assert found.loading == pytest.approx(0.5)


def test_regions_are_told_of_by_some_that_are_conditioned_anew(monkeypatch):
    rng = np.random.default_rng(8)
    model = weft.Model(weft.Separable(space=weft.Matern32([1.0, 1.0]), time=weft.Matern12(2.0)), weft.Gaussian(0.1))
    data = weft.Observations(rng.uniform(0, 9, 900), rng.uniform(0, 9, (900, 2)), rng.normal(size=900))
    regions = condition_regions(model, data, num_regions=12)
    monkeypatch.setattr(passes, "num_processors", lambda: 2)
    assert passes._over_regions(regions, clock_of(0.0, 5.0, 2.0)) == Timed(2.0 * 12 / 4, rehearsal.MOST_LOADING)
    own = regions.division.regions[3]
    core = own.rows[own.is_core]
    alone = regions.region(3).marginals(data.row_times[core], data.row_places[core])
    np.testing.assert_allclose(regions.at_cores([3])[0].T, alone, rtol=1e-6)


def test_neighbourhoods_are_told_of_by_some(monkeypatch):
    rng = np.random.default_rng(2)
    table = pd.DataFrame(rng.uniform(0, 9, (3000, 3)), columns=["time", "lon", "lat"])
    table["value"] = np.sin(table["lon"]) + rng.normal(size=3000) * np.where(table["lat"] > 5, 1.0, 0.1)
    prepared = prepare(weft.SpaceTimeGP(**ROLES).get_params(), table)
    data = prepared.translation.observations(prepared.rows)
    start = start_for(prepared.options, prepared.translation, data)
    parts = learning.small_parts(prepared.options, start.model, take_rows(data, np.arange(300)))
    looked = []
    found = rehearsal.learn_neighbourhoods
    monkeypatch.setattr(
        rehearsal, "learn_neighbourhoods", lambda *each: looked.append(len(each[2].rows)) or found(*each)
    )
    monkeypatch.setattr(rehearsal, "ENOUGH_NEIGHBOURHOODS", 30)
    seconds, model = rehearsal.rehearse_neighbourhoods(prepared.options, start, parts, data, clock_of(0.0, 1.0, 4.0))
    # A hundred neighbourhoods, of which every third is looked at.
    assert looked == [34]
    assert seconds == pytest.approx(1.0 + 4.0 * 100 / 34)
    # Of which some are far noisier than the others.
    assert model is not start.model


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

    def num_regions(options, data):
        who = passes.who_would_answer(options, model, data, 2, lambda: 0.0)
        told = 0 if who.regions is None else who.regions.num_regions
        # As of a fit that learns from the series itself.
        assert cost._num_regions(options, model, data, 2) == told
        return told

    expected = condition_regions(model, data).num_regions
    assert num_regions(Options(**arguments), data) == expected > 20
    assert num_regions(Options(**arguments, regions=7), data) == 7
    assert num_regions(Options(**arguments, regions=None), data) == 0
    assert num_regions(Options(**arguments), take_rows(data, np.arange(300))) == 0
    # Then no pseudo-points are placed, and memory is that of as many as there may be.
    several = weft.Model(weft.SumSeparable([model.kernel]), model.likelihood)
    assert cost._shape_within(several, data, 2).num_bottleneck == 100
    said = dict(cost.Cost(1, 2, 3.0, 4.0, 5, 60, expected).lines())
    assert said["regions to answer, about"] == str(expected)
    assert "pseudo-points in all" not in said
