# SPDX-License-Identifier: MIT
"""What every likelihood must do, against SciPy's distributions mixed over f by brute force; a new one joins `CASES`."""

import dataclasses
import functools
from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import scipy.stats
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
    Support,
    Tobit,
    ZeroInflatedPoisson,
)
from weft.testing.likelihoods import MEAN, SCORES, VARIANCE, WEIGHTS, F, check_likelihood, everything

EXPOSURE = np.array([1.0, 0.2, 30.0, 4.0, 1.0, 2500.0])
TRIALS = np.array([1.0, 7.0, 300.0, 2.0, 12.0, 40.0])
NOISE = np.array([0.1, 0.0, 2.0, 0.3, 1e-3, 0.5])


@dataclasses.dataclass
class Case:
    """A likelihood, how SciPy says it, and values that differ."""

    make: Callable
    parameters: dict
    distribution: Callable  # of f, then the parameters by name: a frozen SciPy distribution, last axis the rows
    values: list
    extra: RowExtras = dataclasses.field(default_factory=RowExtras)
    tolerance: float = 1e-8  # of the oracle's sums over f

    @property
    def likelihood(self):
        return self.make(**self.parameters)


class Successes:
    """Binomial, also where SciPy's would take the logarithm of a probability rounded to zero."""

    def __init__(self, trials, log_success, log_failure):
        self.trials, self.log_success, self.log_failure = trials, log_success, log_failure
        self.binomial = scipy.stats.binom(trials, np.exp(log_success))
        self.mean, self.var, self.cdf = self.binomial.mean, self.binomial.var, self.binomial.cdf

    def logpmf(self, values):
        failures = self.trials - values
        ways = np.log(scipy.special.comb(self.trials, values))
        return ways + values * self.log_success + failures * self.log_failure


class ZeroInflated:
    """SciPy has no zero-inflated Poisson distribution."""

    def __init__(self, rate, zero):
        self.rate, self.zero = rate, zero
        self.poisson = scipy.stats.poisson(rate)

    def logpmf(self, values):
        of_zero = np.logaddexp(np.log(self.zero), np.log(1 - self.zero) - self.rate)
        return np.where(values == 0, of_zero, np.log(1 - self.zero) + self.poisson.logpmf(values))

    def cdf(self, values):
        return np.where(values >= 0, self.zero + (1 - self.zero) * self.poisson.cdf(values), 0.0)

    def mean(self):
        return (1 - self.zero) * self.rate

    def var(self):
        return (1 - self.zero) * (self.rate + self.rate**2) - self.mean() ** 2


def successes(link, trials):
    log_probability = {"logit": scipy.special.log_expit, "probit": scipy.special.log_ndtr}[link]
    return lambda f: Successes(trials, log_probability(f), log_probability(-f))


class NegativeBinomialCounts:
    """As SciPy's, also where that would take the logarithm of a probability rounded to zero."""

    def __init__(self, f, dispersion):
        log_odds = f + np.log(EXPOSURE / dispersion)
        self.dispersion = dispersion
        self.log_failure, self.log_success = scipy.special.log_expit(log_odds), scipy.special.log_expit(-log_odds)
        rate = EXPOSURE * np.exp(f)
        self.mean, self.var = lambda: rate, lambda: rate + rate**2 / dispersion
        self.cdf = scipy.stats.nbinom(dispersion, np.exp(self.log_success)).cdf

    def logpmf(self, values):
        ways = scipy.special.gammaln(values + self.dispersion) - scipy.special.gammaln(self.dispersion)
        ways -= scipy.special.gammaln(values + 1)
        return ways + values * self.log_failure + self.dispersion * self.log_success


# Inside its limits, at the lower one, beyond the upper one, between two (near and far), without any.
LOWER = np.array([-1.0, -4.0, -np.inf, 0.5, 4.0, -np.inf])
UPPER = np.array([2.0, np.inf, 2.0, -0.4, -3.0, np.inf])


