# SPDX-License-Identifier: MIT
"""Times spread over several columns: year, month and day, or a date and an hour, joined into one.

A time in parts is named by its columns, separated by commas: "year,month,day". Whatever names a column of times may name one so.
"""

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from weft.data.tables import Table, name_rows, numbers, time_columns
from weft.data.time_text import read_time_text

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Counted", "find_counted", "find_time_parts", "time_column"]

_PARTS = {
    "year": frozenset({"year", "yyyy", "yy", "yr"}),
    "month": frozenset({"month", "mo", "mon", "mm"}),
    "day of the year": frozenset({"doy", "yday", "dayofyear", "jday"}),
    "quarter": frozenset({"quarter", "qtr"}),
    "week": frozenset({"week", "wk", "isoweek"}),
    "day": frozenset({"day", "dy", "dd", "dom"}),
    "date": frozenset({"date"}),
    "hour": frozenset({"hour", "hr", "hh"}),
    "minute": frozenset({"minute", "minutes", "mi", "mn"}),
    "clock": frozenset({"time", "clock"}),
}
_LIMITS = {
    "year": (1, 9999),
    "month": (1, 12),
    "day": (1, 31),
    "day of the year": (1, 366),
    "quarter": (1, 4),
    "week": (1, 53),
    # Of a clock that is read off: 1330 is half past one.
    "hour": (0, 2400),
    "clock": (0, 2400),
    "minute": (0, 59),
}
_OF_A_DAY = frozenset({"hour", "clock"})
# Which parts make a time, finest last; what stands first is looked for first.
_WHOLES: tuple[tuple[str, ...], ...] = (
    ("date", "clock"),
    ("date", "hour", "minute"),
    ("date", "hour"),
    ("year", "month", "day", "hour", "minute"),
    ("year", "month", "day", "hour"),
    ("year", "month", "day", "clock"),
    ("year", "month", "day"),
    ("year", "day of the year", "hour"),
    ("year", "day of the year"),
    ("year", "month"),
    ("year", "quarter"),
    ("year", "week"),
)
_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
# Parts of a time that may be columns: which numbers these have, and what rows then say of the rest.
_COUNTED: dict[str, tuple[tuple[set[int], ...], tuple[tuple[str, ...], ...]]] = {
    "month": ((set(range(1, 13)),), (("year",),)),
    "day": ((set(range(1, 32)),), (("year", "month"),)),
    "hour": ((set(range(24)), set(range(1, 25))), (("date",), ("year", "month", "day"))),
}
_NUMBERED = re.compile(r"([A-Za-z]{0,6})[ _]?0*(\d{1,2})")
_TWO_DIGITS = re.compile(r"\s*\d{1,2}\s*")
_CLOCK = re.compile(r"\s*(\d{1,2}):?(\d{2})(?::(\d{2})(?:\.\d*)?)?\s*")


def time_column(table: Table, time: str) -> "pd.Series":
    """A table's times, joined where they are in parts; a part that cannot be is refused by row."""
    names = time_columns(table.names, time)
    if names == (time,):
        return table.column(time)
    roles = {role: name for name, role in _roles(names).items()}
    if (
        None in roles
        or len(roles) != len(names)
        or tuple(name for name in _PARTS if name in roles) not in _known_wholes()
    ):
        raise ValueError(
            f"time is {time!r}, several columns, which do not make a time together; name one column, or such as "
            "year,month,day or date,hour"
        )
    columns = {str(role): table.column(name) for role, name in roles.items()}
    return _joined(columns, {str(role): name for role, name in roles.items()})


def find_time_parts(columns: "Mapping[str, pd.Series]") -> tuple[str, ...] | None:
    """The columns that make a time together, by their names and contents, or None. A year alone is a time by itself."""
    found: dict[str, str] = {}
    for name, role in _roles(columns).items():
        if role is not None and role not in found and _may_be(role, columns[name]):
            found[role] = name
    for whole in _WHOLES:
        if all(part in found for part in whole):
            return tuple(found[part] for part in whole)
    return None


class Counted(NamedTuple):
    """Columns of which each is one month, day or hour, by their names, and the parts of a time that rows have besides."""

    part: str
    numbers: dict[str, int]
    besides: tuple[str, ...]


