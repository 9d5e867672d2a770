# SPDX-License-Identifier: MIT
"""Coast lines and borders of countries and states inside a box of the map, no finer than the map can show."""

import functools
import gzip
import importlib.resources
import json

import numpy as np
from jaxtyping import Float

from weft.report.coast_source import UNITS_PER_DEGREE

__all__ = ["lines_in_box"]

Lines = tuple[tuple[float, ...], ...]
Box = tuple[float, float, float, float]
# Points closer together than this share of the box's longer side cannot be told apart.
_FINEST = 1 / 1500
# The numbers a page has room for; lines that need more are drawn coarser.
_MOST_NUMBERS = 40_000


def lines_in_box(kind: str, box: Box) -> Lines:
    """Lines of a `kind` ("coast", "borders" or "states") near a box (west, south, east, north): x, y, x, y, ... in degrees.

    The box may lie across the antimeridian, with longitudes up to 540 or down to -540.
    """
    pieces = _pieces(kind, box)
    finest = _FINEST * max(box[2] - box[0], box[3] - box[1])
    while True:
        # An island that would be a dot is left out.
        seen = [piece for piece in pieces if np.max(np.ptp(piece, axis=0)) > finest]
        thinned = [_thinned(piece, finest) for piece in seen]
        if sum(line.size for line in thinned) <= _MOST_NUMBERS:
            break
        finest *= 1.5
    digits = max(0, int(np.ceil(-np.log10(finest))) + 1)
    return tuple(tuple(np.round(line.reshape(-1), digits).tolist()) for line in thinned)


def _pieces(kind: str, box: Box) -> list[Float[np.ndarray, "point 2"]]:
    """Stretches of the world's lines inside the box, and a step beyond its edges."""
    west, south, east, north = box
    found = []
    for turn in (-360.0, 0.0, 360.0):
        if west - turn > 180 or east - turn < -180:
            continue
        for line in _world()[kind]:
            x, y = line[:, 0] + turn, line[:, 1]
            inside = (x > west) & (x < east) & (y > south) & (y < north)
            if not inside.any():
                continue
            # A step from or to a point outside is drawn too: it crosses the edge.
            near = inside.copy()
            near[1:] |= inside[:-1]
            near[:-1] |= inside[1:]
            found += [np.stack([x[run], y[run]], axis=1) for run in _runs(near)]
    return found


@functools.cache
def _world() -> dict[str, list[Float[np.ndarray, "point 2"]]]:
    packed = importlib.resources.files("weft.report").joinpath("assets", "coast_lines.json.gz").read_bytes()
    return {
        kind: [np.cumsum(np.array(line).reshape(-1, 2), axis=0) / UNITS_PER_DEGREE for line in lines]
        for kind, lines in json.loads(gzip.decompress(packed)).items()
    }


def _runs(wanted: np.ndarray) -> list[slice]:
    """Stretches of consecutive true entries."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], wanted.astype(np.int8), [0]])))
    return [slice(int(start), int(stop)) for start, stop in edges.reshape(-1, 2)]


def _thinned(points: Float[np.ndarray, "point 2"], finest: float) -> Float[np.ndarray, "some 2"]:
    """The first point of each stay in a cell of size `finest`, and the last of all."""
    cell = np.floor(points / finest)
    entered = np.concatenate([[True], np.any(np.diff(cell, axis=0) != 0, axis=1)])
    entered[-1] = True
    return points[entered]
