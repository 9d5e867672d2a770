# SPDX-License-Identifier: MIT
"""Small pieces of a table to learn from: each is modelled exactly, so that no pseudo-point stands between parameters and data.

The sum of the blocks' log evidence with shared parameters is a composite likelihood. Compact blocks, neighbourhoods, tell what varies
at short range; scattered ones, places far apart, what varies at long range; long ones, a few neighbours for as long as the same work
lasts, what stays for longer than a stretch; of rows there are some between, too. All are spread over space as the data are, and over
the series. Their number and size follow from a budget of work, not from the table, so a table ten times as wide takes no longer.
"""

import dataclasses
from collections.abc import Sequence
from enum import Enum

import numpy as np
from jaxtyping import Float, Int
from scipy.spatial import cKDTree

from weft.data.observations import Observations, places_repeat, take_rows
from weft.inference.cuts import cut
from weft.inference.exact_work import exact_work, regular
from weft.inference.nearness import learn_nearness
from weft.model import Model

__all__ = ["BLOCKS_WORK", "Block", "Kind", "choose_blocks", "through_the_series"]

# Work of one evaluation, all blocks together, in floating-point operations: about a second on a core.
BLOCKS_WORK = 8e9
# A block has at most so many places, and rows where places do not repeat.
MOST_PLACES = 36
MOST_ROWS = 192
# A long block has at most so many places, a third of the others': for the same work it lasts some 27 times as long.
LONG_PLACES = MOST_PLACES // 3
MOST_BLOCKS = 24
FEWEST_BLOCKS = 8
# Fewer times than this in a block tell little about time.
FEWEST_TIMES = 48
# Runs of neighbouring times that the times of a scattered block are made of: near ones tell what is fast, far ones what is slow.
RUNS = 4
# A compact block of rows is a small copy of the table, longer or briefer by these factors in turn.
ASPECTS = (1.0, 4.0, 0.25)


class Kind(Enum):
    """What a block is for."""

    WHOLE = "whole"
    COMPACT = "compact"
    BETWEEN = "between"
    SCATTERED = "scattered"
    LONG = "long"


# Kinds of the blocks of rows in turn, and of how many rows each is made: the share, on a logarithmic scale, of the way from its own size
# to the whole table. Of an image of 10^5 pixels neighbourhoods show a hundredth of its width, and nothing else what lies between.
WIDTHS = (
    (Kind.COMPACT, 0.0),
    (Kind.BETWEEN, 1 / 3),
    (Kind.SCATTERED, 1.0),
    (Kind.COMPACT, 0.0),
    (Kind.BETWEEN, 2 / 3),
    (Kind.SCATTERED, 1.0),
)


@dataclasses.dataclass(frozen=True)
class Block:
    """Rows of a table to be modelled exactly; `rows` are their numbers among those the table holds, in order of time."""

    kind: Kind
    rows: Int[np.ndarray, " row"]
    data: Observations


def choose_blocks(
    model: Model, data: Observations, *, work: float = BLOCKS_WORK, seed: int = 0, periods: Sequence[float] = ()
) -> tuple[Block, ...]:
    """Blocks of `data` whose exact evidence with its gradient takes about `work` operations in all; the same for the same seed.

    One block with everything where that is within `work`. Else, where places are seen again and again, a block is some places times a
    stretch of times (compact), several runs of times (scattered), or fewer places times a longer stretch (long); where they are not,
    it is a number of rows near each other in space and time, or far apart. `model` says by its length scales what is near; its basis
    does not matter. With `periods`, in steps between times, every other block that would be scattered has its runs whole and half
    periods apart, which tells of seasons.
    """
    rng = np.random.default_rng(seed)
    everything = np.arange(data.num_rows)
    if min(exact_work(model, len(data.places), data.grouping.layout)) <= work:
        return (Block(Kind.WHOLE, everything, data),)
    chosen = (
        _blocks_of_places(model, data, work, rng, periods)
        if places_repeat(data)
        else _blocks_of_rows(model, data, work, rng)
    )
    return tuple(Block(kind, rows, take_rows(data, rows)) for kind, rows in chosen)


