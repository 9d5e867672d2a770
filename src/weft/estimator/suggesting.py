# SPDX-License-Identifier: MIT
"""Where one more station would tell most."""

from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from weft.data.clock import Times
from weft.data.tables import as_table, distinct_rows
from weft.estimator.columns import Measurements
from weft.estimator.fitted import Fitted
from weft.estimator.gridding import read_times
from weft.inference.prediction import Marginals, Prediction
from weft.inference.regional import AGGREGATE_DRAWS

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["squared_sums", "suggest"]

# Their covariance is held as a matrix.
_MOST_PLACES = 5_000


def suggest(fitted: Fitted, at: Any, num: int, time: Any) -> "pd.DataFrame":
    """The `num` places of `at`, one after another, at which a measurement lowers the mean variance of f over all of them most.

    A measurement at j changes the covariance C by -C_j C_j' / (C_jj + noise), so what it takes off the mean variance is known before
    it is made, and does not depend on what it will say.
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
    covariance = np.array(fitted.posterior.covariance(times, places)) * translation.target.scale**2
    nothing = Marginals(np.zeros(len(kept)), np.zeros(len(kept)))
    emission = fitted.posterior.emission(times, places, translation.row_extras(rows))
    noise = Prediction(nothing, emission).variance * translation.target.scale**2
    num_draws = None if fitted.posterior.is_exact_over(times, places) else AGGREGATE_DRAWS
    chosen: list[int] = []
    before: list[float] = []
    after: list[float] = []
    for _ in range(num):
        gain = squared_sums(covariance, num_draws) / (np.diagonal(covariance) + noise)
        gain[chosen] = -np.inf
        best = int(np.argmax(gain))
        before.append(float(np.mean(np.diagonal(covariance))) if not after else after[-1])
        column = covariance[:, best]
        covariance = covariance - np.outer(column, column) / (column[best] + noise[best])
        chosen.append(best)
        after.append(before[-1] - float(gain[best]) / len(kept))
    found = {name: column[chosen] for name, column in columns.items()}
    return pd.DataFrame({**found, "mean_variance_before": before, "mean_variance_after": after})


def squared_sums(covariance: Float[np.ndarray, "place place"], num_draws: int | None) -> Float[np.ndarray, " place"]:
    """Sums over places of the squares of each one's covariances; of covariances drawn, less what drawing adds to them.

    A correlation r of n draws has variance (1 - r^2)^2 / n, and thousands of places that have nothing to do with each other would
    add that up.
    """
    squares = covariance**2
    if num_draws is None:
        return np.sum(squares, axis=0)
    variance = np.diagonal(covariance)
    products = np.maximum(np.outer(variance, variance), 1e-300)
    return np.sum(squares - products * np.maximum(1 - squares / products, 0.0) ** 2 / num_draws, axis=0)
