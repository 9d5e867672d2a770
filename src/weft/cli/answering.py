# SPDX-License-Identifier: MIT
"""Verbs that get answers out of a model: predict, sample, report."""

import pathlib
import shlex
import sys
from typing import Annotated

from cyclopts import Parameter

from weft.cli.options import AsJson, ModelFile, Of, RowsOrGrid, numbers_in
from weft.cli.printing import emit

__all__ = ["predict", "report", "sample"]

Output = Annotated[pathlib.Path, Parameter(name=["--output", "-o"], help="csv, parquet, NetCDF or Zarr, by its name.")]


def predict(
    model: ModelFile,
    table: RowsOrGrid,
    *,
    output: Output,
    quantiles: Annotated[str, Parameter(help="Levels, separated by commas.")] = "0.05,0.95",
    of: Of = "observation",
    json: AsJson = False,
) -> None:
    """Predict at the rows of a table or the points of a grid: mean, sd, latent_sd and quantiles."""
    from weft.cli.modelling import load_estimator
    from weft.data.files import check_table_output, read_table_to_answer, write_pieces

    levels = numbers_in(quantiles, "--quantiles")
    check_table_output(output)
    gp = load_estimator(model)
    asked = read_table_to_answer(table, output)
    write_pieces(gp.predict_pieces(asked, quantiles=levels, of=of), output)
    emit({"output": str(output), "of": of}, f"saved {output}", as_json=json)


def sample(
    model: ModelFile,
    table: RowsOrGrid,
    *,
    output: Output,
    num: Annotated[int, Parameter(help="How many draws.")] = 10,
    seed: int = 0,
    of: Of = "observation",
    json: AsJson = False,
) -> None:
    """Draw fields at the rows of a table or the points of a grid, jointly over places and times."""
    from weft.cli.modelling import load_estimator
    from weft.data.files import check_table_output, read_table, write_table

    check_table_output(output)
    gp = load_estimator(model)
    write_table(gp.sample(read_table(table), num=num, seed=seed, of=of), output)
    emit({"output": str(output), "num": num, "of": of}, f"saved {num} draws in {output}", as_json=json)


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
    json: AsJson = False,
) -> None:
    """Write the report of a model: one HTML file with map, series, scores and what to worry about."""
    from weft.cli.modelling import load_estimator
    from weft.data.files import check_output, read_table
    from weft.report.build import build_report

    check_output(output)
    gp = load_estimator(model)
    seen, unseen, heights = (None if file is None else read_table(file) for file in (table, held_out, terrain))
    content = build_report(
        gp,
        seen,
        path=output,
        held_out=unseen,
        station=station,
        terrain=heights,
        threshold=threshold,
        title=title,
        command=command_line(),
    )
    verdict = content.verdict
    record = {"output": str(output), "verdict": verdict.headline, "worries": list(verdict.worries)}
    emit(record, "\n".join([verdict.headline, *verdict.worries, f"saved {output}"]), as_json=json)


def command_line() -> str:
    """What was typed, for the report's account of how it was made."""
    return shlex.join(["weft", *sys.argv[1:]])
