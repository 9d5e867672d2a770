# SPDX-License-Identifier: MIT
"""Tables with a row a measurement, from those with a column a station, a time or a quantity, and places from a second table."""

import dataclasses
import re
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, final

import numpy as np

from weft.data.inspect import ColumnGuesses, guess_columns
from weft.data.scaling import find_lon_lat
from weft.data.tables import FrameTable, Table, frame_of_kind, numbers, time_columns
from weft.data.time_parts import find_counted

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["LongForm", "long_form"]

_VALUE, _STATION, _TIME, _YEAR = "value", "station", "time", "year"
_KIND_WORDS = frozenset(
    {"element", "parameter", "variable", "pollutant", "quantity", "datatype", "species", "indicator", "param"}
)
_MOST_KINDS = 30
_FEWEST_TIMES = 3
_MOST_ROWS_ABOVE = 20
# R puts an X before a name that begins with a digit, and points for what else no name of its own may have; the World Bank says years twice.
_TIME_NAME = re.compile(r"[Xx]?(?P<date>\d{4}([-./_]?\d{2}([-./_]?\d{2}([ T]\d{2}:\d{2}(:\d{2})?)?)?)?)( \[YR\d{4}\])?")
_OTHER_DATE = re.compile(
    r"[Xx]?(\d{1,2}[-./ ]\d{1,2}[-./ ]\d{2}(\d{2})?|[A-Za-z]{3,9}[-./_ ]?\d{2}(\d{2})?|\d{4}[- .]?Q[1-4])"
)
# Whatever separates their parts.
_DATES_AS_NAMES = ("%d-%m-%Y", "%m-%d-%Y", "%d-%m-%y", "%m-%d-%y", "%b-%Y", "%B-%Y", "%b-%y", "%b%Y", "%b%y", "%B%Y")


@final
@dataclasses.dataclass(frozen=True)
class LongForm:
    """A table with a row a measurement, and what was done to make it one."""

    table: Any
    notes: tuple[str, ...] = ()


def long_form(
    table: Table, *, known: Collection[str] = (), target: str | None = None, places: Table | None = None
) -> LongForm:
    """The table with a row a measurement. `known` are columns it must have, `target` is what to call the values.

    Columns that are named like times, or like stations of `places`, are melted; a column that tells quantities apart (TMAX and
    TMIN of one day) becomes a column for each. From `places` come the coordinates, by the stations' names. A table that has all
    that is known and says where is left alone.
    """
    if not isinstance(table, FrameTable):
        if places is not None:
            raise ValueError("a grid has its own coordinates; leave places out")
        return LongForm(table)
    notes: list[str] = []
    if places is None and (apart := _places_above(table, notes)) is not None:
        table, places = apart
    guesses = guess_columns(table)
    frame = _times_apart(table, target or _VALUE, notes)
    if frame is None:
        frame = _parts_apart(table, target or _VALUE, notes)
    if frame is None:
        frame = _quantities_apart(table, guesses, known, notes)
    if places is not None:
        frame = _with_places(_as_pandas(table) if frame is None else frame, guesses, places, target or _VALUE, notes)
    if frame is None:
        return LongForm(table)
    return LongForm(_as_table(frame, table.kind), tuple(notes))


def _as_table(frame: "pd.DataFrame", kind: str) -> FrameTable:
    import narwhals.stable.v2 as nw

    return FrameTable(nw.from_native(frame_of_kind(frame, kind), eager_only=True))


def _as_pandas(table: Table) -> "pd.DataFrame":
    import pandas as pd

    return pd.DataFrame({name: table.column(name) for name in table.names})


def _places_above(table: Table, notes: list[str]) -> tuple[FrameTable, FrameTable] | None:
    """Measurements and places, where the first rows of a table with a column a station say where each is; None where they do not."""
    import pandas as pd

    labels = table.rows(0, min(table.num_rows, _MOST_ROWS_ABOVE)).column(table.names[0])
    if pd.api.types.is_numeric_dtype(labels.dtype) or pd.api.types.is_datetime64_any_dtype(labels.dtype):
        return None
    words = [str(label).strip() for label in labels]
    where = find_lon_lat(words)
    if where is None:
        return None
    # Whatever stands above the last of them tells of stations too: a name, a height.
    count = 1 + max(words.index(name) for name in where)
    while count < len(words) and not any(letter.isdigit() for letter in words[count]):
        count += 1
    frame = _as_pandas(table)
    about = frame.iloc[:count, 1:].T.reset_index()
    about.columns = [_STATION, *words[:count]]
    rows = frame.iloc[count:].rename(columns={table.names[0]: _TIME}).reset_index(drop=True)
    notes.append(f"the first {count} rows tell of stations ({', '.join(words[:count])}), and the others of times")
    return tuple(_as_table(_with_numbers(each), table.kind) for each in (rows, about))  # type: ignore[return-value]


def _with_numbers(frame: "pd.DataFrame") -> "pd.DataFrame":
    """Columns of text as numbers where all of it is."""
    found = {}
    for name in frame.columns:
        try:
            found[name] = numbers(frame[name], str(name))
        except (ValueError, TypeError):
            found[name] = frame[name]
    return frame.assign(**found)


