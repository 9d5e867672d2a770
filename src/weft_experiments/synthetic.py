# SPDX-License-Identifier: MIT
"""The paper's synthetic data: ten random places at each time, or a grid of fifty with five missing.

Where the paper's text and its authors' scripts disagree there is a variant for each:

    scripts   Matern-5/2 in time; slices of 500 times drawn independently (arbitrary places); grid times 50 apart, so that the
              slices are independent too, and pseudo-points on twice the extent of the data
    text      Matern-3/2 in time; one joint draw; grid times 0.2 apart and pseudo-points on the data's extent, as in its pictures
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from weft.data.observations import Observations
from weft.kernels import EQ, Matern32, Matern52, Separable, SumSeparable

__all__ = [
    "KERNELS",
    "LAYOUTS",
    "VARIANTS",
    "Component",
    "Problem",
    "Variant",
    "make_kernel",
    "make_problem",
    "pseudo_points",
]

LAYOUTS = ("arbitrary", "grid")
KERNELS = ("separable", "sum-separable")

ARBITRARY_ROWS, ARBITRARY_EXTENT, ARBITRARY_DURATION = 10, 10.0, 50.0
GRID_PLACES, GRID_MISSING, GRID_EXTENT = 50, 5, 5.0

# Places of the features a draw is made of: EQ of a length near 1 on [0, 10] is theirs to some 1e-12 of its variance.
NUM_FEATURE_PLACES = 80
SMALLEST_EIGENVALUE = 1e-14
ROWS_AT_ONCE = 100_000


@dataclass(frozen=True)
class Component:
    """variance * EQ(place) * Matern(time)."""

    variance: float
    place_lengthscale: float
    time_lengthscale: float


@dataclass(frozen=True)
class Variant:
    """One reading of the experiment; `smoothness` is 3 or 5 halves."""

    components: tuple[Component, Component]
    smoothness: int
    grid_step: float
    grid_pseudo_extent: float
    slice_times: int | None


def _components(place: float, time: float) -> tuple[Component, Component]:
    """The first component, and the second by the scripts' factors on amplitude and inverse length scales."""
    amplitude = 0.92
    return (
        Component(amplitude**2, place, time),
        Component((1.1 * amplitude) ** 2, place / 0.3, time / 1.05),
    )


VARIANTS = {
    "scripts": Variant(_components(1 / 1.1, 1 / 0.83), 5, 50.0, 10.0, 500),
    "text": Variant(_components(0.9, 1.2), 3, 0.2, GRID_EXTENT, None),
}


@dataclass(frozen=True)
class Problem:
    """Rows at `times` and `places`, with their values and noise variances; missing rows are not there."""

    times: Float[np.ndarray, " row"]
    places: Float[np.ndarray, "row 1"]
    values: Float[np.ndarray, " row"]
    noise_variance: Float[np.ndarray, " row"]

    @property
    def num_rows(self) -> int:
        return len(self.times)

    def observations(self) -> Observations:
        return Observations(self.times, self.places, self.values, noise_variance=self.noise_variance)


def components_of(variant: Variant, kernel: str) -> tuple[Component, ...]:
    return variant.components[: 1 + KERNELS.index(kernel)]


def make_kernel(variant: Variant, kernel: str) -> Separable | SumSeparable:
    time_kernel = {3: Matern32, 5: Matern52}[variant.smoothness]
    parts = [
        Separable(space=EQ(part.place_lengthscale), time=time_kernel(part.time_lengthscale), variance=part.variance)
        for part in components_of(variant, kernel)
    ]
    return parts[0] if len(parts) == 1 else SumSeparable(parts)


def pseudo_points(variant: Variant, layout: str, number: int) -> Float[np.ndarray, "pseudo 1"]:
    extent = ARBITRARY_EXTENT if layout == "arbitrary" else variant.grid_pseudo_extent
    return np.linspace(0.0, extent, number)[:, None]


