# SPDX-License-Identifier: MIT
"""What a table seems to hold: which column is what, and why; and how many rows, places, times, gaps and doubles."""

import dataclasses
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np
from jaxtyping import Bool, Float, Int

from weft.data.advice import Advice, advise
from weft.data.categories import MISSING, Labels, is_category, is_kinds, labels_of
from weft.data.clock import UNIT_SECONDS, Clock, learn_clock, step_in_words, times_of
from weft.data.missing import Sentinel, ValuesTally, find_sentinels, tally_values, target_values
from weft.data.number_text import LEADING_ZERO, are_nearly_numbers
from weft.data.scaling import HEIGHT_WORDS, find_easting_northing, find_lon_lat, find_plane, learn_scaling
from weft.data.steps import MOST_ROWS_A_TIME
from weft.data.tables import Table, distinct_rows, numbers, time_columns
from weft.data.time_parts import find_time_parts

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "ColumnGuesses",
    "ColumnsCounted",
    "Counts",
    "Guess",
    "RowsLookedAt",
    "Tally",
    "columns_of_units",
    "count_table",
    "counts_of",
    "guess_columns",
    "labels_of_units",
    "looked_at",
    "places_in",
    "refuse_mixed_units",
    "width_km",
]

_SAMPLE_ROWS = 2000
_TIME_WORDS = ("time", "date", "datetime", "timestamp", "day", "hour", "month", "year", "t", "dt")
# Whole numbers of so many digits that all spell a time do so by no accident; of fewer they may.
_FEWEST_DIGITS = 8
_STATION_WORDS = frozenset(
    {"station", "site", "sensor", "stationid", "siteid", "location", "gauge", "buoy", "well", "id", "stn", "staid"}
)
_TARGET_WORDS = ("value", "target", "y", "observation", "obs", "measurement", "response")
_MINUTE_WORDS = frozenset({"min", "mins", "minute", "minutes"})
# From latitude 0 and longitude 0 to the nearest place that may be meant.
_NOWHERE_DEGREES = 5.0
# A point, as text for people or as what geographers call well-known.
_TWO_NUMBERS = r"(POINT ?)?\(?\s*-?\d+(\.\d+)?[,; ]\s*-?\d+(\.\d+)?\s*\)?"
_UNIT_WORDS = frozenset({"unit", "units", "uom"})
# Units of one quantity, of which a column can hold but one.
_UNITS = (
    frozenset({"c", "degc", "celsius", "f", "degf", "fahrenheit", "k", "kelvin"}),
    frozenset({"mm", "cm", "m", "in", "inch", "inches", "ft", "feet", "metres", "meters"}),
    frozenset({"m/s", "km/h", "kmh", "mph", "kt", "kn", "knots"}),
    frozenset({"ppm", "ppb", "ug/m3", "mg/m3", "\N{MICRO SIGN}g/m3"}),
)
_QUANTITY_WORDS = frozenset(
    {"tmax", "tmin", "tavg", "temperature", "temp", "pm", "ozone", "o3", "no2", "so2", "co", "prcp", "rain"}
    | {"precipitation", "wind", "pressure", "humidity", "price", "count", "cases", "level", "flow", "sst", "salinity"}
)


@final
@dataclasses.dataclass(frozen=True)
class Guess:
    """Columns taken for something, and the reason in words."""

    columns: tuple[str, ...]
    reason: str


@final
@dataclasses.dataclass(frozen=True)
class ColumnGuesses:
    """What each column seems to be; None where nothing fits. `others` are further columns of numbers, `kinds` of text."""

    time: Guess | None
    space: Guess | None
    target: Guess | None
    station: Guess | None
    others: tuple[str, ...]
    kinds: tuple[str, ...] = ()
    # Why the column that is named like one of a role was not taken for it, by role.
    objections: Mapping[str, str] = dataclasses.field(default_factory=dict)


