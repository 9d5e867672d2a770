# SPDX-License-Identifier: MIT
"""What lies beyond an instrument's limits, and amounts that are often none: against what was really there."""

import numpy as np
import pandas as pd
import pytest

import weft
from weft.data.missing import far_from_others
from weft.estimator.auditing import _at_jumps

OPTIONS = {"time": "time", "space": ("x", "y"), "max_iterations": 6, "progress": None}


def made(seed: int) -> tuple[pd.DataFrame, np.ndarray, np.random.Generator]:
    """Eight places by 40 days, and a field that drifts."""
    rng = np.random.default_rng(seed)
    places = rng.uniform(0.0, 4.0, (8, 2))
    days, place = (each.ravel() for each in np.meshgrid(np.arange(40.0), np.arange(8), indexing="ij"))
    table = pd.DataFrame({"time": days, "x": places[place, 0], "y": places[place, 1]})
    field = 1.2 * np.sin(days / 3.0 + places[place, 0]) + 0.5 * np.cos(days / 7.0 + 2 * places[place, 1])
    return table, field, rng


def test_what_is_below_the_limit_is_predicted_from_what_is_known(tmp_path):
    table, field, rng = made(1)
    truth = 10.0 + 2.0 * field + 0.4 * rng.normal(size=len(field))
    # Two instruments: one is blind below 9.5, the other above 12; a few readings are only known to a range.
    blind_below = np.arange(len(table)) % 2 == 0
    table["lower"] = np.where(blind_below, 9.5, np.nan)
    table["upper"] = np.where(blind_below, np.nan, 12.0)
    table["value"] = np.where(blind_below, np.maximum(truth, 9.5), np.minimum(truth, 12.0))
    rough = np.arange(len(table)) % 11 == 0
    table.loc[rough, "upper"] = np.floor(truth[rough])
    table.loc[rough, "lower"] = np.floor(truth[rough]) + 1.0
    table.loc[rough, "value"] = np.floor(truth[rough]) + 0.5
    hidden = ~rough & ((blind_below & (truth < 9.5)) | (~blind_below & (truth > 12.0)))
    assert 0.2 < hidden.mean() < 0.5
    gp = weft.SpaceTimeGP(target="value", likelihood="tobit", lower="lower", upper="upper", **OPTIONS).fit(table)
    answer = gp.predict(table)
    error = np.sqrt(np.mean((answer["mean"] - truth)[hidden] ** 2))
    assert error < 0.6 * np.sqrt(np.mean((table["value"] - truth)[hidden] ** 2))
    inside = (truth > answer["q0.05"]) & (truth < answer["q0.95"])
    assert 0.8 < inside[hidden].mean() <= 1.0
    # What an instrument shows again and again at its limit is no stuck sensor.
    np.testing.assert_array_equal(_at_jumps(gp.fitted_, gp.fitted_.read(table)), hidden | rough)
    gp.save(tmp_path / "limits.weft")
    np.testing.assert_array_equal(weft.load(tmp_path / "limits.weft").predict(table)["mean"], answer["mean"])


@pytest.fixture(scope="module")
def rainy() -> tuple[pd.DataFrame, np.ndarray]:
    """Rain of another making than the likelihood's: by chance none, else of a skewed amount; a fifth is left out."""
    table, field, rng = made(4)
    wet = rng.random(len(field)) < 1 / (1 + np.exp(-(2.0 * field - 1.0)))
    table["rain"] = np.where(wet, rng.gamma(1.6, 2.5 * np.exp(0.5 * field)), 0.0)
    return table, rng.random(len(table)) < 0.2


@pytest.mark.long
def test_rain_is_predicted_better_than_by_its_root(rainy):
    table, left_out = rainy
    scores = {}
    for name, how in {"rain": {"likelihood": "rain"}, "root": {"transform": "sqrt"}}.items():
        gp = weft.SpaceTimeGP(target="rain", **how, **OPTIONS).fit(table[~left_out])
        scores[name] = gp.score(table[left_out])
        answer = gp.predict(table[left_out], quantiles=(0.05, 0.5, 0.95))
        assert np.all(np.isfinite(answer[["mean", "sd", "q0.05", "q0.5", "q0.95"]]))
        if name == "rain":
            assert np.all(answer["q0.05"] >= 0)
            assert 0.85 < np.mean(table["rain"][left_out] <= answer["q0.95"]) < 1.0
    for score in ("mean_crps", "mean_negative_log_density"):
        assert scores["rain"][score] < scores["root"][score], score


def test_rain_is_advised_where_a_quarter_of_the_values_are_zeros(rainy):
    table, _ = rainy
    assert 0.25 < np.mean(table["rain"] == 0) < 0.75
    assert weft.survey(table, time="time", space=("x", "y"), target="rain").settings.options["likelihood"] == "rain"
    damp = table.assign(rain=table["rain"] + np.where(np.arange(len(table)) % 10 == 0, 0.0, 0.3))
    assert "likelihood" not in weft.survey(damp, time="time", space=("x", "y"), target="rain").settings.options


def test_limits_where_nothing_uses_them_are_refused():
    table, field, _ = made(1)
    table = table.assign(value=field, least=-1.0)
    with pytest.raises(ValueError, match="Gaussian makes no use of lower"):
        weft.SpaceTimeGP(target="value", lower="least", **OPTIONS).fit(table)


def test_an_audit_does_not_take_wet_rows_beside_dry_ones_for_faults():
    """Every wet row of a dry table, and runs without rain, had been listed; a planted fault still is."""
    table, field, rng = made(2)
    amounts = np.maximum(field - 0.8 + 0.3 * rng.normal(size=len(field)), 0.0) ** 2
    assert np.mean(amounts == 0) > 0.5
    amounts[33] = 80.0
    rows = table.assign(value=amounts)
    options = {**OPTIONS, "components": ("fast",), "max_iterations": 3}
    suspicious = weft.SpaceTimeGP(target="value", likelihood="rain", **options).fit(rows[:200]).audit(rows[:200])
    assert 33 in suspicious.index
    assert len(suspicious) <= 4


def test_where_most_values_are_one_the_others_say_what_is_far():
    counts = np.array([0.0] * 8 + [1.0, 2.0, 1.0, 3.0, 4000.0])
    np.testing.assert_array_equal(far_from_others(counts), counts == 4000.0)
    assert not far_from_others(np.zeros(5)).any()
