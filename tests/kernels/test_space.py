# SPDX-License-Identifier: MIT
"""Covariances against their formulas, written again in plain NumPy and mpmath; spheres, graphs, operators and refusals."""

import equinox as eqx
import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from weft.kernels import (
    EQ,
    Constant,
    Cosine,
    Graph,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    Matern72,
    OnSphere,
    Periodic,
    RationalQuadratic,
    Wiener,
)
from weft.testing.kernels import check_covariance

# --- formulas of one pair of places; `m` is numpy or mpmath ------------------------------------------------------------


def distance(x, y, lengthscale, m):
    return m.sqrt(sum(((a - b) / scale) ** 2 for a, b, scale in zip(x, y, lengthscale, strict=True)))


def eq(x, y, lengthscale, variance, m=np):
    return variance * m.exp(-(distance(x, y, lengthscale, m) ** 2) / 2)


def matern12(x, y, lengthscale, variance, m=np):
    return variance * m.exp(-distance(x, y, lengthscale, m))


def matern32(x, y, lengthscale, variance, m=np):
    u = m.sqrt(3) * distance(x, y, lengthscale, m)
    return variance * (1 + u) * m.exp(-u)


def matern52(x, y, lengthscale, variance, m=np):
    u = m.sqrt(5) * distance(x, y, lengthscale, m)
    return variance * (1 + u + u**2 / 3) * m.exp(-u)


def matern72(x, y, lengthscale, variance, m=np):
    u = m.sqrt(7) * distance(x, y, lengthscale, m)
    return variance * (1 + u + 2 * u**2 / 5 + u**3 / 15) * m.exp(-u)


def rational_quadratic(x, y, lengthscale, shape, variance, m=np):
    return variance * (1 + distance(x, y, lengthscale, m) ** 2 / (2 * shape)) ** (-shape)


def periodic(x, y, period, lengthscale, variance, m=np):
    sines = (m.sin(m.pi * (a - b) / p) / s for a, b, p, s in zip(x, y, period, lengthscale, strict=True))
    return variance * m.exp(-2 * sum(sine**2 for sine in sines))


def cosine(x, y, period, variance, m=np):
    return variance * m.cos(2 * m.pi * sum((a - b) / p for a, b, p in zip(x, y, period, strict=True)))


def linear(x, y, variance, centre, m=np):
    return sum(v * (a - c) * (b - c) for a, b, v, c in zip(x, y, variance, centre, strict=True))


SCALES = [0.7, 1.9, 0.4]
# Kernel, its formula, and the formula's arguments in order, one per column where the kernel has one per column.
CASES = {
    "eq": (EQ(SCALES, 1.7), eq, (SCALES, 1.7)),
    "matern12": (Matern12(SCALES, 0.6), matern12, (SCALES, 0.6)),
    "matern32": (Matern32(0.8, 1.4), matern32, ([0.8] * 3, 1.4)),
    "matern52": (Matern52(SCALES, 2.2), matern52, (SCALES, 2.2)),
    "matern72": (Matern72(1.1), matern72, ([1.1] * 3, 1.0)),
    "rational quadratic": (RationalQuadratic(SCALES, 0.3, 1.6), rational_quadratic, (SCALES, 0.3, 1.6)),
    "periodic": (Periodic([1.3, 0.8, 2.0], SCALES, 0.9), periodic, ([1.3, 0.8, 2.0], SCALES, 0.9)),
    "cosine": (Cosine([1.3, 0.8, 2.0], 0.9), cosine, ([1.3, 0.8, 2.0], 0.9)),
    "linear": (Linear([0.5, 2.0, 1.1], [0.1, -0.4, 3.0]), linear, ([0.5, 2.0, 1.1], [0.1, -0.4, 3.0])),
}


def places(num, width, seed=0):
    """Random places, the last one twice."""
    rows = np.random.default_rng(seed).normal(size=(num, width))
    return np.concatenate([rows, rows[-1:]])


def dense(formula, xs, ys, arguments):
    return np.array([[formula(x, y, *arguments) for y in ys] for x in xs])


