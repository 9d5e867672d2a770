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
    "one station": ({}, lambda table: table[table["station"] == 2], ValueError, "at one place"),
    "one time": ({}, lambda table: table.iloc[:6], ValueError, "at one time"),
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
    "a column twice": ({"covariates": ("lon",)}, lambda table: table, ValueError, "'lon' is named twice"),
    "space of numbers": ({"space": (1, 2)}, lambda table: table, TypeError, "space must name a column"),
    "unknown likelihood": ({"likelihood": "normal"}, lambda table: table, ValueError, "negative_binomial"),
    "transform of counts": (
        {"likelihood": "poisson", "transform": "log"},
        lambda table: table,
        ValueError,
        "leave one",
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
