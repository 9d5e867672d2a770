# SPDX-License-Identifier: MIT
"""Cross-validation: rows held out together, predicted from the rest, beside naive baselines."""

from typing import Any

import numpy as np

from weft.estimator.columns import Measurements, Roles
from weft.estimator.evaluation import MODEL, baseline_scores, joined, make_sheet, periods_in, rows_frame, tidy_scores
from weft.estimator.fitted import Fitted
from weft.estimator.learning import Settings, learn, translation_for
from weft.folds import assign_folds, splits

__all__ = ["OUTPUTS", "cross_validate"]

OUTPUTS = ("scores", "rows")


def cross_validate(
    settings: Settings,
    roles: Roles,
    rows: Measurements,
    fitted: Fitted | None,
    *,
    by: str,
    num_folds: int,
    output: str,
    seed: int,
) -> Any:
    """Scores of each held-out row (`output="rows"`) or summed up; `fitted` keeps its parameters, None learns each time.

    Rows without a value are left out of every fold: they teach nothing and cannot be scored.
    """
    if output not in OUTPUTS:
        raise ValueError(f"output must be one of {', '.join(OUTPUTS)}; it is {output!r}")
    translation = translation_for(settings, roles, rows) if fitted is None else fitted.translation
    sheet = make_sheet(rows, translation)
    present = np.flatnonzero(~np.isnan(sheet.values))
    folds = assign_folds(by, sheet.times[present], sheet.places[present], num_folds=num_folds, seed=seed)
    frames = []
    for fold, (train, test) in enumerate(splits(folds, by)):
        seen, hidden = present[train], present[test]
        train_rows = rows.take(seen)
        model = _learned(settings, roles, train_rows) if fitted is None else fitted.given_only(train_rows)
        scores = {MODEL: model.predictive(rows.take(hidden)).score(sheet.values[hidden], seed)}
        periods = periods_in(sheet.times[seen], translation)
        scores |= baseline_scores(sheet.take(seen), sheet.take(hidden), periods, is_forecast=by == "time", seed=seed)
        frames.append(rows_frame(scores, hidden, sheet, fold=fold))
    frame = joined(frames)
    return frame if output == "rows" else tidy_scores(frame, float(np.std(sheet.values[present])), by)


def _learned(settings: Settings, roles: Roles, rows: Measurements) -> Fitted:
    return learn(settings, roles, rows, progress=None).fitted
