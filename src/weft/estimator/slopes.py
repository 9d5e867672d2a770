# SPDX-License-Identifier: MIT
"""What a covariate is worth at each place: the slope that all share, and what it is there beyond that."""

import numpy as np
from jaxtyping import Float

from weft.data.tables import Table
from weft.estimator.fitted import Fitted

__all__ = ["slopes_at"]

# Places asked about at once: their covariance is a matrix.
_AT_ONCE = 100


def slopes_at(fitted: Fitted, table: Table) -> dict[str, Float[np.ndarray, " row"]]:
    """Slope and deviation of every covariate that is a number, at the places of a table."""
    translation = fitted.translation
    scales = translation.covariates.scales
    if not scales:
        raise ValueError("the model has no covariate that is a number, so there is no slope to tell")
    space = translation.scaling.forward({name: fitted.roles.read(table, name) for name in fitted.roles.space})
    found: dict[str, np.ndarray] = {}
    for column, (name, scale) in enumerate(scales.items(), translation.num_space):
        parts = [
            _slope(fitted, space[start : start + _AT_ONCE], column) for start in range(0, len(space), _AT_ONCE)
        ] or [(np.empty(0), np.empty(0))]
        unit = translation.target.scale / scale
        found[f"{name}_slope"] = np.concatenate([mean for mean, _ in parts]) * unit
        found[f"{name}_slope_sd"] = np.concatenate([sd for _, sd in parts]) * unit
    return found


def _slope(
    fitted: Fitted, space: Float[np.ndarray, "place space"], column: int
) -> tuple[Float[np.ndarray, " place"], Float[np.ndarray, " place"]]:
    """F where the covariate is one deviation less f where it is none, nothing else being different."""
    count = len(space)
    without = np.pad(space, ((0, 0), (0, fitted.translation.num_columns - space.shape[1])))
    with_one = without.copy()
    with_one[:, column] = 1.0
    places, times = np.concatenate([with_one, without]), np.full(2 * count, fitted.posterior.times[0])
    mean = np.asarray(fitted.posterior.marginals(times, places).mean)
    covariance = np.asarray(fitted.posterior.covariance(times, places))
    rows = np.arange(count)
    variance = covariance[rows, rows] + covariance[rows + count, rows + count] - 2 * covariance[rows, rows + count]
    return mean[:count] - mean[count:], np.sqrt(np.maximum(variance, 0.0))
