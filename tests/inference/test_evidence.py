# SPDX-License-Identifier: MIT
"""log_evidence against dense definitions: values, gradients, laws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import weft
from tests.oracles import dense
from tests.problems import TIME_KERNELS, sum_separable

ENGINES = ["scan", "parallel", "cpu"]


@pytest.mark.parametrize("power", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("engine", ENGINES)
def test_bound_equals_dense(power, engine):
    twin = sum_separable()
    value = weft.log_evidence(twin.model, twin.data, power=power, engine=engine)
    assert_allclose(value, dense.power_ep(twin.dense, power), rtol=1e-8)


@pytest.mark.parametrize("name", TIME_KERNELS)
def test_bound_equals_dense_for_every_kind_of_time_kernel(name):
    twin = sum_separable(name, "matern12", seed=3)
    assert_allclose(weft.log_evidence(twin.model, twin.data), dense.power_ep(twin.dense, 0.0), rtol=1e-8)


def test_dtc_is_the_bound_without_its_correction():
    twin = sum_separable()
    value = weft.log_evidence(twin.model, twin.data, correction=False)
    assert_allclose(value, dense.power_ep(twin.dense, 0.0, correction=False), rtol=1e-8)


@pytest.mark.parametrize("engine", ["cpu", "scan"])
def test_no_pseudo_points_is_exact(engine):
    twin = sum_separable(exact=True)
    value = weft.log_evidence(twin.model, twin.data, engine=engine)
    assert_allclose(value, dense.log_marginal_likelihood(twin.dense), rtol=1e-8)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("power", [0.0, 0.7])
def test_gradient_in_every_parameter_equals_dense(power, engine):
    twin = sum_separable("sum", "matern32")

    def value(parameters):
        return weft.log_evidence(twin.build_model(parameters), twin.data, power=power, engine=engine)

    expected = dense.gradient(lambda parameters: dense.power_ep(twin.build_dense(parameters), power), twin.parameters)
    assert_allclose(jax.grad(value)(jnp.asarray(twin.parameters)), expected, rtol=1e-6, atol=1e-7)


def test_gradient_of_a_model_is_a_model():
    twin = sum_separable()
    value, gradient = jax.value_and_grad(weft.log_evidence)(twin.model, twin.data)
    assert isinstance(gradient, weft.Model)
    assert jax.tree.structure(gradient) == jax.tree.structure(twin.model)
    jitted = jax.jit(jax.value_and_grad(weft.log_evidence))(twin.model, twin.data)
    assert_allclose(jitted[0], value, rtol=1e-12)


def test_gradient_of_exact_evidence_equals_dense():
    twin = sum_separable("matern72", "damped cosine", exact=True)
    number = 10  # every parameter but the pseudo-points, of which there are none
    expected = dense.gradient(
        lambda head: dense.log_marginal_likelihood(twin.build_dense(np.concatenate([head, twin.parameters[number:]]))),
        twin.parameters[:number],
    )
    gradient = jax.grad(lambda parameters: weft.log_evidence(twin.build_model(parameters), twin.data))(
        jnp.asarray(twin.parameters)
    )
    assert_allclose(gradient[:number], expected, rtol=1e-6)


def test_one_set_of_pseudo_points_for_all_components_is_the_same_set_twice():
    twin = sum_separable()
    points = np.random.default_rng(2).uniform(0, 3, (5, 2))
    kernel, likelihood = twin.model.kernel, twin.model.likelihood
    shared = weft.log_evidence(weft.Model(kernel, likelihood, points), twin.data)
    assert_allclose(shared, weft.log_evidence(weft.Model(kernel, likelihood, (points, points)), twin.data), rtol=1e-12)


def test_more_pseudo_points_never_lower_the_bound_and_it_stays_below_exact():
    twin = sum_separable()
    kernel, likelihood = twin.model.kernel, twin.model.likelihood
    points = np.random.default_rng(5).uniform(0, 3, (12, 2))
    bounds = [weft.log_evidence(weft.Model(kernel, likelihood, points[:m]), twin.data) for m in (1, 2, 4, 8, 12)]
    exact = weft.log_evidence(weft.Model(kernel, likelihood), twin.data)
    assert np.all(np.diff([*bounds, exact]) > 0)


def test_pseudo_points_at_all_places_are_exact():
    twin = sum_separable()
    kernel, likelihood = twin.model.kernel, twin.model.likelihood
    points = weft.Model(kernel, likelihood, twin.data.places)
    assert_allclose(
        weft.log_evidence(points, twin.data), weft.log_evidence(weft.Model(kernel, likelihood), twin.data), rtol=1e-8
    )


def test_gaussian_zero_leaves_the_rows_own_noise_alone():
    twin = sum_separable(exact=True)
    model = weft.Model(twin.model.kernel, weft.Gaussian(0.0))
    problem = twin.dense
    problem.noise_variance = twin.noise
    assert_allclose(weft.log_evidence(model, twin.data), dense.log_marginal_likelihood(problem), rtol=1e-8)


def mean_twin(mean, space):
    """A separable problem whose values are far from zero, with a mean as weft has it and as one more dense component."""
    twin = sum_separable()
    values = twin.values + 30.0 + 4.0 * twin.places[:, 0]
    data = weft.Observations(twin.times, twin.places, values, noise_variance=twin.noise)
    model = weft.Model(twin.model.kernel, twin.model.likelihood, twin.model.pseudo_points, mean=mean)
    problem = twin.dense
    problem.values = values
    problem.components = [*problem.components, dense.Component(1.0, space, dense.constant, None)]
    return model, data, problem


@pytest.mark.parametrize(
    ("mean", "space"),
    [
        (weft.ConstantMean(900.0), lambda x, y: 900.0 * dense.constant(x, y)),
        (weft.LinearMean(900.0, 50.0), lambda x, y: 900.0 * dense.constant(x, y) + 50.0 * dense.linear(x, y)),
    ],
    ids=["constant", "linear"],
)
def test_a_mean_is_one_more_static_component(mean, space):
    model, data, problem = mean_twin(mean, space)
    assert_allclose(weft.log_evidence(model, data), dense.power_ep(problem, 0.0), rtol=1e-8)
    times, places = np.array([0.1, 2.5, 7.0]), np.array([[1.0, 2.0], [0.2, 0.4], [2.9, 1.0]])
    expected, covariance = dense.posterior(problem, times, places)
    posterior = weft.condition(model, data)
    assert_allclose(posterior.marginals(times, places).mean, expected, rtol=1e-7)
    assert_allclose(posterior.marginals(times, places).variance, np.diag(covariance), rtol=1e-6)
    assert len(posterior.components(times, places)) == 3
