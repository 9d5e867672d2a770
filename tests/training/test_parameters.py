# SPDX-License-Identifier: MIT
"""Names, what is free, and the way to the real line and back."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import stats

import weft
from weft.training.parameters import (
    _steepness,
    from_interval,
    make_space,
    matching,
    parameters_of,
    prior_terms,
    to_interval,
)
from weft.training.priors import WithinReach


@pytest.fixture
def model():
    first = 0.7 * weft.Separable(space=weft.EQ([0.9, 1.4]), time=0.8 * weft.Matern52(1.3))
    second = weft.Separable(
        space=2.0 * weft.Matern32(1.1) + 3.0 * weft.EQ(0.2), time=weft.Matern12(0.45) * weft.Cosine(7.0)
    )
    third = weft.Separable(space=weft.OnSphere(weft.EQ(100.0)), time=weft.Wiener(0.3) + weft.Constant(2.0))
    points = (
        np.array([[0.4, 0.5], [1.4, 2.1]]),
        np.array([[0.2, 2.4], [1.6, 1.1], [9.0, 4.0]]),
        np.array([[1.0, 2.0]]),
    )
    return weft.Model(first + second + third, weft.Gaussian(0.06), points)


def test_names_are_the_paths_of_attributes(model):
    names = [parameter.name for parameter in parameters_of(model)]
    assert "kernel.components[0].space.lengthscale" in names
    assert "likelihood.variance" in names
    assert names[-3:] == ["pseudo_points[0]", "pseudo_points[1]", "pseudo_points[2]"]
    one = weft.Model(weft.Separable(space=weft.EQ(1.0), time=weft.Matern12(2.0)), weft.Gaussian(0.1))
    assert make_space(one).names == (
        "kernel.space.lengthscale",
        "kernel.time.lengthscale",
        "kernel.variance",
        "likelihood.variance",
    )


def test_one_variance_a_term_is_free(model):
    # By hand: of each component its own variance; of a sum inside it, of all terms but the first.
    free = {name for name in make_space(model).names if name.endswith("variance")}
    assert free == {
        "kernel.components[0].variance",
        "kernel.components[1].variance",
        "kernel.components[1].space.second.variance",
        "kernel.components[2].variance",
        "kernel.components[2].time.second.variance",
        "likelihood.variance",
    }


def test_what_is_held_adds_no_freedom_and_what_is_free_is_not_redundant(model):
    """Rank of the covariance's derivative in the logarithms of all variances, and of the free ones alone."""
    times, places = np.array([0.3, 0.9, 2.0, 5.5]), np.array([[0.1, 0.2], [0.9, 0.5], [0.4, 1.1], [1.3, 0.8]])

    def derivative(space):
        jacobian = jax.jacobian(lambda point: space.place(model, point).kernel(times, places).ravel())
        return np.asarray(jacobian(jnp.asarray(space.start(model))))

    variances = [p.name for p in parameters_of(model) if p.name.startswith("kernel") and p.name.endswith("variance")]
    others = ["*.lengthscale", "*.period", "likelihood"]
    everything = make_space(model, frozen=others, bounds=dict.fromkeys(variances, (None, None)))
    by_default = make_space(model, frozen=others)
    assert everything.size == len(variances) > by_default.size == 5
    assert np.linalg.matrix_rank(derivative(everything), tol=1e-8) == by_default.size
    assert np.linalg.matrix_rank(derivative(by_default), tol=1e-8) == by_default.size


def test_anchors_are_free_only_by_their_exact_name(model):
    wiener, radius = "kernel.components[2].time.first.origin", "kernel.components[2].space.radius"
    assert not {wiener, radius} & set(make_space(model).names)
    assert wiener in make_space(model, bounds={wiener: (None, 0.1)}).names
    assert wiener not in make_space(model, bounds={"*.origin": (None, 0.1)}).names


