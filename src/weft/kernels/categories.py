# SPDX-License-Identifier: MIT
"""Covariances of categories (kinds of house, soils, instruments), numbered 0, 1, ... in one column."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from weft.arrays import AnyArray
from weft.domains import between, positive, real
from weft.kernels.base import Kernel
from weft.kernels.distances import per_column


class Categories(Kernel):
    """variance where two inputs are of the same level, 0 elsewhere: every level has an effect of its own, shrunk towards none.

    `variance` is one number, or one a level.
    """

    num_levels: int = eqx.field(static=True)
    variance: Float[AnyArray, "..."] = positive(default=1.0)

    def covariance(self, xs: Float[AnyArray, "x dim"], ys: Float[AnyArray, "y dim"]) -> Float[Array, "x y"]:
        return jnp.where(_numbers(xs)[:, None] == _numbers(ys)[None, :], self.variances(xs)[:, None], 0.0)

    def variances(self, xs: Float[AnyArray, "x dim"]) -> Float[Array, " x"]:
        return per_column(self.variance, self.num_levels)[_numbers(xs)]

    def num_features(self, width: int) -> int | float:
        return self.num_levels

    def features(self, xs: Float[AnyArray, "x dim"]) -> Float[Array, "x feature"]:
        return jnp.diag(jnp.sqrt(per_column(self.variance, self.num_levels)))[_numbers(xs)]

    def check_width(self, width: int) -> None:
        if np.shape(self.variance) not in ((), (self.num_levels,)):
            raise ValueError(
                f"Categories: variance must be one number, or one for each of the {self.num_levels} levels; its shape is "
                f"{np.shape(self.variance)}"
            )
        _check_one_column(self, width)

    def check_inputs(self, xs: Float[AnyArray, "x dim"]) -> None:
        self.check_width(xs.shape[1])
        _check_numbers(self, xs, self.num_levels)


class Alike(Kernel):
    """1 where two inputs are of the same level, `correlation` elsewhere: a field for each level, as alike as they are.

    For a column of space that says of which kind a place is, soil or instrument, beside columns that say where:

        Columns(Matern32([50.0, 50.0]), (0, 1)) * Columns(Alike(3, 0.4), (2,))
    """

    num_levels: int = eqx.field(static=True)
    correlation: Float[AnyArray, ""] = between(0.0, 1.0, default=0.5)

    def covariance(self, xs: Float[AnyArray, "x dim"], ys: Float[AnyArray, "y dim"]) -> Float[Array, "x y"]:
        return jnp.where(_numbers(xs)[:, None] == _numbers(ys)[None, :], 1.0, self.correlation)

    def variances(self, xs: Float[AnyArray, "x dim"]) -> Float[Array, " x"]:
        return jnp.ones(xs.shape[0])

    def num_features(self, width: int) -> int | float:
        return 1 + self.num_levels

    def features(self, xs: Float[AnyArray, "x dim"]) -> Float[Array, "x feature"]:
        own = jnp.sqrt(1 - self.correlation) * jnp.eye(self.num_levels)[_numbers(xs)]
        return jnp.concatenate([jnp.sqrt(self.correlation) * jnp.ones((xs.shape[0], 1)), own], axis=1)

    def check_width(self, width: int) -> None:
        if np.shape(self.correlation) != ():
            raise ValueError(f"Alike: correlation must be a number; its shape is {np.shape(self.correlation)}")
        _check_one_column(self, width)

    def check_inputs(self, xs: Float[AnyArray, "x dim"]) -> None:
        self.check_width(xs.shape[1])
        _check_numbers(self, xs, self.num_levels)


class Loadings(Kernel):
    """loadings_a loadings_b of levels a and b: what all levels have in common, each in its own measure.

    With `Categories` added, levels go together as far as their loadings are alike:

        Columns(Matern32([50.0, 50.0]), (0, 1)) * Columns(Loadings([1.0, 0.8, -0.2]) + Categories(3, 0.1), (2,))

    is a field for each of three levels, and each learns from the others.
    """

    loadings: Float[AnyArray, " level"] = real()

    def covariance(self, xs: Float[AnyArray, "x dim"], ys: Float[AnyArray, "y dim"]) -> Float[Array, "x y"]:
        return self.features(xs) @ self.features(ys).T

    def variances(self, xs: Float[AnyArray, "x dim"]) -> Float[Array, " x"]:
        return self.features(xs)[:, 0] ** 2

    def num_features(self, width: int) -> int | float:
        return 1

    def features(self, xs: Float[AnyArray, "x dim"]) -> Float[Array, "x feature"]:
        return jnp.asarray(self.loadings)[_numbers(xs)][:, None]

    def check_width(self, width: int) -> None:
        if np.ndim(self.loadings) != 1:
            raise ValueError(
                f"Loadings: loadings must be a vector, one a level; its shape is {np.shape(self.loadings)}"
            )
        _check_one_column(self, width)

    def check_inputs(self, xs: Float[AnyArray, "x dim"]) -> None:
        self.check_width(xs.shape[1])
        _check_numbers(self, xs, len(self.loadings))


def _numbers(xs: Float[AnyArray, "x dim"]) -> Int[Array, " x"]:
    return jnp.rint(xs[:, 0]).astype(jnp.int32)


def _check_one_column(kernel: Kernel, width: int) -> None:
    if width != 1:
        raise ValueError(f"{type(kernel).__name__} takes one column, of numbers of levels; the inputs have {width}")


def _check_numbers(kernel: Kernel, xs: Float[AnyArray, "x dim"], num_levels: int) -> None:
    numbers = np.asarray(xs[:, 0])
    bad = (numbers != np.rint(numbers)) | (numbers < 0) | (numbers >= num_levels)
    if bad.any():
        raise ValueError(
            f"{type(kernel).__name__} takes whole numbers from 0 to {num_levels - 1}; one of them is {numbers[bad][0]:g}"
        )
