# SPDX-License-Identifier: MIT
"""A model's prior at given times and places, whitened: a chain, weights, and what the weights leave unexplained."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from weft.arrays import AnyArray
from weft.data.observations import Observations
from weft.kernels.separable import Separable
from weft.model import Model
from weft.state_space.chain import Chain, ComponentChain
from weft.state_space.features import Basis, Features, features_at_pseudo_points, make_bases, make_features

PLACES_AT_ONCE = 1 << 14


class TimeGrid(eqx.Module):
    """Sorted times by their distinct steps; number 0 is always the step of length zero that leads to the first time."""

    times: Float[AnyArray, " time"]
    steps: Float[AnyArray, " step"]
    step_number: Int[AnyArray, " time"]


def time_grid(times: Float[np.ndarray, " time"]) -> TimeGrid:
    """The grid of sorted, distinct `times`; a regular series has one step however long it is."""
    steps, number = np.unique(np.concatenate([np.zeros(1), np.diff(times)]), return_inverse=True)
    return TimeGrid(times=times, steps=steps, step_number=number.astype(np.int32))


class Prior(eqx.Module):
    """What inference needs of a model at its data: the chain, the weights of each place, the unexplained variance of each row."""

    chain: Chain
    weights: Float[AnyArray, "place bottleneck"]
    unexplained: Float[Array, " row"]


def make_prior(model: Model, data: Observations) -> Prior:
    check_places(model, data.places)
    check_times(model, data.times)
    grouping = data.grouping
    return prior_at(
        model, time_grid(data.times), data.places, np.asarray(grouping.time_of_row), np.asarray(grouping.place_of_row)
    )


@eqx.filter_jit
def prior_at(
    model: Model,
    grid: TimeGrid,
    places: Float[AnyArray, "place dim"],
    time_of_row: Int[AnyArray, " row"],
    place_of_row: Int[AnyArray, " row"],
) -> Prior:
    components = model.components
    bases = make_bases(components, model.pseudo_points_of(places))
    if model.pseudo_points is None:
        features = features_at_pseudo_points(components, bases, places)
        unexplained = jnp.zeros(place_of_row.shape[0])
    else:
        features = make_features(components, bases, places)
        unexplained = unexplained_variance(components, features, grid.times, time_of_row, place_of_row)
    return Prior(make_chain(components, num_pseudo(components, bases, places), grid), features.weights, unexplained)


def unexplained_variance(
    components: tuple[Separable, ...],
    features: Features,
    times: Float[AnyArray, " time"],
    time_of_row: Int[AnyArray, " row"],
    place_of_row: Int[AnyArray, " row"],
) -> Float[Array, " row"]:
    """k_time(t, t) times the unexplained spatial variance of each row, summed over components."""
    by_time = jnp.stack([time_variances(component, times) for component in components], axis=1)
    return jnp.sum(by_time[time_of_row] * features.unexplained[place_of_row], axis=1)


def num_pseudo(components: tuple[Separable, ...], bases: tuple[Basis, ...], places: AnyArray) -> tuple[int, ...]:
    sizes = []
    for component, basis in zip(components, bases, strict=True):
        if basis.factor is not None:
            sizes.append(basis.factor.shape[0])
        else:
            explicit = component.space.features(places[:1])
            assert explicit is not None
            sizes.append(explicit.shape[1])
    return tuple(sizes)


def chain_at(model: Model, num_pseudo: tuple[int, ...], times: Float[np.ndarray, " time"]) -> Chain:
    """The chain at any sorted, distinct `times`; compiled once for many lengths, by padding the distinct steps."""
    grid = time_grid(times)
    padded = np.pad(grid.steps, (0, next_power_of_two(len(grid.steps)) - len(grid.steps)))
    chain = _chain_at(
        model, num_pseudo, TimeGrid(times=times[:1], steps=padded, step_number=np.zeros(1, dtype=np.int32))
    )
    return eqx.tree_at(lambda chain: chain.step_number, chain, grid.step_number)


@eqx.filter_jit
def _chain_at(model: Model, num_pseudo: tuple[int, ...], grid: TimeGrid) -> Chain:
    return make_chain(model.components, num_pseudo, grid)


def next_power_of_two(size: int) -> int:
    return 1 << max(size - 1, 0).bit_length()


def make_chain(components: tuple[Separable, ...], num_pseudo: tuple[int, ...], grid: TimeGrid) -> Chain:
    """The chain of [eqn:lgssm-sum-separable], whitened: its noise acts on each pseudo-point independently."""
    return Chain(
        components=tuple(
            component_chain(component, pseudo, grid) for component, pseudo in zip(components, num_pseudo, strict=True)
        ),
        step_number=grid.step_number,
    )


def component_chain(component: Separable, num_pseudo: int, grid: TimeGrid) -> ComponentChain:
    form = component.time.state_space()
    steps = jnp.asarray(grid.steps)
    return ComponentChain(
        transition=jax.vmap(form.transition)(steps),
        process_noise=jax.vmap(form.process_noise)(steps),
        initial=form.covariance(jnp.asarray(grid.times[0])),
        readout=jnp.asarray(form.readout),
        num_pseudo=num_pseudo,
        reversal=form.reversal,
    )


def time_variances(component: Separable, times: Float[AnyArray, " time"]) -> Float[Array, " time"]:
    """Variance of the component's time process at each time, by its state-space form (which may approximate its kernel)."""
    form = component.time.state_space()

    def variance(time: Float[Array, ""]) -> Float[Array, ""]:
        return form.readout @ form.covariance(time) @ form.readout

    if form.reversal is not None:
        return jnp.broadcast_to(variance(jnp.asarray(times[0])), times.shape)
    return jax.vmap(variance)(jnp.asarray(times))


