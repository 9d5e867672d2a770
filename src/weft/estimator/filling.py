# SPDX-License-Identifier: MIT
"""Gaps of a table filled with what would have been measured there."""

import contextlib
import contextvars
import logging
from collections.abc import Iterator
from typing import Any

import numpy as np

from weft.data.tables import Table
from weft.estimator.answers import answer_columns
from weft.estimator.columns import read_measurements
from weft.estimator.fitted import Fitted

__all__ = ["fill", "unseen_said_once"]

logger = logging.getLogger("weft")

# How many values of each part so far the model has not seen, where parts are those of one table.
_unseen: contextvars.ContextVar[list[int] | None] = contextvars.ContextVar("weft_unseen", default=None)


def fill(fitted: Fitted, table: Table, of: str, prefix: str = "") -> Any:
    """The table with its gaps filled under the target's own name, then `sd` (0 where a value was there) and `filled`.

    `prefix` stands before the names of these two.
    """
    rows = read_measurements(table, fitted.roles, with_target=True)
    assert rows.values is not None
    is_gap = np.isnan(rows.values)
    gaps = np.flatnonzero(is_gap)
    values, sd = rows.values.copy(), np.zeros(rows.num_rows)
    if len(gaps):
        answers = answer_columns(fitted.prediction(rows.take(gaps)), (), of)
        values[gaps], sd[gaps] = answers["mean"], answers["sd"]
    if fitted.batches:
        _say_unseen(rows.num_rows - len(gaps) - fitted.num_repeated(rows))
    return table.with_replaced(fitted.roles.target, values, {f"{prefix}sd": sd, f"{prefix}filled": is_gap})


@contextlib.contextmanager
def unseen_said_once() -> Iterator[None]:
    """Within it, what parts of a table have that the model has not seen is said once of all of them, at the end."""
    counts: list[int] = []
    before = _unseen.set(counts)
    try:
        yield
    finally:
        _unseen.reset(before)
    _say_unseen(sum(counts))


def _say_unseen(num_unseen: int) -> None:
    if (counts := _unseen.get()) is not None:
        counts.append(num_unseen)
        return
    if num_unseen > 0:
        logger.info(
            "%s of the table's values are at times and places that the model has not seen, and tell it nothing of the "
            "gaps; update(table) first takes them in",
            f"{num_unseen:,}",
        )
