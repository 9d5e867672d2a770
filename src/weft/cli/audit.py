# SPDX-License-Identifier: MIT
"""`weft audit`."""

from typing import Annotated

from cyclopts import Parameter

from weft.cli.options import AsJson, ModelFile, OneTarget, Places, Rows, TableOutput
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
    json: AsJson = False,
) -> None:
    """List the rows that disagree with their neighbours, most suspicious first, with likely causes; nothing is changed."""
    from weft.project import audit_file

    counts = audit_file(model, table, output, rate=rate, places=places, target=target)
    lines = [f"{count:6,}  {cause}" for cause, count in counts.items()]
    lines.append(f"{sum(counts.values()):,} suspicious rows; saved {output}")
    emit({"output": str(output), "causes": counts}, "\n".join(lines), as_json=json)
