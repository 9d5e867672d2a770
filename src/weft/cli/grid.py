# SPDX-License-Identifier: MIT
"""`weft grid`."""

import pathlib
from typing import Annotated

from cyclopts import Parameter

from weft.cli.options import AsJson, ModelFile, TableOutput, names_in
from weft.cli.printing import emit

__all__ = ["grid"]


def grid(
    model: ModelFile,
    *,
    step: Annotated[str, Parameter(help="A length such as 10km, or a number in the columns' units, such as 0.1.")],
    output: TableOutput,
    times: Annotated[str | None, Parameter(help="One or several, separated by commas; left out: the last.")] = None,
    terrain: Annotated[
        pathlib.Path | None, Parameter(help="Heights, and other columns the model needs, over the same box.")
    ] = None,
    land_only: Annotated[
        bool, Parameter(help="Leave out points whose terrain is missing or not above 0.", show_default=False)
    ] = False,
    json: AsJson = False,
) -> None:
    """Make a grid over the model's places, for `weft predict` to map."""
    from weft.project import grid_file

    sizes = grid_file(model, step, output, times=names_in(times), terrain=terrain, land_only=land_only)
    shape = " x ".join(f"{size} {name}" for name, size in sizes.items())
    emit({"output": str(output), "sizes": sizes}, f"{shape}; saved {output}", as_json=json)