@pytest.mark.parametrize("name", CASES)
def test_covariance_is_the_formula(name):
    kernel, formula, arguments = CASES[name]
    xs, ys = places(6, 3), places(4, 3, seed=1)
    ys[0] = xs[2]
    covariance = eqx.filter_jit(lambda k, x, y: k(x, y))
    assert_allclose(covariance(kernel, xs, ys), dense(formula, xs, ys, arguments), rtol=1e-13)
    assert_allclose(kernel(xs), dense(formula, xs, xs, arguments), rtol=1e-13)
    check_covariance(kernel, xs)
    assert np.array_equal(kernel(xs), kernel(xs).T)


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_the_formula_also_at_distance_zero(name):
    kernel, formula, arguments = CASES[name]
    x = [0.3, -0.2, 1.1]
    apart = [0.35, 0.9, 1.0]

    def value(kernel, x, y):
        return kernel.covariance(x[None, :], y[None, :])[0, 0]

    gradient = jax.jit(jax.grad(value, argnums=(0, 1, 2)))
    for y in (apart, x):
        found, in_x, in_y = gradient(kernel, jnp.asarray(x), jnp.asarray(y))
        assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(found))
        for i in range(3):
            exact = derivative(lambda t, i=i, y=y: formula([*x[:i], t, *x[i + 1 :]], y, *arguments, m=mp), x[i])
            assert_allclose(in_x[i], exact, rtol=1e-12, atol=1e-15)
            exact = derivative(lambda t, i=i, y=y: formula(x, [*y[:i], t, *y[i + 1 :]], *arguments, m=mp), y[i])
            assert_allclose(in_y[i], exact, rtol=1e-12, atol=1e-15)
        # Fields are in the order of the formula's arguments; a shared lengthscale gathers the columns' derivatives.
        for position, leaf in enumerate(jax.tree.leaves(found)):
            argument = arguments[position]
            if isinstance(argument, float):
                exact = derivative(lambda t, p=position, y=y: replaced(formula, x, y, arguments, p, None, t), argument)
            else:
                exact = [
                    derivative(lambda t, p=position, y=y, i=i: replaced(formula, x, y, arguments, p, i, t), argument[i])
                    for i in range(3)
                ]
                exact = np.sum(exact) if leaf.ndim == 0 else exact
            assert_allclose(leaf, exact, rtol=1e-12, atol=1e-15)


def derivative(function, at):
    """Symmetric difference in 60 digits: 0 at the cusp of Matern12, as the average of its two sides is."""
    with mp.workdps(60):
        width = mp.mpf(10) ** -20
        return float((function(mp.mpf(at) + width) - function(mp.mpf(at) - width)) / (2 * width))


def replaced(formula, x, y, arguments, position, column, value):
    changed = list(arguments)
    if column is None:
        changed[position] = value
    else:
        changed[position] = [*changed[position][:column], value, *changed[position][column + 1 :]]
    return formula(x, y, *changed, m=mp)


@pytest.mark.parametrize(
    ("kernel", "curvature"),
    [(EQ, 1.0), (Matern32, 3.0), (Matern52, 5 / 3), (Matern72, 7 / 5), (RationalQuadratic, 1.0)],
)
def test_slopes_have_the_right_variance(kernel, curvature):
    """The mixed second derivative at distance zero, which a masked square root gets wrong."""

    def value(x, y):
        return kernel(0.6).covariance(x[None, :], y[None, :])[0, 0]

    x = jnp.array([0.4, -1.0])
    mixed = jax.jit(jax.jacfwd(jax.grad(value, argnums=0), argnums=1))(x, x)
    assert_allclose(mixed, curvature / 0.6**2 * np.eye(2), rtol=1e-12, atol=1e-14)


def test_near_points_far_from_the_origin_keep_their_distance():
    xs = np.array([[1e6, -3e5], [1e6 + 2.0**-20, -3e5 + 2.0**-19]])
    lengthscale = 2.0**-18
    expected = np.exp(-((2.0**-2) ** 2 + (2.0**-1) ** 2) / 2)
    assert_allclose(EQ(lengthscale)(xs)[0, 1], expected, rtol=1e-14)


def test_long_waves_keep_their_phase():
    lag, period = 1e5 * 0.7, 0.7 * (1 + 2.0**-20)
    with mp.workdps(40):
        turns = mp.mpf(lag) / mp.mpf(period)
        expected = float(mp.cos(2 * mp.pi * turns)), float(mp.exp(-2 * mp.sin(mp.pi * turns) ** 2))
    for sign in (-1.0, 1.0):
        assert_allclose(Cosine(period)(np.array([0.0]), np.array([sign * lag]))[0, 0], expected[0], rtol=1e-12)
        assert_allclose(Periodic(period)(np.array([0.0]), np.array([sign * lag]))[0, 0], expected[1], rtol=1e-12)


def test_rational_quadratic_becomes_eq():
    xs = places(5, 2)
    assert_allclose(RationalQuadratic(0.8, 1e12)(xs), EQ(0.8)(xs), rtol=1e-10)


