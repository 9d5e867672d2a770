# SPDX-License-Identifier: MIT
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.baselines import available_baselines, fit_baseline, natural_periods, neighbours
from weft.baselines.boosting import boosting_features
from weft.baselines.record import make_record
from weft.scores import score_rows, summarise

rows = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(0, 2), st.floats(-5, 5)), min_size=1, max_size=15
)
queries = st.lists(st.tuples(st.floats(-1, 6), st.floats(-1, 4), st.floats(-1, 3)), min_size=1, max_size=6)


def columns(rows):
    times, first, second, values = np.array(rows, dtype=np.float64).T
    return times, np.stack([first, second], axis=1), values


def weighted_neighbours(times, places, values, time, place, num_neighbours):
    """The definition: at the nearest time, the nearest few, by 1 / distance^2. None where a tie decides."""
    gaps = np.abs(times - time)
    nearest_times = times[gaps == gaps.min()]
    at = np.flatnonzero(times == nearest_times.min())
    distance = np.linalg.norm(places[at] - place, axis=1)
    order = np.argsort(distance, kind="stable")
    chosen, left = order[:num_neighbours], order[num_neighbours:]
    if len(left) and np.isclose(distance[chosen].max(), distance[left].min()):
        return None
    if np.any(distance[chosen] == 0):
        return values[at][chosen][distance[chosen] == 0].mean()
    # Relative to the least, whose square may be too small for a number.
    return np.average(values[at][chosen], weights=(distance[chosen] / distance[chosen].min()) ** -2.0)


@settings(max_examples=80, deadline=None)
@given(rows, queries, st.sampled_from([("nearest_station", 1), ("inverse_distance", 8)]))
def test_neighbours_equal_their_definition(rows, queries, which):
    name, num_neighbours = which
    times, places, values = columns(rows)
    query = np.array(queries)
    got = fit_baseline(name, times, places, values).predict(query[:, 0], query[:, 1:])
    assert np.all(got.sd > 0)
    for mean, (time, *place) in zip(got.mean, queries, strict=True):
        expected = weighted_neighbours(times, places, values, time, np.array(place), num_neighbours)
        if expected is not None:
            np.testing.assert_allclose(mean, expected, rtol=1e-9, atol=1e-9)


@settings(max_examples=80, deadline=None)
@given(rows, queries)
def test_persistence_equals_its_definition(rows, queries):
    times, places, values = columns(rows)
    # At places seen; values at one place and time may repeat, so the last of them is not determined: keep one.
    _, kept = np.unique(np.column_stack([times, places]), axis=0, return_index=True)
    times, places, values = times[kept], places[kept], values[kept]
    query = np.array(queries)[:, 0]
    at = places[np.arange(len(query)) % len(places)]
    got = fit_baseline("persistence", times, places, values).predict(query, at)
    assert np.all(got.sd > 0)
    for mean, time, place in zip(got.mean, query, at, strict=True):
        earlier = np.flatnonzero((times < time) & np.all(places == place, axis=1))
        expected = values[earlier[np.argmax(times[earlier])]] if len(earlier) else values.mean()
        np.testing.assert_allclose(mean, expected, rtol=1e-12, atol=1e-12)


def test_neighbours_are_the_same_however_many_times_share_a_tree(monkeypatch):
    rng = np.random.default_rng(3)
    times, places, values = rng.integers(0, 40, 300).astype(float), rng.normal(size=(300, 3)), rng.normal(size=300)
    asked = rng.uniform(-2, 42, 50), rng.normal(size=(50, 3))
    found = []
    for at_once in (1, 37, 10**6):
        monkeypatch.setattr(neighbours, "_ROWS_AT_ONCE", at_once)
        found.append(fit_baseline("inverse_distance", times, places, values).predict(*asked))
    for other in found[1:]:
        np.testing.assert_allclose(other.mean, found[0].mean, rtol=1e-12)
        np.testing.assert_allclose(other.sd, found[0].sd, rtol=1e-12)


