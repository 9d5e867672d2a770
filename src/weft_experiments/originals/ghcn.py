# SPDX-License-Identifier: MIT
"""GHCN-Daily temperatures from whatever of NOAA's files a folder holds."""

from collections.abc import Collection, Iterable
from pathlib import Path, PurePosixPath

import numpy as np
import pandas as pd

from weft_experiments.originals.ghcn_daily import DailyRules, daily_table, layout_of, parse_block
from weft_experiments.originals.ghcn_stations import read_inventory, read_stations
from weft_experiments.originals.lines import Block, blocks, record_of
from weft_experiments.originals.rejected import ReadReport, left_out, refused

__all__ = ["find_ghcn_files", "find_inventory", "find_stations", "read_ghcn", "read_inventory", "read_stations"]

Source = str | Path | Iterable[str | Path]

COLUMNS = ["time", "station", "lon", "lat", "elevation", "value"]
STATION_LISTS = ("ghcnd-stations.txt", "ghcnd-stations.txt.gz")
INVENTORIES = ("ghcnd-inventory.txt", "ghcnd-inventory.txt.gz")
DATA_ENDINGS = (".dly", ".dly.gz", ".csv", ".csv.gz", ".tar", ".tar.gz", ".tgz", ".zip")
ARCHIVE_ENDINGS = (".tar", ".tar.gz", ".tgz", ".zip")
# Where two files tell of the same day of a station the earlier layout wins.
LAYOUTS = ("dly", "by station", "by year")


def read_ghcn(
    source: Source,
    *,
    element: str = "TMAX",
    stations: pd.DataFrame | None = None,
    only: Collection[str] | None = None,
    first: str | np.datetime64 = "1700-01-01",
    last: str | np.datetime64 = "2200-12-31",
    keep_flagged: bool = False,
    plausible: tuple[float, float] = (-90.0, 60.0),
) -> tuple[pd.DataFrame, ReadReport]:
    """A tidy table (time, station, lon, lat, elevation in metres, value in degrees Celsius), by time, and its report.

    `source` is a file, a folder (searched through all its folders) or several of these: `.dly`, csv by station, csv by
    year; plain, gzipped, or in a tar or zip archive, which is read as a stream. `stations` is a table as
    `read_stations` gives; by default the ghcnd-stations.txt found with the data. A station absent from it has the
    coordinates its own csv file states, and without such a file it is refused.

    Values that failed one of NOAA's quality checks are left out unless `keep_flagged`; values not strictly between the
    two `plausible` degrees are refused. Values between `first` and `last`, both included, of the stations in `only`
    (all, if None) are read; the others are passed over.
    """
    rules = DailyRules(
        element=element,
        stations=None if only is None else frozenset(only),
        first=np.datetime64(pd.Timestamp(first).date(), "D"),
        last=np.datetime64(pd.Timestamp(last).date(), "D"),
        keep_flagged=keep_flagged,
        coldest=plausible[0],
        warmest=plausible[1],
    )
    report = ReadReport()
    if stations is None:
        found = find_stations(source)
        if found is not None:
            stations, report = read_stations(found)
    values, refusals = _read_values(source, rules)
    report = (report + refusals).keeping(0)
    values, refusals = _first_of_each_day(values)
    report += refusals
    table, refusals = _with_places(values, stations)
    report += refusals
    table = table.sort_values(["time", "station"], kind="stable", ignore_index=True)
    table["station"] = table["station"].astype("category")
    return table[COLUMNS], report.keeping(len(table))


def find_ghcn_files(source: Source) -> list[Path]:
    """The files that may hold daily values, in `source` or in its folders."""
    files: list[Path] = []
    for path in _paths(source):
        if not path.exists():
            raise FileNotFoundError(f"there is no file or folder {path}")
        if path.is_file():
            files.append(path)
        else:
            files.extend(
                found
                for found in sorted(path.rglob("*"))
                if found.is_file() and found.name.lower().endswith(DATA_ENDINGS)
            )
    return list(dict.fromkeys(files))


def find_stations(source: Source) -> Path | None:
    """The ghcnd-stations.txt in, beside or one folder above `source`, if there is one."""
    return _find(source, STATION_LISTS)


def find_inventory(source: Source) -> Path | None:
    """The ghcnd-inventory.txt in, beside or one folder above `source`, if there is one."""
    return _find(source, INVENTORIES)


def _paths(source: Source) -> list[Path]:
    return [Path(source)] if isinstance(source, str | Path) else [Path(path) for path in source]