def through_the_series(
    model: Model, data: Observations, *, count: int, num_places: int, num_rows: int, seed: int = 0
) -> tuple[Observations, ...]:
    """Up to `count` neighbourhoods of so many places, spread over the map, each with about `num_rows` rows of times spread over the
    whole series.

    A stretch shows a neighbourhood in one spell of weather, and which of two models serves its places better then is chance: four
    stretches of 18 days of German PM10 speak against a rough kernel, by 4 % of the CRPS, that takes 7 % off over the year. For
    places that come again and again.
    """
    rng = np.random.default_rng(seed)
    at_first = np.full(len(data.places), data.times[0])
    points = learn_nearness(model, at_first, data.places)(at_first, data.places)
    place_of_row, time_of_row = np.asarray(data.grouping.place_of_row), np.asarray(data.grouping.time_of_row)
    chosen = []
    for centre in _spread(points, count, rng):
        away = np.sum((points - points[centre]) ** 2, axis=1)
        inside = np.zeros(len(points), dtype=bool)
        inside[np.argsort(away, kind="stable")[:num_places]] = True
        rows = np.flatnonzero(inside[place_of_row])
        times = np.unique(time_of_row[rows])
        num_times = int(np.clip(num_rows * len(times) / len(rows), 1, len(times)))
        # One at random of each part of the series: evenly spaced ones would all be Sundays, or all at noon.
        ends = np.linspace(0, len(times), num_times + 1).astype(np.int64)
        inside_times = np.zeros(len(data.times), dtype=bool)
        inside_times[times[rng.integers(ends[:-1], ends[1:])]] = True
        chosen.append(take_rows(data, rows[inside_times[time_of_row[rows]]]))
    return tuple(chosen)


def _blocks_of_places(
    model: Model, data: Observations, work: float, rng: np.random.Generator, periods: Sequence[float]
) -> list[tuple[Kind, Int[np.ndarray, " row"]]]:
    """Some places times some times each, equally many of both in every block but the long ones, which take as much work."""
    at_first = np.full(len(data.places), data.times[0])
    points = learn_nearness(model, at_first, data.places)(at_first, data.places)
    num_places, num_times = len(data.places), len(data.times)
    size, few = min(MOST_PLACES, num_places), min(LONG_PLACES, num_places)
    filled = data.num_rows / (num_places * num_times)
    per_time, per_time_of_few = (_work_of_a_time(model, number, filled) for number in (size, few))
    count = int(np.clip(work / (FEWEST_TIMES * per_time), FEWEST_BLOCKS, MOST_BLOCKS))
    length = int(np.clip(work / (count * per_time), min(FEWEST_TIMES, num_times), num_times))
    long = int(np.clip(length * per_time / per_time_of_few, length, num_times))
    time_of_row, place_of_row = np.asarray(data.grouping.time_of_row), np.asarray(data.grouping.place_of_row)
    seen = np.zeros((count, num_places), dtype=bool)
    kinds = _kinds(count, with_long=long > 2 * length)
    stretches = _stretches(num_times, length, count, rng, periods)
    are_long = [number for number, kind in enumerate(kinds) if kind is Kind.LONG]
    for number, part in zip(are_long, rng.permutation(len(are_long)), strict=True):
        start = int((part + rng.uniform()) / len(are_long) * (num_times - long + 1))
        stretches[number] = np.arange(start, start + long)
    for number, stretch in enumerate(stretches):
        inside = np.zeros(num_times, dtype=bool)
        inside[stretch] = True
        seen[number, place_of_row[inside[time_of_row]]] = True
    centres = _spread(points, count, rng)
    chosen = []
    for number, stretch in enumerate(stretches):
        kind = kinds[number]
        # Places with nothing to say in this stretch come last, however near.
        if kind is not Kind.SCATTERED:
            away = np.sqrt(np.sum((points - points[centres[number % len(centres)]]) ** 2, axis=1))
            order = np.lexsort((away, ~seen[number]))
        else:
            far_apart = _spread(points[seen[number]], size, rng)
            order = np.concatenate([np.flatnonzero(seen[number])[far_apart], rng.permutation(num_places)])
            order = order[np.sort(np.unique(order, return_index=True)[1])]
        inside_places, inside_times = np.zeros(num_places, dtype=bool), np.zeros(num_times, dtype=bool)
        inside_places[order[: few if kind is Kind.LONG else size]], inside_times[stretch] = True, True
        chosen.append((kind, np.flatnonzero(inside_places[place_of_row] & inside_times[time_of_row])))
    # Blocks of one shape are computed together.
    chosen.sort(key=lambda block: block[0] is Kind.LONG)
    return [(kind, rows) for kind, rows in chosen if len(rows) > 0]


def _work_of_a_time(model: Model, size: int, filled: float) -> float:
    """Of a chain over so many places, of which this share has a row at a time."""
    return exact_work(model, size, regular(1, max(1, round(size * filled)))).by_chain


