# SPDX-License-Identifier: MIT
"""Noise and dates of places, planted in made data and found again; answers against the obvious formulas."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import weft
from weft.inference.habits.base import AskedPlaces, asked_numbers, place_numbers
from weft.inference.habits.noise import Noise, find_noise
from weft.inference.habits.shift import Shift, find_shift
from weft.inference.with_habits import PosteriorWithHabits, field_model, tell, with_habits

NUM_PLACES, NUM_TIMES = 40, 200
PLANTED = np.array([3, 11, 22, 30])


def made_model() -> weft.Model:
    kernel = 0.8 * weft.Separable(space=weft.Matern32([150.0, 150.0]), time=weft.Matern12(2.0))
    return weft.Model(kernel, weft.Gaussian(0.1))


@pytest.fixture(scope="module")
def made() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Places, and by time and place: a draw of the model, noise of deviation 1, and what is there (9 of 10)."""
    rng = np.random.default_rng(4)
    places = rng.uniform(0, 200, (NUM_PLACES, 2))
    distance = np.sqrt(np.sum((places[:, None] - places) ** 2, axis=-1)) / 150.0 * np.sqrt(3)
    factor = np.linalg.cholesky((1 + distance) * np.exp(-distance) + 1e-9 * np.eye(NUM_PLACES))
    field = np.zeros((NUM_TIMES, NUM_PLACES))
    decay = np.exp(-1 / 2.0)
    for time in range(NUM_TIMES):
        fresh = np.sqrt(0.8) * factor @ rng.normal(size=NUM_PLACES)
        field[time] = fresh if time == 0 else decay * field[time - 1] + np.sqrt(1 - decay**2) * fresh
    return places, field, rng.normal(size=field.shape), rng.random(field.shape) < 0.9


def table(made, deviation: np.ndarray, shift: np.ndarray) -> weft.Observations:
    places, field, noise, present = made
    inner = np.arange(1, NUM_TIMES - 1)
    # A row dated t belongs to t + shift.
    values = np.stack([field[inner + shift[place], place] for place in range(NUM_PLACES)], axis=1)
    values = values + deviation * noise[inner]
    rows = np.flatnonzero(present[inner].ravel())
    return weft.Observations(
        np.repeat(inner.astype(float), NUM_PLACES)[rows], np.tile(places, (len(inner), 1))[rows], values.ravel()[rows]
    )


def planted(value: float, otherwise: float) -> np.ndarray:
    everywhere = np.full(NUM_PLACES, otherwise)
    everywhere[PLANTED] = value
    return everywhere


def number_of(own_places: np.ndarray, places: np.ndarray) -> np.ndarray:
    return np.array([int(np.flatnonzero(np.all(places == place, axis=1))[0]) for place in own_places])


def test_noisy_places_are_found_and_no_others(made):
    data = table(made, planted(0.8, 0.3), np.zeros(NUM_PLACES, dtype=int))
    found = find_noise(weft.condition(made_model(), data), data, 2)
    assert found is not None
    own = found.describe()
    assert sorted(number_of(own.places[own.found], made[0])) == PLANTED.tolist()
    variance = found.median * np.exp(found.log_ratio)
    true = planted(0.8, 0.3)[number_of(own.places, made[0])] ** 2
    # Shrunk estimates from about 180 rows each.
    assert_allclose(np.median(variance / true), 1.0, atol=0.1)
    assert np.all(np.abs(np.log(variance / true)) < 0.6)


def test_equal_noise_is_nobodys_habit(made):
    data = table(made, np.full(NUM_PLACES, 0.3), np.zeros(NUM_PLACES, dtype=int))
    found = find_noise(weft.condition(made_model(), data), data, 2)
    assert found is None or np.mean(found.describe().found) <= 0.05


def test_dates_off_by_a_step_are_found_and_no_others(made):
    shift = planted(-1, 0).astype(int)
    shift[PLANTED[0]] = 1
    data = table(made, np.full(NUM_PLACES, 0.3), shift)
    found = find_shift(None, data, 2)
    assert found is not None
    assert_array_equal(found.shift, shift[number_of(found.places, made[0])])
    assert_allclose(found.shares, [0.075, 0.9, 0.025])
    told = tell((found,), data)
    back = found.untold(told)
    assert_array_equal(back.row_times, data.row_times)
    assert_array_equal(back.values, data.values)
    assert_array_equal(back.row, data.row)
    # The field is told of the time that a row belongs to.
    late = np.all(told.row_places == made[0][PLANTED[1]], axis=1)
    assert_array_equal(told.row[late], data.row[np.all(data.row_places == made[0][PLANTED[1]], axis=1)])
    assert told.row_times[late].min() == data.row_times.min() - 1


