# SPDX-License-Identifier: MIT
"""Gradient boosting on neighbours' values, where LightGBM is installed: what a good analyst without a Gaussian process would do."""

import dataclasses
import importlib.util
from typing import Any, final

import numpy as np
from jaxtyping import Float, Int

from weft.baselines.by_time import cycles
from weft.baselines.record import ROWS_LEFT_OUT, Baseline, Forecast, Record, as_columns, positive, sd_by

__all__ = ["Boosting", "boosting_features", "fit_boosting", "has_boosting"]

_NEIGHBOURS = 8
_ROWS_TO_LEARN = 100_000
_ROUNDS = 300


def has_boosting() -> bool:
    return importlib.util.find_spec("lightgbm") is not None


@final
@dataclasses.dataclass(frozen=True)
class Boosting(Baseline):
    """Trees on values and distances of the nearest places at the time before, the time and the time after, on place and season."""

    record: Record
    periods: tuple[float, ...]
    trees: Any
    bin_edges: Float[np.ndarray, " edge"]
    bin_sd: Float[np.ndarray, " bin"]

    def predict(self, times: Float[np.ndarray, " row"], places: Float[np.ndarray, "row dim"]) -> Forecast:
        features = boosting_features(self.record, times, as_columns(places), self.periods, None)
        mean = np.asarray(self.trees.predict(features))
        return Forecast(mean, self.bin_sd[np.searchsorted(self.bin_edges, _nearest(features))])


def fit_boosting(record: Record, periods: tuple[float, ...], generator: np.random.Generator) -> Boosting:
    import lightgbm

    count = len(record.values)
    rows = np.sort(generator.choice(count, size=min(count, _ROWS_TO_LEARN), replace=False))
    times, places = record.row_times(rows), record.row_places(rows)
    features = boosting_features(record, times, places, periods, record.place[rows])
    # Every other row judges what the rest has learned; then all of them learn.
    options = {"objective": "regression_l1", "verbosity": -1, "seed": 0, "deterministic": True, "num_leaves": 63}
    half = generator.permutation(len(rows)) % 2 == 0
    values = record.values[rows]
    judged = lightgbm.train(options, lightgbm.Dataset(features[half], values[half]), _ROUNDS)
    residual = (values[~half] - judged.predict(features[~half]))[:ROWS_LEFT_OUT]
    trees = lightgbm.train(options, lightgbm.Dataset(features, values), _ROUNDS)
    edges, sd = sd_by(_nearest(features[~half])[:ROWS_LEFT_OUT], residual, record.values)
    return Boosting(record, periods, trees, edges, np.maximum(sd, positive(0.0, record.values)))


def _nearest(features: Float[np.ndarray, "row feature"]) -> Float[np.ndarray, " row"]:
    """The distance to the nearest place with a value at the time."""
    return np.nan_to_num(features[:, 0], nan=np.inf)


def boosting_features(
    record: Record,
    times: Float[np.ndarray, " row"],
    places: Float[np.ndarray, "row dim"],
    periods: tuple[float, ...],
    own: Int[np.ndarray, " row"] | None,
) -> Float[np.ndarray, "row feature"]:
    """NaN where nobody has a value; the places `own` are left out of their own neighbourhoods."""
    from scipy.spatial import cKDTree

    # As many for a place that is known as for one that is not: trees know their features by number.
    count = max(min(_NEIGHBOURS, len(record.places) - 1), 1)
    asked = min(count + 1, len(record.places))
    distance, near = cKDTree(record.places).query(places, k=np.arange(1, asked + 1))
    is_own = np.zeros(near.shape, dtype=bool) if own is None else near == own[:, None]
    order = np.argsort(is_own, axis=1, kind="stable")[:, :count]
    distance, near, is_own = (np.take_along_axis(array, order, axis=1) for array in (distance, near, is_own))
    distance = np.where(is_own, np.nan, distance)
    keys = record.time_of_row * len(record.places) + record.place
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    now = record.nearest_time(times)
    columns = [distance]
    for step in (0, -1, 1):
        at = np.clip(now + step, 0, len(record.times) - 1)
        wanted = at[:, None] * len(record.places) + near
        found = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        columns.append(np.where((keys[found] == wanted) & ~is_own, record.values[order[found]], np.nan))
    return np.concatenate([*columns, places, cycles(times, periods)], axis=1)
