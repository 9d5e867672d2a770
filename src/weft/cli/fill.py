# SPDX-License-Identifier: MIT
"""`weft fill`."""

from weft.cli.options import AsJson, ModelFile, Of, Places, RowsWithGaps, Scheduler, TableOutput, Workers
from weft.cli.printing import emit

__all__ = ["fill"]


def fill(
    model: ModelFile,
    table: RowsWithGaps,
    *,
    output: TableOutput,
    places: Places = None,
    of: Of = "observation",
    workers: Workers = None,
    scheduler: Scheduler = None,
    json: AsJson = False,
) -> None:
    """Fill the gaps of a table: the same rows, the target complete, its sd, and a column that flags what was filled.

    A folder is filled file by file.
    """
    from weft.distributed import cluster
    from weft.project import fill_file

    with cluster(workers, scheduler) as client:
        num_filled = fill_file(model, table, output, of, places=places, client=client)
    emit(
        {"output": str(output), "num_filled": num_filled, "of": of},
        f"filled {num_filled:,} gaps; saved {output}",
        as_json=json,
    )
