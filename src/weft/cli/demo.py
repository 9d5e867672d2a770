# SPDX-License-Identifier: MIT
"""`weft demo`."""

import pathlib
from typing import Annotated

from cyclopts import Parameter

from weft.cli.options import AsJson
from weft.cli.printing import emit, remark

__all__ = ["demo"]


def demo(
    *,
    output: Annotated[
        pathlib.Path, Parameter(name=["--output", "-o"], help="The folder to write to; made if need be.")
    ] = pathlib.Path("demo-output"),
    json: AsJson = False,
) -> None:
    """Take real temperatures of the Pacific North-West to scores, a map and a report, in a minute or two."""
    from weft.demo import run_demo
    from weft.project import score_table

    result = run_demo(output, say=remark)
    lines = [score_table(result.scores), "", *(f"{what}: {file}" for what, file in result.files.items())]
    record = {"scores": result.scores, "files": result.files, "seconds": result.seconds}
    emit(record, "\n".join([*lines, f"in {result.seconds:.0f} s"]), as_json=json)
