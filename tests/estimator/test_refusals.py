# SPDX-License-Identifier: MIT
"""Wrong inputs get one clear sentence, before anything is learned."""

import numpy as np
import pandas as pd
import pytest

import weft

ARGUMENTS = {"time": "time", "space": ("lon", "lat"), "target": "value", "progress": None}


def with_text(table: pd.DataFrame) -> pd.DataFrame:
    changed = table.astype({"value": object})
    changed.loc[4, "value"] = "warm"
    return changed


CASES = {
    "missing column": ({"target": "valeu"}, lambda table: table, KeyError, "did you mean 'value'"),
    "unparsable dates": ({}, lambda table: table.assign(time="soon"), ValueError, "soon"),
    "impossible latitude": ({}, lambda table: table.assign(lat=95.0), ValueError, "between -90 and 90; row 0"),
    "no value at all": ({}, lambda table: table.assign(value=np.nan), ValueError, "all 150 are missing"),
    "text in numbers": ({}, with_text, ValueError, r"row 4 \(counting from 0\) has 'warm'"),
    "constant target": (
        {},
        lambda table: table.assign(value=3.5),
        ValueError,
        "never changes: all its 150 values are 3.5",
    ),
    "one row": ({}, lambda table: table.iloc[:1], ValueError, "its only value is"),
    "one time and place": (
        {},
        lambda table: table.iloc[[0, 0]].assign(value=[1.0, 2.0]),
        ValueError,
        "at one time .* and one place",
    ),
    "no rows": ({}, lambda table: table.iloc[:0], ValueError, "no rows"),
    "missing place": ({}, lambda table: table.assign(lat=table["lat"].where(table.index != 7)), ValueError, "row 7"),
    "missing time": ({}, lambda table: table.assign(time=table["time"].where(table.index != 9)), ValueError, "row 9"),
    "missing covariate": (
        {"covariates": ("wind",)},
        lambda table: table.assign(wind=table["wind"].where(table.index != 11)),
        ValueError,
        "'wind'.* row 11",
    ),
    "not a table": ({}, lambda table: [1, 2, 3], TypeError, "pandas, polars or pyarrow"),
    "no space": ({"space": ()}, lambda table: table, ValueError, "space names no column"),
    "a column twice": ({"covariates": ("value",)}, lambda table: table, ValueError, "'value' is named twice"),
    "space of numbers": ({"space": (1, 2)}, lambda table: table, TypeError, "space must name a column"),
    "unknown likelihood": ({"likelihood": "normal"}, lambda table: table, ValueError, "negative_binomial"),
    "transform of counts": (
        {"likelihood": "poisson", "transform": "log"},
        lambda table: table,
        ValueError,
        "leave one",
    ),
    "values a likelihood cannot have": (
        {"likelihood": "gamma"},
        lambda table: table.assign(value=np.where(table.index == 5, 0.0, np.abs(table["value"]) + 0.1)),
        ValueError,
        "Gamma: values must be positive; there is 0 in row 5",
    ),
    "counts below zero": (
        {"likelihood": "poisson"},
        lambda table: table.assign(value=np.where(table.index == 5, -1.0, 3.0)),
        ValueError,
        "Poisson: values must be whole numbers, zero or more; there is -1 in row 5",
    ),
    "unknown transform": ({"transform": "cube"}, lambda table: table, ValueError, "cube"),
    "log of negatives": (
        {"transform": "log"},
        lambda table: table.assign(value=table["value"].where(table.index != 5, -1.0)),
        ValueError,
        "positive; row 5",
    ),
    "unknown season": ({"seasonality": "lunar"}, lambda table: table, ValueError, "'yearly', 'weekly', 'daily'"),
    "a season too short": ({"seasonality": "daily"}, lambda table: table, ValueError, "too far apart to show it"),
    "a season of no length": ({"seasonality": (-2.0,)}, lambda table: table, ValueError, "must be positive"),
    "pseudo-points in words": ({"pseudo_points": "many"}, lambda table: table, ValueError, "a count, 'auto', None"),
    "no pseudo-points": ({"pseudo_points": 0}, lambda table: table, ValueError, "pseudo_points must be at least 1"),
    "half a pseudo-point": ({"pseudo_points": 2.5}, lambda table: table, ValueError, "pseudo_points must be a count"),
    "a negative seed": ({"seed": -1}, lambda table: table, ValueError, "seed must be at least 0; it is -1"),
    "negative iterations": (
        {"max_iterations": -1},
        lambda table: table,
        ValueError,
        "max_iterations must be at least 0",
    ),
    "None of space": ({"space": None}, lambda table: table, ValueError, "space names no column"),
    "a number of space": ({"space": 7}, lambda table: table, TypeError, "space must name a column"),
    "no kernel": ({"kernel": weft.EQ(1.0)}, lambda table: table, TypeError, r"weft\.Separable"),
    "a target apart": ({}, lambda table: table, ValueError, "leave y out"),
}


@pytest.mark.parametrize("name", CASES)
def test_wrong_inputs_are_refused_in_a_sentence(table, name):
    arguments, change, kind, words = CASES[name]
    gp = weft.SpaceTimeGP(**(ARGUMENTS | arguments))
    with pytest.raises(kind, match=words) as caught:
        gp.fit(change(table), *(["y"] if name == "a target apart" else []))
    assert "\n" not in str(caught.value)
    assert not hasattr(gp, "posterior_")


def test_nothing_is_answered_before_a_fit(table):
    gp = weft.SpaceTimeGP(**ARGUMENTS)
    for call in (gp.predict, gp.sample, gp.score, gp.update, gp.cross_validate):
        with pytest.raises(ValueError, match=r"call fit\(table\) first"):
            call(table)


def test_a_column_that_would_be_overwritten_is_refused(fitted, table):
    with pytest.raises(ValueError, match="already has a column 'mean'"):
        fitted.predict(fitted.predict(table.iloc[:3]))


def test_rows_without_a_value_cannot_be_scored_or_taken_in(fitted, table):
    before = fitted.num_rows_
    for rows in (table.assign(value=np.nan), table.iloc[:0]):
        for call in (fitted.score, fitted.score_rows):
            with pytest.raises(ValueError, match="no row has a value of 'value', so there is nothing to score"):
                call(rows)
        with pytest.raises(ValueError, match="no row has a value of 'value', so there is nothing to take in"):
            fitted.update(rows)
    assert fitted.num_rows_ == before


def test_draws_folds_and_comparisons_are_asked_for_in_whole_numbers_and_frames(fitted, table):
    with pytest.raises(ValueError, match="seed must be at least 0; it is -1"):
        fitted.sample(table, num=2, seed=-1)
    with pytest.raises(ValueError, match="num must be at least 1; it is 0"):
        fitted.sample(table, num=0)
    with pytest.raises(TypeError, match="folds must be a whole number; it is True"):
        fitted.cross_validate(table, folds=True)
    with pytest.raises(ValueError, match="seed must be at least 0"):
        fitted.cross_validate(table, by="random", seed=-3)
    with pytest.raises(TypeError, match="fitted estimators and frames of scored rows; it was given a int"):
        weft.compare(1, 2)
    with pytest.raises(ValueError, match="give a table to score them on"):
        weft.compare(fitted, fitted)


def test_none_stands_for_no_columns_and_no_seasons(fitted, table):
    from weft.estimator.building import seasonal_parts, several
    from weft.estimator.columns import make_roles

    assert make_roles("time", ("lon", "lat"), "value", None).covariates == ()
    clock, data = fitted.translation_.clock, fitted.posterior_.batches[0]
    assert seasonal_parts(several(None), data, 2, clock, first=2) == ([], [])
