# SPDX-License-Identifier: MIT
"""scikit-learn's tools around an estimator: clone, cross-validation, a grid of settings, a pipeline, tags."""

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import get_tags

import weft

SPLIT = KFold(2, shuffle=True, random_state=3)


@pytest.fixture(scope="module")
def gp() -> weft.SpaceTimeGP:
    return weft.SpaceTimeGP(time="time", space=("x",), target="value", max_iterations=1, progress=None)


@pytest.fixture(scope="module")
def few() -> pd.DataFrame:
    rng = np.random.default_rng(2)
    time, x = np.repeat(np.arange(12.0), 3), np.tile([0.0, 1.3, 2.9], 12)
    return pd.DataFrame({"time": time, "x": x, "value": np.sin(time / 3) + 0.4 * x + 0.1 * rng.normal(size=36)})


def by_hand(gp, table, name):
    """The named score of each fold."""
    return [
        weft.SpaceTimeGP(**gp.get_params()).fit(table.iloc[train]).score(table.iloc[test])[name]
        for train, test in SPLIT.split(table)
    ]


def test_cross_validation_takes_a_score_by_name(gp, few):
    np.testing.assert_allclose(
        cross_val_score(gp, few, cv=SPLIT, scoring=weft.scorer("rmse")), -np.array(by_hand(gp, few, "rmse")), rtol=1e-9
    )


def test_cross_validation_without_a_name_is_by_crps(gp, few):
    np.testing.assert_allclose(cross_val_score(gp, few, cv=SPLIT), -np.array(by_hand(gp, few, "mean_crps")), rtol=1e-9)


def test_a_grid_of_settings_inside_a_pipeline(gp, few):
    """Three steps of a fit beat none."""
    piped = Pipeline([("as_it_is", FunctionTransformer(lambda table: table)), ("gp", gp)])
    search = GridSearchCV(piped, {"gp__max_iterations": [0, 3]}, cv=SPLIT, scoring=weft.scorer("crps_skill"))
    search.fit(few)
    assert search.best_params_ == {"gp__max_iterations": 3}
    found = search.predict(few)
    pd.testing.assert_frame_equal(found, search.best_estimator_.predict(few))
    assert isinstance(search.best_estimator_.score(few), dict)


def test_a_grid_of_settings_without_a_name_is_by_crps(gp, few):
    search = GridSearchCV(gp, {"max_iterations": [0, 3]}, cv=SPLIT).fit(few)
    expected = -np.mean(by_hand(weft.SpaceTimeGP(**gp.get_params() | {"max_iterations": 3}), few, "mean_crps"))
    assert search.best_params_ == {"max_iterations": 3}
    np.testing.assert_allclose(search.best_score_, expected, rtol=1e-9)
    np.testing.assert_allclose(search.cv_results_["mean_test_mean_crps"][1], -expected, rtol=1e-9)


def test_tags_say_what_it_is(gp):
    tags = get_tags(gp)
    assert tags.estimator_type == "regressor"
    assert not tags.target_tags.required
    assert tags.input_tags.allow_nan


def test_a_score_that_is_no_loss_is_refused_by_name():
    with pytest.raises(ValueError, match=r"scorer takes one of .*mean_crps.*; it was given 'coverage_90'"):
        weft.scorer("coverage_90")
