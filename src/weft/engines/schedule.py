# SPDX-License-Identifier: MIT
"""Ragged rows cut into equal slots, for engines that need fixed shapes.

A time with many rows becomes several slots: the first takes the chain's step, the others a step of length zero. Padding is bounded by
one slot a time, however uneven the series.
"""

import functools

import numpy as np

from weft.data.layout import Layout


class Schedule:
    """Slots in order of time: which rows and which queries each holds (-1 pads), and whether it begins a new time.

    At one time the slots with rows come first, so that a filtered answer has seen all of them.
    """

    def __init__(self, time: np.ndarray, begins: np.ndarray, rows: np.ndarray, queries: np.ndarray):
        self.time = time
        self.begins = begins
        self.rows = rows
        self.queries = queries

    @property
    def num_slots(self) -> int:
        return len(self.time)

    @property
    def query_slots(self) -> np.ndarray:
        """Position, in the flattened slots, of every query in order."""
        flat = self.queries.reshape(-1)
        return np.flatnonzero(flat >= 0)[np.argsort(flat[flat >= 0], kind="stable")]


def slot_width(layout: Layout, num_bottleneck: int) -> int:
    """Wide enough for most times at once, no wider than where the cost of a slot leaves that of the state behind."""
    return int(max(1, min(layout.counts.max(initial=0), max(num_bottleneck, 16))))


def slots_for(layout: Layout, num_bottleneck: int) -> tuple[int, int]:
    """How many slots rows of this layout take, one a time at least, and how wide they are."""
    width = slot_width(layout, num_bottleneck)
    return int(np.maximum(-(-layout.counts // width), 1).sum()), width


@functools.lru_cache(maxsize=64)
def make_schedule(rows: Layout, queries: Layout | None, num_bottleneck: int, segment: bool) -> Schedule:
    """Slots for the rows, and for the queries where there are any; with `segment`, padded to a square-ish number of slots."""
    num_times = rows.num_times
    row_width = slot_width(rows, num_bottleneck)
    query_width = 1 if queries is None else slot_width(queries, num_bottleneck)
    row_slots = -(-rows.counts // row_width)
    query_slots = np.zeros(num_times, dtype=np.int64) if queries is None else -(-queries.counts // query_width)
    slots = np.maximum(row_slots + query_slots, 1)

    time = np.repeat(np.arange(num_times), slots)
    starts = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(slots)[:-1]])
    number = np.arange(len(time)) - starts[time]
    schedule_rows = fill(rows, time, number, row_width)
    schedule_queries = (
        np.full((len(time), 1), -1) if queries is None else fill(queries, time, number - row_slots[time], query_width)
    )
    begins = number == 0
    if segment:
        length = segment_length(len(time))
        padding = -len(time) % length
        time = np.pad(time, (0, padding), mode="edge")
        begins = np.pad(begins, (0, padding))
        schedule_rows = np.pad(schedule_rows, ((0, padding), (0, 0)), constant_values=-1)
        schedule_queries = np.pad(schedule_queries, ((0, padding), (0, 0)), constant_values=-1)
    return Schedule(time, begins, schedule_rows, schedule_queries)


def segment_length(num_slots: int) -> int:
    return int(np.ceil(np.sqrt(num_slots)))


def fill(layout: Layout, time: np.ndarray, slot: np.ndarray, width: int) -> np.ndarray:
    """Row numbers of slot number `slot` of each time, -1 where there are none."""
    first = layout.offsets[time] + slot * width
    numbers = first[:, None] + np.arange(width)
    return np.where((slot[:, None] >= 0) & (numbers < layout.offsets[time + 1][:, None]), numbers, -1)
