# SPDX-License-Identifier: MIT
"""Marginals, components and predictions against the dense approximate posterior."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import weft
from tests.oracles import dense
from tests.problems import sum_separable
from weft.inference import queries
from weft.inference.sites import check_problem

# Beyond the last, before the first, at training times, between, at a day all missing; unsorted, and one row twice.
TIMES = np.array([5.5, -1.0, 0.3, 1.5, 2.0, 4.2, 0.3, 9.0, -1.0])
PLACES = np.random.default_rng(1).uniform(0, 3, (9, 2))
PLACES[8] = PLACES[1]


@pytest.mark.parametrize(
    ("engine", "power", "exact"),
    [
        ("cpu", 0.0, False),
        ("cpu", 0.6, False),
        ("cpu", 0.0, True),
        ("scan", 0.6, False),
        ("scan", 0.0, True),
        ("parallel", 0.6, False),
    ],
)
def test_marginals_equal_dense(engine, power, exact):
    twin = sum_separable("damped cosine", "matern12", exact=exact)
    marginals = weft.condition(twin.model, twin.data, power=power, engine=engine).marginals(TIMES, PLACES)
    mean, covariance = dense.posterior(twin.dense, TIMES, PLACES, power=power)
    assert_allclose(marginals.mean, mean, rtol=1e-7, atol=1e-9)
    assert_allclose(marginals.variance, np.diag(covariance), rtol=1e-7)


def test_components_equal_dense_and_sum_to_the_mean():
    twin = sum_separable("matern72", "matern32")
    posterior = weft.condition(twin.model, twin.data)
    parts = posterior.components(TIMES, PLACES)
    for number, part in enumerate(parts):
        mean, covariance = dense.posterior(twin.dense, TIMES, PLACES, only=number)
        assert_allclose(part.mean, mean, rtol=1e-7, atol=1e-9)
        assert_allclose(part.variance, np.diag(covariance), rtol=1e-7)
    assert_allclose(sum(part.mean for part in parts), posterior.marginals(TIMES, PLACES).mean, rtol=1e-10)


def test_fitted_values_equal_dense():
    twin = sum_separable("matern72", "matern32")
    rows = twin.data
    mean, _ = dense.posterior(twin.dense, rows.row_times, rows.row_places)
    assert_allclose(weft.condition(twin.model, rows).fitted_values(), mean, rtol=1e-7, atol=1e-9)


def test_wiener_marginals_at_new_times_equal_dense():
    twin = sum_separable("wiener", "matern12")
    times = np.abs(TIMES)
    mean, covariance = dense.posterior(twin.dense, times, PLACES)
    marginals = weft.condition(twin.model, twin.data).marginals(times, PLACES)
    assert_allclose(marginals.mean, mean, rtol=1e-7, atol=1e-9)
    assert_allclose(marginals.variance, np.diag(covariance), rtol=1e-7)


def test_predictions_have_the_noise_in_them_and_quantiles():
    twin = sum_separable()
    posterior = weft.condition(twin.model, twin.data)
    marginals, prediction = posterior.marginals(TIMES, PLACES), posterior.predict(TIMES, PLACES)
    assert_allclose(prediction.latent_variance, marginals.variance)
    assert_allclose(prediction.variance, marginals.variance + twin.model.likelihood.variance)
    half_width = 1.6448536269514722 * np.sqrt(prediction.variance)
    assert_allclose(prediction.quantile(0.95), prediction.mean + half_width)
    assert_allclose(prediction.quantile([0.05, 0.95])[:, 0], prediction.mean - half_width)


def test_blocks_of_rows_do_not_change_the_answer(monkeypatch):
    twin = sum_separable()
    posterior = weft.condition(twin.model, twin.data)
    whole = posterior.marginals(TIMES, PLACES)
    monkeypatch.setattr(queries, "WEIGHTS_BUDGET", 8 * 7 * 3)
    monkeypatch.setattr(queries, "MOST_ROWS_AT_ONCE", 2)
    assert len(list(queries.blocks_of_rows(PLACES, 7))) > 3
    pieces = posterior.marginals(TIMES, PLACES)
    assert_allclose(pieces.mean, whole.mean, rtol=1e-10)
    assert_allclose(pieces.variance, whole.variance, rtol=1e-10)


def test_no_rows_asked_is_no_rows_answered():
    twin = sum_separable()
    assert weft.condition(twin.model, twin.data).marginals(np.zeros(0), np.zeros((0, 2))).mean.shape == (0,)


@pytest.mark.parametrize(
    ("times", "places", "message"),
    [
        (np.zeros(2), np.zeros((3, 2)), "2 and 3 rows"),
        (np.zeros(2), np.zeros((2, 3)), "2 columns of the data's places"),
        (np.array([np.nan, 0.0]), np.zeros((2, 2)), "times must be finite"),
        (np.zeros(2), np.zeros(2), "must be a matrix"),
    ],
)
def test_a_wrong_question_is_refused(times, places, message):
    twin = sum_separable()
    with pytest.raises(ValueError, match=message):
        weft.condition(twin.model, twin.data).marginals(times, places)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"noise_variance": -5.0}, ValueError, "noise_variance must be finite and zero or positive; row 0 is -5.0"),
        ({"noise_variance": [1.0, np.nan]}, ValueError, "noise_variance must be finite"),
        ({"noise_variance": [1.0, 1.0, 1.0]}, ValueError, r"one per row \(2\)"),
        ({"noise_variance": "much"}, TypeError, "noise_variance must be numbers"),
        ({"exposure": 2.0}, ValueError, "makes no use of exposure"),
        ({"trials": 1.5}, ValueError, "makes no use of trials"),
    ],
)
def test_wrong_particulars_of_a_row_are_refused(given, error, message):
    twin = sum_separable("matern12", "matern32")
    with pytest.raises(error, match=message):
        weft.condition(twin.model, twin.data).predict(TIMES[:2], PLACES[:2], **given)


def test_trials_of_a_prediction_are_whole_numbers():
    kernel = weft.Separable(space=weft.EQ(1.0), time=weft.Matern12(2.0))
    data = weft.Observations(np.arange(3.0), PLACES[:3], np.array([0.0, 1.0, 2.0]), trials=2)
    posterior = weft.condition(weft.Model(kernel, weft.Binomial()), data)
    with pytest.raises(ValueError, match="trials must be whole numbers"):
        posterior.predict(TIMES[:2], PLACES[:2], trials=[1.5, 2.0])
    with pytest.raises(ValueError, match="trials must be finite and positive"):
        posterior.predict(TIMES[:2], PLACES[:2], trials=[0, 2])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m, d: weft.fit(m, d, restarts=-1), "restarts must be at least 0; it is -1"),
        (lambda m, d: weft.condition(m, d).sample(TIMES, PLACES, seed=-1), "seed must be at least 0"),
        (lambda m, d: weft.condition(m, d).aggregate(TIMES, PLACES, TIMES * np.nan), "weights must be finite"),
    ],
)
def test_wrong_numbers_get_one_clear_sentence(call, message):
    twin = sum_separable("matern12", "matern32")
    with pytest.raises(ValueError, match=message):
        call(twin.model, twin.data)


def test_a_model_and_its_data_are_told_apart():
    twin = sum_separable("matern12", "matern32")
    check_problem(twin.model, twin.data)
    with pytest.raises(TypeError, match=r"data must be weft.Observations.*it is a tuple"):
        check_problem(twin.model, (twin.times, twin.places, twin.values))
    with pytest.raises(TypeError, match=r"model must be a weft.Model; it is a Observations"):
        check_problem(twin.data, twin.model)


def test_exposure_is_not_ignored_by_a_likelihood_that_has_no_use_for_it():
    twin = sum_separable("matern12", "matern32")
    data = weft.Observations(twin.times, twin.places, twin.values, exposure=np.linspace(1, 2, len(twin.times)))
    with pytest.raises(ValueError, match="Gaussian makes no use of exposure"):
        weft.log_evidence(twin.model, data)
