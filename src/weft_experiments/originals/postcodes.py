# SPDX-License-Identifier: MIT
"""Where British postcodes are: the tables of the ONS, the Ordnance Survey, Camden, freemaptools, and ours.

Places are WGS84 degrees. Tables of eastings and northings (EPSG:27700) are turned into degrees by pyproj.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, UInt64

from weft_experiments.originals.boxes import Box
from weft_experiments.originals.found import Found, Source, paths_of, sort_out
from weft_experiments.originals.lines import (
    Block,
    blocks,
    damage,
    numbers_of,
    openings,
    parse_delimited,
    record_of,
    whole_text,
)
from weft_experiments.originals.rejected import ReadReport, Sieve, left_out

__all__ = ["find_postcode_tables", "postcode_keys", "read_postcodes", "without_blanks"]

ENDINGS = (".csv", ".csv.gz", ".zip", ".parquet")
CODE_POINT_HEADERS = "Code-Point_Open_Column_Headers.csv"
# The order of Code-Point Open's columns since 2011, for when its file of headers is not there.
CODE_POINT_COLUMNS = ("Postcode", "Positional_quality_indicator", "Eastings", "Northings")
CODE_POINT_LINE = re.compile(rb'"?[A-Z]{1,2}\d[A-Z\d]? *\d[A-Z]{2}"?,"?\d\d"?,"?\d+"?,"?\d+"?,')
# Names of the columns, the preferred first. pcds has one blank, pcd and pcd2 are padded; without blanks they agree.
POSTCODE_NAMES = ("postcode", "postcode 1", "pcds", "pcd", "pcd7", "pcd8", "pcd2", "postcode 2", "postcode 3")
LATITUDE_NAMES, LONGITUDE_NAMES = ("lat", "latitude"), ("long", "lon", "longitude")
EASTING_NAMES, NORTHING_NAMES = ("eastings", "easting", "oseast1m"), ("northings", "northing", "osnrth1m")
# The ONS gives this latitude to postcodes without a grid reference.
NO_LATITUDE = 99.0
BRITISH_ISLES = Box(south=49.0, north=61.5, west=-9.5, east=2.5)


@dataclass(frozen=True)
class PostcodeLayout:
    """The number of fields of a table, and where its postcode and its two coordinates stand."""

    num_fields: int
    postcode: int
    north: int
    east: int
    in_metres: bool
    header_lines: int


def read_postcodes(source: Source) -> tuple[pd.DataFrame, ReadReport]:
    """A table (postcode without blanks, lat, lon), each postcode once, and the report of what was refused.

    `source` is a file (csv, gzipped csv, zip or parquet), a folder, or several of these: ONSPD or NSPL, Code-Point
    Open, Camden's "National Statistics Postcode Lookup UK Coordinates", ukpostcodes, or a parquet file with postcode,
    lat and lon. Where two tables know a postcode the first one's place holds.
    """
    found, tables = find_postcode_tables(source), []
    if not found.files:
        raise ValueError(
            f"{_said(source)} is no postcode table: none of ONSPD, NSPL, Code-Point Open, ukpostcodes or Camden's, "
            f"which have a column of postcodes and two of coordinates{found.words_on_damage}"
        )
    report = sum(found.damaged.values(), ReadReport())
    for path in found.other:
        report += left_out(f"no postcodes: {path.name}", 1)
    for path in found.files:
        read = _read_parquet if path.suffix.lower() == ".parquet" else _read_text
        table, refusals = read(path)
        tables.append(table)
        report += refusals
    table = pd.concat(tables, ignore_index=True)
    again = table["postcode"].duplicated()
    report += left_out("postcode listed again: its first place holds", int(again.sum()))
    table = table[~again].reset_index(drop=True)
    return table, report.keeping(len(table))


def find_postcode_tables(source: Source) -> Found:
    """The files of `source`, and of its folders, that hold a table of postcodes, and those that may be but do not."""
    candidates: list[Path] = []
    for path in paths_of(source):
        inside = [path] if path.is_file() else [found for found in sorted(path.rglob("*")) if found.is_file()]
        candidates.extend(found for found in inside if found.name.lower().endswith(ENDINGS))
    # The headers of Code-Point Open are read with its tables.
    candidates = [found for found in candidates if found.name != CODE_POINT_HEADERS]
    return sort_out(candidates, _openings, lambda block: _layout(block, None) is not None)


def without_blanks(postcodes: pd.Series) -> pd.Series:
    """Postcodes in capitals and without white space, so that "sw19  1aa" and "SW19 1AA" meet."""
    joined = postcodes.str.replace(" ", "", regex=False)
    # Other white space is rare, and looking for it costs as much as reading the file.
    rare = ~joined.str.isalnum()
    if rare.any():
        joined = joined.where(~rare, joined[rare].str.replace(r"\s+", "", regex=True))
    return joined.str.upper()


def postcode_keys(postcodes: pd.Series) -> UInt64[np.ndarray, " row"]:
    """Postcodes without blanks as numbers, eight characters in eight bytes; 0 for what cannot be a postcode."""
    sound = postcodes.str.fullmatch("[A-Z0-9]{5,8}").to_numpy(dtype=bool)
    texts = postcodes.where(sound, "").str.encode("ascii").to_numpy(dtype=object).astype("S8")
    return texts.view(np.uint64)


def _said(source: Source) -> str:
    return str(source) if isinstance(source, str | Path) else ", ".join(str(path) for path in source)


def _openings(path: Path) -> Iterator[Block]:
    """The first lines of a table; of a parquet file, the line that its names would be in csv."""
    if path.suffix.lower() != ".parquet":
        yield from openings(path, _is_table)
        return
    import pyarrow
    import pyarrow.parquet

    try:
        names = pyarrow.parquet.read_schema(path).names
    except (pyarrow.ArrowException, OSError) as error:
        yield Block(path.name, 0, b"", damage(path, error))
    else:
        # Only our own names: a parquet file with others is not read.
        ours = {"postcode", "lat", "lon"} <= set(names)
        yield Block(path.name, 1, ",".join(names).encode() if ours else b"")


def _is_table(name: str) -> bool:
    # The ONS packs one big table and the same rows again in many small ones.
    return name.lower().endswith((".csv", ".csv.gz")) and "multi_csv" not in PurePosixPath(name).parts


def _read_parquet(path: Path) -> tuple[pd.DataFrame, ReadReport]:
    import pyarrow

    try:
        rows = pd.read_parquet(path, columns=["postcode", "lat", "lon"])
    except (pyarrow.ArrowException, OSError) as error:
        return pd.DataFrame({"postcode": pd.Series([], dtype="str"), "lat": [], "lon": []}), damage(path, error)
    sieve = Sieve(path.name, np.arange(1, len(rows) + 1), lambda row: ",".join(str(cell) for cell in rows.iloc[row]))
    north, east = (_numbers(rows[name]) for name in ("lat", "lon"))
    table, refusals = _judged(sieve, rows["postcode"].astype("str").fillna(""), north, east, in_metres=False)
    return table, ReadReport(sources=(path.name,)) + refusals


def _numbers(column: pd.Series) -> Float[np.ndarray, " row"]:
    if pd.api.types.is_numeric_dtype(column):
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    return numbers_of(column.astype("str").fillna(""))


def _read_text(path: Path) -> tuple[pd.DataFrame, ReadReport]:
    report, tables = ReadReport(), []
    layout: PostcodeLayout | None = None
    headers = _code_point_headers(path)
    for block in blocks(path, _is_table):
        report += block.report
        if block.first_line == 1:
            layout = _layout(block, headers)
            report += ReadReport(sources=(block.source,)) if layout else left_out(f"no postcodes: {block.source}", 1)
        if layout is not None and block.first_line > 0:
            table, refusals = _parse(block, layout)
            tables.append(table)
            report += refusals
    return pd.concat(tables, ignore_index=True), report


def _layout(block: Block, code_point_headers: tuple[str, ...] | None) -> PostcodeLayout | None:
    lines = block.data[: 1 << 16].splitlines()[:50]
    if not lines:
        return None
    header = record_of(lines[0])
    layout = _layout_of_names(header, header_lines=1)
    if layout is not None:
        return layout
    fitting = [line for line in lines if CODE_POINT_LINE.match(line)]
    if not fitting:
        return None
    num_fields = len(record_of(fitting[0]))
    names = code_point_headers or CODE_POINT_COLUMNS
    return _layout_of_names([*names, *[""] * (num_fields - len(names))], header_lines=0)


def _layout_of_names(names: list[str], header_lines: int) -> PostcodeLayout | None:
    places = {name.strip().lower(): at for at, name in reversed(list(enumerate(names)))}

    def place_of(wanted: tuple[str, ...]) -> int | None:
        return next((places[name] for name in wanted if name in places), None)

    postcode, lat, lon = place_of(POSTCODE_NAMES), place_of(LATITUDE_NAMES), place_of(LONGITUDE_NAMES)
    northing, easting = place_of(NORTHING_NAMES), place_of(EASTING_NAMES)
    if postcode is None or "price" in places:
        return None
    if lat is not None and lon is not None:
        return PostcodeLayout(len(names), postcode, lat, lon, in_metres=False, header_lines=header_lines)
    if northing is not None and easting is not None:
        return PostcodeLayout(len(names), postcode, northing, easting, in_metres=True, header_lines=header_lines)
    return None


def _code_point_headers(path: Path) -> tuple[str, ...] | None:
    """The long names in Code-Point Open's file of headers, beside the data or in the Doc folder of its download."""
    text = None
    if path.suffix.lower() == ".zip":
        parts = [block.data for block in blocks(path, lambda name: name.endswith(CODE_POINT_HEADERS))]
        text = b"".join(parts).decode("utf-8-sig", errors="replace")
    for folder in (path.parent, path.parent / "Doc", path.parent.parent / "Doc", path.parent.parent.parent / "Doc"):
        if not text and (folder / CODE_POINT_HEADERS).is_file():
            text = whole_text(folder / CODE_POINT_HEADERS)
    lines = [line for line in (text or "").splitlines() if line.strip()]
    names = tuple(record_of(lines[-1])) if lines else ()
    return names if _layout_of_names(list(names), header_lines=0) is not None else None


