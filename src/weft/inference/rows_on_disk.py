# SPDX-License-Identifier: MIT
"""Rows of a table too large for one process, in files: part by part as the table was read, in each part region by region.

What one region sees of some stretch of time is read without a look at the rest. Whoever has the files' names may read them, so that
what travels is small however many rows there are.
"""

import dataclasses
import os
from collections.abc import Sequence
from typing import Any, NamedTuple, final

import numpy as np
from jaxtyping import Bool, Float, Int

from weft.data.observations import ROW_EXTRAS, Observations
from weft.data.on_disk import FileArrays, NumbersOnDisk, Piece, TemporaryFolder
from weft.data.schema import Numbers, Schema, check_arrays

__all__ = ["PartOnDisk", "RowsOnDisk", "Span", "join_parts", "write_part"]

ROW, PLACE, TIME, VALUE, NOISE = "row", "place", "times", "values", "noise_variance"
TYPES: dict[str, np.dtype] = dict.fromkeys([ROW, PLACE], np.dtype("<i4")) | dict.fromkeys(
    [TIME, VALUE, *ROW_EXTRAS], np.dtype("<f8")
)
SCHEMA: Schema = {
    "times": Numbers(("time",), increasing=True),
    "places": Numbers(("place", "column")),
    "offsets": Numbers(("part", "cell + 1"), whole=True, least=0.0),
    "spans": Numbers(("part", "end"), endless=True),
}


class Span(NamedTuple):
    """Times from the first to the last."""

    first: float
    last: float


EVER = Span(-np.inf, np.inf)


class PartOnDisk(NamedTuple):
    """What was written of one part of a table: a file a column, where each region's rows begin in it, and which times it has."""

    paths: dict[str, str]
    offsets: Int[np.ndarray, " cell_plus_one"]
    span: Span
    times: Float[np.ndarray, " time"]


def write_part(
    folder: str,
    number: int,
    data: Observations,
    place: Int[np.ndarray, " place"],
    cell_of_place: Int[np.ndarray, " all_places"],
) -> PartOnDisk:
    """The rows of one part in order of their regions; `place` numbers the places of `data` among all."""
    place_of_row = place[np.asarray(data.grouping.place_of_row)]
    cell = cell_of_place[place_of_row]
    order = np.argsort(cell, kind="stable")
    columns = {ROW: np.arange(data.num_rows), PLACE: place_of_row, TIME: data.row_times, VALUE: data.values} | {
        name: getattr(data, name) for name in ROW_EXTRAS if getattr(data, name) is not None
    }
    paths = {}
    for name, column in columns.items():
        paths[name] = os.path.join(folder, f"{number}-{name}")
        # Under another name first: a task that is run again, or twice at once, leaves a whole file.
        part = f"{paths[name]}-{os.getpid()}"
        np.asarray(column)[order].astype(TYPES[name]).tofile(part)
        os.replace(part, paths[name])
    offsets = np.searchsorted(cell[order], np.arange(int(cell_of_place.max()) + 2))
    return PartOnDisk(paths, offsets, Span(float(data.times[0]), float(data.times[-1])), data.times)


