# SPDX-License-Identifier: MIT
"""Numbers that mean there is no value: which ones people use, and which of them a column holds."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from weft.data.tables import Table, numbers

__all__ = [
    "Sentinel",
    "ValuesTally",
    "far_from_others",
    "find_sentinels",
    "is_missing_code",
    "join_tallies",
    "tally_values",
    "target_values",
    "without_missing",
]

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
    """Which values are so far from the middle of all that they are none of them, whatever they are.

    Where most are one value, no rain or no case, the others say how far apart values are: else each of these would be far.
    """
    apart = np.abs(values - float(np.median(values)))
    if not apart.any():
        return np.zeros(len(values), dtype=bool)
    spread = float(np.median(apart)) or float(np.median(apart[apart > 0]))
    return apart > _GROSS * max(1.4826 * spread, 1e-300)


class ValuesTally(NamedTuple):
    """What a column of numbers holds, of all rows or of some: those that are no codes, and how often each code is there."""

    num_plain: int
    lowest_plain: float
    highest_plain: float
    plain_are_counts: bool
    codes: dict[float, int]

    @property
    def num(self) -> int:
        """Rows that have a value."""
        return self.num_plain + sum(self.codes.values())

    @property
    def lowest(self) -> float:
        return min([self.lowest_plain, *self.codes]) if self.num else np.nan

    @property
    def highest(self) -> float:
        return max([self.highest_plain, *self.codes]) if self.num else np.nan

    @property
    def are_counts(self) -> bool:
        """Whether all are whole numbers from 0 on."""
        return self.num > 0 and self.plain_are_counts and _are_counts(np.array(list(self.codes)))


def tally_values(values: Float[np.ndarray, " row"]) -> ValuesTally:
    """The tally of a column, NaN where a row has no value."""
    present = values[~np.isnan(values)]
    coded = is_missing_code(present)
    plain, codes = present[~coded], np.unique(present[coded], return_counts=True)
    return ValuesTally(
        len(plain),
        float(np.min(plain, initial=np.inf)),
        float(np.max(plain, initial=-np.inf)),
        _are_counts(plain),
        {float(code): int(count) for code, count in zip(*codes, strict=True)},
    )


def join_tallies(parts: Sequence[ValuesTally]) -> ValuesTally:
    """Of all parts together."""
    codes: dict[float, int] = {}
    for part in parts:
        for code, count in part.codes.items():
            codes[code] = codes.get(code, 0) + count
    return ValuesTally(
        sum(part.num_plain for part in parts),
        min(part.lowest_plain for part in parts),
        max(part.highest_plain for part in parts),
        all(part.plain_are_counts for part in parts),
        dict(sorted(codes.items())),
    )


def _are_counts(present: Float[np.ndarray, " value"]) -> bool:
    return bool(np.all((present >= 0) & (present == np.rint(present))))


def find_sentinels(tally: ValuesTally) -> tuple[Sentinel, ...]:
    """Codes for a missing value in a column: far from all values that are no codes, and with none of these near.

    Prices have 9999 among 9990 and 10005, counts 99 among 80 and 120: a code stands alone, below or above the rest by more than
    the rest are spread.
    """
    if not tally.codes or tally.num_plain < 3:
        return ()
    lowest, highest = tally.lowest_plain, tally.highest_plain
    apart = max(highest - lowest, 1e-300)
    found = []
    for code, count in tally.codes.items():
        # A negative code among values that are never negative need not be far from them.
        below = code < 0 <= lowest or lowest - code > apart
        above = code - highest > apart and (code >= _HIGH_CODE or count >= _OFTEN)
        if below or above:
            found.append(Sentinel(code, count))
    return tuple(found)


def target_values(table: Table, target: str, missing: Sequence[float]) -> Float[np.ndarray, " row"]:
    """The target's column, NaN where it holds none or a value that means so."""
    return without_missing(numbers(table.column(target), target), missing)


def without_missing(values: Float[np.ndarray, " row"], missing: Sequence[float]) -> Float[np.ndarray, " row"]:
    """NaN in the place of values that mean there is none."""
    return np.where(np.isin(values, missing), np.nan, values) if len(missing) else values
