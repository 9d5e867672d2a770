# SPDX-License-Identifier: MIT
"""Counts of a table in many files, by reductions over them: no process holds more than one of them.

Each file tells its times and places, each once, what its values are like, and how many of its rows repeat another. Rows of two files can
repeat each other only at a time and a place that both have: where there are such, these rows are put into bunches, on disk, by when and
where they are, and each bunch is looked at by itself.
"""

import functools
import math
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Int

from weft.data.categories import MISSING, Labels
from weft.data.clock import learn_clock, times_of
from weft.data.copies import Copies, copies_among, row_hashes
from weft.data.inspect import ColumnsCounted, Tally, columns_of_units, labels_of_units, places_in, width_km
from weft.data.missing import ValuesTally, join_tallies, tally_values, without_missing
from weft.data.on_disk import TemporaryFolder
from weft.data.packed import join_repeated
from weft.data.parts import Part, names_of, read_part
from weft.data.tables import as_table, distinct_rows
from weft.distributed.clients import shared_folder
from weft.distributed.in_parts import ColumnsNeeded, sum_at
from weft.inference.executor import current_executor
from weft.phases import timing

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Tallied", "tally_files"]

# Rows of a bunch, which one process holds.
ROWS_IN_BUNCH = 2**20
# Of a row that another file may have too: which time and place it has, its value, what all its columns are, and where it is.
_KEPT = np.dtype([("key", "<i8"), ("value", "<f8"), ("hash", "<u8"), ("row", "<i8")])
_NO_COPIES = Copies(0, -1, -1)


class Tallied(NamedTuple):
    """The tally of all rows, those that repeat another in every column, and what columns of units say."""

    tally: Tally
    copies: Copies
    units: dict[str, tuple[str, ...]]


class _OfFile(NamedTuple):
    """What one file tells of its rows; copies are those within it."""

    names: tuple[str, ...]
    times: "pd.DataFrame"
    places: "pd.DataFrame"
    rows_of_places: Int[np.ndarray, " place"]
    values: ValuesTally
    num_rows: int
    num_measured: int
    num_valued: int
    copies: Copies
    units: dict[str, tuple[str, ...]]


class _Between(NamedTuple):
    """Rows that repeat one of another file: in time and place, in these and the value, in every column; and the first of the last."""

    measured: int
    valued: int
    copies: Copies


@timing("survey")
def tally_files(parts: Sequence[Part], columns: ColumnsCounted) -> Tallied:
    """All rows of these files, counted where tasks run. A column that cannot be read is named, with its file."""
    executor = current_executor()
    found = executor.map(
        functools.partial(_told, columns), parts, names=[f"counting {os.path.basename(part.path)}" for part in parts]
    )
    times, time_of_part = join_repeated([each.times for each in found])
    places, place_of_part = join_repeated([each.places for each in found])
    if len(times) == 0:
        raise ValueError("the files have no rows; give a table with at least one row")
    column = times_of(as_table(times), columns.time)
    clock = learn_clock(column, columns.time, text_format=columns.time_format)
    distinct, time = np.unique(clock.numbers(column, columns.time), return_inverse=True)
    rows_of_places = sum_at(place_of_part, [each.rows_of_places for each in found], len(places))
    where, areas = _places(places, rows_of_places, columns)
    first, place = distinct_rows([*where.values(), areas])
    between = _between_files(
        parts,
        columns,
        found,
        [time[numbers] for numbers in time_of_part],
        [place[numbers] for numbers in place_of_part],
        len(first),
    )
    tally = Tally(
        time=columns.time,
        clock=clock,
        times=distinct,
        places={name: column[first] for name, column in where.items()},
        is_area=areas[first] != MISSING,
        rows_of_places=np.bincount(place, rows_of_places, len(first)).astype(np.int64),
        width_km=width_km({name: column[areas == MISSING] for name, column in where.items()}),
        values=join_tallies([each.values for each in found]),
        num_rows=sum(each.num_rows for each in found),
        num_measured=sum(each.num_measured for each in found) - between.measured,
        num_valued=sum(each.num_valued for each in found) - between.valued,
    )
    return Tallied(tally, _all_copies(found, between.copies), _joined_units([each.units for each in found]))


