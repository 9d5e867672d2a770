# SPDX-License-Identifier: MIT
"""Components chosen by samples of a table, habits of its places, and scales that no data can have told."""

import numpy as np
import pandas as pd
import pytest
from scipy.signal import lfilter

import weft
from weft.estimator import building, learning
from weft.estimator.components import degenerate_scales, elsewhere, names_by_scale

PLACES, DAYS = 16, 150
LATE, LOUD, HIGH = 7, 3, 5


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    """A field that forgets in two days, with one place a day late, one noisy and one that reads high."""
    rng = np.random.default_rng(4)
    lon, lat = rng.uniform(10, 13, PLACES), rng.uniform(44, 46, PLACES)
    where = np.column_stack([78 * lon, 111 * lat])
    distance = np.sqrt(np.sum((where[:, None] - where) ** 2, axis=-1)) / 150 * np.sqrt(3)
    factor = np.linalg.cholesky((1 + distance) * np.exp(-distance) + 1e-9 * np.eye(PLACES))
    field = np.zeros((DAYS + 1, PLACES))
    for day in range(1, DAYS + 1):
        field[day] = 0.6 * field[day - 1] + 0.8 * factor @ rng.normal(size=PLACES)
    values = 3 * field[1:]
    values[:, LATE] = 3 * field[:-1, LATE]
    deviation = np.full(PLACES, 0.4)
    deviation[LOUD] = 1.6
    values = 10 + values + deviation * rng.normal(size=values.shape)
    values[:, HIGH] += 4.0
    days = np.repeat(pd.date_range("2021-03-01", periods=DAYS), PLACES)
    columns = {"lon": np.tile(lon, DAYS), "lat": np.tile(lat, DAYS), "place": np.tile(np.arange(PLACES), DAYS)}
    return pd.DataFrame({"day": days, **columns, "value": values.ravel()})


@pytest.fixture(scope="module")
def fitted(table) -> weft.SpaceTimeGP:
    roles = {"time": "day", "space": ("lon", "lat"), "target": "value"}
    return weft.SpaceTimeGP(**roles, components="auto", habits="auto", progress=None).fit(table)


def test_what_was_tried_is_told(fitted):
    assert any(line.startswith("slow component rough in space") for line in fitted.fitted_.trials)
    assert "tried: local component" in fitted.summary()
    assert fitted.component_names_[:2] == ("slow", "fast")


def network(*, rough: bool) -> pd.DataFrame:
    """Forty places with a field that changes in weeks and one that changes in days, both rough or both smooth in space."""
    rng = np.random.default_rng(5)
    where = rng.uniform(0, 600, (40, 2))
    apart = np.sqrt(np.sum((where[:, None] - where) ** 2, axis=-1))

    def spread(draws: np.ndarray, length: float) -> np.ndarray:
        scaled = apart / length if rough else np.sqrt(3) * apart / length
        covariance = np.exp(-scaled) if rough else (1 + scaled) * np.exp(-scaled)
        return draws / draws.std() @ np.linalg.cholesky(covariance + 1e-9 * np.eye(40)).T

    slow, fast = rng.normal(size=(2, 320, 40))
    # Of two orders: a slow component of one would be smooth in time to none.
    slow, fast = lfilter([1.0], [1, -1.9, 0.9025], slow, axis=0)[200:], lfilter([1.0], [1, -0.4], fast, axis=0)[200:]
    values = spread(slow, 600.0) + 0.7 * spread(fast, 400.0) + 0.2 * rng.normal(size=(120, 40))
    days = np.repeat(pd.date_range("2021-03-01", periods=120), 40)
    return pd.DataFrame(
        {"day": days, "x": np.tile(where[:, 0], 120), "y": np.tile(where[:, 1], 120), "value": values.ravel()}
    )


