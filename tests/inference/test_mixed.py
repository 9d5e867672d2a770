# SPDX-License-Identifier: MIT
"""Predictions of rows that may be meant in several ways, against draws and sums written out."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.integrate import quad

import weft
from weft.data.scaling import TargetScaling
from weft.data.transforms import TRANSFORMS
from weft.inference.mixed import MixedEmission, Way
from weft.inference.prediction import IDENTITY, LikelihoodEmission, Marginals, Prediction
from weft.inference.tails import HeavyTailed, LeftOutWays, ScaledT, learn_tails
from weft.likelihoods import RowExtras

# One row that may be meant in two ways, one that is meant in one only, one whose ways hardly differ.
PROBABILITY = np.array([[0.3, 0.0, 0.5], [0.7, 1.0, 0.5]])
MEAN = np.array([[-2.0, 9.0, 0.5], [1.5, 0.4, 0.6]])
VARIANCE = np.array([[0.2, 1.0, 0.3], [0.5, 0.6, 0.3]])
NOISE, FREEDOM, SCALE = 0.4, 4.5, 0.8


def emission(tails: bool) -> MixedEmission:
    ways = [Way(p, Marginals(m, v)) for p, m, v in zip(PROBABILITY, MEAN, VARIANCE, strict=True)]
    inner = LikelihoodEmission(weft.Gaussian(NOISE), RowExtras())
    return MixedEmission(
        HeavyTailed(inner, np.full(3, FREEDOM), np.full(3, SCALE), np.full(3, 9.0)) if tails else inner, ways
    )


def prediction(tails: bool, target: TargetScaling | None = None) -> Prediction:
    mean = np.sum(PROBABILITY * MEAN, axis=0)
    latent = Marginals(mean, np.sum(PROBABILITY * (VARIANCE + MEAN**2), axis=0) - mean**2)
    return Prediction(latent, emission(tails), *(() if target is None else (target,)))


def parts(tails: bool, row: int) -> list[tuple[float, stats.rv_continuous]]:
    sd = np.sqrt(VARIANCE[:, row] + NOISE)
    made = [
        stats.t(FREEDOM, m, SCALE * s) if tails else stats.norm(m, s) for m, s in zip(MEAN[:, row], sd, strict=True)
    ]
    return list(zip(PROBABILITY[:, row], made, strict=True))


@pytest.mark.parametrize("tails", [False, True])
def test_a_mixture_is_the_sum_of_its_parts(tails):
    values = np.array([0.8, -0.3, 1.1])
    found = prediction(tails)
    scored = found.score(values)
    quantiles = found.quantile([0.05, 0.5, 0.95])
    for row, value in enumerate(values):
        mixture = parts(tails, row)

        def cdf(x: float, mixture=mixture) -> float:
            return sum(p * part.cdf(x) for p, part in mixture)

        mean = sum(p * part.mean() for p, part in mixture)
        variance = sum(p * (part.var() + part.mean() ** 2) for p, part in mixture) - mean**2
        assert_allclose([found.mean[row], found.sd[row]], [mean, np.sqrt(variance)])
        assert_allclose([cdf(x) for x in quantiles[row]], [0.05, 0.5, 0.95], atol=1e-9)
        assert_allclose(scored.pit[row], cdf(value))
        assert_allclose(scored.log_density[row], np.log(sum(p * part.pdf(value) for p, part in mixture)))
        below, above = quad(lambda x: cdf(x) ** 2, -60, value)[0], quad(lambda x: (1 - cdf(x)) ** 2, value, 60)[0]
        # A hundred points stand for each part.
        assert_allclose(scored.crps[row], below + above, rtol=5e-3)


def test_a_transformed_target_keeps_its_quantiles():
    target = TargetScaling(TRANSFORMS["log"], 2.0, 0.7)
    plain, transformed = prediction(False), prediction(False, target)
    assert_allclose(transformed.quantile(0.2), np.exp(2.0 + 0.7 * plain.quantile(0.2)))
    values = np.array([6.0, 9.0, np.nan])
    logs = (np.log(values[:2]) - 2.0) / 0.7
    expected = plain.log_density(np.append(logs, np.nan))[:2] - np.log(0.7 * values[:2])
    assert_allclose(transformed.log_density(values)[:2], expected)
    assert np.isnan(transformed.log_density(values)[2])
    assert transformed.score(values).rows.tolist() == [0, 1]


def test_beyond_what_was_seen_tails_are_a_gaussians():
    inner = LikelihoodEmission(weft.Gaussian(0.09), RowExtras())
    tails = HeavyTailed(inner, np.full(3, 5.0), np.full(3, 0.7), np.full(3, 0.5))
    latent = Marginals(np.zeros(3), np.array([0.07, 0.91, 400.0]))
    quantile = Prediction(latent, tails).quantile(0.95)
    # Deviations 0.4, 1 and 20 where 0.5 is as far as was seen: a quarter of the way for the second.
    assert_allclose(quantile[0], 0.4 * 0.7 * stats.t.ppf(0.95, 5.0))
    assert_allclose(quantile[1], (1 - 0.25 * 0.3) * stats.t.ppf(0.95, 20.0))
    assert_allclose(quantile[2], np.sqrt(400.09) * stats.norm.ppf(0.95), rtol=1e-2)


def test_tails_are_learned_through_the_mixture():
    """Rows that are a day off would look like heavy tails to who does not know that they may be."""
    rng = np.random.default_rng(2)
    count = 20_000
    first = rng.random(count) < 0.3
    sd = rng.uniform(0.5, 2.0, (2, count))
    apart = rng.normal(0, 6.0, count)
    error = 0.9 * rng.standard_t(6.0, count) * np.where(first, sd[0], sd[1])
    errors = np.stack([np.where(first, error, error + apart), np.where(first, error - apart, error)])
    probability = np.stack([np.full(count, 0.3), np.full(count, 0.7)])
    found = learn_tails(LeftOutWays(errors, sd, probability)).tails
    # Of so many rows both numbers are known to a few per cent; the prior pulls to the Gaussian.
    assert_allclose(found.freedom, 6.0, rtol=0.2)
    assert_allclose(found.scale, 0.9, rtol=0.03)
    alone = learn_tails(LeftOutWays(errors[1:], sd[1:], np.ones((1, count)))).tails
    assert alone.freedom < 4.0


def test_quantiles_of_a_mixture_take_few_looks_at_it(monkeypatch):
    """Halving an interval to twelve digits took forty looks at all rows."""
    rng = np.random.default_rng(0)
    ways = [
        Way(p, Marginals(rng.normal(size=500), rng.uniform(0.1, 2.0, 500)))
        for p in (np.full(500, 0.9), np.full(500, 0.1))
    ]
    normal = LikelihoodEmission(weft.Gaussian(NOISE), RowExtras())
    inner = HeavyTailed(normal, np.full(500, FREEDOM), np.full(500, SCALE), np.full(500, 9.0))
    mixture, looks, cdf = MixedEmission(inner, ways).observed(ways[0].latent), [], ScaledT.cdf
    monkeypatch.setattr(ScaledT, "cdf", lambda part, f: looks.append(f.size) or cdf(part, f))
    levels = (0.05, 0.5, 0.95)
    found = mixture.quantiles(levels, IDENTITY)
    assert sum(looks) < 15 * found.size * len(ways)
    parts = [inner.observed(way.latent) for way in ways]
    assert_allclose(0.9 * cdf(parts[0], found) + 0.1 * cdf(parts[1], found), np.tile(levels, (500, 1)), rtol=1e-9)
