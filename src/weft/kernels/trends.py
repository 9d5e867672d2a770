# SPDX-License-Identifier: MIT
"""Kernels that are not stationary: a straight line and Brownian motion, for space and for time."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from weft.arrays import AnyArray, is_concrete
from weft.domains import positive, real
from weft.kernels.base import Kernel, ScaledStateSpace, StateSpace
from weft.kernels.distances import check_shapes, per_column
from weft.kernels.time import LinearForm, WienerForm, one_time_parameter


class Linear(Kernel):
    """sum_i variance_i (x_i - centre_i) (y_i - centre_i): a line (a plane) of unknown slopes, 0 at `centre`."""

    variance: Float[AnyArray, "..."] = positive(default=1.0)
    centre: Float[AnyArray, "..."] = real(default=0.0)

    def covariance(self, xs: Float[AnyArray, "x dim"], ys: Float[AnyArray, "y dim"]) -> Float[Array, "x y"]:
        return self.features(xs) @ self.features(ys).T

    def variances(self, xs: Float[AnyArray, "x dim"]) -> Float[Array, " x"]:
        return jnp.sum(self.features(xs) ** 2, axis=1)

    def state_space(self) -> StateSpace:
        centre = one_time_parameter(self, "centre")
        return ScaledStateSpace(LinearForm(centre), one_time_parameter(self, "variance"))

    def num_features(self, width: int) -> int | float:
        return width

    def features(self, xs: Float[AnyArray, "x dim"]) -> Float[Array, "x feature"]:
        deviations = jnp.sqrt(per_column(self.variance, xs.shape[1]))
        return jnp.subtract(xs, per_column(self.centre, xs.shape[1])[None, :]) * deviations[None, :]

    def check_width(self, width: int) -> None:
        check_shapes(self, width, per_column=("variance", "centre"))


class Wiener(Kernel):
    """variance (min(x, y) - origin): Brownian motion (a random walk) that starts from 0 at `origin`; one column.

    It is defined from `origin` on: earlier inputs raise ValueError, or give NaN where they cannot be looked at (under
    `jit`).
    """

    variance: Float[AnyArray, ""] = positive(default=1.0)
    origin: Float[AnyArray, ""] = real(default=0.0)

    def covariance(self, xs: Float[AnyArray, "x dim"], ys: Float[AnyArray, "y dim"]) -> Float[Array, "x y"]:
        elapsed = jnp.minimum(xs[:, 0, None], ys[None, :, 0]) - self.origin
        return jnp.multiply(self.variance, jnp.where(elapsed >= 0, elapsed, jnp.nan))

    def variances(self, xs: Float[AnyArray, "x dim"]) -> Float[Array, " x"]:
        elapsed = xs[:, 0] - self.origin
        return jnp.multiply(self.variance, jnp.where(elapsed >= 0, elapsed, jnp.nan))

    def state_space(self) -> StateSpace:
        return ScaledStateSpace(WienerForm(self.origin), self.variance)

    def check_width(self, width: int) -> None:
        check_shapes(self, width, single=("variance", "origin"))
        if width != 1:
            raise ValueError(f"Wiener takes one column; the inputs have {width}")

    def check_inputs(self, xs: Float[AnyArray, "x dim"]) -> None:
        self.check_width(xs.shape[1])
        if is_concrete(self.origin) and xs.shape[0] and np.min(xs) < self.origin:
            raise ValueError(
                f"Wiener starts at its origin {float(self.origin)!r} but an input is {float(np.min(xs))!r}; "
                "give an origin no later than the first input"
            )
