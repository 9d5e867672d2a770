# SPDX-License-Identifier: MIT
"""`weft.compare`: whether one model beats another on the same rows, beyond chance."""

from typing import Any

from weft.data.tables import as_table
from weft.estimator.evaluation import compare_rows
from weft.space_time_gp import SpaceTimeGP

__all__ = ["compare"]


def compare(a: Any, b: Any, table: Any = None) -> Any:
    """Mean scores of `a` and `b` on the same rows, their difference and its standard error: a pandas frame.

    Each is a fitted estimator, scored on `table`, or a frame of scored rows (`score_rows`, or `cross_validate` with
    output="rows"). All scores are losses: a negative difference says that `a` is better, and a `ratio` (difference by
    standard error) beyond about 2 in size that it is hardly chance. Standard errors let rows of one time, and of one
    place, err together.
    """
    frames = []
    for each in (a, b):
        if isinstance(each, SpaceTimeGP):
            if table is None:
                raise ValueError(
                    "to compare fitted models give a table to score them on, of rows that neither has seen"
                )
            frames.append(each.score_rows(table))
        else:
            frames.append(_scored_rows(each))
    return compare_rows(*frames)


def _scored_rows(given: Any) -> Any:
    """A frame of scored rows of any kind as one of pandas, as it is read back from a file."""
    import pandas as pd

    try:
        table = as_table(given)
    except TypeError:
        raise TypeError(
            f"compare takes fitted estimators and frames of scored rows; it was given a {type(given).__name__}"
        ) from None
    return pd.DataFrame({name: table.column(name) for name in table.names})
