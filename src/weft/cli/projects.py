# SPDX-License-Identifier: MIT
"""Verbs around a weft.toml: init writes one, check looks before a fit, run does all of it."""

import pathlib
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from weft.cli.duplicates import KeepDuplicates, copies_of, keeping_duplicates, objection_to, refuse_copies
from weft.cli.options import AsJson, advised_model, completed_settings
from weft.cli.printing import aligned, emit, megabytes, remark

if TYPE_CHECKING:
    from weft.config import Settings
    from weft.data.inspect import Survey

__all__ = ["check", "init", "run"]

CONFIG = pathlib.Path("weft.toml")


def init(
    table: Annotated[pathlib.Path, Parameter(help="csv, parquet, NetCDF or Zarr.")],
    *,
    output: Annotated[pathlib.Path, Parameter(name=["--output", "-o"], help="The file to write.")] = CONFIG,
    force: Annotated[bool, Parameter(help="Replace the file if it is there.", show_default=False)] = False,
    json: AsJson = False,
) -> None:
    """Look at a table, say which column is what and why, and write a commented weft.toml."""
    from weft.config import write_starting_file
    from weft.data.files import check_output, read_table

    check_output(output)
    if output.exists() and not force:
        raise FileExistsError(f"{str(output)!r} is there already; give another name with -o, or --force to replace it")
    settings, reasons, notes = inferred_settings(table, output, read_table(table))
    write_starting_file(output, settings, reasons, notes)
    words = [f"{role}: {reason}" for role, reason in reasons.items()] + list(notes)
    text = "\n".join([*words, f"wrote {output}; look it over, then `weft check {output}` and `weft run {output}`"])
    emit({"config": str(output), "reasons": reasons, "notes": list(notes)}, text, as_json=json)


def check(
    target: Annotated[pathlib.Path, Parameter(help="A weft.toml, or a table.")] = CONFIG, *, json: AsJson = False
) -> None:
    """Read a config's table and say what is in it, what is odd, and what a fit will take. Fits nothing."""
    from weft.cli.costs import cost_of
    from weft.cli.modelling import read_rows
    from weft.config import estimator_arguments
    from weft.estimator import SpaceTimeGP

    settings, is_config = _settings_of(target)
    rows = read_rows(settings)
    settings, remarks = completed_settings(settings, rows, advised=not is_config)
    cost = cost_of(SpaceTimeGP(**estimator_arguments(settings)), rows)
    survey, copies = surveyed(settings, rows), copies_of(settings, rows)
    objection = objection_to(copies, settings, rows)
    lines = [
        ["memory to fit, about", megabytes(cost.memory_bytes)],
        ["memory there is", megabytes(cost.available_bytes)],
        ["time to fit, about", _duration(cost.fit_seconds)],
        ["pseudo-points in all", f"{cost.num_pseudo_points:,}"],
        ["rows to learn from", f"{cost.num_learning_rows:,}"],
    ]
    notes = [f"note: {note}" for note in survey.notes]
    if objection is not None:
        notes.append(f"note: fit and run refuse this table: {objection}")
    text = "\n".join([*remarks, survey_text(survey, copies.number, lines), *notes])
    emit(survey.to_json() | {"num_copies": copies.number} | cost._asdict(), text, as_json=json)


