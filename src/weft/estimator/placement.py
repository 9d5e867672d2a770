# SPDX-License-Identifier: MIT
"""Pseudo-points for an estimator: how many and where, by its one setting."""

from typing import Any

import numpy as np
from jaxtyping import Float

from weft.data.observations import Observations, distinct_rows
from weft.pseudo_points import place

__all__ = ["EXACT_PLACES", "MOST_POINTS", "choose_pseudo_points"]

# Up to so many distinct places every one of them is a pseudo-point, which is exact.
EXACT_PLACES = 80
# Beyond, so many at most for each component; time grows with their cube.
MOST_POINTS = 50


def choose_pseudo_points(
    setting: Any, data: Observations, num_space: int, *, seed: int
) -> Float[np.ndarray, "pseudo dim"] | None:
    """Pseudo-points as a model takes them, or None for exact inference.

    `setting` is None (exact), a count (k-means), "auto" (exact up to 80 distinct places, else 50 by k-means), or a
    matrix in the coordinates of space. With covariates the columns beyond space are zero: no kernel that
    needs pseudo-points looks at them.
    """
    space = data.places[:, :num_space]
    distinct, _ = distinct_rows(space)
    covariates = data.places.shape[1] - num_space
    if setting is None or (isinstance(setting, str) and setting == "auto" and len(distinct) <= EXACT_PLACES):
        # With covariates a place is there many times over, and each time would be a pseudo-point of its own.
        return None if covariates == 0 else padded(distinct, covariates)
    if isinstance(setting, str) and setting != "auto":
        raise ValueError(f"pseudo_points must be a count, 'auto', None or a matrix; it is {setting!r}")
    if isinstance(setting, bool) or not isinstance(setting, int | np.integer | str):
        given = np.asarray(place(space, setting))
        return padded(given, covariates)
    count = MOST_POINTS if isinstance(setting, str) else int(setting)
    # Kilometres and deviations differ in size; each column counts alike.
    deviations = distinct.std(axis=0)
    scale = np.where(deviations > 0, deviations, 1.0)
    rows = np.asarray(data.grouping.place_of_row)
    points = place((space / scale)[rows], count, seed=seed) * scale
    return padded(points, covariates)


def padded(points: Float[np.ndarray, "pseudo space"], covariates: int) -> Float[np.ndarray, "pseudo dim"]:
    return np.pad(points, ((0, 0), (0, covariates)))
