# SPDX-License-Identifier: MIT
"""From a fitted model to a report: gather what it says, then write it."""

import math
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from weft.data.atomic import check_output, write_whole
from weft.estimator.components import LOCAL, NAMED, PLACES, degenerate_scales
from weft.estimator.fitted import Fitted
from weft.estimator.habits import habits_in_words
from weft.estimator.learning import names_of_habits, options_among
from weft.estimator.precision import in_float64
from weft.estimator.wide import unexplained_variance
from weft.inference.prediction import Prediction
from weft.likelihoods import Gaussian
from weft.phases import Timings, spent_so_far, timing
from weft.report.availability import build_card
from weft.report.canvas_map import build_map, map_axes, nice_threshold, plan_map
from weft.report.components import component_figures, describe_parameters, describe_parts
from weft.report.content import Check, Figure, MapContent, Remarks, ReportContent
from weft.report.counting import counted
from weft.report.figures import evidence_figure
from weft.report.page import render
from weft.report.provenance import describe_run
from weft.report.regions import region_figures, region_words
from weft.report.residuals import autocorrelation, last_rows, residual_figures, residuals_of, variogram
from weft.report.rows import SeenRows, kept_rows, rows_of_table, time_labels
from weft.report.size import ReportSize
from weft.report.stations import build_series, choose_stations, plan_series
from weft.report.validation import HiddenRows, describe_check, evaluated_rows, hide_rows, score_hidden, scored_rows
from weft.report.verdict import ANOTHER_LIKELIHOOD, LEARN_HABITS, MORE_ROWS, judge
from weft.training.fitting import FitResult

if TYPE_CHECKING:
    import pandas as pd

    from weft.space_time_gp import SpaceTimeGP

__all__ = ["KINDS_OF_CHECK", "build_report", "check_threshold", "gather", "write_report"]

_CHECKS = ("random", "station")
KINDS_OF_CHECK = ("random", "station", "block")
HELD_OUT = "held_out"


@timing("report")
def build_report(
    gp: "SpaceTimeGP",
    table: Any = None,
    *,
    path: str | os.PathLike[str],
    held_out: Any = None,
    checks: Sequence[str] = _CHECKS,
    evaluated: "Mapping[str, pd.DataFrame] | None" = None,
    threshold: float | int | None = None,
    terrain: Any = None,
    station: str | None = None,
    command: str | None = None,
    title: str | None = None,
    seed: int = 0,
    size: ReportSize | None = None,
    timings: Timings | None = None,
) -> ReportContent:
    """Write the report of a fitted model to `path`, one HTML file that needs nothing else; what it says is returned.

    `table` is what the model was fitted to; without it the rows are those the model kept, whose places have no names.
    `held_out` is a table the model has not seen. `checks` are ways to hide rows of the table ("random", "station",
    "block") and predict them by the same parameters; `evaluated` has by the same names what `cross_validate` with
    output="rows" of that table found, and as "held_out" what `score_rows` of `held_out` did, which is then shown and not
    done again. `threshold` is that of the map of
    probabilities (default: a round number near the upper tenth). `terrain` is a table with map coordinates and the
    other columns of space, such as elevation, for the map. `station` names the column with the stations' names.
    `command` is what made the model, `timings` what that took, the estimator's own unless given, and `size` limits what is shown.
    """
    check_output(path)
    check_threshold(threshold)
    content = gather(
        gp,
        table,
        held_out=held_out,
        checks=checks,
        evaluated=evaluated,
        threshold=threshold,
        terrain=terrain,
        station=station,
        command=command,
        title=title,
        seed=seed,
        size=size or ReportSize(),
        timings=timings,
    )
    page = render(content)
    with timing("write"):
        write_whole(path, page)
    return content


def check_threshold(threshold: float | int | None) -> None:
    """Refuse a threshold that nothing can exceed or fall short of."""
    if threshold is not None and not math.isfinite(threshold):
        raise ValueError(f"threshold must be a finite number in units of the target; it is {threshold}")


def write_report(gp: "SpaceTimeGP", path: str | os.PathLike[str], table: Any = None, **options: Any) -> None:
    """What `SpaceTimeGP.report` calls; arguments as in `build_report`."""
    build_report(gp, table, path=path, **options)


