# SPDX-License-Identifier: MIT
"""The columns that a model needs, from tables that are on Dask or in many files: read and packed by workers, part by part.

No worker holds more than a part. What comes to the caller are distinct times and places, and of every row which of them it has and its
numbers; whatever else a table has stays where it is, and the whole of it is nowhere.
"""

import functools
import os
from collections.abc import Iterator, Sequence
from typing import Any

from weft.data.files import read_table
from weft.data.packed import PackedTable, join_packed, pack
from weft.data.parts import Part, is_of_parts, parts_of, read_part
from weft.data.tables import Table, as_table, time_columns
from weft.distributed.clients import active_client
from weft.distributed.lazy import as_dataset, chunks_of, is_on_dask, is_xarray
from weft.distributed.tasks import failed
from weft.inference.executor import current_executor
from weft.phases import timing

__all__ = ["gathered"]


@timing("read")
def gathered(table: Any, time: str, places: Sequence[str], numeric: Sequence[str]) -> Table | PackedTable:
    """Columns of a table on Dask, or in many files, packed; any other table as it is, or as its file holds it.

    `time` names its time, `places` the columns that tell places apart, `numeric` those that are numbers.
    """
    names = [time, *places, *numeric]
    packed = functools.partial(_packed, time, tuple(places), tuple(numeric))
    if isinstance(table, str | os.PathLike):
        if not is_of_parts(table):
            return as_table(read_table(table), names)
        parts = parts_of(table)
        read = functools.partial(_read_and_pack, time, tuple(places), tuple(numeric))
        return join_packed(current_executor().map(read, parts, names=[f"reading {part.path}" for part in parts]))
    if not is_on_dask(table):
        return as_table(table, names)
    from dask.delayed import delayed

    # A column that is not there is named before any work is done.
    if is_xarray(table):
        dataset = as_dataset(table)
        as_table(dataset, names)
        lazy = [delayed(packed, pure=False)(part) for part in chunks_of(dataset[_variables(dataset, names)])]
    else:
        from dask.dataframe.dispatch import make_meta

        as_table(make_meta(table), names)
        lazy = [delayed(packed, pure=False)(part) for part in table.to_delayed()]
    return join_packed(_computed(lazy))


def _packed(time: str, places: tuple[str, ...], numeric: tuple[str, ...], part: Any) -> PackedTable:
    return pack(part, time, places, numeric)


def _read_and_pack(time: str, places: tuple[str, ...], numeric: tuple[str, ...], part: Part) -> PackedTable:
    return pack(read_part(part, [time, *places, *numeric]), time, places, numeric)


def _variables(dataset: Any, names: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(each for name in names for each in time_columns(dataset.variables, name)))


def _computed(lazy: Sequence[Any]) -> Iterator[Any]:
    """Their values one by one; a worker lets go of each once it is here."""
    from dask.base import compute

    client = active_client()
    if client is None:
        yield from compute(*lazy)
        return
    futures = client.compute(list(lazy))
    try:
        for number, future in enumerate(futures):
            try:
                found = future.result()
            except Exception as error:
                raise failed(f"reading partition {number}", error) from error
            future.release()
            yield found
    finally:
        client.cancel(futures)