def _of_times(table: Table) -> list[str]:
    """Columns that are named like times, where most columns of numbers are."""
    found = [name for name in table.names if _TIME_NAME.fullmatch(name.strip()) and _year_of(name) is not None]
    if not found:
        found = [name for name in table.names if _OTHER_DATE.fullmatch(name.strip())]
    return found if len(found) >= _FEWEST_TIMES and 2 * len(found) >= len(table.names) - len(found) else []


def _year_of(name: str) -> int | None:
    match = _TIME_NAME.fullmatch(name.strip())
    year = int(match["date"][:4]) if match else 0
    return year if 1700 <= year <= 2200 else None


def _times_apart(table: Table, value: str, notes: list[str]) -> "pd.DataFrame | None":
    """A row for each time, where most columns are named like times; None where they are not."""
    import pandas as pd

    names = _of_times(table)
    if not names:
        return None
    read = _read_names(names)
    if read is None:
        return None
    frame = _as_pandas(table)
    others = [name for name in frame.columns if name not in names]
    are_years = not any(isinstance(time, pd.Timestamp) for time in read.values())
    time = _free(_YEAR if are_years else _TIME, others)
    value = _free(value, others)
    long = frame.melt(id_vars=others, value_vars=list(names), var_name=time, value_name=value)
    long[time] = long[time].map(read)
    notes.append(
        f"{len(names):,} columns named like times ({names[0]!r} to {names[-1]!r}) became rows: {time!r} and {value!r}"
    )
    return long


def _read_names(names: list[str]) -> "dict[str, Any] | None":
    """The time that each column is named after: a whole number where it is a year, else a timestamp; None where some are none.

    Columns come in the order of time, which mostly tells 1/2/20 in January from one in February.
    """
    import pandas as pd

    dates = [match["date"] for name in names if (match := _TIME_NAME.fullmatch(name.strip()))]
    if len(dates) == len(names):
        digits = [re.sub(r"\D", "", date) for date in dates]
        if all(len(text) == 4 for text in digits):
            return {name: int(text) for name, text in zip(names, digits, strict=True)}
        form = {4: "%Y", 6: "%Y%m", 8: "%Y%m%d", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}
        return {name: pd.to_datetime(text, format=form[len(text)]) for name, text in zip(names, digits, strict=True)}
    bare = pd.Series([re.sub(r"^[Xx](?=\d)", "", name.strip()) for name in names])
    if bare.str.contains("Q").all():
        return dict(
            zip(names, pd.PeriodIndex(bare.str.replace(r"[- .]", "", regex=True), freq="Q").to_timestamp(), strict=True)
        )
    plain = bare.str.replace(r"[-./_ ]", "-", regex=True)
    ways = {way: pd.to_datetime(plain, format=way, errors="coerce") for way in _DATES_AS_NAMES}
    read = {way: times for way, times in ways.items() if not times.isna().any()}
    in_order = {way: times for way, times in read.items() if times.is_monotonic_increasing} or read
    apart = {way: times for way, times in in_order.items() if not times.equals(next(iter(in_order.values())))}
    if apart:
        both = " and ".join(repr(way) for way in (next(iter(in_order)), next(iter(apart))))
        raise ValueError(
            f"columns such as {names[0]!r} and {names[1]!r} are named like times, which can be read as {both}; name them like 2020-03-27"
        )
    return None if not in_order else dict(zip(names, next(iter(in_order.values())), strict=True))


def _parts_apart(table: Table, value: str, notes: list[str]) -> "pd.DataFrame | None":
    """A row for each month, day or hour where these are columns; None where they are not."""
    frame = _as_pandas(table)
    found = find_counted({str(name): column for name, column in frame.items()})
    if found is None:
        return None
    names = list(found.numbers)
    others = [name for name in frame.columns if name not in names]
    part, value = _free(found.part, others), _free(value, others)
    long = frame.melt(id_vars=others, value_vars=names, var_name=part, value_name=value)
    long[part] = long[part].map(found.numbers).astype(np.int64)
    notes.append(
        f"{len(names):,} columns named like {found.part}s ({names[0]!r} to {names[-1]!r}) became rows: {part!r} and {value!r}"
    )
    if found.part == "day":
        # Every month has 31 columns; what stands at a day that there is not is refused where times are read, unless it is nothing.
        year, month = (long[name].to_numpy(dtype=np.int64) for name in found.besides)
        begun = (12 * (year - 1970) + month - 1).astype("datetime64[M]")
        beyond = (begun.astype("datetime64[D]") + (long[part].to_numpy() - 1)).astype("datetime64[M]") != begun
        long = long[~(beyond & long[value].isna().to_numpy())].reset_index(drop=True)
    return long


