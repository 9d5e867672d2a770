# SPDX-License-Identifier: MIT
"""How `assets/coast_lines.json.gz` is made: coasts and countries from Natural Earth's map of the world, as the npm package
world-atlas has it, and the United States' own from the Census Bureau's, as us-atlas does.

    for name in world-atlas@2 us-atlas@3; do npm pack $name && tar xzf ${name%@*}-*.tgz; done
    python src/weft/report/coast_source.py package/countries-10m.json package/states-10m.json src/weft/report/assets/coast_lines.json.gz

The packages hold TopoJSON: arcs of whole numbers, each the difference to the one before, shared by the shapes on either
side. Arcs along land are coast; the others divide two countries, or two states. Lines are written with whole 200ths of a degree
(half a kilometre), first point, then differences: `{"coast": [[lon, lat, dlon, dlat, ...], ...], "borders": ..., "states": ...}`.
"""

import collections
import gzip
import json
import pathlib
import sys
from typing import Any

import numpy as np
from jaxtyping import Float, Int

__all__ = ["compact_lines", "compact_states"]

UNITS_PER_DEGREE = 200
# The map is cut open along these; what runs along them is no coast.
_SEAM_LONGITUDE = 179.99
_SEAM_LATITUDE = -89.9


def compact_lines(topology: dict[str, Any]) -> dict[str, list[list[int]]]:
    """Coast lines and borders of a TopoJSON topology with the objects `land` and `countries`."""
    on_land = set(_arcs_of(topology["objects"]["land"]))
    lines: dict[str, list[list[int]]] = {"coast": [], "borders": []}
    for number in range(len(topology["arcs"])):
        lines["coast" if number in on_land else "borders"] += _compact(topology, number)
    return lines


def compact_states(topology: dict[str, Any]) -> list[list[int]]:
    """Lines between the states of a TopoJSON topology with the object `states`: arcs that two of them share."""
    counts = collections.Counter(_arcs_of(topology["objects"]["states"]))
    return [line for number, count in sorted(counts.items()) if count > 1 for line in _compact(topology, number)]


def _compact(topology: dict[str, Any], number: int) -> list[list[int]]:
    scale, translate = np.array(topology["transform"]["scale"]), np.array(topology["transform"]["translate"])
    degrees = np.cumsum(np.array(topology["arcs"][number]), axis=0) * scale + translate
    lines = [_differences(piece) for piece in _without_seams(degrees)]
    return [line.reshape(-1).tolist() for line in lines if len(line) >= 2]


def _arcs_of(shape: Any) -> list[int]:
    """Numbers of all arcs in a geometry; a negative one is its arc run backwards."""
    if isinstance(shape, int):
        return [shape if shape >= 0 else ~shape]
    children: Any = shape
    if isinstance(shape, dict):
        children = shape["geometries"] if "geometries" in shape else shape["arcs"]
    return [number for child in children for number in _arcs_of(child)]


def _without_seams(degrees: Float[np.ndarray, "point 2"]) -> list[Float[np.ndarray, "some 2"]]:
    at_edge = (np.abs(degrees[:, 0]) > _SEAM_LONGITUDE) | (degrees[:, 1] < _SEAM_LATITUDE)
    seams = np.flatnonzero(at_edge[:-1] & at_edge[1:])
    return [piece for piece in np.split(degrees, seams + 1) if len(piece) > 1]


def _differences(degrees: Float[np.ndarray, "point 2"]) -> Int[np.ndarray, "some 2"]:
    whole = np.rint(degrees * UNITS_PER_DEGREE).astype(np.int64)
    moved = np.concatenate([[True], np.any(np.diff(whole, axis=0) != 0, axis=1)])
    whole = whole[moved]
    return np.concatenate([whole[:1], np.diff(whole, axis=0)])


def main(countries: str, states: str, target: str) -> None:
    world, parts = (json.loads(pathlib.Path(source).read_text(encoding="utf-8")) for source in (countries, states))
    lines = compact_lines(world) | {"states": compact_states(parts)}
    text = json.dumps(lines, separators=(",", ":")) + "\n"
    # No time of day inside, so that the same source gives the same file.
    pathlib.Path(target).write_bytes(gzip.compress(text.encode(), compresslevel=9, mtime=0))


if __name__ == "__main__":
    main(*sys.argv[1:])
