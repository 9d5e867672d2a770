# SPDX-License-Identifier: MIT
"""`weft.compare`: whether one model beats another on the same rows, beyond chance."""

from typing import Any

from weft.estimator.evaluation import compare_rows
from weft.estimator.space_time_gp import SpaceTimeGP

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
                raise ValueError("to compare estimators give a table to score them on: compare(a, b, table)")
            frames.append(each.score_rows(table))
        else:
            frames.append(each)
    return compare_rows(*frames)
