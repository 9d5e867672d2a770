# SPDX-License-Identifier: MIT
"""How space is reduced: to so many functions of place, and what they leave unexplained.

A `Basis` says how, before there are data; a `Reduction` is what becomes of it for one kernel at the places of the data:
    k(r, r') = weights(r) . weights(r') + rest(r, r'),    unexplained(r) = rest(r, r) >= 0.
The rest must be a covariance itself: then the evidence computed from the weights is a lower bound.
"""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from weft.arrays import ARRAYS, AnyArray, is_concrete
from weft.domains import Parametrised, as_float64, fixed, real
from weft.kernels.base import Kernel
from weft.linalg import cholesky, whiten

# Weights of places and the variance these leave unexplained there; together, because one is made from the other.
Reduced = tuple[Float[AnyArray, "place _"], Float[AnyArray, " place"]]


class Reduction(eqx.Module):
    """A basis at work on one kernel."""

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """How many weights a place has."""

    @abc.abstractmethod
    def at(self, places: Float[AnyArray, "place dim"]) -> Reduced:
        """Weights and unexplained variance at any places."""

    def at_data(self, places: Float[AnyArray, "place dim"]) -> Reduced:
        """The same at the places it was made for."""
        return self.at(places)

    def weights(self, places: Float[AnyArray, "place dim"]) -> Float[Array, "place feature"]:
        return self.at(places)[0]

    def unexplained(self, places: Float[AnyArray, "place dim"]) -> Float[Array, " place"]:
        return self.at(places)[1]


class Basis(Parametrised):
    """How the space of a component is to be reduced; `Model` takes one for `pseudo_points=`."""

    @property
    @abc.abstractmethod
    def given(self) -> Any:
        """What stands for it in `pseudo_points=`: None, a matrix, or a feature map."""

    @property
    @abc.abstractmethod
    def pseudo_points(self) -> Float[AnyArray, "pseudo _"]:
        """Its own pseudo-points; no rows where it has none."""

    @property
    @abc.abstractmethod
    def landmarks(self) -> Float[AnyArray, "landmark _"]:
        """Places that stand for where it is; no rows where that is wherever the data are, whose places it then needs."""

    @abc.abstractmethod
    def of(self, kernel: Kernel, places: Float[AnyArray, "place dim"]) -> Reduction:
        """What it makes of a kernel where `places` are those of the data."""

    @abc.abstractmethod
    def thinned(self, places: Float[AnyArray, "place dim"], choose: Callable[[Any], Any]) -> "Basis":
        """The same on those of its points that `choose` leaves."""

    @abc.abstractmethod
    def check_kernel(self, kernel: Kernel) -> None:
        """Raise unless it can reduce this kernel."""

    @abc.abstractmethod
    def check_places(self, places: Float[AnyArray, "place dim"]) -> None:
        """Raise unless it can be asked about these places."""


class AllPlaces(Basis):
    """Every place of the data is a pseudo-point: exact."""

    @property
    def given(self) -> None:
        return None

    @property
    def pseudo_points(self) -> Float[np.ndarray, "0 0"]:
        return np.empty((0, 0))

    @property
    def landmarks(self) -> Float[np.ndarray, "0 0"]:
        return self.pseudo_points

    def of(self, kernel: Kernel, places: Float[AnyArray, "place dim"]) -> Reduction:
        return whitened(kernel, places, are_data=True)

    def thinned(self, places: Float[AnyArray, "place dim"], choose: Callable[[Any], Any]) -> Basis:
        return PseudoPoints(choose(places))

    def check_kernel(self, kernel: Kernel) -> None:
        pass

    def check_places(self, places: Float[AnyArray, "place dim"]) -> None:
        pass


