# SPDX-License-Identifier: MIT
"""Distributions in the target's own units, against SciPy and brute-force integrals."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import integrate, stats

import weft
from weft.data.scaling import TargetScaling
from weft.data.transforms import transform_named
from weft.inference.prediction import IDENTITY, LikelihoodEmission, Marginals, Prediction
from weft.likelihoods import RowExtras

LATENT = Marginals(np.array([0.2, -1.1, 1.4]), np.array([0.3, 0.05, 0.6]))


def predicted(likelihood, latent, extra, target=IDENTITY):
    return Prediction(latent, LikelihoodEmission(likelihood, extra), target)


def test_log_scores_are_those_of_a_log_normal():
    target = TargetScaling(transform_named("log"), 0.7, 1.6)
    prediction = predicted(weft.Gaussian(0.11), LATENT, RowExtras(), target)
    sd = np.sqrt(LATENT.variance + 0.11) * 1.6
    frozen = stats.lognorm(sd, scale=np.exp(LATENT.mean * 1.6 + 0.7))
    values = np.array([2.5, 0.9, 40.0])
    mean, deviation = prediction.mean, prediction.sd
    assert_allclose(mean, frozen.mean())
    assert_allclose(deviation, frozen.std())
    assert_allclose(prediction.quantile((0.2, 0.7))[:, 1], frozen.ppf(0.7))
    scores = prediction.score(values, 0)
    assert_allclose(scores.log_density, frozen.logpdf(values))
    assert_allclose(scores.pit, frozen.cdf(values))
    for k in range(3):
        one = stats.lognorm(sd[k], scale=np.exp(LATENT.mean[k] * 1.6 + 0.7))
        below = integrate.quad(lambda y, one=one: one.cdf(y) ** 2, 0, values[k])[0]
        above = integrate.quad(lambda y, one=one: one.sf(y) ** 2, values[k], np.inf)[0]
        # 200 quantiles stand for all; what lies beyond the last of a heavy tail is left out.
        assert_allclose(scores.crps[k], below + above, rtol=0.03)


def test_a_root_of_zero_has_a_probability():
    target = TargetScaling(transform_named("sqrt"), 0.5, 0.8)
    prediction = predicted(weft.Gaussian(0.11), LATENT, RowExtras(), target)
    scores = prediction.score(np.array([0.0, 1.2, np.nan]), 3)
    sd = np.sqrt(LATENT.variance + 0.11) * 0.8
    chance = stats.norm.cdf(0.0, LATENT.mean * 0.8 + 0.5, sd)
    assert_allclose(scores.log_density[0], np.log(chance[0]))
    assert 0 < scores.pit[0] < chance[0]
    assert scores.num_missing == 1


@pytest.mark.parametrize(
    ("likelihood", "values", "extra"),
    [
        (weft.Poisson(), np.array([3.0, 0.0, 900.0]), RowExtras(exposure=np.array([1.5, 2.0, 200.0]))),
        (weft.NegativeBinomial(2.5), np.array([0.0, 4.0, 7.0]), RowExtras()),
        (weft.Bernoulli(), np.array([1.0, 0.0, 1.0]), RowExtras()),
        # One row far out: the product of prior and density then has two tops.
        (weft.StudentT(0.05, df=3.0), np.array([0.3, 6.0, 1.0]), RowExtras()),
        (weft.Gamma(3.0), np.array([0.4, 2.0, 11.0]), RowExtras()),
    ],
    ids=["poisson", "negative binomial", "bernoulli", "student t", "gamma"],
)
def test_scores_of_other_likelihoods_are_integrals_over_f(likelihood, values, extra):
    prediction = predicted(likelihood, LATENT, extra, IDENTITY)
    scores = prediction.score(values, 1)
    for k in range(3):
        f = LATENT.mean[k] + np.sqrt(LATENT.variance[k]) * np.linspace(-12, 12, 200_001)
        weight = stats.norm.pdf(f, LATENT.mean[k], np.sqrt(LATENT.variance[k]))
        given = RowExtras(
            *(None if column is None else np.full(len(f), column[k]) for column in (extra.exposure, None, None))
        )
        density = np.exp(np.asarray(likelihood.log_density(np.full(len(f), values[k]), f, given)))
        # A trapezoid rule over 130 points spread by both widths.
        assert_allclose(scores.log_density[k], np.log(np.trapezoid(weight * density, f)), rtol=2e-3, atol=2e-3)
        expected = np.trapezoid(weight * np.asarray(likelihood.predict(f, np.zeros_like(f), given)[0]), f)
        if not isinstance(likelihood, weft.StudentT):
            assert_allclose(prediction.field()[0][k], expected, rtol=1e-7)
    mean, sd = prediction.mean, prediction.sd
    field_mean, field_sd = prediction.field()
    assert np.all(field_sd < sd)
    if not isinstance(likelihood, weft.StudentT):
        assert_allclose(field_mean, mean, rtol=1e-6)


def test_draws_behind_the_scores_are_calibrated():
    rng = np.random.default_rng(6)
    num = 3000
    latent = Marginals(rng.normal(1.0, 1.0, num), np.full(num, 0.2))
    f = rng.normal(latent.mean, np.sqrt(latent.variance))
    values = rng.poisson(np.exp(f)).astype(float)
    scores = predicted(weft.Poisson(), latent, RowExtras(), IDENTITY).score(values, 2)
    # Kolmogorov's statistic of 3000 uniform values exceeds 0.03 once in a hundred times.
    assert stats.kstest(scores.pit, "uniform").statistic < 0.03


def test_a_heavy_tailed_likelihood_is_scored_in_the_targets_units():
    target = TargetScaling(transform_named(None), 12.0, 3.0)
    standard = predicted(weft.StudentT(0.4, df=4.0), LATENT, RowExtras(), IDENTITY)
    scaled = predicted(weft.StudentT(0.4, df=4.0), LATENT, RowExtras(), target)
    values = np.array([0.5, -1.0, 2.0])
    before, after = standard.score(values, 5), scaled.score(values * 3.0 + 12.0, 5)
    assert_allclose(after.log_density, before.log_density - np.log(3.0))
    assert_allclose(after.crps, 3.0 * before.crps)
    assert_allclose(after.error, 3.0 * before.error, rtol=1e-9)
    assert_allclose(scaled.quantile((0.3,)), standard.quantile((0.3,)) * 3.0 + 12.0)
