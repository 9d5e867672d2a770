# SPDX-License-Identifier: MIT
"""`weft report`."""

import pathlib
from typing import Annotated

from cyclopts import Parameter

from weft.cli.options import AsJson, ModelFile, OneTarget, Places, command_line
from weft.cli.printing import emit

__all__ = ["report"]


def report(
    model: ModelFile,
    *,
    output: Annotated[pathlib.Path, Parameter(name=["--output", "-o"], help="An HTML file.")] = pathlib.Path(
        "report.html"
    ),
    table: Annotated[
        pathlib.Path | None, Parameter(help="What the model was fitted to; without it, the rows the model kept.")
    ] = None,
    held_out: Annotated[pathlib.Path | None, Parameter(help="Rows the model has not seen, to score it on.")] = None,
    station: Annotated[str | None, Parameter(help="The table's column with the stations' names.")] = None,
    terrain: Annotated[
        pathlib.Path | None, Parameter(help="Map coordinates and the other columns of space, such as elevation.")
    ] = None,
    threshold: Annotated[float | None, Parameter(help="Of the map of probabilities.")] = None,
    title: str | None = None,
    places: Places = None,
    target: OneTarget = None,
    json: AsJson = False,
) -> None:
    """Write the report of a model: one HTML file with map, series, scores and what to worry about."""
    from weft.project import report_file

    content = report_file(
        model,
        output,
        table=table,
        held_out=held_out,
        terrain=terrain,
        station=station,
        threshold=threshold,
        title=title,
        places=places,
        target=target,
        command=command_line(),
    )
    verdict = content.verdict
    record = {"output": str(output), "verdict": verdict.headline, "worries": list(verdict.worries)}
    emit(record, "\n".join([verdict.headline, *verdict.worries, f"saved {output}"]), as_json=json)