class PseudoPoints(Basis):
    """What the field at these points says of every place."""

    points: Float[AnyArray, "pseudo dim"] = real()

    def __init__(self, points: Any):
        if isinstance(points, list) and len({np.shape(part) for part in points if isinstance(part, ARRAYS)}) > 1:
            raise TypeError(
                "pseudo_points of the components differ in size: give them as a tuple of matrices, not as a list"
            )
        matrix = as_float64(points)
        if matrix.ndim != 2 or matrix.shape[0] == 0:
            raise ValueError(f"pseudo_points must be a matrix, one row a point; its shape is {matrix.shape}")
        if is_concrete(matrix) and not np.all(np.isfinite(matrix)):
            raise ValueError("pseudo_points must be finite; some are NaN or infinite")
        self.points = matrix

    @property
    def given(self) -> Float[AnyArray, "pseudo dim"]:
        return self.points

    @property
    def pseudo_points(self) -> Float[AnyArray, "pseudo dim"]:
        return self.points

    @property
    def landmarks(self) -> Float[AnyArray, "pseudo dim"]:
        return self.points

    def of(self, kernel: Kernel, places: Float[AnyArray, "place dim"]) -> Reduction:
        return whitened(kernel, self.points, are_data=False)

    def thinned(self, places: Float[AnyArray, "place dim"], choose: Callable[[Any], Any]) -> Basis:
        return PseudoPoints(choose(self.points))

    def check_kernel(self, kernel: Kernel) -> None:
        if is_concrete(self.points):
            kernel.check_inputs(self.points)
        else:
            kernel.check_width(self.points.shape[1])

    def check_places(self, places: Float[AnyArray, "place dim"]) -> None:
        if self.points.shape[1] != places.shape[1]:
            raise ValueError(
                f"pseudo_points have {self.points.shape[1]} columns and the places of the data {places.shape[1]}; "
                "they must have equally many"
            )


class Leading(Basis):
    """Of all functions of place that the field at `points` tells, the `size` that matter most there, a point counting by its `importance`.

    No others of that number leave as little unexplained, on average by importance: they are the leading eigenvectors of the weighted
    covariance.
    """

    size: int = eqx.field(static=True)
    points: Float[AnyArray, "point dim"] = fixed()
    importance: Float[AnyArray, " point"] = fixed()

    @property
    def given(self) -> "Leading":
        return self

    @property
    def pseudo_points(self) -> Float[np.ndarray, "0 0"]:
        return np.empty((0, 0))

    @property
    def landmarks(self) -> Float[AnyArray, "point dim"]:
        return self.points

    def of(self, kernel: Kernel, places: Float[AnyArray, "place dim"]) -> Reduction:
        return Combined(kernel, self.points, leading_mixture(kernel.covariance(self.points, self.points), self, jnp))

    def thinned(self, places: Float[AnyArray, "place dim"], choose: Callable[[Any], Any]) -> Basis:
        return PseudoPoints(choose(self.points))

    def check_kernel(self, kernel: Kernel) -> None:
        kernel.check_inputs(self.points)

    def check_places(self, places: Float[AnyArray, "place dim"]) -> None:
        if self.points.shape[1] != places.shape[1]:
            raise ValueError(
                f"the points of the basis have {self.points.shape[1]} columns and the places of the data {places.shape[1]}"
            )


def leading_mixture(gram: Float[AnyArray, "point point"], basis: Leading, numbers: Any) -> Float[AnyArray, "point _"]:
    """What turns covariances with the points into weights; `numbers` is NumPy, or JAX's.

    With D the roots of the importances and D K D = U Lambda U', weights k(r, points) D U Lambda^-1/2 are those of an orthonormal set.
    """
    root = numbers.sqrt(numbers.asarray(basis.importance))
    values, vectors = numbers.linalg.eigh(root[:, None] * gram * root[None, :])
    return root[:, None] * vectors[:, -basis.size :] / numbers.sqrt(values[-basis.size :])[None, :]


class FeatureMap(Parametrised):
    """An explicit map from places to features of a kernel: one class in a file of its own makes a new one.

    The rest k(r, r') - phi(r) . phi(r') has to be a covariance, and its variance known. `tests/state_space/test_bases.py`
    holds every map in its list to that.
    """

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """How many features."""

    @property
    @abc.abstractmethod
    def middle(self) -> Float[np.ndarray, " dim"]:
        """A place where the map may be asked."""

    @abc.abstractmethod
    def at(self, kernel: Kernel, places: Float[AnyArray, "place dim"]) -> Reduced:
        """Features of places, and the variance that they leave unexplained there."""

    @abc.abstractmethod
    def check_kernel(self, kernel: Kernel) -> None:
        """Raise unless the map knows features of this kernel."""

    @abc.abstractmethod
    def check_places(self, places: Float[AnyArray, "place dim"]) -> None:
        """Raise unless these places are where the map holds."""