@final
@dataclasses.dataclass(frozen=True)
class Counts:
    """Counts of a table whose columns are known. Times are in `time_unit`; gaps are between distinct times."""

    num_rows: int
    num_missing_target: int
    num_duplicates: int  # rows whose time and place another row has
    num_identical: int  # of those, rows whose value is the same too
    num_times: int
    num_places: int
    num_gaps: int
    first_time: str
    last_time: str
    time_unit: str
    span: float
    step: float
    longest_gap: float
    share_present: float
    target_lowest: float
    target_highest: float
    target_is_counts: bool
    width_km: float | None
    advice: Advice
    sentinels: tuple[Sentinel, ...]
    chosen_step: str | float | None  # that times are put on, unless a step is named
    notes: tuple[str, ...]

    @property
    def step_words(self) -> str:
        """The usual step between times, for people."""
        if self.time_unit in UNIT_SECONDS:
            return step_in_words(self.step * UNIT_SECONDS[self.time_unit])
        return f"{self.step:g} {self.time_unit}"

    @property
    def words(self) -> str:
        """The table's shape in a sentence."""
        wide = "" if self.width_km is None else f" across {self.width_km:,.0f} km"
        when = (
            f"one time, {self.first_time}"
            if self.num_times == 1
            else f"{self.num_times:,} times (usual step {self.step_words}), {self.first_time} to {self.last_time}"
        )
        return f"{self.num_rows:,} rows at {self.num_places:,} places{wide} and {when}"

    def to_json(self) -> dict[str, object]:
        sentinels = [sentinel._asdict() for sentinel in self.sentinels]
        more = {"notes": list(self.notes), "step_words": self.step_words, "sentinels": sentinels}
        return dataclasses.asdict(self) | more


def guess_columns(table: Table, *, time_format: str | None = None) -> ColumnGuesses:
    """Which columns hold time, space, target and station, by name and by what the first rows hold."""
    sample = table.rows(0, min(table.num_rows, _SAMPLE_ROWS))
    columns = {name: _as_numbers(sample.column(name), name) for name in table.names}
    written = {name: found for name, column in columns.items() if (found := _written_numbers(column, name)) is not None}
    numeric = [name for name, column in columns.items() if _is_numeric(column) or name in written]
    space = _guess_space({name: written.get(name, columns[name]) for name in numeric})
    taken = set(space.columns if space else ())
    time, objection = _guess_time(
        table, {name: column for name, column in columns.items() if name not in taken}, time_format
    )
    taken |= set(time_columns(table.names, time.columns[0]) if time else ())
    station = _guess_station(
        {name: column for name, column in columns.items() if name not in taken},
        [columns[name] for name in space.columns] if space else [],
    )
    taken |= set(station.columns if station else ())
    taken |= set(find_easting_northing(numeric) or ())
    free = [name for name in numeric if name not in taken and not _is_row_number(name, columns[name])]
    texts = {name: column for name, column in columns.items() if name not in (*taken, *numeric)}
    spoiled = {name: said for name, column in texts.items() if (said := _objection_to_numbers(column, name))}
    measured = [name for name in spoiled if name.lower() in _TARGET_WORDS or _words(name) & _QUANTITY_WORDS or not free]
    target = _guess_target([name for name in columns if name in (*free, *measured)], columns)
    against = {
        "time": objection,
        "space": _space_objection(columns) if space is None else None,
        "target": None if target is None else spoiled.get(target.columns[0]),
    }
    target = None if against["target"] else target
    others = tuple(name for name in free if target is None or name not in target.columns)
    kinds = tuple(name for name, column in texts.items() if name not in measured and is_category(column, name))
    objections = {role: said for role, said in against.items() if said is not None}
    return ColumnGuesses(time, space, target, station, others, kinds, objections)


def columns_of_units(names: Iterable[str], target: str) -> tuple[str, ...]:
    """Columns that may say in which units the target is, by their names."""
    return tuple(name for name in names if name != target and _words(name) & _UNIT_WORDS)


def labels_of_units(table: Table, target: str) -> dict[str, tuple[str, ...]]:
    """What columns of units say, each label once."""
    columns = {name: table.column(name) for name in columns_of_units(table.names, target)}
    return {
        name: tuple(dict.fromkeys(str(unit).strip() for unit in column.dropna().unique()))
        for name, column in columns.items()
        if not _is_numeric(column)
    }