class CensoredNormal:
    """A normal truth, of which values at or beyond their limits say only that."""

    def __init__(self, f, variance):
        self.truth = scipy.stats.norm(f, np.sqrt(variance + NOISE))
        self.mean, self.var, self.cdf = self.truth.mean, self.truth.var, self.truth.cdf

    def logpdf(self, values):
        found = np.array(self.truth.logpdf(values))
        found[..., 1] = self.truth.logcdf(-4.0)[..., 1]
        found[..., 2] = self.truth.logsf(2.0)[..., 2]
        for row in (3, 4):
            # Differences of logarithms, from the side where both are small.
            ends = UPPER[row], LOWER[row]
            left = [self.truth.logcdf(end)[..., row] for end in ends]
            right = [self.truth.logsf(end)[..., row] for end in ends]
            (smaller, larger), is_left = left, left[1] < right[0]
            smaller, larger = np.where(is_left, smaller, right[1]), np.where(is_left, larger, right[0])
            found[..., row] = larger + np.log(-np.expm1(smaller - larger))
        return found


class PowerOfCensoredNormal:
    """The square of a normal variable where that is positive, else 0; its moments are those of half a normal."""

    def __init__(self, f, variance, power):
        self.f, self.sd, self.power = f, np.sqrt(variance), power

    def logpdf(self, values):
        safe = np.where(values == 0, 1.0, values)
        wet = scipy.stats.norm(self.f, self.sd).logpdf(safe ** (1 / self.power))
        wet = wet + (1 / self.power - 1) * np.log(safe) - np.log(self.power)
        return np.where(values == 0, scipy.special.log_ndtr(-self.f / self.sd), wet)

    def cdf(self, values):
        reached = scipy.special.ndtr((np.maximum(values, 0.0) ** (1 / self.power) - self.f) / self.sd)
        return np.where(values < 0, 0.0, reached)

    def raw(self, order):
        """E x^2 and E x^4 over the positive half."""
        z = self.f / self.sd
        above, density = scipy.special.ndtr(z), np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
        if order == 2:
            return self.sd**2 * ((z**2 + 1) * above + z * density)
        return self.sd**4 * ((z**4 + 6 * z**2 + 3) * above + (z**3 + 5 * z) * density)

    def mean(self):
        assert self.power == 2.0
        return self.raw(2)

    def var(self):
        return self.raw(4) - self.raw(2) ** 2


def beta(f, precision):
    return scipy.stats.beta(precision * scipy.special.expit(f), precision * scipy.special.expit(-f))


BINARY = [0.0, 1.0, 1.0, 0.0, 1.0, 0.0]
SUCCESSES = [1.0, 0.0, 250.0, 2.0, 5.0, 39.0]
COUNTS = [0.0, 3.0, 210.0, 17.0, 1.0, 5000.0]
CASES = {
    "gaussian": Case(
        Gaussian,
        {"variance": 0.7},
        lambda f, variance: scipy.stats.norm(f, np.sqrt(variance + NOISE)),
        [0.3, -4.0, 2.2, 0.0, 1.0, 8.0],
        RowExtras(noise_variance=NOISE),
    ),
    "student_t": Case(
        StudentT,
        {"scale": 0.4, "df": 3.5},
        lambda f, scale, df: scipy.stats.t(df, f, scale),
        [0.3, -4.0, 2.2, 0.0, 1.0, 80.0],
    ),
    "laplace": Case(
        Laplace,
        {"scale": 0.6},
        lambda f, scale: scipy.stats.laplace(f, scale),
        [0.3, -4.0, 2.2, 0.0, 1.0, 8.0],
        tolerance=1e-6,  # its kink falls between two of the oracle's nodes
    ),
    "poisson": Case(
        Poisson, {}, lambda f: scipy.stats.poisson(EXPOSURE * np.exp(f)), COUNTS, RowExtras(exposure=EXPOSURE)
    ),
    "negative_binomial": Case(
        NegativeBinomial, {"dispersion": 2.3}, NegativeBinomialCounts, COUNTS, RowExtras(exposure=EXPOSURE)
    ),
    "hardly_overdispersed": Case(
        NegativeBinomial, {"dispersion": 40.0}, NegativeBinomialCounts, COUNTS, RowExtras(exposure=EXPOSURE)
    ),
    "bernoulli_logit": Case(Bernoulli, {}, successes("logit", np.ones(6)), BINARY),
    "bernoulli_probit": Case(lambda: Bernoulli("probit"), {}, successes("probit", np.ones(6)), BINARY),
    "binomial_logit": Case(Binomial, {}, successes("logit", TRIALS), SUCCESSES, RowExtras(trials=TRIALS)),
    "binomial_probit": Case(
        lambda: Binomial("probit"), {}, successes("probit", TRIALS), SUCCESSES, RowExtras(trials=TRIALS)
    ),
    "gamma": Case(
        Gamma,
        {"shape": 2.5},
        lambda f, shape: scipy.stats.gamma(shape, scale=np.exp(f) / shape),
        [0.3, 4.0, 12.2, 0.01, 1.0, 8.0],
    ),
    "beta": Case(Beta, {"precision": 40.0}, beta, [0.3, 0.01, 0.9, 0.5, 0.4, 0.999]),
    "log_normal": Case(
        LogNormal,
        {"variance": 0.4},
        lambda f, variance: scipy.stats.lognorm(np.sqrt(variance), scale=np.exp(f)),
        [0.3, 4.0, 12.2, 0.01, 1.0, 8.0],
    ),
    "exponential": Case(
        Exponential, {}, lambda f: scipy.stats.expon(scale=np.exp(f)), [0.3, 4.0, 12.2, 0.01, 1.0, 8.0]
    ),
    "zero_inflated_poisson": Case(
        ZeroInflatedPoisson,
        {"zero_probability": 0.15},
        lambda f, zero_probability: ZeroInflated(EXPOSURE * np.exp(f), zero_probability),
        [0.0, 0.0, 210.0, 0.0, 1.0, 0.0],
        RowExtras(exposure=EXPOSURE),
    ),
}
CASES |= {
    "tobit": Case(
        Tobit,
        {"variance": 0.7},
        CensoredNormal,
        [0.3, -4.0, 2.2, 0.0, 1.0, 8.0],
        RowExtras(noise_variance=NOISE, lower=LOWER, upper=UPPER),
    ),
    "rain": Case(Rain, {"variance": 0.7, "power": 2.0}, PowerOfCensoredNormal, [0.0, 3.0, 0.4, 0.0, 0.02, 40.0]),
}
every_case = pytest.mark.parametrize("name", CASES)