class Features(Basis):
    """An explicit feature map."""

    map: FeatureMap

    @property
    def given(self) -> FeatureMap:
        return self.map

    @property
    def pseudo_points(self) -> Float[np.ndarray, "0 0"]:
        return np.empty((0, 0))

    @property
    def landmarks(self) -> Float[np.ndarray, "1 dim"]:
        return self.map.middle[None, :]

    def of(self, kernel: Kernel, places: Float[AnyArray, "place dim"]) -> Reduction:
        return Mapped(kernel, self.map)

    def thinned(self, places: Float[AnyArray, "place dim"], choose: Callable[[Any], Any]) -> Basis:
        return self

    def check_kernel(self, kernel: Kernel) -> None:
        if not has_own_features(kernel, len(self.map.middle)):
            self.map.check_kernel(kernel)

    def check_places(self, places: Float[AnyArray, "place dim"]) -> None:
        self.map.check_places(places)


def as_basis(given: Any) -> Basis:
    """The basis that a user's `pseudo_points` mean for one component: None, a matrix, a feature map, or a basis."""
    if given is None:
        return AllPlaces()
    if isinstance(given, Basis):
        return given
    return Features(given) if isinstance(given, FeatureMap) else PseudoPoints(given)


class Whitened(Reduction):
    """B = K_rz L^-T with K_zz = L L', which leaves k(r, r) - |B_r|^2."""

    kernel: Kernel
    points: Float[AnyArray, "pseudo dim"]
    factor: Float[AnyArray, "pseudo pseudo"]
    are_data: bool = eqx.field(static=True)

    @property
    def size(self) -> int:
        return self.factor.shape[0]

    def at(self, places: Float[AnyArray, "place dim"]) -> Reduced:
        weights = whiten(self.factor, self.kernel.covariance(places, self.points))
        # Rounding can push the difference below zero by some 1e-12 where a place is a pseudo-point.
        return weights, jnp.maximum(self.kernel.variances(places) - jnp.sum(weights**2, axis=1), 0.0)

    def at_data(self, places: Float[AnyArray, "place dim"]) -> Reduced:
        # Not `at`: K L^-T = L in exact arithmetic, and only L itself makes the model exact for K plus jitter.
        return (self.factor, jnp.zeros(self.size)) if self.are_data else self.at(places)


def whitened(kernel: Kernel, points: Float[AnyArray, "pseudo dim"], *, are_data: bool) -> Whitened:
    return Whitened(kernel, points, cholesky(kernel.covariance(points, points)), are_data)


class Combined(Reduction):
    """B = K_rz M for orthonormal functions K_.z M, which leaves k(r, r) - |B_r|^2."""

    kernel: Kernel
    points: Float[AnyArray, "point dim"]
    mixture: Float[AnyArray, "point feature"]

    @property
    def size(self) -> int:
        return self.mixture.shape[1]

    def at(self, places: Float[AnyArray, "place dim"]) -> Reduced:
        weights = self.kernel.covariance(places, self.points) @ self.mixture
        return weights, jnp.maximum(self.kernel.variances(places) - jnp.sum(weights**2, axis=1), 0.0)


class Mapped(Reduction):
    """Features by an explicit map."""

    kernel: Kernel
    map: FeatureMap

    @property
    def size(self) -> int:
        return self.map.size

    def at(self, places: Float[AnyArray, "place dim"]) -> Reduced:
        return self.map.at(self.kernel, places)


class OwnFeatures(Reduction):
    """The features that a kernel consists of, which leave nothing."""

    kernel: Kernel
    num_features: int = eqx.field(static=True)

    @property
    def size(self) -> int:
        return self.num_features

    def at(self, places: Float[AnyArray, "place dim"]) -> Reduced:
        return jnp.asarray(self.kernel.features(places)), jnp.zeros(places.shape[0])


def has_own_features(kernel: Kernel, width: int) -> bool:
    return bool(np.isfinite(kernel.num_features(width)))


def reduce_space(kernel: Kernel, basis: Basis, places: Float[AnyArray, "place dim"]) -> Reduction:
    """What `basis` makes of `kernel` at the data's places; a kernel with features of its own needs no basis."""
    width = places.shape[1]
    if has_own_features(kernel, width):
        return OwnFeatures(kernel, int(kernel.num_features(width)))
    return basis.of(kernel, places)


def num_weights(kernel: Kernel, width: int, num_points: int) -> int:
    """How many weights a component takes that is given so many pseudo-points."""
    return int(kernel.num_features(width)) if has_own_features(kernel, width) else num_points
