# SPDX-License-Identifier: MIT
"""A model's prior at given times and places, whitened: a chain, weights, and what the weights leave unexplained."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from weft.arrays import AnyArray, is_concrete
from weft.data.observations import Observations
from weft.inference.closed_prior import (
    closed_component_chain,
    closed_reductions,
    closed_space_variances,
    closed_time_variances,
    has_closed_features_at,
    has_closed_prior,
    has_closed_reductions,
    reduced_at,
    reduced_at_data,
)
from weft.kernels.base import Kernel
from weft.kernels.closed_forms import has_closed_form
from weft.kernels.closed_forms_in_time import has_closed_chain
from weft.kernels.separable import Separable
from weft.model import Model
from weft.state_space.basis import Reduced, Reduction, reduce_space
from weft.state_space.chain import Chain, ComponentChain

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
    unexplained: Float[AnyArray, " row"]


def make_prior(model: Model, data: Observations) -> Prior:
    check_places(model, data.places)
    check_times(model, data.times)
    grouping, grid = data.grouping, time_grid(data.times)
    time_of_row, place_of_row = np.asarray(grouping.time_of_row), np.asarray(grouping.place_of_row)
    if has_closed_prior(model, data.places):
        return _closed_prior(model, grid, data.places, time_of_row, place_of_row)
    return prior_at(model, grid, data.places, time_of_row, place_of_row)


def _closed_prior(
    model: Model,
    grid: TimeGrid,
    places: Float[np.ndarray, "place dim"],
    time_of_row: Int[np.ndarray, " row"],
    place_of_row: Int[np.ndarray, " row"],
) -> Prior:
    """See `prior_at`."""
    reductions = closed_reductions(model, places)
    features = _closed_features_at_data(model, reductions, places)
    unexplained = np.zeros(len(time_of_row))
    if np.any(features.unexplained):
        by_time = np.stack([closed_time_variances(part.time, grid.times) for part in model.components], axis=1)
        unexplained = np.sum(by_time[time_of_row] * features.unexplained[place_of_row], axis=1)
    return Prior(_closed_chain(model, sizes_of(reductions), grid), features.weights, unexplained)


def _closed_features_at_data(
    model: Model, reductions: tuple[Reduction, ...], places: Float[np.ndarray, "place dim"]
) -> "SpatialFeatures":
    return scaled_features(model.components, [reduced_at_data(reduction, places) for reduction in reductions])


def _closed_chain(model: Model, num_pseudo: tuple[int, ...], grid: TimeGrid) -> Chain:
    """See `make_chain`."""
    components = [
        closed_component_chain(part.time, pseudo, np.asarray(grid.times), np.asarray(grid.steps))
        for part, pseudo in zip(model.components, num_pseudo, strict=True)
    ]
    return Chain(components=tuple(components), step_number=grid.step_number)


@eqx.filter_jit
def prior_at(
    model: Model,
    grid: TimeGrid,
    places: Float[AnyArray, "place dim"],
    time_of_row: Int[AnyArray, " row"],
    place_of_row: Int[AnyArray, " row"],
) -> Prior:
    components, reductions = model.components, reduce_places(model, places)
    features = features_at_data(components, reductions, places)
    return Prior(
        make_chain(components, sizes_of(reductions), grid),
        features.weights,
        unexplained_variance(components, features, grid.times, time_of_row, place_of_row),
    )


class SpatialFeatures(eqx.Module):
    """Weights of places on the bottleneck, components side by side, and unexplained spatial variance by component."""

    weights: Float[AnyArray, "place bottleneck"]
    unexplained: Float[AnyArray, "place component"]


def scaled_features(components: tuple[Separable, ...], reduced: list[Reduced]) -> SpatialFeatures:
    """What the space of each component is reduced to, the component's variance included; in NumPy where all of it is."""
    pairs = list(zip(components, reduced, strict=True))
    numbers: Any = np if all(isinstance(weights, np.ndarray) for weights, _ in reduced) else jnp
    return SpatialFeatures(
        weights=numbers.concatenate(
            [numbers.sqrt(component.variance) * weights for component, (weights, _) in pairs], axis=1
        ),
        unexplained=numbers.stack([component.variance * rest for component, (_, rest) in pairs], axis=1),
    )


def reduce_places(model: Model, places: Float[AnyArray, "place dim"]) -> tuple[Reduction, ...]:
    """How the model reduces the space of each component where `places` are those of its data."""
    return tuple(
        reduce_space(component.space, basis, places)
        for component, basis in zip(model.components, model.bases, strict=True)
    )


def features_at_data(
    components: tuple[Separable, ...], reductions: tuple[Reduction, ...], places: Float[AnyArray, "place dim"]
) -> SpatialFeatures:
    return scaled_features(components, [reduction.at_data(places) for reduction in reductions])


