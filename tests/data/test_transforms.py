# SPDX-License-Identifier: MIT
import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.data.transforms import TRANSFORMS, log_density, quantiles, transform_named

# The way back, written out again, in mpmath.
INVERSES = {
    "identity": lambda z: z,
    "log": mpmath.exp,
    "log1p": lambda z: mpmath.expm1(z) if z > 0 else mpmath.mpf(0),
    "sqrt": lambda z: z**2 if z > 0 else mpmath.mpf(0),
    "fourth_root": lambda z: z**4 if z > 0 else mpmath.mpf(0),
    "logit": lambda z: 1 / (1 + mpmath.exp(-z)),
}
VALUES = {
    "identity": [-3.0, 0.0, 4.5],
    "log": [1e-3, 1.0, 40.0],
    "log1p": [1e-3, 1.0, 40.0],
    "sqrt": [1e-3, 1.0, 40.0],
    "fourth_root": [1e-3, 1.0, 40.0],
    "logit": [1e-3, 0.5, 0.98],
}


def expectation(function, mean, sd):
    # Split at zero, where the square root's inverse has its corner.
    corners = sorted(
        {mean - 14 * sd, mean - 4 * sd, mean, mean + 4 * sd, mean + 14 * sd, *([0.0] if abs(mean) < 14 * sd else [])}
    )
    return mpmath.quad(lambda z: function(z) * mpmath.npdf(z, mean, sd), [mpmath.mpf(c) for c in corners])


@pytest.mark.parametrize("name", sorted(TRANSFORMS))
@pytest.mark.parametrize(("mean", "sd"), [(0.4, 0.3), (-1.2, 1.5), (1.0, 3.0)])
def test_moments_equal_integrals(name, mean, sd):
    inverse = INVERSES[name]
    expected = expectation(inverse, mean, sd)
    variance = expectation(lambda z: (inverse(z) - expected) ** 2, mean, sd)
    got = TRANSFORMS[name].moments(np.array([mean]), np.array([sd]))
    np.testing.assert_allclose([got[0][0], got[1][0]], [float(expected), float(variance)], rtol=1e-9)


def test_moments_of_fractions_where_they_are_hardest():
    mean, sd = 2.0, 10.0
    inverse = INVERSES["logit"]
    expected = expectation(inverse, mean, sd)
    variance = expectation(lambda z: (inverse(z) - expected) ** 2, mean, sd)
    got = TRANSFORMS["logit"].moments(np.full(70_000, mean), np.full(70_000, sd))
    assert np.ptp(got[0]) == 0
    # Stated to be good to 1e-5 there.
    np.testing.assert_allclose([got[0][-1], got[1][-1]], [float(expected), float(variance)], atol=1e-5)


@pytest.mark.parametrize("name", sorted(TRANSFORMS))
def test_moments_without_deviation_and_far_out(name):
    transform = TRANSFORMS[name]
    mean, variance = transform.moments(np.array([0.7, -30.0]), np.zeros(2))
    np.testing.assert_allclose(mean, transform.inverse(np.array([0.7, -30.0])), rtol=1e-12)
    np.testing.assert_allclose(variance, 0.0, atol=1e-15)
    mean, variance = transform.moments(np.array([-40.0]), np.array([1.0]))
    assert np.isfinite(mean).all()
    assert (variance >= 0).all()


@pytest.mark.parametrize("name", sorted(TRANSFORMS))
def test_there_and_back_and_slope(name):
    transform = TRANSFORMS[name]
    values = np.array(VALUES[name])
    transformed = transform.forward(values)
    np.testing.assert_allclose(transform.inverse(transformed), values, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose([float(INVERSES[name](z)) for z in transformed], values, rtol=1e-9, atol=1e-12)
    slopes = [mpmath.diff(lambda z: INVERSES[name](z), z) for z in transformed]
    np.testing.assert_allclose(
        transform.log_jacobian(values), [-float(mpmath.log(slope)) for slope in slopes], rtol=1e-9, atol=1e-12
    )


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(sorted(TRANSFORMS)),
    st.floats(-5, 5),
    st.floats(0.01, 4),
    st.lists(st.floats(0.001, 0.999), min_size=2, max_size=5).map(sorted),
)
def test_quantiles_are_ordered_and_have_their_probability(name, mean, sd, levels):
    got = quantiles(TRANSFORMS[name], np.array([mean]), np.array([sd]), levels)[0]
    assert np.all(np.diff(got) >= 0)
    for level, value in zip(levels, got, strict=True):
        if name in ("sqrt", "fourth_root", "log1p") and value == 0:
            # All of z <= 0 is here.
            assert level <= mpmath.ncdf(0, mean, sd) + 1e-12
        elif name != "logit" or 1e-9 < value < 1 - 1e-9:
            back = TRANSFORMS[name].forward(np.array([value]))[0]
            np.testing.assert_allclose(float(mpmath.ncdf(back, mean, sd)), level, rtol=1e-6)


@pytest.mark.parametrize("name", sorted(TRANSFORMS))
def test_densities_hold_all_the_probability(name):
    """Over the line of y the density has mass 1, with what is kept at zero."""
    transform, mean, sd = TRANSFORMS[name], 0.6, 0.5
    edges = np.linspace(mean - 9 * sd, mean + 9 * sd, 4001)
    values = np.unique(transform.inverse(edges))
    inside = values[(values > 0)] if name in ("sqrt", "fourth_root", "log", "log1p") else values
    density = np.exp(log_density(transform, inside, np.full(len(inside), mean), np.full(len(inside), sd)))
    # Integrate in z, where points are even: p(y) dy/dz.
    z = transform.forward(inside)
    mass = np.trapezoid(density * np.exp(-transform.log_jacobian(inside)), z)
    if name in ("sqrt", "fourth_root", "log1p"):
        mass += np.exp(log_density(transform, np.zeros(1), np.array([mean]), np.array([sd])))[0]
    # The trapezoid's first cell of what has a lowest value ends a step short of it.
    np.testing.assert_allclose(mass, 1.0, atol=2e-3 if name in ("sqrt", "fourth_root", "log1p") else 1e-9)


def test_densities_outside_and_missing():
    mean, sd = np.zeros(3), np.ones(3)
    got = log_density(TRANSFORMS["log"], np.array([-1.0, np.nan, 1.0]), mean, sd)
    np.testing.assert_array_equal(np.isneginf(got), [True, False, False])
    assert np.isnan(got[1])
    np.testing.assert_allclose(got[2], -0.5 * np.log(2 * np.pi))


def test_names_and_levels_that_do_not_exist():
    assert transform_named(None).name == "identity"
    with pytest.raises(ValueError, match="must be one of"):
        transform_named("exp")
    with pytest.raises(ValueError, match="between 0 and 1"):
        quantiles(TRANSFORMS["log"], np.zeros(1), np.ones(1), [0.0])