def find_counted(columns: "Mapping[str, pd.Series]") -> Counted | None:
    """The columns Jan to Dec beside a year, 1 to 31 beside a year and a month, or 0 to 23 beside a date; None where there are none."""
    for part, (ways, wholes) in _COUNTED.items():
        for numbers_of in (_named_months, _numbered_alike):
            found = numbers_of(columns)
            if set(found.values()) not in ways or len(set(found.values())) < len(found):
                continue
            besides = {
                _role(name): name for name, column in columns.items() if name not in found and _fits(name, column)
            }
            for whole in wholes:
                if part not in besides and all(each in besides for each in whole):
                    return Counted(part, found, tuple(besides[each] for each in whole))
    return None


def _fits(name: str, column: "pd.Series") -> bool:
    role = _role(name)
    return role is not None and _may_be(role, column)


def _named_months(columns: "Mapping[str, pd.Series]") -> dict[str, int]:
    return {name: number for name in columns if (number := _month_of(name)) is not None}


def _numbered_alike(columns: "Mapping[str, pd.Series]") -> dict[str, int]:
    """Columns that are called by a number, after the letters that most of them have before it, if any."""
    matches = {name: match for name in columns if (match := _NUMBERED.fullmatch(name.strip()))}
    before = [match[1].lower() for match in matches.values()]
    usual = max(set(before), key=before.count, default="")
    return {name: int(match[2]) for name, match in matches.items() if match[1].lower() == usual}


def _known_wholes() -> set[tuple[str, ...]]:
    return {tuple(part for part in _PARTS if part in whole) for whole in _WHOLES}


def _roles(names: Iterable[str]) -> dict[str, str | None]:
    """Which part of a time each column is by its name; of mm beside MM, as buoys have them, the minute."""
    found = {name: _role(name) for name in names}
    if found.get("mm") == "month" and list(found.values()).count("month") > 1:
        found["mm"] = "minute"
    return found


def _role(name: str) -> str | None:
    words = set(re.split(r"[^a-z]+", name.lower()))
    return next((part for part, known in _PARTS.items() if words & known), None)


def _may_be(role: str, column: "pd.Series") -> bool:
    import pandas as pd

    present = _without_zeros(column[column.notna()])
    if not len(present):
        return False
    if role == "date":
        return _is_of_days(present)
    if role == "month" and not pd.api.types.is_numeric_dtype(present.dtype):
        return all(_month_of(value) is not None for value in present.unique())
    if role in _OF_A_DAY and not pd.api.types.is_numeric_dtype(present.dtype):
        return bool(np.all(_clock_seconds(present) >= 0))
    if not pd.api.types.is_numeric_dtype(present.dtype) or pd.api.types.is_bool_dtype(present.dtype):
        return False
    values = present.to_numpy(dtype=np.float64)
    lowest, highest = _LIMITS[role]
    return bool(np.all((values == np.rint(values)) & (values >= lowest) & (values <= highest)))


def _without_zeros(column: "pd.Series") -> "pd.Series":
    """Parts written as 07 as numbers; times of a clock such as 0730 as they are."""
    texts = column.unique()
    if not len(texts) or not all(isinstance(text, str) and _TWO_DIGITS.fullmatch(text) for text in texts):
        return column
    return column.astype(np.int64)


def _is_of_days(column: "pd.Series") -> bool:
    """Whether a column of dates has no time of day."""
    try:
        dates = _dates(column.reset_index(drop=True), "date")
    except (ValueError, TypeError):
        return False
    return dates.tz is None and bool((dates == dates.normalize()).all())


def _dates(column: "pd.Series", name: str) -> Any:
    import pandas as pd

    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        return pd.DatetimeIndex(column)
    if pd.api.types.is_numeric_dtype(column.dtype):
        column = column.astype("int64").astype(str)
    return read_time_text(column.astype(str), name, None).index


def _joined(columns: "Mapping[str, pd.Series]", names: Mapping[str, str]) -> "pd.Series":
    import pandas as pd

    num_rows = len(next(iter(columns.values())))
    columns = {part: column if part == "date" else _without_zeros(column) for part, column in columns.items()}
    columns = {part: _numbered(column) if part == "month" else column for part, column in columns.items()}
    whole = {
        part: _whole_numbers(columns[part], part, names[part])
        for part in columns
        if part in _LIMITS and part not in _OF_A_DAY
    }
    if "date" in columns:
        _refuse_missing(columns["date"], names["date"])
        days = pd.DatetimeIndex(_dates(columns["date"], names["date"])).to_numpy().astype("datetime64[s]")
    elif "week" in whole:
        days = _mondays(whole["year"], whole["week"], names["week"])
    else:
        quarters = whole.get("quarter", np.ones(num_rows, dtype=np.int64))
        months = whole.get("month", 3 * quarters - 2)
        first = (12 * (whole["year"] - 1970) + months - 1).astype("datetime64[M]")
        number = whole.get("day of the year", whole.get("day", np.ones(num_rows, dtype=np.int64)))
        days = first.astype("datetime64[D]") + (number - 1)
        # A day beyond its month's (or year's) last would silently be one of the next.
        unit = "M" if "day of the year" not in whole else "Y"
        beyond = days.astype(f"datetime64[{unit}]") != first.astype(f"datetime64[{unit}]")
        part = "day" if unit == "M" else "day of the year"
        if beyond.any():
            raise ValueError(f"column {names[part]!r} holds days that there are not; {name_rows(beyond, number)}")
        days = days.astype("datetime64[s]")
    seconds = 60 * whole.get("minute", np.zeros(num_rows, dtype=np.int64))
    for part in _OF_A_DAY & columns.keys():
        seconds = seconds + _seconds_of_day(columns[part], names[part])
    return pd.Series(days + seconds.astype("timedelta64[s]"))