def test_persistence_at_a_new_place_takes_the_nearest_one():
    baseline = fit_baseline("persistence", np.array([0.0, 0.0]), np.array([[0.0], [10.0]]), np.array([1.0, 2.0]))
    np.testing.assert_array_equal(baseline.predict(np.array([1.0, 1.0]), np.array([[4.0], [6.0]])).mean, [1.0, 2.0])


def test_climatology_finds_means_and_cycle():
    """Two stations, of which one reports in half of the year only, and a yearly wave: least squares is the oracle."""
    generator = np.random.default_rng(0)
    times = np.concatenate([np.arange(0.0, 1500.0), np.arange(0.0, 1500.0)[np.arange(1500) % 365 < 180]])
    place = np.repeat([0, 1], [1500, len(times) - 1500])
    wave = 2 * np.pi * times / 365.2425
    values = (
        np.where(place == 0, 10.0, -3.0) + 4 * np.sin(wave) - 2 * np.cos(2 * wave) + generator.normal(size=len(times))
    )
    shuffled = generator.permutation(len(times))
    baseline = fit_baseline(
        "climatology", times[shuffled], place[shuffled, None] * 1.0, values[shuffled], periods=(365.2425,)
    )
    design = np.column_stack(
        [place == 0, place == 1, *(f(k * wave) for k in (1, 2, 3) for f in (np.sin, np.cos))]
    ).astype(float)
    fitted = design @ np.linalg.lstsq(design, values, rcond=None)[0]
    got = baseline.predict(times, place[:, None] * 1.0)
    # Ten rounds of turning by turn, not the limit: a tenth of the standard error of a mean.
    np.testing.assert_allclose(got.mean, fitted, atol=0.01)
    np.testing.assert_allclose(got.sd, 1.0, rtol=0.05)
    new = baseline.predict(times[:5], np.full((5, 1), 7.0))
    np.testing.assert_allclose(new.mean - got.mean[:5], (-3.0 - 10.0) / 2, atol=0.1)
    assert np.all(new.sd > 9.0)  # two stations 13 apart: a third may be anywhere


def test_climatology_without_cycles_is_the_mean_of_each_station_left_out():
    values = np.array([1.0, 2.0, 6.0, 10.0, 14.0, 5.0])
    place = np.array([0, 0, 0, 1, 1, 2])
    baseline = fit_baseline("climatology", np.arange(6.0), place[:, None] * 1.0, values)
    got = baseline.predict(np.zeros(4), np.array([[0.0], [1.0], [2.0], [3.0]]))
    np.testing.assert_allclose(got.mean, [3.0, 12.0, 5.0, (3.0 + 12.0 + 5.0) / 3])
    left_out = [1 - 4.0, 2 - 3.5, 6 - 1.5, 10 - 14.0, 14 - 10.0]
    within = np.mean(np.square(left_out))
    expected = [
        (np.sum(np.square(left_out[:3])) + 10 * within) / 13,
        (np.sum(np.square(left_out[3:])) + 10 * within) / 12,
    ]
    np.testing.assert_allclose(got.sd[:2] ** 2, expected)
    np.testing.assert_allclose(got.sd[3] ** 2, within + np.var([3.0, 12.0, 5.0], ddof=1) * (1 + 1 / 3))


@pytest.fixture(scope="module")
def weather():
    """A field that is smooth in space and short-lived in time, with a yearly wave, at 25 stations for 3 years."""
    generator = np.random.default_rng(1)
    stations = generator.uniform(0, 300, size=(25, 2))
    distance = np.linalg.norm(stations[:, None] - stations[None], axis=2)
    root = np.linalg.cholesky(np.exp(-distance / 150) + 1e-9 * np.eye(25))
    field = np.zeros((1000, 25))
    for day in range(1, 1000):
        field[day] = 0.7 * field[day - 1] + np.sqrt(1 - 0.7**2) * root @ generator.normal(size=25)
    values = 10 + 5 * np.sin(2 * np.pi * np.arange(1000) / 365.2425)[:, None] + 3 * field
    times, place = np.meshgrid(np.arange(1000.0), np.arange(25), indexing="ij")
    return times.ravel(), stations[place.ravel()], values.ravel()


