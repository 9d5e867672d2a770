# SPDX-License-Identifier: MIT
"""Levels of places around a field, against dense Gaussian algebra of both together."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import weft
from tests.problems import sum_separable
from weft.inference.habits import base
from weft.inference.habits.base import are_settled
from weft.inference.habits.level import Level
from weft.inference.habits.noise import Noise
from weft.inference.habits.shift import Shift
from weft.inference.habits.tails import TailsOfPlaces
from weft.inference.posterior import AskedRows
from weft.inference.single import SinglePosterior
from weft.inference.tails import Tails
from weft.inference.with_habits import PosteriorWithHabits, find_habits, tell, with_habits
from weft.likelihoods import RowExtras

TIMES = np.array([5.5, -1.0, 0.3, 1.5, 2.0, 4.2])


@pytest.fixture(scope="module")
def twin():
    return sum_separable()


@pytest.fixture(scope="module")
def level(twin):
    """Levels of the first four places of the data; the others have none yet."""
    places = twin.data.places[:4]
    return Level(places, np.array([0.7, -0.4, 0.2, 1.1]), np.array([0.05, 0.02, 0.11, 0.3]), 0.6, 0.25)


@pytest.fixture(scope="module")
def asked(twin):
    """The second place three times, the first once, one that has no level, and one that was never seen."""
    places = twin.data.places
    return np.stack([places[1], places[1], places[0], places[5], places[1], places[0] + 0.123])


@pytest.fixture(scope="module")
def posterior(twin, level):
    return with_habits(lambda data: weft.condition(twin.model, data), twin.data, (level,))


@pytest.fixture(scope="module")
def field(twin, level):
    return weft.condition(twin.model, tell((level,), twin.data))


MEAN = np.array([-0.4, -0.4, 0.7, 0.0, -0.4, 0.0])
VARIANCE = np.array([0.02, 0.02, 0.05, 0.6, 0.02, 0.6])
SAME = np.array([0, 0, 1, 2, 0, 3])[:, None] == np.array([0, 0, 1, 2, 0, 3])


def test_what_goes_in_comes_out_again(twin, posterior, level):
    (seen,) = posterior.batches
    assert_allclose(seen.values, twin.data.values, rtol=1e-14)
    told = tell((level,), twin.data)
    place = twin.data.grouping.place_of_row
    effect = np.concatenate([level.mean, np.zeros(len(twin.data.places) - 4)])
    assert_allclose(told.values, np.asarray(twin.data.values) - effect[place])


@pytest.mark.parametrize("question", ["marginals", "filtered"])
def test_levels_add_to_mean_and_variance(posterior, field, asked, question):
    found, without = (getattr(each, question)(TIMES, asked) for each in (posterior, field))
    assert_allclose(found.mean, without.mean + MEAN)
    assert_allclose(found.variance, without.variance + VARIANCE)


def test_of_no_rows_there_are_no_answers(posterior):
    """What a lazy table's answers look like is asked so."""
    nothing = posterior.prediction(np.zeros(0), np.zeros((0, posterior.num_columns)), RowExtras())
    assert nothing.latent_mean.shape == nothing.latent_variance.shape == (0,)


def test_levels_are_the_last_component(posterior, field, asked):
    *others, own = posterior.components(TIMES, asked)
    assert_array_equal(np.array(others), np.array(field.components(TIMES, asked)))
    assert_allclose(own, [MEAN, VARIANCE])


def test_rows_of_a_place_share_its_level(posterior, field, asked):
    covariance = field.covariance(TIMES, asked) + np.where(SAME, VARIANCE, 0.0)
    assert_allclose(posterior.covariance(TIMES, asked), covariance)
    weights = np.array([[0.5, -0.1, 0.3, 0.2, 0.7, 1.0], [0.1, 0.2, 0.3, -0.4, 0.5, 0.6]])
    mean, variance = posterior.aggregate(TIMES, asked, weights)
    assert_allclose(mean, weights @ posterior.marginals(TIMES, asked).mean)
    assert_allclose(variance, np.diagonal(weights @ covariance @ weights.T))
    assert_allclose(posterior.aggregate(TIMES, asked, weights[1]), [mean[1], variance[1]])
    draws = posterior.sample(TIMES, asked, num=4000, seed=2)
    # Four standard errors of 4000 draws.
    assert_allclose(np.cov(draws.T), covariance, atol=4 * covariance.max() * np.sqrt(2 / 4000))


def test_an_observation_has_level_and_noise(posterior, field, asked):
    found, without = (each.predict(TIMES, asked, noise_variance=0.3) for each in (posterior, field))
    assert_allclose(found.variance, without.variance + VARIANCE)
    assert_allclose(found.quantile(0.5), without.mean + MEAN)


@pytest.fixture(scope="module")
def with_all(twin, level):
    """Every habit that is a place's own, of the same four places: two of them a step late, and who is new may be either."""
    places = level.places
    shift = Shift(places, np.array([0, -1, 0, -1]), np.full(4, 0.99), np.array([0.4, 0.6, 0.0]), 0.5, 2, 1.0)
    noise = Noise(places, np.array([0.3, -0.2, 0.6, 0.1]), np.full(4, 0.1), 0.4, 0.3, 0.2)
    tails = TailsOfPlaces(places, Tails(5.0, 0.8, 2.0), Tails(4.0, 0.9, 2.0))
    return PosteriorWithHabits(weft.condition(twin.model, twin.data), (shift, level, noise, tails))


