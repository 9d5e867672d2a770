# SPDX-License-Identifier: MIT
"""`weft plot`."""

import pathlib
from typing import Annotated, Literal

from cyclopts import Parameter

from weft.cli.options import AsJson, ModelFile, OneTarget
from weft.cli.printing import emit

__all__ = ["plot"]


def plot(
    model: ModelFile,
    picture: Literal["map", "series", "components", "calibration", "regions"],
    *,
    output: Annotated[pathlib.Path, Parameter(name=["--output", "-o"], help="png, svg or pdf, by its name.")],
    time: Annotated[str | None, Parameter(help="Of the map; left out: the last.")] = None,
    station: Annotated[
        str | None, Parameter(help="Of a series or components: its number, or its name in TABLE.")
    ] = None,
    table: Annotated[
        pathlib.Path | None, Parameter(help="Names the stations of a series; the rows of a calibration.")
    ] = None,
    terrain: Annotated[pathlib.Path | None, Parameter(help="Heights for the map.")] = None,
    target: OneTarget = None,
    json: AsJson = False,
) -> None:
    """Draw a map of the field, the series of a station, the components, the calibration, or the regions."""
    from weft.project import plot_file

    plot_file(model, picture, output, time=time, station=station, table=table, terrain=terrain, target=target)
    emit({"output": str(output)}, f"saved {output}", as_json=json)
