# SPDX-License-Identifier: MIT
"""Rows that repeat another in every column: copies of a measurement, or a file put together twice."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import UInt64

from weft.data.tables import Table

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Copies", "find_copies"]

# An odd number with bits all over: the same value in another column is another row.
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


class Copies(NamedTuple):
    """How many rows are a copy of an earlier one; the first of them, and the row it is a copy of (both -1 if none)."""

    number: int
    first: int
    original: int


def find_copies(table: Table) -> Copies:
    """Rows with an equal row before them; missing values are equal.

    By 64 bits of hash a row, in a few seconds for millions of rows: two of ten million rows that differ are taken for
    equal once in 400,000 such tables.
    """
    import pandas as pd

    hashes = np.zeros(table.num_rows, dtype=np.uint64)
    for name in table.names:
        hashes = hashes * _MULTIPLIER + _hashes(table.column(name))
    copied = pd.Series(hashes).duplicated().to_numpy()
    if not copied.any():
        return Copies(0, -1, -1)
    first = int(np.argmax(copied))
    return Copies(int(copied.sum()), first, int(np.argmax(hashes == hashes[first])))


def _hashes(column: "pd.Series") -> UInt64[np.ndarray, " row"]:
    import pandas as pd

    try:
        return pd.util.hash_pandas_object(column, index=False, categorize=False).to_numpy()
    except (TypeError, ValueError):
        # Lists and the like, which a parquet file may hold, have no hash but one of how they are written.
        return pd.util.hash_pandas_object(column.map(repr), index=False, categorize=False).to_numpy()
