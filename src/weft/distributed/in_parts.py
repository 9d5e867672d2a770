# SPDX-License-Identifier: MIT
"""A table that is whole nowhere: its parts are read by workers, one at a time, and what they tell of theirs is joined here.

What comes to the caller are distinct times and places and sums over rows (`census`), rows of chosen times (`rows_at`), or whatever small
thing a function makes of each part (`each`).
"""

import abc
import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np
from jaxtyping import Bool, Int

from weft.data.missing import without_missing
from weft.data.moments import MomentsOf, join_moments, moments_of
from weft.data.packed import PackedTable, Repeated, join_packed, join_repeated, pack
from weft.data.parts import Part, num_rows_of, read_part
from weft.data.transforms import transform_named
from weft.distributed.clients import active_client
from weft.distributed.lazy import is_xarray
from weft.distributed.tasks import failed, run_task
from weft.distributed.worker_memory import keep_within_limit
from weft.inference.executor import current_executor
from weft.phases import timing

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Census", "ColumnsNeeded", "PartsOfDask", "PartsOfFiles", "TableInParts", "sum_at"]


class ColumnsNeeded(NamedTuple):
    """The columns of a table that a model needs: its time, those that tell places apart, and those that are numbers."""

    time: str
    places: tuple[str, ...]
    numeric: tuple[str, ...]

    def pack(self, part: Any) -> PackedTable:
        return pack(part, *self)


class Census(NamedTuple):
    """Distinct times and places of all rows, how many rows and values each has, and what the target is like.

    `time_of_part` and `place_of_part` say which of them each time and place of a part is, in the order in which packing it finds them.
    """

    times: "pd.DataFrame"
    places: "pd.DataFrame"
    rows_of_times: Int[np.ndarray, " time"]
    values_of_times: Int[np.ndarray, " time"]
    values_of_places: Int[np.ndarray, " place"]
    num_rows: int
    target: MomentsOf
    transformed: MomentsOf
    time_of_part: list[Int[np.ndarray, " time_of_part"]]
    place_of_part: list[Int[np.ndarray, " place_of_part"]]


class _Counted(NamedTuple):
    """What one part tells of its rows."""

    times: "pd.DataFrame"
    places: "pd.DataFrame"
    rows_of_times: Int[np.ndarray, " time"]
    values_of_times: Int[np.ndarray, " time"]
    values_of_places: Int[np.ndarray, " place"]
    num_rows: int
    target: MomentsOf
    transformed: MomentsOf


class TableInParts(abc.ABC):
    """Parts of a table that are read where tasks run."""

    columns: ColumnsNeeded
    parts: Sequence[Any]

    @functools.cached_property
    @abc.abstractmethod
    def rows_of_parts(self) -> Sequence[int]: ...

    @property
    def num_rows(self) -> int:
        return sum(self.rows_of_parts)

    @property
    def num_parts(self) -> int:
        return len(self.parts)

    @abc.abstractmethod
    def each(
        self,
        function: Callable[..., Any],
        *columns: Sequence[Any],
        numbers: Sequence[int] | None = None,
        doing: str = "reading",
    ) -> list[Any]:
        """`function` of each part, packed, and of its entry of every column; of the parts of these `numbers`, all unless given."""

    @timing("read")
    def gathered(self) -> PackedTable:
        """All rows, here."""
        return join_packed(self.each(_itself))

    @timing("read")
    def census(self, target: str, missing: tuple[float, ...], transform: str | None) -> Census:
        """A look at all rows: reductions over the parts."""
        found = self.each(functools.partial(_count, target, missing, transform), doing="counting")
        times, time_of_part = join_repeated([part.times for part in found])
        places, place_of_part = join_repeated([part.places for part in found])
        return Census(
            times=times,
            places=places,
            rows_of_times=sum_at(time_of_part, [part.rows_of_times for part in found], len(times)),
            values_of_times=sum_at(time_of_part, [part.values_of_times for part in found], len(times)),
            values_of_places=sum_at(place_of_part, [part.values_of_places for part in found], len(places)),
            num_rows=sum(part.num_rows for part in found),
            target=join_moments([part.target for part in found]),
            transformed=join_moments([part.transformed for part in found]),
            time_of_part=time_of_part,
            place_of_part=place_of_part,
        )

    @timing("read")
    def rows_at(self, census: Census, chosen: Bool[np.ndarray, " time"]) -> PackedTable:
        """The rows of the times chosen, here; times and places are those of the whole table."""
        wanted = [chosen[numbers] for numbers in census.time_of_part]
        some = [number for number, inside in enumerate(wanted) if inside.any()]
        found = self.each(_rows_at, [wanted[number] for number in some], numbers=some)
        return PackedTable(
            _as_numbered(
                census.times, [census.time_of_part[number] for number in some], [part.times for part in found]
            ),
            _as_numbered(
                census.places, [census.place_of_part[number] for number in some], [part.places for part in found]
            ),
            {name: np.concatenate([part.numbers[name] for part in found]) for name in self.columns.numeric},
        )


