# SPDX-License-Identifier: MIT
"""Uncertainty of parameters: the evidence inside a sampler of the wider JAX world."""

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

import weft
from tests.oracles import dense
from weft.training.parameters import make_space

STATIONS = np.array([[0.2, 0.4], [1.1, 0.3], [0.6, 1.7], [2.2, 1.5], [1.9, 0.2]])


def station_rows():
    rng = np.random.default_rng(4)
    times, places = np.repeat(np.arange(12.0), 5), np.tile(STATIONS, (12, 1))
    covariance = 1.5 * dense.matern32(places, places, 1.0) * dense.matern12(times[:, None], times[:, None], 3.0)
    values = np.linalg.cholesky(covariance + 0.3 * np.eye(len(times))) @ rng.normal(size=len(times))
    kept = rng.random(len(times)) > 0.2
    return times[kept], places[kept], values[kept]


@pytest.mark.long
def test_nuts_on_four_parameters_agrees_with_importance_sampling_from_dense_evidence():
    times, places, values = station_rows()
    data = weft.Observations(times, places, values)
    kernel = weft.Separable(space=weft.Matern32(1.0), time=weft.Matern12(3.0), variance=1.5)
    model = weft.Model(kernel, weft.Gaussian(0.3))
    space = make_space(model)
    start = space.start(model)
    assert space.size == 4

    # The logarithms of the parameters are normal around the start, with deviation 1/2.
    def log_density(point):
        prior = -2 * jnp.sum((point - start) ** 2)
        return weft.log_evidence(space.place(model, point), data) + prior

    def dense_log_density(point):
        space_scale, time_scale, variance, noise = np.exp(point)
        component = dense.Component(
            variance,
            lambda x, y: dense.matern32(x, y, space_scale),
            lambda t, s: dense.matern12(t, s, time_scale),
            None,
        )
        problem = dense.Problem([component], np.full(len(times), noise), times, places, values)
        return dense.log_marginal_likelihood(problem) - 2 * np.sum((point - start) ** 2)

    assert_allclose(log_density(start), dense_log_density(start), rtol=1e-9)

    warmup_key, sample_key = jax.random.split(jax.random.key(0))
    warmup = blackjax.window_adaptation(blackjax.nuts, log_density, initial_step_size=0.4)
    (state, settings), _ = warmup.run(warmup_key, jnp.asarray(start), num_steps=100)
    sampler = blackjax.nuts(log_density, **settings)

    @jax.jit
    def run(state, keys):
        def one(state, key):
            state, info = sampler.step(key, state)
            return state, (state.position, info.is_divergent)

        return jax.lax.scan(one, state, keys)[1]

    draws, divergent = run(state, jax.random.split(sample_key, 300))
    assert not np.any(divergent)

    # A wide normal around the draws as proposal; the density is the dense one.
    rng = np.random.default_rng(0)
    proposal = stats.multivariate_normal(np.mean(draws, axis=0), 1.5 * np.cov(np.asarray(draws).T))
    proposed = proposal.rvs(1200, random_state=rng)
    weight = np.array([dense_log_density(point) for point in proposed]) - proposal.logpdf(proposed)
    weight = np.exp(weight - weight.max())
    weight /= weight.sum()
    assert 1 / np.sum(weight**2) > 300
    mean = weight @ proposed
    deviation = np.sqrt(weight @ (proposed - mean) ** 2)
    # About 150 effective draws here and 600 there: a standard error of 0.09 deviations in means, of 7 % in deviations.
    assert_allclose(np.mean(draws, axis=0), mean, atol=0.35 * deviation.min())
    assert_allclose(np.std(draws, axis=0), deviation, rtol=0.25)
