# SPDX-License-Identifier: MIT
"""Rows that repeat another in every column: copies of a measurement, or a file put together twice."""

from typing import NamedTuple

import numpy as np

from weft.data.tables import Table

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
        column = pd.util.hash_pandas_object(table.column(name), index=False, categorize=False)
        hashes = hashes * _MULTIPLIER + column.to_numpy()
    copied = pd.Series(hashes).duplicated().to_numpy()
    if not copied.any():
        return Copies(0, -1, -1)
    first = int(np.argmax(copied))
    return Copies(int(copied.sum()), first, int(np.argmax(hashes == hashes[first])))
