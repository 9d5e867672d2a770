# SPDX-License-Identifier: MIT
"""Numbers that mean there is no value: which ones people use, and which of them a column holds."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from weft.data.tables import Table, numbers

__all__ = ["Sentinel", "far_from_others", "find_sentinels", "is_missing_code", "target_values", "without_missing"]

# What people write for "no value" in a column of numbers; either sign.
_CODES = np.array(
    [
        *(99.0, 999.0, 9999.0, 99999.0, 999999.0),
        *(99.9, 999.9, 9999.9, 99.99, 999.99, 9999.99),
        *(888.0, 8888.0, 7777.0, 32767.0, 32768.0, 1e20, 9.96921e36),
    ]
)
# Robust deviations from the middle of all values beyond which a value is not one of them.
_GROSS = 8.0
# 99.9 mm of rain may have fallen; a few times exactly, where nothing comes near, it has not.
_HIGH_CODE, _OFTEN = 888.0, 3


class Sentinel(NamedTuple):
    """A number that seems to mean "no value", and how many rows have it."""

    value: float
    num_rows: int


def is_missing_code(values: Float[np.ndarray, " row"]) -> Bool[np.ndarray, " row"]:
    return np.isin(np.abs(values), _CODES)


def far_from_others(values: Float[np.ndarray, " row"]) -> Bool[np.ndarray, " row"]:
    """Which values are so far from the middle of all that they are none of them, whatever they are."""
    middle = float(np.median(values))
    spread = 1.4826 * float(np.median(np.abs(values - middle)))
    return np.abs(values - middle) > _GROSS * max(spread, 1e-300)


def find_sentinels(values: Float[np.ndarray, " row"]) -> tuple[Sentinel, ...]:
    """Codes for a missing value in a column: far from all values that are no codes, and with none of these near.

    Prices have 9999 among 9990 and 10005, counts 99 among 80 and 120: a code stands alone, below or above the rest by more than
    the rest are spread.
    """
    present = values[~np.isnan(values)]
    coded = is_missing_code(present)
    others = present[~coded]
    if not coded.any() or len(others) < 3:
        return ()
    lowest, highest = float(others.min()), float(others.max())
    apart = max(highest - lowest, 1e-300)
    found = []
    for code, count in zip(*np.unique(present[coded], return_counts=True), strict=True):
        # A negative code among values that are never negative need not be far from them.
        below = code < 0 <= lowest or lowest - code > apart
        above = code - highest > apart and (code >= _HIGH_CODE or count >= _OFTEN)
        if below or above:
            found.append(Sentinel(float(code), int(count)))
    return tuple(found)


def target_values(table: Table, target: str, missing: Sequence[float]) -> Float[np.ndarray, " row"]:
    """The target's column, NaN where it holds none or a value that means so."""
    return without_missing(numbers(table.column(target), target), missing)


def without_missing(values: Float[np.ndarray, " row"], missing: Sequence[float]) -> Float[np.ndarray, " row"]:
    """NaN in the place of values that mean there is none."""
    return np.where(np.isin(values, missing), np.nan, values) if len(missing) else values
