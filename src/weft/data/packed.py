# SPDX-License-Identifier: MIT
"""A table whose rows repeat each other's times and places, packed: each of those once, and which of them a row has.

A row takes 8 bytes and 8 more for each of its numbers, whatever its time and place are written in; parts of a table are packed
where they are read, and joined without ever being whole.
"""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np
from jaxtyping import Float, Int

from weft.data.clock import refuse_missing_times
from weft.data.parts import joined_parts
from weft.data.tables import as_table, distinct_rows, numbers, time_columns

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["PackedTable", "Repeated", "join_packed", "join_repeated", "pack"]


@final
@dataclasses.dataclass(frozen=True)
class Repeated:
    """What rows have, once for each that differs: row i has `each[number[i]]`."""

    each: Any  # an array, or a frame
    number: Int[np.ndarray, " row"]


@final
@dataclasses.dataclass(frozen=True)
class PackedTable:
    """Columns of times and of places as they were read, and columns of numbers row by row."""

    times: Repeated
    places: Repeated
    numbers: dict[str, Float[np.ndarray, " row"]]

    @property
    def num_rows(self) -> int:
        return len(self.times.number)

    def unpacked(self) -> "pd.DataFrame":
        """Row by row."""
        import pandas as pd

        columns = [part.each.iloc[part.number].reset_index(drop=True) for part in (self.times, self.places)]
        return pd.concat([*columns, pd.DataFrame(self.numbers)], axis=1)


def pack(part: Any, time: str, places: Sequence[str], numeric: Sequence[str]) -> PackedTable:
    """Those columns of a table: its time or the parts of it, what says where a row is, and what are numbers in every row."""
    table = as_table(part, [time, *places, *numeric])
    times = {name: table.column(name) for name in time_columns(table.names, time)}
    for name, column in times.items():
        refuse_missing_times(column, name)
    return PackedTable(
        _pack(times),
        _pack({name: table.column(name) for name in places}),
        {name: numbers(table.column(name), name) for name in numeric},
    )


def _pack(columns: "dict[str, pd.Series]") -> Repeated:
    import pandas as pd

    codes = [pd.factorize(column, use_na_sentinel=False)[0] for column in columns.values()]
    first, number = distinct_rows(codes)
    return Repeated(
        pd.DataFrame({name: column.iloc[first] for name, column in columns.items()}), number.astype(np.int32)
    )


def join_packed(parts: Iterable[PackedTable]) -> PackedTable:
    """Their rows one after another. Parts of other types are joined as their columns would be; those of no rows have no say in it."""
    everything = list(parts)
    given = [part for part in everything if part.num_rows] or everything[:1]
    return PackedTable(
        _join([part.times for part in given]),
        _join([part.places for part in given]),
        {name: np.concatenate([part.numbers[name] for part in given]) for name in given[0].numbers},
    )


def _join(parts: Sequence[Repeated]) -> Repeated:
    each, numbers_of_parts = join_repeated([part.each for part in parts])
    return Repeated(each, np.concatenate([own[part.number] for own, part in zip(numbers_of_parts, parts, strict=True)]))


def join_repeated(parts: "Sequence[pd.DataFrame]") -> "tuple[pd.DataFrame, list[Int[np.ndarray, '_']]]":
    """What differs among the rows of all parts, and which of it each row of a part is."""
    each = joined_parts([part.reset_index(drop=True) for part in parts])
    whole = _pack(dict(each.items()))
    return whole.each, np.split(whole.number, np.cumsum([len(part) for part in parts])[:-1])
