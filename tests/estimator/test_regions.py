# SPDX-License-Identifier: MIT
"""Regions behind an estimator: asked for, chosen, listed, saved, updated."""

import logging

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from numpy.testing import assert_allclose, assert_array_equal

import weft
from weft.data.observations import take_rows
from weft.estimator.budget import PASS_WORK
from weft.estimator.wide import Glance, at_a_glance, regional_of
from weft.inference.regional import RegionalPosterior
from weft.inference.single import SinglePosterior, condition
from weft.report.components import shares_of_variance
from weft.report.regions import region_figures, region_words
from weft.report.rows import rows_of_table

ARGUMENTS = {"time": "time", "space": ("lon", "lat"), "target": "value", "max_iterations": 3, "progress": None}


@pytest.fixture(scope="module")
def table():
    """Profiles on both sides of the antimeridian, none twice at a place, each at an hour of its own."""
    rng = np.random.default_rng(1)
    lon, lat = rng.uniform(165, 195, 260), rng.uniform(20, 45, 260)
    hours = rng.permutation(20_000)[:260] / 10
    warm = 20 - 0.3 * lat + np.sin(lon / 4) + 0.5 * np.cos(hours / 400) + 0.2 * rng.normal(size=260)
    lon = np.where(lon > 180, lon - 360, lon)
    return pd.DataFrame(
        {"time": pd.Timestamp("2016-01-01") + pd.to_timedelta(hours, "h"), "lon": lon, "lat": lat, "value": warm}
    )


@pytest.fixture(scope="module")
def cut_up(table):
    return weft.SpaceTimeGP(**ARGUMENTS, regions=4).fit(table[:220])


def test_a_sum_over_several_regions_says_that_it_was_drawn(table, cut_up):
    assert cut_up.aggregate(table[:60])["uncertainty"].item() == "sampled"
    assert cut_up.aggregate(table[:1])["uncertainty"].item() == "exact"


def test_regions_asked_for_answer_nearly_as_one_model_does(table, cut_up):
    whole = weft.SpaceTimeGP(**ARGUMENTS, regions=None, pseudo_points=None, kernel=cut_up.model_.kernel).set_params(
        likelihood=cut_up.model_.likelihood, max_iterations=0
    )
    one = whole.fit(table[:220]).predict(table[220:])
    several = cut_up.predict(table[220:])
    # Parameters after three iterations reach across the whole table, which no region sees.
    assert np.sqrt(np.mean(((several["mean"] - one["mean"]) / one["sd"]) ** 2)) < 0.25
    assert_allclose(several["sd"], one["sd"], rtol=0.1)


class Killed(BaseException):
    """As good as `kill -9`: nothing but the checkpoint is left, and nothing catches it."""


def test_a_fit_killed_before_it_answers_learns_nothing_twice(table, cut_up, tmp_path, monkeypatch):
    def kill(*arguments):
        raise Killed

    again = weft.SpaceTimeGP(**ARGUMENTS, regions=4)
    with monkeypatch.context() as patched:
        patched.setattr("weft.estimator.learning.answering", kill)
        with pytest.raises(Killed):
            again.fit(table[:220], checkpoint=tmp_path / "fit.checkpoint")
    monkeypatch.setattr("weft.training.fitting.maximise", kill)
    again.fit(table[:220], checkpoint=tmp_path / "fit.checkpoint", resume=True)
    assert again.result_.num_engine_calls == 0
    assert_array_equal(again.predict(table[220:])["mean"], cut_up.predict(table[220:])["mean"])
    assert_array_equal(again.predict(table[220:])["sd"], cut_up.predict(table[220:])["sd"])


def test_they_are_listed_in_columns_people_know(table, cut_up):
    found = cut_up.regions_
    assert len(found) == 4
    assert found["rows"].sum() == 220
    assert found["lat"].between(20, 45).all()
    assert (found["lon"].abs() >= 164).all()


@pytest.mark.parametrize("space", [("east", "north"), ("lon", "lat", "depth")])
def test_metres_of_a_projection_and_depth_are_as_good_as_degrees(table, space):
    """What is near is learned in the columns there are: regions answer as one model with the same parameters does."""
    rng = np.random.default_rng(4)
    east = 3.1e5 + 9e4 * np.mod(table["lon"], 360.0).sub(165)
    rows = table.assign(east=east, north=4.2e6 + 1.1e5 * table["lat"], depth=rng.uniform(0, 300, len(table)))
    arguments = ARGUMENTS | {"space": space, "components": ("slow", "fast"), "habits": None, "max_iterations": 0}
    several, one = (weft.SpaceTimeGP(**arguments, regions=count).fit(rows[:220]) for count in (3, None))
    found, expected = several.predict(rows[220:]), one.predict(rows[220:])
    # Parameters are where learning would begin, with lengths of a part of the table.
    assert np.sqrt(np.mean(((found["mean"] - expected["mean"]) / expected["sd"]) ** 2)) < 0.2
    assert_allclose(found["sd"], expected["sd"], rtol=0.1)
    assert several.regions_[list(space)].notna().all().all()
    for name in space:
        assert several.regions_[name].between(rows[name].min(), rows[name].max()).all()