def refuse_mixed_units(labels: Mapping[str, Sequence[str]], target: str) -> None:
    """ValueError where a column of units says that the target is in one unit in some rows and in another in others."""
    for name, said in labels.items():
        bare = {unit: re.sub(r"[\u00b0\s]|deg(rees?)? ", "", unit.lower()) for unit in said}
        for family in _UNITS:
            several = [unit for unit in said if bare[unit] in family]
            if len({bare[unit] for unit in several}) > 1:
                raise ValueError(
                    f"column {name!r} says that {target!r} is in {several[0]} in some rows and in {several[1]} in others; "
                    "convert all of them to one unit"
                )


@final
@dataclasses.dataclass(frozen=True)
class Tally:
    """What counts of a table are made of, by all its rows at once or by parts of it joined: each time (of `time`) and place once.

    `num_measured` are rows that differ in time or place, `num_valued` those that differ in these or their value.
    """

    time: str
    clock: Clock
    times: Float[np.ndarray, " time"]
    places: dict[str, np.ndarray]
    is_area: Bool[np.ndarray, " place"]
    rows_of_places: Int[np.ndarray, " place"]
    width_km: float | None
    values: ValuesTally
    num_rows: int
    num_measured: int
    num_valued: int

    @property
    def at_place(self) -> dict[str, np.ndarray]:
        """The columns of space of what is no area."""
        return {name: column[~self.is_area] for name, column in self.places.items()}

    @property
    def step(self) -> float:
        """The usual one between times."""
        return float(np.median(np.diff(self.times))) if len(self.times) > 1 else 0.0


class RowsLookedAt(NamedTuple):
    """Rows by their times, numbers of places and values: all of a table, or some of a larger one."""

    times: Float[np.ndarray, " row"]
    place: Int[np.ndarray, " row"]
    values: Float[np.ndarray, " row"]


class ColumnsCounted(NamedTuple):
    """What is counted: by these columns, values of the target that are `missing` being none. Rows that are means over an `area` need
    not say where they are.
    """

    time: str
    space: tuple[str, ...]
    target: str
    missing: tuple[float, ...] = ()
    area: str | None = None
    time_format: str | None = None


# The step to put times on, of a clock and rows.
StepFor = Callable[..., str | float | None]


def count_table(
    table: Table,
    *,
    time: str,
    space: Sequence[str],
    target: str,
    missing: Sequence[float] = (),
    area: str | None = None,
    time_format: str | None = None,
    step_for: StepFor | None = None,
) -> Counts:
    """Counts over all rows; a table that cannot be used raises as the readers of its columns do. Columns as of `ColumnsCounted`.

    Where a step is to be chosen for times, `step_for` tells which, of the clock, times, numbers of places and values.
    """
    columns = ColumnsCounted(time, tuple(space), target, tuple(missing), area, time_format)
    clock = learn_clock(times_of(table, time), time, text_format=time_format)
    where, areas = places_in(table, columns)
    first, place = distinct_rows([*where.values(), areas])
    rows = _looked_at(table, clock, columns, place)
    is_area = areas[first] != MISSING
    tally = Tally(
        time=time,
        clock=clock,
        times=np.unique(rows.times),
        places={name: column[first] for name, column in where.items()},
        is_area=is_area,
        rows_of_places=np.bincount(place, minlength=len(first)),
        # By row, so that one without coordinates is named.
        width_km=width_km({name: column[areas == MISSING] for name, column in where.items()}),
        values=tally_values(rows.values),
        num_rows=len(place),
        num_measured=len(distinct_rows([rows.times, place])[0]),
        num_valued=len(distinct_rows(list(rows))[0]),
    )
    return counts_of(tally, target, rows, step_for)


def looked_at(table: Table, clock: Clock, columns: ColumnsCounted) -> RowsLookedAt:
    """The rows of a table that is part of a larger one, whose `clock` it is."""
    where, areas = places_in(table, columns)
    return _looked_at(table, clock, columns, distinct_rows([*where.values(), areas])[1])