def _find(source: Source, names: tuple[str, ...]) -> Path | None:
    for path in _paths(source):
        inside = [found for name in names for found in sorted(path.rglob(name))] if path.is_dir() else []
        beside = [folder / name for folder in (path.parent, path.parent.parent) for name in names]
        for candidate in inside + beside:
            if candidate.is_file():
                return candidate
    return None


def _read_values(source: Source, rules: DailyRules) -> tuple[pd.DataFrame, ReadReport]:
    files = find_ghcn_files(source)
    if not files:
        raise ValueError(f"{source} holds no file ending in {', '.join(DATA_ENDINGS)}; give the files NOAA publishes")
    given = {path for path in _paths(source) if path.is_file()}
    report = ReadReport()
    tables = [daily_table().assign(source="", layout=0)]
    seen, recognised = 0, 0
    for path in files:
        layout: str | None = None
        header: list[str] = []
        for block in blocks(path, lambda name: _may_hold(name, rules.stations)):
            report += block.report
            if block.first_line == 1:
                layout, header = layout_of(block), record_of(block.data.split(b"\n", 1)[0])
                seen, recognised = seen + 1, recognised + (layout is not None)
                report += ReadReport(sources=(block.source,)) if layout else _unrecognised(path, block, path in given)
            if layout is not None and block.first_line > 0:
                table, refusals = parse_block(block, layout, header, rules)
                report += refusals
                tables.append(table.assign(source=block.source, layout=LAYOUTS.index(layout)))
    if seen and not recognised:
        raise ValueError(f"{source} holds no GHCN-Daily file: none is .dly, csv by station or csv by year")
    return pd.concat(tables, ignore_index=True), report


def _may_hold(name: str, stations: frozenset[str] | None) -> bool:
    """Whether a file inside an archive may hold wanted values: files of one station are named after it."""
    path = PurePosixPath(name)
    if not path.name.lower().endswith(DATA_ENDINGS):
        return False
    stem = path.name.split(".")[0]
    return stations is None or len(stem) != 11 or stem in stations


def _unrecognised(path: Path, block: Block, given: bool) -> ReadReport:
    if given and not path.name.lower().endswith(ARCHIVE_ENDINGS):
        first = block.text(0) if len(block.starts) else ""
        raise ValueError(
            f"{path} is not a GHCN-Daily file (.dly, csv by station or csv by year); its first line is {first!r}"
        )
    return left_out(f"file of no known layout: {block.source}", 1)


def _first_of_each_day(values: pd.DataFrame) -> tuple[pd.DataFrame, ReadReport]:
    values = values.sort_values("layout", kind="stable", ignore_index=True)
    keys = ["station", "time"]
    again = values.duplicated(keys).to_numpy()
    if not again.any():
        return values, ReadReport()
    first = values.groupby(keys, sort=False)["value"].transform("first").to_numpy()
    differs = again & (values["value"].to_numpy() != first)
    report = left_out("same value of that station and day in another line", int((again & ~differs).sum()))
    report += _refuse_rows(values, differs, "another value of that station and day came first")
    return values[~again], report


def _with_places(values: pd.DataFrame, stations: pd.DataFrame | None) -> tuple[pd.DataFrame, ReadReport]:
    places = ["lon", "lat", "elevation"]
    # A station's own file may state a new place from some day on; like NOAA's list, the last one holds.
    stated = values.dropna(subset=["lon", "lat"]).drop_duplicates("station", keep="last").set_index("station")[places]
    if stations is not None:
        listed = stations.set_index("station")[places]
        stated = pd.concat([listed, stated[~stated.index.isin(listed.index)]])
    elif stated.empty and len(values):
        raise ValueError(
            "the places of the stations are unknown; put ghcnd-stations.txt beside the data or pass stations="
        )
    placed = values.drop(columns=places).join(stated.astype(np.float64), on="station")
    unknown = placed["lat"].isna().to_numpy()
    return placed[~unknown], _refuse_rows(placed, unknown, "station that is not in the station list")


def _refuse_rows(values: pd.DataFrame, bad: np.ndarray, reason: str) -> ReadReport:
    report = ReadReport()
    for source, rows in values[bad].groupby("source", sort=False):
        texts = [f"{row.station} {row.time:%Y-%m-%d} {row.value:g}" for row in rows.head(3).itertuples()]
        report += refused(str(source), reason, rows["line"].to_numpy(), texts.__getitem__)
    return report