@in_float64
def gather(
    gp: "SpaceTimeGP",
    table: Any = None,
    *,
    held_out: Any = None,
    checks: Sequence[str] = _CHECKS,
    evaluated: "Mapping[str, pd.DataFrame] | None" = None,
    threshold: float | int | None = None,
    terrain: Any = None,
    station: str | None = None,
    command: str | None = None,
    title: str | None = None,
    seed: int = 0,
    size: ReportSize,
    timings: Timings | None = None,
) -> ReportContent:
    """What the report of a fitted model says; arguments as in `build_report`."""
    gp.require_one_target()
    earlier, begun = gp.timings_ if timings is None else timings, spent_so_far()
    evaluated = evaluated or {}
    unknown = [
        by for by in (*checks, *evaluated) if by not in KINDS_OF_CHECK and not (by == HELD_OUT and by in evaluated)
    ]
    if unknown:
        raise ValueError(f"checks are of 'random', 'station' and 'block'; one is {unknown[0]!r}")
    if HELD_OUT in evaluated and held_out is None:
        raise ValueError(f"evaluated[{HELD_OUT!r}] has scores of a table held out; give that table as held_out too")
    fitted = gp.fitted_
    rows = kept_rows(gp) if table is None else rows_of_table(gp, table, station)
    test = None if held_out is None else _held_out_rows(gp, held_out, station)
    looked_at = last_rows(rows, size.residual_rows)
    stations = choose_stations(rows, size.max_stations)
    axes = map_axes(gp, rows)
    map_plan = None if axes is None else plan_map(gp, rows, axes, terrain=terrain, size=size)
    series_plan = plan_series(gp, rows, stations, test, size)
    # All that is shown of the model itself, asked for together: one pass over the series, or over its regions, answers for all.
    asked = {"residuals": looked_at.measured, "series": series_plan.asked}
    if map_plan is not None:
        asked["map"] = map_plan.asked
    if test is not None and HELD_OUT not in evaluated:
        asked[HELD_OUT] = test.measured
    with timing("predict"):
        predicted = dict(zip(asked, fitted.predictions(list(asked.values())), strict=True))
    hidden = _hidden(gp, rows, test, predicted.get(HELD_OUT), checks, evaluated, seed)
    described = tuple(describe_check(each, fitted.target_sd, gp.units or "") for each in hidden)
    residuals = residuals_of(looked_at, predicted["residuals"])
    in_space, in_time = variogram(fitted, looked_at, residuals, seed), autocorrelation(fitted, looked_at, residuals)
    map_content: MapContent | None = None
    if map_plan is not None:
        limit = nice_threshold(rows.values[rows.present]) if threshold is None else float(threshold)
        map_content = build_map(gp, rows, stations, map_plan, predicted["map"], threshold=limit, size=size)
    series = build_series(gp, rows, stations, hidden, series_plan, predicted["series"], size)
    return ReportContent(
        title=title or f"{gp.target} in space and time",
        subtitle=_subtitle(gp, rows),
        target=gp.fitted_.roles.target,
        units=gp.units or "",
        verdict=judge(
            converged=fitted.converged,
            message=gp.result_.message,
            checks=described,
            in_space=in_space,
            in_time=in_time,
            has=_kinds_of_parts(fitted),
            remedy=_remedy(gp),
            unexplained=_unexplained_by_noise(fitted),
            degenerate=degenerate_scales(fitted.model, fitted.names, _extent(fitted)),
        ),
        data=build_card(gp, rows, size),
        map=map_content,
        series=series,
        components=describe_parts(gp, rows, size.component_rows),
        component_note=(
            "Share of variance over some of the rows seen: the variance of what is expected of a component, plus what is left "
            "uncertain of it."
        ),
        component_remarks=_remarks(fitted),
        component_figures=(*component_figures(gp, rows), *region_figures(gp)),
        parameters=describe_parameters(gp),
        checks=described,
        check_note=_check_note(described),
        diagnostics=(*residual_figures(in_space, in_time), *_learning_figures(gp.result_)),
        diagnostics_words=(_residual_words(looked_at, rows),),
        reproduce=describe_run(gp, rows, command=command, seed=seed, timings=earlier + (spent_so_far() - begun)),
    )


def _kinds_of_parts(fitted: Fitted) -> set[str]:
    """What the model has that a worry might else ask for."""
    names = {name for name in fitted.all_names if name is not None}
    seasons = names - {*NAMED, PLACES}
    return (names & {LOCAL, PLACES}) | ({"season"} if seasons else set())