def _looked_at(table: Table, clock: Clock, columns: ColumnsCounted, place: Int[np.ndarray, " row"]) -> RowsLookedAt:
    times = clock.numbers(times_of(table, columns.time), columns.time)
    return RowsLookedAt(times, place, target_values(table, columns.target, columns.missing))


def places_in(table: Table, counted: ColumnsCounted) -> tuple[dict[str, np.ndarray], Labels]:
    """The columns that say where each row is, numbers or kinds, and which area it is the mean over."""
    columns = {name: table.column(name) for name in counted.space}
    where = {
        name: labels_of(column) if is_kinds(column, name) else numbers(column, name) for name, column in columns.items()
    }
    return where, np.full(table.num_rows, MISSING) if counted.area is None else labels_of(table.column(counted.area))


def counts_of(tally: Tally, target: str, rows: RowsLookedAt, step_for: StepFor | None = None) -> Counts:
    """Counts of a table, of which these `rows` are all or some: they tell which transform suits the target, and which step its times."""
    clock, step, times = tally.clock, tally.step, tally.times
    steps = np.diff(times)
    # One and a half steps: a month after a month is no gap.
    gaps = steps[steps > 1.5 * step]
    first_and_last = clock.restore(times[[0, -1]])
    ends = [str(end) for end in (clock.datetimes(first_and_last, tally.time) if clock.is_counted else first_and_last)]
    # Of rows that are few of many, times are farther apart than they are.
    is_stepped = step_for is not None and tally.num_rows <= MOST_ROWS_A_TIME * len(times)
    counts = Counts(
        num_rows=tally.num_rows,
        num_missing_target=tally.num_rows - tally.values.num,
        num_duplicates=tally.num_rows - tally.num_measured,
        num_identical=tally.num_rows - tally.num_valued,
        num_times=len(times),
        num_places=len(tally.is_area),
        num_gaps=len(gaps),
        first_time=ends[0],
        last_time=ends[1],
        time_unit=clock.unit,
        span=float(times[-1] - times[0]),
        step=step,
        longest_gap=float(np.max(gaps, initial=0.0)),
        share_present=tally.num_measured / (len(times) * len(tally.is_area)),
        target_lowest=tally.values.lowest,
        target_highest=tally.values.highest,
        target_is_counts=tally.values.are_counts,
        width_km=tally.width_km,
        advice=advise(*rows, step, tally.values),
        sentinels=find_sentinels(tally.values),
        chosen_step=step_for(clock, *rows) if step_for is not None and is_stepped else None,
        notes=(),
    )
    return dataclasses.replace(counts, notes=(*_notes(counts, target), *_notes_on_places(tally)))


def _guess_time(
    table: Table, columns: "dict[str, pd.Series]", time_format: str | None
) -> tuple[Guess | None, str | None]:
    """The column of times by its first rows, or why the first that is named like one cannot be read."""
    import pandas as pd

    parts = find_time_parts(columns)
    joined = None
    if parts is not None:
        words = f"{', '.join(map(repr, parts[:-1]))} and {parts[-1]!r}"
        joined = Guess((",".join(parts),), f"columns {words} are parts of one time, and are joined")
        # A date beside an hour is not the whole time; a year beside a month may stand next to one.
        if "date" in _words(parts[0]):
            return joined, None
    for name, column in columns.items():
        if pd.api.types.is_datetime64_any_dtype(column.dtype) or isinstance(column.dtype, pd.PeriodDtype):
            return Guess((name,), f"column {name!r} holds times ({column.dtype})"), None
    named = sorted((name for name in columns if _time_rank(name) is not None), key=lambda name: _time_rank(name) or 0)
    objections: list[str] = []
    for name in named:
        if joined is not None and _is_numeric(columns[name]):
            return joined, None
        found = _clock_or_objection(columns[name], name, time_format)
        if isinstance(found, str):
            # The first rows may leave open what all of them settle: whether the day or the month comes first.
            found = _clock_or_objection(table.column(name), name, time_format)
        if isinstance(found, Clock):
            return Guess((name,), f"column {name!r} is named like a time and holds {_kind_words(found)}"), None
        objections.append(found)
    for name, column in columns.items():
        found = "a number" if _is_numeric(column) else _clock_or_objection(column, name, time_format)
        if isinstance(found, Clock):
            return Guess((name,), f"column {name!r} holds {_kind_words(found)}"), None
    return joined or _guess_digits(columns), objections[0] if objections else None


