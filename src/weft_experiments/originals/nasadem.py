# SPDX-License-Identifier: MIT
"""Elevations from NASADEM (and SRTM) height tiles.

A tile covers one degree by one degree and is named after its south-west corner (n47w125.hgt). It holds a square of
big-endian 16-bit metres from north to south, 3601 a side (one arc second) or 1201 (three), the border samples shared
with the neighbours; -32768 is void (NASADEM user guide, LP DAAC 2020).
"""

import re
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
from jaxtyping import Float

from weft_experiments.originals.boxes import Box

__all__ = ["ElevationMap", "Tile", "elevation_at", "read_elevation_map", "read_tile"]

VOID = -32768
SIDES = (3601, 1201)
TILE_NAME = re.compile(r"([ns])(\d{2})([ew])(\d{3})", re.IGNORECASE)


@dataclass(frozen=True)
class Tile:
    """Elevations in metres, rows from south to north, columns from west to east; NaN where void."""

    south: int
    west: int
    elevation: Float[np.ndarray, "lat lon"]

    @property
    def samples_a_degree(self) -> int:
        return len(self.elevation) - 1


@dataclass(frozen=True)
class ElevationMap:
    """Elevations in metres on a regular grid of degrees; NaN where void or where `absent_tiles` would be."""

    latitudes: Float[np.ndarray, " lat"]
    longitudes: Float[np.ndarray, " lon"]
    elevation: Float[np.ndarray, "lat lon"]
    absent_tiles: tuple[str, ...] = ()


def read_tile(path: str | Path, *, every: int = 1) -> Tile:
    """One tile from a .hgt file or from a .zip that holds it; `every` keeps each so-manieth sample, borders included.

    Both sides are 1 more than a multiple of 8, so with `every` 1, 2, 4 or 8 neighbours still share their border.
    """
    path = Path(path)
    name, content = _content(path)
    found = TILE_NAME.search(PurePosixPath(name).stem) or TILE_NAME.search(path.stem)
    if found is None:
        raise ValueError(f"{path} is not named after its south-west corner, like n47w125.hgt; where it lies is unknown")
    side = next((side for side in SIDES if len(content) == 2 * side**2), None)
    if side is None:
        sizes = " or ".join(f"{2 * side**2:,}" for side in SIDES)
        raise ValueError(f"{path} is not a height tile: it holds {len(content):,} bytes, not {sizes}")
    if every < 1 or (side - 1) % every:
        raise ValueError(f"every must divide {side - 1}, the steps of a tile; it is {every}")
    # From south to north, so that latitudes grow with the row.
    metres = np.frombuffer(content, dtype=">i2").reshape(side, side)[::-every, ::every]
    elevation = np.where(metres == VOID, np.nan, metres.astype(np.float64))
    north_south, lat, east_west, lon = found.groups()
    return Tile(
        south=int(lat) if north_south.lower() == "n" else -int(lat),
        west=int(lon) if east_west.lower() == "e" else -int(lon),
        elevation=elevation,
    )


def read_elevation_map(
    folder: str | Path, box: Box, *, every: int = 8, absent_elevation: float = np.nan
) -> ElevationMap:
    """The tiles of a folder that meet the box, put together and cut to it; each keeps every eighth sample by default.

    Samples are kept as they are, where the paper's scripts interpolated between them to shrink the tiles by 8.
    NASA publishes no tile of open sea: an absent tile's samples are `absent_elevation`, and its name is in the result.
    """
    files = {found.lower(): path for found, path in _tile_files(Path(folder))}
    souths = range(int(np.floor(box.south)), int(np.ceil(box.north)))
    wests = range(int(np.floor(box.west)), int(np.ceil(box.east)))
    names = {(south, west): tile_name(south, west) for south in souths for west in wests}
    tiles = {corner: read_tile(files[name], every=every) for corner, name in names.items() if name in files}
    if not tiles:
        raise ValueError(f"{folder} holds none of the height tiles {', '.join(names.values())}; put them there")
    steps = {tile.samples_a_degree for tile in tiles.values()}
    if len(steps) > 1:
        raise ValueError(f"the tiles have {sorted(steps)} steps a degree; give tiles of one resolution")
    step = steps.pop()
    elevation = np.full((len(souths) * step + 1, len(wests) * step + 1), np.nan)
    covered = np.zeros(elevation.shape, dtype=bool)
    for (south, west), tile in tiles.items():
        row, column = (south - souths[0]) * step, (west - wests[0]) * step
        part = np.s_[row : row + step + 1, column : column + step + 1]
        elevation[part] = np.where(np.isnan(tile.elevation), elevation[part], tile.elevation)
        covered[part] = True
    elevation[~covered] = absent_elevation
    latitudes = souths[0] + np.arange(elevation.shape[0]) / step
    longitudes = wests[0] + np.arange(elevation.shape[1]) / step
    rows = (latitudes >= box.south) & (latitudes <= box.north)
    columns = (longitudes >= box.west) & (longitudes <= box.east)
    if rows.sum() < 2 or columns.sum() < 2:
        raise ValueError(f"{box} is narrower than two samples, 1/{step} degree apart; widen it or lower every")
    absent = tuple(name for corner, name in names.items() if corner not in tiles)
    return ElevationMap(latitudes[rows], longitudes[columns], elevation[np.ix_(rows, columns)], absent)


def elevation_at(
    elevations: ElevationMap, lat: Float[np.ndarray, "*place"], lon: Float[np.ndarray, "*place"]
) -> Float[np.ndarray, "*place"]:
    """The elevation in metres of the nearest sample; NaN more than half a step outside the map."""
    row, row_inside = _nearest(elevations.latitudes, np.asarray(lat, dtype=np.float64))
    column, column_inside = _nearest(elevations.longitudes, np.asarray(lon, dtype=np.float64))
    return np.where(row_inside & column_inside, elevations.elevation[row, column], np.nan)


def tile_name(south: int, west: int) -> str:
    """The name of the tile with that south-west corner, n47w125 for (47, -125)."""
    return f"{'n' if south >= 0 else 's'}{abs(south):02d}{'e' if west >= 0 else 'w'}{abs(west):03d}"


def _nearest(grid: np.ndarray, where: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    step = grid[1] - grid[0]
    position = (where - grid[0]) / step
    # A place half-way between two samples belongs to the northern or eastern one, at every zoom.
    index = np.floor(position + 0.5)
    inside = (position >= -0.5) & (position <= len(grid) - 0.5) & np.isfinite(position)
    return np.clip(np.where(inside, index, 0), 0, len(grid) - 1).astype(int), inside


def _content(path: Path) -> tuple[str, bytes]:
    if path.suffix.lower() != ".zip":
        return path.name, path.read_bytes()
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if name.lower().endswith(".hgt")]
            if len(names) != 1:
                raise ValueError(f"{path} holds {len(names)} .hgt files; a tile's archive holds one")
            return names[0], archive.read(names[0])
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        # A runtime error says that it is encrypted, or packed in a way that Python does not know.
        raise ValueError(f"{path} is a damaged zip archive ({error}); fetch it again") from error


def _tile_files(folder: Path) -> Iterator[tuple[str, Path]]:
    # Plain files last, so that they win over an archive of the same tile.
    for path in sorted(folder.rglob("*"), key=lambda path: (path.suffix.lower() == ".hgt", str(path))):
        found = TILE_NAME.search(path.stem)
        if found is not None and path.suffix.lower() in (".zip", ".hgt"):
            yield found.group(0), path
