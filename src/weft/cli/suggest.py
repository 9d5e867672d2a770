# SPDX-License-Identifier: MIT
"""`weft suggest`."""

import pathlib
from typing import Annotated

from cyclopts import Parameter

from weft.cli.options import AsJson, ModelFile, OneTarget, TableOutput
from weft.cli.printing import emit

__all__ = ["suggest"]


def suggest(
    model: ModelFile,
    candidates: Annotated[pathlib.Path, Parameter(help="Places to choose from: a table, or a grid (see `weft grid`).")],
    *,
    output: TableOutput,
    num: Annotated[int, Parameter(help="How many places.")] = 1,
    time: Annotated[str | None, Parameter(help="When; left out: at the last time.")] = None,
    target: OneTarget = None,
    json: AsJson = False,
) -> None:
    """Choose places for new stations: those that lower the mean variance of the map most."""
    from weft.project import suggest_file

    suggest_file(model, candidates, output, num=num, time=time, target=target)
    emit({"output": str(output), "num": num}, f"saved {num} places in {output}", as_json=json)