def test_dates_are_the_same_on_both_sides_of_a_map(made):
    """In the west most observers date a day late, in the east none: against its neighbours alone each side looks right."""
    west = made[0][:, 0] < 90
    shift = np.where(west & (np.arange(NUM_PLACES) % 6 > 0), -1, 0)
    assert 0.25 < np.mean(shift != 0) < 0.45
    data = table(made, np.full(NUM_PLACES, 0.3), shift)
    found = find_shift(None, data, 2)
    assert found is not None
    assert_array_equal(found.shift, shift[number_of(found.places, made[0])])
    # Whoever is new in the west is likely to be late too.
    versions = found.versions(np.zeros(2), AskedPlaces(np.array([[20.0, 100.0], [180.0, 100.0]])))
    assert_allclose(np.sum([version.probability for version in versions], axis=0), 1.0)
    assert [version.times[0] for version in versions] == [-1.0, 0.0, 1.0]
    late = versions[0].probability
    assert late[0] > 0.5
    assert late[1] < 0.1


def test_dates_that_agree_stay(made):
    assert find_shift(None, table(made, np.full(NUM_PLACES, 0.3), np.zeros(NUM_PLACES, dtype=int)), 2) is None


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_islands_that_have_nothing_to_do_with_each_other_keep_their_dates(seed):
    """Two such series are most alike at some lag too: by what chance made of a pair whole islands were dated a day late."""
    rng = np.random.default_rng(seed)
    middles = 1000.0 * rng.normal(size=(6, 2))
    # So few that some of the nearest ones of each place are on another island.
    places = np.repeat(middles, 7, axis=0) + rng.normal(size=(42, 2))
    weather = rng.normal(size=(6, 300))
    for time in range(1, 300):
        weather[:, time] += 0.6 * weather[:, time - 1]
    values = np.repeat(weather, 7, axis=0) + 0.5 * rng.normal(size=(42, 300))
    data = weft.Observations(np.tile(np.arange(300.0), 42), np.repeat(places, 300, axis=0), values.ravel())
    assert find_shift(None, data, 2) is None


def test_a_lag_of_part_of_a_step_moves_nobody():
    """What comes half a step later, as weather does downwind, is likelier at the next step than at this one, and hardly better told."""
    rng = np.random.default_rng(3)
    fine = np.convolve(rng.normal(size=100_000), np.exp(-np.arange(200) / 30.0), mode="valid")
    places, steps = rng.uniform(0, 100, (30, 2)), np.arange(3_000)
    lag = np.where(np.arange(30) < 3, 6, 0)
    values = np.stack([fine[10 * steps + 50 - own] for own in lag]) / fine.std() + 0.7 * rng.normal(size=(30, 3_000))
    data = weft.Observations(np.tile(steps, 30).astype(float), np.repeat(places, 3_000, axis=0), values.ravel())
    assert find_shift(None, data, 2) is None


def test_irregular_times_have_no_steps_to_be_off_by(made):
    data = table(made, np.full(NUM_PLACES, 0.3), planted(-1, 0).astype(int))
    rng = np.random.default_rng(0)
    moved = weft.Observations(data.row_times + rng.uniform(0, 0.4, data.num_rows), data.row_places, data.values)
    assert find_shift(None, moved, 2) is None


@pytest.fixture(scope="module")
def small() -> weft.Observations:
    rng = np.random.default_rng(8)
    places = np.array([[0.0, 0.0], [30.0, 5.0], [80.0, 40.0]])
    rows = rng.permutation(np.arange(36))[:30]
    return weft.Observations(
        np.repeat(np.arange(12.0), 3)[rows],
        np.tile(places, (12, 1))[rows],
        rng.normal(size=30),
        rng.uniform(0.01, 0.2, 30),
    )


def shifted(small: weft.Observations) -> Shift:
    return Shift(small.places, np.array([0, -1, 1]), np.array([0.9, 0.995, 1.0]), np.array([0.3, 0.6, 0.1]), 1.0)


def test_a_place_never_seen_may_be_dated_in_any_way(small):
    posterior = with_habits(lambda data: weft.condition(made_model(), data), small, (shifted(small),))
    field = weft.condition(made_model(), tell((shifted(small),), small))
    times = np.array([4.0, 4.0, 7.0])
    places = np.array([[30.0, 5.0], [33.0, 8.0], [33.0, 8.0]])
    found = posterior.marginals(times, places)
    assert_allclose(found.mean[0], field.marginals(times[:1] - 1, places[:1]).mean[0])
    each = [field.marginals(times + step, places) for step in (-1, 0, 1)]
    for row in (1, 2):
        means = np.array([answer.mean[row] for answer in each])
        variances = np.array([answer.variance[row] for answer in each])
        mean = np.array([0.3, 0.6, 0.1]) @ means
        assert_allclose(found.mean[row], mean)
        assert_allclose(found.variance[row], np.array([0.3, 0.6, 0.1]) @ (variances + means**2) - mean**2)
    draws = posterior.sample(times, places, num=4000, seed=1)
    # Four standard errors of 4000 draws.
    assert_allclose(draws.mean(axis=0), found.mean, atol=4 * np.sqrt(found.variance.max() / 4000))
    assert_allclose(draws.var(axis=0), found.variance, rtol=4 * np.sqrt(2 / 4000))


