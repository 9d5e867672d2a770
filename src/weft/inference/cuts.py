# SPDX-License-Identifier: MIT
"""Balanced cuts of many points into cells, the points around a cell, and smooth weights that pass from cell to cell.

Points are places (or rows, where no place is seen twice) in coordinates in which near means alike. Cells are boxes that tile all of
space, so that every point there is or will be asked about lies in exactly one.
"""

import dataclasses
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.spatial import cKDTree

__all__ = ["Cuts", "Shares", "cut", "surroundings"]

# How fast a cell's word loses weight further from the cell's points than it reaches, and how many times as far all cells count alike.
_STEEPNESS = 8
_FURTHEST = 1e3


class Shares(NamedTuple):
    """Which cells have a say at which points, with which weight; the weights of a point sum to one."""

    point: Int[np.ndarray, " share"]
    cell: Int[np.ndarray, " share"]
    weight: Float[np.ndarray, " share"]


@dataclasses.dataclass(frozen=True)
class Cuts:
    """Boxes lower <= x < upper, endless where nothing lies beyond. `column` and `value` are the cuts, `below` and `above` what lies on
    either side of each: another cut, or the cell -1 - c. From `least` to `most` are the points that each cell was made of.
    """

    column: Int[np.ndarray, " cut"]
    value: Float[np.ndarray, " cut"]
    below: Int[np.ndarray, " cut"]
    above: Int[np.ndarray, " cut"]
    lower: Float[np.ndarray, "cell dim"]
    upper: Float[np.ndarray, "cell dim"]
    least: Float[np.ndarray, "cell dim"]
    most: Float[np.ndarray, "cell dim"]

    @property
    def num_cells(self) -> int:
        return len(self.lower)

    def check(self) -> None:
        """Raise unless cuts are a tree, each after the one that leads to it, and its leaves the cells: a descent might never end."""
        children = np.concatenate([self.below, self.above])
        parents = np.tile(np.arange(len(self.column)), 2)
        expected = np.delete(np.arange(-self.num_cells, len(self.column)), self.num_cells)
        if not (
            len(self.column) == self.num_cells - 1
            and np.array_equal(np.sort(children), expected)
            and np.all((children < 0) | (children > parents))
        ):
            raise ValueError("its cuts do not lead to each region once")

    def cell_of(self, points: Float[np.ndarray, "point dim"]) -> Int[np.ndarray, " point"]:
        """The one cell each point lies in."""
        found = np.empty(len(points), dtype=np.int64)
        for cell, inside in self._descend(points, 0.0):
            found[inside] = cell
        return found

    def shares(self, points: Float[np.ndarray, "point dim"], reach: Float[np.ndarray, " cell"]) -> Shares:
        """A partition of unity: a cell's weight falls smoothly from its border to nothing `reach` away; all are scaled to sum to one.

        A border may lie far from the points of the cell, at sea between islands, and near those of another: further from its points than
        it reaches a cell's word counts for little, but for something, since it may be that nobody knows more.
        """
        widest = float(np.max(reach, initial=0.0))
        owners, cells, heights = [], [], []
        for cell, near in self._descend(points, widest):
            far = max(reach[cell], np.finfo(float).tiny)
            left = 1.0 - self.distance(points[near], cell) / far
            kept = left > 0
            owners.append(near[kept])
            cells.append(np.full(np.count_nonzero(kept), cell))
            away = distance_to_box(points[near[kept]], self.least[cell], self.most[cell])
            heights.append(smooth_step(left[kept]) * _trust(np.minimum(away, _FURTHEST * far) / far))
        owner, cell_number, height = (np.concatenate(parts) for parts in (owners, cells, heights))
        total = np.bincount(owner, weights=height, minlength=len(points))
        order = np.lexsort((cell_number, owner))
        return Shares(owner[order], cell_number[order], (height / total[owner])[order])

    def distance(self, points: Float[np.ndarray, "point dim"], cell: int) -> Float[np.ndarray, " point"]:
        return distance_to_box(points, self.lower[cell], self.upper[cell])

    def _descend(
        self, points: Float[np.ndarray, "point dim"], margin: float
    ) -> Iterator[tuple[int, Int[np.ndarray, " near"]]]:
        """Each cell with the points that lie in it, or within `margin` of it along each column."""
        waiting = [(0 if len(self.column) else -1, np.arange(len(points)))]
        while waiting:
            node, inside = waiting.pop()
            if node < 0:
                yield -1 - node, inside
                continue
            position = points[inside, self.column[node]]
            waiting.append((int(self.above[node]), inside[position >= self.value[node] - margin]))
            # With no margin a point on the cut lies above it, and above it only.
            is_below = position < self.value[node] + margin
            waiting.append((int(self.below[node]), inside[is_below]))


def _trust(away: Float[np.ndarray, " _"]) -> Float[np.ndarray, " _"]:
    """From 1 at 0 to a half at 1 and nearly nothing beyond, but never to nothing: weights are divided by their sum."""
    return 1.0 / (1.0 + away**_STEEPNESS)


