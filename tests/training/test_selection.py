# SPDX-License-Identifier: MIT
"""Samples against the obvious dense formulas, and models chosen on made data whose components are known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import weft
from weft.training.priors import WithinReach
from weft.training.samples import NUM_ROWS, leave_out, log_evidence_of, sample_rows
from weft.training.selection import Candidate, Draft, select


def made_table(num_places: int = 30, num_times: int = 60, seed: int = 3) -> weft.Observations:
    rng = np.random.default_rng(seed)
    places = rng.uniform(0, 300, (num_places, 2))
    times = np.repeat(np.arange(num_times, dtype=float), num_places)
    rows = rng.permutation(len(times))[: int(0.8 * len(times))]
    values = np.sin(times / 9) + np.tile(places[:, 0] / 200, num_times) + 0.3 * rng.normal(size=len(times))
    values[rows[:40]] = np.nan
    noise = rng.uniform(0.0, 0.2, len(times))
    return weft.Observations(times[rows], np.tile(places, (num_times, 1))[rows], values[rows], noise[rows])


def made_model() -> weft.Model:
    kernel = 0.7 * weft.Separable(space=weft.Matern32([90.0, 140.0]), time=weft.Matern32(12.0)) + 0.2 * weft.Separable(
        space=weft.Matern12([30.0, 20.0]), time=weft.Matern12(4.0)
    )
    return weft.Model(kernel, weft.Gaussian(0.15), mean=weft.ConstantMean(2.5))


def dense_covariance(model: weft.Model, times: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Written out: Matern functions of scaled distances, without the library's kernels."""
    distance = np.sqrt(np.sum(((places[:, None] - places[None]) / [90.0, 140.0]) ** 2, axis=-1))
    rough = np.sqrt(np.sum(((places[:, None] - places[None]) / [30.0, 20.0]) ** 2, axis=-1))
    lag = np.abs(times[:, None] - times[None])

    def smooth(r: np.ndarray) -> np.ndarray:
        return (1 + np.sqrt(3) * r) * np.exp(-np.sqrt(3) * r)

    return 0.7 * smooth(distance) * smooth(lag / 12.0) + 0.2 * np.exp(-rough) * np.exp(-lag / 4.0) + 2.5


def rows_of(stack, number: int) -> tuple[np.ndarray, ...]:
    rows = np.flatnonzero(stack.present[number])
    return (
        stack.times[number][stack.time[number][rows]],
        stack.places[number][stack.place[number][rows]],
        stack.values[number][rows],
        stack.noise_variance[number][rows],
    )


def test_evidence_of_samples_equals_dense():
    data = made_table()
    stack = sample_rows(data, 3, num_space=2, seed=0)
    assert not stack.present.all()
    expected = 0.0
    for number in range(3):
        times, places, values, noise = rows_of(stack, number)
        covariance = dense_covariance(made_model(), times, places) + np.diag(0.15 + noise)
        _, logarithm = np.linalg.slogdet(2 * np.pi * covariance)
        expected -= 0.5 * (logarithm + values @ np.linalg.solve(covariance, values))
    assert_allclose(log_evidence_of(made_model(), stack), expected, rtol=1e-10)


def test_gradient_of_samples_equals_differences():
    stack = sample_rows(made_table(), 2, num_space=2, seed=1)

    def evidence(numbers: jax.Array) -> jax.Array:
        kernel = numbers[0] * weft.Separable(space=weft.Matern32(numbers[1:3]), time=weft.Matern32(numbers[3]))
        return log_evidence_of(weft.Model(kernel, weft.Gaussian(numbers[4])), stack)

    at = np.array([0.7, 90.0, 140.0, 12.0, 0.15])
    found = jax.grad(evidence)(jnp.asarray(at))
    for k, step in enumerate(1e-5 * at):
        move = np.eye(5)[k] * step
        difference = (evidence(at + move) - evidence(at - move)) / (2 * step)
        # Central differences of step 1e-5 are good to about so many digits.
        assert_allclose(found[k], difference, rtol=1e-6, atol=1e-6)


def test_left_out_equals_conditioning_on_the_rest():
    stack = sample_rows(made_table(), 2, num_space=2, seed=2)
    left = leave_out(made_model(), stack)
    times, places, values, noise = rows_of(stack, 0)
    covariance = dense_covariance(made_model(), times, places) + np.diag(0.15 + noise)
    for row in (0, 17, 60):
        for error, sd, hidden in (
            (left.row_error, left.row_sd, np.arange(len(times)) == row),
            (left.place_error, left.place_sd, np.all(places == places[row], axis=1)),
        ):
            seen = ~hidden
            weights = np.linalg.solve(covariance[np.ix_(seen, seen)], covariance[seen, row])
            assert_allclose(error[row], values[row] - weights @ values[seen], rtol=1e-8)
            assert_allclose(sd[row] ** 2, covariance[row, row] - weights @ covariance[seen, row], rtol=1e-8)


@pytest.mark.parametrize("num_rows", [1, 7, 900])
def test_samples_of_places_never_seen_twice(num_rows):
    rng = np.random.default_rng(num_rows)
    data = weft.Observations(rng.uniform(0, 50, num_rows), rng.uniform(size=(num_rows, 2)), rng.normal(size=num_rows))
    stack = sample_rows(data, 4, num_space=2, seed=0)
    assert stack.present.sum(axis=1).tolist() == [min(num_rows, NUM_ROWS)] * 4
    values = np.sort(stack.values[0][stack.present[0]])
    assert len(np.unique(values)) == min(num_rows, NUM_ROWS)