@pytest.mark.parametrize("name", available_baselines())
@pytest.mark.parametrize("held_out", ["random", "time"])
def test_deviations_are_honest(weather, name, held_out):
    times, places, values = weather
    generator = np.random.default_rng(2)
    test = generator.uniform(size=len(times)) < 0.2 if held_out == "random" else times >= 900
    baseline = fit_baseline(name, times[~test], places[~test], values[~test], periods=(365.2425,))
    forecast = baseline.predict(times[test], places[test])
    scores = summarise(score_rows(values[test], forecast.mean, forecast.sd))
    # A hundred days ahead is one draw of a field, so its coverage wanders.
    assert (0.85 if held_out == "random" else 0.75) < scores["coverage_90"] <= 1.0
    mean = values[~test].mean()
    overall = summarise(score_rows(values[test], np.full(test.sum(), mean), np.full(test.sum(), values[~test].std())))
    if held_out == "random":
        assert scores["mean_crps"] < overall["mean_crps"]


def test_deviation_grows_with_distance_and_with_waiting(weather):
    times, places, values = weather
    near = fit_baseline("nearest_station", times, places, values)
    assert near.bin_sd[-1] > 1.3 * near.bin_sd[0]
    wait = fit_baseline("persistence", times, places, values)
    soon, late = (wait.predict(np.array([1000.0 + lag]), places[:1]).sd[0] for lag in (0.0, 20.0))
    # One day: 3 sqrt(2 (1 - 0.7)) = 2.3; far ahead: 3 sqrt(2) = 4.2, and the wave beside.
    assert soon == pytest.approx(2.3, rel=0.1)
    assert late > 3.8
    same, other = (near.predict(np.array([time]), places[:1] + 1.0).sd[0] for time in (999.0, 1005.0))
    assert other > 1.3 * same


@pytest.mark.parametrize("name", available_baselines())
def test_order_missing_values_seeds_and_small_tables(weather, name):
    times, places, values = (column[:500] for column in weather)
    order = np.random.default_rng(3).permutation(500)
    with_missing = values.copy()
    with_missing[::7] = np.nan
    kept = ~np.isnan(with_missing)
    plain = fit_baseline(name, times[kept], places[kept], values[kept]).predict(times, places + 0.5)
    other = fit_baseline(name, times[order], places[order], with_missing[order]).predict(times, places + 0.5)
    np.testing.assert_allclose(other.mean, plain.mean, rtol=1e-12)
    np.testing.assert_allclose(other.sd, plain.sd, rtol=1e-12)
    one = fit_baseline(name, times[:1], places[:1], values[:1]).predict(times[:2] + 3.0, places[:2])
    assert np.all(np.isfinite(one.mean))
    assert np.all(one.sd > 0)
    still = fit_baseline(name, times, places, np.full(500, 4.0)).predict(times[:5], places[:5])
    np.testing.assert_allclose(still.mean, 4.0)
    assert np.all(still.sd > 0)
    nowhere = fit_baseline(name, times, np.zeros((500, 0)), values).predict(times[:5], np.zeros((5, 0)))
    assert np.all(np.isfinite(nowhere.mean))
    with pytest.raises(ValueError, match="all 3 are missing"):
        fit_baseline(name, np.arange(3.0), np.zeros((3, 1)), np.full(3, np.nan))


def test_names_and_periods():
    with pytest.raises(ValueError, match="must be one of climatology"):
        fit_baseline("oracle", np.zeros(1), np.zeros((1, 1)), np.zeros(1))
    assert natural_periods(86400.0, span=700.0, step=1.0) == (365.2425,)
    assert natural_periods(3600.0, span=35_000.0, step=1.0) == (8765.82, 24.0)
    assert natural_periods(86400.0, span=100.0, step=1.0) == ()


