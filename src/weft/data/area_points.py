# SPDX-License-Identifier: MIT
"""Where the points of areas come from: a table of them, or a grid inside each polygon."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from weft.data.areas import Members
from weft.data.categories import MISSING, labels_of
from weft.data.files import read_table
from weft.data.geographic_files import Shapes, read_shapes
from weft.data.polygons import bounds_of, check_polygons, which_polygon
from weft.data.scaling import find_lon_lat
from weft.data.tables import Table, as_table, numbers

__all__ = ["WEIGHT", "read_members"]

# The column of a table of points that says how much each counts.
WEIGHT = "weight"
# Points inside each polygon, fewer where polygons are many.
_POINTS = 25
_FEWEST_POINTS = 4
_POINTS_OF_ALL = 1_000
# How often a grid over a polygon is made finer until enough of its points lie inside.
_REFINEMENTS = 12


def read_members(given: Any, column: str, space: Sequence[str], kinds: Sequence[str] = ()) -> Members:
    """Points of areas from a table with `column` and those of space (and `weight`), or from polygons, by file name or as they are."""
    if isinstance(given, Mapping) or (isinstance(given, str | os.PathLike) and _holds_shapes(os.fspath(given))):
        return _inside(read_shapes(given), column, space)
    table = as_table(read_table(given) if isinstance(given, str | os.PathLike) else given, (column, *space))
    return _of_table(table, column, space, kinds)


def _holds_shapes(path: str) -> bool:
    return path.lower().endswith((".geojson", ".json", ".gpkg"))


def _of_table(table: Table, column: str, space: Sequence[str], kinds: Sequence[str]) -> Members:
    area = labels_of(table.column(column))
    named = np.flatnonzero(area != MISSING)
    if len(named) == 0:
        raise ValueError(f"no point of areas= has a name in column {column!r}, so there is no area")
    columns = {
        name: labels_of(table.column(name)) if name in kinds else numbers(table.column(name), name) for name in space
    }
    weight = numbers(table.column(WEIGHT), WEIGHT) if WEIGHT in table.names else np.ones(len(area))
    return Members(area[named], {name: each[named] for name, each in columns.items()}, weight[named])


def _inside(shapes: Shapes, column: str, space: Sequence[str]) -> Members:
    """A grid inside each polygon; a point counts as its cell's area does."""
    check_polygons(shapes.geometries, "areas=")
    degrees = find_lon_lat(space)
    if degrees is None or len(space) != 2:
        raise ValueError(
            f"polygons say where by longitude and latitude alone, and the columns of space are {', '.join(space)}; give areas= as a table "
            f"of points with the columns {', '.join((column, *space))}"
        )
    if column not in shapes.properties:
        raise ValueError(
            f"the polygons of areas= have no property {column!r} to name them by; they have {', '.join(shapes.properties) or 'none'}"
        )
    longitude, latitude = degrees
    wanted = int(np.clip(_POINTS_OF_ALL // len(shapes.geometries), _FEWEST_POINTS, _POINTS))
    parts = [_grid_inside(geometry, wanted) for geometry in shapes.geometries]
    x, y = np.concatenate(parts).T
    names = np.repeat([str(name) for name in shapes.properties[column]], [len(part) for part in parts])
    return Members(names, {longitude: x, latitude: y}, np.cos(np.radians(y)))


def _grid_inside(geometry: Mapping[str, Any], wanted: int) -> Float[np.ndarray, "point 2"]:
    """Middles of the cells of a grid over a polygon that lie inside it, so many at least."""
    low, high = bounds_of(geometry)
    count = int(np.ceil(np.sqrt(wanted)))
    for _ in range(_REFINEMENTS):
        axes = [low[k] + (np.arange(count) + 0.5) * (high[k] - low[k]) / count for k in range(2)]
        x, y = (axis.ravel() for axis in np.meshgrid(*axes))
        inside = which_polygon([geometry], x, y) >= 0
        if np.count_nonzero(inside) >= wanted:
            return np.stack([x[inside], y[inside]], axis=1)
        count = int(np.ceil(1.3 * count))
    raise ValueError("a polygon of areas= is so thin that no point lies inside it; give its points as a table")
