# SPDX-License-Identifier: MIT
"""Times written as text: which of the common ways a column follows, never guessing between day and month first."""

import dataclasses
import datetime
import re
from typing import TYPE_CHECKING, Any, final

import numpy as np

from weft.data.tables import name_rows

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["TextTimes", "is_iso_format", "read_time_text", "write_time_text"]

_CLOCK_TIMES = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p")
_DATES = (
    "%Y/%m/%d",
    "%d.%m.%Y",
    "%d-%m-%Y",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%m-%d-%Y",
    "%d %b %Y",
    "%d-%b-%Y",
    "%d %B %Y",
    "%b %d, %Y",
    "%B %d, %Y",
    "%Y%m%d",
    "%Y-%j",
    "%b %Y",
    "%b-%Y",
    "%B %Y",
)
# Quarters and weeks, which strptime does not read: %q is pandas' code for a quarter. The time is when they begin.
_PERIODS = ("%YQ%q", "%Y-Q%q", "%Y Q%q", "Q%q %Y", "Q%q-%Y", "Q%q/%Y", "%G-W%V", "%GW%V")
_PERIOD_CODES = {"%Y": r"(?P<year>\d{4})", "%G": r"(?P<year>\d{4})", "%q": r"(?P<part>[1-4])", "%V": r"(?P<part>\d{2})"}
# The end of a day, by its own date.
_MIDNIGHT = re.compile(r"(?<=[T ])24(?=:00(?::00(?:\.0+)?)?(?:Z|[+-][\d:]+)?$)")
_UNIVERSAL = re.compile(r"(?<=\d)\s*(?:UTC|GMT)$")
_ZONE = re.compile(r".*\d\s*(?!AM|PM)[A-Z]{2,5}")
_ISO = re.compile(
    r"(?P<date>\d{4}-\d{2}-\d{2}|\d{8}|\d{4}-\d{2}|\d{4})"
    r"((?P<join>[T ])(?P<hours>\d{2})(?P<minutes>:\d{2})?(?P<seconds>:\d{2})?(?P<fraction>[.,]\d+)?)?"
    r"(?P<offset>Z|[+-]\d{2}:?\d{2}|[+-]\d{2})?"
)
_ISO_FORMAT = re.compile(r"%Y-%m(-%d)?([T ]%H(:%M)?(:%S)?(\.%f)?)?(%z)?")


@final
@dataclasses.dataclass(frozen=True)
class TextTimes:
    """The times, in UTC where the text has offsets, and how they were written."""

    index: Any  # a pandas DatetimeIndex
    text_format: str


def read_time_text(column: "pd.Series", name: str, text_format: str | None) -> TextTimes:
    """Times from text: in `text_format` if given, else ISO 8601, else the one common way that fits every row.

    Text that fits two ways with different meanings (03/04/2020) is refused; text that fits none is named by its row.
    """
    import pandas as pd

    codes, distinct = pd.factorize(column.astype(object))
    texts = pd.Series(distinct, dtype=object).str.strip().str.replace(_UNIVERSAL, "+00:00", regex=True)
    at_midnight = texts.str.contains(_MIDNIGHT)
    texts = texts.str.replace(_MIDNIGHT, "00", regex=True)
    next_day = pd.to_timedelta(at_midnight.astype(int), unit="D")

    def found(times: Any, way: str) -> TextTimes:
        return TextTimes(pd.DatetimeIndex(times + next_day).take(codes), way)

    if text_format is not None:
        times = _in_format(texts, text_format)
        _refuse_unread(times, column, codes, name, f"times like {text_format!r}")
        return found(times, text_format)
    iso = _read_iso(texts, name)
    if iso is not None and not iso.isna().any():
        return found(iso, _iso_format(str(texts.iloc[0]) if len(texts) else ""))
    fitting = _fitting_formats(texts)
    if not fitting:
        times = iso if iso is not None else pd.Series(pd.NaT, index=texts.index)
        # When no row at all is ISO, the likeliest way is the one that reads most rows; name what that one cannot read.
        if times.isna().all():
            times = _best_format(texts)
        _refuse_unread(times, column, codes, name, "times such as 2020-03-27 or 2020-03-27T15:00")
    (first_format, first), *others = fitting
    for other_format, other in others:
        if not first.equals(other):
            raise ValueError(
                f"column {name!r} can be read as {first_format!r} and as {other_format!r} "
                f"(row 0 has {str(column.iloc[0])!r}); say which with "
                "time_format (of weft.toml or SpaceTimeGP; fit: --time-format), or write dates as 2020-03-27"
            )
    return found(first, first_format)


def is_iso_format(text_format: str) -> bool:
    """Whether times so written are ISO 8601, which can be read without being told."""
    return _ISO_FORMAT.fullmatch(text_format) is not None


