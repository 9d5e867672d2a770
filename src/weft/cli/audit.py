# SPDX-License-Identifier: MIT
"""`weft audit`."""

from typing import Annotated

from cyclopts import Parameter

from weft.cli.options import AsJson, ModelFile, OneTarget, Places, Rows, Scheduler, TableOutput, Workers
from weft.cli.printing import emit

__all__ = ["audit"]


def audit(
    model: ModelFile,
    table: Rows,
    *,
    output: TableOutput,
    places: Places = None,
    rate: Annotated[float, Parameter(help="The share of false alarms to accept among those raised.")] = 0.01,
    target: OneTarget = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    json: AsJson = False,
) -> None:
    """List the rows that disagree with their neighbours, most suspicious first, with likely causes; nothing is changed.

    Rows are held against each other, so those of a folder are in memory together, in the columns that the model needs.
    """
    from weft.distributed import cluster
    from weft.project import audit_file

    with cluster(workers, scheduler) as client:
        counts = audit_file(model, table, output, rate=rate, places=places, target=target, client=client)
    lines = [f"{count:6,}  {cause}" for cause, count in counts.items()]
    lines.append(f"{sum(counts.values()):,} suspicious rows; saved {output}")
    emit({"output": str(output), "causes": counts}, "\n".join(lines), as_json=json)
