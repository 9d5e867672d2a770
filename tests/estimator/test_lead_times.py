# SPDX-License-Identifier: MIT
"""Forecasts scored by how far ahead they look."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import weft
from weft import project
from weft.estimator.lead_times import origins
from weft.estimator.precision import in_float64


def test_origins_leave_the_horizon_after_the_last_and_half_the_series_before_the_first():
    times = np.repeat(np.arange(0.0, 41.0), 3)
    assert_allclose(origins(times, 5.0, 4), [20.0, 25.0, 30.0, 35.0])
    assert_allclose(origins(times, 30.0, 2), [10.0])
    with pytest.raises(ValueError, match="give a shorter horizon"):
        origins(times, 40.0, 2)


@pytest.fixture(scope="module")
def scored(fitted: weft.SpaceTimeGP, table: pd.DataFrame) -> pd.DataFrame:
    return fitted.cross_validate(table, by="time", horizon="5D", folds=2, output="rows")


def test_each_row_is_predicted_from_what_came_before_its_origin(fitted, table, scored):
    own = scored[scored["model"] == "weft"]
    days = (table["time"] - table["time"].min()).dt.days.to_numpy()
    assert sorted(own["lead"].unique()) == [1.0, 2.0, 3.0, 4.0, 5.0]
    for _, fold in own.groupby("fold"):
        origin = float((fold["time"] - fold["lead"]).iloc[0])
        before = np.flatnonzero((days <= origin) & table["value"].notna().to_numpy())
        rows = fitted.fitted_.read(table)
        model = in_float64(fitted.fitted_.given_only)(rows.take(before))
        expected = in_float64(model.prediction)(rows.take(fold["row"].to_numpy()))
        assert_allclose(np.abs(fold["error"]), np.abs(fold["value"] - expected.mean), rtol=1e-9)
        assert set(days[fold["row"]]) == set(range(int(origin) + 1, int(origin) + 6))


def test_scores_are_told_by_lead(fitted, table, scored):
    scores = fitted.cross_validate(table, by="time", horizon="5D", folds=2)
    own = scored[scored["model"] == "weft"]
    means = scores[(scores["model"] == "weft") & (scores["score"] == "mean_crps")].set_index("fold")["value"]
    assert list(means.index[-4:]) == ["up to 1 day", "up to 2 days", "up to 4 days", "up to 8 days"]
    assert_allclose(means["up to 1 day"], own.loc[own["lead"] == 1, "crps"].mean())
    assert_allclose(means["up to 4 days"], own.loc[own["lead"].isin([3, 4]), "crps"].mean())
    assert_allclose(means["all"], own["crps"].mean())
    with pytest.raises(ValueError, match="a horizon is for rows held out by 'time'"):
        fitted.cross_validate(table, by="random", horizon="5D")
    shown = project.evaluate(fitted, table, ["time"], 2, horizon="5D")
    assert "CRPS by lead time" in str(shown)
    assert "<th>up to 2 days</th>" in shown._repr_html_()