def write_time_text(index: Any, text_format: str) -> Any:
    """Times as text in the way they were read."""
    text = (index.to_period("Q") if "%q" in text_format else index).strftime(text_format)
    # strftime writes +0000; ISO 8601 with colons elsewhere wants +00:00.
    return text.str.replace(r"([+-]\d{2})(\d{2})$", r"\1:\2", regex=True) if text_format.endswith("%z") else text


def _in_format(texts: "pd.Series", text_format: str) -> "pd.Series":
    import pandas as pd

    if text_format in _PERIODS:
        return _read_periods(texts, text_format)
    try:
        return pd.to_datetime(texts, format=text_format, errors="coerce", utc="%z" in text_format)
    except ValueError as error:
        raise ValueError(
            f"time_format must be as strptime takes it, such as '%d/%m/%Y %H:%M'; it is {text_format!r} ({error})"
        ) from error


def _read_periods(texts: "pd.Series", way: str) -> "pd.Series":
    """When quarters or weeks begin; NaT where a text is none."""
    import pandas as pd

    pattern = re.compile(re.sub("%[YGqV]", lambda code: _PERIOD_CODES[code[0]], way))
    begun = [_begun(match, is_week="%V" in way) for match in map(pattern.fullmatch, texts)]
    return pd.Series(pd.to_datetime(begun, errors="coerce"))


def _begun(match: re.Match[str] | None, *, is_week: bool) -> datetime.date | None:
    if match is None:
        return None
    year, part = int(match["year"]), int(match["part"])
    try:
        return datetime.date.fromisocalendar(year, part, 1) if is_week else datetime.date(year, 3 * part - 2, 1)
    except ValueError:
        return None


def _read_iso(texts: "pd.Series", name: str) -> "pd.Series | None":
    """ISO 8601 times, NaT where a text is none; None if all are not. Some with and some without offset: refused."""
    import pandas as pd

    matches = [_ISO.fullmatch(text) for text in texts]
    # Eight bare digits and a bare year are numbers to most people; they are read as dates by their own format only.
    is_iso = np.array([match is not None and "-" in match["date"] for match in matches], dtype=bool)
    if not is_iso.any():
        return None
    has_offset = np.array([match is not None and match["offset"] is not None for match in matches])
    if has_offset.any() and not has_offset[is_iso].all():
        raise ValueError(
            f"column {name!r} has times with and without an offset from UTC "
            f"({texts[has_offset].iloc[0]!r}, {texts[is_iso & ~has_offset].iloc[0]!r}); write all in one way"
        )
    times = pd.to_datetime(texts.where(is_iso), format="ISO8601", errors="coerce", utc=bool(has_offset.any()))
    return times


def _iso_format(text: str) -> str:
    match = _ISO.fullmatch(text)
    assert match is not None
    date = "%Y-%m-%d" if len(match["date"]) == 10 else "%Y-%m"
    parts = (
        ("join", match["join"]),
        ("hours", "%H"),
        ("minutes", ":%M"),
        ("seconds", ":%S"),
        ("fraction", ".%f"),
        ("offset", "%z"),
    )
    return date + "".join(str(written) for part, written in parts if match[part] is not None)


def _fitting_formats(texts: "pd.Series") -> list[tuple[str, Any]]:
    import pandas as pd

    fitting = []
    for text_format in _all_formats():
        # One text rules out most formats at once.
        if pd.isna(pd.to_datetime(texts.iloc[:1], format=text_format, errors="coerce").iloc[0]):
            continue
        times = pd.to_datetime(texts, format=text_format, errors="coerce")
        if not times.isna().any():
            fitting.append((text_format, times))
    for way in _PERIODS if not fitting else ():
        times = _read_periods(texts, way)
        if not times.isna().any():
            fitting.append((way, times))
    return fitting


def _best_format(texts: "pd.Series") -> "pd.Series":
    import pandas as pd

    sample = texts.iloc[:1000]
    reads = [pd.to_datetime(sample, format=way, errors="coerce").notna().sum() for way in _all_formats()]
    return pd.to_datetime(texts, format=_all_formats()[int(np.argmax(reads))], errors="coerce")


def _all_formats() -> list[str]:
    return [date + clock for date in _DATES for clock in _CLOCK_TIMES]


def _refuse_unread(times: "pd.Series", column: "pd.Series", codes: np.ndarray, name: str, wanted: str) -> None:
    unread = times.isna().to_numpy()[codes]
    if not unread.any():
        return
    values = column.to_numpy(dtype=object)
    is_zone = _ZONE.fullmatch(str(values[unread][0]).strip()) is not None
    advice = (
        "; the name of a zone does not say how far it is from UTC, write that, as in 2020-03-27T15:00-08:00"
        if is_zone
        else "; write them so, or say how they are written with time_format (--time-format), such as '%m/%d/%y', or leave the row out"
    )
    raise ValueError(f"column {name!r} must hold {wanted}; {name_rows(unread, values)}{advice}")
