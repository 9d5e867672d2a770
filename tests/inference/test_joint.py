# SPDX-License-Identifier: MIT
"""Covariances, draws, sums, filtered answers, residuals and updates against dense computations from the definitions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import weft
from tests.oracles import dense
from tests.problems import Twin, sum_separable

# Past, between, at data times, a day all missing, the future; several places; one row twice.
TIMES = np.array([5.5, -1.0, 0.3, 1.5, 2.0, 4.2, 0.3, 9.0, -1.0])
PLACES = np.random.default_rng(1).uniform(0, 3, (9, 2))
PLACES[8] = PLACES[1]


def twin_of(exact: bool) -> Twin:
    return sum_separable("matern52", "sum", exact=exact)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("engine", ["cpu", "scan"])
def test_covariance_equals_dense(exact, engine):
    twin = twin_of(exact)
    covariance = weft.condition(twin.model, twin.data, engine=engine).covariance(TIMES, PLACES)
    assert_allclose(covariance, dense.posterior(twin.dense, TIMES, PLACES)[1], rtol=1e-7, atol=1e-9)


def test_a_sum_over_rows_has_the_mean_and_variance_of_the_dense_sum():
    twin = twin_of(False)
    weights = np.random.default_rng(3).normal(size=(2, len(TIMES)))
    mean, covariance = dense.posterior(twin.dense, TIMES, PLACES)
    posterior = weft.condition(twin.model, twin.data)
    several = posterior.aggregate(TIMES, PLACES, weights)
    assert_allclose(several.mean, weights @ mean, rtol=1e-7)
    assert_allclose(several.variance, np.diag(weights @ covariance @ weights.T), rtol=1e-7)
    one = posterior.aggregate(TIMES, PLACES, weights[0])
    assert_allclose([one.mean, one.variance], [several.mean[0], several.variance[0]], rtol=1e-9)


@pytest.mark.parametrize("future", [False, True], ids=["all times", "forecast"])
def test_draws_have_the_dense_mean_and_covariance(future):
    twin = twin_of(False)
    times = np.abs(TIMES) + 6.0 if future else TIMES
    num = 20_000
    draws = weft.condition(twin.model, twin.data).sample(times, PLACES, num=num, seed=5)
    mean, covariance = dense.posterior(twin.dense, times, PLACES)
    assert draws.shape == (num, len(times))
    deviation = np.sqrt(np.diag(covariance))
    # Five standard errors of a mean, and of an entry of an empirical covariance of normal draws.
    assert np.all(np.abs(draws.mean(axis=0) - mean) < 5 * deviation / np.sqrt(num))
    error = np.sqrt((np.outer(deviation, deviation) ** 2 + covariance**2) / num)
    assert np.all(np.abs(np.cov(draws.T) - covariance) < 5 * error)


def test_a_seed_fixes_the_draws():
    twin = twin_of(False)
    posterior = weft.condition(twin.model, twin.data)
    first, again = (posterior.sample(TIMES, PLACES, num=3, seed=9) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, posterior.sample(TIMES, PLACES, num=3, seed=10))


def up_to(problem: dense.Problem, time: float, *, strictly: bool) -> dense.Problem:
    values = problem.values.copy()
    values[(problem.times >= time) if strictly else (problem.times > time)] = np.nan
    return dense.Problem(problem.components, problem.noise_variance, problem.times, problem.places, values)


def test_filtered_answers_see_the_past_alone():
    twin = twin_of(False)
    filtered = weft.condition(twin.model, twin.data).filtered(TIMES[TIMES > 0], PLACES[TIMES > 0])
    for number, (time, place) in enumerate(zip(TIMES[TIMES > 0], PLACES[TIMES > 0], strict=True)):
        past = up_to(twin.dense, time, strictly=False)
        mean, covariance = dense.posterior(past, np.array([time]), place[None])
        assert_allclose(filtered.mean[number], mean[0], rtol=1e-7)
        assert_allclose(filtered.variance[number], covariance[0, 0], rtol=1e-7)


@pytest.mark.parametrize(("exact", "power"), [(True, 0.0), (False, 0.0), (False, 0.4), (False, 1.0)])
def test_one_step_ahead_residuals_equal_dense(exact, power):
    twin = twin_of(exact)
    ahead = weft.condition(twin.model, twin.data, power=power).one_step_ahead()
    problem = twin.dense
    assert sorted(ahead.row) == np.flatnonzero(~np.isnan(twin.values)).tolist()
    for row, residual, variance in zip(*ahead, strict=True):
        past = up_to(problem, problem.times[row], strictly=True)
        if np.isnan(past.values).all():
            mean, covariance = (
                np.zeros(1),
                dense.total(dense.prior, problem.components, *(problem.times[[row]], problem.places[[row]]) * 2),
            )
        else:
            mean, covariance = dense.posterior(past, problem.times[[row]], problem.places[[row]], power=power)
        assert_allclose(residual, problem.values[row] - mean[0], rtol=1e-7, atol=1e-9)
        assert_allclose(variance, covariance[0, 0] + problem.noise_variance[row], rtol=1e-7)


@pytest.mark.parametrize("exact", [True, False])
def test_rows_keep_their_numbers_through_updates_and_files(exact, tmp_path):
    """Missing rows count too, and a batch's rows are numbered after those of the batches before."""
    twin = twin_of(exact)
    late_first = np.argsort(-twin.times, kind="stable")
    batches = np.array_split(late_first, 3)
    posterior = weft.condition(twin.model, take(twin, batches[0]))
    for batch in batches[1:]:
        posterior.save(tmp_path / "posterior.weft", rows=True)
        posterior = weft.load(tmp_path / "posterior.weft").update(take(twin, batch))
    together = weft.condition(twin.model, take(twin, late_first)).one_step_ahead()
    ahead = posterior.one_step_ahead()
    assert_allclose(twin.times[late_first][ahead.row], np.sort(twin.times[~np.isnan(twin.values)]))
    in_order, expected = np.argsort(ahead.row), np.argsort(together.row)
    np.testing.assert_array_equal(ahead.row[in_order], together.row[expected])
    assert_allclose(ahead.residual[in_order], together.residual[expected], rtol=1e-7, atol=1e-9)
    assert_allclose(ahead.variance[in_order], together.variance[expected], rtol=1e-7)


