# SPDX-License-Identifier: MIT
"""Daily values of GHCN-Daily in the three layouts NOAA publishes: `.dly`, csv by station, csv by year.

Layouts and flags as in NOAA's readme of GHCN-Daily (Menne et al. 2012, doi:10.7289/V5D21VHZ), section III, and
the readme files of the by-year and by-station folders. Temperatures are stored in tenths of a degree Celsius.
"""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Integer, Shaped, UInt8

from weft_experiments.originals.ghcn_stations import as_texts, looks_like_station
from weft_experiments.originals.lines import Block, fixed_width, numbers_of, parse_delimited
from weft_experiments.originals.rejected import ReadReport, Sieve, left_out

__all__ = ["TEMPERATURES", "DailyRules", "daily_table", "layout_of", "parse_block"]

TEMPERATURES = ("TMAX", "TMIN", "TAVG", "TOBS")
MISSING = -9999
DAYS_A_LINE = 31
HEAD = 21
RECORD = HEAD + 8 * DAYS_A_LINE
# The last value is needed, its three flags are not: some copies have lost the blanks at line ends.
SHORTEST_RECORD = RECORD - 3

QUALITY_FLAGS = {
    "A": "accumulation total",
    "D": "duplicate",
    "G": "gap",
    "I": "internal consistency",
    "K": "streak or frequent value",
    "L": "length of multi-day period",
    "M": "mega-consistency",
    "N": "naught",
    "O": "climatological outlier",
    "R": "lagged range",
    "S": "spatial consistency",
    "T": "temporal consistency",
    "W": "too warm for snow",
    "X": "bounds",
    "Z": "official investigation",
}

STATION, ELEMENT = "[A-Za-z0-9_-]{11}", "[A-Z0-9]{4}"
DLY_LINE = re.compile(rb"[\w-]{11}\d{6}[A-Z0-9]{4}[ \-\d]{5}")
BY_YEAR_LINE = re.compile(rb"[\w-]{11},\d{8},[A-Z0-9]{4},")
ACCESS_HEADER = re.compile(rb'"?STATION"?,"?DATE"?,')
BY_YEAR_HEADER = re.compile(rb"ID,(DATE|YEAR/MONTH/DAY),ELEMENT,")


@dataclass(frozen=True)
class DailyRules:
    """Which values are asked for and which of them are believed."""

    element: str = "TMAX"
    stations: frozenset[str] | None = None
    first: np.datetime64 = field(default_factory=lambda: np.datetime64("1700-01-01", "D"))
    last: np.datetime64 = field(default_factory=lambda: np.datetime64("2200-12-31", "D"))
    keep_flagged: bool = False
    coldest: float = -90.0
    warmest: float = 60.0

    def __post_init__(self) -> None:
        if self.element not in TEMPERATURES:
            raise ValueError(f"element must be one of {', '.join(TEMPERATURES)}; it is {self.element!r}")


@dataclass(frozen=True)
class Cells:
    """Values as read, before any is judged: NaN where a value is not a number, NaT where a day is not a date."""

    source: str
    line: Integer[np.ndarray, " cell"]
    station: Shaped[np.ndarray, " cell"]
    day: Shaped[np.ndarray, " cell"]
    tenths: Float[np.ndarray, " cell"]
    quality: Shaped[np.ndarray, " cell"]
    text_of: Callable[[int], str]


def layout_of(block: Block) -> str | None:
    """The layout of a file, "dly", "by station" or "by year", told by its first lines; None if it has none of them."""
    first = block.data[: 1 << 16].splitlines()[:50]
    if first and ACCESS_HEADER.match(first[0]):
        return "by station"
    if first and BY_YEAR_HEADER.match(first[0]):
        return "by year"
    if any(DLY_LINE.match(line) for line in first):
        return "dly"
    return "by year" if any(BY_YEAR_LINE.match(line) for line in first) else None


def parse_block(block: Block, layout: str, header: list[str], rules: DailyRules) -> tuple[pd.DataFrame, ReadReport]:
    """Values (station, time, value in degrees, line; by station also lon, lat, elevation) and what was refused."""
    if layout == "dly":
        return _parse_dly(block, rules)
    if layout == "by year":
        return _parse_by_year(block, rules)
    return _parse_by_station(block, header, rules)


