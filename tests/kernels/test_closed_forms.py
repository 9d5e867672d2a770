# SPDX-License-Identifier: MIT
"""Kernels differentiated by hand against the same kernels differentiated by JAX: covariances, features, chains."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import weft
from weft.inference.prior import component_chain, time_grid, time_variances
from weft.kernels.closed_forms import (
    EachWithEach,
    EachWithOthers,
    closed_features,
    closed_form,
    covariance_at,
    has_closed_features,
    has_closed_form,
    variances_at,
)
from weft.kernels.closed_forms_in_time import ChainMatrices, closed_chain, has_closed_chain
from weft.kernels.stationary import Periodic
from weft.linalg import cholesky, cholesky_of_several, pull_back_cholesky

CENTRES = [[0.1, 0.2, 0.0], [-1.0, 0.5, 1.0], [0.4, -0.7, 2.0]]
KERNELS = [
    weft.Matern12([0.6, 1.7, 0.9], 1.3),
    weft.Matern32(0.8, 0.7),
    weft.Matern52([0.6, 1.7, 0.9], 1.3),
    weft.Matern72(1.1, 0.6),
    weft.EQ([0.6, 1.7, 0.9], 1.3),
    weft.RationalQuadratic(0.8, 1.6, 0.7),
    Periodic([0.7, 3.1, 1.3], 0.8, 1.4),
    Periodic(1.9, [0.8, 1.2, 2.0]),
    weft.Cosine([0.7, 3.1, 1.3], 1.4),
    weft.Cosine(1.9, 0.6),
    weft.Constant(0.7),
    weft.Linear([0.3, 0.8, 0.2], [0.1, -0.4, 0.2]),
    weft.Linear(0.4, 0.3),
    weft.Matern32([0.5, 0.9, 2.0]) + 0.4 * weft.Matern12(0.3),
    weft.Columns(weft.Matern32([0.5, 0.9]), (0, 1)) * weft.Columns(weft.Alike(3, 0.4), (2,)),
    weft.Uneven(weft.Matern12([0.6, 1.7, 0.9], 1.3), [0.2, -0.5, 0.4], CENTRES, 0.8),
    weft.Constant(0.7) + weft.Columns(weft.Linear([0.3, 0.8], [0.1, -0.4]), (2, 0)),
]
OF_TIME = [
    weft.Matern12(1.3, 0.6),
    weft.Matern32(0.4, 1.7),
    weft.Matern52(2.5, 0.9),
    weft.Matern72(1.3, 0.6),
    0.3 * weft.Matern32([1.1], 1.7),
    weft.Constant(0.7),
    Periodic(3.1, 0.8, 1.4, order=3),
    Periodic(0.7, 1.9, 0.4, order=1),
    weft.Cosine(3.1, 1.4),
    weft.Cosine([0.7], 0.4),
    weft.Wiener(0.6, -1.5),
]


def points(num_blocks=3, num_points=7, seed=0):
    """With a level in the last column, and one place that comes twice."""
    rng = np.random.default_rng(seed)
    found = rng.normal(size=(num_blocks, num_points, 3))
    found[:, :, 2] = rng.integers(0, 3, size=(num_blocks, num_points))
    found[:, 3] = found[:, 1]
    return found


def assert_same_slopes(found, wanted, number, path=()):
    """Every parameter of the kernel, by the paths that lead to them in what JAX gives."""
    leaves = jax.tree_util.tree_flatten_with_path(wanted)[0]
    assert leaves
    for path, leaf in leaves:
        node = found
        names = [step.name for step in path]
        for name in names:
            node = getattr(node, name, None)
        if node is None:
            # Centres and widths of `Uneven` are given, and never learned.
            assert names[-1] in ("centres", "width")
            continue
        assert node[number].shape == leaf.shape
        assert_allclose(node[number], leaf, rtol=1e-10, atol=1e-12, err_msg=str(names))


def in_jax(function, kernel, slopes):
    """The value, and the slopes in the kernel's parameters."""
    value, pull_back = eqx.filter_vjp(function, kernel)
    return value, pull_back(slopes)[0]


def is_weft_kernel_of(kernel):
    return f"{type(kernel).__name__}{'' if not hasattr(kernel, 'first') else '-of-two'}"


@pytest.mark.parametrize("kernel", [*KERNELS, weft.Columns(weft.Wiener(0.3), (0,))], ids=is_weft_kernel_of)
def test_numbers_of_any_kernel_are_those_of_jax(kernel):
    first, second = np.abs(points()[0]), np.abs(points(seed=1)[0, :4])
    assert_allclose(covariance_at(kernel, first, second), kernel.covariance(first, second), rtol=1e-13, atol=1e-15)
    assert_allclose(variances_at(kernel, first), kernel.variances(first), rtol=1e-13)


@pytest.mark.parametrize("kernel", KERNELS, ids=is_weft_kernel_of)
def test_numbers_of_built_in_kernels_wait_for_no_compiler(kernel, monkeypatch):
    """In a new process JAX compiles every operation of a kernel before it has a number."""
    for method in ("covariance", "variances"):
        monkeypatch.setattr(type(kernel), method, None)
    assert covariance_at(kernel, points()[0], points()[0]).shape == (7, 7)
    assert variances_at(kernel, points()[0]).shape == (7,)


def test_strengths_are_the_same_traced():
    (kernel,) = [each for each in KERNELS if isinstance(each, weft.Uneven)]
    first = points()[0]
    assert isinstance(kernel.strengths(first), np.ndarray)
    assert_allclose(kernel.strengths(first), eqx.filter_jit(kernel.strengths)(first), rtol=1e-14)


