# SPDX-License-Identifier: MIT
"""A model's prior at given times and places without compiling, where its kernels are known in closed form.

What `weft.inference.prior` makes with JAX for any model, in NumPy: compiling it took longer than all that most tables ask of it.
"""

from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.linalg import solve_triangular

from weft.arrays import is_concrete
from weft.kernels.base import Kernel
from weft.kernels.closed_forms import (
    EachAlone,
    EachWithEach,
    EachWithOthers,
    closed_features,
    closed_form,
    has_closed_features,
    has_closed_form,
)
from weft.kernels.closed_forms_in_time import closed_chain, has_closed_chain
from weft.linalg import cholesky_of_several
from weft.model import Model
from weft.state_space.basis import (
    AllPlaces,
    Basis,
    Combined,
    Leading,
    OwnFeatures,
    PseudoPoints,
    Reduced,
    Reduction,
    Whitened,
    has_own_features,
    leading_mixture,
)
from weft.state_space.chain import ComponentChain

__all__ = [
    "closed_component_chain",
    "closed_covariance",
    "closed_reductions",
    "closed_space_variances",
    "closed_time_variances",
    "has_closed_features_at",
    "has_closed_prior",
    "has_closed_reductions",
    "reduced_at",
    "reduced_at_data",
]

# Entries of kernels' matrices that take NumPy as long as compiling takes: more are better compiled.
MOST_ENTRIES = 2e7
# Entries at once: what is made of them on the way stays in a processor's cache.
_AT_ONCE = 1 << 17


def has_closed_prior(model: Model, places: Any) -> bool:
    """Whether all of this model's prior at these places can be had here, sooner than compiled."""
    return (
        is_concrete(places)
        and all(has_closed_chain(part.time) and is_concrete(part.variance) for part in model.components)
        and has_closed_reductions(model, places)
    )


def has_closed_reductions(model: Model, places: Any) -> bool:
    """The same for how its space is reduced."""
    count, width = np.shape(places)
    pairs = list(zip(model.components, model.bases, strict=True))
    if not is_concrete(places) or not all(_is_known(part.space, basis, width) for part, basis in pairs):
        return False
    sizes = [max(count if isinstance(basis, AllPlaces) else len(basis.landmarks), 1) for _, basis in pairs]
    return count * sum(sizes) < MOST_ENTRIES


def has_closed_features_at(reductions: tuple[Reduction, ...], count: int) -> bool:
    """The same for `reduced_at` of so many places."""
    known = all(
        has_closed_features(reduction.kernel)
        if isinstance(reduction, OwnFeatures)
        else isinstance(reduction, Whitened | Combined)
        and has_closed_form(reduction.kernel)
        and is_concrete(reduction.factor if isinstance(reduction, Whitened) else reduction.mixture)
        and is_concrete(reduction.points)
        for reduction in reductions
    )
    return known and count * sum(reduction.size for reduction in reductions) < MOST_ENTRIES


def _is_known(kernel: Kernel, basis: Basis, width: int) -> bool:
    if has_own_features(kernel, width):
        return has_closed_features(kernel)
    known = type(basis) in (AllPlaces, PseudoPoints, Leading)
    return has_closed_form(kernel) and known and is_concrete(basis.landmarks)


def closed_reductions(model: Model, places: Float[np.ndarray, "place dim"]) -> tuple[Reduction, ...]:
    """How the model reduces the space of each component where `places` are those of its data."""
    return tuple(
        _reduction(part.space, basis, places) for part, basis in zip(model.components, model.bases, strict=True)
    )


def _reduction(kernel: Kernel, basis: Basis, places: Float[np.ndarray, "place dim"]) -> Reduction:
    width = places.shape[1]
    if has_own_features(kernel, width):
        return OwnFeatures(kernel, int(kernel.num_features(width)))
    are_data = isinstance(basis, AllPlaces)
    points = np.asarray(places if are_data else basis.landmarks)
    grams = closed_covariance(kernel, points)[None]
    if isinstance(basis, Leading):
        return Combined(kernel, points, leading_mixture(grams[0], basis, np))
    try:
        factor = cholesky_of_several(grams)[0]
    except np.linalg.LinAlgError:
        # As JAX has it; whoever filters with it says so.
        factor = np.full_like(grams[0], np.nan)
    return Whitened(kernel, points, factor, are_data)


def closed_covariance(kernel: Kernel, points: Float[np.ndarray, "point dim"]) -> Float[np.ndarray, "point point"]:
    pairs = EachWithEach(points[None])
    return pairs.matrices(closed_form(kernel, pairs).value)[0]


def reduced_at_data(reduction: Reduction, places: Float[np.ndarray, "place dim"]) -> Reduced:
    """Weights and unexplained variance at the places it was made for."""
    if isinstance(reduction, Whitened) and reduction.are_data:
        return reduction.factor, np.zeros(reduction.size)
    return reduced_at(reduction, places)


def reduced_at(reduction: Reduction, places: Float[np.ndarray, "place dim"]) -> Reduced:
    """The same at any places."""
    if isinstance(reduction, OwnFeatures):
        return closed_features(reduction.kernel, places[None]).value[0], np.zeros(len(places))
    assert isinstance(reduction, Whitened | Combined)
    points = np.asarray(reduction.points)
    weights = np.empty((len(places), len(points)))
    at_once = max(1, _AT_ONCE // len(points))
    for first in range(0, len(places), at_once):
        some = slice(first, first + at_once)
        pairs = EachWithOthers(places[None, some], points[None])
        weights[some] = np.broadcast_to(closed_form(reduction.kernel, pairs).value[0], weights[some].shape)
    if isinstance(reduction, Combined):
        weights = weights @ np.asarray(reduction.mixture)
    else:
        weights = solve_triangular(np.asarray(reduction.factor), weights.T, lower=True, check_finite=False).T
    unexplained = closed_space_variances(reduction.kernel, places) - np.sum(weights**2, axis=1)
    # Rounding can push the difference below zero by some 1e-12 where a place is a pseudo-point.
    return weights, np.maximum(unexplained, 0.0)


def closed_space_variances(kernel: Kernel, places: Float[np.ndarray, "place dim"]) -> Float[np.ndarray, " place"]:
    points = places[None]
    return closed_form(kernel, EachAlone(points, points)).value[0]


def closed_component_chain(
    kernel: Kernel, num_pseudo: int, times: Float[np.ndarray, " time"], steps: Float[np.ndarray, " step"]
) -> ComponentChain:
    form = closed_chain(kernel, steps[None], times[None, :1])
    transition, process_noise, initial, readout, _ = (each[0] for each in form.matrices)
    return ComponentChain(transition, process_noise, initial, readout, num_pseudo=num_pseudo, reversal=form.reversal)


def closed_time_variances(kernel: Kernel, times: Float[np.ndarray, " time"]) -> Float[np.ndarray, " time"]:
    return closed_chain(kernel, np.zeros((1, 1)), times[None]).matrices.variances[0]
