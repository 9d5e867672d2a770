# SPDX-License-Identifier: MIT
"""Cross-validation: rows held out together, predicted from the rest, beside naive baselines."""

import itertools
import logging
from typing import Any

import numpy as np
from jaxtyping import Int

from weft.arrays import require_whole
from weft.estimator.budget import num_folds_within, work_of_model
from weft.estimator.columns import Measurements, Roles
from weft.estimator.evaluation import Sheet, joined, make_sheet, rows_frame, score_beside_baselines, tidy_scores
from weft.estimator.fitted import Fitted
from weft.estimator.learning import learn, translation_for
from weft.folds import assign_folds, splits
from weft.options import Options

__all__ = ["NUM_FOLDS", "OUTPUTS", "cross_validate", "folds_of"]

OUTPUTS = ("scores", "rows")
NUM_FOLDS = 5

logger = logging.getLogger("weft")


def cross_validate(
    settings: Options,
    roles: Roles,
    rows: Measurements,
    fitted: Fitted | None,
    *,
    by: str,
    num_folds: int | None,
    output: str,
    seed: int,
) -> Any:
    """Scores of each held-out row (`output="rows"`) or summed up; `fitted` keeps its parameters, None learns each time.

    Rows without a value are left out of every fold: they teach nothing and cannot be scored. Without `num_folds` there
    are five, of which a large model predicts as many as its work allows.
    """
    if output not in OUTPUTS:
        raise ValueError(f"output must be one of {', '.join(OUTPUTS)}; it is {output!r}")
    count = NUM_FOLDS if num_folds is None else num_folds
    require_whole("folds", count, 1)
    require_whole("seed", seed, 0)
    translation = translation_for(settings, roles, rows) if fitted is None else fitted.translation
    sheet = make_sheet(rows, translation)
    present, folds = folds_of(sheet, by, count, seed)
    predicted = count if num_folds is not None or fitted is None else _folds_worth(fitted, count)
    if predicted < count:
        logger.info(
            "held out by %s: %s of %d folds predicted, since each takes a pass over all rows; folds=%d predicts all",
            by,
            "one" if predicted == 1 else predicted,
            count,
            count,
        )
    frames = []
    for fold, (train, test) in enumerate(itertools.islice(splits(folds, by), predicted)):
        seen, hidden = present[train], present[test]
        train_rows = rows.take(seen)
        model = _learned(settings, roles, train_rows) if fitted is None else fitted.given_only(train_rows)
        prediction = model.prediction(rows.take(hidden))
        scored = score_beside_baselines(
            prediction, sheet.take(seen), sheet.take(hidden), translation, seed=seed, is_forecast=by == "time"
        )
        frames.append(rows_frame(scored, hidden, sheet, fold=fold))
    frame = joined(frames)
    return frame if output == "rows" else tidy_scores(frame, float(np.std(sheet.values[present])), by)


def folds_of(
    sheet: Sheet, by: str, count: int, seed: int
) -> tuple[Int[np.ndarray, " present"], Int[np.ndarray, " present"]]:
    """Rows with a value, and the fold in which each is held out."""
    present = np.flatnonzero(~np.isnan(sheet.values))
    return present, assign_folds(by, sheet.times[present], sheet.places[present], num_folds=count, seed=seed)


def _folds_worth(fitted: Fitted, count: int) -> int:
    batches = fitted.posterior.batches
    if not batches:
        return count
    return num_folds_within(work_of_model(fitted.model, batches[0]), count)


def _learned(settings: Options, roles: Roles, rows: Measurements) -> Fitted:
    return learn(settings, roles, rows, progress=None).fitted