def test_patterns():
    names = ["kernel.components[0].space.lengthscale", "kernel.components[1].space.lengthscale", "likelihood.variance"]
    assert matching("*.lengthscale", names) == names[:2]
    assert matching("kernel.components[1]", names) == names[1:2]
    assert matching("likelihood", names) == names[2:]
    assert matching("kernel.components[?].space.lengthscale", names) == names[:2]
    assert matching("kernel.comp", names) == []
    assert matching("kernel.components.0.", names) == []


@pytest.mark.parametrize("option", ["frozen", "bounds", "named"])
def test_unknown_names_list_what_exists(model, option):
    wrong = {"frozen": ["likelihood.noise"], "bounds": {"likelihood.noise": (0, 1)}, "named": ["likelihood.noise"]}
    if option == "named":
        with pytest.raises(KeyError, match=r"priors names 'likelihood.noise'.*likelihood\.variance"):
            prior_terms({"likelihood.noise": weft.NormalPrior(0.0, 1.0)}, make_space(model), model)
    else:
        with pytest.raises(KeyError, match=r"likelihood.noise.*likelihood\.variance"):
            make_space(model, **{option: wrong[option]})


def test_a_prior_on_what_is_frozen_is_refused(model):
    space = make_space(model, frozen=["likelihood.variance"])
    with pytest.raises(ValueError, match="not learned"):
        prior_terms({"likelihood.variance": weft.LogNormalPrior(0.1, 1.0)}, space, model)


def test_freezing_takes_names_parts_and_patterns(model):
    kept = make_space(model, frozen=["kernel.components[1]", "*.time.*", "likelihood.variance"]).names
    assert kept == (
        "kernel.components[0].space.lengthscale",
        "kernel.components[0].variance",
        "kernel.components[2].space.kernel.lengthscale",
        "kernel.components[2].variance",
    )
    assert make_space(model, frozen="likelihood.variance").size == make_space(model).size - 1
    with pytest.raises(ValueError, match="nothing is left to learn"):
        make_space(model, frozen=["*"])


def test_a_noise_variance_of_zero_stays_zero(model):
    quiet = weft.Model(model.kernel, weft.Gaussian(0.0), model.pseudo_points)
    space = make_space(quiet)
    assert space.size == make_space(model).size - 1
    moved = space.place_numpy(quiet, space.start(quiet) + 0.3)
    assert moved.likelihood.variance == 0.0
    assert_allclose(moved.kernel.components[0].variance, 0.7 * np.exp(0.3))


def test_pseudo_points_are_free_on_request_only(model):
    space = make_space(model, learn_pseudo_points=True)
    assert space.size == make_space(model).size + sum(points.size for points in model.pseudo_points)
    start = space.start(model)
    assert_allclose(space.place(model, start).pseudo_points[1], model.pseudo_points[1], rtol=1e-14)
    # A unit move is of the order of the distance between points, in the units of each column.
    moved = space.place(model, start + 1.0)
    assert_allclose(moved.pseudo_points[1] - model.pseudo_points[1], np.tile(np.array([8.8, 2.9]) / np.sqrt(3), (3, 1)))


@pytest.mark.parametrize(
    ("bound", "message"),
    [
        ((0.1, 0.01), "below the upper"),
        ((0.1, 2.0), "outside its bounds"),
        (0.3, "must be a pair"),
        (([0.1, 0.2], 3), "pair"),
    ],
)
def test_bad_bounds_are_refused(model, bound, message):
    with pytest.raises(ValueError, match=message):
        make_space(model, bounds={"likelihood.variance": bound})


def test_bounds_per_column_hold(model):
    name = "kernel.components[0].space.lengthscale"
    space = make_space(model, bounds={name: ([0.5, 1.0], [1.0, 3.0]), "likelihood.variance": (None, 2.0)})
    far = space.place_numpy(model, space.start(model) + 50.0)
    assert_allclose(far.kernel.components[0].space.lengthscale, [1.0, 3.0])
    assert_allclose(far.likelihood.variance, 2.0)
    assert set(space.at_bounds(space.start(model) + 50.0)) == {name, "likelihood.variance"}
    assert space.at_bounds(space.start(model)) == []