def test_rows_fitted_are_in_the_order_of_the_data(small):
    posterior = with_habits(lambda data: weft.condition(made_model(), data), small, (shifted(small),))
    (data,) = posterior.batches
    assert_array_equal(data.values, small.values)
    assert_allclose(posterior.fitted_values(), posterior.marginals(data.row_times, data.row_places).mean, rtol=1e-9)


def test_rows_without_a_value_bring_no_time_that_nobody_has(small):
    values = np.random.default_rng(1).normal(size=36)
    values[[4, 20]] = np.nan
    data = weft.Observations(np.repeat(np.arange(12.0), 3), np.tile(small.places, (12, 1)), values)
    told = shifted(small).told(data)
    assert told.times[0] == -1.0
    assert_array_equal(shifted(small).untold(told).times, np.arange(12.0))


def test_noise_of_a_place_is_an_observations(small):
    noise = Noise(small.places, np.array([-0.5, 0.0, 1.2]), np.array([0.1, 0.2, 0.1]), 0.3, 0.7, 0.05)
    model = field_model((noise,), made_model())
    assert float(model.likelihood.variance) == 0.05
    posterior = with_habits(lambda data: weft.condition(model, data), small, (noise,))
    assert isinstance(posterior, PosteriorWithHabits)
    places = np.concatenate([small.places, [[10.0, 10.0]]])
    found = posterior.predict(np.full(4, 3.0), places, noise_variance=0.02)
    own = np.array([0.3 * np.exp(-0.5), 0.3, 0.3 * np.exp(1.2), 0.3 * np.exp(0.7**2 / 2)])
    assert_allclose(found.variance - found.latent_variance, own + 0.02)
    # What the field was told: each row with its place's variance beside its own.
    told = weft.Observations(
        small.row_times,
        small.row_places,
        small.values,
        np.asarray(small.noise_variance) + own[small.grouping.place_of_row] - 0.05,
    )
    expected = weft.condition(model, told).marginals(np.full(4, 3.0), places)
    assert_allclose(posterior.marginals(np.full(4, 3.0), places), expected)
    (back,) = posterior.batches
    assert_allclose(back.noise_variance, small.noise_variance, rtol=1e-9)


def test_habits_come_back_from_a_file(small, tmp_path):
    noise = Noise(small.places, np.array([-0.5, 0.0, 1.2]), np.array([0.1, 0.2, 0.1]), 0.3, 0.7, 0.05)
    habits = (shifted(small), noise)
    posterior = with_habits(lambda data: weft.condition(made_model(), data), small, habits)
    posterior.save(tmp_path / "model.weft", rows=True)
    loaded = weft.load(tmp_path / "model.weft")
    times, places = np.array([2.0, 5.0]), np.array([[30.0, 5.0], [7.0, 7.0]])
    assert_array_equal(loaded.predict(times, places).variance, posterior.predict(times, places).variance)
    assert_array_equal(loaded.marginals(times, places), posterior.marginals(times, places))
    assert [own.name for own in loaded.habits()] == ["shift", "noise"]


def test_a_place_that_lost_its_last_digits_is_still_the_same():
    known = np.array([[100.1, -3.2], [7.0, 8.0], [0.1, 0.2]])
    asked = np.array([[7.0 + 1e-10, 8.0], [0.1, 0.2], [100.1, -3.2001]])
    assert place_numbers(known, asked).tolist() == [1, 2, -1]
    assert place_numbers(np.empty((0, 2)), asked).tolist() == [-1, -1, -1]


def test_a_place_in_single_precision_is_still_meant():
    """Half a metre of 20 km is lost; of neighbours in one street it is not."""
    known = np.array([[100.1, -3.2], [7.0, 8.0], [50.0, 50.0], [50.002, 50.0]])
    asked = known + np.array([[4e-4, 0.0], [0.0, -4e-4], [4e-4, 0.0], [1e-5, 0.0]])
    assert asked_numbers(known, asked).tolist() == [0, 1, -1, 3]
    assert asked_numbers(known, known + 2e-3).tolist() == [-1] * 4
    assert asked_numbers(known[:1], asked[:1]).tolist() == [0]
    assert asked_numbers(np.empty((0, 2)), asked).tolist() == [-1] * 4


def test_a_field_that_goes_through_every_row_leaves_no_noise_to_tell():
    rng = np.random.default_rng(2)
    times, places = np.repeat(np.arange(60.0), 12), np.tile(rng.uniform(0, 9, (12, 2)), (60, 1))
    data = weft.Observations(times, places, rng.normal(size=720))
    kernel = weft.Separable(space=weft.Matern12([0.01, 0.01]), time=weft.Matern12(0.01))
    assert find_noise(weft.condition(weft.Model(kernel, weft.Gaussian(1e-9)), data), data, 2) is None
