# SPDX-License-Identifier: MIT
"""Pseudo-points for an estimator: how many and where, by its one setting."""

from typing import Any

import numpy as np
from jaxtyping import Float

from weft.data.observations import Observations, distinct_rows
from weft.kernels import SumSeparable
from weft.pseudo_points import place

__all__ = ["EXACT_PLACES", "MOST_POINTS", "choose_pseudo_points"]

# Up to so many distinct places every one of them is a pseudo-point, which is exact.
EXACT_PLACES = 80
# Beyond, so many for each component; time grows with their cube.
MOST_POINTS = 50

Points = Float[np.ndarray, "pseudo dim"] | tuple[Float[np.ndarray, "_ dim"], ...]


def choose_pseudo_points(
    setting: Any, data: Observations, num_space: int, kernel: SumSeparable, *, seed: int
) -> Points | None:
    """Pseudo-points as a model takes them, or None for exact inference.

    `setting` is None (exact), a count (k-means), "auto" (exact up to 80 distinct places, else 50 for each component of
    `kernel`, placed greedily), or a matrix in the coordinates of space. Columns of covariates do not matter: no kernel
    that needs pseudo-points looks at them.
    """
    if isinstance(setting, str) and setting != "auto":
        raise ValueError(f"pseudo_points must be a count, 'auto', None or a matrix; it is {setting!r}")
    space = data.places[:, :num_space]
    distinct, _ = distinct_rows(space)
    num_covariates = data.places.shape[1] - num_space
    is_auto = isinstance(setting, str)
    if setting is None or (is_auto and len(distinct) <= EXACT_PLACES):
        # With covariates a place is there many times over, and each time would be a pseudo-point of its own.
        return None if num_covariates == 0 else padded(distinct, num_covariates)
    if is_auto:
        return place(data, MOST_POINTS, method="greedy", kernel=kernel, seed=seed)
    if isinstance(setting, bool) or not isinstance(setting, int | np.integer):
        return padded(np.asarray(place(space, setting)), num_covariates)
    # Kilometres and deviations differ in size; each column counts alike.
    deviations = distinct.std(axis=0)
    scale = np.where(deviations > 0, deviations, 1.0)
    of_row = np.asarray(data.grouping.place_of_row)
    return padded(place((space / scale)[of_row], int(setting), seed=seed) * scale, num_covariates)


def padded(points: Float[np.ndarray, "pseudo space"], num_covariates: int) -> Float[np.ndarray, "pseudo dim"]:
    """Points with columns of zeros for the covariates."""
    return np.pad(points, ((0, 0), (0, num_covariates)))