def _parse_dly(block: Block, rules: DailyRules) -> tuple[pd.DataFrame, ReadReport]:
    lengths = block.ends - block.starts
    short = (lengths > 0) & (lengths < SHORTEST_RECORD)
    long = lengths > RECORD
    report = block.refuse(short, f"short line: fewer than {RECORD} characters")
    report += block.refuse(long, f"long line: more than {RECORD} characters")
    rows = np.flatnonzero((lengths >= SHORTEST_RECORD) & ~long)
    head = fixed_width(block, rows, HEAD)
    calendar = head[:, 11:17]
    numeric = np.logical_and.reduce((calendar >= ord("0")) & (calendar <= ord("9")), axis=1)
    digits = np.where(numeric[:, None], calendar - ord("0"), 0).astype(np.int64)
    year = digits[:, :4] @ [1000, 100, 10, 1]
    month = digits[:, 4:] @ [10, 1]
    sound = numeric & (month >= 1) & (month <= 12) & looks_like_station(head[:, :11])
    sound &= _looks_like_element(head[:, 17:21])
    unreadable = np.zeros(len(lengths), dtype=bool)
    unreadable[rows[~sound]] = True
    report += block.refuse(unreadable, "unreadable station, year, month or element")

    wanted = sound & (as_texts(head[:, 17:21]) == rules.element.encode())
    wanted &= year >= rules.first.astype("datetime64[Y]").astype(int) + 1970
    wanted &= year <= rules.last.astype("datetime64[Y]").astype(int) + 1970
    wanted &= _among(as_texts(head[:, :11]), rules.stations)
    rows, head, year, month = rows[wanted], head[wanted], year[wanted], month[wanted]
    days = fixed_width(block, rows, RECORD)[:, HEAD:].reshape(len(rows), DAYS_A_LINE, 8)
    tenths = _integers(days[:, :, :5])

    months = ((year - 1970) * 12 + month - 1).astype("datetime64[M]")
    length_of_month = ((months + 1).astype("datetime64[D]") - months.astype("datetime64[D]")).astype(int)
    day_of_month = np.arange(DAYS_A_LINE)
    in_month = day_of_month[None, :] < length_of_month[:, None]
    day = months.astype("datetime64[D]")[:, None] + day_of_month
    # The places after a month's last day hold "missing"; anything else there belongs to no date.
    used = in_month | (tenths != MISSING)
    line, within = np.nonzero(used)
    cells = Cells(
        source=block.source,
        line=block.numbers[rows][line],
        station=as_texts(head[:, :11])[line],
        day=np.where(in_month, day, np.datetime64("NaT"))[used],
        tenths=tenths[used],
        quality=np.ascontiguousarray(days[:, :, 6]).view("S1")[used],
        text_of=lambda cell: (
            f"{head[line[cell]].tobytes().decode(errors='replace')} day {within[cell] + 1}: "
            + days[line[cell], within[cell]].tobytes().decode(errors="replace")
        ),
    )
    table, refusals = _judged(cells, rules)
    return table, report + refusals