def make_problem(
    variant: Variant, kernel: str, layout: str, num_times: int, seed: int, *, step: float | None = None
) -> Problem:
    """Rows of that many times; the same seed gives the same inputs to every kernel. `step` sets the times evenly apart."""
    rng = np.random.default_rng([seed, num_times])
    times: np.ndarray
    if layout == "arbitrary":
        times = np.sort(rng.uniform(size=num_times)) * ARBITRARY_DURATION
        time_of_row = np.repeat(np.arange(num_times), ARBITRARY_ROWS)
        places = rng.uniform(0, ARBITRARY_EXTENT, size=(len(time_of_row), 1))
        slice_times = variant.slice_times
    else:
        times = np.arange(num_times) * variant.grid_step
        present = np.argsort(rng.random((num_times, GRID_PLACES)), axis=1)[:, GRID_MISSING:]
        time_of_row = np.repeat(np.arange(num_times), GRID_PLACES - GRID_MISSING)
        places = np.linspace(0, GRID_EXTENT, GRID_PLACES)[np.sort(present, axis=1).ravel(), None]
        slice_times = None
    if step is not None:
        times = np.arange(num_times) * step
    noise_variance = rng.uniform(size=len(time_of_row)) + 0.1
    values = rng.normal(scale=np.sqrt(noise_variance))
    for component in make_kernel(variant, kernel).components:
        for first in range(0, num_times, slice_times or num_times):
            last = min(first + (slice_times or num_times), num_times)
            rows = slice(*np.searchsorted(time_of_row, [first, last]))
            values[rows] += draw(component, times[first:last], time_of_row[rows] - first, places[rows], rng)
    return Problem(times[time_of_row], places, values, noise_variance)


def draw(
    component: Separable,
    times: Float[np.ndarray, " time"],
    time_of_row: Int[np.ndarray, " row"],
    places: Float[np.ndarray, "row 1"],
    rng: np.random.Generator,
) -> Float[np.ndarray, " row"]:
    """A draw of the prior, in time and memory linear in the rows.

    Features of place (eigenvectors over many places) each follow the time kernel's own chain, independently.
    """
    features = PlaceFeatures.of(component)
    process = draw_time_processes(component, times, features.number, rng)
    values = np.empty(len(places))
    for first in range(0, len(places), ROWS_AT_ONCE):
        rows = slice(first, first + ROWS_AT_ONCE)
        values[rows] = np.einsum("rk,rk->r", features.at(places[rows]), process[time_of_row[rows]])
    return values


@dataclass(frozen=True)
class PlaceFeatures:
    """Few numbers a place whose products are the component's covariance over places, its variance included."""

    component: Separable
    places: Float[np.ndarray, "feature_place 1"]
    projection: Float[np.ndarray, "feature_place feature"]

    @classmethod
    def of(cls, component: Separable) -> "PlaceFeatures":
        places = np.linspace(0, ARBITRARY_EXTENT, NUM_FEATURE_PLACES)[:, None]
        eigenvalues, vectors = np.linalg.eigh(np.asarray(component.space.covariance(places, places)))
        kept = eigenvalues > SMALLEST_EIGENVALUE * eigenvalues[-1]
        projection = np.sqrt(float(component.variance)) * vectors[:, kept] / np.sqrt(eigenvalues[kept])
        return cls(component, places, projection)

    @property
    def number(self) -> int:
        return self.projection.shape[1]

    def at(self, places: Float[np.ndarray, "row 1"]) -> Float[np.ndarray, "row feature"]:
        return np.asarray(self.component.space.covariance(places, self.places)) @ self.projection


def draw_time_processes(
    component: Separable, times: Float[np.ndarray, " time"], number: int, rng: np.random.Generator
) -> Float[np.ndarray, "time process"]:
    """So many independent draws of the component's time process."""
    form = component.time.state_space()
    steps, which = np.unique(np.diff(times), return_inverse=True)
    transition = np.asarray(jax.vmap(form.transition)(jnp.asarray(steps)))
    noise_factor = scaled_cholesky(np.asarray(jax.vmap(form.process_noise)(jnp.asarray(steps))))
    state = scaled_cholesky(np.asarray(form.covariance(jnp.asarray(times[0]))))
    state = state @ rng.normal(size=(state.shape[-1], number))
    readout = np.asarray(form.readout)
    process = np.empty((len(times), number))
    process[0] = readout @ state
    for time, step in enumerate(which, start=1):
        state = transition[step] @ state + noise_factor[step] @ rng.normal(size=state.shape)
        process[time] = readout @ state
    return process


def scaled_cholesky(covariance: Float[np.ndarray, "*batch d d"]) -> Float[np.ndarray, "*batch d d"]:
    """Cholesky factors of matrices whose diagonals span many powers of ten, as process noise of short steps does."""
    scale = np.sqrt(np.diagonal(covariance, axis1=-2, axis2=-1))
    correlation = covariance / (scale[..., :, None] * scale[..., None, :])
    return scale[..., :, None] * np.linalg.cholesky(correlation + 1e-13 * np.eye(covariance.shape[-1]))