@pytest.mark.parametrize("num_places", [3, 16, 60])
def test_samples_have_several_places_and_times(num_places):
    """Of few places all, of many twenty or so, and times from next to each other to far apart."""
    rng = np.random.default_rng(num_places)
    places = np.tile(rng.uniform(size=(num_places, 2)), (300, 1))
    data = weft.Observations(np.repeat(np.arange(300.0), num_places), places, rng.normal(size=300 * num_places))
    stack = sample_rows(data, 4, num_space=2, seed=0)
    for number in range(4):
        rows = stack.present[number]
        assert rows.sum() > 0.8 * NUM_ROWS
        assert len(np.unique(stack.place[number][rows])) == min(num_places, 20)
        times = np.sort(stack.times[number][np.unique(stack.time[number][rows])])
        assert np.diff(times).min() == 1.0
        assert np.ptp(times) > 150


def test_samples_are_the_same_for_the_same_seed():
    first, again = (sample_rows(made_table(), 4, num_space=2, seed=5) for _ in range(2))
    for one, other in zip(first, again, strict=True):
        assert np.array_equal(one, other)
    assert not np.array_equal(first.values, sample_rows(made_table(), 4, num_space=2, seed=6).values)


def levels_table(deviation: float) -> weft.Observations:
    """A field that all places share, and levels of their own where `deviation` is not 0."""
    rng = np.random.default_rng(11)
    places = rng.uniform(0, 100, (40, 2))
    times = np.arange(80, dtype=float)
    common = np.cumsum(rng.normal(size=80)) / 4
    values = common[:, None] + deviation * rng.normal(size=40) + 0.2 * rng.normal(size=(80, 40))
    return weft.Observations(np.repeat(times, 40), np.tile(places, (80, 1)), (values - values.mean()).ravel())


@pytest.mark.parametrize("deviation", [0.0, 0.8])
def test_a_component_is_kept_where_it_was_made(deviation):
    data = levels_table(deviation)
    common = weft.Separable(space=weft.Matern32([200.0, 200.0]), time=weft.Matern12(10.0), variance=0.8)
    start = Draft(weft.Model(weft.SumSeparable([common]), weft.Gaussian(0.1)), ("common",))

    def with_levels(draft: Draft) -> Draft:
        own = weft.Separable(space=weft.Matern12([5.0, 5.0]), time=weft.Matern12(500.0), variance=0.2)
        kernel = weft.SumSeparable([*draft.model.kernel.components, own])
        return Draft(weft.Model(kernel, draft.model.likelihood), (*draft.names, "levels"))

    learning, checking = (sample_rows(data, 6, num_space=2, seed=seed) for seed in (0, 1))
    candidates = [Candidate("nothing", lambda draft: None), Candidate("levels", with_levels)]
    found = select(start, candidates, learning, checking)
    assert [trial.name for trial in found.trials] == ["levels"]
    assert found.trials[0].kept == (deviation > 0)
    assert found.draft.names == (("common", "levels") if deviation > 0 else ("common",))


def test_evidence_alone_keeps_nothing():
    """A change may raise the evidence and still be left, where left-out rows and places do not gain."""
    common = weft.Separable(space=weft.Matern32([200.0, 200.0]), time=weft.Matern12(10.0), variance=0.8)
    own = weft.Separable(space=weft.Matern12([5.0, 5.0]), time=weft.Matern12(500.0), variance=0.64)
    # Only one number is learned of each, so that neither can make up for what it lacks.
    frozen = ("kernel.components[0].space", "kernel.components[0].time", "likelihood")
    start = Draft(weft.Model(weft.SumSeparable([common]), weft.Gaussian(0.04)), ("common",), frozen)
    with_levels = weft.Model(weft.SumSeparable([common, own]), weft.Gaussian(0.04))
    changed = Draft(with_levels, ("common", "levels"), (*frozen, "kernel.components[1]"))
    # The samples to learn from have levels, those to check by have none.
    learning, checking = (sample_rows(levels_table(each), 6, num_space=2, seed=0) for each in (0.8, 0.0))
    trial = select(start, [Candidate("levels", lambda draft: changed)], learning, checking).trials[0]
    assert trial.evidence_gain > 0.5
    assert trial.place_gain < -0.05
    assert not trial.kept


def test_lengths_beyond_reach_are_held():
    prior = WithinReach([1.0, 2.0, 0.1], [100.0, 300.0, 5.0], alike=(0, 1))
    assert_allclose(prior(jnp.array([50.0, 50.0, 1.0])), 0.0, atol=1e-12)
    # Twice as long in one direction: half a log 2 on either side of the mean.
    apart = 2 * (0.5 * np.log(2.0)) ** 2
    assert_allclose(prior(jnp.array([50.0, 100.0, 1.0])), -0.5 * apart / 0.25)
    assert_allclose(prior(jnp.array([50.0, 50.0, 50.0])), -0.5 * np.log(10.0) ** 2 / 0.25)
    assert_allclose(prior(jnp.array([50.0, 50.0, 0.01])), -0.5 * np.log(10.0) ** 2 / 0.25)
