# SPDX-License-Identifier: MIT
"""Covariances of averages: a row that is the mean over a county, a pixel or some points, beside rows at places."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from weft.arrays import AnyArray, Given
from weft.domains import fixed
from weft.kernels.base import Around, Kernel

# The number of an area that is none.
AT_A_POINT = -1.0


class Averages(Around):
    """`kernel` of places, and of means of the field over areas, told apart by the last column: the area's number, or -1 at a place.

        k(A, r) = mean over a in A of kernel(a, r),    k(A, B) = mean over a in A and b in B of kernel(a, b)

    `points` of an area are the places its mean is taken over (area x point x column), with `weights` that add up to 1 for each area,
    the same for all points unless given. The columns before the last do not matter where a row is an area's, but to who is near:
    give its middle. What a row of an area costs is its points, once for each area and not for each row.
    """

    points: Float[AnyArray, "area point dim"] = fixed()
    weights: Float[AnyArray, "area point"] = fixed()

    def __init__(
        self,
        kernel: Given[Kernel],
        points: Float[AnyArray, "area point dim"],
        weights: Float[AnyArray, "area point"] | None = None,
    ):
        if not isinstance(kernel, Kernel):
            raise TypeError(f"Averages takes a kernel such as weft.EQ(1.0); it is {kernel!r}")
        shape = np.shape(points)
        if len(shape) != 3 or 0 in shape:
            raise ValueError(f"Averages: points must be an array of areas x points x columns; its shape is {shape}")
        if weights is None:
            weights = np.full(shape[:2], 1.0 / shape[1])
        if np.shape(weights) != shape[:2]:
            raise ValueError(
                f"Averages: weights must be one for each of {shape[0]} x {shape[1]} points; their shape is {np.shape(weights)}"
            )
        self.kernel = kernel
        self.points = points
        self.weights = weights

    @property
    def num_areas(self) -> int:
        return self.points.shape[0]

    def covariance(self, xs: Float[AnyArray, "x dim"], ys: Float[AnyArray, "y dim"]) -> Float[Array, "x y"]:
        of_x, of_y = self._areas(xs), self._areas(ys)
        at_x, at_y = xs[:, :-1], ys[:, :-1]
        between = self._between_areas()[jnp.maximum(of_x, 0)][:, jnp.maximum(of_y, 0)]
        x_in_area = self._over_areas(at_y)[jnp.maximum(of_x, 0)]
        y_in_area = self._over_areas(at_x)[jnp.maximum(of_y, 0)].T
        x_at_point = jnp.where((of_y < 0)[None, :], self.kernel.covariance(at_x, at_y), y_in_area)
        return jnp.where((of_x < 0)[:, None], x_at_point, jnp.where((of_y < 0)[None, :], x_in_area, between))

    def variances(self, xs: Float[AnyArray, "x dim"]) -> Float[Array, " x"]:
        area = self._areas(xs)
        of_area = jnp.diagonal(self._between_areas())[jnp.maximum(area, 0)]
        return jnp.where(area < 0, self.kernel.variances(xs[:, :-1]), of_area)

    def coordinates(self, xs: Float[AnyArray, "x dim"]) -> Float[AnyArray, "x coordinate"]:
        return self.kernel.coordinates(xs[:, :-1])

    def num_features(self, width: int) -> int | float:
        return self.kernel.num_features(width - 1)

    def features(self, xs: Float[AnyArray, "x dim"]) -> Float[Array, "x feature"]:
        area, at_points = self._areas(xs), self.kernel.features(xs[:, :-1])
        within = self.kernel.features(self._flat()).reshape((*self.points.shape[:2], -1))
        means = jnp.sum(self.weights[:, :, None] * within, axis=1)
        return jnp.where((area < 0)[:, None], at_points, means[jnp.maximum(area, 0)])

    def random_features(
        self, xs: Float[np.ndarray, "x dim"], num: int, rng: np.random.Generator
    ) -> Float[np.ndarray, "x feature"]:
        # One map for the places and for the points of areas.
        together = np.concatenate([xs[:, :-1], np.asarray(self._flat())])
        drawn = self.kernel.random_features(together, num, rng)
        within = drawn[len(xs) :].reshape((*self.points.shape[:2], -1))
        means = np.sum(np.asarray(self.weights)[:, :, None] * within, axis=1)
        area = np.rint(xs[:, -1]).astype(np.int64)
        return np.where((area < 0)[:, None], drawn[: len(xs)], means[np.maximum(area, 0)])

    def check_width(self, width: int) -> None:
        if width != self.points.shape[2] + 1:
            raise ValueError(
                f"Averages takes {self.points.shape[2] + 1} columns, the last the number of the area or -1; the inputs have {width}"
            )
        self.kernel.check_width(width - 1)

    def check_inputs(self, xs: Float[AnyArray, "x dim"]) -> None:
        self.check_width(xs.shape[1])
        numbers = np.asarray(xs[:, -1])
        bad = (numbers != np.rint(numbers)) | (numbers < AT_A_POINT) | (numbers >= self.num_areas)
        if bad.any():
            raise ValueError(
                f"Averages takes areas numbered 0 to {self.num_areas - 1}, or -1 at a place; one of them is {numbers[bad][0]:g}"
            )
        self.kernel.check_inputs(xs[:, :-1])

    def _areas(self, xs: Float[AnyArray, "x dim"]) -> Int[Array, " x"]:
        return jnp.rint(xs[:, -1]).astype(jnp.int32)

    def _flat(self) -> Float[AnyArray, "all dim"]:
        return self.points.reshape((-1, self.points.shape[2]))

    def _over_areas(self, places: Float[AnyArray, "place dim"]) -> Float[Array, "area place"]:
        """Covariance of the mean over each area and the field at places."""
        whole = self.kernel.covariance(self._flat(), places)
        return jnp.einsum("ap,apx->ax", self.weights, whole.reshape((*self.points.shape[:2], -1)))

    def _between_areas(self) -> Float[Array, "area area"]:
        return jnp.einsum(
            "bp,abp->ab", self.weights, self._over_areas(self._flat()).reshape((self.num_areas, *self.points.shape[:2]))
        )