def _places(
    places: "pd.DataFrame", rows_of_places: Int[np.ndarray, " place"], columns: ColumnsCounted
) -> tuple[dict[str, np.ndarray], Labels]:
    """The columns of space and areas of distinct places; rows that say neither are refused."""
    where, areas = places_in(as_table(places), columns)
    for name, column in where.items():
        # Of kinds, none is one too.
        is_number = column.dtype.kind != "U"
        count = int(rows_of_places[np.isnan(column) & (areas == MISSING)].sum()) if is_number else 0
        if count:
            raise ValueError(
                f"column {name!r} must hold a number in every row; {count} row{'s' if count > 1 else ''} of "
                f"{int(rows_of_places.sum())} hold none: fill it in or leave the row out"
            )
    return where, areas


def _needed(columns: ColumnsCounted) -> ColumnsNeeded:
    area = () if columns.area is None else (columns.area,)
    return ColumnsNeeded(columns.time, (*columns.space, *area), (columns.target,))


def _told(columns: ColumnsCounted, part: Part) -> _OfFile:
    names, needed = names_of(part), _needed(columns)
    units = columns_of_units(names, columns.target)
    frame = read_part(part, [needed.time, *needed.places, *needed.numeric, *units])
    try:
        packed = needed.pack(frame)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{os.path.basename(part.path)!r}: {error}") from error
    values = without_missing(packed.numbers[columns.target], columns.missing)
    when_and_where = [packed.times.number, packed.places.number]
    measured, pair = distinct_rows(when_and_where)
    repeated = np.flatnonzero(np.bincount(pair)[pair] > 1)
    copies = _NO_COPIES
    if len(repeated):
        rows = as_table(read_part(part).iloc[repeated])
        copies = _numbered(copies_among(row_hashes(rows, rows.names)), repeated)
    return _OfFile(
        names=names,
        times=packed.times.each,
        places=packed.places.each,
        rows_of_places=np.bincount(packed.places.number, minlength=len(packed.places.each)),
        values=tally_values(values),
        num_rows=packed.num_rows,
        num_measured=len(measured),
        num_valued=len(distinct_rows([*when_and_where, values])[0]),
        copies=copies,
        units=labels_of_units(as_table(frame[list(units)]), columns.target) if units else {},
    )


def _numbered(copies: Copies, rows: Int[np.ndarray, " row"]) -> Copies:
    """Copies among some rows, by the numbers of these."""
    return Copies(copies.number, int(rows[copies.first]), int(rows[copies.original])) if copies.number else copies


def _all_copies(found: Sequence[_OfFile], between: Copies) -> Copies:
    """Those within files and those between them; rows are counted through all files."""
    starts = np.cumsum([0, *(each.num_rows for each in found)])
    firsts = [
        (int(start) + each.copies.first, int(start) + each.copies.original)
        for start, each in zip(starts[:-1], found, strict=True)
        if each.copies.number
    ]
    firsts += [(between.first, between.original)] if between.first >= 0 else []
    number = sum(each.copies.number for each in found) + between.number
    return Copies(number, *min(firsts)) if firsts else _NO_COPIES


def _joined_units(said: Sequence[dict[str, tuple[str, ...]]]) -> dict[str, tuple[str, ...]]:
    names = dict.fromkeys(name for each in said for name in each)
    return {name: tuple(dict.fromkeys(unit for each in said for unit in each.get(name, ()))) for name in names}


# --- rows that two files have