def test_wiener_and_constant():
    times = np.array([0.5, 2.0, 1.25, 2.0])
    expected = 1.7 * (np.minimum(times[:, None], times[None, :]) + 0.5)
    assert_allclose(Wiener(1.7, -0.5)(times), expected, rtol=1e-15)
    assert_allclose(Wiener(1.7, -0.5).variances(times[:, None]), np.diagonal(expected), rtol=1e-15)
    assert_allclose(Constant(0.3)(times, times[:2]), np.full((4, 2), 0.3))


# --- operators and features --------------------------------------------------------------------------------------------


def test_kernels_add_multiply_and_scale():
    xs, ys = places(4, 2), places(3, 2, seed=1)
    first, second, third = EQ([0.5, 2.0], 1.3), Matern32(0.9, 0.7), Linear([0.4, 1.2])
    k1, k2, k3 = (np.asarray(kernel(xs, ys)) for kernel in (first, second, third))
    for combined, expected in [
        (first + second, k1 + k2),
        (first * second, k1 * k2),
        (2.5 * first, 2.5 * k1),
        (first * 3, 3 * k1),
        (np.float64(0.2) * (first + 2 * second) * third, 0.2 * (k1 + 2 * k2) * k3),
        (jnp.asarray(0.2) * first, 0.2 * k1),
        (np.asarray(0.2) * first, 0.2 * k1),
        (sum([first, second, third]), k1 + k2 + k3),
    ]:
        assert_allclose(combined(xs, ys), expected, rtol=1e-14)
        assert_allclose(combined.variances(xs), np.diagonal(combined(xs)), rtol=1e-14)
    for wrong in (lambda: first + 1.0, lambda: 1.0 + first, lambda: first * "2", lambda: first * np.ones(2)):
        with pytest.raises(TypeError):
            wrong()
    with pytest.raises(ValueError, match=r"Scaled: variance must be positive; it is -1\.0"):
        -1.0 * first


def test_explicit_features_reproduce_the_covariance():
    xs = places(5, 3)
    linear_kernel = Linear([0.5, 2.0, 1.1], [0.1, -0.4, 3.0])
    for kernel, width in [
        (Constant(0.7), 1),
        (linear_kernel, 3),
        (Linear(0.3), 3),
        (1.7 * linear_kernel + Constant(0.2), 4),
        (Linear(0.3) * linear_kernel, 9),
    ]:
        features = kernel.features(xs)
        assert features.shape == (6, width)
        assert kernel.num_features(3) == width
        assert_allclose(features @ features.T, kernel(xs), rtol=1e-13, atol=1e-14)
    for kernel in (
        EQ(1.0),
        Matern12(1.0),
        Cosine(1.0),
        Constant(1.0) + EQ(1.0),
        Constant(1.0) * EQ(1.0),
        2.0 * EQ(1.0),
    ):
        assert np.isinf(kernel.num_features(3))
        with pytest.raises(TypeError, match="not made of a few features"):
            kernel.features(xs)


# --- the sphere --------------------------------------------------------------------------------------------------------


def chord(first, second, **kwargs):
    """The distance OnSphere sees, read back from an exponential kernel."""
    return -5e3 * np.log(OnSphere(Matern12(5e3), **kwargs)(np.array([first]), np.array([second]))[0, 0])


def test_chords_of_the_earth():
    radius = 6371.0088
    degree = np.pi / 180
    for first, second, expected in [
        ((0.0, 0.0), (0.0, 90.0), radius * np.sqrt(2)),
        ((90.0, 12.0), (-90.0, 77.0), 2 * radius),
        ((90.0, 12.0), (90.0, -120.0), 0.0),
        ((0.0, 179.5), (0.0, -179.5), 2 * radius * np.sin(0.5 * degree)),
        ((60.0, 179.5), (60.0, -179.5), 2 * radius * 0.5 * np.sin(0.5 * degree)),
        ((51.5, -0.1), (51.5, 359.9), 0.0),
        ((10.0, 20.0), (11.0, 20.0), 2 * radius * np.sin(0.5 * degree)),
    ]:
        assert_allclose(chord(first, second), expected, rtol=1e-11, atol=1e-8)
    # Haversine: London to New York is 5570 km along the surface of a sphere of this radius.
    london, new_york = (51.5074, -0.1278), (40.7128, -74.006)
    along = 2 * radius * np.arcsin(chord(london, new_york) / (2 * radius))
    assert abs(along - 5570.2) < 0.5
    assert_allclose(chord(london, new_york, radius=1.0) * radius, chord(london, new_york), rtol=1e-9)


