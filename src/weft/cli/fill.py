# SPDX-License-Identifier: MIT
"""`weft fill`."""

from weft.cli.options import AsJson, ModelFile, Of, Places, RowsWithGaps, TableOutput
from weft.cli.printing import emit

__all__ = ["fill"]


def fill(
    model: ModelFile,
    table: RowsWithGaps,
    *,
    output: TableOutput,
    places: Places = None,
    of: Of = "observation",
    json: AsJson = False,
) -> None:
    """Fill the gaps of a table: the same rows, the target complete, its sd, and a column that flags what was filled."""
    from weft.project import fill_file

    num_filled = fill_file(model, table, output, of, places=places)
    emit(
        {"output": str(output), "num_filled": num_filled, "of": of},
        f"filled {num_filled:,} gaps; saved {output}",
        as_json=json,
    )
