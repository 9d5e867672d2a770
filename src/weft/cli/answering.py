# SPDX-License-Identifier: MIT
"""Verbs that get answers out of a model: predict, sample, report."""

import pathlib
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
    from weft.data.files import check_output, file_kind, read_table, write_table

    levels = numbers_in(quantiles, "--quantiles")
    file_kind(output)
    check_output(output)
    gp = load_estimator(model)
    answer = gp.predict(read_table(table), quantiles=levels, of=of)
    write_table(answer, output)
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
    from weft.data.files import check_output, file_kind, read_table, write_table

    file_kind(output)
    check_output(output)
    gp = load_estimator(model)
    write_table(gp.sample(read_table(table), num=num, seed=seed, of=of), output)
    emit({"output": str(output), "num": num, "of": of}, f"saved {num} draws in {output}", as_json=json)


def report(
    model: ModelFile,
    *,
    output: Annotated[pathlib.Path, Parameter(name=["--output", "-o"], help="An HTML file.")] = pathlib.Path(
        "report.html"
    ),
    json: AsJson = False,
) -> None:
    """Write the report of a model: one HTML file with map, series, scores and what to worry about."""
    from weft.cli.modelling import load_estimator
    from weft.data.files import check_output

    check_output(output)
    load_estimator(model).report(output)
    emit({"output": str(output)}, f"saved {output}", as_json=json)