def counting(calls, function):
    def counted(*args):
        calls.append(args)
        return function(*args)

    return counted


def test_several_groups_of_rows_are_predicted_by_one_question_to_the_field(with_all, asked, monkeypatch):
    groups = [
        AskedRows(TIMES, asked, RowExtras()),
        # Seen places alone may be meant in fewer ways.
        AskedRows(TIMES[:2], asked[:2], RowExtras(noise_variance=np.array([0.3, 0.1]))),
        AskedRows(TIMES[::-1], asked[::-1], RowExtras()),
    ]
    alone = [with_all.prediction(*group) for group in groups]
    assert [type(each.emission).__name__ for each in alone] == ["MixedEmission", "HeavyTailed", "MixedEmission"]
    questions = []
    monkeypatch.setattr(SinglePosterior, "marginals", counting(questions, SinglePosterior.marginals))
    together = with_all.predictions(groups)
    assert len(questions) == 1
    for found, expected in zip(together, alone, strict=True):
        assert type(found.emission) is type(expected.emission)
        for name in ("latent_mean", "latent_variance", "mean", "sd"):
            assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-12)
        assert_allclose(found.quantile((0.1, 0.8)), expected.quantile((0.1, 0.8)), rtol=1e-12)


def test_places_asked_about_are_told_apart_once_for_all_habits(with_all, asked, monkeypatch):
    """On a map of many frames that is the longer part of what habits take."""
    rows = np.repeat(asked, 50, axis=0)
    sizes = []

    def distinct_places(places):
        sizes.append(len(places))
        return distinct(places)

    distinct = base.distinct_places
    monkeypatch.setattr(base, "distinct_places", distinct_places)
    with_all.prediction(np.repeat(TIMES, 50), rows, RowExtras())
    assert [size for size in sizes if size >= len(rows)] == [len(rows)]


def test_the_rest_is_the_fields(posterior, field, asked, level):
    assert posterior.log_evidence == field.log_evidence
    assert posterior.num_columns == 2
    assert_array_equal(posterior.times, field.times)
    assert_array_equal(posterior.one_step_ahead().residual, field.one_step_ahead().residual)
    (own,) = posterior.habits()
    assert own.name == "level"
    assert_allclose(own.sd**2, level.variance)
    (data,) = posterior.batches
    assert_allclose(posterior.fitted_values(), posterior.marginals(data.row_times, data.row_places).mean, rtol=1e-9)


def test_more_rows_are_told_less_their_levels(twin, posterior, asked):
    more = weft.Observations(TIMES, asked, np.array([0.4, 1.2, -0.3, 0.8, 0.1, 2.0]), noise_variance=0.2)
    at_once = weft.Observations(
        np.concatenate([twin.data.row_times, TIMES]),
        np.concatenate([twin.data.row_places, asked]),
        np.concatenate([twin.data.values, [0.4, 1.2, -0.3, 0.8, 0.1, 2.0]]),
        noise_variance=np.concatenate([twin.data.noise_variance, np.full(6, 0.2)]),
    )
    updated = posterior.update(more)
    level = posterior._habits[0]
    expected = with_habits(lambda data: weft.condition(twin.model, data), at_once, (level,))
    assert_allclose(updated.marginals(TIMES, asked), expected.marginals(TIMES, asked), rtol=1e-9)
    assert len(updated.batches) == 2


def test_given_other_rows_levels_are_found_anew(twin, posterior, level):
    """By the definition: the mean of what the field leaves at a place, shrunk by n / (n + within / between)."""
    found = posterior.given_only(twin.data)
    field = weft.condition(twin.model, tell((level,), twin.data))
    left = np.asarray(twin.data.values) - field.fitted_values()
    (own,) = found.habits()
    for number, place in enumerate(own.places):
        mine = np.all(twin.data.row_places == place, axis=1)
        count = mine.sum()
        assert_allclose(own.value[number], left[mine].mean() * count / (count + 0.25 / 0.6))
        assert_allclose(own.sd[number] ** 2, 1 / (1 / 0.6 + count / 0.25))


@pytest.mark.parametrize("rows", [False, True])
def test_a_file_gives_the_same_bits(posterior, asked, tmp_path, rows):
    posterior.save(tmp_path / "model.weft", rows=rows)
    loaded = weft.load(tmp_path / "model.weft")
    assert isinstance(loaded, PosteriorWithHabits)
    assert_array_equal(loaded.marginals(TIMES, asked), posterior.marginals(TIMES, asked))
    assert_array_equal(loaded.sample(TIMES, asked, num=2, seed=3), posterior.sample(TIMES, asked, num=2, seed=3))
    assert len(loaded.batches) == int(rows)


def test_where_nothing_is_found_the_field_answers_itself(twin):
    exact = sum_separable(exact=True)
    field = weft.condition(exact.model, exact.data)
    assert find_habits(("level",), field, exact.data, 2) == ()
    assert with_habits(lambda data: field, exact.data, ()) is field


def test_a_number_of_a_place_is_settled_by_many_rows():
    times, place = np.arange(3 * 300.0) // 3, np.tile(np.arange(3), 300)
    places = np.array([[0.0, 1.0], [2.0, 0.5], [4.0, 4.0]])
    data = weft.Observations(times, places[place], np.zeros(len(times)))
    few = weft.Observations(times[:600], places[place[:600]], np.zeros(600))
    assert are_settled(places, data)
    assert are_settled(places[:, :1], data)
    assert not are_settled(places, few)
    assert not are_settled(places[:2], data)
