# SPDX-License-Identifier: MIT
"""Strengths and noise of neighbourhoods against the dense Gaussian process that the rows were drawn from."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal

import weft
from weft.inference.habits.base import AskedPlaces
from weft.inference.single import condition
from weft.inference.with_habits import field_model, with_habits
from weft.scores import crps_gaussian
from weft.training.neighbourhoods import _Block, find_neighbourhoods

SPACE, TIME, NOISE = [0.9, 0.7], 3.0, 0.04
ROWS, ASKED = 2000, 400


def shared(variance=1.0, noise=NOISE):
    return weft.Model(
        kernel=variance * weft.Separable(space=weft.Matern32(SPACE), time=weft.Matern32(TIME)),
        likelihood=weft.Gaussian(noise),
    )


class Made:
    """Rows of a field whose strength and noise variance are given functions of where, each at a place and time of its own."""

    def __init__(self, strength, noise, seed):
        rng = np.random.default_rng(seed)
        count = ROWS + ASKED
        self.times = np.sort(rng.uniform(0, 12, count))
        self.places = rng.uniform(0, 1, (count, 2)) * [12.0, 5.0]
        lively = strength(self.places[:, 0])
        self.covariance = lively[:, None] * np.asarray(shared().kernel(self.times, self.places)) * lively[None, :]
        self.noise = noise(self.places[:, 0])
        field = np.linalg.cholesky(self.covariance + 1e-9 * np.eye(count)) @ rng.normal(size=count)
        self.values = field + np.sqrt(self.noise) * rng.normal(size=count)
        self.is_asked = np.zeros(count, dtype=bool)
        self.is_asked[rng.permutation(count)[:ASKED]] = True
        seen = ~self.is_asked
        self.data = weft.Observations(self.times[seen], self.places[seen], self.values[seen])

    def crps(self, covariance, noise):
        """Of the values asked about, given the others, by the dense formulas."""
        seen, asked = ~self.is_asked, self.is_asked
        whole = covariance + np.diag(noise)
        cross = np.linalg.solve(whole[np.ix_(seen, seen)], covariance[np.ix_(seen, asked)])
        variance = np.diagonal(whole)[asked] - np.sum(cross * covariance[np.ix_(seen, asked)], axis=0)
        mean = cross.T @ self.values[seen]
        return float(np.mean(crps_gaussian(self.values[asked], mean, np.sqrt(variance))))


@pytest.fixture(scope="module")
def two_halves():
    """The east is three times as lively as the west, and has a sixteenth of the noise variance."""
    rise = lambda x: 1 / (1 + np.exp(-2 * (x - 6.0)))  # noqa: E731
    return Made(lambda x: 0.6 * 3.0 ** rise(x), lambda x: 0.16 * 16.0 ** -rise(x), seed=3)


@pytest.fixture(scope="module")
def learned_at():
    """What all rows share of that field, about."""
    return shared(variance=1.2, noise=0.06)


@pytest.fixture(scope="module")
def found(two_halves, learned_at):
    return find_neighbourhoods(learned_at, two_halves.data)


def test_strengths_and_noise_are_those_the_rows_were_made_by(found):
    (west,), (east,) = (np.nonzero(side) for side in (found.centres[:, 0] < 4.5, found.centres[:, 0] > 7.5))
    assert min(len(west), len(east)) >= 2
    strength, noise = found.logarithms.T
    # Ratios of variances are 9 and 1/16 in the end; what is learned is shrunk, and of neighbourhoods that reach into each other.
    assert 0.6 * np.log(9.0) < strength[east].mean() - strength[west].mean() < 1.1 * np.log(9.0)
    assert 0.6 * np.log(16.0) < noise[west].mean() - noise[east].mean() < 1.1 * np.log(16.0)


def test_predictions_are_nearly_those_of_the_process_itself(two_halves, learned_at, found):
    made, habit = two_halves, found.noise(learned_at)
    by_truth = made.crps(made.covariance, made.noise)
    by_shared = made.crps(np.asarray(learned_at.kernel(made.times, made.places)), np.full(ROWS + ASKED, 0.06))
    own = np.asarray(found.strengthened(learned_at).kernel(made.times, made.places))
    by_own = made.crps(own, habit.base + habit.noise_variance(made.times, AskedPlaces(made.places)))
    assert by_shared > 1.05 * by_truth
    assert by_own < 1.025 * by_truth


@pytest.mark.parametrize("seed", [1, 2])
def test_where_all_is_alike_nobody_has_anything_of_its_own(seed):
    made = Made(np.ones_like, lambda x: np.full_like(x, NOISE), seed)
    assert find_neighbourhoods(shared(), made.data) is None


def test_few_rows_have_no_neighbourhoods(two_halves, learned_at):
    data = two_halves.data
    few = weft.Observations(data.row_times[:700], data.row_places[:700], data.values[:700])
    assert find_neighbourhoods(learned_at, few) is None


def test_rows_without_noise_and_rows_that_nearly_coincide_are_no_trouble(two_halves):
    data = two_halves.data
    assert find_neighbourhoods(shared(noise=0.0), data) is None
    close = weft.Observations(data.row_times, 1e-9 * data.row_places, data.values)
    rough = find_neighbourhoods(shared(noise=1e-14), close)
    # What differs at places that are all one is noise, however far that is from what all were said to share.
    assert 0.01 < 1e-14 * np.exp(np.median(rough.logarithms[:, -1])) < np.var(data.values)


@pytest.mark.parametrize("noise", [1e-5, 1.0])
def test_noise_that_differs_by_a_hundred_times_is_found_from_wherever_it_starts(noise):
    made = Made(np.ones_like, lambda x: np.where(x < 6.0, 0.01, 1.0), seed=4)
    found = find_neighbourhoods(shared(noise=noise), made.data)
    learned = noise * np.exp(found.logarithms[:, -1])
    quiet, loud = learned[found.centres[:, 0] < 5.0], learned[found.centres[:, 0] > 7.0]
    assert 0.3 < np.median(loud) < 1.5
    assert np.median(quiet) < 0.1
    assert np.median(loud) > 15 * np.median(quiet)


def test_places_seen_again_and_again_have_a_noise_of_their_own_instead(two_halves, learned_at):
    data = two_halves.data
    places = data.row_places[np.arange(data.num_rows) % 40]
    assert find_neighbourhoods(learned_at, weft.Observations(data.row_times, places, data.values)) is None


def test_slopes_and_information_are_those_of_a_normal():
    rng = np.random.default_rng(5)
    times, places = np.sort(rng.uniform(0, 4, 9)), rng.uniform(0, 3, (9, 2))
    data = weft.Observations(times, places, rng.normal(size=9), noise_variance=rng.uniform(0.01, 0.1, 9))
    block = _Block.of(shared(variance=1.3), data)
    at = np.array([0.3, -0.6])
    slope, information = block.slope_and_information(at)

    def covariance(logarithms):
        prior = 1.3 * np.exp(logarithms[0]) * np.asarray(shared().kernel(times, places))
        return prior + np.diag(NOISE * np.exp(logarithms[1]) + np.asarray(data.noise_variance))

    def density(logarithms, values):
        return multivariate_normal(np.zeros(9), covariance(logarithms)).logpdf(values)

    def slopes(values):
        return np.stack(
            [(density(at + step, values) - density(at - step, values)) / 2e-5 for step in 1e-5 * np.eye(2)], axis=-1
        )

    assert_allclose(slope, slopes(np.asarray(data.values)), rtol=1e-5)
    draws = rng.multivariate_normal(np.zeros(9), covariance(at), size=40_000)
    # The variance of the slope, which 40,000 draws tell to some 2 %.
    assert_allclose(information, np.cov(slopes(draws).T), rtol=0.05, atol=0.02)


def test_the_noise_of_a_neighbourhood_is_an_observations(two_halves, learned_at, found, tmp_path):
    habit = found.noise(learned_at)
    some = np.arange(0, ROWS, 60)
    data = two_halves.data
    few = weft.Observations(data.row_times[some], data.row_places[some], data.values[some])
    told = habit.told(few)
    assert habit.base < float(np.min(habit.base + told.noise_variance)) * (1 + 1e-9)
    assert_allclose(habit.untold(told).noise_variance, 0.0, atol=1e-12)
    model = field_model((habit,), learned_at)
    assert_allclose(float(model.likelihood.variance), np.exp(habit.logarithms.min()))
    posterior = with_habits(lambda rows: condition(model, rows), few, (habit,))
    asked = two_halves.times[5:45], two_halves.places[5:45]
    noise = posterior.predict(*asked).variance - posterior.marginals(*asked).variance
    # By the formula of `Uneven`, written out.
    apart = ((asked[1][:, None] - habit.centres[None]) / habit.width) ** 2
    nearness = np.exp(-apart.sum(axis=2) / 2)
    assert_allclose(noise, np.exp(nearness @ habit.logarithms / nearness.sum(axis=1)), rtol=1e-8)
    posterior.save(tmp_path / "posterior.weft")
    again = weft.load(tmp_path / "posterior.weft")
    assert_array_equal(again.predict(*asked).variance, posterior.predict(*asked).variance)
