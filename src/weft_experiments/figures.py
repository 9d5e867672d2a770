# SPDX-License-Identifier: MIT
"""How figures look and how they are written: small PNG files, drawn without a screen."""

import io
import math
import pathlib
from collections.abc import Iterable
from typing import Any

import matplotlib
import PIL.Image
from jaxtyping import Float
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy import ndarray

from weft.data.atomic import write_whole

__all__ = ["BLACK", "COLOURS", "MARKERS", "draw_map", "new_figure", "save"]

# Okabe and Ito's colours, which stay apart for the colour-blind.
BLACK = "#000000"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00")
MARKERS = ("o", "s", "^", "D", "v")

# What a picture kept with its page may weigh.
MOST_BYTES = 120_000


def new_figure(
    num_rows: int, num_columns: int, *, width: float = 4.6, height: float = 3.4, **options: Any
) -> tuple[Figure, Any]:
    """A figure and its axes, always a matrix of them."""
    figure = Figure(figsize=(width * num_columns, height * num_rows), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(num_rows, num_columns, squeeze=False, **options)
    for axis in axes.flat:
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(labelsize=8)
    return figure, axes


def save(figure: Figure, folder: pathlib.Path, name: str) -> str:
    """Write the figure into `folder` and return the file's name; always the same bytes for the same figure."""
    drawn = io.BytesIO()
    with matplotlib.rc_context({"savefig.dpi": 90}):
        figure.savefig(drawn, format="png", metadata={"Software": None}, pil_kwargs={"optimize": True})
    if drawn.tell() > MOST_BYTES:
        drawn = in_few_colours(drawn)
    write_whole(folder / name, drawn.getvalue())
    return name


def in_few_colours(drawn: io.BytesIO) -> io.BytesIO:
    """The picture in 256 colours: for the map of a large region a third of the size, and no difference to the eye."""
    fewer = io.BytesIO()
    with PIL.Image.open(drawn) as image:
        image.convert("RGB").quantize(256, dither=PIL.Image.Dither.NONE).save(fewer, format="png", optimize=True)
    return fewer


def draw_map(
    figure: Figure,
    axis: Any,
    lon: Float[ndarray, " lon"],
    lat: Float[ndarray, " lat"],
    values: Float[ndarray, "lat lon"],
    *,
    label: str,
    points: Iterable[tuple[Float[ndarray, "point 2"], str, str, str]] = (),
    colours: str = "viridis",
) -> None:
    """A map of `values` over degrees, with `points` (lat and lon, colour, marker, name) on it."""
    image = axis.pcolormesh(lon, lat, values, shading="nearest", cmap=colours, rasterized=True)
    figure.colorbar(image, ax=axis, shrink=0.8, label=label)
    for place, colour, marker, name in points:
        axis.plot(
            place[:, 1],
            place[:, 0],
            marker,
            color=colour,
            markersize=3.5,
            markeredgecolor="white",
            markeredgewidth=0.4,
            linestyle="none",
            label=name,
        )
    axis.set(xlim=(lon[0], lon[-1]), ylim=(lat[0], lat[-1]), xlabel="longitude", ylabel="latitude")
    # A degree of longitude is shorter than one of latitude by the cosine of the latitude.
    axis.set_aspect(1 / math.cos(math.radians(float(lat.mean()))))
