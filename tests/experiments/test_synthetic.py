# SPDX-License-Identifier: MIT
"""The synthetic problems: their laws, and the dense answers the benchmark is held to."""

import dataclasses

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests.oracles import dense as oracle
from weft_experiments import dense, synthetic
from weft_experiments.synthetic import KERNELS, LAYOUTS, VARIANTS


def oracle_problem(variant, kernel, problem, pseudo):
    time = {3: oracle.matern32, 5: oracle.matern52}[variant.smoothness]
    components = [
        oracle.Component(
            part.variance,
            lambda x, y, part=part: oracle.eq(x, y, part.place_lengthscale),
            lambda x, y, part=part: time(x, y, part.time_lengthscale),
            pseudo,
        )
        for part in synthetic.components_of(variant, kernel)
    ]
    return oracle.Problem(components, problem.noise_variance, problem.times, problem.places, problem.values)


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_dense_answers_are_those_of_the_definition(variant, kernel, layout):
    problem = synthetic.make_problem(variant, kernel, layout, 4, seed=1)
    components, pseudo = synthetic.components_of(variant, kernel), synthetic.pseudo_points(variant, layout, 5)
    exact = dense.exact_log_evidence(components, variant.smoothness, problem)
    assert_allclose(exact, oracle.log_marginal_likelihood(oracle_problem(variant, kernel, problem, None)), rtol=1e-10)
    bound = dense.dense_bound(components, variant.smoothness, problem, pseudo)
    twin = oracle_problem(variant, kernel, problem, pseudo)
    # The jitter of 1e-9 on one side.
    assert_allclose(bound.log_evidence, oracle.power_ep(twin, 0.0), rtol=1e-7)
    times, places = np.unique(problem.times)[[0, 1, 3, 3]], np.array([[0.1], [2.2], [4.9], [0.3]])
    mean, deviation = bound.marginals(times, places)
    expected_mean, expected_covariance = oracle.posterior(twin, times, places)
    assert_allclose(mean, expected_mean, rtol=1e-6, atol=1e-7)
    assert_allclose(deviation, np.sqrt(np.diagonal(expected_covariance)), rtol=1e-6)


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_draws_have_the_covariance_of_the_kernel(variant):
    component = synthetic.make_kernel(variant, "separable")
    times = np.array([0.0, 1e-7, 0.3, 1.9])
    rng = np.random.default_rng(2)
    drawn = synthetic.draw_time_processes(component, times, 40_000, rng)
    expected = dense.time_covariance(variant.smoothness, variant.components[0].time_lengthscale, times, times)
    # Five standard errors of a product of unit normals.
    assert_allclose(drawn @ drawn.T / drawn.shape[1], expected, atol=5 * np.sqrt(2 / drawn.shape[1]))


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_features_of_place_are_the_kernel(variant):
    kernel = synthetic.make_kernel(variant, "sum-separable")
    places = np.array([[0.0], [0.4], [3.3], [7.7], [10.0]])
    for component, part in zip(kernel.components, variant.components, strict=True):
        features = synthetic.PlaceFeatures.of(component).at(places)
        expected = part.variance * dense.place_covariance(part.place_lengthscale, places[:, 0], places[:, 0])
        assert_allclose(features @ features.T, expected, atol=1e-9)


def test_layouts_are_the_papers():
    scripts, text = VARIANTS["scripts"], VARIANTS["text"]
    arbitrary = synthetic.make_problem(scripts, "separable", "arbitrary", 30, seed=0)
    assert arbitrary.num_rows == 300
    assert np.all((arbitrary.times >= 0) & (arbitrary.times <= 50))
    assert arbitrary.places.min() < 1 < 9 < arbitrary.places.max()
    grid = synthetic.make_problem(scripts, "separable", "grid", 30, seed=0)
    assert grid.num_rows == 45 * 30
    assert_allclose(np.unique(np.diff(np.unique(grid.times))), 50.0)
    assert_allclose(np.unique(grid.places), np.linspace(0, 5, 50))
    assert np.all((grid.noise_variance >= 0.1) & (grid.noise_variance <= 1.1))
    assert synthetic.pseudo_points(scripts, "grid", 20).max() == 10
    assert synthetic.pseudo_points(text, "grid", 20).max() == 5
    # The scripts' kernel: amplitude 0.92, rates 1.1 and 0.83; the second component by factors 1.1, 0.3 and 1.05.
    first, second = scripts.components
    assert_allclose(dataclasses.astuple(first), (0.8464, 1 / 1.1, 1 / 0.83))
    assert_allclose(dataclasses.astuple(second), (1.012**2, 1 / 0.33, 1 / 0.8715))


def test_same_seed_same_inputs_for_both_kernels():
    one, two = (synthetic.make_problem(VARIANTS["text"], kernel, "grid", 5, seed=4) for kernel in KERNELS)
    assert np.array_equal(one.places, two.places)
    assert np.array_equal(one.noise_variance, two.noise_variance)
    assert not np.allclose(one.values, two.values)