INTERVALS = [(-np.inf, np.inf), (0.0, np.inf), (-np.inf, 3.0), (1e-2 + 1e-12, 2 - 1e-12)]


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(-8, 8), st.integers(0, 3)), min_size=1, max_size=6))
def test_the_real_line_and_back(entries):
    point = np.array([entry[0] for entry in entries])
    lower, upper = np.array([INTERVALS[entry[1]] for entry in entries]).T
    scale = np.full(len(point), 2.5)
    value = np.asarray(to_interval(point, lower, upper, scale))
    assert np.all((value > lower) & (value < upper))
    assert_allclose(from_interval(value, lower, upper, scale), point, rtol=1e-9, atol=1e-9)


def test_gradients_through_every_kind_of_interval():
    point = jnp.array([0.3, -1.2, 0.7, 2.0])
    lower, upper = np.array(INTERVALS).T
    scale = np.array([2.5, 1.0, 1.0, 1.0])
    jacobian = jax.jacobian(lambda u: to_interval(u, lower, upper, scale))(point)
    s = 1 / (1 + np.exp(-2.0))
    expected = [2.5, np.exp(-1.2), -np.exp(0.7), (upper[3] - lower[3]) * s * (1 - s)]
    assert_allclose(jacobian, np.diag(expected), rtol=1e-12)


def test_log_densities_of_priors():
    assert_allclose(weft.NormalPrior(1.0, 0.3)(jnp.array([0.7, 2.0])), stats.norm(1.0, 0.3).logpdf([0.7, 2.0]))
    assert_allclose(
        weft.LogNormalPrior(0.5, 0.7)(jnp.array([0.2, 3.0])), stats.lognorm(0.7, scale=0.5).logpdf([0.2, 3.0])
    )


@pytest.mark.parametrize(
    "prior",
    [
        weft.NormalPrior(0.4, 0.7),
        weft.LogNormalPrior(1.5, 0.6),
        WithinReach([0.5, 0.1, 0.2], [2.0, 1.0, 0.9], alike=(0, 2)),
        WithinReach(0.5, 2.0),
    ],
)
def test_slopes_of_priors_are_those_of_jax(prior):
    """Within the reach, above it, and below."""
    value = np.array([0.3, 1.7, 0.5])
    wanted, slope = jax.value_and_grad(lambda value: jnp.sum(prior(value)))(jnp.asarray(value))
    assert_allclose(np.sum(prior(value)), wanted, rtol=1e-13)
    assert_allclose(prior.slope(value), slope, rtol=1e-12)
    # Where a whole fit is compiled, the prior's own numbers are traced too.
    compiled = eqx.filter_jit(lambda prior, value: jnp.sum(prior(value)))
    assert_allclose(compiled(prior, jnp.asarray(value)), wanted, rtol=1e-13)


def test_the_way_into_intervals_is_the_same_in_numpy_and_as_steep_as_jax_finds():
    lower, upper = np.array([-np.inf, 0.5, -np.inf, -1.0]), np.array([np.inf, np.inf, 2.0, 3.0])
    scale, point = np.array([3.0, 1.0, 1.0, 1.0]), np.array([0.7, -1.2, 0.4, 1.9])
    wanted, slope = jax.jvp(
        lambda point: to_interval(point, lower, upper, scale), (jnp.asarray(point),), (jnp.ones(4),)
    )
    assert_allclose(to_interval(point, lower, upper, scale), wanted, rtol=1e-15)
    assert_allclose(from_interval(to_interval(point, lower, upper, scale), lower, upper, scale), point, rtol=1e-13)
    assert_allclose(_steepness(point, lower, upper, scale), slope, rtol=1e-14)