@pytest.mark.parametrize("kernel", [EQ(3000.0), Matern12(8000.0), Matern72(4000.0)])
def test_sphere_covariances_are_valid_everywhere(kernel):
    generator = np.random.default_rng(5)
    latitude = np.concatenate([np.degrees(np.arcsin(generator.uniform(-1, 1, 60))), [90.0, -90.0, 90.0]])
    xs = np.stack([latitude, generator.uniform(-180, 180, 63)], axis=1)
    gram = OnSphere(kernel)(xs)
    assert np.linalg.eigvalsh(gram)[0] > -1e-13 * 63
    total = jax.jit(jax.grad(lambda k, x: jnp.sum(k.covariance(x, x) ** 2), argnums=(0, 1)))
    gradient = total(OnSphere(kernel), jnp.asarray(xs))
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(gradient))


def test_elevation_follows_the_three_coordinates():
    xs = np.array([[51.0, 0.0, 0.2], [51.5, -1.0, 1.1], [-20.0, 130.0, 0.4]])
    kernel = OnSphere(EQ([300.0, 300.0, 300.0, 0.7], 1.3))
    expected = 1.3 * OnSphere(EQ(300.0))(xs[:, :2]) * EQ(0.7)(xs[:, 2:])
    assert_allclose(kernel(xs), expected, rtol=1e-12)
    with pytest.raises(ValueError, match=r"EQ: lengthscale.*shape is \(4,\).*3 column"):
        kernel.check_width(2)
    with pytest.raises(ValueError, match=r"OnSphere takes latitude and longitude.*have 1"):
        kernel.check_width(1)
    with pytest.raises(ValueError, match=r"latitude.*from -20 to 130.*latitude, longitude"):
        OnSphere(EQ(1.0))(np.array([[-20.0, 5.0], [130.0, -20.0]]))


# --- graphs ------------------------------------------------------------------------------------------------------------


def laplacian(weights):
    weights = np.asarray(weights, dtype=float)
    return np.diag(weights.sum(axis=1)) - weights


# A ragged graph: a weighted triangle with a tail, and a vertex of its own.
WEIGHTS = np.array([[0, 1, 2.5, 0, 0], [1, 0, 0.5, 0, 0], [2.5, 0.5, 0, 1.5, 0], [0, 0, 1.5, 0, 0], [0, 0, 0, 0, 0]])


@pytest.mark.parametrize("smoothness", [None, 1.0, 2.0, 3.7])
def test_graph_kernels_are_functions_of_the_laplacian(smoothness):
    matrix, lengthscale, variance = laplacian(WEIGHTS), 0.8, 1.9
    if smoothness is None:
        unscaled = scipy.linalg.expm(-(lengthscale**2) / 2 * matrix)
    else:
        shifted = 2 * smoothness / lengthscale**2 * np.eye(5) + matrix
        unscaled = scipy.linalg.expm(-smoothness * scipy.linalg.logm(shifted))
    expected = variance * unscaled / np.mean(np.diagonal(unscaled))
    vertices, others = np.array([3, 0, 0, 4]), np.array([1.0, 2.0, 4.0])
    for given_as in (matrix, scipy.sparse.csr_array(matrix)):
        kernel = Graph(given_as, lengthscale, smoothness, variance)
        assert_allclose(kernel(vertices, others), expected[np.ix_([3, 0, 0, 4], [1, 2, 4])], rtol=1e-12, atol=1e-15)
    assert_allclose(kernel.variances(np.arange(5.0)[:, None]), np.diagonal(expected), rtol=1e-12)
    assert_allclose(np.mean(kernel.variances(np.arange(5.0)[:, None])), variance, rtol=1e-14)


def test_graph_gradients_belong_to_its_parameters_alone():
    def total(kernel, vertices):
        return jnp.sum(jnp.cos(kernel.covariance(vertices, vertices)))

    kernel = Graph(laplacian(WEIGHTS), 0.8, 1.7, 1.9)
    vertices = jnp.array([[0.0], [3.0], [4.0], [0.0]])
    gradient = jax.jit(jax.grad(total))(kernel, vertices)
    for field, value in (("lengthscale", 0.8), ("smoothness", 1.7), ("variance", 1.9)):
        ends = (
            total(eqx.tree_at(lambda k, f=field: getattr(k, f), kernel, np.asarray(value + shift)), vertices)
            for shift in (1e-5, -1e-5)
        )
        # A difference of two doubles over 2e-5: nine digits.
        assert_allclose(getattr(gradient, field), (next(ends) - next(ends)) / 2e-5, rtol=1e-7, atol=1e-9)
    assert not np.any(gradient.eigenvectors)
    assert not np.any(gradient.eigenvalues)