def _remedy(gp: "SpaceTimeGP") -> str:
    """What may set intervals right that hold too little or too much."""
    if not isinstance(gp.fitted_.model.likelihood, Gaussian):
        return ANOTHER_LIKELIHOOD
    return MORE_ROWS if "noise" in names_of_habits(options_among(gp.get_params(deep=False))) else LEARN_HABITS


def _remarks(fitted: Fitted) -> tuple[Remarks, ...]:
    """What is to be said of the model besides its numbers."""
    found = (
        Remarks("What places do in their own way", tuple(habits_in_words(fitted))),
        Remarks("Regions", tuple(region_words(fitted))),
        Remarks("What was tried on small blocks of the table", tuple(f"{line}." for line in fitted.trials)),
    )
    return tuple(remarks for remarks in found if remarks.lines)


def _extent(fitted: Fitted) -> Float[np.ndarray, " space"]:
    """From end to end of where the model is, by column of space."""
    places = np.asarray(fitted.posterior.basis_places)[:, : fitted.translation.num_space]
    extent = np.ptp(places, axis=0)
    return np.where(extent > 0, extent, 1.0)


def _unexplained_by_noise(fitted: Fitted) -> float:
    """The variance that pseudo-points leave unexplained, on average over places, by that of the noise."""
    likelihood, batches = fitted.model.likelihood, fitted.posterior.batches
    if not isinstance(likelihood, Gaussian) or not batches or fitted.model.is_exact:
        return 0.0
    noise = float(likelihood.variance)
    return unexplained_variance(fitted.model, batches[0]) / noise if noise > 0 else 0.0


def _held_out_rows(gp: "SpaceTimeGP", held_out: Any, station: str | None) -> SeenRows:
    test = rows_of_table(gp, held_out, station)
    if not len(test.present):
        raise ValueError(f"the table held out has no value of {gp.target!r}; give one that has, or leave it out")
    return test


def _hidden(
    gp: "SpaceTimeGP",
    rows: SeenRows,
    test: SeenRows | None,
    predicted: Prediction | None,
    checks: Sequence[str],
    evaluated: "Mapping[str, pd.DataFrame]",
    seed: int,
) -> list[HiddenRows]:
    """Checks in order of weight: rows never seen first, which were `predicted` unless they had been scored before."""
    found = []
    if test is not None:
        found.append(
            scored_rows(test, evaluated[HELD_OUT])
            if predicted is None
            else score_hidden(gp.fitted_.translation, rows, test, predicted, HELD_OUT, seed)
        )
    found += [evaluated_rows(rows, by, scored) for by, scored in evaluated.items() if by != HELD_OUT]
    tried = [hide_rows(gp.fitted_, rows, by, seed) for by in checks if by not in evaluated]
    return [*found, *(each for each in tried if each is not None)]


def _subtitle(gp: "SpaceTimeGP", rows: SeenRows) -> str:
    first, last = time_labels(gp.fitted_.translation.clock, np.array([rows.times.min(), rows.times.max()]))
    where = counted(rows.num_places, "station" if rows.has_names else "place")
    return f"{counted(len(rows.values), 'row')} at {where}, {first} to {last}"


def _check_note(checks: Sequence[Check]) -> str:
    if not checks:
        return "Nothing was held out and nothing hidden, so nothing is known about how good predictions are."
    if [check.by for check in checks] == ["held_out"]:
        return ""
    return (
        "Where rows are hidden, parameters stay as learned from all rows and everything else is predicted from the rows "
        "left. Baselines see the same rows. The best of each column is bold; lower is better, but bias should be 0 and "
        "coverage what it names."
    )


def _residual_words(looked_at: SeenRows, rows: SeenRows) -> str:
    which = "all" if len(looked_at.values) == len(rows.present) else f"the last {len(looked_at.values):,} of"
    return (
        f"Residuals are (value − mean) / standard deviation at {which} {len(rows.present):,} rows the model has seen."
    )


def _learning_figures(result: FitResult) -> tuple[Figure, ...]:
    history = [step for step in result.history if step.start == 0]
    if len(history) < 2:
        return ()
    return (
        evidence_figure("learning", [step.num_evaluations for step in history], [step.objective for step in history]),
    )
