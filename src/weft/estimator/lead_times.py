# SPDX-License-Identifier: MIT
"""Forecasts judged by how far ahead they look: from several origins, each row after one predicted from what came before it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int

from weft.data.clock import UNIT_SECONDS, Clock, step_in_words
from weft.estimator.defaults import median_step
from weft.estimator.evaluation import summaries_of
from weft.scores import tidy_table

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["LEAD", "origins", "scores_by_lead", "splits_ahead", "with_leads"]

# How a line of scores says which leads it is of, in the column of folds.
LEAD = "up to"


def origins(times: Float[np.ndarray, " row"], horizon: float, count: int) -> Float[np.ndarray, " origin"]:
    """The last times known to each of `count` forecasts; the last has the whole horizon after it, and all have half the series before."""
    distinct = np.unique(times)
    last = distinct[-1] - horizon
    first = max(distinct[0] + (distinct[-1] - distinct[0]) / 2, last - count * horizon)
    usable = distinct[distinct <= last]
    if len(usable) < 2 or first > last:
        first = last
    if len(usable) < 2:
        raise ValueError(
            f"the horizon is {horizon:g} and the series {distinct[-1] - distinct[0]:g} long (in units of time); give a shorter horizon"
        )
    wanted = np.linspace(first, last, count)
    return np.unique(usable[np.maximum(np.searchsorted(usable, wanted, side="right") - 1, 1)])


def splits_ahead(
    times: Float[np.ndarray, " row"], horizon: float, count: int
) -> Iterator[tuple[Int[np.ndarray, " train"], Int[np.ndarray, " test"]]]:
    """Rows up to an origin, and those after it within the horizon."""
    for origin in origins(times, horizon, count):
        ahead = (times > origin) & (times <= origin + horizon * (1 + 1e-12))
        yield np.flatnonzero(times <= origin), np.flatnonzero(ahead)


def with_leads(frame: "pd.DataFrame", clock: Clock) -> "pd.DataFrame":
    """Scored rows with a `lead` told in words too: up to one step ahead, then two, four, eight and so on, each beyond the last."""
    leads = frame["lead"].to_numpy()
    step = median_step(np.unique(frame["time"].to_numpy()))
    doublings = np.ceil(np.log2(np.maximum(leads / step, 1.0)) - 1e-9).astype(np.int64)
    words = {number: _in_words(step * 2.0**number, clock) for number in np.unique(doublings).tolist()}
    return frame.assign(within=[words[number] for number in doublings.tolist()])


def scores_by_lead(frame: "pd.DataFrame", target_sd: float, by: str) -> "pd.DataFrame":
    """Tidy scores of scored rows by lead time, the nearest first; none where they have none."""
    import pandas as pd

    if "within" not in frame:
        return pd.DataFrame()
    parts = [
        tidy_table(summaries_of(own, target_sd), by=by, fold=f"{LEAD} {words}")
        for words, own in frame.sort_values("lead", kind="stable").groupby("within", sort=False)
    ]
    return pd.concat(parts, ignore_index=True)


def _in_words(lead: float, clock: Clock) -> str:
    if clock.unit in UNIT_SECONDS:
        return step_in_words(lead * UNIT_SECONDS[clock.unit])
    return f"{lead:g} {clock.unit}"
