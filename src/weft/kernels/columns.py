# SPDX-License-Identifier: MIT
"""A kernel that looks at some of the columns only."""

from collections.abc import Iterable

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from weft.arrays import AnyArray, Given
from weft.kernels.base import Around, Kernel


class Columns(Around):
    """`kernel` of the numbered `columns` of its inputs; the others mean nothing to it.

    So that one component may depend on where a row is and another on covariates, both being columns of its place:

        Separable(space=Columns(Matern32([50.0, 50.0]), (0, 1)), time=Matern12(3.0))
        + Separable(space=Columns(Linear(), (2, 3)), time=Constant())
    """

    columns: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, kernel: Given[Kernel], columns: Given[Iterable[int]]):
        if not isinstance(kernel, Kernel):
            raise TypeError(f"Columns takes a kernel such as weft.EQ(1.0); it is {kernel!r}")
        numbers = tuple(int(column) for column in columns)
        if not numbers or len(set(numbers)) < len(numbers) or min(numbers) < 0:
            raise ValueError(
                f"Columns: columns must be distinct numbers from 0 up, at least one; they are {list(numbers)}"
            )
        self.kernel = kernel
        self.columns = numbers

    def _chosen(self, xs: Float[AnyArray, "x dim"]) -> Float[AnyArray, "x chosen"]:
        return xs[:, np.array(self.columns)]

    def covariance(self, xs: Float[AnyArray, "x dim"], ys: Float[AnyArray, "y dim"]) -> Float[Array, "x y"]:
        return self.kernel.covariance(self._chosen(xs), self._chosen(ys))

    def variances(self, xs: Float[AnyArray, "x dim"]) -> Float[Array, " x"]:
        return self.kernel.variances(self._chosen(xs))

    def num_features(self, width: int) -> int | float:
        return self.kernel.num_features(len(self.columns))

    def features(self, xs: Float[AnyArray, "x dim"]) -> Float[Array, "x feature"]:
        return self.kernel.features(self._chosen(xs))

    def coordinates(self, xs: Float[AnyArray, "x dim"]) -> Float[AnyArray, "x coordinate"]:
        return self.kernel.coordinates(self._chosen(xs))

    def random_features(
        self, xs: Float[np.ndarray, "x dim"], num: int, rng: np.random.Generator
    ) -> Float[np.ndarray, "x feature"]:
        return self.kernel.random_features(np.asarray(self._chosen(xs)), num, rng)

    def check_width(self, width: int) -> None:
        if max(self.columns) >= width:
            raise ValueError(
                f"Columns: the inputs have {width} columns, numbered from 0; there is no column {max(self.columns)}"
            )
        self.kernel.check_width(len(self.columns))

    def check_inputs(self, xs: Float[AnyArray, "x dim"]) -> None:
        self.check_width(xs.shape[1])
        self.kernel.check_inputs(self._chosen(xs))
