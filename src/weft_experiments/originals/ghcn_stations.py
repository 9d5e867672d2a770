# SPDX-License-Identifier: MIT
"""The lists that come with GHCN-Daily: where each station is, and which years it has of which element.

Columns as in NOAA's readme of GHCN-Daily (Menne et al. 2012, doi:10.7289/V5D21VHZ), sections IV and VII.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, UInt8

from weft_experiments.originals.lines import Block, blocks, fixed_width, numbers_of
from weft_experiments.originals.rejected import ReadReport, left_out

__all__ = ["read_inventory", "read_stations"]

NO_ELEVATION = -999.9
# A character range [first, last) of each field; NOAA counts columns from 1 and includes the last.
STATION_FIELDS = {"station": (0, 11), "lat": (12, 20), "lon": (21, 30), "elevation": (31, 37), "name": (41, 71)}
INVENTORY_FIELDS = {
    "station": (0, 11),
    "lat": (12, 20),
    "lon": (21, 30),
    "element": (31, 35),
    "first_year": (36, 40),
    "last_year": (41, 45),
}


def read_stations(path: str | Path) -> tuple[pd.DataFrame, ReadReport]:
    """The table of ghcnd-stations.txt (station, lat, lon, elevation in metres, name) and what was refused of it.

    A station without a known elevation stays, with NaN.
    """
    table, report = _read_fixed(Path(path), STATION_FIELDS, shortest=37)
    unknown = table["elevation"] == NO_ELEVATION
    report += left_out("elevation not known: the station stays, without one", int(unknown.sum()))
    table["elevation"] = table["elevation"].mask(unknown)
    again = table["station"].duplicated()
    report += left_out("station listed twice: the first stays", int(again.sum()))
    table = table[~again].reset_index(drop=True)
    return table, report.keeping(len(table))


def read_inventory(path: str | Path) -> tuple[pd.DataFrame, ReadReport]:
    """The table of ghcnd-inventory.txt (station, lat, lon, element, first_year, last_year) and what was refused."""
    table, report = _read_fixed(Path(path), INVENTORY_FIELDS, shortest=45)
    return table.astype({"first_year": int, "last_year": int}), report.keeping(len(table))


def _read_fixed(path: Path, fields: Mapping[str, tuple[int, int]], shortest: int) -> tuple[pd.DataFrame, ReadReport]:
    report, tables = ReadReport(sources=(path.name,)), []
    for block in blocks(path):
        report += block.report
        table, refusals = _fixed_rows(block, fields, shortest)
        report += refusals
        tables.append(table)
    table = pd.concat(tables, ignore_index=True)
    if table.empty:
        places = ", ".join(f"{name} in {start + 1} to {stop}" for name, (start, stop) in fields.items())
        raise ValueError(
            f"{path} has no line that can be read: by columns, {places}; give the file as NOAA publishes it"
        )
    return table, report


def _fixed_rows(block: Block, fields: Mapping[str, tuple[int, int]], shortest: int) -> tuple[pd.DataFrame, ReadReport]:
    lengths = block.ends - block.starts
    short = (lengths > 0) & (lengths < shortest)
    report = block.refuse(short, f"short line: fewer than {shortest} characters")
    rows = np.flatnonzero(lengths >= shortest)
    characters = fixed_width(block, rows, max(stop for _, stop in fields.values()))
    columns: dict[str, np.ndarray] = {}
    bad = np.zeros(len(rows), dtype=bool)
    for name, (start, stop) in fields.items():
        texts = as_texts(characters[:, start:stop])
        if name in ("station", "element", "name"):
            columns[name] = np.char.strip(np.char.decode(texts, "latin-1"))
        else:
            columns[name] = as_numbers(texts)
            bad |= ~np.isfinite(columns[name])
    bad |= ~looks_like_station(characters[:, :11])
    bad |= (np.abs(columns["lat"]) > 90) | (np.abs(columns["lon"]) > 180)
    unreadable = np.zeros(len(lengths), dtype=bool)
    unreadable[rows[bad]] = True
    report += block.refuse(unreadable, "unreadable station, place or number")
    return pd.DataFrame({name: column[~bad] for name, column in columns.items()}), report


def as_texts(characters: UInt8[np.ndarray, "row column"]) -> np.ndarray:
    """Rows of characters as byte strings."""
    return np.ascontiguousarray(characters).view(f"S{characters.shape[1]}").reshape(len(characters))


def as_numbers(texts: np.ndarray) -> Float[np.ndarray, " row"]:
    """Byte strings as numbers, NaN where there is none."""
    try:
        return texts.astype(np.float64)
    except ValueError:
        return numbers_of(pd.Series(np.char.decode(texts, "latin-1"), dtype="str"))


def looks_like_station(characters: UInt8[np.ndarray, "row 11"]) -> Bool[np.ndarray, " row"]:
    """Whether eleven characters can be a station's identifier: letters, digits, dash or underscore."""
    allowed = np.zeros(256, dtype=bool)
    allowed[list(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")] = True
    return allowed[characters].all(axis=1)