def run(
    config: Annotated[pathlib.Path, Parameter(help="A weft.toml.")] = CONFIG,
    *,
    resume: Annotated[
        bool, Parameter(help="Go on from where an interrupted run stopped fitting.", show_default=False)
    ] = False,
    keep_duplicates: KeepDuplicates = False,
    json: AsJson = False,
) -> int:
    """Check, fit, evaluate, predict and report, as a config says."""
    from weft.cli.answering import command_line
    from weft.cli.judging import check_kinds, cross_validated, evaluation_text
    from weft.cli.modelling import INTERRUPTED, checkpoint_of, fit_estimator, fitted_record, read_rows
    from weft.config import read_settings
    from weft.data.files import (
        check_output,
        check_table_output,
        read_table,
        read_table_to_answer,
        write_pieces,
        write_table,
    )
    from weft.estimator.evaluation import joined
    from weft.report.build import KINDS_OF_CHECK, build_report

    started = time.perf_counter()
    settings = keeping_duplicates(read_settings(config), keep_duplicates)
    folder = pathlib.Path(settings.output.folder)
    files = {name: folder / getattr(settings.output, name) for name in ("model", "scores", "report")}
    if settings.predict.table is not None:
        files["predictions"] = folder / settings.predict.output
    for name, file in files.items():
        (check_table_output if name in ("scores", "predictions") else check_output)(file)
    check_kinds(settings.evaluate.by)
    rows = read_rows(settings)
    asked = None
    if settings.predict.table is not None:
        asked = read_table_to_answer(settings.predict.table, files["predictions"])
    heights = None if settings.report.terrain is None else read_table(settings.report.terrain)
    settings, remarks = completed_settings(settings, rows)
    survey, copies = surveyed(settings, rows), copies_of(settings, rows)
    refuse_copies(copies, settings, rows)
    rehearse(settings, rows, asked, heights)
    gp = fit_estimator(
        settings,
        rows,
        [*remarks, f"fitting these rows\n{survey_text(survey, copies.number)}"],
        checkpoint=checkpoint_of(files["model"]),
        resume=resume,
    )
    gp.save(files["model"])
    if gp.result_.message.startswith("interrupted"):
        remark(f"weft: interrupted; the best so far is in {files['model']}, and --resume goes on from it")
        return INTERRUPTED
    remark(gp.summary())
    evaluated = {by: cross_validated(gp, rows, by, settings.evaluate.folds) for by in settings.evaluate.by}
    tidy = joined(summed for summed, _ in evaluated.values())
    write_table(tidy, files["scores"])
    if asked is not None:
        pieces = gp.predict_pieces(asked, quantiles=settings.predict.quantiles, of=settings.predict.of)
        write_pieces(pieces, files["predictions"])
    content = build_report(
        gp,
        rows,
        path=files["report"],
        evaluated={by: scored for by, (_, scored) in evaluated.items() if by in KINDS_OF_CHECK},
        station=settings.report.station,
        terrain=heights,
        threshold=settings.report.threshold,
        title=settings.report.title,
        command=command_line(),
    )
    checkpoint_of(files["model"]).unlink(missing_ok=True)
    seconds = time.perf_counter() - started
    record = {
        "check": survey.to_json() | {"num_copies": copies.number},
        "fit": fitted_record(gp),
        "scores": tidy.to_dict("records"),
        "verdict": content.verdict.headline,
        "files": {name: str(file) for name, file in files.items()},
        "seconds": seconds,
    }
    saved = ", ".join(str(file) for file in files.values())
    text = f"{evaluation_text(tidy)}\n\n{content.verdict.headline}\nsaved {saved} in {seconds:.0f} s"
    emit(record, text, as_json=json)
    return 0


def rehearse(settings: "Settings", rows: Any, asked: Any, heights: Any) -> None:
    """Refuse before the fit, which is long, whatever a run would only find wrong after it."""
    from weft.config import estimator_arguments
    from weft.estimator import SpaceTimeGP
    from weft.estimator.rehearsal import check_folds, check_question, check_station, check_terrain, prepare

    prepared = prepare(SpaceTimeGP(**estimator_arguments(settings)), rows)
    check_station(prepared, settings.report.station)
    check_terrain(prepared, heights)
    check_folds(prepared, settings.evaluate.by, settings.evaluate.folds)
    if asked is not None:
        check_question(prepared, asked, settings.predict.quantiles, settings.predict.of)