def own_features(model: Model, places: Float[np.ndarray, "place dim"]) -> SpatialFeatures:
    """Weights, and spatial variance that each component leaves unexplained, where `places` are those of the data."""
    if has_closed_reductions(model, places):
        return _closed_features_at_data(model, closed_reductions(model, places), places)
    return _compiled_own_features(model, places)


@eqx.filter_jit
def _compiled_own_features(model: Model, places: Float[AnyArray, "place dim"]) -> SpatialFeatures:
    return features_at_data(model.components, reduce_places(model, places), places)


def reductions_at(model: Model, places: Float[AnyArray, "place dim"]) -> tuple[Reduction, ...]:
    """`reduce_places` as numbers."""
    if has_closed_reductions(model, places):
        return closed_reductions(model, np.asarray(places))
    return reductions_to_draw_from(model, places)


reductions_to_draw_from = eqx.filter_jit(reduce_places)


def sizes_of(reductions: tuple[Reduction, ...]) -> tuple[int, ...]:
    return tuple(reduction.size for reduction in reductions)


def sizes_at(model: Model, places: Float[AnyArray, "place dim"]) -> tuple[int, ...]:
    """How many weights each component has where `places` are those of its data; nothing is computed for it."""
    return sizes_of(eqx.filter_eval_shape(reduce_places, model, places))


def unexplained_variance(
    components: tuple[Separable, ...],
    features: SpatialFeatures,
    times: Float[AnyArray, " time"],
    time_of_row: Int[AnyArray, " row"],
    place_of_row: Int[AnyArray, " row"],
) -> Float[Array, " row"]:
    """k_time(t, t) times the unexplained spatial variance of each row, summed over components."""
    by_time = jnp.stack([time_variances(component.time, times) for component in components], axis=1)
    return jnp.sum(by_time[time_of_row] * features.unexplained[place_of_row], axis=1)


def chain_at(model: Model, num_pseudo: tuple[int, ...], times: Float[np.ndarray, " time"]) -> Chain:
    """The chain at any sorted, distinct `times`."""
    if all(has_closed_chain(component.time) for component in model.components):
        return _closed_chain(model, num_pseudo, time_grid(times))
    return chain_to_draw_from(model, num_pseudo, times)


def chain_to_draw_from(model: Model, num_pseudo: tuple[int, ...], times: Float[np.ndarray, " time"]) -> Chain:
    """The same, compiled once for many lengths, by padding the distinct steps.

    Draws take the signs of eigenvectors, which the last bit of a matrix may decide: a seed gives the draws that it always gave from these
    alone.
    """
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
            component_chain(component.time, pseudo, grid)
            for component, pseudo in zip(components, num_pseudo, strict=True)
        ),
        step_number=grid.step_number,
    )


def component_chain(time: Kernel, num_pseudo: int, grid: TimeGrid) -> ComponentChain:
    form = time.state_space()
    steps = jnp.asarray(grid.steps)
    return ComponentChain(
        transition=jax.vmap(form.transition)(steps),
        process_noise=jax.vmap(form.process_noise)(steps),
        initial=form.covariance(jnp.asarray(grid.times[0])),
        readout=jnp.asarray(form.readout),
        num_pseudo=num_pseudo,
        reversal=form.reversal,
    )


def time_variances(kernel: Kernel, times: Float[AnyArray, " time"]) -> Float[Array, " time"]:
    """Variance of a component's time process at each time, by its state-space form (which may approximate its kernel)."""
    form = kernel.state_space()

    def variance(time: Float[Array, ""]) -> Float[Array, ""]:
        return form.readout @ form.covariance(time) @ form.readout

    if form.reversal is not None:
        return jnp.broadcast_to(variance(jnp.asarray(times[0])), times.shape)
    return jax.vmap(variance)(jnp.asarray(times))


def time_variances_at(model: Model, times: Float[np.ndarray, " time"]) -> Float[np.ndarray, "time component"]:
    """`time_variances` of every component at any `times`; where compiled, once for many numbers of them, by padding."""
    if all(has_closed_chain(component.time) for component in model.components):
        return np.stack([closed_time_variances(component.time, times) for component in model.components], axis=1)
    count = len(times)
    padded = np.pad(times, (0, next_power_of_two(count) - count), mode="edge")
    return np.asarray(_time_variances_at(model, padded))[:count]


@eqx.filter_jit
def _time_variances_at(model: Model, times: Float[AnyArray, " time"]) -> Float[Array, "time component"]:
    return jnp.stack([time_variances(component.time, times) for component in model.components], axis=1)


