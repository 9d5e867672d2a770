# SPDX-License-Identifier: MIT
"""A small problem to learn from: both of its components matter, so that its optimum is well determined."""

import numpy as np

import weft
from tests.oracles import dense


def two_components(seed: int = 1) -> tuple[weft.Model, weft.Observations]:
    """Rows drawn from a slow smooth component plus a fast rough one, at irregular times, some rows missing."""
    rng = np.random.default_rng(seed)
    times = np.repeat(np.cumsum(rng.uniform(0.1, 1.5, 18)), rng.integers(1, 12, 18))
    stations = rng.uniform(0, 3, (11, 2))
    places = stations[rng.integers(0, 11, len(times))]
    noise = rng.uniform(0.0, 0.2, len(times))
    clock = times[:, None]
    covariance = 1.5 * dense.eq(places, places, np.array([1.5, 1.1])) * dense.matern32(clock, clock, 8.0)
    covariance += 0.8 * dense.matern32(places, places, 1.0) * dense.matern12(clock, clock, 0.8)
    values = np.linalg.cholesky(covariance + np.diag(noise + 0.1)) @ rng.normal(size=len(times))
    values[rng.random(len(times)) < 0.1] = np.nan
    kernel = 0.7 * weft.Separable(space=weft.EQ([0.9, 1.4]), time=weft.Matern32(3.0)) + 0.5 * weft.Separable(
        space=weft.Matern32(0.6), time=weft.Matern12(1.0)
    )
    model = weft.Model(kernel, weft.Gaussian(0.3), (stations[:5] + 0.1, stations[4:11] - 0.05))
    return model, weft.Observations(times, places, values, noise)