def _quantities_apart(
    table: Table, guesses: ColumnGuesses, known: Collection[str], notes: list[str]
) -> "pd.DataFrame | None":
    """A column for each quantity, where one column names them and another holds the values; None where there is none."""
    import pandas as pd

    named = [
        name for name in table.names if set(re.split(r"[^a-z]+", name.lower())) & _KIND_WORDS and name not in known
    ]
    if not named or guesses.target is None or guesses.target.columns[0] in known or guesses.time is None:
        return None
    kind, value = named[0], guesses.target.columns[0]
    levels = table.column(kind)
    if pd.api.types.is_numeric_dtype(levels.dtype) or not 2 <= levels.nunique() <= _MOST_KINDS:
        return None
    frame = _as_pandas(table)
    where = guesses.station.columns if guesses.station else guesses.space.columns if guesses.space else ()
    keys = [*time_columns(table.names, guesses.time.columns[0]), *where]
    if frame.duplicated([*keys, kind]).any() or not frame.duplicated(keys).any():
        return None
    # What else is said of a row is kept where it is the same for every quantity.
    constant = [
        name
        for name in frame.columns
        if name not in (*keys, kind, value) and not (frame.groupby(keys)[name].nunique(dropna=False) > 1).any()
    ]
    left_out = [name for name in frame.columns if name not in (*keys, *constant, kind, value)]
    found = [str(level) for level in levels.dropna().unique()]
    apart = frame.pivot(index=keys, columns=kind, values=value).reset_index()
    apart.columns = [str(name) for name in apart.columns]
    if constant:
        apart = apart.merge(frame.drop_duplicates(keys)[[*keys, *constant]], on=keys)
    said = f"; left out, being different for each: {', '.join(left_out)}" if left_out else ""
    notes.append(f"column {kind!r} names quantities, which became columns: {', '.join(found)}{said}")
    return apart


def _with_places(
    frame: "pd.DataFrame", guesses: ColumnGuesses, places: Table, value: str, notes: list[str]
) -> "pd.DataFrame":
    where = guess_columns(places).space
    if where is None:
        raise ValueError(
            f"the table of places must say where they are, such as lat and lon; it has {', '.join(places.names)}"
        )
    about = _as_pandas(places)
    texts = {name: about[name].astype(str).str.strip() for name in about.columns if name not in where.columns}
    columns = [str(name) for name in frame.columns]
    keyed = max(texts, key=lambda name: len(set(texts[name]) & set(columns)), default=None)
    stations = [name for name in columns if keyed is not None and name in set(texts[keyed])]
    if keyed is not None and len(stations) >= 2:
        others = [name for name in columns if name not in stations]
        left_out = [name for name in others if _is_measured(frame, name, guesses)]
        station, value = _free(_STATION, others), _free(value, others)
        ids = [name for name in others if name not in left_out]
        frame = frame.melt(id_vars=ids, value_vars=stations, var_name=station, value_name=value)
        more = f"; left out, being no station there: {', '.join(left_out)}" if left_out else ""
        notes.append(f"{len(stations):,} columns named like stations became rows: {station!r} and {value!r}{more}")
    else:
        station, keyed = _shared_names(frame, texts)
    keys = texts[keyed]
    if keys.duplicated().any():
        raise ValueError(
            f"the table of places has {keys[keys.duplicated()].iloc[0]!r} twice in {keyed!r}; keep one row of each"
        )
    wanted = frame[station].astype(str).str.strip()
    unknown = sorted(set(wanted) - set(keys))
    if unknown:
        raise ValueError(
            f"{len(unknown)} of {wanted.nunique()} stations in {station!r} are not in column {keyed!r} of the table of places, "
            f"such as {unknown[0]!r}; add them there, or leave their rows out"
        )
    added = [name for name in about.columns if name not in (keyed, *frame.columns)]
    by_key = about.set_index(keys)[added]
    joined = frame.assign(**{name: by_key[name].loc[wanted].to_numpy() for name in added})
    notes.append(f"from the table of places, by {station!r}: {', '.join(added)}")
    return joined


def _is_measured(frame: "pd.DataFrame", name: str, guesses: ColumnGuesses) -> bool:
    import pandas as pd

    times = () if guesses.time is None else time_columns(list(frame.columns), guesses.time.columns[0])
    return bool(pd.api.types.is_numeric_dtype(frame[name].dtype)) and name not in times


def _shared_names(frame: "pd.DataFrame", texts: "dict[str, pd.Series]") -> tuple[str, str]:
    """The column of the table, and that of the places, that name the same stations."""
    best, found = 0, None
    for name in frame.columns:
        own = set(frame[name].dropna().astype(str).str.strip().unique()[:10_000])
        for key, values in texts.items():
            # Of equal counts, columns of one name.
            shared = 2 * len(own & set(values)) + int(name == key)
            if shared > max(best, 1):
                best, found = shared, (str(name), key)
    if found is None:
        raise ValueError(
            f"no column of the table ({', '.join(map(str, frame.columns))}) shares names with the table of places "
            f"({', '.join(texts) or 'which has no names'}); give both a column with the stations' names"
        )
    return found


def _free(name: str, taken: Collection[str]) -> str:
    return name if name not in taken else f"{name} of the column"
