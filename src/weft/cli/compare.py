# SPDX-License-Identifier: MIT
"""`weft compare`."""

import pathlib
from typing import Annotated

from cyclopts import Parameter

from weft.cli.options import AsJson
from weft.cli.printing import emit

__all__ = ["compare"]

Scored = Annotated[
    pathlib.Path, Parameter(help="A model, or a file of scored rows (`weft score --rows`, `weft evaluate --rows`).")
]


def compare(
    first: Scored,
    second: Scored,
    table: Annotated[pathlib.Path | None, Parameter(help="Rows to score models on, which neither has seen.")] = None,
    *,
    json: AsJson = False,
) -> None:
    """Whether one model beats another on the same rows, beyond chance."""
    from weft.project import compare_files, comparison_text

    result = compare_files(first, second, table)
    record = {"first": str(first), "second": str(second), "scores": result.to_dict("records")}
    emit(record, comparison_text(result, str(first), str(second)), as_json=json)
