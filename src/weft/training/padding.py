# SPDX-License-Identifier: MIT
"""Blocks of rows made alike in shape, so that one compilation serves all of them."""

from collections.abc import Sequence

import equinox as eqx
import numpy as np
from jaxtyping import Bool, Float, Int

from weft.arrays import AnyArray
from weft.data.layout import Layout
from weft.data.observations import ROW_EXTRAS, Observations
from weft.inference.prior import TimeGrid, time_grid
from weft.likelihoods import RowExtras

__all__ = ["PaddedBlock", "pad_blocks"]


class PaddedBlock(eqx.Module):
    """One block with as many times, places and rows as the largest of several; rows that are not `present` say nothing."""

    layout: Layout = eqx.field(static=True)
    grid: TimeGrid
    places: Float[AnyArray, "place dim"]
    time_of_row: Int[AnyArray, " row"]
    place_of_row: Int[AnyArray, " row"]
    values: Float[AnyArray, " row"]
    extra: RowExtras
    present: Bool[AnyArray, " row"]


def pad_blocks(blocks: Sequence[Observations], *, by_row: bool = False) -> tuple[PaddedBlock, ...]:
    """All blocks with one shape. A block with fewer places borrows some of another's, at which it has no rows.

    `by_row` gives each row a time of its own, rows of one time a step of length zero apart: where every time has another number of
    rows in every block, a shape with as many as the most at each would be several times as large.
    """
    num_times = max(len(block.times) for block in blocks)
    num_places = max(len(block.places) for block in blocks)
    if by_row:
        layout = Layout(np.arange(max(block.num_rows for block in blocks) + 1))
    else:
        counts = np.zeros((len(blocks), num_times), dtype=np.int64)
        for number, block in enumerate(blocks):
            counts[number, : len(block.times)] = block.grouping.layout.counts
        layout = Layout(np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts.max(axis=0))]))
    grids = [time_grid(block.row_times if by_row else block.times) for block in blocks]
    num_steps = max(len(grid.steps) for grid in grids)
    brought = [name for name in ROW_EXTRAS if any(getattr(block, name) is not None for block in blocks)]
    return tuple(
        _pad_block(block, grid, layout, num_steps, _fill_up(block.places, blocks, num_places), brought)
        for block, grid in zip(blocks, grids, strict=True)
    )


def _pad_block(
    block: Observations,
    grid: TimeGrid,
    layout: Layout,
    num_steps: int,
    places: Float[np.ndarray, "place dim"],
    brought: Sequence[str],
) -> PaddedBlock:
    grouping = block.grouping
    more_times = layout.num_times - len(grid.times)
    slot = np.arange(block.num_rows)
    if len(grid.times) == len(block.times):
        time_of_row = np.asarray(grouping.time_of_row)
        slot = layout.offsets[time_of_row] + slot - grouping.layout.offsets[time_of_row]

    def spread(numbers: AnyArray, filler: float | bool, dtype: type = np.float64) -> np.ndarray:
        whole: np.ndarray = np.full(layout.num_rows, filler, dtype=dtype)
        whole[slot] = np.asarray(numbers)
        return whole

    def own(name: str) -> np.ndarray:
        given = getattr(block, name)
        return np.full(block.num_rows, ROW_EXTRAS[name]) if given is None else given

    return PaddedBlock(
        layout=layout,
        grid=TimeGrid(
            # Times added at the end lie a step of length zero further.
            times=np.pad(grid.times, (0, more_times), mode="edge"),
            steps=np.pad(grid.steps, (0, num_steps - len(grid.steps))),
            step_number=np.pad(grid.step_number, (0, more_times)),
        ),
        places=places,
        time_of_row=np.repeat(np.arange(layout.num_times, dtype=np.int32), layout.counts),
        place_of_row=spread(grouping.place_of_row, 0.0, np.int32),
        values=spread(block.values, 0.0),
        extra=RowExtras(**{name: spread(own(name), 1.0) for name in brought}),
        present=spread(np.ones(block.num_rows, dtype=bool), False, bool),
    )


def _fill_up(
    places: Float[np.ndarray, "own dim"], blocks: Sequence[Observations], count: int
) -> Float[np.ndarray, "place dim"]:
    """The block's own places, then others' that are not among them."""
    for block in blocks:
        if len(places) == count:
            break
        own = {tuple(place) for place in places.tolist()}
        others = [place for place in block.places.tolist() if tuple(place) not in own]
        if others:
            places = np.concatenate([places, np.array(others[: count - len(places)])])
    assert len(places) == count
    return places
