# SPDX-License-Identifier: MIT
"""Pseudo-points for an estimator: how many and where, by its one setting."""

from typing import Any

import numpy as np
from jaxtyping import Float

from weft.arrays import require_whole
from weft.data.observations import Observations, Outline
from weft.data.places import distinct_places
from weft.estimator.budget import PASS_WORK, work_of
from weft.kernels import Alike, Averages, Kernel, Product, SumSeparable
from weft.kernels.base import Around
from weft.pseudo_points import place
from weft.state_space.basis import FeatureMap, num_weights

__all__ = ["EXACT_PLACES", "FEWEST_POINTS", "MOST_POINTS", "check_pseudo_points", "choose_pseudo_points"]

# Up to so many distinct places every one of them is a pseudo-point, which is exact, if a pass is then within its budget.
EXACT_PLACES = 150
# Else as many for each component as the budget allows, between these; time grows with their cube.
FEWEST_POINTS = 20
MOST_POINTS = 100

Points = Float[np.ndarray, "pseudo dim"] | tuple[Float[np.ndarray, "_ dim"], ...] | FeatureMap


def check_pseudo_points(setting: Any) -> None:
    """Raise unless the setting is one of those that `choose_pseudo_points` takes, as far as no data are needed for it."""
    if isinstance(setting, bool | float | np.floating) or (isinstance(setting, str) and setting != "auto"):
        raise ValueError(f"pseudo_points must be a count, 'auto', None or a matrix; it is {setting!r}")
    if isinstance(setting, int | np.integer):
        require_whole("pseudo_points", setting, 1)


def choose_pseudo_points(
    setting: Any, data: Observations | Outline, num_space: int, kernel: SumSeparable, *, seed: int
) -> Points | None:
    """Pseudo-points as a model takes them, or None for exact inference.

    `setting` is None (exact), a count (k-means, or greedily where places are of kinds or stand for areas), "auto" (exact up to
    150 distinct places, else up to 100 for each component of `kernel`, placed greedily; fewer where the series is so long that a
    pass would take minutes), or a matrix or a feature map in the coordinates of space. Columns of covariates do not matter but to
    slopes that vary in space, whose pseudo-points are where the covariate is 1.
    """
    check_pseudo_points(setting)
    if isinstance(setting, FeatureMap):
        return setting
    space = data.places[:, :num_space]
    distinct, _ = distinct_places(space)
    num_covariates = data.places.shape[1] - num_space
    is_auto = isinstance(setting, str)
    most = most_points(data, len(distinct), kernel) if is_auto else 0
    if setting is None or most == len(distinct):
        # With covariates a place is there many times over, and each time would be a pseudo-point of its own.
        return None if num_covariates == 0 else padded(distinct, num_covariates)
    if not is_auto and not isinstance(setting, int | np.integer):
        return padded(np.asarray(place(space, setting)), num_covariates)
    # Between two kinds of places there is no middle.
    has_kinds = any(isinstance(kernel_of, Alike | Averages) for kernel_of in _factors(kernel))
    if is_auto or has_kinds:
        has_slopes = num_covariates > 0 and any(isinstance(component.space, Product) for component in kernel.components)
        given = _at_one(data, num_space) if has_slopes and isinstance(data, Observations) else data
        return place(given, most if is_auto else int(setting), method="greedy", kernel=kernel, seed=seed)
    # Kilometres and deviations differ in size; each column counts alike.
    deviations = distinct.std(axis=0)
    scale = np.where(deviations > 0, deviations, 1.0)
    by_row = np.repeat(space / scale, data.rows_of_places, axis=0)
    return padded(place(by_row, int(setting), seed=seed) * scale, num_covariates)


def most_points(data: Observations | Outline, num_distinct: int, kernel: SumSeparable) -> int:
    """How many pseudo-points a component may have by the budget of a pass; all distinct places if they may be."""
    counts = np.asarray(data.layout.counts)
    latent = [component.time.state_space().size for component in kernel.components]
    width = data.places.shape[1]

    def is_within(points: int) -> bool:
        weights = [num_weights(component.space, width, points) for component in kernel.components]
        return work_of(list(zip(weights, latent, strict=True)), counts) <= PASS_WORK

    if num_distinct <= EXACT_PLACES and is_within(num_distinct):
        return num_distinct
    allowed = [points for points in range(FEWEST_POINTS, min(MOST_POINTS, num_distinct) + 1) if is_within(points)]
    return max(allowed, default=min(FEWEST_POINTS, num_distinct))


def padded(points: Float[np.ndarray, "pseudo space"], num_covariates: int) -> Float[np.ndarray, "pseudo dim"]:
    """Points with columns of ones for the covariates: of slopes that vary in space they say what they are per unit."""
    return np.pad(points, ((0, 0), (0, num_covariates)), constant_values=1.0)


def _factors(kernel: SumSeparable) -> list[Kernel]:
    """Kernels of space that the components are made of: factors of products, and what stands around others."""
    waiting: list[Kernel] = [part.space for part in kernel.components]
    found: list[Kernel] = []
    while waiting:
        each = waiting.pop()
        found.append(each)
        waiting += [each.first, each.second] if isinstance(each, Product) else []
        waiting += [each.kernel] if isinstance(each, Around) else []
    return found


def _at_one(data: Observations, num_space: int) -> Observations:
    """The same rows, every covariate 1."""
    places = np.array(data.row_places)
    places[:, num_space:] = 1.0
    return Observations(data.row_times, places, np.asarray(data.values))
