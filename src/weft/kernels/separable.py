# SPDX-License-Identifier: MIT
"""Kernels of space and time: separable ones and their sums."""

from collections.abc import Iterable

import jax.numpy as jnp
from jaxtyping import Array, Float

from weft.arrays import AnyArray, ArrayLike, Given, Scalar
from weft.domains import Parametrised, positive
from weft.kernels.base import Kernel, as_columns, is_scalar


class Separable(Parametrised):
    """variance * space(place, place') * time(time, time')    [eqn:separable-kernel]

    The time kernel must have a state-space form; nothing is asked of the space kernel. Scale and add:

        0.7 * Separable(space=EQ(1.0), time=Matern52(100.0)) + 0.3 * Separable(space=EQ(0.2), time=Matern52(10.0))
    """

    space: Kernel
    time: Kernel
    variance: Float[AnyArray, ""] = positive()

    def __init__(self, space: Given[Kernel], time: Given[Kernel], *, variance: ArrayLike = 1.0):
        for name, kernel in (("space", space), ("time", time)):
            if not isinstance(kernel, Kernel):
                raise TypeError(f"Separable: {name}= takes a kernel such as weft.EQ(1.0); it is {kernel!r}")
        time.check_width(1)
        # Asked for here so that a time kernel without a state-space form is refused where it was given.
        time.state_space()
        self.space = space
        self.time = time
        self.variance = variance

    @property
    def components(self) -> "tuple[Separable, ...]":
        return (self,)

    def __call__(
        self,
        times: Float[AnyArray, " x"],
        places: Float[AnyArray, "x ..."],
        other_times: Float[AnyArray, " y"] | None = None,
        other_places: Float[AnyArray, "y ..."] | None = None,
    ) -> Float[Array, "x y"]:
        """The covariance matrix of the rows (times, places) and the other rows (of the rows with themselves if not given)."""
        return self.variance * self.time(times, other_times) * self.space(as_columns(places), other_places)

    def __mul__(self, other: Given[Scalar]) -> "Separable":
        if not is_scalar(other):
            return NotImplemented
        return Separable(space=self.space, time=self.time, variance=self.variance * other)

    __rmul__ = __mul__

    def __add__(self, other: Given["Separable | SumSeparable"]) -> "SumSeparable":
        if not isinstance(other, Separable | SumSeparable):
            return NotImplemented
        return SumSeparable(self.components + other.components)


class SumSeparable(Parametrised):
    """The kernel of a sum of independent separable processes."""

    components: tuple[Separable, ...]

    def __init__(self, components: Given[Iterable[Separable]]):
        components = tuple(components)
        if not components or not all(isinstance(component, Separable) for component in components):
            raise TypeError(f"SumSeparable takes Separable kernels, at least one; it was given {components!r}")
        self.components = components

    def __call__(
        self,
        times: Float[AnyArray, " x"],
        places: Float[AnyArray, "x ..."],
        other_times: Float[AnyArray, " y"] | None = None,
        other_places: Float[AnyArray, "y ..."] | None = None,
    ) -> Float[Array, "x y"]:
        """The covariance matrix of the rows (times, places) and the other rows (of the rows with themselves if not given)."""
        return jnp.sum(jnp.stack([k(times, places, other_times, other_places) for k in self.components]), axis=0)

    def __mul__(self, other: Given[Scalar]) -> "SumSeparable":
        if not is_scalar(other):
            return NotImplemented
        return SumSeparable(tuple(component * other for component in self.components))

    __rmul__ = __mul__

    def __add__(self, other: Given["Separable | SumSeparable"]) -> "SumSeparable":
        if not isinstance(other, Separable | SumSeparable):
            return NotImplemented
        return SumSeparable(self.components + other.components)