@pytest.mark.slow
@pytest.mark.parametrize("rough", [True, False])
def test_both_components_are_rough_where_they_were_made_so(rough):
    roles = {"time": "day", "space": ("x", "y"), "target": "value"}
    gp = weft.SpaceTimeGP(**roles, habits=None, max_iterations=1, progress=None).fit(network(rough=rough))
    (trial,) = [line for line in gp.fitted_.trials if line.startswith("both components rough in space")]
    assert trial.endswith("kept" if rough else "left")


@pytest.mark.parametrize(
    ("lengths", "times", "expected"),
    [
        # As they started.
        ((500.0, 300.0, 30.0), (100.0, 2.0, 200.0), ("slow", "fast", "local")),
        # What started as local took all that is wide and lasts, and the other two share the weather.
        ((400.0, 29.0, 1860.0), (1.3, 1.1, 246.0), ("fast", "local", "slow")),
    ],
)
def test_components_are_called_what_they_have_become(lengths, times, expected):
    parts = [
        weft.Separable(space=weft.Matern32([length, 3 * length]), time=weft.Matern12(time), variance=0.5)
        for length, time in zip(lengths, times, strict=True)
    ]
    yearly = weft.Separable(space=weft.Matern32([1.0, 1.0]), time=weft.Periodic(365.0, 1.0))
    model = weft.Model(weft.SumSeparable([*parts[:2], yearly, parts[2]]), weft.Gaussian(0.1))
    found = names_by_scale(("slow", "fast", "yearly", "local"), model)
    assert found == (*expected[:2], "yearly", expected[2])
    # Where places are of kinds, the lengths are within; where a kernel was given, there is nothing to name.
    kinds = weft.Columns(weft.Alike(3, 0.4), (2,))
    of_kinds = [
        weft.Separable(space=weft.Columns(part.space, (0, 1)) * kinds, time=part.time, variance=0.5) for part in parts
    ]
    assert (
        names_by_scale(("slow", "fast", "local"), weft.Model(weft.SumSeparable(of_kinds), weft.Gaussian(0.1)))
        == expected
    )
    # A slow and a fast one alone keep their order.
    turned = weft.Model(weft.SumSeparable([parts[1], parts[0]]), weft.Gaussian(0.1))
    assert names_by_scale(("slow", "fast"), turned) == ("slow", "fast")
    assert names_by_scale(("component 1",), weft.Model(parts[0], weft.Gaussian(0.1))) == ("component 1",)
    moved = elsewhere(weft.Model(weft.SumSeparable(of_kinds), weft.Gaussian(0.1)), [1], np.array([40.0, 80.0]))
    assert moved.kernel.components[1].space.first.kernel.lengthscale.tolist() == [10.0, 20.0]


def test_dates_that_are_off_are_listed(fitted, table):
    places = table.drop_duplicates("place").reset_index(drop=True)
    found = fitted.habits_
    assert list(found.columns) == ["lon", "lat", "habit", "value", "sd", "found"]
    clear = found[(found["habit"] == "shift") & found["found"]]
    assert len(clear) == 1
    away = np.hypot(clear["lon"].to_numpy() - places["lon"][LATE], clear["lat"].to_numpy() - places["lat"][LATE])
    assert away[0] < 1e-6
    assert clear["value"].iloc[0] == -1.0
    assert "dated a step off" in fitted.summary()


def test_answers_survive_a_file(fitted, table, tmp_path):
    fitted.save(tmp_path / "model.weft")
    loaded = weft.load(tmp_path / "model.weft")
    asked = table.iloc[::97]
    pd.testing.assert_frame_equal(loaded.predict(asked), fitted.predict(asked))
    assert loaded.fitted_.trials == fitted.fitted_.trials
    pd.testing.assert_frame_equal(loaded.habits_, fitted.habits_)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"components": ("slow", "quick")}, "components must be 'auto' or some of slow, fast, local, yearly"),
        ({"components": ("yearly",)}, "one of slow, fast, local at least"),
        (
            {"habits": ("level", "mood")},
            "habits must be 'auto', None or some of shift, level, noise; one of them is 'mood'",
        ),
    ],
)
def test_settings_that_cannot_be_are_refused(table, settings, said):
    gp = weft.SpaceTimeGP(time="day", space=("lon", "lat"), target="value", progress=None, **settings)
    with pytest.raises(ValueError, match=said):
        gp.fit(table.iloc[:300])


