# SPDX-License-Identifier: MIT
"""Which polygon a place lies in."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from weft.data.tables import distinct_rows

__all__ = ["bounds_of", "check_polygons", "which_polygon"]

_KINDS = ("Polygon", "MultiPolygon")


def check_polygons(geometries: Sequence[Mapping[str, Any]], name: str) -> None:
    """Raise unless all geometries are polygons."""
    others = sorted({str(geometry.get("type")) for geometry in geometries if geometry.get("type") not in _KINDS})
    if others or not geometries:
        raise ValueError(f"{name} holds {' and '.join(others) or 'nothing'}; give Polygon and MultiPolygon features")


def which_polygon(
    geometries: Sequence[Mapping[str, Any]], longitude: Float[np.ndarray, " row"], latitude: Float[np.ndarray, " row"]
) -> Int[np.ndarray, " row"]:
    """The number of the first polygon each place lies in, -1 for none; holes are outside. O(places x corners)."""
    first, place = distinct_rows([longitude, latitude])
    x, y = np.mod(longitude[first] + 180.0, 360.0) - 180.0, latitude[first]
    found = np.full(len(first), -1, dtype=np.int64)
    for number, geometry in enumerate(geometries):
        open_places = np.flatnonzero(found < 0)
        inside = np.zeros(len(open_places), dtype=bool)
        for rings in _polygons(geometry):
            inside |= _is_inside(rings, x[open_places], y[open_places])
        found[open_places[inside]] = number
    return found[place]


def _polygons(geometry: Mapping[str, Any]) -> Iterator[list[Float[np.ndarray, "corner 2"]]]:
    """The rings of each polygon of a geometry."""
    each = [geometry["coordinates"]] if geometry["type"] == "Polygon" else geometry["coordinates"]
    for rings in each:
        yield [np.asarray(ring, dtype=np.float64)[:, :2] for ring in rings]


def _is_inside(
    rings: Sequence[Float[np.ndarray, "_ 2"]], x: Float[np.ndarray, " place"], y: Float[np.ndarray, " place"]
) -> Bool[np.ndarray, " place"]:
    """Whether a line to the east crosses the rings an odd number of times."""
    inside = np.zeros(len(x), dtype=bool)
    low, high = np.min(rings[0], axis=0), np.max(rings[0], axis=0)
    near = np.flatnonzero((x >= low[0]) & (x <= high[0]) & (y >= low[1]) & (y <= high[1]))
    for ring in rings:
        for (ax, ay), (bx, by) in zip(ring, np.roll(ring, -1, axis=0), strict=True):
            if ay == by:
                continue
            # One end belongs to the edge and the other does not, so that a corner is crossed once.
            spans = (ay > y[near]) != (by > y[near])
            inside[near] ^= spans & (x[near] < ax + (y[near] - ay) * ((bx - ax) / (by - ay)))
    return inside


def bounds_of(geometry: Mapping[str, Any]) -> tuple[Float[np.ndarray, " 2"], Float[np.ndarray, " 2"]]:
    """The corners of the box around a geometry."""
    corners = np.concatenate([ring for rings in _polygons(geometry) for ring in rings])
    return corners.min(axis=0), corners.max(axis=0)
