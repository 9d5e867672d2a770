# SPDX-License-Identifier: MIT
"""What a model starts from: pseudo-points by one setting, a split of the variance, and counts end to end."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial import cKDTree

import weft
from tests.estimator.tables import station_table
from weft.data.scaling import Marks
from weft.estimator.components import named_components, scales_of
from weft.estimator.defaults import likelihood_from, variance_shares
from weft.estimator.placement import EXACT_PLACES, MOST_POINTS, choose_pseudo_points


def observations(num_places: int, num_covariates: int = 0, num_times: int = 4, noise: float = 0.1) -> weft.Observations:
    rng = np.random.default_rng(num_places)
    where = np.tile(rng.uniform(0, 1, (num_places, 2)) * [300.0, 2.0], (num_times, 1))
    times = np.repeat(np.arange(float(num_times)), num_places)
    values = np.sin(where[:, 0] / 50) + 0.7 * np.cos(times / 10) + noise * rng.normal(size=len(times))
    return weft.Observations(times, np.hstack([where, rng.normal(size=(len(times), num_covariates))]), values)


def kernel_of(data: weft.Observations):
    shares = variance_shares(data, np.asarray(data.values), 2)
    return weft.SumSeparable(named_components(("slow", "fast"), scales_of(data, 2, (), Marks()), shares))


def test_few_places_are_exact_and_many_are_not():
    few, many = observations(EXACT_PLACES), observations(EXACT_PLACES + 1)
    assert choose_pseudo_points("auto", few, 2, kernel_of(few), seed=0) is None
    assert choose_pseudo_points(None, many, 2, kernel_of(many), seed=0) is None
    slow, fast = choose_pseudo_points("auto", many, 2, kernel_of(many), seed=0)
    assert len(slow) == len(fast) == MOST_POINTS
    # Greedy points are places of the data.
    assert np.max(cKDTree(many.places).query(slow)[0]) == 0


def test_with_covariates_the_distinct_places_stand_for_all_rows():
    data = observations(7, num_covariates=2)
    points = choose_pseudo_points("auto", data, 2, kernel_of(data), seed=0)
    assert points.shape == (7, 4)
    assert np.all(points[:, 2:] == 1)
    assert_array_equal(np.unique(points[:, :2], axis=0), np.unique(data.places[:, :2], axis=0))


def test_a_count_is_spread_over_every_column_alike():
    data = observations(60)
    points = choose_pseudo_points(9, data, 2, kernel_of(data), seed=0)
    assert points.shape == (9, 2)
    # In deviations both columns are spread; without scaling the second, 150 times narrower, would be all one value.
    spread = points.std(axis=0) / data.places.std(axis=0)
    assert spread.min() > 0.5
    given = np.array([[1.0, 0.5], [2.0, 0.7]])
    assert_array_equal(choose_pseudo_points(given, data, 2, kernel_of(data), seed=0), given)
    with pytest.raises(ValueError, match="columns"):
        choose_pseudo_points(np.ones((2, 3)), data, 2, kernel_of(data), seed=0)


def test_the_split_of_the_variance_knows_noise_from_signal():
    calm, noisy = observations(40, noise=0.05), observations(40, noise=0.8)
    quiet, loud = (variance_shares(data, np.asarray(data.values), 2) for data in (calm, noisy))
    assert quiet.noise < 0.1 * sum(quiet)
    assert loud.noise > 0.2 * sum(loud)
    total = np.var(np.asarray(noisy.values))
    assert_allclose(sum(loud), total, rtol=0.5)


def test_likelihoods_by_name():
    assert isinstance(likelihood_from("student_t"), weft.StudentT)
    assert isinstance(likelihood_from("zero_inflated_poisson"), weft.ZeroInflatedPoisson)
    own = weft.Poisson()
    assert likelihood_from(own) is own


def test_counts_with_exposure_end_to_end():
    table = station_table()
    rng = np.random.default_rng(4)
    table["hours"] = rng.uniform(1.0, 5.0, len(table))
    rate = np.exp((table["value"].fillna(20.0) - 18.0) / 4.0)
    table["value"] = rng.poisson(table["hours"] * rate).astype(float)
    table.loc[17, "value"] = np.nan
    gp = weft.SpaceTimeGP(
        time="time",
        space=("lon", "lat"),
        target="value",
        likelihood="poisson",
        exposure="hours",
        max_iterations=2,
        progress=None,
    ).fit(table)
    answer = gp.predict(table, quantiles=(0.05, 0.95))
    assert np.all(answer["q0.95"] == np.rint(answer["q0.95"]))
    known = table["value"].notna()
    inside = (table["value"] >= answer["q0.05"]) & (table["value"] <= answer["q0.95"])
    assert inside[known].mean() > 0.85
    without = gp.predict(table.drop(columns=["hours", "value"]))
    # Without the column a row has an exposure of 1, and its expectation scales with the exposure.
    assert_allclose(without["mean"] * table["hours"], answer["mean"], rtol=1e-9)
    drawn = gp.sample(table.iloc[:4], num=3).filter(like="draw_").to_numpy()
    assert np.all((drawn >= 0) & (drawn == np.rint(drawn)))
    scores = gp.score(table)
    assert scores["num_missing"] == 1
    assert np.isfinite(scores["mean_negative_log_density"])
    # These rows have been seen, so that a baseline of nearest rows knows their values.
    assert scores["mean_crps"] < scores["mean_crps_climatology"]
    assert "noise" not in gp.summary()
