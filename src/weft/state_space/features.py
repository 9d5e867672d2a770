# SPDX-License-Identifier: MIT
"""Space, reduced to two arrays: whitened weights of each place, and what they leave unexplained."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from weft.arrays import AnyArray
from weft.kernels.base import Kernel
from weft.kernels.separable import Separable
from weft.linalg import cholesky, whiten


class Features(eqx.Module):
    """Weights of places on the bottleneck, components side by side, and unexplained spatial variance by component."""

    weights: Float[AnyArray, "place bottleneck"]
    unexplained: Float[AnyArray, "place component"]


class Basis(eqx.Module):
    """The pseudo-points of one component and the Cholesky factor of their covariance; neither where features are explicit."""

    pseudo_points: Float[AnyArray, "pseudo dim"] | None
    factor: Float[Array, "pseudo pseudo"] | None


def make_basis(kernel: Kernel, pseudo_points: Float[AnyArray, "pseudo dim"]) -> Basis:
    if kernel.features(pseudo_points[:1]) is not None:
        return Basis(None, None)
    return Basis(pseudo_points, cholesky(kernel.covariance(pseudo_points, pseudo_points)))


def make_bases(
    components: tuple[Separable, ...], pseudo_points: tuple[Float[AnyArray, "_ dim"], ...]
) -> tuple[Basis, ...]:
    return tuple(
        make_basis(component.space, points) for component, points in zip(components, pseudo_points, strict=True)
    )


def make_features(
    components: tuple[Separable, ...], bases: tuple[Basis, ...], places: Float[AnyArray, "place dim"]
) -> Features:
    """B = K_rz L^-T and k(r, r) - |B_r|^2 of each component at `places`, the component's variance included."""
    pairs = [component_features(component, basis, places) for component, basis in zip(components, bases, strict=True)]
    return Features(
        weights=jnp.concatenate([weights for weights, _ in pairs], axis=1),
        unexplained=jnp.stack([unexplained for _, unexplained in pairs], axis=1),
    )


def features_at_pseudo_points(
    components: tuple[Separable, ...], bases: tuple[Basis, ...], places: AnyArray
) -> Features:
    """Features where `places` are the pseudo-points of every component: the factors themselves, nothing unexplained.

    Not `make_features`: K L^-T = L in exact arithmetic, and only L itself makes the model exact for K plus jitter.
    """
    weights = []
    for component, basis in zip(components, bases, strict=True):
        unscaled = component.space.features(places) if basis.factor is None else basis.factor
        weights.append(jnp.sqrt(component.variance) * jnp.asarray(unscaled))
    return Features(jnp.concatenate(weights, axis=1), jnp.zeros((places.shape[0], len(components))))


def component_features(
    component: Separable, basis: Basis, places: Float[AnyArray, "place dim"]
) -> tuple[Float[Array, "place pseudo"], Float[Array, " place"]]:
    if basis.factor is None or basis.pseudo_points is None:
        explicit = jnp.asarray(component.space.features(places))
        return jnp.sqrt(component.variance) * explicit, jnp.zeros(places.shape[0])
    weights = whiten(basis.factor, component.space.covariance(places, basis.pseudo_points))
    # Rounding can push the difference below zero by some 1e-12 where a place is a pseudo-point.
    unexplained = jnp.maximum(component.space.variances(places) - jnp.sum(weights**2, axis=1), 0.0)
    return jnp.sqrt(component.variance) * weights, component.variance * unexplained