def test_smooth_graph_kernels_are_heat_kernels():
    vertices = np.arange(5.0)
    smooth = Graph(laplacian(WEIGHTS), 0.8, 1e10)(vertices)
    assert_allclose(smooth, Graph(laplacian(WEIGHTS), 0.8, None)(vertices), rtol=1e-8, atol=1e-15)


def test_graph_refusals():
    kernel = Graph(laplacian(WEIGHTS))
    for vertices in ([0.0, 5.0], [-1.0], [1.5]):
        with pytest.raises(ValueError, match=f"whole and from 0 to 4; 1 are not, the first being {vertices[-1]}"):
            kernel.covariance(np.array(vertices)[:, None], np.zeros((1, 1)))
    with pytest.raises(ValueError, match="one column of vertex numbers; the inputs have 2"):
        kernel.check_width(2)
    with pytest.raises(ValueError, match=r"square matrix; its shape is \(2, 3\)"):
        Graph(np.ones((2, 3)))
    with pytest.raises(ValueError, match="symmetric"):
        Graph(np.array([[1.0, -1.0], [0.0, 0.0]]))
    with pytest.raises(ValueError, match=r"no negative eigenvalue.*degrees minus adjacency"):
        Graph(WEIGHTS)
    with pytest.raises(ValueError, match="finite"):
        Graph(np.array([[np.nan, -1.0], [-1.0, 1.0]]))
    with pytest.raises(ValueError, match="Graph: smoothness must be positive"):
        Graph(laplacian(WEIGHTS), 1.0, -2.0)


# --- laws and refusals ---------------------------------------------------------------------------------------------------

covariance_of = eqx.filter_jit(lambda kernel, xs: kernel.covariance(xs, xs))


@settings(max_examples=25, deadline=None)
@given(
    lengthscales=st.lists(st.floats(-3, 3).map(lambda e: 10.0**e), min_size=2, max_size=2),
    rows=st.lists(st.tuples(st.floats(-50, 50), st.floats(-50, 50)), min_size=5, max_size=5),
)
def test_covariances_are_symmetric_bounded_and_positive(lengthscales, rows):
    xs = jnp.asarray(rows)
    scales = np.asarray(lengthscales)
    for kernel in (EQ(scales, 0.7), Matern12(scales, 0.7), Matern32(scales, 0.7), Matern72(scales, 0.7)):
        gram = np.asarray(covariance_of(kernel, xs))
        assert np.array_equal(gram, gram.T)
        assert np.all((gram >= 0) & (gram <= 0.7))
        assert np.linalg.eigvalsh(gram)[0] > -1e-14
        # Stretching space and lengthscales alike changes nothing.
        assert_allclose(covariance_of(type(kernel)(8 * scales, 0.7), 8 * xs), gram, rtol=1e-14)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: EQ(-1.0), r"EQ: lengthscale must be positive; it is -1\.0"),
        (lambda: Matern32([1.0, 0.0]), r"Matern32: lengthscale must be positive; it is \[1\.0, 0\.0\]"),
        (lambda: Matern52(1.0, np.nan), "Matern52: variance must be positive; it is nan"),
        (lambda: Periodic(np.inf), "Periodic: period must be positive; it is inf"),
        (lambda: Linear(1.0, np.inf), "Linear: centre must be finite"),
        (lambda: OnSphere(EQ(1.0), radius=0.0), "OnSphere: radius must be positive"),
        (lambda: EQ([1.0, 2.0])(np.zeros((2, 3))), r"EQ: lengthscale .* shape is \(2,\); .* each of the 3 column"),
        (lambda: EQ(1.0, [1.0, 2.0])(np.zeros((2, 2))), r"EQ: variance must be a number; its shape is \(2,\)"),
        (lambda: (EQ(1.0) + Matern12([1.0, 2.0]))(np.zeros((2, 3))), r"Matern12: lengthscale .* shape is \(2,\)"),
        (lambda: (2.0 * EQ(1.0) * Linear([1.0, 2.0])).check_width(3), r"Linear: variance .* shape is \(2,\)"),
        (lambda: Wiener(1.0)(np.zeros((2, 2))), "Wiener takes one column; the inputs have 2"),
        (lambda: EQ(1.0)(np.zeros((2, 2, 2))), r"matrix .* or a vector; their shape is \(2, 2, 2\)"),
    ],
)
def test_wrong_parameters_and_shapes_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_single_precision_is_refused():
    with jax.enable_x64(False), pytest.raises(ValueError, match="float64 is off"):
        EQ(1.0)(np.zeros((2, 2)))