def _itself(packed: PackedTable) -> PackedTable:
    return packed


def _count(target: str, missing: tuple[float, ...], transform: str | None, packed: PackedTable) -> _Counted:
    values = without_missing(packed.numbers[target], missing)
    chosen = transform_named(transform)
    present = ~np.isnan(values)
    if present.any():
        chosen.check(values, target)
    return _Counted(
        packed.times.each,
        packed.places.each,
        np.bincount(packed.times.number, minlength=len(packed.times.each)),
        np.bincount(packed.times.number[present], minlength=len(packed.times.each)),
        np.bincount(packed.places.number[present], minlength=len(packed.places.each)),
        packed.num_rows,
        moments_of(values[present]),
        moments_of(chosen.forward(values[present])),
    )


def _rows_at(packed: PackedTable, wanted: Bool[np.ndarray, " time"]) -> PackedTable:
    kept = wanted[packed.times.number]
    return PackedTable(
        Repeated(None, packed.times.number[kept]),
        Repeated(None, packed.places.number[kept]),
        {name: column[kept] for name, column in packed.numbers.items()},
    )


def sum_at(
    numbers: Sequence[Int[np.ndarray, " _"]], counts: Sequence[Int[np.ndarray, " _"]], size: int
) -> Int[np.ndarray, " all"]:
    """Counts of parts, each by its numbers among `size`, summed."""
    total = np.zeros(size, dtype=np.int64)
    for number, count in zip(numbers, counts, strict=True):
        np.add.at(total, number, count)
    return total


def _as_numbered(each: "pd.DataFrame", numbers: Sequence[Int[np.ndarray, " _"]], parts: Sequence[Repeated]) -> Repeated:
    return Repeated(each, np.concatenate([own[part.number] for own, part in zip(numbers, parts, strict=True)]))


@final
class PartsOfFiles(TableInParts):
    """Parquet files; tasks read them."""

    def __init__(self, columns: ColumnsNeeded, parts: Sequence[Part]):
        self.columns, self.parts = columns, list(parts)

    @functools.cached_property
    def rows_of_parts(self) -> list[int]:
        return [num_rows_of(part) for part in self.parts]

    def each(
        self,
        function: Callable[..., Any],
        *columns: Sequence[Any],
        numbers: Sequence[int] | None = None,
        doing: str = "reading",
    ) -> list[Any]:
        parts = self.parts if numbers is None else [self.parts[number] for number in numbers]
        return current_executor().map(
            functools.partial(_of_file, self.columns, function),
            parts,
            *columns,
            names=[f"{doing} {part.path}" for part in parts],
        )


def _of_file(columns: ColumnsNeeded, function: Callable[..., Any], part: Part, *told: Any) -> Any:
    return function(columns.pack(read_part(part, [columns.time, *columns.places, *columns.numeric])), *told)


@final
class PartsOfDask(TableInParts):
    """Partitions of a table on Dask, each a delayed object; its workers compute them, or threads where there are none."""

    def __init__(self, columns: ColumnsNeeded, parts: Sequence[Any]):
        self.columns, self.parts = columns, list(parts)

    @functools.cached_property
    def rows_of_parts(self) -> list[int]:
        if all(is_xarray(part) for part in self.parts):
            return [int(np.prod(list(part.sizes.values()))) for part in self.parts]
        return self._computed([self._task(len, part) for part in self.parts], range(len(self.parts)), "counting")

    def each(
        self,
        function: Callable[..., Any],
        *columns: Sequence[Any],
        numbers: Sequence[int] | None = None,
        doing: str = "reading",
    ) -> list[Any]:
        chosen = range(self.num_parts) if numbers is None else numbers
        told = list(zip(*columns, strict=True)) if columns else [()] * len(chosen)
        tasks = [
            self._task(functools.partial(_of_partition, self.columns, function), self.parts[number], *more)
            for number, more in zip(chosen, told, strict=True)
        ]
        return self._computed(tasks, chosen, doing)

    def _task(self, function: Callable[..., Any], *arguments: Any) -> Any:
        from dask.delayed import delayed

        return delayed(function, pure=False)(*arguments)

    def _computed(self, tasks: Sequence[Any], numbers: Sequence[int], doing: str) -> list[Any]:
        """Their values; a worker lets go of each once it is here."""
        from dask.base import compute

        client = active_client()
        if client is None:
            return list(compute(*tasks))
        futures = client.compute(list(tasks))
        found = []
        try:
            for number, future in zip(numbers, futures, strict=True):
                try:
                    found.append(future.result())
                except Exception as error:
                    raise failed(f"{doing} partition {number}", error) from error
                future.release()
        finally:
            client.cancel(futures)
        return found


def _of_partition(columns: ColumnsNeeded, function: Callable[..., Any], part: Any, *told: Any) -> Any:
    found = run_task(function, columns.pack(part), *told)
    keep_within_limit()
    return found
