# SPDX-License-Identifier: MIT
"""Checks: rows are hidden, predicted from the rest, and scored beside what anyone could predict without a model.

Parameters stay as learned from all rows, and only the conditioning is done again; for the few parameters of a kernel
and many rows this hardly flatters, and it costs one pass instead of a fit.
"""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, final

import numpy as np
from jaxtyping import Float

from weft.estimator.evaluation import MODEL, make_sheet, row_scores, score_beside_baselines
from weft.estimator.fitted import Fitted
from weft.estimator.translation import Translation
from weft.folds import assign_folds
from weft.inference.prediction import Prediction
from weft.report.content import Check, Figure, ScoreLine
from weft.report.counting import counted
from weft.report.figures import coverage_figure, pit_figure
from weft.report.rows import SeenRows
from weft.scores import COVERAGE_LEVELS, MEANINGS, RowScores, summarise, summarise_pit

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["HiddenRows", "describe_check", "evaluated_rows", "hide_rows", "score_hidden", "scored_rows"]

_NUM_FOLDS = {"random": 10, "station": 5, "block": 5}
_TITLES_IN_TURN = {
    "random": "Rows hidden at random, {share} at a time",
    "station": "Whole stations hidden, {share} at a time",
    "block": "Whole neighbourhoods hidden, {share} at a time",
}
_TITLES = {
    "held_out": "Rows held out from the start",
    "random": "One row in ten hidden at random",
    "station": "One station in five hidden",
    "block": "A fifth of the neighbourhoods hidden",
}
_WORDS = {
    "held_out": "These rows were never shown to the model.",
    "random": "How well gaps are filled at stations that also report at other times.",
    "station": "How well the map does where nobody measures.",
    "block": "How well the map does far from every station.",
}
_SHOWN = ("mean_crps", "rmse", "mae", "bias", "mean_negative_log_density", "coverage_50", "coverage_90")
_NAMES = {
    MODEL: "weft",
    "climatology": "climatology",
    "nearest_station": "nearest station",
    "inverse_distance": "inverse distance",
    "nearest_rows": "nearest rows in space and time",
    "local_kriging": "local kriging",
    "boosting": "gradient boosting",
    "persistence": "persistence",
}


@final
@dataclasses.dataclass(frozen=True)
class HiddenRows:
    """Rows that were hidden, the 90 % interval predicted for each without them, and everybody's scores."""

    by: str
    title: str
    rows: SeenRows
    low: Float[np.ndarray, " row"]
    high: Float[np.ndarray, " row"]
    scores: dict[str, RowScores]


def hide_rows(fitted: Fitted, rows: SeenRows, by: str, seed: int) -> HiddenRows | None:
    """Hide one fold `by` "random", "station" or "block" and predict it; None where there are too few places or rows."""
    present = rows.take(rows.present)
    num_folds = _NUM_FOLDS[by]
    sheet = make_sheet(present.measured, fitted.translation)
    enough = len(present.times) if by == "random" else len(np.unique(present.place))
    if enough < num_folds:
        return None
    folds = assign_folds(by, sheet.times, sheet.places, num_folds=num_folds, seed=seed)
    train, test = present.take(np.flatnonzero(folds != 0)), present.take(np.flatnonzero(folds == 0))
    prediction = fitted.given_only(train.measured).prediction(test.measured)
    return score_hidden(fitted.translation, train, test, prediction, by, seed)


def score_hidden(
    translation: Translation, train: SeenRows, test: SeenRows, prediction: Prediction, by: str, seed: int
) -> HiddenRows:
    """Scores of the rows of `test`, as predicted from those of `train`."""
    known, hidden = (make_sheet(each.measured, translation) for each in (train, test))
    scored = score_beside_baselines(prediction, known, hidden, translation, seed=seed)
    low, high = scored.interval.T
    return HiddenRows(by, _TITLES[by], test, low, high, scored.scores)


def scored_rows(test: SeenRows, scored: "pd.DataFrame") -> HiddenRows:
    """What `score_rows` has found of rows held out from the start."""
    parts, ours = _by_model(scored)
    scores = {model: row_scores(part) for model, part in parts.items()}
    some = test.take(ours["row"].to_numpy())
    return HiddenRows("held_out", _TITLES["held_out"], some, ours["low"].to_numpy(), ours["high"].to_numpy(), scores)


