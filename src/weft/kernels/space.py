# SPDX-License-Identifier: MIT
"""Kernels of space alone: on the sphere, and on the vertices of a graph."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse
from jaxtyping import Array, Float

from weft.arrays import AnyArray, ArrayLike, is_concrete
from weft.domains import POSITIVE, as_float64, fixed, positive
from weft.kernels.base import Around, Kernel
from weft.kernels.distances import check_shapes

# Mean radius of the Earth in km (IUGG).
EARTH_RADIUS = 6371.0088


class OnSphere(Around):
    """`kernel` of the straight-line (chord) distance between places given as latitude and longitude in degrees.

    The first two columns become three: radius (cos lat cos lon, cos lat sin lon, sin lat). Further columns (an
    elevation) follow them unchanged, so a kernel with one lengthscale a column needs one for each of the three and for
    each further column. With the default radius, the Earth's mean one of 6371.0088 km, lengthscales are in km; with
    radius=1.0 they are in radians, for short distances. A chord keeps every kernel of Euclidean space valid, which the
    distance along the surface does not.
    """

    radius: Float[AnyArray, ""] = positive(default=EARTH_RADIUS)

    def covariance(self, xs: Float[AnyArray, "x dim"], ys: Float[AnyArray, "y dim"]) -> Float[Array, "x y"]:
        return self.kernel.covariance(self.embed(xs), self.embed(ys))

    def variances(self, xs: Float[AnyArray, "x dim"]) -> Float[Array, " x"]:
        return self.kernel.variances(self.embed(xs))

    def num_features(self, width: int) -> int | float:
        return self.kernel.num_features(width + 1)

    def features(self, xs: Float[AnyArray, "x dim"]) -> Float[Array, "x feature"]:
        return self.kernel.features(self.embed(xs))

    def coordinates(self, xs: Float[AnyArray, "x dim"]) -> Float[AnyArray, "x coordinate"]:
        return self.kernel.coordinates(self.embed(xs))

    def random_features(
        self, xs: Float[np.ndarray, "x dim"], num: int, rng: np.random.Generator
    ) -> Float[np.ndarray, "x feature"]:
        return self.kernel.random_features(np.asarray(self.embed(xs)), num, rng)

    def check_width(self, width: int) -> None:
        check_shapes(self, width, single=("radius",))
        if width < 2:
            raise ValueError(
                f"OnSphere takes latitude and longitude, then any further columns; the inputs have {width}"
            )
        self.kernel.check_width(width + 1)

    def check_inputs(self, xs: Float[AnyArray, "x dim"]) -> None:
        self.check_width(xs.shape[1])
        latitude = np.asarray(xs[:, 0])
        if np.any(np.abs(latitude) > 90):
            raise ValueError(
                "OnSphere: latitude, the first column, must lie between -90 and 90 degrees; it goes from "
                f"{latitude.min():g} to {latitude.max():g}; is the order latitude, longitude?"
            )

    def embed(self, xs: Float[AnyArray, "x dim"]) -> Float[Array, "x embedded"]:
        """The places in space, further columns after them."""
        latitude, longitude = jnp.deg2rad(xs[:, 0]), jnp.deg2rad(xs[:, 1])
        directions = [jnp.cos(latitude) * jnp.cos(longitude), jnp.cos(latitude) * jnp.sin(longitude), jnp.sin(latitude)]
        return jnp.concatenate([jnp.multiply(self.radius, jnp.stack(directions, axis=1)), xs[:, 2:]], axis=1)


def optional(value: Any) -> Any:
    return None if value is None else as_float64(value)


class Graph(Kernel):
    """A Matern (or heat) kernel on the vertices of a graph; inputs are one column of vertex numbers from 0.

    With the Laplacian's eigenvalues e and orthonormal eigenvectors U,
        covariance = variance U diag(w) U' / mean(w),    w = (1 + lengthscale^2 e / (2 smoothness))^-smoothness,
    which is the graph Matern kernel of Borovitskiy et al. (2021), `variance` being the average over vertices;
    smoothness=None is its limit, the heat (diffusion) kernel w = exp(-lengthscale^2 e / 2). The eigenvectors are
    computed once, O(vertices^3), and kept; they are not parameters and have no gradient.
    """

    eigenvalues: Float[AnyArray, " vertex"] = fixed()
    eigenvectors: Float[AnyArray, "vertex vertex"] = fixed()
    lengthscale: Float[AnyArray, ""] = positive()
    smoothness: Float[AnyArray, ""] | None = eqx.field(converter=optional, metadata={"domain": POSITIVE}, default=None)
    variance: Float[AnyArray, ""] = positive(default=1.0)

    def __init__(
        self,
        laplacian: ArrayLike,
        lengthscale: ArrayLike = 1.0,
        smoothness: ArrayLike | None = 1.5,
        variance: ArrayLike = 1.0,
    ):
        self.eigenvalues, self.eigenvectors = decompose(laplacian)
        self.lengthscale, self.smoothness, self.variance = lengthscale, smoothness, variance

    def covariance(self, xs: Float[AnyArray, "x dim"], ys: Float[AnyArray, "y dim"]) -> Float[Array, "x y"]:
        return (self.rows(xs) * self.weights()[None, :]) @ self.rows(ys).T

    def variances(self, xs: Float[AnyArray, "x dim"]) -> Float[Array, " x"]:
        return self.rows(xs) ** 2 @ self.weights()

    def check_width(self, width: int) -> None:
        check_shapes(self, width, single=("lengthscale", "variance"))
        if width != 1:
            raise ValueError(f"Graph takes one column of vertex numbers; the inputs have {width}")

    def check_inputs(self, xs: Float[AnyArray, "x dim"]) -> None:
        self.check_width(xs.shape[1])
        numbers, count = np.asarray(xs[:, 0]), self.eigenvalues.shape[0]
        wrong = (numbers != np.round(numbers)) | (numbers < 0) | (numbers >= count)
        if np.any(wrong):
            raise ValueError(
                f"Graph: inputs must be vertex numbers, whole and from 0 to {count - 1}; {np.count_nonzero(wrong)} are "
                f"not, the first being {float(numbers[wrong][0])!r}"
            )

    def rows(self, xs: Float[AnyArray, "x dim"]) -> Float[Array, "x vertex"]:
        """The eigenvectors' entries at the vertices asked about."""
        if is_concrete(xs):
            self.check_inputs(xs)
        number = jnp.asarray(xs[:, 0]).astype(jnp.int64)
        return jax.lax.stop_gradient(jnp.asarray(self.eigenvectors))[number]

    def weights(self) -> Float[Array, " vertex"]:
        scaled = self.lengthscale**2 / 2 * jax.lax.stop_gradient(jnp.asarray(self.eigenvalues))
        exponent = -scaled if self.smoothness is None else -self.smoothness * jnp.log1p(scaled / self.smoothness)
        unscaled = jnp.exp(exponent)
        return jnp.multiply(self.variance, unscaled / jnp.mean(unscaled))


def decompose(laplacian: Any) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues and eigenvectors of a graph Laplacian: symmetric, positive semidefinite, dense or SciPy sparse."""
    matrix = np.asarray(laplacian.toarray() if scipy.sparse.issparse(laplacian) else laplacian, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.shape[0]:
        raise ValueError(f"Graph: the Laplacian must be a square matrix; its shape is {matrix.shape}")
    if not np.all(np.isfinite(matrix)):
        raise ValueError("Graph: the Laplacian must be finite; some entries are NaN or infinite")
    size = np.max(np.abs(matrix))
    if np.max(np.abs(matrix - matrix.T)) > 1e-10 * size:
        raise ValueError("Graph: the Laplacian must be symmetric, so the graph undirected; it is not")
    eigenvalues, eigenvectors = np.linalg.eigh((matrix + matrix.T) / 2)
    if eigenvalues[0] < -1e-8 * size:
        raise ValueError(
            f"Graph: the Laplacian must have no negative eigenvalue; it has {eigenvalues[0]:g}; give degrees minus "
            "adjacency"
        )
    return np.maximum(eigenvalues, 0.0), eigenvectors
