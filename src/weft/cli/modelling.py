# SPDX-License-Identifier: MIT
"""Verbs that make a model or tell what is in one: fit, update, info."""

import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from weft.cli.duplicates import KeepDuplicates, copies_of, keeping_duplicates, refuse_copies
from weft.cli.options import (
    DEFAULT_COLUMNS,
    DEFAULT_MODEL,
    AsJson,
    ColumnOptions,
    Config,
    ModelFile,
    ModelOptions,
    Rows,
    TableOfConfig,
    completed_settings,
    settings_from,
)
from weft.cli.printing import emit, remark

if TYPE_CHECKING:
    from weft.config import Settings
    from weft.estimator import SpaceTimeGP

__all__ = ["checkpoint_of", "fit", "fit_estimator", "fitted_record", "info", "load_estimator", "read_rows", "update"]

INTERRUPTED = 130


def fit(
    table: TableOfConfig = None,
    *,
    output: Annotated[pathlib.Path, Parameter(name=["--output", "-o"], help="Where the model goes.")] = pathlib.Path(
        "model.weft"
    ),
    config: Config = None,
    resume: Annotated[
        bool, Parameter(help="Go on from where an interrupted fit to this output stopped.", show_default=False)
    ] = False,
    keep_duplicates: KeepDuplicates = False,
    columns: ColumnOptions = DEFAULT_COLUMNS,
    model: ModelOptions = DEFAULT_MODEL,
    json: AsJson = False,
) -> int:
    """Learn a model from a table and save it.

    Ctrl-C saves the best so far; --resume goes on.
    """
    from weft.data.files import check_output

    settings = keeping_duplicates(settings_from(config, table, columns, model), keep_duplicates)
    check_output(output)
    rows = read_rows(settings)
    settings, remarks = completed_settings(settings, rows, advised=config is None)
    refuse_copies(copies_of(settings, rows), settings, rows)
    gp = fit_estimator(settings, rows, remarks, checkpoint=checkpoint_of(output), resume=resume)
    gp.save(output)
    was_interrupted = gp.result_.message.startswith("interrupted")
    if was_interrupted:
        remark(f"weft: interrupted; the best so far is in {output}, and --resume goes on from it")
    else:
        checkpoint_of(output).unlink(missing_ok=True)
    emit(fitted_record(gp) | {"model": str(output)}, f"{gp.summary()}\nsaved {output}", as_json=json)
    return INTERRUPTED if was_interrupted else 0


def update(
    model: ModelFile,
    table: Rows,
    *,
    output: Annotated[pathlib.Path, Parameter(name=["--output", "-o"], help="Where the new model goes.")],
    json: AsJson = False,
) -> None:
    """Take new rows into a model without learning again."""
    from weft.data.files import check_output, read_table

    check_output(output)
    gp = load_estimator(model)
    before, rows = gp.fitted_, read_table(table)
    gp.update(rows)
    gp.save(output)
    added, repeated = gp.num_rows_ - before.num_rows, before.num_repeated(before.read(rows))
    if repeated:
        remark(
            f"weft: note: {repeated:,} of {added:,} rows are at a time and place the model has a value for already; "
            "each counts as one more measurement"
        )
    record = {
        "model": str(output),
        "num_rows_added": added,
        "num_rows_repeated": repeated,
        "num_rows": gp.num_rows_,
    }
    emit(record, f"added {added:,} rows, {gp.num_rows_:,} in all; saved {output}", as_json=json)


def info(model: ModelFile, *, json: AsJson = False) -> None:
    """Say what a model file holds."""
    gp = load_estimator(model)
    emit(fitted_record(gp), gp.summary(), as_json=json)


def read_rows(settings: "Settings") -> Any:
    """The table of the settings, and a sentence if they name none."""
    from weft.data.files import read_table

    if settings.data.table is None:
        raise ValueError("there is no table to read; give one, or name it under [data] in the config")
    return read_table(settings.data.table)


def fit_estimator(
    settings: "Settings",
    rows: Any,
    remarks: Sequence[str] = (),
    *,
    checkpoint: pathlib.Path | None = None,
    resume: bool = False,
) -> "SpaceTimeGP":
    """A fitted estimator. Remarks, and what is odd about the rows, are said once it is clear that they can be used."""
    from weft.config import estimator_arguments
    from weft.data.inspect import survey_table
    from weft.data.tables import as_table
    from weft.estimator import SpaceTimeGP

    gp = SpaceTimeGP(**estimator_arguments(settings))
    table = as_table(rows, [gp.time, *gp.space, gp.target])
    survey = survey_table(table, time=gp.time, space=gp.space, target=gp.target, time_format=gp.time_format)
    unsaid = [*remarks, *(f"note: {note}" for note in survey.notes)]

    def say(step: Any = None) -> None:
        while unsaid:
            remark(f"weft: {unsaid.pop(0)}")

    gp.fit(rows, checkpoint=checkpoint, resume=resume, callback=say)
    say()
    return gp


def checkpoint_of(output: pathlib.Path) -> pathlib.Path:
    return output.with_name(f"{output.name}.checkpoint")


def load_estimator(path: pathlib.Path) -> "SpaceTimeGP":
    """The estimator in a file; a posterior saved by hand has no columns to work with and is refused."""
    from weft.estimator import SpaceTimeGP
    from weft.loading import load

    loaded = load(path)
    if not isinstance(loaded, SpaceTimeGP):
        raise ValueError(f"{str(path)!r} holds a {type(loaded).__name__}, not a model of a table; make one with fit")
    return loaded


def fitted_record(gp: "SpaceTimeGP") -> dict[str, Any]:
    """A fitted model in numbers."""
    result = gp.result_
    return {
        "time": gp.time,
        "space": list(gp.space),
        "target": gp.target,
        "num_rows": gp.num_rows_,
        "num_missing": gp.num_missing_,
        "num_times": len(gp.posterior_.times),
        "log_evidence": result.log_evidence,
        "converged": result.converged,
        "message": result.message,
        "seconds": result.seconds,
        "parameters": {name: value.tolist() for name, value in result.parameters.items()},
    }
