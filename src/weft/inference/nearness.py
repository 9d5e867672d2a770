# SPDX-License-Identifier: MIT
"""Where places and times lie for a model: coordinates in which the nearer two are, the more alike is the field there."""

import dataclasses

import numpy as np
from jaxtyping import Float, Int

from weft.model import Model

__all__ = ["Nearness", "learn_nearness", "num_coordinates"]

# A component with a smaller part of the variance says nothing about who is alike, however short its length scales are.
NEGLIGIBLE = 1e-4


@dataclasses.dataclass(frozen=True)
class Nearness:
    """Places, and times beside them if `with_times`, in length scales: each component's coordinates by the root of its share of variance.

    Columns that only repeat another in a different unit are joined with it: of all components' coordinates side by side, `column` says
    which are kept and `scale` by how much they are lengthened.
    """

    model: Model
    with_times: bool
    column: Int[np.ndarray, " coordinate"]
    scale: Float[np.ndarray, " coordinate"]

    def __call__(
        self, times: Float[np.ndarray, " point"], places: Float[np.ndarray, "point dim"]
    ) -> Float[np.ndarray, "point coordinate"]:
        return _side_by_side(self.model, self.with_times, times, places)[:, self.column] * self.scale


def learn_nearness(
    model: Model,
    times: Float[np.ndarray, " point"],
    places: Float[np.ndarray, "point dim"],
    *,
    with_times: bool = False,
) -> Nearness:
    """The nearness of these points, which says which columns repeat each other; no column where no kernel knows nearness (a graph's)."""
    whole = _side_by_side(model, with_times, times, places)
    centred = whole - whole.mean(axis=0)
    columns: list[int] = []
    squares: list[float] = []
    for number, column in enumerate(centred.T):
        for kept, first in enumerate(columns):
            other = centred[:, first]
            length = float(other @ other)
            ratio = float(column @ other) / length if length > 0 else 0.0
            if np.allclose(column, ratio * other, rtol=0.0, atol=1e-9 * np.abs(other).max()):
                # (a x)^2 + (b x)^2 is the square of one longer coordinate.
                squares[kept] += ratio**2
                break
        else:
            columns.append(number)
            squares.append(1.0)
    return Nearness(model, with_times, np.array(columns, dtype=np.int64), np.sqrt(np.array(squares)))


def num_coordinates(model: Model, with_times: bool, num_columns: int) -> int:
    """How many coordinates all components have side by side, for places of so many columns."""
    return _side_by_side(model, with_times, np.zeros(1), np.zeros((1, num_columns))).shape[1]


def _side_by_side(
    model: Model, with_times: bool, times: Float[np.ndarray, " point"], places: Float[np.ndarray, "point dim"]
) -> Float[np.ndarray, "point coordinate"]:
    parts = [part for part in model.kernel.components if part.space.coordinates(places[:1]).shape[1] > 0]
    total = sum(float(part.variance) for part in parts)
    parts = [part for part in parts if float(part.variance) >= NEGLIGIBLE * total]
    blocks = [np.empty((len(places), 0))]
    for part in parts:
        root = np.sqrt(float(part.variance) / total)
        blocks.append(root * np.asarray(part.space.coordinates(places)))
        if with_times:
            blocks.append(root * np.asarray(part.time.coordinates(times[:, None])))
    return np.concatenate(blocks, axis=1)
