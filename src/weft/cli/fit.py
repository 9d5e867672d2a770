# SPDX-License-Identifier: MIT
"""`weft fit`."""

import pathlib
from typing import Annotated

from cyclopts import Parameter

from weft.cli.options import (
    DEFAULT_COLUMNS,
    DEFAULT_MODEL,
    INTERRUPTED,
    AsJson,
    ColumnOptions,
    Config,
    KeepDuplicates,
    ModelOptions,
    Places,
    Profile,
    Scheduler,
    TableOfConfig,
    Workers,
    settings_from,
)
from weft.cli.printing import emit, remark, with_profile
from weft.phases import recording, timing

__all__ = ["fit"]


def fit(
    table: TableOfConfig = None,
    *,
    output: Annotated[pathlib.Path, Parameter(name=["--output", "-o"], help="Where the model goes.")] = pathlib.Path(
        "model.weft"
    ),
    places: Places = None,
    config: Config = None,
    resume: Annotated[
        bool, Parameter(help="Go on from where an interrupted fit to this output stopped.", show_default=False)
    ] = False,
    keep_duplicates: KeepDuplicates = False,
    profile: Profile = False,
    columns: ColumnOptions = DEFAULT_COLUMNS,
    model: ModelOptions = DEFAULT_MODEL,
    workers: Workers = None,
    scheduler: Scheduler = None,
    json: AsJson = False,
) -> int:
    """Learn a model from a table and save it.

    Ctrl-C saves the best so far; --resume goes on.
    """
    with recording() as account:
        with timing("import"):
            from weft.distributed import cluster
            from weft.project import fit_file, fitted_record, was_interrupted

        settings = settings_from(config, table, columns, model, keep_duplicates=keep_duplicates, places=places)
        with cluster(workers, scheduler) as client:
            gp = fit_file(settings, output, advised=config is None, resume=resume, say=remark, client=client)
        done = fitted_record(gp) | {"model": str(output)}
        record, text = with_profile(done, f"{gp.summary()}\nsaved {output}", account.so_far() if profile else None)
    emit(record, text, as_json=json)
    return INTERRUPTED if was_interrupted(gp) else 0
