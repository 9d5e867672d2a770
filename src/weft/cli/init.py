# SPDX-License-Identifier: MIT
"""`weft init`."""

import pathlib
from typing import Annotated

from cyclopts import Parameter

from weft.cli.options import (
    DEFAULT_COLUMNS,
    DEFAULT_MODEL,
    AsJson,
    ColumnOptions,
    Places,
    Scheduler,
    Workers,
    settings_from,
)
from weft.cli.printing import emit

__all__ = ["init"]


def init(
    table: Annotated[pathlib.Path, Parameter(help="Text, parquet, Excel, NetCDF, Zarr or GeoPackage, by its name.")],
    *,
    output: Annotated[pathlib.Path, Parameter(name=["--output", "-o"], help="The file to write.")] = pathlib.Path(
        "weft.toml"
    ),
    places: Places = None,
    force: Annotated[bool, Parameter(help="Replace the file if it is there.", show_default=False)] = False,
    columns: ColumnOptions = DEFAULT_COLUMNS,
    workers: Workers = None,
    scheduler: Scheduler = None,
    json: AsJson = False,
) -> None:
    """Look at a table, say which column is what and why, and write a commented weft.toml.

    What is known already (--time, --space, --target, ...) is not guessed.
    """
    from weft.distributed import cluster, tasks_on
    from weft.project import start

    settings = settings_from(None, table, columns, DEFAULT_MODEL, places=places)
    with cluster(workers, scheduler) as client, tasks_on(client):
        _, reasons, notes = start(settings, output, replace=force)
    words = [f"{role}: {reason}" for role, reason in reasons.items()] + list(notes)
    text = "\n".join([*words, f"wrote {output}; look it over, then `weft check {output}` and `weft run {output}`"])
    emit({"config": str(output), "reasons": reasons, "notes": list(notes)}, text, as_json=json)
