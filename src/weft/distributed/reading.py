# SPDX-License-Identifier: MIT
"""The columns that a model needs, from tables that are on Dask or in many files: read by workers, brought together as numbers.

Of a table only those columns come to the caller, and no worker holds more than a partition; whatever else a table has stays where it is.
"""

import functools
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from weft.data.files import read_table
from weft.data.parts import is_of_parts, joined_parts, parts_of, read_part
from weft.data.tables import as_table
from weft.distributed.lazy import as_dataset, is_on_dask, is_xarray
from weft.inference.executor import current_executor
from weft.phases import timing

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["gathered"]


@timing("read")
def gathered(table: Any, columns: Sequence[str]) -> Any:
    """`columns` of a table on Dask, or at a path, as a table in memory; any other table as it is."""
    if isinstance(table, str | os.PathLike):
        if not is_of_parts(table):
            return read_table(table)
        parts = parts_of(table)
        read = functools.partial(_read, tuple(columns))
        return joined_parts(current_executor().map(read, parts, names=[f"reading {part.path}" for part in parts]))
    if not is_on_dask(table):
        return table
    if is_xarray(table):
        dataset = as_dataset(table)
        return dataset[[name for name in columns if name in dataset.variables]].compute()
    from dask.base import compute
    from dask.dataframe.dispatch import make_meta
    from dask.delayed import delayed

    # A column that is not there is named before any work is done.
    as_table(make_meta(table), columns)
    take = delayed(_columns, pure=False)
    return joined_parts(compute(*(take(part, tuple(columns)) for part in table.to_delayed())))


def _read(columns: tuple[str, ...], part: Any) -> "pd.DataFrame":
    return _columns(read_part(part, columns), columns)


def _columns(part: Any, columns: tuple[str, ...]) -> "pd.DataFrame":
    import pandas as pd

    table = as_table(part, columns)
    return pd.DataFrame({name: table.column(name) for name in columns})
