# SPDX-License-Identifier: MIT
"""A kernel that is stronger in some parts of the map than in others."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from weft.arrays import AnyArray, Given, is_concrete
from weft.domains import as_float64, fixed, real
from weft.kernels.base import Around, Kernel


class Uneven(Around):
    """a(x) a(y) `kernel`(x, y), with log a(x) an average of `logarithms`, one at each of `centres`, by nearness to them.

    Nearness is that of a normal with deviation `width`, a number or one a column. Currents, mountains and cities make a field lively
    here and quiet there; lengths stay the same everywhere.
    """

    logarithms: Float[AnyArray, " centre"] = real()
    centres: Float[AnyArray, "centre dim"] = fixed()
    width: Float[AnyArray, " dim"] = fixed()

    def __init__(
        self, kernel: Given[Kernel], logarithms: Given[ArrayLike], centres: Given[ArrayLike], width: Given[ArrayLike]
    ):
        if not isinstance(kernel, Kernel):
            raise TypeError(f"Uneven takes a kernel such as weft.EQ(1.0); it is {kernel!r}")
        self.kernel = kernel
        self.logarithms = as_float64(logarithms)
        self.centres = as_float64(centres)
        if self.centres.ndim != 2 or self.logarithms.shape != self.centres.shape[:1]:
            raise ValueError(
                f"Uneven: centres must be a matrix with a row for each of {self.logarithms.size} logarithms; its shape is "
                f"{self.centres.shape}"
            )
        self.width = as_float64(np.broadcast_to(np.asarray(width, dtype=np.float64), self.centres.shape[1:]))

    def strengths(self, xs: Float[AnyArray, "x dim"]) -> Float[AnyArray, " x"]:
        """a(x); in NumPy where all of it is numbers, which waits for no compiler."""
        if all(map(is_concrete, (xs, self.logarithms, self.centres, self.width))):
            return np.exp(self.nearness(np.asarray(xs)[None])[0] @ np.asarray(self.logarithms))
        apart = (jnp.asarray(xs)[:, None, :] - self.centres[None, :, :]) / self.width[None, None, :]
        nearness = jax.nn.softmax(-jnp.sum(apart**2, axis=2) / 2, axis=1)
        return jnp.exp(nearness @ self.logarithms)

    def nearness(self, xs: Float[np.ndarray, "block x dim"]) -> Float[np.ndarray, "block x centre"]:
        """How much of each of the logarithms is in log a(x), of inputs in several blocks."""
        # Column by column: a sum over so short an axis takes longer than all the rest.
        squares = np.zeros((*xs.shape[:2], len(self.centres)))
        for column, (centre, width) in enumerate(zip(np.asarray(self.centres).T, np.asarray(self.width), strict=True)):
            squares += ((xs[:, :, column, None] - centre) / width) ** 2
        weights = np.exp((squares.min(axis=2, keepdims=True) - squares) / 2)
        return weights / weights.sum(axis=2, keepdims=True)

    def covariance(self, xs: Float[AnyArray, "x dim"], ys: Float[AnyArray, "y dim"]) -> Float[Array, "x y"]:
        return self.strengths(xs)[:, None] * self.kernel.covariance(xs, ys) * self.strengths(ys)[None, :]

    def variances(self, xs: Float[AnyArray, "x dim"]) -> Float[Array, " x"]:
        return self.strengths(xs) ** 2 * self.kernel.variances(xs)

    def num_features(self, width: int) -> int | float:
        return self.kernel.num_features(width)

    def features(self, xs: Float[AnyArray, "x dim"]) -> Float[Array, "x feature"]:
        return self.strengths(xs)[:, None] * self.kernel.features(xs)

    def coordinates(self, xs: Float[AnyArray, "x dim"]) -> Float[AnyArray, "x coordinate"]:
        return self.kernel.coordinates(xs)

    def random_features(
        self, xs: Float[np.ndarray, "x dim"], num: int, rng: np.random.Generator
    ) -> Float[np.ndarray, "x feature"]:
        return np.asarray(self.strengths(xs))[:, None] * self.kernel.random_features(xs, num, rng)

    def check_width(self, width: int) -> None:
        if width != self.centres.shape[1]:
            raise ValueError(f"Uneven: the inputs have {width} columns, its centres {self.centres.shape[1]}")
        self.kernel.check_width(width)

    def check_inputs(self, xs: Float[AnyArray, "x dim"]) -> None:
        self.check_width(xs.shape[1])
        self.kernel.check_inputs(xs)