def _kinds(count: int, *, with_long: bool) -> list[Kind]:
    """Half are compact; the others scattered, or every second of them long. Counts of infections in Italian provinces, 181 days, showed
    the component that lasts for 276 days to long blocks alone, and it took 12 % off the CRPS.
    """
    odd = (Kind.LONG, Kind.SCATTERED) if with_long else (Kind.SCATTERED, Kind.SCATTERED)
    return [Kind.COMPACT if number % 2 == 0 else odd[number // 2 % 2] for number in range(count)]


def _stretches(
    num_times: int, length: int, count: int, rng: np.random.Generator, periods: Sequence[float]
) -> list[Int[np.ndarray, " time"]]:
    """Numbers of times, equally many each: of even entries one stretch, of odd ones several runs over the whole series.

    Starts are spread evenly, one at random within each part of the series, so that every season is seen.
    """
    chosen = []
    # Neighbouring blocks in this order would be neighbours in time; centres are in no such order.
    for number, part in enumerate(rng.permutation(count)):
        if number % 2 == 0 or length < 2 * RUNS:
            start = int((part + rng.uniform()) / count * (num_times - length + 1))
            chosen.append(np.arange(start, start + length))
            continue
        pieces = np.array_split(np.arange(length), RUNS)
        seasonal = periods[number // 4 % len(periods)] if periods and number % 4 == 3 else None
        if seasonal is not None and (runs := _a_period_apart(num_times, pieces, seasonal, rng)) is not None:
            chosen.append(runs)
            continue
        # Gaps of all sizes: where the runs go is uniform given that they do not overlap.
        gaps = np.sort(rng.integers(0, num_times - length + 1, size=RUNS))
        chosen.append(np.concatenate([piece + gap for piece, gap in zip(pieces, gaps, strict=True)]))
    return chosen


def _a_period_apart(
    num_times: int, pieces: Sequence[Int[np.ndarray, " _"]], period: float, rng: np.random.Generator
) -> Int[np.ndarray, " time"] | None:
    """Runs at half a period, one, and as many as there are from the first; None where they would meet or not fit."""
    run = len(pieces[0])
    most = int((num_times - run) // period)
    apart = np.array([0.0, 0.5, 1.0, float(most)]) * period
    if most < 2 or run > period / 2:
        return None
    start = rng.integers(0, num_times - run - int(apart[-1]) + 1)
    return np.concatenate(
        [start + round(far) + np.arange(len(piece)) for far, piece in zip(apart, pieces, strict=True)]
    )


def _blocks_of_rows(
    model: Model, data: Observations, work: float, rng: np.random.Generator
) -> list[tuple[Kind, Int[np.ndarray, " row"]]]:
    """Rows near each other in space and time, or far apart, equally many in every block."""
    count = min(MOST_BLOCKS, max(FEWEST_BLOCKS, data.num_rows // MOST_ROWS))
    size = min(data.num_rows, MOST_ROWS)
    while size > 16 and count * exact_work(model, size, regular(size, 1)).by_matrix > work:
        size -= 8
    # Nothing is known yet about how near in time compares with near in space: a block is a small copy of the whole. Columns in which
    # the kernel knows no nearness, such as one of kinds, do not matter.
    near_in_space = learn_nearness(model, data.row_times, data.row_places)(data.row_times, data.row_places)
    points = np.concatenate([near_in_space, data.row_times[:, None]], axis=1)
    spread = points.std(axis=0)
    points = (points / np.where(spread > 0, spread, 1.0)) * np.where(spread > 0, 1.0, 0.0)
    chosen = []
    for number, centre in enumerate(_spread(points, count, rng)):
        kind, width = WIDTHS[number % len(WIDTHS)]
        aspect = ASPECTS[number // 2 % len(ASPECTS)]
        shaped = points / np.append(np.ones(points.shape[1] - 1), aspect)
        # Of so many of the nearest some, spread over them.
        around = round(size * (len(points) / size) ** width)
        whole = np.arange(len(points))
        near = whole if around >= len(whole) else np.atleast_1d(cKDTree(shaped).query(shaped[centre], k=around)[1])
        chosen.append((kind, np.sort(near[_spread(shaped[near], size, rng)])))
    return chosen


def _spread(points: Float[np.ndarray, "point dim"], count: int, rng: np.random.Generator) -> Int[np.ndarray, " some"]:
    """`count` of the points (all if there are no more), as dense as they are and no two of one cell: one at random in each of so many."""
    if count >= len(points):
        return rng.permutation(len(points))
    cells = cut(points, count).cell_of(points)
    order = rng.permutation(len(points))
    _, first = np.unique(cells[order], return_index=True)
    return rng.permutation(order[first])
