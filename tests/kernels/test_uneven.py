# SPDX-License-Identifier: MIT
import numpy as np
import pytest
from numpy.testing import assert_allclose

import weft
from weft.testing import check_kernel
from weft.training.parameters import parameters_of

CENTRES = np.array([[0.0, 0.0], [2.0, 1.0], [-1.0, 3.0]])
LOGARITHMS = np.array([0.6, -0.4, 0.1])
WIDTH = np.array([0.9, 1.7])
XS = np.array([[0.1, 0.2], [1.8, 1.1], [-0.7, 2.5], [9.0, -4.0]])
YS = np.array([[0.5, 0.5], [-2.0, 3.0], [1.0, 1.0]])
INNER = weft.Matern32([0.8, 1.3])


def strength(x):
    """A weighted mean of the logarithms, one place at a time."""
    weights = [np.exp(-np.sum(((x - centre) / WIDTH) ** 2) / 2) for centre in CENTRES]
    return np.exp(np.dot(weights, LOGARITHMS) / np.sum(weights))


@pytest.fixture
def kernel():
    return weft.Uneven(INNER, LOGARITHMS, CENTRES, WIDTH)


def test_covariance_is_the_kernels_times_both_strengths(kernel):
    expected = np.array([[strength(x) * strength(y) for y in YS] for x in XS]) * np.asarray(INNER(XS, YS))
    assert_allclose(kernel(XS, YS), expected, rtol=1e-13)
    assert_allclose(kernel.variances(XS), [strength(x) ** 2 for x in XS], rtol=1e-13)


def test_laws_of_a_kernel(kernel):
    check_kernel(kernel, XS)


def test_far_from_all_centres_the_nearest_counts(kernel):
    # The third is nearest by the widths: 98 of its deviations away, the others above 110.
    assert_allclose(kernel.strengths(np.array([[-90.0, 30.0]])), np.exp(0.1), rtol=1e-12)


def test_random_features_have_its_covariance_on_average(kernel):
    draws = kernel.random_features(XS, 40_000, np.random.default_rng(0))
    assert_allclose(draws @ draws.T, kernel(XS), atol=0.04)


def test_strengths_are_learned_and_centres_stay(kernel):
    model = weft.Model(weft.Separable(space=kernel, time=weft.Matern12(2.0)), weft.Gaussian(0.1))
    names = {parameter.name for parameter in parameters_of(model)}
    assert "kernel.space.logarithms" in names
    assert not {name for name in names if "centres" in name or "width" in name}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ((INNER, [0.1], CENTRES, 1.0), "a row for each of 1 logarithms"),
        (("EQ", LOGARITHMS, CENTRES, 1.0), "takes a kernel"),
    ],
)
def test_what_cannot_be_is_refused(wrong, said):
    with pytest.raises((TypeError, ValueError), match=said):
        weft.Uneven(*wrong)


def test_inputs_of_another_width_are_refused(kernel):
    with pytest.raises(ValueError, match="the inputs have 3 columns, its centres 2"):
        kernel(np.ones((2, 3)))