def _by_model(scored: "pd.DataFrame") -> "tuple[dict[str, pd.DataFrame], pd.DataFrame]":
    """Scored rows of each model in the order of the table, and those of weft."""
    parts = {str(model): part.sort_values("row") for model, part in scored.groupby("model", sort=False)}
    return parts, parts[MODEL]


def evaluated_rows(rows: SeenRows, by: str, scored: "pd.DataFrame") -> HiddenRows:
    """What a cross-validation `by` random, station or block has found: every row it held out, fold after fold."""
    parts, ours = _by_model(scored)
    num_folds = int(ours["fold"].max()) + 1
    # Not all folds need have been predicted.
    share = len(ours) / (num_folds * max(len(rows.present), 1))
    title = _TITLES_IN_TURN[by].format(share=f"{100 * share:.0f} %")
    test = rows.take(ours["row"].to_numpy())
    scores = {model: row_scores(part) for model, part in parts.items()}
    return HiddenRows(by, title, test, ours["low"].to_numpy(), ours["high"].to_numpy(), scores)


def describe_check(hidden: HiddenRows, target_sd: float, units: str) -> Check:
    """A table of scores, the skill against the best baseline, and pictures of calibration."""
    summaries = {model: summarise(scores, target_sd) for model, scores in hidden.scores.items()}
    ours = summaries[MODEL]
    others = {model: summary for model, summary in summaries.items() if model != MODEL}
    best = min(others, key=lambda model: others[model]["mean_crps"])
    best_of = {score: _best(score, summaries) for score in _SHOWN}
    lines = tuple(
        ScoreLine(
            model=_NAMES.get(model, model),
            scores=tuple(_written(score, summary[score]) for score in _SHOWN),
            is_best=tuple(model in best_of[score] for score in _SHOWN),
            is_ours=model == MODEL,
        )
        for model, summary in summaries.items()
    )
    num_rows, num_places = int(ours["num_rows"]), len(np.unique(hidden.rows.place))
    return Check(
        by=hidden.by,
        title=hidden.title,
        words=f"{_WORDS[hidden.by]} {counted(num_rows, 'row')} at {counted(num_places, 'place')}.",
        columns=tuple(_column(score, units) for score in _SHOWN),
        lines=lines,
        coverage=tuple((level, float(ours[f"coverage_{100 * level:.0f}"])) for level in COVERAGE_LEVELS),
        skill=float(1 - ours["mean_crps"] / others[best]["mean_crps"]),
        best_baseline=_NAMES.get(best, best),
        figures=_calibration(hidden.scores[MODEL], hidden.by),
    )


def _calibration(scores: RowScores, by: str) -> tuple[Figure, ...]:
    pit = summarise_pit(scores.pit)
    asked = np.linspace(0.05, 0.95, 19)
    reached = np.array([np.mean(np.abs(scores.pit - 0.5) <= level / 2) for level in asked])
    return (
        pit_figure(f"pit-{by}", pit),
        coverage_figure(f"coverage-{by}", asked, reached, COVERAGE_LEVELS),
    )


def _best(score: str, summaries: Mapping[str, Mapping[str, float | int]]) -> set[str]:
    """The models no other beats by this score."""
    kind = MEANINGS[score].best
    wanted = float(score.removeprefix("coverage_")) / 100 if kind == "level" else 0.0

    def loss(model: str) -> float:
        value = float(summaries[model][score])
        return value if kind == "low" else abs(value - wanted)

    least = min(loss(model) for model in summaries)
    return {model for model in summaries if loss(model) == least}


def _written(score: str, value: float | int) -> str:
    if not np.isfinite(value):
        return "∞" if value > 0 else "–"
    return (
        f"{100 * value:.1f} %"
        if score.startswith("coverage")
        else f"{value:.3f}"
        if abs(value) < 1e5
        else f"{value:.4g}"
    )


def _column(score: str, units: str) -> str:
    short = {
        "mean_crps": "CRPS",
        "rmse": "RMSE",
        "mae": "MAE",
        "bias": "bias",
        "mean_negative_log_density": "−log density",
        "coverage_50": "in 50 %",
        "coverage_90": "in 90 %",
    }[score]
    has_units = score in ("mean_crps", "rmse", "mae", "bias")
    return f"{short} ({units})" if units and has_units else short
