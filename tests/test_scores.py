# SPDX-License-Identifier: MIT
import itertools

import mpmath
import numpy as np
import pytest
import scoringrules
from scipy import integrate, stats

from weft.scores import (
    COVERAGE_LEVELS,
    MEANINGS,
    ScoresOfParts,
    crps_from_quantiles,
    crps_from_samples,
    crps_gaussian,
    log_density_gaussian,
    paired_difference,
    pit_gaussian,
    score_rows,
    summarise,
    summarise_pit,
    tidy_table,
)

CASES = [(1.3, 0.2, 0.7), (-4.0, 1.0, 2.5), (0.0, 0.0, 1e-3), (9.0, 0.0, 1.0)]


@pytest.mark.parametrize(("value", "mean", "sd"), CASES)
def test_crps_equals_its_integral(value, mean, sd):
    """The definition: the integral of (F(x) - 1[x >= value])^2."""

    def below(x):
        return mpmath.ncdf(x, mean, sd) ** 2

    def above(x):
        return mpmath.ncdf(-x, -mean, sd) ** 2

    low, high = min(value, mean) - 12 * sd, max(value, mean) + 12 * sd
    expected = mpmath.quad(below, mpmath.linspace(low, value, 9)) + mpmath.quad(above, mpmath.linspace(value, high, 9))
    got = crps_gaussian(np.array([value]), np.array([mean]), np.array([sd]))
    np.testing.assert_allclose(got, [float(expected)], rtol=1e-9)
    np.testing.assert_allclose(got, scoringrules.crps_normal(value, mean, sd), rtol=1e-9)


@pytest.mark.parametrize(("value", "mean", "sd"), CASES)
def test_density_and_pit_equal_scipys(value, mean, sd):
    row = np.array([value]), np.array([mean]), np.array([sd])
    np.testing.assert_allclose(log_density_gaussian(*row), [stats.norm(mean, sd).logpdf(value)], rtol=1e-12)
    np.testing.assert_allclose(pit_gaussian(*row), [stats.norm(mean, sd).cdf(value)], rtol=1e-12)


def test_predictions_without_deviation():
    values, mean, sd = np.array([1.0, 2.0, np.nan]), np.array([1.0, 5.0, 1.0]), np.zeros(3)
    np.testing.assert_array_equal(crps_gaussian(values, mean, sd), [0.0, 3.0, np.nan])
    np.testing.assert_array_equal(log_density_gaussian(values, mean, sd), [np.inf, -np.inf, np.nan])
    np.testing.assert_array_equal(pit_gaussian(values, mean, sd), [0.5, 0.0, np.nan])


def test_crps_from_quantiles_and_samples_reach_the_closed_form():
    values, mean, sd = np.array([0.3, -2.0, 4.0]), np.array([0.0, 1.0, 1.0]), np.array([1.0, 0.5, 2.0])
    exact = crps_gaussian(values, mean, sd)
    levels = (np.arange(2000) + 0.5) / 2000
    quantiles = stats.norm(mean[:, None], sd[:, None]).ppf(levels)
    # A sum over 2000 levels: about 1 / 2000 of the deviation off.
    np.testing.assert_allclose(crps_from_quantiles(values, quantiles, levels), exact, atol=1e-3)
    # Even levels: the same sum as scoringrules'.
    few = (np.arange(9) + 0.5) / 9
    few_quantiles = stats.norm(mean[:, None], sd[:, None]).ppf(few)
    np.testing.assert_allclose(
        crps_from_quantiles(values, few_quantiles, few),
        scoringrules.crps_quantile(values, few_quantiles, few),
        rtol=1e-12,
    )
    # Uneven levels: better than giving each the same weight.
    uneven = np.sort(np.concatenate([few, [0.001, 0.003, 0.01, 0.02]]))
    uneven_quantiles = stats.norm(mean[:, None], sd[:, None]).ppf(uneven)
    ours = np.abs(crps_from_quantiles(values, uneven_quantiles, uneven) - exact)
    assert np.all(ours < np.abs(scoringrules.crps_quantile(values, uneven_quantiles, uneven) - exact))
    samples = mean[:, None] + sd[:, None] * np.random.default_rng(0).normal(size=(3, 20_000))
    # Four standard errors of a mean of 20,000.
    np.testing.assert_allclose(crps_from_samples(values, samples), exact, atol=4 * sd.max() / np.sqrt(20_000))


def test_crps_from_few_samples_is_unbiased_and_equals_its_definition():
    generator = np.random.default_rng(1)
    samples = generator.normal(size=(20_000, 4))
    values = np.zeros(20_000)
    got = crps_from_samples(values, samples)
    pairs = np.abs(samples[:, :, None] - samples[:, None, :]).sum(axis=(1, 2)) / (4 * 3)
    np.testing.assert_allclose(got, np.abs(samples).mean(axis=1) - pairs / 2, rtol=1e-9)
    assert abs(got.mean() - crps_gaussian(np.zeros(1), np.zeros(1), np.ones(1))[0]) < 4 * got.std() / np.sqrt(20_000)