def _guess_digits(columns: "dict[str, pd.Series]") -> Guess | None:
    """A column of numbers such as 20180707, whatever it is called."""
    for name, column in columns.items():
        values = column.dropna() if _is_numeric(column) else column[:0]
        found: Clock | str = "too few digits"
        if len(values) and values.min() >= 10 ** (_FEWEST_DIGITS - 1) and values.nunique() > 1:
            found = _clock_or_objection(values, name, None)
        if isinstance(found, Clock) and found.kind in ("yyyymmdd", "digits"):
            return Guess((name,), f"column {name!r} holds {_kind_words(found)}")
    return None


def _time_rank(name: str) -> int | None:
    words = _words(name)
    return next((rank for rank, word in enumerate(_TIME_WORDS) if word in words), None)


def _clock_or_objection(column: "pd.Series", name: str, time_format: str | None) -> Clock | str:
    column = column[column.notna()].reset_index(drop=True)
    if not len(column):
        return f"column {name!r} has no times"
    try:
        return learn_clock(column, name, text_format=time_format)
    except (ValueError, TypeError) as error:
        return str(error)


def _kind_words(clock: Clock) -> str:
    return {
        "text": f"text like {clock.text_format}",
        "yyyymmdd": "whole numbers like 20180707",
        "digits": f"whole numbers like {clock.text_format}",
        "excel": "days as Excel counts them, of which 43831 is 2020-01-01",
        "epoch": "seconds since 1970, or parts of them",
        "number": "plain numbers",
        "date": "dates",
        "datetime": "times",
    }[clock.kind]


def _space_objection(columns: "dict[str, pd.Series]") -> str | None:
    """What is wrong with columns that say where, but not by a latitude and a longitude in degrees."""
    named = find_lon_lat(list(columns))
    for name in named or ():
        if not _is_numeric(columns[name]):
            given = columns[name].dropna()
            shown = repr(str(given.iloc[0])) if len(given) else "nothing"
            return f"column {name!r} is named like degrees and holds {shown}; write them as numbers, such as 47.61 and -122.33"
    apart = [
        name
        for name in columns
        if _words(name) & _MINUTE_WORDS and _words(name) & {"lat", "lon", "latitude", "longitude"}
    ]
    if apart:
        return (
            f"column {apart[0]!r} seems to hold minutes; write a latitude and a longitude as one number of degrees each, minutes / 60 "
            "added, negative to the south and to the west"
        )
    for name, column in columns.items():
        given = column.dropna().astype(str)
        if not _is_numeric(column) and len(given) and given.str.fullmatch(_TWO_NUMBERS).all():
            return f"column {name!r} holds two numbers, {given.iloc[0]!r}; make two columns of it, lat and lon"
    return None


def _is_text(column: "pd.Series") -> bool:
    """Whether a column holds text, or text among numbers."""
    return all(
        isinstance(value, str | int | float | np.number) and not isinstance(value, bool) for value in column.dropna()
    )


def _as_numbers(column: "pd.Series", name: str) -> "pd.Series":
    """Numbers among which some words say that there is none, as a column of numbers; any other column as it is."""
    import pandas as pd

    if column.dtype != object or not any(isinstance(value, int | float | np.number) for value in column.dropna()):
        return column
    try:
        return pd.Series(numbers(column, name))
    except (ValueError, TypeError):
        return column


