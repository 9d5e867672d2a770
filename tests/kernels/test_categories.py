# SPDX-License-Identifier: MIT
"""Kernels of categories, against their formulas."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import weft

LEVELS = np.array([[0.0], [2.0], [1.0], [2.0], [0.0]])
OTHERS = np.array([[2.0], [0.0], [1.0]])


def test_levels_go_together_as_the_formulas_say():
    same = LEVELS == OTHERS.T
    assert_allclose(weft.Categories(3, 0.7)(LEVELS, OTHERS), 0.7 * same, rtol=1e-15)
    loadings = np.array([1.5, -0.3, 0.8])
    of = loadings[LEVELS[:, 0].astype(int)][:, None] * loadings[OTHERS[:, 0].astype(int)][None, :]
    of_each = weft.Categories(3, [0.7, 0.2, 1.5])
    assert_allclose(of_each(LEVELS, OTHERS), np.array([0.7, 0.2, 1.5])[LEVELS.astype(int)] * same, rtol=1e-15)
    assert_allclose(weft.Alike(3, 0.3)(LEVELS, OTHERS), np.where(same, 1.0, 0.3), rtol=1e-15)
    with pytest.raises(ValueError, match="one for each of the 3 levels"):
        weft.Categories(3, [0.7, 0.2])(LEVELS)
    both = weft.Loadings(loadings) + weft.Categories(3, 0.2)
    assert_allclose(both(LEVELS, OTHERS), of + 0.2 * same, rtol=1e-14)


@pytest.mark.parametrize(
    "kernel",
    [weft.Categories(3, 0.7), weft.Categories(3, [0.7, 0.2, 1.5]), weft.Alike(3, 0.3), weft.Loadings([1.5, -0.3, 0.8])],
    ids=["own", "own of each", "alike", "shared"],
)
def test_features_are_the_kernel(kernel):
    assert kernel.features(LEVELS).shape == (5, kernel.num_features(1))
    assert_allclose(kernel.features(LEVELS) @ kernel.features(OTHERS).T, kernel(LEVELS, OTHERS), rtol=1e-14)
    assert_allclose(kernel.variances(LEVELS), np.diag(kernel(LEVELS)), rtol=1e-14)


@pytest.mark.parametrize("wrong", [[[3.0]], [[0.5]], [[-1.0]]])
def test_what_is_no_level_is_refused(wrong):
    for kernel in (weft.Categories(3), weft.Alike(3), weft.Loadings([1.0, 2.0, 3.0])):
        with pytest.raises(ValueError, match="takes whole numbers from 0 to 2"):
            kernel(wrong)
        with pytest.raises(ValueError, match="one column"):
            kernel([[0.0, 1.0]])
