# SPDX-License-Identifier: MIT
"""Putting batches of rows together."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from weft.arrays import AnyArray
from weft.data.layout import Layout
from weft.data.observations import ROW_EXTRAS, Observations
from weft.inference.queries import spread
from weft.state_space.chain import Rows


class Given(NamedTuple):
    """Of each row held: its number in what was given, batch after batch, and the variance that pseudo-points leave unexplained there."""

    row: Int[np.ndarray, " row"]
    unexplained: Float[np.ndarray, " row"]
    # How many rows all batches had, missing ones included.
    num_rows: int


def merge_given(
    old_times: Float[np.ndarray, " old"], old: Given, new_times: Float[np.ndarray, " new"], new: Given
) -> Given:
    """Both, in the order in which rows of both are held: by time, rows of one time batch after batch."""
    order = np.argsort(np.concatenate([old_times, new_times]), kind="stable")
    return Given(
        np.concatenate([old.row, old.num_rows + new.row])[order],
        np.concatenate([old.unexplained, new.unexplained])[order],
        old.num_rows + new.num_rows,
    )


Batch = tuple[Float[np.ndarray, " _"], Rows, Float[AnyArray, "_ bottleneck"]]


def merge_rows(
    old: Batch, new: Batch
) -> tuple[Float[np.ndarray, " time"], Rows, Float[np.ndarray, "place bottleneck"], int]:
    """Times, rows and weights of both batches, and the number of the first time that the new one touches."""
    (old_times, old_rows, old_weights), (new_times, new_rows, new_weights) = old, new
    times, position = np.unique(np.concatenate([old_times, new_times]), return_inverse=True)
    of_old, of_new = position[: len(old_times)], position[len(old_times) :]
    layouts = spread(old_rows.layout, of_old, len(times)), spread(new_rows.layout, of_new, len(times))
    time_of_row = np.concatenate([np.repeat(np.arange(len(times)), layout.counts) for layout in layouts])
    order = np.argsort(time_of_row, kind="stable")
    counts = layouts[0].counts + layouts[1].counts

    def both(first: AnyArray, second: AnyArray) -> np.ndarray:
        return np.concatenate([np.asarray(first), np.asarray(second)])[order]

    rows = Rows(
        layout=Layout(np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)])),
        place=both(old_rows.place, np.asarray(new_rows.place) + np.int32(len(old_weights))),
        value=both(old_rows.value, new_rows.value),
        precision=both(old_rows.precision, new_rows.precision),
    )
    return times, rows, np.concatenate([np.asarray(old_weights), np.asarray(new_weights)]), int(of_new.min())


def concatenate_observations(batches: tuple[Observations, ...]) -> Observations:
    """The rows present in all batches, one batch after the other, and every time of theirs."""
    # A time whose every row is missing has no row to carry it over, so it comes as one missing row.
    bare = [np.setdiff1d(batch.times, batch.row_times) for batch in batches]
    count = sum(len(times) for times in bare)
    places = np.concatenate([batch.row_places for batch in batches])

    def per_row(name: str, default: float) -> np.ndarray | None:
        given = [getattr(batch, name) for batch in batches]
        if all(numbers is None for numbers in given):
            return None
        filled = [
            np.full(batch.num_rows, default) if numbers is None else np.asarray(numbers)
            for batch, numbers in zip(batches, given, strict=True)
        ]
        return np.concatenate([*filled, np.ones(count)])

    return Observations(
        np.concatenate([*(batch.row_times for batch in batches), *bare]),
        np.concatenate([places, np.repeat(places[:1], count, axis=0)]),
        np.concatenate([*(np.asarray(batch.values) for batch in batches), np.full(count, np.nan)]),
        **{name: per_row(name, default) for name, default in ROW_EXTRAS.items()},
    )
