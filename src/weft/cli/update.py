# SPDX-License-Identifier: MIT
"""`weft update`."""

import pathlib
from typing import Annotated

from cyclopts import Parameter

from weft.cli.options import AsJson, ModelFile, Places, Rows
from weft.cli.printing import emit, remark

__all__ = ["update"]


def update(
    model: ModelFile,
    table: Rows,
    *,
    output: Annotated[pathlib.Path, Parameter(name=["--output", "-o"], help="Where the new model goes.")],
    places: Places = None,
    json: AsJson = False,
) -> None:
    """Take new rows into a model without learning again.

    A model keeps its rows: those of a folder are in memory together, unless it has so many that they stay on disk; then file by file.
    """
    from weft.project import update_file

    added, repeated, num_rows = update_file(model, table, output, places=places)
    if repeated:
        remark(
            f"weft: note: {repeated:,} of {added:,} rows are at a time and place the model has a value for already; "
            "each counts as one more measurement"
        )
    record = {"model": str(output), "num_rows_added": added, "num_rows_repeated": repeated, "num_rows": num_rows}
    emit(record, f"added {added:,} rows, {num_rows:,} in all; saved {output}", as_json=json)
