# SPDX-License-Identifier: MIT
"""`weft sample`."""

from typing import Annotated

from cyclopts import Parameter

from weft.cli.options import AsJson, ModelFile, Of, RowsOrGrid, TableOutput
from weft.cli.printing import emit

__all__ = ["sample"]


def sample(
    model: ModelFile,
    table: RowsOrGrid,
    *,
    output: TableOutput,
    num: Annotated[int, Parameter(help="How many draws.")] = 10,
    seed: int = 0,
    of: Of = "observation",
    json: AsJson = False,
) -> None:
    """Draw fields at the rows of a table or the points of a grid, jointly over places and times."""
    from weft.project import sample_file

    sample_file(model, table, output, num=num, seed=seed, of=of)
    emit({"output": str(output), "num": num, "of": of}, f"saved {num} draws in {output}", as_json=json)