def test_named_components_are_taken_as_they_are(table):
    gp = weft.SpaceTimeGP(
        time="day",
        space=("lon", "lat"),
        target="value",
        components=("fast", "local"),
        habits=None,
        max_iterations=1,
        progress=None,
    ).fit(table.iloc[:400])
    assert gp.component_names_ == ("fast", "local")
    assert gp.fitted_.trials == ()
    assert len(gp.habits_) == 0


def test_degenerate_scales_are_named():
    def kernel(lengths: list[float], variance: float) -> weft.Separable:
        return weft.Separable(space=weft.Matern32(lengths), time=weft.Matern12(2.0), variance=variance)

    extent = np.array([500.0, 300.0])
    stripes = weft.Model(kernel([66_300.0, 9.8], 0.7) + kernel([100.0, 80.0], 0.2), weft.Gaussian(0.1))
    (said,) = degenerate_scales(stripes, ("slow", "fast"), extent)
    assert "The slow component is 133 times as long as the map in one direction and 0.033 in another" in said
    gone = weft.Model(kernel([100.0, 80.0], 0.7) + kernel([100.0, 80.0], 1e-6), weft.Gaussian(0.1))
    (said,) = degenerate_scales(gone, ("slow", "fast"), extent)
    assert said.startswith("The fast component has no variance")
    # Long in every direction is a slope, not a stripe; and noise may be small, but not as good as nothing.
    fine = weft.Model(kernel([60_000.0, 50_000.0], 9.0) + kernel([100.0, 80.0], 0.2), weft.Gaussian(0.01))
    assert degenerate_scales(fine, ("slow", "fast"), extent) == []
    silent = weft.Model(kernel([100.0, 80.0], 0.7) + kernel([50.0, 80.0], 0.2), weft.Gaussian(1e-10))
    assert "noise is as good as zero" in degenerate_scales(silent, ("slow", "fast"), extent)[0]


def test_a_component_that_ended_at_nothing_is_begun_again_elsewhere(caplog):
    """At a variance of nothing its slope is nothing too, and a climb stays there, although the data have two components."""
    rng = np.random.default_rng(8)
    times, places = np.repeat(np.arange(40.0), 12), np.tile(rng.uniform(0, 10, (12, 2)), (40, 1))

    def separable(length: float, time: float, variance: float) -> weft.Separable:
        return weft.Separable(space=weft.Matern32([length, length]), time=weft.Matern12(time), variance=variance)

    def model(fast: float) -> weft.Model:
        return weft.Model(separable(8.0, 50.0, 1.0) + separable(3.0, 1.5, fast), weft.Gaussian(0.05))

    empty = weft.Observations(times[:1], places[:1], np.zeros(1), noise_variance=1e6)
    values = weft.condition(model(1.0), empty).sample(times, places, num=1, seed=1)[0]
    data = weft.Observations(times, places, values + 0.2 * rng.normal(size=len(times)))
    options = learning.options_among({"time": "time", "space": ("x", "y"), "target": "value"})
    start = building.Start(model(1e-12), (), {}, ("slow", "fast"))
    first = learning.learn_from_parts(options, start, [data], data.num_rows, {"progress": None})
    extent = np.ptp(places, axis=0)
    assert degenerate_scales(first.model, start.names, extent)
    with caplog.at_level("INFO", logger="weft"):
        found = learning._or_from_elsewhere(options, start, first, [data], extent, {"progress": None})
    assert "the fast component ended where nothing tells it" in caplog.text
    assert found.objective > first.objective + 3
    assert found.num_evaluations > first.num_evaluations
    assert degenerate_scales(found.model, start.names, extent) == []
    # What is not degenerate is left alone.
    assert learning._or_from_elsewhere(options, start, found, [data], extent, {"progress": None}) is found

    def interrupt(step) -> None:
        raise KeyboardInterrupt

    # An interrupt on the way from elsewhere is one of the fit, whichever end is the better.
    assert first.converged
    ended = learning._or_from_elsewhere(
        options, start, first, [data], extent, {"progress": None, "callback": interrupt}
    )
    assert ended.outcome is weft.Outcome.INTERRUPTED
    assert ended.objective >= first.objective


