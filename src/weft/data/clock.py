# SPDX-License-Identifier: MIT
"""Times of any kind as float64 in a unit a person uses, and back in the same type and time zone.

Times with a date become elapsed time since an origin near the data. They are split into whole units and a remainder
before they become floating point, so a time gives the same bits whether it came in seconds, micro- or nanoseconds.
"""

import dataclasses
import re
from typing import TYPE_CHECKING, Any, final

import numpy as np
from jaxtyping import Float, Int

from weft.data.schema import require_choice
from weft.data.tables import Table, name_rows, numbers, require_spread
from weft.data.time_parts import time_column
from weft.data.time_text import TextTimes, is_iso_format, read_time_text, write_time_text

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "UNIT_SECONDS",
    "Binning",
    "Clock",
    "Times",
    "learn_clock",
    "read_time_step",
    "refuse_missing_times",
    "step_in_words",
    "times_of",
]

UNIT_SECONDS = {"seconds": 1, "minutes": 60, "hours": 3600, "days": 86400, "weeks": 604800, "years": 31556952}
_TICKS_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_STEP_UNITS = {"s": "seconds", "min": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_KINDS = ("datetime", "date", "text", "yyyymmdd", "digits", "excel", "epoch", "number")
# Ways to spell a time in digits that leave it a number: a month, a day of the year, an hour.
_SPELLED = {6: "%Y%m", 7: "%Y%j", 10: "%Y%m%d%H"}
# From 1800 on: seconds since 1970 begin with 17 these years, and are no hours of the 18th century.
_YEARS = (1800, 2200)
# Days as Excel counts them, and those of the years 1938 to 2119; taken for such in a column that is named like a date.
_EXCEL_ORIGIN, _EXCEL_DAYS = "1899-12-30", (14_000, 80_000)
_EPOCH = np.datetime64("1970-01-01", "s")
# Seconds since then as computers count them, of the years 1973 to 2100, and parts of them; taken for such in a column that is named
# like a time.
_EPOCH_SECONDS = (1e8, 4.1e9)
_EPOCH_WORDS = frozenset({"time", "timestamp", "date", "datetime", "epoch", "unix", "dt"})
# Weeks start on Monday; the epoch was a Thursday.
_FIRST_MONDAY = np.datetime64("1969-12-29", "s")


@final
@dataclasses.dataclass(frozen=True)
class Binning:
    """What putting times on a regular step did; no row is dropped by it."""

    num_rows: int
    num_moved: int
    num_times_before: int
    num_times_after: int
    step: str
    is_chosen: bool = False  # by nobody who was asked

    @property
    def message(self) -> str:
        chosen = ". Nearly every row had a time of its own; time_step=None leaves it" if self.is_chosen else ""
        return (
            f"times put on a step of {self.step}: {self.num_times_before:,} distinct times became "
            f"{self.num_times_after:,}; {self.num_moved:,} of {self.num_rows:,} rows moved to the start of their step{chosen}"
        )


@final
@dataclasses.dataclass(frozen=True)
class Clock:
    """How one column's times become numbers.

    `kind` is what the column held: "datetime", "date", "text", "yyyymmdd" (whole numbers such as 20180707), "digits" (others that spell
    a time, such as 201807, in `text_format`), "excel" (days since 1899), "epoch" (seconds or, by `resolution`, parts of them since
    1970) or "number".
    Numbers are elapsed `unit`s since `origin` (UTC where there is a time zone), or the column's own for kind "number".
    `time_step` puts times at the start of their step: of the local day or week where it is a day or more, else of
    absolute time.
    """

    kind: str
    unit: str
    origin: str | None = None
    resolution: str = "us"
    time_zone: str | None = None
    text_format: str | None = None
    time_step: str | float | int | None = None

    @property
    def is_counted(self) -> bool:
        """Whether the column counts from a day that people do not think of."""
        return self.kind in ("excel", "epoch")

    def numbers(self, column: "pd.Series | Times", name: str = "time") -> Float[np.ndarray, " row"]:
        """The column's times as float64 in `unit`, put on the step if there is one; missing ones are refused by row."""
        return self._numbers(_as_times(column), name, binned=True)

    def restore(self, times: Float[np.ndarray, " row"]) -> "pd.Series":
        """Numbers back as a column of the type that was learned.

        Exact for whole microseconds within 142 years (2^52 microseconds) of the origin; float64 holds no more.
        """
        import pandas as pd

        times = np.asarray(times, dtype=np.float64)
        if self.kind == "number":
            return pd.Series(times)
        instants = pd.DatetimeIndex(self._instants(times))
        if self.time_zone is not None:
            instants = instants.tz_localize("UTC").tz_convert(self.time_zone)
        if self.kind == "text":
            assert self.text_format is not None
            return pd.Series(write_time_text(instants, self.text_format))
        if self.kind == "date":
            return pd.Series(instants.date, dtype=object)
        if self.kind == "yyyymmdd":
            return pd.Series(instants.year * 10000 + instants.month * 100 + instants.day).astype(np.int64)
        if self.kind == "digits":
            return pd.Series(instants.strftime(self.text_format)).astype(np.int64)
        if self.kind == "excel":
            return pd.Series((instants - pd.Timestamp(_EXCEL_ORIGIN)) / pd.Timedelta(days=1))
        if self.kind == "epoch":
            return pd.Series(instants.to_numpy().astype(np.int64))
        return pd.Series(instants)

    def datetimes(self, column: "pd.Series", name: str = "time") -> "pd.Series":
        """The column's times, however they are written, as datetimes: not put on the step. Numbers stay numbers."""
        import pandas as pd

        if self.kind == "number":
            return column
        return pd.Series(self._read(_as_times(column), name).index)

    def binning(
        self, column: "pd.Series | Times", name: str = "time", num_rows: Int[np.ndarray, " time"] | None = None
    ) -> Binning | None:
        """What `time_step` does to this column, for a message; None without a step. `num_rows` have each time, one unless given."""
        if self.time_step is None:
            return None
        times = _as_times(column)
        before, after = (self._numbers(times, name, binned=binned) for binned in (False, True))
        counts = np.ones(len(before), dtype=np.int64) if num_rows is None else num_rows
        return Binning(
            num_rows=int(counts.sum()),
            num_moved=int(counts[before != after].sum()),
            num_times_before=len(np.unique(before)),
            num_times_after=len(np.unique(after)),
            step=str(self.time_step),
        )

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> "Clock":
        """The clock of `to_json`; ValueError where there can be none."""
        clock = cls(**record)
        require_choice("clock.kind", clock.kind, _KINDS)
        if clock.kind == "number":
            return clock
        require_choice("clock.unit", clock.unit, UNIT_SECONDS)
        require_choice("clock.resolution", clock.resolution, _TICKS_PER_SECOND)
        if clock.origin is None or (clock.kind in ("text", "digits") and clock.text_format is None):
            raise ValueError("its clock has no origin, or no format for text")
        np.datetime64(clock.origin, "s")
        if clock.time_step is not None:
            read_time_step(clock.time_step)
        if clock.time_zone is not None:
            _require_zone(clock.time_zone)
        return clock

    def _numbers(self, times: "Times", name: str, *, binned: bool) -> Float[np.ndarray, " row"]:
        step = self.time_step if binned else None
        if len(times) == 0:
            return np.empty(0)
        if self.kind == "number":
            plain = _plain_numbers(times.column, name)
            return plain if step is None else np.floor(plain / float(step)) * float(step)
        read = self._read(times, name)
        index = read.index if step is None else _floor(read.index, *read_time_step(step))
        return _elapsed(_utc(index), np.datetime64(self.origin, "s"), self.unit)

    def _read(self, times: "Times", name: str) -> "_Read":
        """Dates, whose zone or lack of one is the model's."""
        # ISO 8601 is never ambiguous, so a table with dates fits a model of times and the other way round.
        strict = self.text_format is not None and not is_iso_format(self.text_format)
        read = times.read(name, self.text_format if strict else None)
        if read.kind == "number":
            raise TypeError(f"column {name!r} holds plain numbers; the model was fitted to dates, so give dates")
        if (read.time_zone is None) != (self.time_zone is None):
            has, had = (
                "no time zone" if zone is None else f"time zone {zone}" for zone in (read.time_zone, self.time_zone)
            )
            raise ValueError(
                f"times in column {name!r} have {has} and those the model was fitted to have {had}; convert one"
            )
        return read

    def _instants(self, times: Float[np.ndarray, " row"]) -> np.ndarray:
        """Numbers as datetime64 (UTC) of the learned resolution, to the nearest tick that float64 resolves."""
        ticks = _TICKS_PER_SECOND[self.resolution] * UNIT_SECONDS[self.unit]
        whole = np.floor(times)
        rounded = np.rint((times - whole) * ticks)
        # The last digits of a large number are rounding: 20,000 days are known to 300 ns only. Round those away.
        grain = float(np.spacing(np.max(np.abs(times), initial=0.0))) * ticks
        if 1.1 * grain > 1:
            decade = 10 ** int(np.ceil(np.log10(1.1 * grain)))
            rounded = np.rint(rounded / decade) * decade
        offset = whole.astype(np.int64) * ticks + rounded.astype(np.int64)
        return np.datetime64(self.origin, "s").astype(f"datetime64[{self.resolution}]") + offset.astype(
            f"timedelta64[{self.resolution}]"
        )


def learn_clock(
    column: "pd.Series | Times",
    name: str = "time",
    *,
    unit: str | None = None,
    time_step: str | float | int | None = None,
    text_format: str | None = None,
) -> Clock:
    """The clock of a column of times: datetimes, dates, text or numbers.

    Without `unit`, one that suits the usual step between times: days for daily data, hours for hourly, and so on.
    `text_format` (as in `strptime`) says how text, or whole numbers such as 2020031, spell times; columns that are times
    already do not need it.
    """
    if unit is not None and unit not in UNIT_SECONDS:
        raise ValueError(f"unit must be one of {', '.join(UNIT_SECONDS)}; it is {unit!r}")
    if len(column) == 0:
        raise ValueError(f"column {name!r} is empty; give a table with at least one row")
    read = _as_times(column).read(name, text_format)
    if read.kind == "number":
        if unit is not None:
            raise ValueError(f"column {name!r} holds plain numbers, whose unit is their own; leave unit={unit!r} out")
        if isinstance(time_step, str) or (time_step is not None and not time_step > 0):
            raise ValueError(
                f"column {name!r} holds plain numbers, so time_step must be a positive number; it is {time_step!r}"
            )
        steps = np.diff(np.unique(_plain_numbers(_as_times(column).column, name)))
        if len(steps):
            require_spread(float(np.min(steps)), name)
        return Clock(kind="number", unit=f"units of {name}", time_step=time_step)
    instants = _utc(read.index if time_step is None else _floor(read.index, *read_time_step(time_step)))
    return Clock(
        kind=read.kind,
        unit=unit if unit is not None else _suitable_unit(instants),
        origin=str(instants.min().astype("datetime64[D]")),
        resolution=np.datetime_data(instants.dtype)[0],
        time_zone=read.time_zone,
        text_format=read.text_format,
        time_step=time_step,
    )


def read_time_step(step: str | float | int, name: str = "time_step") -> tuple[int, str]:
    """A step such as "1D", "6h" or "15min" as a count and a unit; `name` is what it is called in messages."""
    match = re.fullmatch(r"\s*(\d*)\s*([A-Za-z]+)\s*", step) if isinstance(step, str) else None
    unit = None if match is None else _STEP_UNITS.get(match[2].lower())
    if match is None or unit is None or match[1] == "0" * max(len(match[1]), 1):
        raise ValueError(f"{name} must be like '1D', '6h', '15min', '30s' or '1W'; it is {step!r}")
    return int(match[1] or 1), unit


def step_in_words(seconds: float | int) -> str:
    """A length of time in the largest unit that fits: "1 day", "6 hours", "2.5 minutes"."""
    names = [name for name in UNIT_SECONDS if seconds >= UNIT_SECONDS[name] * (1 - 1e-9)] or ["seconds"]
    unit = names[-1] if seconds % 7 == 0 or names[-1] != "weeks" else "days"
    amount = seconds / UNIT_SECONDS[unit]
    return f"{amount:.4g} {unit[:-1] if round(amount, 4) == 1 else unit}"


@final
@dataclasses.dataclass(frozen=True)
class Times:
    """A column of times, parsed when it is first asked for and not again."""

    column: "pd.Series"
    _parsed: "dict[str | None, _Read]" = dataclasses.field(default_factory=dict, compare=False, repr=False)

    def __len__(self) -> int:
        return len(self.column)

    def read(self, name: str, text_format: str | None) -> "_Read":
        """The column as instants; `name` is for messages."""
        if text_format not in self._parsed:
            read = _read(self.column, name, text_format)
            self._parsed.update({text_format: read, read.text_format: read})
            # Told the format that was found, or not told one that is ISO 8601, the column reads the same.
            if text_format is not None and is_iso_format(text_format):
                self._parsed[None] = read
        return self._parsed[text_format]

    def take(self, rows: Int[np.ndarray, " some"]) -> "Times":
        """The times of these rows, in this order."""
        parsed = {key: dataclasses.replace(read, index=read.taken(rows)) for key, read in self._parsed.items()}
        return Times(self.column.iloc[rows].reset_index(drop=True), parsed)


def _require_zone(name: str) -> None:
    import pandas as pd

    try:
        pd.Timestamp(0, tz=name)
    except Exception as error:
        # What a library says of a zone it does not know differs between them.
        raise ValueError(f"its time zone is {name!r}, which is not known here") from error


def times_of(table: Table, name: str) -> Times:
    """A table's column of times, or its parts joined, the same object every time, so that it is parsed once."""
    if name not in table.parsed:
        table.parsed[name] = Times(time_column(table, name))
    return table.parsed[name]


def _as_times(column: "pd.Series | Times") -> Times:
    return column if isinstance(column, Times) else Times(column)


@dataclasses.dataclass(frozen=True)
class _Read:
    kind: str
    index: Any  # a pandas DatetimeIndex
    time_zone: str | None = None
    text_format: str | None = None

    def taken(self, rows: Int[np.ndarray, " some"]) -> Any:
        """The index of these rows; plain numbers have none."""
        return self.index if self.kind == "number" else self.index.take(rows)


def refuse_missing_times(column: "pd.Series", name: str) -> None:
    missing = column.isna().to_numpy()
    if missing.any():
        raise ValueError(
            f"column {name!r} has {missing.sum()} missing time{'s' if missing.sum() > 1 else ''}; "
            f"{name_rows(missing, np.full(len(column), 'none'))}: fill it in or leave the row out"
        )


def _read(column: "pd.Series", name: str, text_format: str | None) -> _Read:
    """Any column of times as a DatetimeIndex, and what it was; plain numbers keep an empty index."""
    import pandas as pd

    refuse_missing_times(column, name)
    dtype = column.dtype
    if isinstance(dtype, pd.PeriodDtype):
        column = column.dt.to_timestamp()
    elif isinstance(dtype, pd.CategoricalDtype):
        column = column.astype(dtype.categories.dtype)
    elif isinstance(dtype, pd.ArrowDtype):
        column = _without_arrow(column)
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        index = pd.DatetimeIndex(column)
        return _Read("datetime", index, None if index.tz is None else str(index.tz))
    if pd.api.types.is_timedelta64_dtype(column.dtype) or pd.api.types.is_bool_dtype(column.dtype):
        raise TypeError(f"column {name!r} holds {column.dtype}, which is not a time; give dates or numbers")
    if pd.api.types.is_numeric_dtype(column.dtype):
        index = _yyyymmdd(column)
        if index is not None:
            return _Read("yyyymmdd", index)
        spelled = _spelled(column, text_format)
        if spelled is not None:
            return spelled
        if text_format is None and _counts_as_excel(column, name):
            days = pd.to_timedelta(column.to_numpy(dtype=np.float64), unit="D").round("ms")
            return _Read("excel", pd.DatetimeIndex(pd.Timestamp(_EXCEL_ORIGIN) + days))
        ticks = None if text_format is not None else _epoch_unit(column, name)
        if ticks is not None:
            return _Read("epoch", pd.DatetimeIndex(column.to_numpy(dtype=np.int64).astype(f"datetime64[{ticks}]")))
        if text_format is None or not pd.api.types.is_integer_dtype(column.dtype):
            return _Read("number", pd.DatetimeIndex([]))
        column = column.astype(str)
    return _read_objects(column, name, text_format)


def _read_objects(column: "pd.Series", name: str, text_format: str | None) -> _Read:
    import datetime

    import pandas as pd

    first = column.iloc[0] if len(column) else ""
    if isinstance(first, str) and (isinstance(column.dtype, pd.StringDtype) or all(isinstance(v, str) for v in column)):
        text: TextTimes = read_time_text(column, name, text_format)
        return _Read("text", text.index, None if text.index.tz is None else str(text.index.tz), text.text_format)
    if type(first).__module__.partition(".")[0] == "cftime":
        raise TypeError(
            f"column {name!r} uses the calendar {getattr(first, 'calendar', 'of cftime')!r}; "
            "convert it first with xarray's .convert_calendar('standard')"
        )
    is_time = np.array([isinstance(value, datetime.date | np.datetime64) for value in column])
    if not is_time.all():
        raise ValueError(f"column {name!r} must hold times; {name_rows(~is_time, column.to_numpy(dtype=object))}")
    only_dates = all(isinstance(value, datetime.date) and not isinstance(value, datetime.datetime) for value in column)
    zones = [getattr(value, "tzinfo", None) for value in column]
    naive = np.array([zone is None for zone in zones])
    if naive.any() and not naive.all():
        row = np.flatnonzero(naive)[0]
        raise ValueError(
            f"column {name!r} has times with and without a time zone (row {row}, counting from 0, has {column.iloc[row]} "
            "without one); give all of them one, or none"
        )
    # Instants of several zones are kept in UTC; those of one stay in it.
    index = pd.DatetimeIndex(pd.to_datetime(column, utc=len({str(zone) for zone in zones}) > 1))
    return _Read("date" if only_dates else "datetime", index, None if index.tz is None else str(index.tz))


def _without_arrow(column: "pd.Series") -> "pd.Series":
    """A column of pandas' Arrow type as the ordinary one."""
    import pyarrow as pa

    return pa.table({"column": pa.chunked_array(pa.array(column))}).to_pandas(date_as_object=True)["column"]


def _yyyymmdd(column: "pd.Series") -> Any:
    """A DatetimeIndex if every value is a whole number that spells a date, such as 20180707; else None."""
    import pandas as pd

    values = column.to_numpy(dtype=np.float64)
    if len(values) == 0 or values.min() < 17000101 or values.max() > 22001231 or np.any(values != np.rint(values)):
        return None
    distinct, inverse = np.unique(values.astype(np.int64), return_inverse=True)
    dates = pd.to_datetime(pd.Series(distinct).astype(str), format="%Y%m%d", errors="coerce")
    return None if dates.isna().any() else pd.DatetimeIndex(dates).take(inverse)


def _spelled(column: "pd.Series", text_format: str | None) -> _Read | None:
    """The column where every value is a whole number that spells a time by one of the ways there are, `text_format` if given."""
    import pandas as pd

    values = column.to_numpy(dtype=np.float64)
    if len(values) == 0 or np.any(values != np.rint(values)) or values.min() < 100_000 or values.max() > 1e10:
        return None
    distinct, inverse = np.unique(values.astype(np.int64), return_inverse=True)
    texts = pd.Series(distinct).astype(str)
    way = _SPELLED.get(len(texts.iloc[0]))
    if way is None or text_format not in (None, way) or texts.str.len().nunique() > 1:
        return None
    if not texts.str[:4].astype(np.int64).between(*_YEARS).all():
        return None
    times = pd.to_datetime(texts, format=way, errors="coerce")
    return None if times.isna().any() else _Read("digits", pd.DatetimeIndex(times).take(inverse), None, way)


def _counts_as_excel(column: "pd.Series", name: str) -> bool:
    values = column.to_numpy(dtype=np.float64)
    lowest, highest = _EXCEL_DAYS
    return "date" in name.lower() and len(values) > 0 and bool(values.min() >= lowest and values.max() <= highest)


def _epoch_unit(column: "pd.Series", name: str) -> str | None:
    """What a column of whole numbers counts since 1970, "s", "ms", "us" or "ns"; None where it does not."""
    values = column.to_numpy(dtype=np.float64)
    is_named = bool(set(re.split(r"[^a-z]+", name.lower())) & _EPOCH_WORDS)
    if not is_named or len(values) == 0 or np.any(values != np.rint(values)):
        return None
    lowest, highest = _EPOCH_SECONDS
    return next(
        (
            unit
            for unit, ticks in _TICKS_PER_SECOND.items()
            if values.min() >= lowest * ticks and values.max() <= highest * ticks
        ),
        None,
    )


def _plain_numbers(column: "pd.Series", name: str) -> Float[np.ndarray, " row"]:
    import pandas as pd

    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        raise TypeError(f"column {name!r} holds dates; the model was fitted to plain numbers, so give numbers")
    times = numbers(column, name)
    if np.isnan(times).any():
        raise ValueError(f"column {name!r} has a missing time; {name_rows(np.isnan(times), times)}")
    return times


def _utc(index: Any) -> np.ndarray:
    instants = index if index.tz is None else index.tz_convert("UTC").tz_localize(None)
    return instants.to_numpy()


def _elapsed(instants: np.ndarray, origin: np.datetime64, unit: str) -> Float[np.ndarray, " row"]:
    """Elapsed time in `unit`, the same bits at any resolution of `instants`."""
    if unit == "years":
        # A year of nanoseconds has more digits than float64; days have not.
        return _elapsed(instants, origin, "days") / (UNIT_SECONDS["years"] / UNIT_SECONDS["days"])
    resolution = np.datetime_data(instants.dtype)[0]
    ticks = _TICKS_PER_SECOND[resolution] * UNIT_SECONDS[unit]
    whole, rest = np.divmod((instants - origin.astype(instants.dtype)).astype(np.int64), ticks)
    return whole.astype(np.float64) + rest.astype(np.float64) / ticks


def _floor(index: Any, count: int, unit: str) -> Any:
    """The start of each time's step, in local time for steps of a day or more."""
    local = unit in ("days", "weeks") and index.tz is not None
    instants = (
        index.tz_localize(None) if local else index if index.tz is None else index.tz_convert("UTC").tz_localize(None)
    ).to_numpy()
    ticks = _TICKS_PER_SECOND[np.datetime_data(instants.dtype)[0]] * UNIT_SECONDS[unit] * count
    anchor = (_FIRST_MONDAY if unit == "weeks" else _EPOCH).astype(instants.dtype)
    since = (instants - anchor).astype(np.int64)
    started = type(index)(instants - (since % ticks).astype(f"timedelta64[{np.datetime_data(instants.dtype)[0]}]"))
    if index.tz is None:
        return started
    if local:
        # Where clocks change at midnight, a day starts at the first midnight, or when midnight's hour is over.
        return started.tz_localize(index.tz, ambiguous=np.ones(len(index), dtype=bool), nonexistent="shift_forward")
    return started.tz_localize("UTC").tz_convert(index.tz)


def _suitable_unit(instants: np.ndarray) -> str:
    distinct = np.unique(instants)
    if len(distinct) < 2:
        return "days"
    step = float(np.median(np.diff(distinct) / np.timedelta64(1, "s")))
    for unit, shortest in (("years", 300 * 86400), ("days", 43200), ("hours", 1800), ("minutes", 30)):
        if step >= shortest:
            return unit
    return "seconds"