def _parse_by_year(block: Block, rules: DailyRules) -> tuple[pd.DataFrame, ReadReport]:
    every = np.arange(len(block.starts))
    head = fixed_width(block, every, 26)
    # A line whose station or element is unlike any code is not another one's but a broken one.
    regular = (head[:, [11, 20, 25]] == ord(",")).all(axis=1)
    regular &= looks_like_station(head[:, :11]) & _looks_like_element(head[:, 21:25])
    # Most lines are of other elements or stations: they are passed over before the slow parsing of fields.
    other = regular & (as_texts(head[:, 21:25]) != rules.element.encode())
    other |= regular & ~_among(as_texts(head[:, :11]), rules.stations)
    if block.first_line == 1 and len(block.starts) and BY_YEAR_HEADER.match(block.data):
        other[0] = True
    part = Block(block.source, 1, block.lines_where(~other))
    numbers = block.numbers[~other]
    columns = {0: "station", 1: "day", 2: "element", 3: "value", 5: "quality"}
    rows, line, report = parse_delimited(part, num_fields=8, columns=columns)
    report = _renumbered(report, numbers)
    line = numbers[line - 1]
    sound = rows["element"].str.fullmatch(ELEMENT) & rows["station"].str.fullmatch(STATION)
    every_row = rows
    sieve = Sieve(block.source, line, lambda row: ",".join(every_row.iloc[row]))
    sieve.refuse(~sound.to_numpy(dtype=bool), "unreadable station or element")
    sieve.pass_over((rows["element"] != rules.element).to_numpy(dtype=bool))
    sieve.pass_over(~_among(_as_bytes(rows["station"], 11), rules.stations))
    rows, line = rows[sieve.passed].reset_index(drop=True), line[sieve.passed]
    cells = Cells(
        source=block.source,
        line=line,
        station=_as_bytes(rows["station"], 11),
        day=_dates(rows["day"], r"\d{8}", "%Y%m%d"),
        tenths=numbers_of(rows["value"]),
        quality=_flags(rows["quality"]),
        text_of=lambda cell: ",".join(rows.iloc[cell]),
    )
    table, refusals = _judged(cells, rules)
    return table, report + sieve.report + refusals


def _parse_by_station(block: Block, header: list[str], rules: DailyRules) -> tuple[pd.DataFrame, ReadReport]:
    needed = ["STATION", "DATE", "LATITUDE", "LONGITUDE", "ELEVATION", rules.element, f"{rules.element}_ATTRIBUTES"]
    absent = [name for name in needed if name not in header]
    if absent:
        reason = f"file without {', '.join(absent)}"
        return daily_table(), left_out(reason, 1) if block.first_line == 1 else ReadReport()
    rows, line, report = parse_delimited(
        block,
        num_fields=len(header),
        columns={header.index(name): name for name in needed},
        first_row=1 if block.first_line == 1 else 0,
    )
    every_row = rows
    sieve = Sieve(block.source, line, lambda row: ",".join(every_row.iloc[row]))
    sieve.refuse(~rows["STATION"].str.fullmatch(STATION).to_numpy(dtype=bool), "unreadable station")
    sieve.pass_over(~_among(_as_bytes(rows["STATION"], 11), rules.stations))
    lat, lon = numbers_of(rows["LATITUDE"]), numbers_of(rows["LONGITUDE"])
    sieve.refuse((np.abs(lat) > 90) | (np.abs(lon) > 180), "latitude or longitude that is on no map")
    places = {"lon": lon, "lat": lat, "elevation": numbers_of(rows["ELEVATION"])}
    places = {name: column[sieve.passed] for name, column in places.items()}
    rows, line = rows[sieve.passed].reset_index(drop=True), line[sieve.passed]
    attributes = rows[f"{rules.element}_ATTRIBUTES"].str.split(",")
    blank = (rows[rules.element].str.strip() == "").to_numpy()
    cells = Cells(
        source=block.source,
        line=line,
        station=_as_bytes(rows["STATION"], 11),
        day=_dates(rows["DATE"], r"\d{4}-\d{2}-\d{2}", "%Y-%m-%d"),
        tenths=np.where(blank, MISSING, numbers_of(rows[rules.element])),
        # Fewer than three attributes: which of them is the quality flag cannot be told.
        quality=np.where(attributes.str.len() < 3, b"?", _flags(attributes.str.get(1).fillna("?").astype("str"))),
        text_of=lambda cell: ",".join(rows.iloc[cell]),
    )
    table, refusals = _judged(cells, rules, **places)
    return table, report + sieve.report + refusals


