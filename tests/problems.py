# SPDX-License-Identifier: MIT
"""Small problems given twice: as a weft model with data, and as a dense problem for the oracles.

Each is a function of a flat vector of parameters, so that gradients can be compared too.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

import weft
from tests.oracles import dense


@dataclass
class Twin:
    """A problem in both worlds; `parameters` is where both are evaluated."""

    parameters: np.ndarray
    build_model: Callable[[Any], weft.Model]
    build_dense: Callable[[np.ndarray], dense.Problem]
    times: np.ndarray
    places: np.ndarray
    values: np.ndarray
    noise: np.ndarray

    @property
    def model(self) -> weft.Model:
        return self.build_model(jnp.asarray(self.parameters))

    @property
    def dense(self) -> dense.Problem:
        return self.build_dense(self.parameters)

    @property
    def data(self) -> weft.Observations:
        return weft.Observations(self.times, self.places, self.values, noise_variance=self.noise)


def ragged_rows(seed: int = 0):
    """Irregular times with 0 to 12 rows each, repeated places, a duplicate row, a day all missing, noise that differs by row."""
    rng = np.random.default_rng(seed)
    distinct = np.array([0.3, 0.35, 1.1, 1.9, 2.0, 4.2, 4.9])
    counts = [3, 1, 12, 2, 5, 0, 4]
    times = np.repeat(distinct, counts)
    stations = rng.uniform(0, 3, size=(9, 2))
    places = np.where(
        rng.random(len(times))[:, None] < 0.6,
        stations[rng.integers(0, 9, len(times))],
        rng.uniform(0, 3, (len(times), 2)),
    )
    places[1], times[1] = places[0], times[0]
    values = rng.normal(size=len(times)) + 0.5 * times
    values[5] = np.nan
    values[times == 2.0] = np.nan
    noise = rng.uniform(0.05, 0.4, len(times))
    order = rng.permutation(len(times))
    return times[order], places[order], values[order], noise[order]


PSEUDO_FIRST = np.array([[0.4, 0.5], [1.4, 2.1], [2.6, 0.7], [2.2, 2.7]])
PSEUDO_SECOND = np.array([[0.2, 2.4], [1.6, 1.1], [2.8, 1.9]])

# Time kernels by name: how weft makes one from two numbers, and its plain covariance.
TIME_KERNELS = {
    "matern12": (lambda a, b: b * weft.Matern12(a), lambda a, b: lambda t, s: b * dense.matern12(t, s, a)),
    "matern32": (lambda a, b: b * weft.Matern32(a), lambda a, b: lambda t, s: b * dense.matern32(t, s, a)),
    "matern52": (lambda a, b: b * weft.Matern52(a), lambda a, b: lambda t, s: b * dense.matern52(t, s, a)),
    "matern72": (lambda a, b: b * weft.Matern72(a), lambda a, b: lambda t, s: b * dense.matern72(t, s, a)),
    "sum": (
        lambda a, b: weft.Matern12(a) + b * weft.Matern32(2 * a),
        lambda a, b: lambda t, s: dense.matern12(t, s, a) + b * dense.matern32(t, s, 2 * a),
    ),
    "damped cosine": (
        lambda a, b: b * (weft.Matern32(a) * weft.Cosine(1.7 * a)),
        lambda a, b: lambda t, s: b * dense.matern32(t, s, a) * dense.cosine(t, s, 1.7 * a),
    ),
    "offset": (
        lambda a, b: weft.Matern52(a) + weft.Constant(b),
        lambda a, b: lambda t, s: dense.matern52(t, s, a) + b * dense.constant(t, s),
    ),
    "wiener": (
        lambda a, b: weft.Matern32(a) + weft.Wiener(b),
        lambda a, b: lambda t, s: dense.matern32(t, s, a) + b * dense.wiener(t, s),
    ),
}

LENGTHSCALES = np.array([0.9, 1.4])


def sum_separable(first: str = "matern52", second: str = "matern12", *, exact: bool = False, seed: int = 0) -> Twin:
    """Two components with everything unequal: kernels, pseudo-points, variances, length scales."""
    times, places, values, noise = ragged_rows(seed)
    sizes = [1, 2, 2, 1, 1, 2, 1, PSEUDO_FIRST.size, PSEUDO_SECOND.size]
    start = np.concatenate(
        [[0.7], [0.9, 1.4], [1.3, 0.8], [0.4], [1.1], [0.45, 1.6], [0.06], PSEUDO_FIRST.ravel(), PSEUDO_SECOND.ravel()]
    )

    def split(parameters):
        return [parameters[i : i + n] for i, n in zip(np.cumsum([0, *sizes[:-1]]), sizes, strict=True)]

    def build_model(parameters):
        v1, l1, t1, v2, l2, t2, noise_variance, z1, z2 = split(parameters)
        kernel = v1[0] * weft.Separable(space=weft.EQ(l1), time=TIME_KERNELS[first][0](t1[0], t1[1])) + v2[
            0
        ] * weft.Separable(space=weft.Matern32(l2[0]), time=TIME_KERNELS[second][0](t2[0], t2[1]))
        points = None if exact else (z1.reshape(-1, 2), z2.reshape(-1, 2))
        return weft.Model(kernel, weft.Gaussian(noise_variance[0]), points)

    def build_dense(parameters):
        v1, l1, t1, v2, l2, t2, noise_variance, z1, z2 = split(parameters)
        components = [
            dense.Component(
                v1[0],
                lambda x, y: dense.eq(x, y, l1),
                TIME_KERNELS[first][1](t1[0], t1[1]),
                None if exact else z1.reshape(-1, 2),
            ),
            dense.Component(
                v2[0],
                lambda x, y: dense.matern32(x, y, l2[0]),
                TIME_KERNELS[second][1](t2[0], t2[1]),
                None if exact else z2.reshape(-1, 2),
            ),
        ]
        return dense.Problem(components, noise_variance[0] + noise, times, places, values)

    return Twin(start, build_model, build_dense, times, places, values, noise)
