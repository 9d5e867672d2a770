# SPDX-License-Identifier: MIT
"""Areas that rows are means over: the points each is made of."""

import dataclasses
from typing import Any, final

import numpy as np
from jaxtyping import Float, Int

from weft.data.categories import MISSING, Labels
from weft.data.schema import require_finite

__all__ = ["MOST_POINTS", "Areas", "Members", "make_areas"]

# Points of all areas together: their covariance is a matrix.
MOST_POINTS = 5_000


@final
@dataclasses.dataclass(frozen=True)
class Members:
    """Points by the columns of space, the area each belongs to, and how much it counts there."""

    area: Labels
    space: dict[str, np.ndarray]
    weight: Float[np.ndarray, " point"]


@final
@dataclasses.dataclass(frozen=True)
class Areas:
    """Areas by name in `column`, each some points in coordinates with weights that add up to 1; those with fewer repeat one at weight 0."""

    column: str
    names: tuple[str, ...]
    points: Float[np.ndarray, "area point dim"]
    weights: Float[np.ndarray, "area point"]

    @property
    def middles(self) -> Float[np.ndarray, "area dim"]:
        return np.einsum("ap,apd->ad", self.weights, self.points)

    def numbers(self, labels: Labels) -> Int[np.ndarray, " row"]:
        """The number of each row's area, -1 where it has none; one that nobody told of is refused."""
        known = {name: number for number, name in enumerate(self.names)} | {MISSING: -1}
        distinct, which = np.unique(labels, return_inverse=True)
        unknown = [str(label) for label in distinct if str(label) not in known]
        if unknown:
            raise ValueError(
                f"column {self.column!r} names the area {unknown[0]!r}, of which no point is known; there are {', '.join(self.names[:5])}"
                f"{', ...' if len(self.names) > 5 else ''}: give its points or polygon with areas="
            )
        return np.array([known[str(label)] for label in distinct], dtype=np.int64)[which]

    def labels(self, numbers: Float[np.ndarray, " row"]) -> Labels:
        return np.array([*self.names, MISSING])[np.rint(numbers).astype(np.int64)]

    def to_json(self) -> dict[str, Any]:
        return {
            "column": self.column,
            "names": list(self.names),
            "points": self.points.tolist(),
            "weights": self.weights.tolist(),
        }

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> "Areas":
        points, weights = (np.asarray(record[name], dtype=np.float64) for name in ("points", "weights"))
        made = cls(str(record["column"]), tuple(str(name) for name in record["names"]), points, weights)
        if points.ndim != 3 or weights.shape != points.shape[:2] or len(made.names) != len(points):
            raise ValueError("its areas have not as many names, points and weights")
        for name, values in (("points", points), ("weights", weights)):
            for value in values.ravel():
                require_finite(f"{name} of its areas", float(value))
        return made


def make_areas(members: Members, column: str, coordinates: Float[np.ndarray, "point dim"]) -> Areas:
    """The areas of points at these coordinates."""
    names, area = np.unique(members.area, return_inverse=True)
    size = int(np.bincount(area).max())
    if len(names) * size > MOST_POINTS:
        raise ValueError(
            f"{len(names):,} areas have up to {size:,} points each, and {MOST_POINTS:,} in all are the most there may be; thin them out"
        )
    points, weights = np.zeros((len(names), size, coordinates.shape[1])), np.zeros((len(names), size))
    for number, name in enumerate(names):
        own = np.flatnonzero(area == number)
        total = float(members.weight[own].sum())
        if not (np.all(members.weight[own] >= 0) and total > 0):
            raise ValueError(f"the weights of area {str(name)!r} must be positive, or 0 for some of them")
        points[number] = coordinates[own[0]]
        points[number, : len(own)] = coordinates[own]
        weights[number, : len(own)] = members.weight[own] / total
    return Areas(column, tuple(str(name) for name in names), points, weights)