@final
@dataclasses.dataclass(frozen=True)
class RowsOnDisk:
    """Columns of rows in files: `columns` are where a row was in its part, the number of its place, its time, its value and more.

    Rows of a part and a region are those from `offsets[part, cell]` up to `offsets[part, cell + 1]`; `spans` are the first and last time
    of each part. `folders` are where files are as long as somebody has this.
    """

    times: Float[np.ndarray, " time"]
    places: Float[np.ndarray, "place dim"]
    columns: dict[str, NumbersOnDisk]
    offsets: Int[np.ndarray, "part cell_plus_one"]
    spans: Float[np.ndarray, "part end"]
    folders: tuple[TemporaryFolder, ...] = ()

    @property
    def num_rows(self) -> int:
        return len(self.columns[VALUE])

    @property
    def num_parts(self) -> int:
        return len(self.spans)

    def read(
        self, cells: Sequence[int], is_wanted: Bool[np.ndarray, " place"], span: Span = EVER
    ) -> Observations | None:
        """Rows of these regions' cores at the places wanted, within a span; None where there is none."""
        found: dict[str, list[np.ndarray]] = {name: [] for name in self.columns}
        inside = (self.spans[:, 0] <= span.last) & (self.spans[:, 1] >= span.first)
        for part in np.flatnonzero(inside).tolist():
            some = self._of_part(part, cells, is_wanted, span)
            # In the order the table has them: rows of one time are summed in it.
            order = np.argsort(some[ROW], kind="stable")
            for name, column in some.items():
                found[name].append(column[order])
        read = {name: np.concatenate(pieces) for name, pieces in found.items() if pieces and name != ROW}
        if not read or len(read[VALUE]) == 0:
            return None
        places = self.places[read.pop(PLACE)]
        return Observations(read.pop(TIME), places, read.pop(VALUE), **read)

    def _of_part(
        self, part: int, cells: Sequence[int], is_wanted: Bool[np.ndarray, " place"], span: Span
    ) -> dict[str, np.ndarray]:
        found: dict[str, list[np.ndarray]] = {name: [np.empty(0, TYPES[name])] for name in self.columns}
        for cell in cells:
            first, last = self.offsets[part, cell : cell + 2].tolist()
            place, time = (self.columns[name].read(first, last) for name in (PLACE, TIME))
            kept = is_wanted[place] & (time >= span.first) & (time <= span.last)
            if kept.any():
                for name, column in self.columns.items():
                    found[name].append(column.read(first, last)[kept])
        return {name: np.concatenate(pieces) for name, pieces in found.items()}

    def noise_of_places(self) -> Float[np.ndarray, " place"] | None:
        """The mean of the noise variances that rows of each place bring; None where they bring none."""
        if NOISE not in self.columns:
            return None
        whole, counts = np.zeros(len(self.places)), np.zeros(len(self.places))
        for place, noise in zip(self.columns[PLACE].chunks(), self.columns[NOISE].chunks(), strict=True):
            whole += np.bincount(place, noise, len(self.places))
            counts += np.bincount(place, minlength=len(self.places))
        return whole / counts

    def with_more(self, more: "RowsOnDisk") -> "RowsOnDisk":
        """These rows, then those of `more`, whose places are these and others after them."""
        columns = {
            name: NumbersOnDisk(TYPES[name], (*self._pieces(name, more), *more._pieces(name, more)))
            for name in {**self.columns, **more.columns}
        }
        return RowsOnDisk(
            np.union1d(self.times, more.times),
            more.places,
            columns,
            np.concatenate([self.offsets, self.num_rows + more.offsets]),
            np.concatenate([self.spans, more.spans]),
            (*self.folders, *more.folders),
        )

    def _pieces(self, name: str, newest: "RowsOnDisk") -> tuple[Piece, ...]:
        """Pieces of a column; where these rows bring none, of what a row has that brings nothing, in the newest folder."""
        if name in self.columns:
            return self.columns[name].pieces
        path = os.path.join(newest.folders[-1].path, f"no-{name}")
        np.full(self.num_rows, ROW_EXTRAS[name]).astype(TYPES[name]).tofile(path)
        return (Piece(path, 0, self.num_rows),)

    def to_plain(self, arrays: FileArrays) -> dict[str, Any]:
        """JSON; arrays are appended to `arrays`, those in files as such."""

        def kept(array: Any) -> int:
            arrays.append(array)
            return len(arrays) - 1

        return {
            "index": {name: kept(getattr(self, name)) for name in SCHEMA},
            "columns": {name: kept(column) for name, column in self.columns.items()},
        }

    @classmethod
    def from_plain(cls, plain: dict[str, Any], arrays: FileArrays) -> "RowsOnDisk":
        """What `to_plain` was given; ValueError where it is not there."""
        part = check_arrays(SCHEMA, {name: arrays[number] for name, number in plain["index"].items()}, {"end": 2})
        columns = {name: arrays[number] for name, number in plain["columns"].items() if name in TYPES}
        made = cls(part["times"], part["places"], columns, part["offsets"], part["spans"])
        made._check()
        return made

    def _check(self) -> None:
        """Raise unless the columns are of one length and types, and every row is in one part and region at a place that is there."""
        for name in (ROW, PLACE, TIME, VALUE):
            if name not in self.columns:
                raise ValueError(f"its rows have no {name!r}")
        for name, column in self.columns.items():
            if not isinstance(column, NumbersOnDisk) or column.dtype != TYPES[name] or len(column) != self.num_rows:
                raise ValueError(f"the {name!r} of its rows are of another type or number")
            highest = len(self.places) if name == PLACE else np.inf
            for some in column.chunks():
                if np.any(np.isnan(some)) or (name == PLACE and (some.min() < 0 or some.max() >= highest)):
                    raise ValueError(f"the {name!r} of its rows hold numbers that cannot be")
        ends = self.offsets[:, -1]
        if np.any(np.diff(self.offsets, axis=1) < 0) or not np.array_equal(
            self.offsets[:, 0], np.concatenate([[0], ends[:-1]])
        ):
            raise ValueError("its 'offsets' do not give each row to one region")
        if len(ends) == 0 or ends[-1] != self.num_rows:
            raise ValueError("its 'offsets' are not those of its rows")


def join_parts(
    parts: Sequence[PartOnDisk],
    times: Float[np.ndarray, " time"],
    places: Float[np.ndarray, "place dim"],
    folder: TemporaryFolder,
) -> RowsOnDisk:
    """The rows of all parts, which are all at these places and times."""
    counts = [int(part.offsets[-1]) for part in parts]
    starts = np.concatenate([[0], np.cumsum(counts)])[:-1]
    columns = {
        name: NumbersOnDisk(
            TYPES[name],
            tuple(Piece(part.paths[name], 0, count) for part, count in zip(parts, counts, strict=True)),
        )
        for name in parts[0].paths
    }
    return RowsOnDisk(
        times,
        places,
        columns,
        np.stack([start + part.offsets for start, part in zip(starts, parts, strict=True)]),
        np.array([part.span for part in parts]),
        (folder,),
    )