def is_discrete(case):
    return hasattr(case.distribution(F, **case.parameters), "logpmf")


def oracle_log_density(distribution, values):
    return distribution.logpmf(values) if hasattr(distribution, "logpmf") else distribution.logpdf(values)


def oracle_expectation(case, **parameters):
    at_nodes = case.distribution(MEAN + np.sqrt(VARIANCE) * SCORES, **{**case.parameters, **parameters})
    return np.sum(WEIGHTS * oracle_log_density(at_nodes, np.array(case.values)), axis=0)


def oracle_cumulative(case, values):
    every = slice(None, None, 10)
    at_nodes = case.distribution(MEAN + np.sqrt(VARIANCE) * SCORES[every], **case.parameters)
    return np.sum(10 * WEIGHTS[every] * at_nodes.cdf(values), axis=0)


@functools.cache
def computed(name):
    case = CASES[name]
    likelihood, values = case.likelihood, jnp.array(case.values)
    return {
        **everything(likelihood, values, F, MEAN, VARIANCE, case.extra),
        "predicted": eqx.filter_jit(likelihood.predict)(MEAN, VARIANCE, case.extra),
        "initial": eqx.filter_jit(likelihood.initial)(values, case.extra),
    }


@every_case
def test_log_density(name):
    case = CASES[name]
    expected = oracle_log_density(case.distribution(F, **case.parameters), np.array(case.values))
    assert_allclose(computed(name)["log_density"], expected, rtol=1e-9, atol=1e-11)


@every_case
def test_slope_of_log_density(name):
    case, step = CASES[name], 1e-4
    above = oracle_log_density(case.distribution(F + step, **case.parameters), np.array(case.values))
    below = oracle_log_density(case.distribution(F - step, **case.parameters), np.array(case.values))
    # A central difference: good to the square of the step, times a third derivative as large as the counts.
    assert_allclose(computed(name)["slope"], (above - below) / (2 * step), rtol=1e-6, atol=1e-6)


@every_case
def test_expected_log_density(name):
    case = CASES[name]
    expected = oracle_expectation(case)
    assert_allclose(computed(name)["expected"], expected, rtol=case.tolerance, atol=case.tolerance)