@pytest.mark.parametrize("is_seasonal", [True, False])
def test_a_year_that_differs_from_valley_to_coast_is_found(is_seasonal):
    """Where places have cycles of their own; and where there is only weather, none is."""
    rng = np.random.default_rng(6)
    months, num_places = 168, 14
    lon, lat = rng.uniform(10, 13, num_places), rng.uniform(44, 46, num_places)
    where = np.column_stack([78 * lon, 111 * lat])
    near = np.exp(-np.sqrt(np.sum((where[:, None] - where) ** 2, axis=-1)) / 200)
    factor = np.linalg.cholesky(near + 1e-9 * np.eye(num_places))
    weather = np.zeros((months, num_places))
    for month in range(1, months):
        weather[month] = 0.3 * weather[month - 1] + factor @ rng.normal(size=num_places)
    angle = 2 * np.pi * np.arange(months)[:, None] / 12
    strength = 8 + 3 * factor @ rng.normal(size=num_places)
    cycle = strength * np.sin(angle + 0.3 * factor @ rng.normal(size=num_places)) if is_seasonal else 0.0
    values = 10 + cycle + weather + 0.3 * rng.normal(size=weather.shape)
    table = pd.DataFrame(
        {
            "month": np.repeat(pd.date_range("2001-01-01", periods=months, freq="MS"), num_places),
            "lon": np.tile(lon, months),
            "lat": np.tile(lat, months),
            "value": values.ravel(),
        }
    )
    gp = weft.SpaceTimeGP(time="month", space=("lon", "lat"), target="value", habits=None, progress=None).fit(table)
    assert any(name.startswith("yearly") for name in gp.component_names_) == is_seasonal
    assert ("tried: yearly season of places" in gp.summary()) == is_seasonal
    assert ("period 365.2 days" in gp.summary()) == is_seasonal


def test_a_field_livelier_in_the_west_is_found_and_kept_in_files(tmp_path):
    rng = np.random.default_rng(7)
    count = 2_100
    lon, lat, day = rng.uniform(-30, -10, count), rng.uniform(30, 45, count), rng.uniform(0, 300, count)
    where = np.column_stack([86 * lon, 111 * lat])
    waves = rng.normal(size=(2, 300)) / 150
    fast = np.sqrt(2 / 300) * np.cos(
        where @ waves + rng.normal(size=300) / 15 * day[:, None] + rng.uniform(0, 6.28, 300)
    ).sum(1)
    values = 10 + 0.1 * lat + np.where(lon < -20, 2.0, 0.4) * fast + 0.1 * rng.normal(size=count)
    table = pd.DataFrame(
        {"day": pd.Timestamp("2021-01-01") + pd.to_timedelta(day, "D"), "lon": lon, "lat": lat, "value": values}
    )
    gp = weft.SpaceTimeGP(time="day", space=("lon", "lat"), target="value", habits=None, progress=None).fit(table)
    assert "here as there" in gp.summary()
    asked = pd.DataFrame({"day": [table["day"][0]] * 2, "lon": [-25.3, -14.7], "lat": [37.2, 37.2]})
    sd = gp.predict(asked)["sd"]
    assert sd[0] > 1.5 * sd[1]
    gp.save(tmp_path / "uneven.weft")
    pd.testing.assert_frame_equal(weft.load(tmp_path / "uneven.weft").predict(asked), gp.predict(asked))
