# SPDX-License-Identifier: MIT
"""Which rows are held out together: at random, by station, by block of space, or by stretch of time."""

import math
from collections.abc import Iterator

import numpy as np
from jaxtyping import Float, Int

from weft.data.tables import distinct_rows

__all__ = ["KINDS", "NEVER_HELD_OUT", "assign_folds", "splits"]

KINDS = ("station", "block", "time", "random")
NEVER_HELD_OUT = -1
# Several blocks a fold spread it over the map; but a block of one or two places is no neighbourhood.
_BLOCKS_PER_FOLD = 4
_PLACES_PER_BLOCK = 10


def assign_folds(
    by: str,
    times: Float[np.ndarray, " row"],
    places: Float[np.ndarray, "row dim"],
    *,
    num_folds: int = 5,
    held_out: float | None = None,
    seed: int = 0,
) -> Int[np.ndarray, " row"]:
    """The fold in which each row is held out, from 0; folds hold about equally many rows.

    "station" holds out whole places, "block" whole neighbourhoods, "random" rows. "time" cuts the distinct times into
    stretches of equal number: the first is never held out (-1) and each later one is predicted from what came before.
    `held_out` is the share of times to hold out in all, `num_folds / (num_folds + 1)` if not given.
    """
    if by not in KINDS:
        raise ValueError(f"by must be one of {', '.join(KINDS)}; it is {by!r}")
    if num_folds < 1 or (num_folds < 2 and by != "time"):
        raise ValueError(f"at least {1 if by == 'time' else 2} folds are needed by {by!r}; {num_folds} are asked for")
    if held_out is not None and (by != "time" or not 0 < held_out < 1):
        raise ValueError(f"held_out is a share between 0 and 1, and for by='time' only; it is {held_out} by {by!r}")
    generator = np.random.default_rng(seed)
    if by == "time":
        return _stretches(times, num_folds, num_folds / (num_folds + 1) if held_out is None else held_out)
    if by == "random":
        _check_enough(len(times), num_folds, "rows")
        return generator.permutation(np.arange(len(times)) % num_folds)
    kept, place = distinct_rows(list(places.T) if places.shape[1] else [np.zeros(len(times))])
    _check_enough(len(kept), num_folds, "distinct places")
    if by == "station":
        return _balanced(place, len(kept), num_folds, generator)
    num_blocks = min(max(len(kept) // _PLACES_PER_BLOCK, num_folds), _BLOCKS_PER_FOLD * num_folds)
    block = _blocks(places[kept], np.bincount(place), num_blocks)
    return _balanced(block[place], int(block.max()) + 1, num_folds, generator)


def splits(
    folds: Int[np.ndarray, " row"], by: str
) -> Iterator[tuple[Int[np.ndarray, " train"], Int[np.ndarray, " test"]]]:
    """Row numbers to train on and to test on, fold after fold; by "time", only what came before trains."""
    for fold in range(int(folds.max(initial=NEVER_HELD_OUT)) + 1):
        train = folds < fold if by == "time" else folds != fold
        yield np.flatnonzero(train), np.flatnonzero(folds == fold)


def _check_enough(count: int, num_folds: int, what: str) -> None:
    if count < num_folds:
        raise ValueError(f"{num_folds} folds need at least {num_folds} {what}; there are {count}")


def _stretches(times: Float[np.ndarray, " row"], num_folds: int, held_out: float) -> Int[np.ndarray, " row"]:
    distinct, rank = np.unique(times, return_inverse=True)
    _check_enough(len(distinct), num_folds + 1, "distinct times")
    # At least one time before the first stretch and one in each.
    before = math.floor(len(distinct) * (1 - held_out) + 1e-9)
    first = min(max(before, 1), len(distinct) - num_folds)
    edges = np.linspace(first, len(distinct), num_folds + 1).round().astype(np.int64)
    return np.searchsorted(edges, rank, side="right").astype(np.int64) - 1


def _balanced(
    group: Int[np.ndarray, " row"], num_groups: int, num_folds: int, generator: np.random.Generator
) -> Int[np.ndarray, " row"]:
    """Whole groups to folds: the largest first, each to the fold with fewest rows; ties by chance."""
    sizes = np.bincount(group, minlength=num_groups)
    order = generator.permutation(num_groups)
    order = order[np.argsort(-sizes[order], kind="stable")]
    filled = np.zeros(num_folds, dtype=np.int64)
    fold_of_group = np.empty(num_groups, dtype=np.int64)
    for number in order:
        emptiest = np.flatnonzero(filled == filled.min())
        fold_of_group[number] = generator.choice(emptiest)
        filled[fold_of_group[number]] += sizes[number]
    return fold_of_group[group]


def _blocks(
    places: Float[np.ndarray, "place dim"], num_rows: Int[np.ndarray, " place"], num_blocks: int
) -> Int[np.ndarray, " place"]:
    """A neighbourhood for each place: the one with most rows is halved across its longest side until they suffice."""
    blocks = [np.arange(len(places))]
    while len(blocks) < num_blocks:
        fullest = blocks.pop(int(np.argmax([num_rows[block].sum() if len(block) > 1 else -1 for block in blocks])))
        side = int(np.argmax(np.ptp(places[fullest], axis=0)))
        order = fullest[np.argsort(places[fullest, side], kind="stable")]
        so_far = np.cumsum(num_rows[order])
        cut = int(np.argmin(np.abs(so_far[:-1] - so_far[-1] / 2))) + 1
        blocks += [order[:cut], order[cut:]]
    block_of_place = np.empty(len(places), dtype=np.int64)
    for number, block in enumerate(blocks):
        block_of_place[block] = number
    return block_of_place