def test_nearest_rows_are_near_in_space_and_time(weather):
    """The definition, at the speed that was chosen: ten rows by 1 / distance^2 of place and time together."""
    times, places, values = (column[:2000] for column in weather)
    baseline = fit_baseline("nearest_rows", times, places, values)
    at, where = np.array([3.4, 20.0]), np.array([[40.0, 70.0], [10.0, 250.0]])
    got = baseline.predict(at, where)
    for mean, time, place in zip(got.mean, at, where, strict=True):
        distance = np.sqrt(np.sum((places - place) ** 2, axis=1) + (baseline.neighbourhood.speed * (times - time)) ** 2)
        near = np.argsort(distance)[:10]
        np.testing.assert_allclose(mean, np.average(values[near], weights=distance[near] ** -2.0))


def test_kriging_is_ordinary_kriging(weather):
    """Weights that sum to one, by Lagrange's multiplier, from the thirty nearest rows and the variogram learned."""
    times, places, values = (column[:2000] for column in weather)
    baseline = fit_baseline("local_kriging", times, places, values)
    at, where = np.array([3.4, 20.0]), np.array([[40.0, 70.0], [10.0, 250.0]])
    got = baseline.predict(at, where)
    points = np.column_stack([places, baseline.neighbourhood.speed * times])

    def semivariance(distance):
        return np.where(distance > 0, baseline.nugget + baseline.sill * (1 - np.exp(-distance / baseline.reach)), 0.0)

    for mean, sd, time, place in zip(got.mean, got.sd, at, where, strict=True):
        away = np.linalg.norm(points - np.append(place, baseline.neighbourhood.speed * time), axis=1)
        near = np.argsort(away)[:30]
        between = np.linalg.norm(points[near][:, None] - points[near], axis=2)
        system = np.ones((31, 31))
        system[:30, :30], system[30, 30] = semivariance(between), 0.0
        right = np.append(semivariance(away[near]), 1.0)
        solved = np.linalg.solve(system, right)
        # The unknown mean has a variance of a hundred sills there, and an infinite one here.
        np.testing.assert_allclose(mean, solved[:30] @ values[near], rtol=1e-2)
        np.testing.assert_allclose(sd / baseline.factor, np.sqrt(solved @ right), rtol=1e-2)


def test_floats_that_never_meet_have_neighbours():
    """Rows of which no two share a time: what is near on other days tells more than anything at the same time."""
    generator = np.random.default_rng(5)
    times, places = generator.uniform(0, 400, 3000), generator.uniform(0, 100, (3000, 2))
    values = np.sin(places[:, 0] / 15) + np.cos(places[:, 1] / 20 + times / 150) + 0.1 * generator.normal(size=3000)
    test = np.arange(3000) % 5 == 0
    error = {}
    for name in ("inverse_distance", "nearest_rows", "local_kriging"):
        got = fit_baseline(name, times[~test], places[~test], values[~test]).predict(times[test], places[test])
        error[name] = np.sqrt(np.mean((got.mean - values[test]) ** 2))
    assert error["nearest_rows"] < 0.4 * error["inverse_distance"]
    assert error["local_kriging"] < error["nearest_rows"]


@pytest.mark.parametrize("num_places", [1, 2, 5, 20])
def test_boosting_has_the_same_features_to_learn_from_and_to_predict_by(num_places):
    """Of few places, one that is left out of its own neighbourhood had one neighbour fewer than a new one, which no tree knew."""
    rng = np.random.default_rng(num_places)
    times, places = np.repeat(np.arange(4.0), num_places), np.tile(rng.normal(size=(num_places, 2)), (4, 1))
    values = rng.normal(size=4 * num_places)
    record = make_record(times, places, values)
    known = boosting_features(record, times, places, (), record.place)
    assert known.shape[1] == boosting_features(record, times, places + 0.1, (), None).shape[1]
    # Nothing that a row is to be told by is the row itself.
    for row, features in enumerate(known):
        assert not np.any(features[:-2] == record.values[row])
