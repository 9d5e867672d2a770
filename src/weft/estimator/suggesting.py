# SPDX-License-Identifier: MIT
"""Where one more station would tell most."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from weft.data.clock import Times
from weft.data.tables import as_table, distinct_rows
from weft.estimator.columns import Measurements
from weft.estimator.fitted import Fitted
from weft.estimator.gridding import read_times
from weft.inference.posterior import JointPart
from weft.inference.prediction import Marginals, Prediction

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["suggest"]

# Their covariance is held as a matrix, and what is left of variances for so many of them at once.
_MOST_PLACES, _AT_ONCE = 5_000, 256


def suggest(fitted: Fitted, at: Any, num: int, time: Any) -> "pd.DataFrame":
    """The `num` places of `at`, one after another, at which a measurement lowers the mean variance of f over all of them most.

    A measurement at j changes the covariance C by -C_j C_j' / (C_jj + noise), so what it takes off the mean variance is known before
    it is made, and does not depend on what it will say. Of a model of regions that is so in each that would see it, and their deviations
    are blended as they are in an answer.
    """
    import pandas as pd

    roles, clock, translation = fitted.roles, fitted.translation.clock, fitted.translation
    wanted = (*roles.space, *roles.covariates)
    table = as_table(at, wanted)
    columns = {name: roles.read(table, name) for name in wanted}
    kept = np.sort(distinct_rows(list(columns.values()))[0])
    columns = {name: column[kept] for name, column in columns.items()}
    if len(kept) > _MOST_PLACES:
        raise ValueError(f"{len(kept):,} places are too many to choose from; give at most {_MOST_PLACES:,}")
    if num > len(kept):
        raise ValueError(f"num is {num}, and there are {len(kept)} places to choose from")
    when = fitted.times[-1:] if time is None else read_times(clock, time, roles.time)[:1]
    times = np.full(len(kept), when[0])
    rows = Measurements(
        time=Times(clock.restore(times)),
        space={name: columns[name] for name in roles.space},
        covariates={name: columns[name] for name in roles.covariates if name not in roles.categories},
        categories={name: columns[name] for name in roles.categories},
        values=None,
        extras={},
    )
    places = translation.places(rows)
    nothing = Marginals(np.zeros(len(kept)), np.zeros(len(kept)))
    emission = fitted.posterior.emission(times, places, translation.row_extras(rows))
    noise = Prediction(nothing, emission).variance
    parts = list(fitted.posterior.joint_parts(times, places))
    unit = translation.target.scale**2
    chosen: list[int] = []
    before: list[float] = [_mean_variance(parts, len(kept)) * unit]
    after: list[float] = []
    for _ in range(num):
        left = _mean_variances_after(parts, noise)
        left[chosen] = np.inf
        best = int(np.argmin(left))
        parts = [_measured(part, best, noise[best]) for part in parts]
        chosen.append(best)
        after.append(float(left[best]) * unit)
    before += after[:-1]
    found = {name: column[chosen] for name, column in columns.items()}
    return pd.DataFrame({**found, "mean_variance_before": before, "mean_variance_after": after})


def _mean_variance(parts: Sequence[JointPart], num: int) -> float:
    deviation = np.zeros(num)
    for part in parts:
        deviation[part.rows] += part.weight * np.sqrt(np.maximum(np.diagonal(part.covariance), 0.0))
    return float(np.mean(deviation**2))


def _mean_variances_after(
    parts: Sequence[JointPart], noise: Float[np.ndarray, " place"]
) -> Float[np.ndarray, " place"]:
    """The mean variance over all places once each of them is measured."""
    num = len(noise)
    found = np.empty(num)
    for start in range(0, num, _AT_ONCE):
        measured = np.arange(start, min(start + _AT_ONCE, num))
        deviation = np.zeros((len(measured), num))
        for part in parts:
            variance = np.diagonal(part.covariance)
            left = np.tile(variance, (len(measured), 1))
            own = np.flatnonzero(part.sees & (part.rows >= start) & (part.rows <= measured[-1]))
            column = part.covariance[own]
            left[part.rows[own] - start] -= column**2 / (variance[own] + noise[part.rows[own]])[:, None]
            deviation[:, part.rows] += part.weight * np.sqrt(np.maximum(left, 0.0))
        found[measured] = np.mean(deviation**2, axis=1)
    return found


def _measured(part: JointPart, place: int, noise: float) -> JointPart:
    """The part once `place` is measured, if it sees that."""
    own = np.flatnonzero(part.sees & (part.rows == place))
    if len(own) == 0:
        return part
    column = part.covariance[:, own[0]]
    return part._replace(covariance=part.covariance - np.outer(column, column) / (column[own[0]] + noise))