@every_case
def test_gradient_of_expectation_in_mean_and_variance(name):
    case = CASES[name]
    at_nodes = oracle_log_density(
        case.distribution(MEAN + np.sqrt(VARIANCE) * SCORES, **case.parameters), np.array(case.values)
    )
    # By derivatives of the Gaussian, not of the density: d/dmean N = score N / deviation, and so on. What cancels in
    # the row of tiny variance is taken out first.
    at_mean = oracle_log_density(case.distribution(MEAN, **case.parameters), np.array(case.values))
    excess = WEIGHTS * (at_nodes - at_mean)
    in_mean = np.sum(excess * SCORES, axis=0) / np.sqrt(VARIANCE)
    in_variance = np.sum(excess * (SCORES**2 - 1), axis=0) / (2 * VARIANCE)
    _, mean_gradient, variance_gradient = computed(name)["gradient"]
    # Looser where the oracle loses digits: the variance of 1e-6 costs it six.
    assert_allclose(mean_gradient, in_mean, rtol=10 * case.tolerance, atol=10 * case.tolerance)
    assert_allclose(variance_gradient, in_variance, rtol=100 * case.tolerance, atol=100 * case.tolerance)


@every_case
def test_gradient_of_expectation_in_parameters(name):
    case = CASES[name]
    likelihood_gradient, _, _ = computed(name)["gradient"]
    for parameter, value in case.parameters.items():
        step = 1e-4 * value
        difference = oracle_expectation(case, **{parameter: value + step}) - oracle_expectation(
            case, **{parameter: value - step}
        )
        # A central difference: good to 1e-8 of the third derivative.
        assert_allclose(getattr(likelihood_gradient, parameter), np.sum(difference) / (2 * step), rtol=1e-6)


@every_case
def test_predicted_moments(name):
    case = CASES[name]
    at_nodes = case.distribution(MEAN + np.sqrt(VARIANCE) * SCORES, **case.parameters)
    mean = np.sum(WEIGHTS * at_nodes.mean(), axis=0)
    variance = np.sum(WEIGHTS * (at_nodes.var() + (at_nodes.mean() - mean) ** 2), axis=0)
    assert_allclose(computed(name)["predicted"][0], mean, rtol=1e-9, atol=1e-12)
    assert_allclose(computed(name)["predicted"][1], variance, rtol=1e-7)


@every_case
@pytest.mark.parametrize("probability", [0.03, 0.5, 0.95])
def test_quantile_inverts_the_mixture(name, probability):
    case = CASES[name]
    quantile = case.likelihood.quantile(probability, MEAN, VARIANCE, case.extra)
    assert isinstance(quantile, np.ndarray)
    if is_discrete(case):
        assert_allclose(quantile, np.round(quantile), rtol=0, atol=0)
        assert np.all(oracle_cumulative(case, quantile) > probability - 1e-8)
        assert np.all(oracle_cumulative(case, quantile - 1) < probability + 1e-8)
    else:
        # The mixture is summed to 1e-6. A value with a probability of its own may be reached before.
        has_weight = (case.likelihood.support is Support.NON_NEGATIVE) & (quantile == 0)
        reached = oracle_cumulative(case, quantile)
        assert_allclose(reached[~has_weight], probability, rtol=0, atol=1e-6)
        assert np.all(reached[has_weight] > probability - 1e-6)


@every_case
def test_samples_have_the_distribution(name):
    case, num = CASES[name], 4000
    f = np.broadcast_to(F, (num, 6))
    samples = case.likelihood.sample(7, f, case.extra)
    assert samples.shape == f.shape
    distribution = case.distribution(F, **case.parameters)
    for at in (np.median(samples, axis=0), np.quantile(samples, 0.9, axis=0, method="higher")):
        probability = distribution.cdf(at)
        bound = 5 * np.sqrt(probability * (1 - probability) / num) + 1 / num
        assert np.all(np.abs(np.mean(samples <= at, axis=0) - probability) < bound)
    case.likelihood.check(samples[0], case.extra)
    again = case.likelihood.sample(np.random.default_rng(7), f, case.extra)
    assert_allclose(again, samples, rtol=0, atol=0)


@every_case
def test_start_is_near_the_best_f(name):
    case = CASES[name]
    mean, precision = computed(name)["initial"]
    assert np.all(np.asarray(precision) > 0)
    grid = np.linspace(-15, 100, 20001)[:, None]
    best = np.max(oracle_log_density(case.distribution(grid + 0 * F, **case.parameters), np.array(case.values)), axis=0)
    at_start = oracle_log_density(case.distribution(np.asarray(mean), **case.parameters), np.array(case.values))
    assert np.all(at_start > best - 1.5)


@every_case
def test_laws_of_likelihoods(name):
    case = CASES[name]
    # The kink of Laplace's density falls between two nodes; the widest f of a row is read from a grid too coarse for its sharp counts.
    check_likelihood(case.likelihood, case.values, case.extra, tolerance=max(case.tolerance, 1e-6))