def test_levels_must_increase():
    for levels in ([0.5, 0.5], [0.0, 0.5], []):
        with pytest.raises(ValueError, match="levels must increase"):
            crps_from_quantiles(np.zeros(1), np.zeros((1, len(levels))), levels)


def test_named_numbers_equal_their_definitions():
    generator = np.random.default_rng(2)
    mean, sd = generator.normal(size=500) * 3, generator.uniform(0.5, 2.0, 500)
    values = mean + sd * generator.normal(size=500) + 0.3
    values[[3, 77]] = np.nan
    scores = summarise(score_rows(values, mean, sd), target_sd=4.0)
    assert set(scores) == set(MEANINGS)
    present = ~np.isnan(values)
    y, m, s = values[present], mean[present], sd[present]
    forecast = stats.norm(m, s)
    assert (scores["num_rows"], scores["num_missing"]) == (498, 2)
    np.testing.assert_allclose(scores["rmse"], np.sqrt(np.mean((y - m) ** 2)))
    np.testing.assert_allclose(scores["mae"], np.mean(np.abs(y - m)))
    np.testing.assert_allclose(scores["bias"], np.mean(m - y))
    assert scores["bias"] < 0  # predictions are too low here
    np.testing.assert_allclose(scores["standardised_rmse"], scores["rmse"] / 4.0)
    np.testing.assert_allclose(scores["mean_negative_log_density"], -np.mean(forecast.logpdf(y)))
    # Of the target divided by 4: the same forecast on another scale.
    scaled = -np.mean(stats.norm(m / 4, s / 4).logpdf(y / 4))
    np.testing.assert_allclose(scores["standardised_mean_negative_log_density"], scaled)
    for level in COVERAGE_LEVELS:
        low, high = forecast.interval(level)
        np.testing.assert_allclose(scores[f"coverage_{100 * level:.0f}"], np.mean((low <= y) & (y <= high)))
    z = (y - m) / s
    crps = s * (z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / np.sqrt(np.pi))
    np.testing.assert_allclose(scores["mean_crps"], crps.mean())
    np.testing.assert_allclose(scores["pit_max_deviation"], stats.kstest(forecast.cdf(y), "uniform").statistic)
    np.testing.assert_allclose(summarise(score_rows(values, mean, sd))["standardised_rmse"], scores["rmse"] / y.std())


def test_scores_of_other_distributions_take_the_place_of_the_gaussian_ones():
    values = np.array([1.0, np.nan, 3.0])
    rows = score_rows(
        values,
        np.zeros(3),
        np.ones(3),
        crps=np.array([1.0, 9.0, 3.0]),
        log_density=np.array([-1.0, 9.0, -5.0]),
        pit=np.array([0.04, 0.5, 0.6]),
    )
    scores = summarise(rows)
    assert (scores["mean_crps"], scores["mean_negative_log_density"], scores["coverage_90"]) == (2.0, 3.0, 0.5)
    np.testing.assert_array_equal(rows.rows, [0, 2])


def test_no_rows_and_missing_predictions():
    scores = summarise(score_rows(np.full(3, np.nan), np.zeros(3), np.ones(3)))
    assert (scores["num_rows"], scores["num_missing"]) == (0, 3)
    assert np.isnan(scores["mean_crps"])
    assert set(scores) == set(MEANINGS)
    with pytest.raises(ValueError, match="mean is missing in 1 rows that have a value, first in row 1"):
        score_rows(np.zeros(2), np.array([0.0, np.nan]), np.ones(2))
    with pytest.raises(ValueError, match="sd must be zero or positive"):
        score_rows(np.zeros(2), np.zeros(2), np.array([1.0, -1.0]))
    with pytest.raises(ValueError, match="3 numbers for 2 values"):
        score_rows(np.zeros(2), np.zeros(2), np.ones(3))


@pytest.mark.parametrize(
    ("shift", "width", "words"),
    [
        (0.0, 1.0, "well calibrated"),
        (0.0, 0.6, "intervals are too narrow"),
        (0.0, 2.0, "intervals are too wide"),
        (-0.5, 1.0, "predictions are too low"),
        (0.3, 0.4, "predictions are too high and intervals are too narrow"),
    ],
)
def test_the_histogram_of_the_pit_says_what_is_wrong(shift, width, words):
    values = np.random.default_rng(3).normal(size=4000)
    summary = summarise_pit(stats.norm(shift, width).cdf(values), num_bins=10)
    assert summary.words == words
    assert summary.counts.sum() == 4000
    assert len(summary.edges) == 11
    # Most values near, some far off: as many in the wide intervals as there should be, too many in the narrow ones.
    widths = np.where(np.arange(4000) % 5 == 0, 2.2, 0.7)
    assert summarise_pit(stats.norm(0, 1.0).cdf(widths * values)).words == "narrow intervals are too wide"
    empty = summarise_pit(np.full(2, np.nan))
    assert (empty.words, empty.counts.sum()) == ("no rows to judge by", 0)