def _between_files(
    parts: Sequence[Part],
    columns: ColumnsCounted,
    found: Sequence[_OfFile],
    times: Sequence[Int[np.ndarray, " _"]],
    places: Sequence[Int[np.ndarray, " _"]],
    num_places: int,
) -> _Between:
    """Rows that repeat one of another file; `times` and `places` number those of each file among all."""
    times, places = _of_several(times), _of_several(places)
    numbers = [k for k in range(len(parts)) if np.any(times[k] >= 0) and np.any(places[k] >= 0)]
    if len(numbers) < 2:
        return _Between(0, 0, _NO_COPIES)
    executor, folder = current_executor(), TemporaryFolder(shared_folder())
    names = tuple(dict.fromkeys(name for each in found for name in each.names))
    starts = np.cumsum([0, *(each.num_rows for each in found)])
    num_bunches = math.ceil(sum(found[k].num_rows for k in numbers) / ROWS_IN_BUNCH)
    paths = [os.path.join(folder.path, f"{k}-keys") for k in numbers]
    offsets = executor.map(
        functools.partial(_put_into_bunches, _Bunches(columns, names, num_places, num_bunches)),
        [parts[k] for k in numbers],
        [times[k] for k in numbers],
        [places[k] for k in numbers],
        [int(starts[k]) for k in numbers],
        paths,
        names=[f"comparing {os.path.basename(parts[k].path)}" for k in numbers],
    )
    bunches = executor.map(
        functools.partial(_compared, paths),
        [np.array([each[bunch : bunch + 2] for each in offsets]) for bunch in range(num_bunches)],
        names=[f"comparing bunch {bunch} of rows" for bunch in range(num_bunches)],
    )
    firsts = [(each.copies.first, each.copies.original) for each in bunches if each.copies.first >= 0]
    return _Between(
        sum(each.measured for each in bunches),
        sum(each.valued for each in bunches),
        Copies(sum(each.copies.number for each in bunches), *min(firsts, default=(-1, -1))),
    )


def _of_several(numbers: Sequence[Int[np.ndarray, " _"]]) -> list[Int[np.ndarray, " _"]]:
    """The same, -1 for what no second file has."""
    size = max((int(own.max()) + 1 for own in numbers if len(own)), default=0)
    files = np.zeros(size, dtype=np.int64)
    for own in numbers:
        files[np.unique(own)] += 1
    return [np.where(files[own] > 1, own, -1) for own in numbers]


class _Bunches(NamedTuple):
    """What whoever puts rows into bunches has to know: all columns, how many places there are, and how many bunches."""

    columns: ColumnsCounted
    names: tuple[str, ...]
    num_places: int
    num: int


def _put_into_bunches(
    asked: _Bunches,
    part: Part,
    times: Int[np.ndarray, " time"],
    places: Int[np.ndarray, " place"],
    start: int,
    path: str,
) -> Int[np.ndarray, " bunch_plus_one"]:
    """The rows of one file that another may have, in a file by their bunch; where each bunch begins in it."""
    frame = read_part(part)
    packed = _needed(asked.columns).pack(frame)
    time, place = times[packed.times.number], places[packed.places.number]
    rows = np.flatnonzero((time >= 0) & (place >= 0))
    kept = np.empty(len(rows), _KEPT)
    kept["key"] = time[rows] * asked.num_places + place[rows]
    kept["value"] = without_missing(packed.numbers[asked.columns.target], asked.columns.missing)[rows]
    kept["hash"] = row_hashes(as_table(frame.iloc[rows]), asked.names)
    kept["row"] = start + rows
    bunch = kept["key"] % asked.num
    order = np.argsort(bunch, kind="stable")
    # Under another name first: a task that is run again, or twice at once, leaves a whole file.
    whole = f"{path}-{os.getpid()}"
    kept[order].tofile(whole)
    os.replace(whole, path)
    return np.searchsorted(bunch[order], np.arange(asked.num + 1))


def _compared(paths: Sequence[str], ends: Int[np.ndarray, "file 2"]) -> _Between:
    """One bunch of rows, which lies between these `ends` in each file."""
    pieces = [
        np.fromfile(path, _KEPT, int(last - first), offset=int(first) * _KEPT.itemsize)
        for path, (first, last) in zip(paths, ends, strict=True)
    ]
    kept = np.concatenate(pieces)
    file = np.repeat(np.arange(len(pieces)), [len(piece) for piece in pieces])

    def between(*what: Any) -> int:
        """How many there are that an earlier file has too."""
        return len(distinct_rows([file, *what])[0]) - len(distinct_rows(what)[0])

    order = np.argsort(kept["row"])
    among = _numbered(copies_among(kept["hash"][order]), kept["row"][order])
    return _Between(
        between(kept["key"]),
        between(kept["key"], kept["value"]),
        among._replace(number=between(kept["hash"])),
    )
