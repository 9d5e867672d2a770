# SPDX-License-Identifier: MIT
"""`weft init`."""

import pathlib
from typing import Annotated

from cyclopts import Parameter

from weft.cli.options import AsJson
from weft.cli.printing import emit

__all__ = ["init"]


def init(
    table: Annotated[pathlib.Path, Parameter(help="csv, parquet, NetCDF or Zarr.")],
    *,
    output: Annotated[pathlib.Path, Parameter(name=["--output", "-o"], help="The file to write.")] = pathlib.Path(
        "weft.toml"
    ),
    force: Annotated[bool, Parameter(help="Replace the file if it is there.", show_default=False)] = False,
    json: AsJson = False,
) -> None:
    """Look at a table, say which column is what and why, and write a commented weft.toml."""
    from weft.project import start

    _, reasons, notes = start(table, output, replace=force)
    words = [f"{role}: {reason}" for role, reason in reasons.items()] + list(notes)
    text = "\n".join([*words, f"wrote {output}; look it over, then `weft check {output}` and `weft run {output}`"])
    emit({"config": str(output), "reasons": reasons, "notes": list(notes)}, text, as_json=json)