def time_variances_at(model: Model, times: Float[np.ndarray, " time"]) -> Float[np.ndarray, "time component"]:
    """`time_variances` of every component at any `times`; compiled once for many numbers of them, by padding."""
    count = len(times)
    padded = np.pad(times, (0, next_power_of_two(count) - count), mode="edge")
    return np.asarray(_time_variances_at(model, padded))[:count]


@eqx.filter_jit
def _time_variances_at(model: Model, times: Float[AnyArray, " time"]) -> Float[Array, "time component"]:
    return jnp.stack([time_variances(component, times) for component in model.components], axis=1)


@eqx.filter_jit
def signal_variance(model: Model, time: Float[AnyArray, " 1"], place: Float[AnyArray, "1 dim"]) -> Float[Array, ""]:
    """Prior variance of f at one time and place: the scale that noise is small or large beside."""
    parts = [
        component.variance * component.space.variances(place)[0] * time_variances(component, time)[0]
        for component in model.components
    ]
    return jnp.sum(jnp.stack(parts))


def features_at(model: Model, bases: tuple[Basis, ...], places: Float[np.ndarray, "place dim"]) -> Features:
    """Features of any `places`; piece by piece, so that little more is held than the answer, and padded, so that pieces of
    many sizes share one compilation.
    """
    weights = np.empty((len(places), sum(num_pseudo(model.components, bases, places))))
    unexplained = np.empty((len(places), len(model.components)))
    for first in range(0, len(places), PLACES_AT_ONCE):
        piece = places[first : first + PLACES_AT_ONCE]
        padded = np.pad(piece, ((0, next_power_of_two(len(piece)) - len(piece)), (0, 0)), mode="edge")
        features = _features_at(model, bases, padded)
        mine = slice(first, first + len(piece))
        weights[mine] = np.asarray(features.weights)[: len(piece)]
        unexplained[mine] = np.asarray(features.unexplained)[: len(piece)]
    return Features(weights, unexplained)


@eqx.filter_jit
def _features_at(model: Model, bases: tuple[Basis, ...], places: Float[AnyArray, "place dim"]) -> Features:
    return make_features(model.components, bases, places)


@eqx.filter_jit
def bases_of(model: Model, places: Float[AnyArray, "place dim"]) -> tuple[Basis, ...]:
    """The model's bases where `places` are those of its data."""
    return make_bases(model.components, model.pseudo_points_of(places))


def check_times(model: Model, times: Float[np.ndarray, " time"]) -> None:
    """Raise unless every time kernel takes these sorted `times` (a Wiener process, say, has a first one)."""
    for component in model.components:
        component.time.check_inputs(times[[0, -1], None])


def check_places(model: Model, places: Float[np.ndarray, "place dim"]) -> None:
    """Raise unless `places` have as many columns as the kernel and the pseudo-points."""
    width = places.shape[1]
    for component in model.components:
        component.space.check_inputs(places)
    for points in model.pseudo_points_of(places):
        if points.shape[1] != width:
            raise ValueError(
                f"pseudo_points have {points.shape[1]} columns and the places of the data {width}; they must have equally many"
            )