def test_updates_and_files_keep_them(table, cut_up, tmp_path):
    cut_up.save(tmp_path / "model.weft")
    again = weft.load(tmp_path / "model.weft")
    expected = cut_up.predict(table[220:])
    assert_allclose(again.predict(table[220:])["mean"], expected["mean"], rtol=1e-9)
    again.update(table[220:240])
    assert again.regions_["rows"].sum() == 240
    closer = again.predict(table[220:240])
    assert (closer["sd"] < expected["sd"][:20]).all()


def test_one_model_is_enough_for_a_small_table(table):
    gp = weft.SpaceTimeGP(**ARGUMENTS).fit(table[:60])
    assert not isinstance(gp.posterior_, RegionalPosterior)
    assert len(gp.regions_) == 0


def test_what_regions_may_be(table):
    with pytest.raises(ValueError, match="regions must be 'auto', a number, or None"):
        weft.SpaceTimeGP(**ARGUMENTS, regions="many").fit(table[:60])


@pytest.mark.long
def test_places_that_hardly_repeat_are_learned_from_small_exact_blocks():
    """Each row at a place of its own, and eddies shorter than a hundred pseudo-points can hold: a bound would call them noise."""
    rng = np.random.default_rng(2)
    waves = rng.normal(size=(60, 2)) / 0.12
    phase = rng.uniform(0, 2 * np.pi, 60)
    places = rng.uniform(0, 3.0, size=(600, 2))
    times = np.sort(rng.uniform(0, 30.0, 600))
    field = np.sqrt(2 / 60) * np.cos(places @ waves.T + phase + 0.02 * times[:, None]).sum(axis=1)
    table = pd.DataFrame({"t": times, "a": places[:, 0], "b": places[:, 1], "y": field + 0.1 * rng.normal(size=600)})
    train, test = table[::2].reset_index(drop=True), table[1::2].reset_index(drop=True)
    errors = {}
    for name, rows in (("blocks", "auto"), ("bound", None)):
        gp = weft.SpaceTimeGP(
            time="t", space=("a", "b"), target="y", learning_rows=rows, max_iterations=25, progress=None
        ).fit(train)
        errors[name] = float(np.sqrt(np.mean((gp.predict(test)["mean"] - test["y"]) ** 2)))
    assert errors["blocks"] < 0.9 * errors["bound"]


def test_questions_are_answered_by_regions_too(table, cut_up):
    """Fill, forecast, point and aggregate are predictions arranged otherwise, whoever answers."""
    with_gaps = table[200:240].assign(value=lambda rows: rows["value"].where(np.arange(40) % 3 > 0))
    expected = cut_up.predict(with_gaps)
    filled = cut_up.fill(with_gaps)
    gaps = filled["filled"].to_numpy()
    assert gaps.sum() == 14
    assert_allclose(filled["value"][gaps], expected["mean"][gaps], rtol=1e-9)
    assert_allclose(filled["value"][~gaps], with_gaps["value"][~gaps])
    ahead = cut_up.forecast("12h", table[["lon", "lat"]][:5])
    assert ahead["time"].min() > table["time"][:220].max()
    assert_allclose(ahead["sd"], cut_up.predict(ahead[["time", "lon", "lat"]])["sd"], rtol=1e-9)
    place = {"lon": float(table["lon"][3]), "lat": float(table["lat"][3])}
    series = cut_up.point(place, times=table["time"][:4])
    at = pd.DataFrame({"time": table["time"][:4], **place})
    assert_allclose(series["mean"], cut_up.predict(at)["mean"], rtol=1e-9)
    halves = table[220:].assign(side=np.where(table["lat"][220:] > 32, "north", "south"))
    groups = cut_up.aggregate(halves, by="side")
    field = cut_up.predict(halves, of="field")
    assert_allclose(groups["mean"], field.groupby(halves["side"])["mean"].mean(), rtol=1e-6)
    # Errors of a group go together in part: between those of one value and of as many independent ones.
    usual = field.groupby(halves["side"])["sd"].mean().to_numpy()
    assert (groups["sd"] < usual).all()
    assert (groups["sd"] > usual / np.sqrt(groups["rows"])).all()