def test_tidy_table_is_long():
    table = tidy_table({"weft": {"rmse": 1.0, "mae": 0.5}, "climatology": {"rmse": 2}}, by="station")
    assert table.to_dict("list") == {
        "by": ["station"] * 3,
        "model": ["weft", "weft", "climatology"],
        "score": ["rmse", "mae", "rmse"],
        "value": [1.0, 0.5, 2.0],
    }


def brute_force_variance(difference, *labelings):
    """Sum over pairs of rows that share a label, of the product of their deviations."""
    deviations = difference - difference.mean()
    total = 0.0
    for i in range(len(deviations)):
        for j in range(len(deviations)):
            if all(labels[i] == labels[j] for labels in labelings):
                total += deviations[i] * deviations[j]
    num_groups = len(set(zip(*labelings, strict=True)))
    return num_groups / (num_groups - 1) * total / len(deviations) ** 2


def test_paired_differences_and_their_standard_errors():
    generator = np.random.default_rng(4)
    a, b = generator.normal(size=40), generator.normal(size=40) - 0.2
    a[5] = np.nan
    b[6] = np.nan
    days, stations = generator.integers(0, 7, 40), np.array(list("abcde"))[generator.integers(0, 5, 40)]
    kept = np.setdiff1d(np.arange(40), [5, 6])
    difference = (a - b)[kept]
    plain = paired_difference(a, b)
    assert (plain.num_rows, plain.num_missing, plain.num_groups) == (38, 2, 38)
    np.testing.assert_allclose(plain.mean, difference.mean())
    np.testing.assert_allclose(plain.standard_error, difference.std(ddof=1) / np.sqrt(38))
    by_day = paired_difference(a, b, groups=days)
    np.testing.assert_allclose(by_day.standard_error**2, brute_force_variance(difference, days[kept]))
    both = paired_difference(a, b, groups=(days, stations))
    one, two = brute_force_variance(difference, days[kept]), brute_force_variance(difference, stations[kept])
    intersection = brute_force_variance(difference, days[kept], stations[kept])
    np.testing.assert_allclose(both.standard_error**2, max(one + two - intersection, one, two))
    assert paired_difference(b, a, groups=days).mean == -by_day.mean
    np.testing.assert_allclose(by_day.ratio, by_day.mean / by_day.standard_error)


def test_the_standard_error_by_groups_is_honest_where_the_plain_one_is_not():
    """Rows of a day err together: the plain error is three times too small here."""
    generator = np.random.default_rng(5)
    means, plain, grouped = [], [], []
    days = np.repeat(np.arange(60), 20)
    for _ in range(200):
        difference = np.repeat(generator.normal(size=60), 20) + generator.normal(size=1200)
        means.append(difference.mean())
        plain.append(paired_difference(difference, np.zeros(1200)).standard_error)
        grouped.append(paired_difference(difference, np.zeros(1200), groups=days).standard_error)
    true = np.sqrt(1 / 60 + 1 / 1200)
    # The deviation of 200 means is known to 1 part in 20.
    np.testing.assert_allclose(np.std(means), true, rtol=0.15)
    np.testing.assert_allclose(np.mean(grouped), true, rtol=0.03)
    assert np.mean(plain) < true / 3


def test_differences_that_cannot_be_judged():
    assert np.isnan(paired_difference(np.array([np.nan]), np.array([1.0])).mean)
    assert np.isnan(paired_difference(np.ones(3), np.zeros(3), groups=np.zeros(3)).standard_error)
    with pytest.raises(ValueError, match="of the same rows"):
        paired_difference(np.zeros(2), np.zeros(3))
    with pytest.raises(ValueError, match="one label a row"):
        paired_difference(np.zeros(2), np.zeros(2), groups=np.zeros(3))


def test_crps_is_proper():
    """No forecast does better on average than the true distribution."""

    def average(mean, sd):
        density = stats.norm(0.4, 1.3)
        return integrate.quad(
            lambda y: density.pdf(y) * crps_gaussian(np.array([y]), np.array([mean]), np.array([sd]))[0], -9, 9
        )[0]

    best = average(0.4, 1.3)
    assert all(best < average(mean, sd) for mean, sd in [(0.0, 1.3), (0.4, 1.0), (0.4, 1.8), (0.6, 1.2)])


def test_scores_of_parts_are_those_of_the_rows_together(monkeypatch):
    """Whether rows or scores of parts are added; of many rows the PIT is known to a bin."""
    rng = np.random.default_rng(3)
    values, mean, sd = rng.normal(size=900), 0.3 * rng.normal(size=900), rng.uniform(0.5, 2.0, 900)
    values[::50] = np.nan
    expected = summarise(score_rows(values, mean, sd), 1.3)
    for kept, tolerance in ((2000, 1e-14), (300, 2**-16), (100, 2**-16)):
        monkeypatch.setattr("weft.scores._PITS_KEPT", kept)
        whole = ScoresOfParts()
        for start, end in itertools.pairwise([0, 250, 260, 700, 900]):
            part = ScoresOfParts()
            part.add(score_rows(values[start:end], mean[start:end], sd[start:end]))
            whole.join(part)
        found = whole.summary(1.3)
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-11, atol=tolerance, err_msg=name)
