# SPDX-License-Identifier: MIT
"""`weft run`."""

import pathlib
from typing import Annotated

from cyclopts import Parameter

from weft.cli.options import (
    DEFAULT_COLUMNS,
    DEFAULT_MODEL,
    INTERRUPTED,
    AsJson,
    KeepDuplicates,
    Profile,
    Scheduler,
    Workers,
    command_line,
    settings_from,
)
from weft.cli.printing import emit, remark, with_profile
from weft.phases import recording, timing

__all__ = ["run"]


def run(
    config: Annotated[pathlib.Path, Parameter(help="A weft.toml.")] = pathlib.Path("weft.toml"),
    *,
    resume: Annotated[
        bool, Parameter(help="Go on from where an interrupted run stopped fitting.", show_default=False)
    ] = False,
    keep_duplicates: KeepDuplicates = False,
    profile: Profile = False,
    workers: Workers = None,
    scheduler: Scheduler = None,
    json: AsJson = False,
) -> int:
    """Check, fit, evaluate, predict and report, as a config says."""
    with recording():
        with timing("import"):
            from weft import project
            from weft.distributed import cluster, tasks_on

        settings = settings_from(config, None, DEFAULT_COLUMNS, DEFAULT_MODEL, keep_duplicates=keep_duplicates)
        with cluster(workers, scheduler) as client, tasks_on(client):
            done = project.run(settings, resume=resume, say=remark, command=command_line())
    if done.report is None:
        return INTERRUPTED
    record, text = with_profile(done.to_json(), str(done), done.timings if profile else None)
    emit(record, text, as_json=json)
    return 0