def _mondays(years: np.ndarray, weeks: np.ndarray, name: str) -> np.ndarray:
    """The first days of weeks as ISO 8601 numbers them; the first has a Thursday in its year."""
    import pandas as pd

    texts = [f"{year:04d}{week:02d}1" for year, week in zip(years, weeks, strict=True)]
    days = pd.to_datetime(pd.Series(texts), format="%G%V%u", errors="coerce")
    if days.isna().any():
        raise ValueError(f"column {name!r} holds weeks that there are not; {name_rows(days.isna().to_numpy(), weeks)}")
    return days.to_numpy().astype("datetime64[s]")


def _whole_numbers(column: "pd.Series", part: str, name: str) -> np.ndarray:
    values = numbers(column, name)
    lowest, highest = _LIMITS[part]
    with np.errstate(invalid="ignore"):
        bad = ~((values >= lowest) & (values <= highest) & (values == np.rint(values)))
    if bad.any():
        raise ValueError(
            f"column {name!r} must hold whole numbers between {lowest} and {highest}, a {part} each; {name_rows(bad, values)}"
        )
    return values.astype(np.int64)


def _seconds_of_day(column: "pd.Series", name: str) -> np.ndarray:
    """From 13:30, 1330 or, as an hour, 13."""
    _refuse_missing(column, name)
    found = _clock_seconds(column)
    if np.any(found < 0):
        raise ValueError(
            f"column {name!r} must hold times of the day such as 13:30 or 1330, or hours such as 13; "
            f"{name_rows(found < 0, column.to_numpy(dtype=object))}"
        )
    return found


def _clock_seconds(column: "pd.Series") -> np.ndarray:
    """Seconds after midnight, -1 where there is no telling: beside 1330, is 15 an hour or a quarter past midnight?"""
    distinct = {value: _seconds_at(value) for value in column.unique()}
    plain = [value for value in distinct if isinstance(value, int | float | np.number)]
    if max(plain, default=0) > 24:
        distinct |= {value: -1 for value in plain if 0 < value < 100}
    return np.array([distinct[value] for value in column], dtype=np.int64)


def _seconds_at(value: Any) -> int:
    """Numbers up to 24 are hours, larger ones an hour and two digits of minutes; -1 for what is no time of the day."""
    if isinstance(value, str):
        match = _CLOCK.fullmatch(value)
        hours, minutes, seconds = (int(part or 0) for part in match.groups()) if match else (99, 0, 0)
    elif isinstance(value, int | float | np.number) and float(value).is_integer() and value >= 0:
        hours, minutes = (int(value), 0) if value <= 24 else divmod(int(value), 100)
        seconds = 0
    else:
        return -1
    total = 3600 * hours + 60 * minutes + seconds
    return total if minutes < 60 and seconds < 60 and total <= 86400 else -1


def _month_of(value: Any) -> int | None:
    """The number of a month by its English name, or the first three letters of it."""
    text = str(value).strip().lower().rstrip(".")
    return next((k for k, month in enumerate(_MONTHS, 1) if text in (month, month[:3])), None)


def _numbered(column: "pd.Series") -> "pd.Series":
    """Months by number where they are named."""
    import pandas as pd

    if pd.api.types.is_numeric_dtype(column.dtype):
        return column
    return column.map(lambda value: _month_of(value) or value)


def _refuse_missing(column: "pd.Series", name: str) -> None:
    missing = column.isna().to_numpy()
    if missing.any():
        raise ValueError(f"column {name!r} has missing times; {name_rows(missing, np.full(len(column), 'none'))}")