def _written_numbers(column: "pd.Series", name: str) -> "pd.Series | None":
    """A column of text as the numbers it spells, as readers of columns take it; None where it has codes such as 007, or other text."""
    import pandas as pd

    given = column.dropna()
    if not len(given) or not all(isinstance(value, str) for value in given):
        return None
    if not are_nearly_numbers(given) or given.str.fullmatch(LEADING_ZERO).any():
        return None
    try:
        return pd.Series(numbers(column, name))
    except ValueError:
        return None


def _objection_to_numbers(column: "pd.Series", name: str) -> str | None:
    """What is wrong with a column of text that is nearly one of numbers."""
    if not _is_text(column) or not are_nearly_numbers(column.dropna().astype(str)):
        return None
    try:
        numbers(column, name)
    except ValueError as error:
        return str(error)
    return None


def _guess_space(numeric: "dict[str, pd.Series]") -> Guess | None:
    heights = tuple(name for name in numeric if _words(name) & HEIGHT_WORDS)[:1]
    height_words = f", with {heights[0]!r} for height" if heights else ""
    degrees = find_lon_lat(list(numeric))
    if degrees is not None:
        return Guess((*degrees, *heights), f"{degrees[0]!r} and {degrees[1]!r} are named like degrees{height_words}")
    metres = find_easting_northing(list(numeric))
    if metres is not None:
        return Guess(
            (*metres, *heights), f"{metres[0]!r} and {metres[1]!r} are named like metres on a map{height_words}"
        )
    plane = find_plane({name: column.to_numpy(dtype=np.float64, na_value=np.nan) for name, column in numeric.items()})
    if plane is not None:
        first, second = plane.columns
        unit = " and large, so in metres" if plane.in_metres else ""
        if _may_be_degrees(numeric[first], numeric[second]):
            unit = "; if they are degrees, call them lon and lat, so that distances are on the globe"
        return Guess(
            (first, second, *heights), f"{first!r} and {second!r} are named like coordinates{unit}{height_words}"
        )
    return None


def _may_be_degrees(first: "pd.Series", second: "pd.Series") -> bool:
    """Whether two columns could be a longitude and a latitude, told to some hundred metres; grids seldom are."""
    values = [column.dropna().to_numpy(dtype=np.float64) for column in (first, second)]
    within = all(np.all(np.abs(each) <= most) for each, most in zip(values, (180.0, 90.0), strict=True))
    are_fine = all(np.mean(np.abs(each - np.round(each, 2)) > 1e-9) > 0.5 for each in values if len(each))
    # Of a unit square nobody would think so.
    return within and are_fine and any(np.any(np.abs(each) > 10) for each in values)


def _guess_station(columns: "dict[str, pd.Series]", where: "Sequence[pd.Series]") -> Guess | None:
    for name, column in columns.items():
        if (
            _words(name) & _STATION_WORDS
            and not _is_row_number(name, column)
            and column.nunique() < max(len(column), 2)
        ):
            return Guess((name,), f"column {name!r} is named like a station and its values repeat")
    # In another language: text that goes with places one to one, and comes again.
    place = distinct_rows([np.asarray(column.astype(str)) for column in where])[1] if where else None
    for name, column in columns.items():
        if place is None or _is_numeric(column) or column.isna().any() or not is_category(column, name):
            continue
        num_both = len(distinct_rows([np.asarray(column.astype(str)), place])[0])
        if column.nunique() == num_both == place.max() + 1 < len(column):
            return Guess((name,), f"column {name!r} names each place")
    return None


def _guess_target(free: Sequence[str], columns: "dict[str, pd.Series]") -> Guess | None:
    varying = [name for name in free if columns[name].nunique() > 1] or list(free)
    # Numbers that name something are measured by nobody.
    varying = [name for name in varying if not name.lower().endswith("id")] or varying
    for word in _TARGET_WORDS:
        for name in varying:
            if name.lower() == word:
                return Guess((name,), f"column {name!r} is named like what is measured")
    if len(varying) == 1:
        return Guess((varying[0],), f"column {varying[0]!r} is the only column of numbers left")
    for name in varying:
        if _words(name) & _QUANTITY_WORDS:
            return Guess((name,), f"column {name!r} is named like a measured quantity")
    if varying:
        return Guess(
            (varying[0],), f"column {varying[0]!r} is the first column of numbers left; there are {len(varying)}"
        )
    return None


