# SPDX-License-Identifier: MIT
"""`weft evaluate`."""

import pathlib
from typing import Annotated

from cyclopts import Parameter

from weft.cli.options import (
    DEFAULT_COLUMNS,
    DEFAULT_MODEL,
    AsJson,
    ColumnOptions,
    Config,
    ModelOptions,
    Places,
    RowsFile,
    Scheduler,
    TableOfConfig,
    Workers,
    names_in,
    settings_from,
)
from weft.cli.printing import emit, remark

__all__ = ["evaluate"]


def evaluate(
    table: TableOfConfig = None,
    *,
    model: Annotated[
        pathlib.Path | None, Parameter(help="A fitted model whose parameters are used; without it one is fitted first.")
    ] = None,
    by: Annotated[str | None, Parameter(help="random, station, block, time; several separated by commas.")] = None,
    folds: Annotated[int | None, Parameter(help="5 if not given, of which a very large model predicts fewer.")] = None,
    horizon: Annotated[
        str | None, Parameter(help="With --by time: forecast so far, such as 90D, and score by lead time.")
    ] = None,
    refit: Annotated[bool, Parameter(help="Learn anew for every fold: as many fits.", show_default=False)] = False,
    output: Annotated[
        pathlib.Path | None, Parameter(name=["--output", "-o"], help="Also write the table of scores here.")
    ] = None,
    rows: RowsFile = None,
    places: Places = None,
    config: Config = None,
    columns: ColumnOptions = DEFAULT_COLUMNS,
    options: ModelOptions = DEFAULT_MODEL,
    workers: Workers = None,
    scheduler: Scheduler = None,
    json: AsJson = False,
) -> None:
    """Cross-validate: hold rows out, predict them, and score that beside naive baselines."""
    from weft.distributed import cluster, tasks_on
    from weft.project import evaluate_file

    settings = settings_from(config, table, columns, options, places=places).held_out_by(names_in(by), folds, horizon)
    with cluster(workers, scheduler) as client, tasks_on(client):
        found = evaluate_file(
            settings, model=model, advised=config is None, refit=refit, output=output, rows=rows, say=remark
        )
    emit({"scores": found.scores.to_dict("records")}, str(found), as_json=json)
