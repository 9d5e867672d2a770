# SPDX-License-Identifier: MIT
"""Pictures of a model, from file to file."""

import pathlib
from typing import Any

from weft.data.atomic import whole_file
from weft.data.files import read_table
from weft.data.outputs import check_outputs
from weft.project.answers import load_target

__all__ = ["plot_file"]

_ENDINGS = (".png", ".svg", ".pdf")


def plot_file(
    model: pathlib.Path,
    picture: str,
    output: pathlib.Path,
    *,
    time: str | None = None,
    station: str | None = None,
    table: pathlib.Path | None = None,
    terrain: pathlib.Path | None = None,
    target: str | None = None,
) -> None:
    """One of the pictures of `gp.plot`, written as its name says."""
    from matplotlib.figure import Figure

    if output.suffix.lower() not in _ENDINGS:
        raise ValueError(f"a picture's name must end in {', '.join(_ENDINGS)}; it is {str(output)!r}")
    check_outputs({"model": model, "table": table, "terrain": terrain}, files={"picture": output})
    gp = load_target(model, target)
    rows = None if table is None else read_table(table)
    chosen: Any = 0 if station is None else int(station) if station.isdecimal() else station
    figure = Figure(figsize=(8.0, 5.0), layout="constrained")
    ax = figure.add_subplot()
    if picture == "map":
        when: Any = float(time) if time is not None and gp.translation_.clock.kind == "number" else time
        gp.plot.map(when, terrain=None if terrain is None else read_table(terrain), ax=ax)
    elif picture == "series":
        gp.plot.series(chosen, table=rows, ax=ax)
    elif picture == "components":
        gp.plot.components(chosen, ax=ax)
    elif picture == "regions":
        gp.plot.regions(ax=ax)
    else:
        gp.plot.calibration(rows, ax=ax)
    with whole_file(output) as part:
        # A map is as wide as its places are: without that, a third of the picture was empty.
        figure.savefig(part, format=output.suffix[1:].lower(), dpi=150, bbox_inches="tight")