@pytest.mark.parametrize("kernel", KERNELS, ids=is_weft_kernel_of)
def test_covariances_and_their_slopes_are_those_of_jax(kernel):
    assert has_closed_form(kernel)
    xs, rng = points(), np.random.default_rng(1)
    pairs = EachWithEach(xs)
    form = closed_form(kernel, pairs)
    matrices = pairs.matrices(form.value)
    slopes = rng.normal(size=matrices.shape)
    pulled = form.pull_back(pairs.pair_slopes(slopes))
    for number in range(len(xs)):
        here = jnp.asarray(xs[number])
        value, wanted = in_jax(lambda each, here=here: jnp.asarray(each.covariance(here, here)), kernel, slopes[number])
        assert_allclose(matrices[number], value, rtol=1e-13, atol=1e-14)
        assert_same_slopes(pulled, wanted, number)


@pytest.mark.parametrize("kernel", KERNELS, ids=is_weft_kernel_of)
def test_covariances_with_other_points(kernel):
    xs, ys, rng = points(2), points(2, 4, seed=9), np.random.default_rng(2)
    form = closed_form(kernel, EachWithOthers(xs, ys))
    value = np.broadcast_to(form.value, (2, 7, 4))
    slopes = rng.normal(size=value.shape)
    pulled = form.pull_back(slopes)
    for number in range(2):
        here, there = jnp.asarray(xs[number]), jnp.asarray(ys[number])
        expected, wanted = in_jax(
            lambda each, here=here, there=there: jnp.asarray(each.covariance(here, there)), kernel, slopes[number]
        )
        assert_allclose(value[number], expected, rtol=1e-13, atol=1e-14)
        assert_same_slopes(pulled, wanted, number)


FEATURED = [
    weft.Constant(0.7),
    weft.Linear(0.4, [0.3, 0.1, -0.2]),
    0.6 * weft.Constant(0.7) + weft.Columns(weft.Linear([0.3, 0.8], [0.1, -0.4]), (2, 0)),
]


@pytest.mark.parametrize("kernel", FEATURED, ids=is_weft_kernel_of)
def test_features_and_their_slopes_are_those_of_jax(kernel):
    assert has_closed_features(kernel)
    xs, rng = points(), np.random.default_rng(3)
    form = closed_features(kernel, xs)
    slopes = rng.normal(size=form.value.shape)
    pulled = form.pull_back(slopes)
    for number in range(len(xs)):
        here = jnp.asarray(xs[number])
        value, wanted = in_jax(lambda each, here=here: jnp.asarray(each.features(here)), kernel, slopes[number])
        assert_allclose(form.value[number], value, rtol=1e-13, atol=1e-14)
        assert_same_slopes(pulled, wanted, number)


@pytest.mark.parametrize("kernel", OF_TIME, ids=is_weft_kernel_of)
def test_chains_and_their_slopes_are_those_of_jax(kernel):
    """Short steps, long ones, and some of length zero."""
    assert has_closed_chain(kernel)
    rng = np.random.default_rng(4)
    times = np.stack([np.array([0.0, 1e-6, 0.3, 0.5, 4.0, 900.0, 905.0]), np.sort(rng.uniform(-1.0, 9.0, 7))])
    grids = [time_grid(each) for each in times]
    form = closed_chain(kernel, np.stack([grid.steps for grid in grids]), times)
    slopes = ChainMatrices(*(rng.normal(size=each.shape) for each in form.matrices))
    pulled = form.pull_back(slopes)
    for number, grid in enumerate(grids):

        def chain(each, grid=grid):
            made = component_chain(each, 0, grid)
            return [made.transition, made.process_noise, made.initial, made.readout, time_variances(each, grid.times)]

        value, wanted = in_jax(chain, kernel, [jnp.asarray(slope[number]) for slope in slopes])
        for mine, expected in zip(form.matrices, value, strict=True):
            assert_allclose(mine[number], expected, rtol=1e-11, atol=1e-300)
        assert_same_slopes(pulled, wanted, number)
        assert form.reversal == kernel.state_space().reversal


def test_slopes_through_factors_are_those_of_jax():
    rng = np.random.default_rng(5)
    roots = rng.normal(size=(3, 6, 6))
    grams = roots @ np.swapaxes(roots, 1, 2)
    # Two entries of the diagonal that are both the largest.
    grams[1, 2, 2] = grams[1, 4, 4] = 2 * np.max(np.diagonal(grams[1]))
    factors = cholesky_of_several(grams)
    slopes = rng.normal(size=grams.shape)
    found = pull_back_cholesky(grams, factors, slopes)
    for number, gram in enumerate(grams):
        value, pull_back = jax.vjp(cholesky, jnp.asarray(gram))
        assert_allclose(factors[number], value, rtol=1e-12, atol=1e-14)
        (wanted,) = pull_back(jnp.asarray(np.tril(slopes[number])))
        assert_allclose(found[number] + found[number].T, wanted + wanted.T, rtol=1e-10, atol=1e-11)


def test_kernels_of_users_have_no_closed_form():
    class Rougher(weft.Matern12):
        def covariance(self, xs, ys):
            return weft.Matern12.covariance(self, xs, ys) ** 0.5

    assert not has_closed_form(Rougher(1.0))
    assert not has_closed_form(weft.Matern12(1.0) * Rougher(1.0))
    assert not has_closed_chain(Rougher(1.0))
    assert not has_closed_chain(weft.Matern12(1.0) + weft.Matern12(2.0))
    assert not has_closed_features(weft.Columns(Rougher(1.0), (0,)))
