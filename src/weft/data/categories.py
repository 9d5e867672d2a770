# SPDX-License-Identifier: MIT
"""Columns of text, categories or yes and no: their levels, and the number of each row's."""

import dataclasses
from typing import TYPE_CHECKING, Any, final

import numpy as np
from jaxtyping import Float

from weft.data.tables import numbers

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "ANOTHER",
    "MISSING",
    "MOST_LEVELS",
    "Category",
    "Labels",
    "is_category",
    "is_kinds",
    "labels_of",
    "learn_category",
]

# A row without a level is of a level of its own; one whose level nobody has seen is of this.
MISSING = "(missing)"
ANOTHER = "(another)"
# Every level is a number that the model carries through time.
MOST_LEVELS = 200

# How other programs write what Python and pandas call False and True.
_YES_AND_NO = {
    text: level for level, texts in (("False", "0 false FALSE"), ("True", "1 true TRUE")) for text in texts.split()
}

Labels = np.ndarray  # of str


def is_category(column: "pd.Series", name: str) -> bool:
    """Whether a column says what kind a row is: it holds categories, yes and no, or text that is not numbers."""
    import pandas as pd

    if isinstance(column.dtype, pd.CategoricalDtype) or pd.api.types.is_bool_dtype(column.dtype):
        return True
    if pd.api.types.is_numeric_dtype(column.dtype) or pd.api.types.is_datetime64_any_dtype(column.dtype):
        return False
    kinds = {type(value) for value in column.dropna().unique()}
    if not kinds <= {str, bool, np.bool_, np.str_}:
        return False
    if kinds & {bool, np.bool_}:
        return True
    try:
        numbers(column, name)
    except ValueError:
        return True
    return False


def is_kinds(column: "pd.Series", name: str) -> bool:
    """Whether a column of space says what kind a place is; text that is numbers but for some rows is a number gone wrong there."""
    import pandas as pd

    if not is_category(column, name):
        return False
    levels = pd.Series(column.dropna().astype(str).unique())
    return bool(pd.to_numeric(levels, errors="coerce").isna().mean() > 0.5) if len(levels) else False


def labels_of(column: "pd.Series") -> Labels:
    """The level of each row as text, the same whatever the column's type: 1 is "1", and so is 1.0."""
    levels = column.astype(object)
    found = {value: _label(value) for value in levels.dropna().unique()}
    return np.array([MISSING if label is None else label for label in map(found.get, levels)], dtype=str)


def _label(value: Any) -> str:
    is_whole = isinstance(value, float | np.floating) and float(value).is_integer()
    return str(int(value)) if is_whole else str(value).strip() or MISSING


@final
@dataclasses.dataclass(frozen=True)
class Category:
    """A column's levels, numbered; any other has the number after the last, so that nothing is known of it."""

    name: str
    levels: tuple[str, ...]

    @property
    def component(self) -> str:
        """What the component of the kernel that holds its effects is called."""
        return f"levels of {self.name}"

    @property
    def num_levels(self) -> int:
        """How many numbers there are, that of levels not seen included."""
        return len(self.levels) + 1

    def numbers(self, labels: Labels) -> Float[np.ndarray, " row"]:
        known = {level: number for number, level in enumerate(self.levels)}
        if set(self.levels) <= {"False", "True", MISSING}:
            known |= {text: known[level] for text, level in _YES_AND_NO.items() if level in known}
        distinct, which = np.unique(labels, return_inverse=True)
        return np.array([known.get(str(label), len(self.levels)) for label in distinct], dtype=np.float64)[which]

    def labels(self, numbers: Float[np.ndarray, " row"]) -> Labels:
        return np.array([*self.levels, ANOTHER])[np.rint(numbers).astype(np.int64)]

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "levels": list(self.levels)}

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> "Category":
        made = cls(str(record["name"]), tuple(str(level) for level in record["levels"]))
        if not made.levels or len(set(made.levels)) < len(made.levels):
            raise ValueError(f"the levels of its category {made.name!r} are not distinct, or there are none")
        return made


def learn_category(labels: Labels, name: str) -> Category:
    """The levels of a column, refused where they are so many that none could be told from its place."""
    levels = tuple(str(level) for level in np.unique(labels))
    if len(levels) > MOST_LEVELS:
        raise ValueError(
            f"column {name!r} has {len(levels):,} levels, and {MOST_LEVELS} can be told apart at most; leave it out, or put "
            "its levels together into fewer"
        )
    return Category(name, levels)