@pytest.mark.long
def test_an_audit_by_regions_finds_what_is_far_off(table, cut_up):
    wrong = table[:220].copy()
    wrong.loc[[20, 90], "value"] += 40.0
    assert {20, 90} <= set(cut_up.audit(wrong)["row"])


def test_regions_are_drawn(cut_up):
    ax = cut_up.plot.regions(ax=Figure().add_subplot())
    assert sum(len(each.get_offsets()) for each in ax.collections) == 220
    assert [text.get_text() for text in ax.texts[:4]] == ["0", "1", "2", "3"]


def test_a_report_says_which_regions_answer_and_how_far_they_agree(cut_up):
    fitted = cut_up.fitted_
    count, seam = region_words(fitted)
    assert count.startswith("4 regions answer")
    posterior = regional_of(fitted.posterior)
    assert f"by {posterior.seam().largest:.2g} at most" in seam
    (picture,) = region_figures(cut_up)
    assert picture.alt == "A map of the places in 4 regions."
    # Every region is drawn with its number.
    assert all(f">{number}</text>" in picture.svg.replace(" ", "") for number in range(4))


def test_one_model_has_no_regions_to_tell_of(table):
    one = weft.SpaceTimeGP(**ARGUMENTS | {"max_iterations": 0}, regions=None).fit(table[:60])
    assert regional_of(one.posterior_) is None
    assert region_words(one.fitted_) == []
    assert region_figures(one) == ()


def test_of_a_long_series_stretches_tell_of_places_and_are_held_out(monkeypatch, caplog):
    """A region goes through the whole series whatever it is asked: two passes to fit and four to score took an hour at 7,000 days."""
    rng = np.random.default_rng(2)
    stations = pd.DataFrame({"lon": rng.uniform(0, 9, 16), "lat": rng.uniform(40, 50, 16)})
    table = stations.merge(pd.DataFrame({"time": pd.date_range("2020-01-01", periods=40)}), how="cross")
    table["value"] = np.sin(table["lon"]) + rng.normal(size=len(table))
    monkeypatch.setattr("weft.inference.habits.noise._FEWEST_ROWS", 2.0)
    monkeypatch.setattr("weft.estimator.calibration._FEW_ROWS", 50)
    seen = []

    def asking(found, *arguments):
        seen.append(found.rows.num_rows)
        return answered(found, *arguments)

    answered = RegionalPosterior._map
    monkeypatch.setattr(RegionalPosterior, "_map", asking)
    arguments = ARGUMENTS | {"max_iterations": 0, "components": ("slow", "fast")}

    def scored(share):
        """With budgets of this share of what a pass takes."""
        monkeypatch.setattr("weft.estimator.wide.work_of_regions", lambda model, data: PASS_WORK / share)
        monkeypatch.setattr("weft.estimator.validation.EVALUATION_WORK", PASS_WORK)
        seen.clear()
        with caplog.at_level(logging.INFO, logger="weft"):
            gp = weft.SpaceTimeGP(**arguments, regions=2).fit(table)
            return gp.cross_validate(table, by="random", output="rows")

    whole = scored(0.6)
    assert min(seen) >= 0.7 * len(table)
    assert "of the series" not in caplog.text
    part = scored(0.25)
    assert max(seen) <= 0.25 * len(table)
    assert "habits of places are looked for in one stretch of the series, 160 of 640 rows" in caplog.text
    assert (
        "held out by random: one of 5 folds predicted, from and of 160 rows in stretches of the series" in caplog.text
    )
    assert set(part["row"]) < set(whole["row"])
    assert part["time"].nunique() <= 10


def stations_of(days, count=16):
    rng = np.random.default_rng(4)
    stations = pd.DataFrame({"lon": rng.uniform(0, 9, count), "lat": rng.uniform(40, 50, count)})
    table = stations.merge(pd.DataFrame({"time": pd.date_range("2020-01-01", periods=days)}), how="cross")
    day = (table["time"] - table["time"].min()).dt.days
    table["value"] = 3 * np.sin(table["lon"]) + 2 * np.sin(day / 9) + rng.normal(size=len(table))
    return table


