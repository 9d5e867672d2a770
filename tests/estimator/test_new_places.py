# SPDX-License-Identifier: MIT
"""Places never seen of a network of a few: what is hidden to learn of them, and whether intervals there hold what they say."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import weft
from weft.data.places import distinct_places
from weft.estimator.budget import LEARNING_WORK
from weft.estimator.calibration import hide, tails_of_places
from weft.inference.single import condition
from weft.inference.with_habits import with_habits


@pytest.fixture(autouse=True)
def of_small_tables(monkeypatch):
    """A table of so many rows is no small one here."""
    monkeypatch.setattr("weft.estimator.calibration._FEW_ROWS", 100)


def made(num_places: int, num_times: int, seed: int = 0) -> weft.Observations:
    """Every place at every time, but for a few; values do not matter."""
    rng = np.random.default_rng(seed)
    places = rng.uniform(0, 100, (num_places, 2))
    times = np.repeat(np.arange(num_times, dtype=float), num_places)
    values = rng.normal(size=len(times))
    values[rng.permutation(len(values))[:7]] = np.nan
    return weft.Observations(times, np.tile(places, (num_times, 1)), values)


def places_of(data: weft.Observations, rows: np.ndarray) -> np.ndarray:
    return np.unique(np.asarray(data.grouping.place_of_row)[rows])


@pytest.mark.parametrize(
    ("num_places", "num_times", "turns", "at_once"),
    [
        (12, 80, 12, 1),
        (9, 90, 10, 1),
        (40, 20, 10, 4),
        (70, 12, 10, 7),
        (400, 4, 7, 40),
        (12, 900, 12, 1),
        (70, 200, 5, 7),
    ],
)
def test_so_many_turns_that_thirty_places_or_all_and_a_thousand_rows_or_all_are_hidden_once(
    num_places, num_times, turns, at_once
):
    data = made(num_places, num_times)
    found = hide(data, 2, 3, work=1.0)
    assert len(found) == turns
    each = [places_of(data, hidden.with_place) for hidden in found]
    together = np.concatenate(each)
    assert len(np.unique(together)) == len(together) == min(turns * at_once, num_places)
    assert len(together) >= min(30, num_places)
    for hidden, gone in zip(found, each, strict=True):
        # A hidden place is hidden altogether, and nothing else is but the turn's rows.
        assert not np.isin(gone, places_of(data, hidden.rest)).any()
        assert_array_equal(hidden.alone | hidden.with_place, ~hidden.rest)
    alone = np.sum([hidden.alone for hidden in found], axis=0)
    assert alone.max() == 1
    assert 0.05 < np.mean(found[0].alone) < 0.15
    # Some of the rows drawn are hidden with their places.
    assert np.sum(alone) >= 0.8 * min(1000, data.num_rows)
    if data.num_rows > 12_000:
        assert not any(hidden.alone.any() for hidden in found[1:])


def test_of_a_long_series_all_places_are_looked_at_in_the_same_stretches():
    data = made(12, 400)
    # Eleven turns more, within what learning may take, each over a fifth of the series.
    first, *later = hide(data, 2, 3, work=5 * LEARNING_WORK / 11)
    times = [np.unique(data.row_times[hidden.with_place]) for hidden in (first, *later)]
    assert 0.15 * 400 < len(times[0]) <= 0.2 * 400
    for each in times[1:]:
        # But for the few values that are missing.
        assert len(np.setxor1d(each, times[0])) <= 7
    assert len(np.unique(data.row_times[first.rest])) == 400
    assert all(np.isin(np.unique(data.row_times[hidden.rest]), times[0]).mean() > 0.95 for hidden in later)


def test_a_table_too_small_hides_nothing():
    assert hide(made(9, 10), 2, 0, work=1.0) == ()
    turns = hide(made(3, 300), 2, 0, work=1.0)
    assert len(turns) == 10
    assert not any(hidden.with_place.any() for hidden in turns)


# Parts of the known model: a field that all places share, levels of places, noise.
FIELD, LEVELS, NOISE = 1.0, 0.25, 0.04


def network(seed: int, num_seen: int = 12, num_new: int = 24, num_times: int = 45) -> tuple[np.ndarray, np.ndarray]:
    """Places, and values by time and place, drawn from the model."""
    rng = np.random.default_rng(seed)
    places = rng.uniform(0, 100, (num_seen + num_new, 2))
    apart = np.sqrt(np.sum((places[:, None] - places) ** 2, axis=-1)) / 80
    across = np.linalg.cholesky((1 + np.sqrt(3) * apart) * np.exp(-np.sqrt(3) * apart) + 1e-9 * np.eye(len(places)))
    decay = np.exp(-1 / 3.0)
    field = np.empty((num_times, len(places)))
    field[0] = across @ rng.normal(size=len(places))
    for time in range(1, num_times):
        field[time] = decay * field[time - 1] + np.sqrt(1 - decay**2) * across @ rng.normal(size=len(places))
    levels = np.sqrt(LEVELS) * rng.normal(size=len(places))
    return places, np.sqrt(FIELD) * field + levels + np.sqrt(NOISE) * rng.normal(size=field.shape)


def test_intervals_at_places_never_seen_hold_what_they_say():
    """The model knows the field, and takes levels for a fifth of what they are, as one learned from so few places may."""
    held, num_seen, seeds = [], 12, 20
    kernel = FIELD * weft.Separable(space=weft.Matern32([80.0, 80.0]), time=weft.Matern12(3.0))
    kernel += LEVELS / 5 * weft.Separable(space=weft.Matern12([1e-3, 1e-3]), time=weft.Constant())
    model = weft.Model(kernel, weft.Gaussian(NOISE))
    for seed in range(seeds):
        places, values = network(seed, num_seen)
        # As an estimator learns it, from the places seen: a level that all have in common.
        values = values - values[:, :num_seen].mean()
        times = np.arange(len(values), dtype=float)
        data = weft.Observations(
            np.repeat(times, num_seen), np.tile(places[:num_seen], (len(times), 1)), values[:, :num_seen].ravel()
        )

        def given(data: weft.Observations):
            return condition(model, data)

        tails = tails_of_places(given, model, data, (), num_space=2, seed=seed, is_settled=True)
        assert tails is not None
        assert len(distinct_places(tails.places)[0]) == num_seen
        posterior = with_habits(given, data, (tails,))
        new, num_new = places[num_seen:], len(places) - num_seen
        found = posterior.predict(np.repeat(times, num_new), np.tile(new, (len(times), 1)))
        pit = found.score(values[:, num_seen:].ravel(), seed).pit
        held.append([np.mean(np.abs(pit - 0.5) <= level / 2) for level in (0.5, 0.9)])
    # Three standard errors of the mean over seeds, of which each has a scale from twelve levels: about 0.12 and 0.07 a seed.
    error = np.std(held, axis=0) / np.sqrt(seeds)
    assert np.all(error < [0.03, 0.02])
    assert np.all(np.abs(np.mean(held, axis=0) - [0.5, 0.9]) < 3 * error), np.mean(held, axis=0)


@pytest.mark.parametrize("is_heavy", [False, True])
def test_a_small_table_has_tails_of_its_own_only_where_hidden_rows_say_so_clearly(monkeypatch, is_heavy):
    monkeypatch.undo()
    rng = np.random.default_rng(4)
    places, values = network(4, 12, 0)
    times = np.arange(len(values), dtype=float)
    kernel = FIELD * weft.Separable(space=weft.Matern32([80.0, 80.0]), time=weft.Matern12(3.0))
    kernel += LEVELS * weft.Separable(space=weft.Matern12([1e-3, 1e-3]), time=weft.Constant())
    if is_heavy:
        values = values + 0.3 * rng.standard_t(2.5, size=values.shape)
    # Noise of the same variance, as a fit would find it.
    model = weft.Model(kernel, weft.Gaussian(NOISE + (0.3**2 * 5 if is_heavy else 0.0)))
    data = weft.Observations(np.repeat(times, 12), np.tile(places, (len(times), 1)), values.ravel())

    def tails(*, is_settled: bool):
        return tails_of_places(
            lambda data: condition(model, data), model, data, (), num_space=2, seed=0, is_settled=is_settled
        )

    found = tails(is_settled=True)
    assert tails(is_settled=False) is None
    if not is_heavy:
        assert found is None
        return
    assert found is not None
    assert found.seen.freedom < 10
