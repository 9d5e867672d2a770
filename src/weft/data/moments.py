# SPDX-License-Identifier: MIT
"""Mean and deviation of a column that is in parts: each part's, joined without the numbers themselves."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

__all__ = ["NO_MOMENTS", "MomentsOf", "join_moments", "moments_of"]


class MomentsOf(NamedTuple):
    """How many numbers, their mean, the sum of squares about it, the lowest and the highest."""

    num: int
    mean: float
    squares: float
    lowest: float
    highest: float

    @property
    def deviation(self) -> float:
        return float(np.sqrt(self.squares / max(self.num, 1)))


NO_MOMENTS = MomentsOf(0, 0.0, 0.0, np.inf, -np.inf)


def moments_of(numbers: Float[np.ndarray, " _"]) -> MomentsOf:
    if len(numbers) == 0:
        return NO_MOMENTS
    mean = float(np.mean(numbers))
    return MomentsOf(
        len(numbers), mean, float(np.sum((numbers - mean) ** 2)), float(numbers.min()), float(numbers.max())
    )


def join_moments(parts: Sequence[MomentsOf]) -> MomentsOf:
    """Of all parts together; about the common mean, so that a far one costs no digits (Chan, Golub & LeVeque 1983)."""
    count = sum(part.num for part in parts)
    if count == 0:
        return NO_MOMENTS
    mean = sum(part.num * part.mean for part in parts) / count
    squares = sum(part.squares + part.num * (part.mean - mean) ** 2 for part in parts)
    return MomentsOf(count, mean, squares, min(part.lowest for part in parts), max(part.highest for part in parts))
