# SPDX-License-Identifier: MIT
"""The columns that a model needs, from tables that are on Dask or in many files: read and packed by workers, part by part.

No worker holds more than a part. Of a table with few rows all come to the caller, packed: distinct times and places, and of every row which
of them it has and its numbers. A table with many stays in its parts.
"""

import os
from collections.abc import Sequence
from typing import Any

from weft.data.files import read_table
from weft.data.packed import PackedTable
from weft.data.parts import is_of_parts, parts_of
from weft.data.tables import Table, as_table, time_columns
from weft.distributed.in_parts import ColumnsNeeded, PartsOfDask, PartsOfFiles, TableInParts
from weft.distributed.lazy import as_dataset, chunks_of, is_on_dask, is_xarray
from weft.phases import timing

__all__ = ["gathered", "in_parts"]


@timing("read")
def gathered(table: Any, time: str, places: Sequence[str], numeric: Sequence[str]) -> Table | PackedTable:
    """Columns of a table on Dask, or in many files, packed; any other table as it is, or as its file holds it.

    `time` names its time, `places` the columns that tell places apart, `numeric` those that are numbers.
    """
    found = in_parts(table, time, places, numeric)
    return found.gathered() if isinstance(found, TableInParts) else found


def in_parts(table: Any, time: str, places: Sequence[str], numeric: Sequence[str]) -> Table | TableInParts:
    """The same with a table on Dask, or in many files, left in its parts. A column that is not there is named before any work is done."""
    columns = ColumnsNeeded(time, tuple(places), tuple(numeric))
    names = [time, *places, *numeric]
    if isinstance(table, str | os.PathLike):
        if not is_of_parts(table):
            return as_table(read_table(table), names)
        return PartsOfFiles(columns, parts_of(table))
    if not is_on_dask(table):
        return as_table(table, names)
    if is_xarray(table):
        dataset = as_dataset(table)
        as_table(dataset, names)
        return PartsOfDask(columns, list(chunks_of(dataset[_variables(dataset, names)])))
    from dask.dataframe.dispatch import make_meta

    as_table(make_meta(table), names)
    return PartsOfDask(columns, table.to_delayed())


def _variables(dataset: Any, names: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(each for name in names for each in time_columns(dataset.variables, name)))
