# SPDX-License-Identifier: MIT
"""Cross-validation: rows held out together, predicted from the rest, beside naive baselines."""

import itertools
import logging
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from weft.arrays import require_whole
from weft.estimator.budget import EVALUATION_WORK, ROWS_ENOUGH, ROWS_SCORED, num_folds_within, work_of_model
from weft.estimator.columns import Measurements, Roles
from weft.estimator.evaluation import Sheet, joined, make_sheet, rows_frame, score_beside_baselines, tidy_scores
from weft.estimator.fitted import Fitted
from weft.estimator.forecasting import in_clock_units
from weft.estimator.lead_times import scores_by_lead, splits_ahead, with_leads
from weft.estimator.learning import learn, translation_for
from weft.estimator.translation import Translation
from weft.estimator.wide import stretches_to_ask
from weft.folds import assign_folds, splits
from weft.heap import return_memory
from weft.inference.executor import current_executor
from weft.options import Options

__all__ = ["NUM_FOLDS", "OUTPUTS", "ahead_of", "cross_validate", "folds_of"]

OUTPUTS = ("scores", "rows")
NUM_FOLDS = 5

logger = logging.getLogger("weft")

# A fold: its number, rows seen, and hidden rows to score.
Part = tuple[int, np.ndarray, np.ndarray]