def _words(name: str) -> set[str]:
    """What a name is made of, in small letters without accents, with and without digits."""
    letters = unicodedata.normalize("NFKD", str(name).lower())
    lower = "".join(letter for letter in letters if not unicodedata.combining(letter))
    return set(re.split(r"[^a-z]+", lower)) | set(re.split(r"[^a-z0-9]+", lower))


def _is_numeric(column: "pd.Series") -> bool:
    import pandas as pd

    return pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_bool_dtype(column.dtype)


def _is_row_number(name: str, column: "pd.Series") -> bool:
    """Whether this only counts rows: left behind by whatever wrote the file."""
    if (
        not _is_numeric(column)
        or len(column) < 3
        or not (name == "" or _words(name) & {"unnamed", "index", "row", "id"})
    ):
        return False
    return bool(np.all(np.diff(column.to_numpy(dtype=np.float64, na_value=np.nan)) == 1))


def width_km(places: dict[str, np.ndarray]) -> float | None:
    """The largest side of the box around the places, or None where they are not on a map."""
    scaling = learn_scaling(places)
    if scaling.geography is None:
        return None
    on_map = scaling.forward(places)[:, scaling.map_dimensions]
    return float(np.max(np.ptp(on_map, axis=0), initial=0.0))


def _notes_on_places(tally: Tally) -> tuple[str, ...]:
    """Latitude 0 and longitude 0 at once, far from all others, is what programs write where they know no place."""
    places, rows_of_places = tally.at_place, tally.rows_of_places[~tally.is_area]
    degrees = find_lon_lat(list(places))
    if degrees is None:
        return ()
    nowhere = (places[degrees[0]] == 0) & (places[degrees[1]] == 0)
    others = [np.abs(places[name][~nowhere]) for name in degrees]
    if not nowhere.any() or nowhere.all() or float(np.hypot(*others).min()) < _NOWHERE_DEGREES:
        return ()
    count = int(rows_of_places[nowhere].sum())
    rows = "1 row is" if count == 1 else f"{count:,} rows are"
    return (f"{rows} at {degrees[1]} 0 and {degrees[0]} 0, far from all others: no coordinates? Leave such rows out",)


def _notes(counts: Counts, target: str) -> tuple[str, ...]:
    notes = []
    if counts.num_missing_target:
        rows = "1 row has" if counts.num_missing_target == 1 else f"{counts.num_missing_target:,} rows have"
        kept = "it is kept and predicted" if counts.num_missing_target == 1 else "they are kept and predicted"
        notes.append(f"{rows} no {target!r}; {kept}")
    if counts.num_duplicates:
        same = f" ({counts.num_identical:,} with the same value)" if counts.num_identical else ""
        notes.append(f"{counts.num_duplicates:,} rows repeat a time and place{same}; each counts as a measurement")
    if counts.num_gaps:
        gaps = "a gap of" if counts.num_gaps == 1 else f"{counts.num_gaps:,} gaps, the longest"
        notes.append(f"times have {gaps} {counts.longest_gap:g} {counts.time_unit}")
    for sentinel in counts.sentinels:
        rows = "1 row has" if sentinel.num_rows == 1 else f"{sentinel.num_rows:,} rows have"
        notes.append(
            f"{rows} {target!r} = {sentinel.value:g}, far from all others: a code for a missing value? If so, say "
            f"missing = [{sentinel.value:g}] (--missing={sentinel.value:g})"
        )
    if counts.chosen_step is not None:
        notes.append(
            f"nearly every row has a time of its own ({counts.num_times:,} times), and a fit would take long: times are put on a step "
            f'of {counts.chosen_step}; time_step = "exact" (--time-step exact) leaves them as they are'
        )
    if counts.num_places == 1:
        notes.append("all rows are at one place, so nothing can be learned about space")
    if counts.num_times == 1:
        notes.append("all rows are at one time, so nothing can be learned about time")
    return tuple(notes)
