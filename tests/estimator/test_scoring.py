# SPDX-License-Identifier: MIT
"""Scores of tables, cross-validation and comparisons, against plain computations from predictions."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm

import weft
from tests.estimator.tables import STATIONS
from weft.baselines import available_baselines
from weft.estimator import validation


def test_scores_are_those_of_the_predictions(fitted, table):
    held_out = table.copy()
    held_out["value"] += np.random.default_rng(1).normal(0.3, 1.0, len(table))
    answer = fitted.predict(held_out, quantiles=(0.1, 0.9))
    scores = fitted.score(held_out)
    known = held_out["value"].notna()
    value, mean, sd = held_out["value"][known], answer["mean"][known], answer["sd"][known]
    assert scores["num_rows"] == 149
    assert scores["num_missing"] == 1
    assert_allclose(scores["rmse"], np.sqrt(np.mean((mean - value) ** 2)))
    assert_allclose(scores["bias"], np.mean(mean - value))
    assert_allclose(scores["mean_negative_log_density"], -norm.logpdf(value, mean, sd).mean())
    assert_allclose(scores["standardised_rmse"], scores["rmse"] / np.nanstd(table["value"]))
    inside = (value > answer["q0.1"][known]) & (value < answer["q0.9"][known])
    assert_allclose(scores["coverage_80"], inside.mean())
    baselines = tuple(name for name in available_baselines() if name != "persistence")
    best = min(scores[f"mean_crps_{name}"] for name in baselines)
    assert_allclose(scores["crps_skill"], 1 - scores["mean_crps"] / best)
    assert "mean_crps_persistence" not in scores


def test_persistence_stands_beside_forecasts(fitted, table):
    start = fitted.fitted_
    part = weft.SpaceTimeGP(**fitted.get_params())
    part._keep(start.given_only(start.read(table.iloc[: 20 * STATIONS])))
    assert "mean_crps_persistence" in part.score(table.iloc[20 * STATIONS :])


def test_of_very_many_hidden_rows_some_are_scored_as_all_would_be(fitted, table, monkeypatch, caplog):
    """All stay hidden; folds that are asked for are scored whole."""
    columns = ["row", "model", "value", "error", "crps"]
    whole = fitted.cross_validate(table, by="station", folds=5, output="rows")[columns]
    monkeypatch.setattr(validation, "ROWS_SCORED", 60)
    with caplog.at_level("INFO", logger="weft"):
        some = fitted.cross_validate(table, by="station", output="rows")[columns]
    assert "60 of 149 hidden rows scored" in caplog.text
    assert (some.groupby("model")["row"].nunique() == 60).all()
    both = some.merge(whole, on=["row", "model"], suffixes=("", "_of_all"))
    assert len(both) == len(some)
    assert_allclose(both[["value", "error", "crps"]], both[["value_of_all", "error_of_all", "crps_of_all"]], rtol=1e-9)
    assert len(fitted.cross_validate(table, by="station", folds=5, output="rows")) == len(whole)


def test_of_many_rows_hidden_at_random_as_many_folds_as_tell_enough_are_predicted(fitted, table, monkeypatch, caplog):
    """The same folds, the first of them; stations, and folds that are asked for, are predicted all."""
    monkeypatch.setattr(validation, "ROWS_ENOUGH", 40)
    with caplog.at_level("INFO", logger="weft"):
        some = fitted.cross_validate(table, by="random", output="rows")
    # 149 rows have values, 30 of them in a fold.
    assert "held out by random: 2 of 5 folds predicted" in caplog.text
    whole = fitted.cross_validate(table, by="random", folds=5, output="rows")
    assert set(some["fold"]) == {0, 1}
    assert set(whole["fold"]) == set(range(5))
    pd.testing.assert_frame_equal(some, whole[whole["fold"] < 2].reset_index(drop=True)[list(some.columns)])
    assert set(fitted.cross_validate(table, by="station", output="rows")["fold"]) == set(range(5))


def test_cross_validation_holds_out_whole_stations(fitted, table):
    rows = fitted.cross_validate(table, by="station", folds=3, output="rows")
    own = rows[rows["model"] == "weft"]
    assert sorted(own["row"]) == [row for row in range(150) if row != 17]
    station = table["station"].to_numpy()[own["row"]]
    assert pd.DataFrame({"fold": own["fold"], "station": station}).drop_duplicates().shape[0] == STATIONS
    fold = own[own["fold"] == 1]
    hidden = set(station[own["fold"] == 1])
    start = fitted.fitted_
    blind = weft.SpaceTimeGP(**fitted.get_params())
    blind._keep(start.given_only(start.read(table[~table["station"].isin(hidden)])))
    answer = blind.predict(table.iloc[fold["row"]])
    assert_allclose(fold["error"], answer["mean"].to_numpy() - table["value"].to_numpy()[fold["row"]], rtol=1e-9)
    tidy = fitted.cross_validate(table, by="station", folds=3)
    assert list(tidy.columns) == ["by", "fold", "model", "score", "value"]
    assert set(tidy["fold"]) == {"all", "0", "1", "2"}
    assert set(tidy["model"]) == {"weft", *available_baselines()} - {"persistence"}
    chosen = tidy.query("fold == 'all' and model == 'weft' and score == 'mae'")["value"].item()
    assert_allclose(chosen, own["error"].abs().mean())


def test_cross_validation_in_time_sees_only_the_past(fitted, table):
    rows = fitted.cross_validate(table, by="time", folds=2, output="rows", seed=3)
    assert "persistence" in set(rows["model"])
    own = rows[rows["model"] == "weft"]
    assert own["time"].min() > 0
    start = fitted.fitted_
    first = own[own["fold"] == 0]
    past = table[(table["time"] - table["time"][0]).dt.days < first["time"].min()]
    blind = weft.SpaceTimeGP(**fitted.get_params())
    blind._keep(start.given_only(start.read(past)))
    answer = blind.predict(table.iloc[first["row"]])
    assert_allclose(first["error"], answer["mean"].to_numpy() - table["value"].to_numpy()[first["row"]], rtol=1e-9)


def test_refitting_learns_from_the_rows_seen_only(table):
    gp = weft.SpaceTimeGP(time="time", space=("lon", "lat"), target="value", max_iterations=0, progress=None)
    rows = gp.cross_validate(table, by="time", folds=1, refit=True, output="rows")
    assert not hasattr(gp, "posterior_")
    fold = rows[rows["model"] == "weft"]
    other = table[table["time"] < table["time"][fold["row"].min()]]
    learned = weft.SpaceTimeGP(**gp.get_params()).fit(other)
    answer = learned.predict(table.iloc[fold["row"]])
    assert_allclose(fold["error"], answer["mean"].to_numpy() - table["value"].to_numpy()[fold["row"]], rtol=1e-9)
    with pytest.raises(ValueError, match="output must be"):
        gp.cross_validate(table, refit=True, output="table")


def test_compare_pairs_rows_and_lets_days_err_together(fitted, table):
    rng = np.random.default_rng(8)
    held_out = table.assign(value=table["value"] + rng.normal(size=len(table)))
    rows = fitted.score_rows(held_out)
    other = rows[rows["model"] == "climatology"]
    shuffled = other.sample(frac=1.0, random_state=1)
    result = weft.compare(rows, shuffled).set_index("score")
    own = rows[rows["model"] == "weft"]
    difference = own["crps"].to_numpy() - other["crps"].to_numpy()
    assert_allclose(result.loc["mean_crps", "difference"], difference.mean())
    assert_allclose(result.loc["mean_crps", "a"], own["crps"].mean())
    deviations = difference - difference.mean()
    one_way = []
    for label in (own["time"].to_numpy(), own["place"].to_numpy()):
        sums = np.array([deviations[label == each].sum() for each in np.unique(label)])
        one_way.append(len(sums) / (len(sums) - 1) * np.sum(sums**2) / len(deviations) ** 2)
    rowwise = len(deviations) / (len(deviations) - 1) * np.sum(deviations**2) / len(deviations) ** 2
    expected = np.sqrt(max(sum(one_way) - rowwise, *one_way))
    assert_allclose(result.loc["mean_crps", "standard_error"], expected)
    same = weft.compare(fitted, fitted, held_out)
    assert_array_equal(same["difference"], 0.0)
    with pytest.raises(ValueError, match="give a table"):
        weft.compare(fitted, fitted)
    with pytest.raises(ValueError, match="different values"):
        weft.compare(rows, fitted.score_rows(table))
    with pytest.raises(ValueError, match="no row in common"):
        weft.compare(rows, rows.assign(row=rows["row"] + 1000))
