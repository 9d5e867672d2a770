# SPDX-License-Identifier: MIT
"""Columns where nobody measured them: from the nearest places on the map."""

import numpy as np
from jaxtyping import Float

__all__ = ["from_neighbours"]

_NEIGHBOURS = 8


def from_neighbours(
    known_at: Float[np.ndarray, "known 2"],
    known: Float[np.ndarray, " known"],
    wanted_at: Float[np.ndarray, "wanted 2"],
    num_neighbours: int = _NEIGHBOURS,
) -> Float[np.ndarray, " wanted"]:
    """Means of the nearest numbers, weighted by 1 / distance^2; with one neighbour its own."""
    from scipy.spatial import cKDTree

    count = min(num_neighbours, len(known))
    distance, number = cKDTree(known_at).query(wanted_at, k=list(range(1, count + 1)))
    nearest = distance[:, :1]
    # Relative to the nearest, so that a number measured right there does not divide by zero.
    ratio = np.where(distance > 0, nearest / np.where(distance > 0, distance, 1.0), 1.0)
    weights = ratio**2
    return np.sum(weights * known[number], axis=1) / weights.sum(axis=1)