@pytest.mark.parametrize("regions", [3, None])
def test_what_a_report_sums_up_of_a_long_series_is_asked_of_stretches(regions, monkeypatch):
    """Shares of variance and how far regions agree took two passes over the whole series, a tenth of the time from file to report."""
    table = stations_of(200)
    gp = weft.SpaceTimeGP(
        **ARGUMENTS | {"max_iterations": 2}, components=("slow", "fast"), habits=None, regions=regions
    )
    fitted = gp.fit(table).fitted_
    rows = rows_of_table(gp, table, None)
    whole, said = shares_of_variance(fitted, rows, 500), region_words(fitted)
    assert at_a_glance(fitted.posterior) == Glance(fitted.posterior)
    work = 200.0
    monkeypatch.setattr("weft.estimator.wide.work_of_regions", lambda model, data: work)
    monkeypatch.setattr("weft.estimator.wide.work_of_model", lambda model, data: np.full(200, work / 200))
    monkeypatch.setattr("weft.estimator.wide.GLANCE_WORK", work / 1.5)
    assert at_a_glance(fitted.posterior).times is None, "not worth it"
    monkeypatch.setattr("weft.estimator.wide.GLANCE_WORK", work / 3)
    glance = at_a_glance(fitted.posterior)
    assert len(glance.times) == 66
    assert sum(batch.num_rows for batch in glance.posterior.batches) == 66 * 16
    found = shares_of_variance(fitted, rows, 500)
    assert found != whole
    assert_allclose(list(found.values()), list(whole.values()), rtol=0.3)
    assert region_words(fitted)[:1] == said[:1]
    if regions is not None:
        inside = take_rows(regional_of(fitted.posterior).rows, np.arange(66 * 16))
        region = regional_of(fitted.posterior).given_rows(np.arange(66 * 16)).region(1)
        own = fitted.posterior.division.regions[1]
        alone = condition(fitted.model, take_rows(inside, own.rows[own.rows < 66 * 16]))
        asked = (np.full(4, 30.0), inside.places[:4])
        assert_allclose(region.marginals(*asked).mean, alone.marginals(*asked).mean, rtol=1e-8)


def test_of_many_regions_of_rows_a_report_asks_a_few(table, cut_up, monkeypatch):
    """Each is conditioned anew for each question: of 490 regions two questions took 20 s."""
    fitted, posterior = cut_up.fitted_, regional_of(cut_up.posterior_)
    monkeypatch.setattr("weft.estimator.wide.FEWEST_REGIONS", 2)
    monkeypatch.setattr("weft.estimator.wide.GLANCE_WORK", 0.0)
    assert at_a_glance(posterior).most_regions == 2
    asked, answered = [], RegionalPosterior._map
    monkeypatch.setattr(
        RegionalPosterior,
        "_map",
        lambda one, question, numbers, told: asked.append(numbers) or answered(one, question, numbers, told),
    )
    shares = shares_of_variance(fitted, rows_of_table(cut_up, table[:220], None), 50)
    assert set(shares) == {"slow", "fast", "noise"}
    region_words(fitted)
    assert [1 <= len(numbers) <= 2 for numbers in asked] == [True, True]
    data = posterior.rows
    few = posterior.among_few(data.row_times, data.row_places, 2)
    heard = posterior.division.shares(data.row_times[few], data.row_places[few])
    assert len(few) > 20
    assert len(np.unique(heard.cell)) == 2
    assert_array_equal(posterior.among_few(data.row_times, data.row_places, 4), np.arange(data.num_rows))


def test_of_one_model_of_a_long_series_stretches_tell_of_places_too(monkeypatch, caplog):
    """Looking for levels and noise took a quarter of the time from file to report of 600,000 daily temperatures."""
    table = stations_of(300)
    noisy = table["lon"].rank(method="dense") % 2 == 0
    table["value"] += np.where(noisy, 2.0, 0.0) * np.random.default_rng(3).normal(size=len(table))
    monkeypatch.setattr("weft.inference.habits.noise._FEWEST_ROWS", 20.0)
    arguments = ARGUMENTS | {"max_iterations": 2, "components": ("slow", "fast"), "regions": None}

    def noise_of(gp):
        (habit,) = (each for each in gp.posterior_.habits() if each.name == "noise")
        return habit.value

    whole = noise_of(weft.SpaceTimeGP(**arguments).fit(table))
    monkeypatch.setattr("weft.estimator.wide.work_of_model", lambda model, data: np.ones(len(data.times)))
    monkeypatch.setattr("weft.estimator.wide.HABITS_WORK", 100.0)
    seen, fitted_marginals = [], SinglePosterior.fitted_marginals
    monkeypatch.setattr(
        SinglePosterior, "fitted_marginals", lambda one, rows: seen.append(rows.num_rows) or fitted_marginals(one, rows)
    )
    with caplog.at_level(logging.INFO, logger="weft"):
        gp = weft.SpaceTimeGP(**arguments).fit(table)
    assert seen == [100 * 16]
    assert "habits of places are looked for in one stretch of the series, 1,600 of 4,800 rows" in caplog.text
    assert len(gp.fitted_.batches[0].times) == 300
    assert np.corrcoef(noise_of(gp), whole)[0, 1] > 0.9