def take(twin: Twin, rows: np.ndarray) -> weft.Observations:
    return weft.Observations(twin.times[rows], twin.places[rows], twin.values[rows], noise_variance=twin.noise[rows])


def long_twin() -> Twin:
    """Forty times, a few stations, so that batches differ in size."""
    twin = sum_separable("matern32", "matern12")
    rng = np.random.default_rng(11)
    twin.times = np.repeat(np.cumsum(rng.uniform(0.05, 0.3, 40)), 3)
    twin.places = rng.uniform(0, 3, (5, 2))[rng.integers(0, 5, 120)]
    twin.values = rng.normal(size=120)
    twin.noise = rng.uniform(0.1, 0.3, 120)
    return twin


def assert_same_posterior(first: weft.Posterior, second: weft.Posterior) -> None:
    assert_allclose(first.log_evidence, second.log_evidence, rtol=1e-8)
    ours, theirs = first.marginals(TIMES, PLACES), second.marginals(TIMES, PLACES)
    assert_allclose(ours.mean, theirs.mean, rtol=1e-8, atol=1e-10)
    assert_allclose(ours.variance, theirs.variance, rtol=1e-8)


def test_ten_updates_equal_conditioning_at_once_and_cost_what_they_add():
    twin = long_twin()
    batches = np.split(np.argsort(twin.times, kind="stable"), 10)
    posterior = weft.condition(twin.model, take(twin, batches[0]))
    for batch in batches[1:]:
        posterior = posterior.update(take(twin, batch))
        assert posterior.steps_run == 4
    whole = weft.condition(twin.model, twin.data)
    assert_same_posterior(posterior, whole)
    assert_allclose(posterior.log_evidence, weft.log_evidence(twin.model, twin.data), rtol=1e-10)


def test_late_rows_run_again_from_where_they_fall():
    twin = long_twin()
    late = np.flatnonzero(twin.times == np.unique(twin.times)[30])[:1]
    early = np.setdiff1d(np.arange(120), late)
    posterior = weft.condition(twin.model, take(twin, early))
    assert posterior.log_evidence < 0
    updated = posterior.update(take(twin, late))
    assert_same_posterior(updated, weft.condition(twin.model, twin.data))
    assert updated.steps_run < 17


@pytest.mark.parametrize("known", [True, False], ids=["known places", "new places"])
def test_an_exact_model_can_be_updated(known):
    twin = long_twin()
    model = weft.Model(twin.model.kernel, twin.model.likelihood)
    if not known:
        twin.places[twin.times > twin.times[60]] += 0.01
    rows = twin.times <= twin.times[60]
    posterior = weft.condition(model, take(twin, np.flatnonzero(rows))).update(take(twin, np.flatnonzero(~rows)))
    assert_same_posterior(posterior, weft.condition(model, twin.data))