def _parse(block: Block, layout: PostcodeLayout) -> tuple[pd.DataFrame, ReadReport]:
    rows, line, report = parse_delimited(
        block,
        num_fields=layout.num_fields,
        columns={layout.postcode: "postcode", layout.north: "north", layout.east: "east"},
        first_row=layout.header_lines if block.first_line == 1 else 0,
    )
    sieve = Sieve(block.source, line, lambda row: ",".join(rows.iloc[row]))
    blank = ((rows["north"].str.strip() == "") | (rows["east"].str.strip() == "")).to_numpy(dtype=bool)
    north, east = numbers_of(rows["north"]), numbers_of(rows["east"])
    table, refusals = _judged(sieve, rows["postcode"], north, east, in_metres=layout.in_metres, blank=blank)
    return table, report + refusals


def _judged(
    sieve: Sieve,
    postcodes: pd.Series,
    north: Float[np.ndarray, " row"],
    east: Float[np.ndarray, " row"],
    *,
    in_metres: bool,
    blank: Bool[np.ndarray, " row"] | bool = False,
) -> tuple[pd.DataFrame, ReadReport]:
    """The rows that can be believed, in degrees; `blank` says which had no coordinate at all."""
    postcode = without_blanks(postcodes)
    # Latitudes beyond the poles by more than that are slips, not the mark of an unknown place.
    marked = (north > NO_LATITUDE) & (north < NO_LATITUDE + 1) & (not in_metres)
    sieve.refuse(postcode_keys(postcode) == 0, "not a postcode")
    sieve.leave_out(blank | ((north == 0) & (east == 0)) | marked, "postcode without a known place")
    sieve.refuse(~(np.isfinite(north) & np.isfinite(east)), "coordinate that is not a number")
    if in_metres:
        north, east = _degrees(north, east, sieve.passed)
    sieve.refuse(~BRITISH_ISLES.inside(north, east), "place outside the British Isles")
    table = pd.DataFrame({"postcode": postcode, "lat": north, "lon": east})[sieve.passed]
    return table.reset_index(drop=True), sieve.report


def _degrees(
    northing: Float[np.ndarray, " row"], easting: Float[np.ndarray, " row"], usable: Bool[np.ndarray, " row"]
) -> tuple[Float[np.ndarray, " row"], Float[np.ndarray, " row"]]:
    """Latitude and longitude (EPSG:4326) of British National Grid metres (EPSG:27700)."""
    import pyproj

    to_degrees = pyproj.Transformer.from_crs("EPSG:27700", "EPSG:4326", always_xy=True)
    lat, lon = np.full(len(usable), np.nan), np.full(len(usable), np.nan)
    lon[usable], lat[usable] = to_degrees.transform(easting[usable], northing[usable])
    return lat, lon