def inferred_settings(
    path: pathlib.Path, config: pathlib.Path, rows: Any
) -> "tuple[Settings, dict[str, str], tuple[str, ...]]":
    """Settings guessed from a table, the reason for each guess, and what else there is to say."""
    import os

    from weft.config import DataSettings, EvaluateSettings, ModelSettings, ReportSettings, Settings
    from weft.data.inspect import guess_columns, survey_table
    from weft.data.tables import as_table

    table = as_table(rows)
    guesses = guess_columns(table)
    found: dict[str, Any] = {}
    reasons: dict[str, str] = {}
    for role in ("time", "space", "target"):
        guess = getattr(guesses, role)
        if guess is None:
            objection = guesses.time_objection if role == "time" else None
            reasons[role] = objection or f"no column looks like the {role}; choose among {', '.join(table.names)}"
        else:
            found[role] = guess.columns if role == "space" else guess.columns[0]
            reasons[role] = guess.reason
    notes: tuple[str, ...] = ()
    by: tuple[str, ...] = ("random",)
    model = ModelSettings()
    if len(found) == 3:
        wanted = [found["time"], *found["space"], found["target"]]
        survey = survey_table(as_table(rows, wanted), **found)
        notes = (_shape_words(survey), *survey.notes)
        if survey.num_places >= 10:
            by = ("random", "station")
        model = ModelSettings(transform=survey.advice.transform, likelihood=survey.advice.likelihood)
        reasons |= dict.fromkeys(advised_model(survey), survey.advice.reason)
    if guesses.others:
        notes = (*notes, f"further columns of numbers that could be covariates: {', '.join(guesses.others)}")
    data = DataSettings(table=os.path.relpath(path, config.parent), **found)
    station = None if guesses.station is None else guesses.station.columns[0]
    if guesses.station is not None:
        reasons["station"] = guesses.station.reason
    settings = Settings(
        data=data, model=model, evaluate=EvaluateSettings(by=by), report=ReportSettings(station=station)
    )
    if len(found) == 3:
        objection = objection_to(copies_of(settings, rows), settings, rows)
        notes = (*notes, *(() if objection is None else (f"fit and run refuse this table: {objection}",)))
    return settings, reasons, notes


def surveyed(settings: "Settings", rows: Any) -> "Survey":
    """Counts of the table of completed settings."""
    from weft.data.inspect import survey_table
    from weft.data.tables import as_table

    time_column, space, target = settings.data.time, settings.data.space or (), settings.data.target
    assert time_column is not None
    assert target is not None
    return survey_table(
        as_table(rows, [time_column, *space, target]),
        time=time_column,
        space=space,
        target=target,
        time_format=settings.data.time_format,
    )


def survey_text(survey: "Survey", num_copies: int, more: Sequence[Sequence[str]] = ()) -> str:
    lines = [
        ["rows", f"{survey.num_rows:,}"],
        ["without a value", f"{survey.num_missing_target:,}"],
        ["repeating a time and place", f"{survey.num_duplicates:,}"],
        ["repeating every column", f"{num_copies:,}"],
        ["places", f"{survey.num_places:,}"],
        ["times", f"{survey.num_times:,}"],
        ["from", survey.first_time],
        ["to", survey.last_time],
        ["usual step", survey.step_words],
        ["gaps in time", f"{survey.num_gaps:,}"],
        ["present of places x times", f"{survey.share_present:.1%}"],
        ["lowest value", f"{survey.target_lowest:g}"],
        ["highest value", f"{survey.target_highest:g}"],
        *more,
    ]
    return aligned(lines)


def _settings_of(target: pathlib.Path) -> "tuple[Settings, bool]":
    """Settings of a config, or for a table, and whether it is a config."""
    from weft.config import DataSettings, Settings, read_settings

    if target.suffix == ".toml" or not target.suffix:
        return read_settings(target), True
    return Settings(data=DataSettings(table=str(target))), False


def _shape_words(survey: "Survey") -> str:
    wide = "" if survey.width_km is None else f" across {survey.width_km:,.0f} km"
    return (
        f"{survey.num_rows:,} rows at {survey.num_places:,} places{wide} and {survey.num_times:,} times "
        f"(usual step {survey.step_words}), {survey.first_time} to {survey.last_time}"
    )


def _duration(seconds: float | int) -> str:
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
