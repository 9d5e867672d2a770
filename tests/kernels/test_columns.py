# SPDX-License-Identifier: MIT
"""A kernel of some columns equals the same kernel of a matrix that has only those."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import weft

RNG = np.random.default_rng(5)
XS, YS = RNG.normal(size=(6, 4)), RNG.normal(size=(5, 4))


@pytest.mark.parametrize(
    ("kernel", "columns"),
    [
        (weft.Matern32([0.7, 1.9], variance=1.3), (3, 1)),
        (weft.Linear([0.4, 2.5], [0.2, -1.0]), (0, 2)),
        (weft.Constant(0.6) + weft.Linear(1.7), (2,)),
    ],
)
def test_equals_the_kernel_of_the_chosen_columns(kernel, columns):
    chosen = weft.Columns(kernel, columns)
    xs, ys = XS[:, columns], YS[:, columns]
    assert_allclose(chosen(XS, YS), kernel(xs, ys), rtol=1e-14)
    assert_allclose(chosen.variances(XS), np.diagonal(kernel(xs)), rtol=1e-12)
    assert chosen.num_features(4) == kernel.num_features(len(columns))
    if np.isfinite(kernel.num_features(len(columns))):
        assert_allclose(chosen.features(XS), kernel.features(xs), rtol=1e-14)


def test_other_columns_have_no_gradient():
    chosen = weft.Columns(weft.EQ(0.8), (1, 2))
    gradient = jax.grad(lambda xs: jnp.sum(chosen(xs, YS) ** 2))(jnp.asarray(XS))
    assert np.all(np.asarray(gradient)[:, [0, 3]] == 0)
    assert np.all(np.asarray(gradient)[:, [1, 2]] != 0)


def test_refusals():
    with pytest.raises(TypeError, match=r"Columns takes a kernel such as weft\.EQ"):
        weft.Columns(3.0, (0,))
    for columns in ((), (0, 0), (-1,)):
        with pytest.raises(ValueError, match="distinct numbers from 0 up"):
            weft.Columns(weft.EQ(1.0), columns)
    with pytest.raises(ValueError, match="there is no column 4"):
        weft.Columns(weft.EQ(1.0), (0, 4))(XS)
    with pytest.raises(ValueError, match="lengthscale"):
        weft.Columns(weft.EQ([1.0, 2.0, 3.0]), (0, 1))(XS)
    with pytest.raises(TypeError, match="has no state-space form"):
        weft.Separable(space=weft.EQ(1.0), time=weft.Columns(weft.Matern12(1.0), (0,)))


def test_its_own_variance_is_not_learned_beside_the_components():
    from weft.training.parameters import parameters_of

    kernel = 0.7 * weft.Separable(space=weft.Columns(weft.EQ(1.0), (0,)), time=weft.Matern12(2.0))
    held = {each.name: each.held for each in parameters_of(weft.Model(kernel, weft.Gaussian(0.1)))}
    assert held["kernel.space.kernel.variance"] is not None
    assert held["kernel.space.kernel.lengthscale"] is None
    assert held["kernel.variance"] is None