def signal_variances(
    model: Model,
    times: Float[AnyArray, " time"],
    places: Float[AnyArray, "place dim"],
    time_of_row: Int[AnyArray, " row"],
    place_of_row: Int[AnyArray, " row"],
) -> Float[AnyArray, " row"]:
    """Prior variance of f at each row: the scale that its noise is small or large beside."""
    if not _has_closed_variances(model):
        return _compiled_signal_variances(model, times, places, time_of_row, place_of_row)
    by_time, by_place = time_variances_at(model, times), _closed_spatial_variances(model, places)
    return np.sum(by_time[time_of_row] * by_place[place_of_row], axis=1)


def _has_closed_variances(model: Model) -> bool:
    return all(
        has_closed_form(part.space) and has_closed_chain(part.time) and is_concrete(part.variance)
        for part in model.components
    )


def _closed_spatial_variances(
    model: Model, places: Float[np.ndarray, "place dim"]
) -> Float[np.ndarray, "place component"]:
    return np.stack(
        [float(part.variance) * closed_space_variances(part.space, places) for part in model.components], axis=1
    )


@eqx.filter_jit
def _compiled_signal_variances(
    model: Model,
    times: Float[AnyArray, " time"],
    places: Float[AnyArray, "place dim"],
    time_of_row: Int[AnyArray, " row"],
    place_of_row: Int[AnyArray, " row"],
) -> Float[Array, " row"]:
    parts = [
        (component.variance * component.space.variances(jnp.asarray(places)))[place_of_row]
        * time_variances(component.time, times)[time_of_row]
        for component in model.components
    ]
    return jnp.sum(jnp.stack(parts), axis=0)


def signal_variances_at(model: Model, data: Observations) -> Float[np.ndarray, " row"]:
    """`signal_variances` of rows as numbers; where compiled, once for many numbers of places and times, by padding."""
    count = len(data.places)
    if _has_closed_variances(model):
        spatial = _closed_spatial_variances(model, data.places)
    else:
        padded = np.pad(data.places, ((0, next_power_of_two(count) - count), (0, 0)), mode="edge")
        spatial = np.asarray(_spatial_variances_at(model, padded))[:count]
    by_time = time_variances_at(model, data.times)
    return np.sum(by_time[data.grouping.time_of_row] * spatial[data.grouping.place_of_row], axis=1)


@eqx.filter_jit
def _spatial_variances_at(model: Model, places: Float[AnyArray, "place dim"]) -> Float[Array, "place component"]:
    return jnp.stack([each.variance * each.space.variances(jnp.asarray(places)) for each in model.components], axis=1)


def features_at(
    model: Model, reductions: tuple[Reduction, ...], places: Float[np.ndarray, "place dim"]
) -> SpatialFeatures:
    """Features of any `places`."""
    if has_closed_features_at(reductions, len(places)):
        return scaled_features(model.components, [reduced_at(reduction, places) for reduction in reductions])
    return features_to_draw_from(model, reductions, places)


def features_to_draw_from(
    model: Model, reductions: tuple[Reduction, ...], places: Float[np.ndarray, "place dim"]
) -> SpatialFeatures:
    """The same, compiled: piece by piece, so that little more is held than the answer, and padded, so that pieces of many sizes share one
    compilation. See `chain_to_draw_from`.
    """
    weights = np.empty((len(places), sum(sizes_of(reductions))))
    unexplained = np.empty((len(places), len(reductions)))
    for first in range(0, len(places), PLACES_AT_ONCE):
        piece = places[first : first + PLACES_AT_ONCE]
        padded = np.pad(piece, ((0, next_power_of_two(len(piece)) - len(piece)), (0, 0)), mode="edge")
        features = _features_at(model.components, reductions, padded)
        mine = slice(first, first + len(piece))
        weights[mine] = np.asarray(features.weights)[: len(piece)]
        unexplained[mine] = np.asarray(features.unexplained)[: len(piece)]
    return SpatialFeatures(weights, unexplained)


@eqx.filter_jit
def _features_at(
    components: tuple[Separable, ...], reductions: tuple[Reduction, ...], places: Float[AnyArray, "place dim"]
) -> SpatialFeatures:
    return scaled_features(components, [reduction.at(places) for reduction in reductions])


def check_times(model: Model, times: Float[np.ndarray, " time"]) -> None:
    """Raise unless every time kernel takes these sorted `times` (a Wiener process, say, has a first one)."""
    for component in model.components:
        component.time.check_inputs(times[[0, -1], None])


def check_places(model: Model, places: Float[np.ndarray, "place dim"]) -> None:
    """Raise unless the kernels and the bases take these `places`."""
    for component, basis in zip(model.components, model.bases, strict=True):
        component.space.check_inputs(places)
        basis.check_places(places)
