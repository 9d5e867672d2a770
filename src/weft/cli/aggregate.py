# SPDX-License-Identifier: MIT
"""`weft aggregate`."""

import pathlib
from typing import Annotated, Literal

from cyclopts import Parameter

from weft.cli.options import (
    AsJson,
    ModelFile,
    Of,
    OneTarget,
    Places,
    Quantiles,
    RowsOrGrid,
    TableOutput,
    names_in,
    numbers_in,
)
from weft.cli.printing import emit

__all__ = ["aggregate"]


def aggregate(
    model: ModelFile,
    table: RowsOrGrid,
    *,
    output: TableOutput,
    by: Annotated[
        str, Parameter(help="Columns, or year, month, day, hour of the time, separated by commas; left out: all rows.")
    ] = "",
    weights: Annotated[str | None, Parameter(help="area (of the cells of a grid), or a column.")] = None,
    how: Annotated[Literal["mean", "sum"], Parameter(help="What to make of a group.")] = "mean",
    compare: Annotated[
        str | None, Parameter(help="Two groups, a,b: their difference a - b, with its own uncertainty.")
    ] = None,
    polygons: Annotated[
        pathlib.Path | None, Parameter(help="GeoJSON or GeoPackage, whose properties may make groups (--by name).")
    ] = None,
    quantiles: Quantiles = "0.05,0.95",
    of: Of = "field",
    places: Places = None,
    target: OneTarget = None,
    json: AsJson = False,
) -> None:
    """Average or add up over groups of rows or of points of a grid, with the uncertainty of the result."""
    from weft.project import aggregate_file

    num_groups = aggregate_file(
        *(model, table, output),
        by=names_in(by) or (),
        weights=weights,
        how=how,
        compare=names_in(compare),
        polygons=polygons,
        quantiles=numbers_in(quantiles, "--quantiles"),
        of=of,
        places=places,
        target=target,
    )
    what = "the difference" if compare is not None else f"{num_groups:,} groups"
    emit({"output": str(output), "num_groups": num_groups, "of": of}, f"saved {what} in {output}", as_json=json)
