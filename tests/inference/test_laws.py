# SPDX-License-Identifier: MIT
"""What must not change the evidence, and long or extreme series."""

import functools

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import weft
from tests.oracles import dense
from tests.problems import sum_separable

TWIN = sum_separable("matern32", "matern52")


@functools.cache
def reference():
    return float(weft.log_evidence(TWIN.model, TWIN.data))


def evidence(times, places, values, noise):
    return weft.log_evidence(TWIN.model, weft.Observations(times, places, values, noise_variance=noise))


@settings(max_examples=10, deadline=None)
@given(st.randoms(use_true_random=False))
def test_order_of_rows_does_not_matter(random):
    order = np.array(random.sample(range(len(TWIN.times)), len(TWIN.times)))
    value = evidence(TWIN.times[order], TWIN.places[order], TWIN.values[order], TWIN.noise[order])
    assert_allclose(value, reference(), rtol=1e-11)


@settings(max_examples=10, deadline=None)
@given(st.lists(st.floats(-3, 9), min_size=1, max_size=4))
def test_empty_times_do_not_matter(extra):
    count = len(extra)
    value = evidence(
        np.concatenate([TWIN.times, extra]),
        np.concatenate([TWIN.places, np.ones((count, 2))]),
        np.concatenate([TWIN.values, np.full(count, np.nan)]),
        np.concatenate([TWIN.noise, np.ones(count)]),
    )
    assert_allclose(value, reference(), rtol=1e-10)


@settings(max_examples=5, deadline=None)
@given(st.floats(-1e3, 1e3))
def test_shifting_time_does_not_matter(shift):
    value = evidence(TWIN.times + shift, TWIN.places, TWIN.values, TWIN.noise)
    # Times of size 1e3 carry their steps to 1e-13.
    assert_allclose(value, reference(), rtol=1e-9)


def test_splitting_a_rows_precision_over_two_rows_changes_only_the_normaliser():
    model = weft.Model(TWIN.model.kernel, weft.Gaussian(0.0), TWIN.model.pseudo_points)
    kept = np.flatnonzero(~np.isnan(TWIN.values))[0]
    twice = np.concatenate([np.arange(len(TWIN.times)), [kept]])
    noise = TWIN.noise[twice].copy()
    noise[[kept, -1]] *= 2
    split = weft.log_evidence(
        model, weft.Observations(TWIN.times[twice], TWIN.places[twice], TWIN.values[twice], noise_variance=noise)
    )
    whole = weft.log_evidence(model, TWIN.data)
    # N(y; f, 2s)^2 = N(y; f, s) * (8 pi s)^-1/2
    assert_allclose(split, whole - 0.5 * np.log(8 * np.pi * TWIN.noise[kept]), rtol=1e-10)


def random_walk_problem(num_times, step, lengthscale):
    rng = np.random.default_rng(7)
    times = step * np.arange(num_times)
    values = np.sin(times / lengthscale) + 0.3 * rng.normal(size=num_times)
    return times, values


def innovations_log_likelihood(values, step, lengthscale, noise):
    """Log N(y; 0, K + noise I) of a Matern-1/2 kernel by its scalar Kalman filter, in plain Python."""
    decay = np.exp(-step / lengthscale)
    fresh = -np.expm1(-2 * step / lengthscale)
    mean, variance, total = 0.0, 1.0, 0.0
    for value in values:
        spread = variance + noise
        total += -0.5 * (np.log(2 * np.pi * spread) + (value - mean) ** 2 / spread)
        mean, variance = mean + variance / spread * (value - mean), variance * noise / spread
        mean, variance = decay * mean, decay**2 * variance + fresh
    return total


@pytest.mark.parametrize("engine", ["cpu", "scan"])
def test_a_hundred_thousand_short_steps_equal_a_scalar_filter(engine):
    lengthscale, step = 2.5, 1e-3
    times, values = random_walk_problem(100_000, step, lengthscale)
    model = weft.Model(weft.Separable(space=weft.EQ(1.0), time=weft.Matern12(lengthscale)), weft.Gaussian(0.1))
    data = weft.Observations(times, np.zeros((len(times), 1)), values)
    value, gradient = jax.value_and_grad(lambda model: weft.log_evidence(model, data, engine=engine))(model)
    assert_allclose(value, innovations_log_likelihood(values, step, lengthscale, 0.1), rtol=1e-9)
    h = 1e-6
    slope = (
        innovations_log_likelihood(values, step, lengthscale + h, 0.1)
        - innovations_log_likelihood(values, step, lengthscale - h, 0.1)
    ) / (2 * h)
    # The difference quotient itself is good to about seven digits.
    assert_allclose(gradient.kernel.time.lengthscale, slope, rtol=1e-5)


@pytest.mark.parametrize("engine", ["cpu", "scan", "parallel"])
def test_a_year_of_tiny_steps_equals_dense(engine):
    times, values = random_walk_problem(365, 1e-9, 1.0)
    model = weft.Model(weft.Separable(space=weft.EQ(1.0), time=weft.Matern52(1.0)), weft.Gaussian(0.1))
    data = weft.Observations(times, np.zeros((365, 1)), values)
    problem = dense.Problem(
        [dense.Component(1.0, dense.constant, lambda t, s: dense.matern52(t, s, 1.0), None)],
        np.full(365, 0.1),
        times,
        np.zeros((365, 1)),
        values,
    )
    value = weft.log_evidence(model, data, engine=engine)
    assert_allclose(value, dense.log_marginal_likelihood(problem), rtol=1e-8)


def test_gradients_over_tiny_steps_are_finite():
    times, values = random_walk_problem(365, 1e-9, 1.0)
    model = weft.Model(weft.Separable(space=weft.EQ(1.0), time=weft.Matern52(1.0)), weft.Gaussian(0.1))
    gradient = jax.grad(weft.log_evidence)(model, weft.Observations(times, np.zeros((365, 1)), values))
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(gradient))