def smooth_step(height: Float[np.ndarray, " _"]) -> Float[np.ndarray, " _"]:
    """From 0 at 0 to 1 at 1, level at both ends."""
    return height**2 * (3.0 - 2.0 * height)


def distance_to_box(
    points: Float[np.ndarray, "point dim"], lower: Float[np.ndarray, " dim"], upper: Float[np.ndarray, " dim"]
) -> Float[np.ndarray, " point"]:
    return np.sqrt(np.sum(np.maximum(np.maximum(lower - points, points - upper), 0.0) ** 2, axis=1))


def cut(points: Float[np.ndarray, "point dim"], num_cells: int) -> Cuts:
    """Cells with nearly equally many points each, cut across the widest column first: O(points log(points) log(cells)).

    There are fewer where points that coincide in every column cannot be parted.
    """
    width = points.shape[1]
    column: list[int] = []
    value: list[float] = []
    below: list[int] = []
    above: list[int] = []
    lower: list[np.ndarray] = []
    upper: list[np.ndarray] = []
    inner: list[tuple[np.ndarray, np.ndarray]] = []
    # Each entry: its points, how many cells they are to make, its box, and where to note what it became.
    waiting: list[tuple[np.ndarray, int, np.ndarray, np.ndarray, tuple[int, list[int]] | None]]
    waiting = [(np.arange(len(points)), num_cells, np.full(width, -np.inf), np.full(width, np.inf), None)]
    while waiting:
        mine, count, least, most, origin = waiting.pop()
        split = _best_split(points[mine], count) if count > 1 else None
        if split is None:
            number = -1 - len(lower)
            lower.append(least)
            upper.append(most)
            inner.append((points[mine].min(axis=0), points[mine].max(axis=0)))
        else:
            number = len(column)
            column.append(split.column)
            value.append(split.value)
            below.append(0)
            above.append(0)
            inner_most, inner_least = most.copy(), least.copy()
            inner_most[split.column] = inner_least[split.column] = split.value
            is_below = points[mine, split.column] < split.value
            waiting.append((mine[~is_below], count - split.cells_below, inner_least, most, (number, above)))
            waiting.append((mine[is_below], split.cells_below, least, inner_most, (number, below)))
        if origin is not None:
            origin[1][origin[0]] = number
    return Cuts(
        np.array(column, dtype=np.int64),
        np.array(value, dtype=np.float64),
        np.array(below, dtype=np.int64),
        np.array(above, dtype=np.int64),
        np.array(lower),
        np.array(upper),
        np.array([least for least, _ in inner]),
        np.array([most for _, most in inner]),
    )


class _Split(NamedTuple):
    column: int
    value: float
    cells_below: int


def _best_split(points: Float[np.ndarray, "point dim"], count: int) -> _Split | None:
    """Where to part these points for `count` cells: between two distinct values, nearest to the rank that balances them."""
    if len(points) < 2:
        return None
    cells_below = count // 2
    wanted = round(len(points) * cells_below / count)
    column = int(np.argmax(np.ptp(points, axis=0)))
    position = points[:, column]
    middle = np.partition(position, wanted)[wanted]
    beyond = position[position > middle]
    # A value belongs above its cut, so points equal to it stay together.
    ranks = {
        int(np.count_nonzero(position < middle)): middle,
        len(points) - len(beyond): np.min(beyond, initial=np.inf),
    }
    parting = [rank for rank in ranks if 0 < rank < len(points)]
    if not parting:
        return None
    rank = min(parting, key=lambda rank: abs(rank - wanted))
    return _Split(column, float(ranks[rank]), cells_below)


def surroundings(
    points: Float[np.ndarray, "point dim"],
    core: Int[np.ndarray, " core"],
    *,
    least: int,
    most: int,
    depth: float,
    tree: cKDTree,
) -> tuple[Int[np.ndarray, " around"], float]:
    """Points nearest to the core, whose numbers are in order, but not of it, and how deep they reach.

    As many as lie within `depth` of the core's bounding box, but at least `least` and at most `most` (fewer where there are no more).
    """
    lower, upper = points[core].min(axis=0), points[core].max(axis=0)
    middle, half = (lower + upper) / 2, float(np.linalg.norm(upper - lower)) / 2
    wanted = min(most, len(points) - len(core))
    if wanted <= 0:
        return np.empty(0, dtype=np.int64), 0.0
    # A ball around both has corners beside them: about half as many again, where points are evenly dense.
    count = 3 * (len(core) + wanted) // 2
    while True:
        count = min(count, len(points))
        radii, near = tree.query(middle, k=count)
        near = np.sort(near)
        others = near[core[np.minimum(np.searchsorted(core, near), len(core) - 1)] != near]
        away = distance_to_box(points[others], lower, upper)
        # Beyond the ball there may be points as near to the box as some inside it.
        if count == len(points) or np.count_nonzero(away < radii[-1] - half) >= wanted:
            break
        count *= 2
    order = np.argsort(away, kind="stable")
    kept = max(min(least, wanted), min(int(np.count_nonzero(away <= depth)), wanted))
    chosen = order[:kept]
    return others[chosen], float(away[chosen[-1]])