def cross_validate(
    options: Options,
    roles: Roles,
    rows: Measurements,
    fitted: Fitted | None,
    *,
    by: str,
    num_folds: int | None,
    output: str,
    seed: int,
    horizon: Any = None,
) -> Any:
    """Scores of each held-out row (`output="rows"`) or summed up; `fitted` keeps its parameters, None learns each time.

    Rows without a value are left out of every fold: they teach nothing and cannot be scored. Without `num_folds` there
    are five, of which a large model predicts as many as its work allows, and regions of a long series one, in stretches of it; of rows
    hidden at random there are as many folds as make enough of them, and of very many hidden rows some are scored. With a
    `horizon`, folds are forecasts from as many origins, and scores are also told by lead time.
    """
    if output not in OUTPUTS:
        raise ValueError(f"output must be one of {', '.join(OUTPUTS)}; it is {output!r}")
    count = NUM_FOLDS if num_folds is None else num_folds
    require_whole("folds", count, 1)
    require_whole("seed", seed, 0)
    translation = translation_for(options, roles, rows) if fitted is None else fitted.translation
    sheet = make_sheet(rows, translation)
    if horizon is None:
        present, folds = folds_of(sheet, by, count, seed)
        held_out = splits(folds, by)
    else:
        present, held_out = ahead_of(sheet, translation, by, horizon, count)
    is_free = num_folds is None and fitted is not None
    inside = _rows_worth(fitted, sheet.times) if is_free and by != "time" else None
    predicted = 1 if inside is not None else _folds_worth(fitted, count) if is_free else count
    if is_free and by == "random":
        predicted = min(predicted, -(-ROWS_ENOUGH * count // max(len(present), 1)))
    if predicted < count:
        logger.info(
            "held out by %s: %s of %d folds predicted%s, since each takes a pass over all rows; folds=%d predicts all",
            by,
            "one" if predicted == 1 else predicted,
            count,
            "" if inside is None else f", from and of {np.count_nonzero(inside):,} rows in stretches of the series",
            count,
        )
    parts = [
        (fold, *(rows if inside is None else rows[inside[rows]] for rows in (present[train], present[test])))
        for fold, (train, test) in enumerate(itertools.islice(held_out, predicted))
    ]
    if is_free and by != "time":
        parts = _scored_alone(parts, by, seed)
    told = _Told(options, roles, rows, fitted, translation, sheet, seed, by == "time")
    executor = current_executor()
    if executor.is_elsewhere:
        names = [f"fold {fold}, {len(hidden)} rows held out by {by}" for fold, _, hidden in parts]
        frames = executor.map(_scored_fold, [executor.hold(told)] * len(parts), parts, names=names)
    else:
        # One after another: each has all processors.
        frames = [_scored_fold(told, part) for part in parts]
    if horizon is not None:
        ends = [float(sheet.times[seen].max()) for _, seen, _ in parts]
        frames = [frame.assign(lead=frame["time"] - end) for frame, end in zip(frames, ends, strict=True)]
    frame = joined(frames) if horizon is None else with_leads(joined(frames), translation.clock)
    if output == "rows":
        return frame
    target_sd = float(np.std(sheet.values[present]))
    return joined([tidy_scores(frame, target_sd, by), scores_by_lead(frame, target_sd, by)])


def _scored_alone(parts: list[Part], by: str, seed: int) -> list[Part]:
    """The same folds, of whose hidden rows so many are scored, drawn at random: more would not change a score's third digit."""
    hidden = sum(len(rows) for _, _, rows in parts)
    if hidden <= ROWS_SCORED:
        return parts
    logger.info(
        "held out by %s: %s of %s hidden rows scored, drawn at random; folds=%d scores all",
        by,
        f"{ROWS_SCORED:,}",
        f"{hidden:,}",
        NUM_FOLDS,
    )
    rng = np.random.default_rng([seed, 4])
    drawn = rng.random(hidden).argpartition(ROWS_SCORED)[:ROWS_SCORED]
    chosen = np.zeros(hidden, dtype=bool)
    chosen[drawn] = True
    ends = np.cumsum([len(rows) for _, _, rows in parts])[:-1]
    return [
        (fold, seen, rows[of_fold]) for (fold, seen, rows), of_fold in zip(parts, np.split(chosen, ends), strict=True)
    ]


def ahead_of(
    sheet: Sheet, translation: Translation, by: str, horizon: Any, count: int
) -> tuple[Int[np.ndarray, " present"], Iterator[tuple[np.ndarray, np.ndarray]]]:
    """Rows with a value, and for each origin those before it and those up to a horizon after it."""
    if by != "time":
        raise ValueError(f"a horizon is for rows held out by 'time'; they are held out by {by!r}")
    present = np.flatnonzero(~np.isnan(sheet.values))
    return present, splits_ahead(sheet.times[present], in_clock_units(horizon, translation.clock), count)


class _Told(NamedTuple):
    """What every fold is told."""

    options: Options
    roles: Roles
    rows: Measurements
    fitted: Fitted | None
    translation: Translation
    sheet: Sheet
    seed: int
    is_forecast: bool


def _scored_fold(told: _Told, part: Part) -> Any:
    """The scores of one fold's hidden rows, predicted from those seen."""
    fold, seen, hidden = part
    train_rows, sheet = told.rows.take(seen), told.sheet
    given = told.fitted
    model = (
        learn(told.options, told.roles, train_rows, progress=None).fitted
        if given is None
        else given.given_only(train_rows)
    )
    scored = score_beside_baselines(
        model.prediction(told.rows.take(hidden)),
        sheet.take(seen),
        sheet.take(hidden),
        told.translation,
        seed=told.seed,
        is_forecast=told.is_forecast,
    )
    frame = rows_frame(scored, hidden, sheet, fold=fold)
    del model, scored, train_rows
    return_memory()
    return frame


def folds_of(
    sheet: Sheet, by: str, count: int, seed: int
) -> tuple[Int[np.ndarray, " present"], Int[np.ndarray, " present"]]:
    """Rows with a value, and the fold in which each is held out."""
    present = np.flatnonzero(~np.isnan(sheet.values))
    return present, assign_folds(by, sheet.times[present], sheet.places[present], num_folds=count, seed=seed)


def _folds_worth(fitted: Fitted | None, count: int) -> int:
    batches = () if fitted is None else fitted.batches
    if fitted is None or not batches:
        return count
    return num_folds_within(work_of_model(fitted.model, batches[0]), count)


def _rows_worth(fitted: Fitted | None, times: Float[np.ndarray, " row"]) -> Bool[np.ndarray, " row"] | None:
    """Which rows a fold is seen and predicted in, where regions of so long a series would take minutes for all; None for all."""
    stretches = None if fitted is None else stretches_to_ask(fitted.posterior, times, EVALUATION_WORK)
    return None if stretches is None else stretches.chosen[np.unique(times, return_inverse=True)[1]]
