# SPDX-License-Identifier: MIT
"""Extremes, refusals and limits of single likelihoods, against mpmath where SciPy has no digits left."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from weft.likelihoods import (
    Bernoulli,
    Beta,
    Binomial,
    Exponential,
    Gamma,
    Gaussian,
    Laplace,
    LogNormal,
    NegativeBinomial,
    Poisson,
    Rain,
    RowExtras,
    StudentT,
    ZeroInflatedPoisson,
)
from weft.likelihoods.negative_binomial import log_rising
from weft.likelihoods.quadrature import expect_around, gauss_hermite
from weft.likelihoods.rain import _moments as rain_moments

# --- quadrature ---


def mpmath_expectation(function, mean, deviation, bend):
    """By adaptive quadrature on pieces, cut where the function bends."""
    cuts = {mean + k * deviation for k in (-12, -6, -3, -1, 0, 1, 3, 6, 12)}
    cuts |= {point for point in (bend - 2, bend, bend + 2) if abs(point - mean) < 12 * deviation}
    return float(mpmath.quad(lambda f: function(f) * mpmath.npdf(f, mean, deviation), sorted(cuts)))


SPREADS = [(0.3, 0.01), (-4.0, 1.0), (0.3, 5.0), (2.0, 10.0), (-4.0, 30.0)]


@pytest.mark.parametrize(
    ("function", "reference", "centre", "width", "tolerance"),
    [
        (lambda f: jnp.logaddexp(f, 0.0), lambda f: mpmath.log1p(mpmath.exp(f)), 0.0, 2.0, 1e-10),
        (lambda f: jnp.log1p((f - 0.5) ** 2), lambda f: mpmath.log1p((f - 0.5) ** 2), 0.5, 2.0, 1e-9),
        (jax.scipy.special.log_ndtr, lambda f: mpmath.log(mpmath.ncdf(f)), 0.0, 2.0, 1e-10),
    ],
    ids=["softplus", "student", "probit"],
)
def test_expectation_around_a_bend_at_any_spread(function, reference, centre, width, tolerance):
    mean, deviation = np.array(SPREADS).T
    expected = [mpmath_expectation(reference, m, s, centre) for m, s in SPREADS]
    assert_allclose(expect_around(function, mean, deviation**2, centre, width), expected, rtol=tolerance, atol=1e-12)


def test_gauss_hermite_is_as_accurate_as_it_says():
    deviation = np.array([1.0, 2.0, 3.0, 5.0])
    mean = np.full(4, 0.3)
    expected = [mpmath_expectation(lambda f: mpmath.log1p(mpmath.exp(f)), 0.3, s, 0.0) for s in deviation]
    error = np.abs(gauss_hermite(lambda f: jnp.logaddexp(f, 0.0), mean, deviation**2) - np.array(expected))
    assert np.all(error < [1e-12, 1e-8, 1e-5, 1e-3])


def test_a_small_variance_far_from_the_bend_keeps_its_digits():
    mean, variance = np.array([1e6, -1e9]), np.array([1e-6, 1e-4])
    value, slope = jax.value_and_grad(
        lambda variance: jnp.sum(expect_around(lambda f: 0.1 * f**2, mean, variance, 0.0, 1e-3))
    )(variance)
    assert_allclose(value, np.sum(0.1 * (mean**2 + variance)), rtol=1e-12)
    assert_allclose(slope, [0.1, 0.1], rtol=1e-3)  # the derivative of the square has 1e9 * 1e-16 / 1e-2 of rounding


# --- counts large and small ---


def test_negative_binomial_becomes_poisson():
    values, f = np.array([0.0, 7.0, 1e6]), np.array([-1.0, 2.0, 13.8])
    variance = np.array([1.0, 0.3, 1e-3])
    nearly, limit = NegativeBinomial(1e13), Poisson()
    # mu^2 / dispersion is 0.1 for the largest, a tenth of a millionth of its variance.
    assert_allclose(nearly.log_density(values, f), limit.log_density(values, f), rtol=1e-7)
    assert_allclose(
        nearly.expected_log_density(values, f, variance), limit.expected_log_density(values, f, variance), rtol=1e-7
    )
    assert_allclose(nearly.predict(f, variance)[1], limit.predict(f, variance)[1], rtol=1e-6)


def test_rising_factorials_keep_their_digits():
    bases, counts = [0.01, 3.0, 19.9, 20.1, 1e4, 1e9], np.array([0.0, 1.0, 40.0, 1e6])
    for base in bases:
        with mpmath.workdps(40):
            expected = [float(mpmath.loggamma(base + k) - mpmath.loggamma(base) - k * mpmath.log(base)) for k in counts]
        assert_allclose(log_rising(jnp.asarray(base), counts), expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("likelihood", [Poisson(), NegativeBinomial(0.3), NegativeBinomial(1e5)])
def test_counts_of_a_million_and_exposures_apart_by_a_million(likelihood):
    values = np.array([1e6, 0.0, 1e6, 3.0])
    extra = RowExtras(exposure=np.array([1e6, 1e6, 1.0, 1.0]))
    mean, variance = np.array([0.1, -20.0, 13.0, -8.0]), np.array([0.01, 4.0, 1e-4, 2.0])
    exposure = extra.exposure
    computed = likelihood.expected_log_density(values, mean, variance, extra)
    for row in range(4):
        reference = likelihood_reference(likelihood, values[row], exposure[row])
        bend = np.log(1e5 / exposure[row]) if isinstance(likelihood, NegativeBinomial) else mean[row]
        expected = mpmath_expectation(reference, mean[row], np.sqrt(variance[row]), bend)
        actual = computed[row]
        # Terms of 1e7 cancel.
        assert_allclose(actual, expected, rtol=1e-10, atol=1e-7)


def likelihood_reference(likelihood, value, exposure):
    if isinstance(likelihood, Poisson):
        return lambda f: value * (f + mpmath.log(exposure)) - exposure * mpmath.exp(f) - mpmath.loggamma(value + 1)
    r = mpmath.mpf(float(likelihood.dispersion))
    ways = mpmath.loggamma(value + r) - mpmath.loggamma(r) - mpmath.loggamma(value + 1)

    def reference(f):
        rate = exposure * mpmath.exp(f)
        return ways + r * mpmath.log(r / (r + rate)) + value * mpmath.log(rate / (r + rate))

    return reference


def test_quantiles_of_enormous_counts():
    mean, variance = np.array([np.log(1e6), np.log(1e6), 30.0]), np.array([0.0, 4.0, 1.0])
    quantile = Poisson().quantile(0.9, mean, variance)
    assert quantile[0] == scipy.stats.poisson(1e6).ppf(0.9)
    # With f this uncertain, noise of a thousandth does not matter; mixing over steps a millionth wide is good to 1e-4.
    expected = np.exp(mean + np.sqrt(variance) * scipy.stats.norm.ppf(0.9))
    assert_allclose(quantile[1:], expected[1:], rtol=1e-3)


def test_quantiles_of_no_rows_are_none():
    for likelihood in (Poisson(), Binomial(), StudentT(), Laplace(), Beta(), Gamma()):
        assert likelihood.quantile(0.5, np.empty(0), np.empty(0)).shape == (0,)


@pytest.mark.parametrize("probability", [0.0, 1.0, -0.1, np.nan])
def test_probabilities_outside_are_refused(probability):
    for likelihood in (Poisson(), Bernoulli(), Gaussian(), StudentT(), ZeroInflatedPoisson()):
        with pytest.raises(ValueError, match="between 0 and 1"):
            likelihood.quantile(probability, np.zeros(2), np.ones(2))


@settings(max_examples=25, deadline=None)
@given(
    mean=st.floats(-5, 12),
    deviation=st.floats(0, 3),
    probability=st.floats(0.001, 0.999),
    dispersion=st.floats(0.05, 1e4),
)
def test_quantiles_of_counts_rise_with_mean_and_probability(mean, deviation, probability, dispersion):
    means, variances = np.array([mean, mean + 0.5]), np.full(2, deviation**2)
    for likelihood in (Poisson(), NegativeBinomial(dispersion)):
        low, high = likelihood.quantile(probability, means, variances)
        assert 0 <= low <= high
        assert np.all(likelihood.quantile(probability + 0.0005, means, variances) >= [low, high])


# --- tails ---


def test_an_outlier_loses_its_pull():
    distance = np.array([1e2, 1e4, 1e8])
    gradient = jax.grad(lambda mean: jnp.sum(StudentT(0.1, 3.0).expected_log_density(distance, mean, np.full(3, 0.5))))(
        np.zeros(3)
    )
    assert_allclose(gradient, 4.0 / distance, rtol=1e-3)


def test_moments_of_student_t_that_do_not_exist():
    mean, variance = np.array([1.0, 2.0]), np.array([0.5, 0.1])
    assert np.all(np.isinf(StudentT(1.0, 1.5).predict(mean, variance)[1]))
    assert np.all(np.isnan(StudentT(1.0, 0.9).predict(mean, variance)[0]))


@pytest.mark.parametrize("link", ["logit", "probit"])
def test_surprises_cost_what_they_should(link):
    likelihood, f = Bernoulli(link), np.array([-40.0, 40.0, 40.0])
    values = np.array([1.0, 0.0, 1.0])
    expected = {
        "logit": [-40.0, -40.0, -float(mpmath.exp(-40))],
        "probit": [float(mpmath.log(mpmath.ncdf(-40)))] * 2 + [-float(mpmath.ncdf(-40))],
    }[link]
    assert_allclose(likelihood.log_density(values, f), expected, rtol=1e-12, atol=1e-300)


def test_binomial_of_one_trial_is_bernoulli():
    values, mean, variance = np.array([0.0, 1.0, 1.0]), np.array([0.3, -2.0, 1.0]), np.array([0.1, 4.0, 1.0])
    for link in ("logit", "probit"):
        one, other = Binomial(link), Bernoulli(link)
        assert_allclose(one.log_density(values, mean), other.log_density(values, mean), rtol=1e-12)
        assert_allclose(
            one.expected_log_density(values, mean, variance),
            other.expected_log_density(values, mean, variance),
            rtol=1e-10,
        )
        assert_allclose(one.predict(mean, variance), other.predict(mean, variance), rtol=1e-12)
        assert_allclose(one.quantile(0.6, mean, variance), other.quantile(0.6, mean, variance), atol=0)


def test_zero_inflation_that_is_almost_nothing_or_almost_all():
    values, mean, variance = np.zeros(3), np.array([-3.0, 1.0, 2.5]), np.array([0.1, 2.0, 1.0])
    for zero in (1e-12, 0.999):

        def reference(f, zero=zero):
            return mpmath.log(zero + (1 - zero) * mpmath.exp(-mpmath.exp(f)))

        with mpmath.workdps(30):
            expected = [
                mpmath_expectation(reference, m, np.sqrt(v), np.log(27.0)) for m, v in zip(mean, variance, strict=True)
            ]
        actual = ZeroInflatedPoisson(zero).expected_log_density(values, mean, variance)
        assert_allclose(actual, expected, rtol=1e-8)


def test_a_waiting_time_of_zero_is_allowed():
    values = np.array([0.0, 2.0, 5.0])
    Exponential().check(values)
    mean, precision = Exponential().initial(values)
    assert np.all(np.isfinite(mean))
    assert np.all(np.isfinite(Exponential().initial(np.zeros(3))[0]))
    assert np.all(np.asarray(precision) > 0)


# --- refusals ---

NAN = np.nan


@pytest.mark.parametrize(
    ("likelihood", "values", "extra", "message"),
    [
        (Poisson(), [1, -1, NAN, 2.5], {}, r"whole numbers, zero or more; there is -1 in row 1, 2.5 in row 3"),
        (NegativeBinomial(), [0, np.inf], {}, r"whole numbers.*inf in row 1"),
        (ZeroInflatedPoisson(), [0.5], {}, r"whole numbers.*0.5 in row 0"),
        (Bernoulli(), [0, 1, 2, NAN], {}, r"0 or 1; there is 2 in row 2"),
        (Binomial(), [1.5, 0], {}, r"whole numbers.*1.5 in row 0"),
        (Binomial(), [1, 4], {"trials": [1, 3]}, r"exceed the row's trials.*4 in row 1"),
        (Binomial(), [1, 1], {"trials": [1, 2.5]}, r"trials must be whole numbers.*2.5 in row 1"),
        (Gamma(), [0.0, 1.0], {}, r"positive; there is 0 in row 0"),
        (LogNormal(), [1.0, -2.0], {}, r"positive; there is -2 in row 1"),
        (Exponential(), [-0.1], {}, r"zero or positive; there is -0.1 in row 0"),
        (Beta(), [0.0, 0.5, 1.0], {}, r"between 0 and 1; there is 0 in row 0, 1 in row 2"),
        (StudentT(), [0.0, -np.inf], {}, r"finite; there is -inf in row 1"),
        (
            Poisson(),
            [1, 1, NAN],
            {"exposure": [1, 0, 0]},
            r"exposure must be.*there is 0 in row 1$",
        ),
        (Poisson(), [1, 1], {"exposure": [1, NAN]}, r"exposure must be.*nan in row 1"),
        (Gaussian(), [1, 1], {"noise_variance": [1, -1]}, r"noise_variance must be.*-1 in row 1"),
        (Gaussian(0.0), [1, 1, NAN], {"noise_variance": [1, 0, 0]}, r"at variance 0 every row needs.*0 in row 1$"),
        (Gaussian(0.0), [1], {}, r"at variance 0 every row needs"),
        (Bernoulli(), [1, 1], {"exposure": [1, 2]}, r"Bernoulli makes no use of exposure"),
        (Poisson(), [1, 1], {"noise_variance": [0.0, 2]}, r"Poisson makes no use of noise_variance"),
    ],
)
def test_what_cannot_be_is_refused_by_row(likelihood, values, extra, message):
    extra = RowExtras(**{name: np.array(numbers, dtype=np.float64) for name, numbers in extra.items()})
    with pytest.raises(ValueError, match=message):
        likelihood.check(np.array(values, dtype=np.float64), extra)


def test_many_refused_rows_are_counted_by_their_own_numbers():
    with pytest.raises(ValueError, match=r"-3 in row 107, -3 in row 108, .*in row 111 and 2 more rows"):
        Poisson().check(np.full(7, -3.0), rows=np.arange(107, 114))


def test_extras_that_say_nothing_are_allowed():
    idle = RowExtras(exposure=np.ones(2), trials=np.ones(2), noise_variance=np.zeros(2))
    for likelihood in (Gaussian(), Poisson(), Bernoulli(), Beta()):
        likelihood.check(np.array([1.0, 1.0]) if not isinstance(likelihood, Beta) else np.array([0.1, 0.2]), idle)


def test_parameters_outside_their_domain_are_refused():
    for make in (
        lambda: Gaussian(-1.0),
        lambda: StudentT(0.0),
        lambda: NegativeBinomial(-2.0),
        lambda: ZeroInflatedPoisson(1.0),
        lambda: Gamma(np.nan),
        lambda: Bernoulli("cloglog"),
    ):
        with pytest.raises(ValueError, match="must be"):
            make()


def test_gaussian_noise_adds_to_the_rows_own():
    own = np.array([0.1, 2.0])
    assert_allclose(Gaussian(0.5).noise_variance(own), [0.6, 2.5])
    assert_allclose(Gaussian(0.0).noise_variance(own), own)
    assert float(Gaussian(0.5).noise_variance()) == 0.5


def test_quantiles_of_counts_with_a_very_uncertain_rate():
    """Beside the spread of f that of the count is nothing, so that quantiles are those of e^f.

    Probabilities are right to 1e-5, which moves these quantiles by up to 3e-4 of themselves.
    """
    mean, variance = np.array([0.0, 6.0, 18.0]), np.array([900.0, 60.0, 1.0])
    for probability in (0.7, 0.8, 0.85):
        expected = np.exp(mean + np.sqrt(variance) * scipy.special.ndtri(probability))
        assert_allclose(Poisson().quantile(probability, mean, variance), expected, rtol=3e-4)
    with pytest.raises(ValueError, match="no count below 1e15"):
        Poisson().quantile(0.95, mean[:1], variance[:1])


@pytest.mark.parametrize("likelihood", [Poisson(), NegativeBinomial()])
def test_a_quantile_of_nothing_known_is_refused(likelihood):
    with pytest.raises(ValueError, match="are the mean and variance of f there sensible"):
        likelihood.quantile(0.9, np.array([np.nan]), np.array([1.0]))
    with pytest.raises(ValueError, match="are the mean and variance of f there sensible"):
        likelihood.quantile(0.9, np.array([800.0]), np.array([1.0]))


def test_counts_and_fractions_can_be_drawn_however_far_out_f_is():
    f = np.full(2000, 45.0)
    for likelihood in (Poisson(), ZeroInflatedPoisson(1e-9)):
        draws = likelihood.sample(0, f)
        assert_allclose(draws.mean(), np.exp(45.0), rtol=1e-8)
        # Standard errors of a deviation from 2000 draws are 1.6 %.
        assert_allclose(draws.std(), np.exp(22.5), rtol=0.08)
    assert np.all(np.isfinite(NegativeBinomial().sample(0, f)))
    assert_allclose(Beta().sample(0, np.array([-800.0, 800.0])), [0.0, 1.0])


def test_moments_of_rain_are_compiled_once_a_shape():
    """The loop over nodes was compiled anew at each call: a prediction of ten rows took ten seconds."""
    mean, variance = np.linspace(-2.0, 3.0, 7), np.full(7, 0.4)
    Rain(0.3, 1.8).predict(mean, variance)
    compiled = rain_moments._cache_size()
    Rain(0.5, 2.2).predict(mean + 1.0, 2 * variance)
    assert rain_moments._cache_size() == compiled
