# SPDX-License-Identifier: MIT
"""`weft sample`."""

from typing import Annotated

from cyclopts import Parameter

from weft.cli.options import AsJson, ModelFile, Of, RowsOrGrid, Scheduler, TableOutput, Workers
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
    workers: Workers = None,
    scheduler: Scheduler = None,
    json: AsJson = False,
) -> None:
    """Draw fields at the rows of a table or the points of a grid, jointly over places and times.

    Of a folder, time, place and draws of all rows are in memory together; all else is read and written file by file.
    """
    from weft.distributed import cluster
    from weft.project import sample_file

    with cluster(workers, scheduler) as client:
        sample_file(model, table, output, num=num, seed=seed, of=of, client=client)
    emit({"output": str(output), "num": num, "of": of}, f"saved {num} draws in {output}", as_json=json)