def _judged(cells: Cells, rules: DailyRules, **places: Float[np.ndarray, " cell"]) -> tuple[pd.DataFrame, ReadReport]:
    sieve = Sieve(cells.source, cells.line, cells.text_of)
    sieve.pass_over((cells.day < rules.first) | (cells.day > rules.last))
    sieve.refuse(~np.isfinite(cells.tenths), "value that is not a number")
    sieve.refuse(np.isnat(cells.day), "impossible date")
    sieve.leave_out(cells.tenths == MISSING, "no value on that day")
    for flag in sorted(set(np.unique(cells.quality).tolist()) - {b"", b" "}):
        letter = flag.decode("latin-1")
        if letter not in QUALITY_FLAGS:
            sieve.refuse(cells.quality == flag, f"unknown quality flag {letter!r}")
        elif not rules.keep_flagged:
            reason = f"failed NOAA's quality check {letter} ({QUALITY_FLAGS[letter]})"
            sieve.leave_out(cells.quality == flag, reason)
    degrees = cells.tenths / 10
    implausible = ~((degrees > rules.coldest) & (degrees < rules.warmest))
    sieve.refuse(implausible, f"value not between {rules.coldest:g} and {rules.warmest:g} degrees Celsius")
    table = daily_table(
        station=np.char.decode(cells.station[sieve.passed], "ascii", "replace"),
        time=cells.day[sieve.passed],
        value=degrees[sieve.passed],
        line=cells.line[sieve.passed],
        **{name: column[sieve.passed] for name, column in places.items()},
    )
    return table, sieve.report


def daily_table(**columns: np.ndarray) -> pd.DataFrame:
    """Judged values with the line each stood on; without columns, none."""
    size = len(columns.get("value", ()))
    unknown = np.full(size, np.nan)
    return pd.DataFrame(
        {
            "time": columns.get("time", np.zeros(0, "datetime64[D]")).astype("datetime64[us]"),
            "station": pd.Series(columns.get("station", np.zeros(0, "U11")), dtype="str"),
            "lon": columns.get("lon", unknown),
            "lat": columns.get("lat", unknown),
            "elevation": columns.get("elevation", unknown),
            "value": columns.get("value", unknown),
            "line": columns.get("line", np.zeros(size, int)),
        }
    )


def _looks_like_element(characters: UInt8[np.ndarray, "row 4"]) -> Bool[np.ndarray, " row"]:
    capital = (characters >= ord("A")) & (characters <= ord("Z"))
    digit = (characters >= ord("0")) & (characters <= ord("9"))
    return np.logical_and.reduce(capital | digit, axis=1)


def _among(stations: np.ndarray, wanted: Collection[str] | None) -> Bool[np.ndarray, " row"]:
    if wanted is None:
        return np.ones(len(stations), dtype=bool)
    return np.isin(stations, np.array(sorted(wanted), dtype="S11"))


def _renumbered(report: ReadReport, numbers: Integer[np.ndarray, " line"]) -> ReadReport:
    examples = tuple(
        replace(example, line=int(numbers[example.line - 1])) for example in report.examples if example.line is not None
    )
    return replace(report, examples=examples)


def _integers(characters: UInt8[np.ndarray, "row day 5"]) -> Float[np.ndarray, "row day"]:
    """Right-aligned whole numbers, "missing" where all is blank, NaN where the characters are not a number."""
    value = np.zeros(characters.shape[:2])
    begun = np.zeros(value.shape, dtype=bool)
    has_digit, negative, bad = begun.copy(), begun.copy(), begun.copy()
    for column in range(characters.shape[2]):
        character = characters[:, :, column]
        digit = (character >= ord("0")) & (character <= ord("9"))
        minus = character == ord("-")
        blank = character == ord(" ")
        bad |= ~(digit | minus | blank) | (begun & (blank | minus))
        begun |= digit | minus
        negative |= minus
        has_digit |= digit
        value = np.where(digit, 10 * value + (character.astype(np.int16) - ord("0")), value)
    value = np.where(begun | bad, np.where(negative, -value, value), MISSING)
    return np.where(bad | (begun & ~has_digit), np.nan, value)


def _as_bytes(texts: pd.Series, width: int) -> np.ndarray:
    return texts.str.encode("ascii", "replace").to_numpy(dtype=object).astype(f"S{width}")


def _dates(texts: pd.Series, pattern: str, layout: str) -> np.ndarray:
    whole = texts.where(texts.str.fullmatch(pattern))
    return pd.to_datetime(whole, format=layout, errors="coerce").to_numpy().astype("datetime64[D]")


def _flags(texts: pd.Series) -> np.ndarray:
    """One byte for each flag; a flag of more than one character is no flag, and shows as "?"."""
    return np.where(texts.str.len() > 1, b"?", _as_bytes(texts, 1))
