# SPDX-License-Identifier: MIT
"""What a kernel and a state-space form are, and how kernels add, multiply and scale."""

import abc
import dataclasses
import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from weft.arrays import ARRAYS, AnyArray, ArrayLike, Given, Scalar, is_concrete, require_float64
from weft.domains import Parametrised, as_float64, positive

# The attributes that lead to a field, one after another.
FieldPath = tuple[str, ...]


class StateSpace(Parametrised):
    """A scalar Gaussian process of time as the readout of a linear Markov chain.

    At time t the latent vector x has covariance `covariance(t)`; over a step s >= 0 it becomes `transition(s)` x plus
    noise of covariance `process_noise(s)`; the process is `readout` . x. All are differentiable, also at step 0, where
    they are the identity and zero. Small matrices of one step: `vmap` over the steps.
    """

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """How many latent dimensions."""

    @property
    @abc.abstractmethod
    def reversal(self) -> tuple[float, ...] | None:
        """Signs S with S transition(s) S = P transition(s)' P^-1: backwards in time it is itself up to these signs.

        None for a process that is not stationary.
        """

    @property
    @abc.abstractmethod
    def readout(self) -> Float[Array, " latent"]: ...

    @abc.abstractmethod
    def covariance(self, time: Float[Array, ""]) -> Float[Array, "latent latent"]: ...

    @abc.abstractmethod
    def transition(self, step: Float[Array, ""]) -> Float[Array, "latent latent"]: ...

    @abc.abstractmethod
    def process_noise(self, step: Float[Array, ""]) -> Float[Array, "latent latent"]: ...


class Kernel(Parametrised):
    """A covariance of places (rows of a matrix) or of times (a matrix of one column)."""

    # NumPy would otherwise treat a kernel as an array of objects in `np.float64(2.0) * kernel`.
    __array_ufunc__ = None

    @abc.abstractmethod
    def covariance(self, xs: Float[AnyArray, "x dim"], ys: Float[AnyArray, "y dim"]) -> Float[Array, "x y"]: ...

    @abc.abstractmethod
    def variances(self, xs: Float[AnyArray, "x dim"]) -> Float[Array, " x"]:
        """The diagonal of `covariance(xs, xs)`."""

    @abc.abstractmethod
    def check_width(self, width: int) -> None:
        """Raise ValueError unless inputs of `width` columns fit this kernel."""

    def check_inputs(self, xs: Float[AnyArray, "x dim"]) -> None:
        """Raise ValueError unless these inputs fit this kernel, in width and in range where it has one."""
        self.check_width(xs.shape[1])

    def state_space(self) -> StateSpace:
        """The Markov form needed in `time=`; TypeError where there is none."""
        raise TypeError(
            f"{type(self).__name__} has no state-space form, which a time kernel needs; use Matern12, "
            "Matern32, Matern52, Matern72, EQ, Periodic, Cosine, Constant, Linear, Wiener, or sums, multiples and "
            "(if stationary) products of them"
        )

    def num_features(self, width: int) -> int | float:
        """How many `features` inputs of `width` columns have; infinite for a kernel that is not made of a few.

        A component whose spatial kernel has features needs no pseudo-points.
        """
        return math.inf

    def features(self, xs: Float[AnyArray, "x dim"]) -> Float[Array, "x feature"]:
        """A map phi with covariance(x, y) = phi(x) . phi(y) exactly; TypeError where there is none with few columns."""
        raise TypeError(f"{type(self).__name__} is not made of a few features")

    @property
    def unwrapped(self) -> "Kernel":
        """The kernel within those that scale it or choose its inputs: it has the length scales and the name."""
        return self

    def overall_scales(self) -> tuple[FieldPath, ...]:
        """Paths of the fields that each multiply the whole kernel."""
        variances = [getattr(self, field.name) for field in dataclasses.fields(self) if field.name == "variance"]
        return (("variance",),) if variances and np.ndim(variances[0]) == 0 else ()

    def coordinates(self, xs: Float[AnyArray, "x dim"]) -> Float[AnyArray, "x coordinate"]:
        """`xs` in length scales: the nearer two rows by Euclid, the more alike; no column where the kernel knows no nearness."""
        return jnp.zeros((xs.shape[0], 0))

    def random_features(
        self, xs: Float[np.ndarray, "x dim"], num: int, rng: np.random.Generator
    ) -> Float[np.ndarray, "x feature"]:
        """A map phi, `num` columns wide or the kernel's own features, with covariance(x, y) = E phi(x) . phi(y) over draws of the map."""
        own = self.features(xs)
        if own is None:
            raise TypeError(
                f"{type(self).__name__} has no random features, which joint draws over several regions need; use a stationary kernel "
                "in space, or one region (regions=None)"
            )
        return np.asarray(own)

    def __call__(self, xs: ArrayLike, ys: ArrayLike | None = None) -> Float[Array, "x y"]:
        """The covariance matrix of `xs` and `ys` (of `xs` with itself if not given); a vector is one column."""
        require_float64()
        first = as_columns(xs)
        second = first if ys is None else as_columns(ys)
        for inputs in (first,) if ys is None else (first, second):
            if is_concrete(inputs):
                self.check_inputs(inputs)
            else:
                self.check_width(inputs.shape[1])
        return self.covariance(first, second)

    def __add__(self, other: Given["Kernel"]) -> "Kernel":
        return Sum(self, other) if isinstance(other, Kernel) else NotImplemented

    def __radd__(self, other: Given[int]) -> "Kernel":
        # So that sum(kernels) works, which starts from the integer 0.
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def __mul__(self, other: Given["Kernel | Scalar"]) -> "Kernel":
        if isinstance(other, Kernel):
            return Product(self, other)
        return Scaled(self, as_float64(other)) if is_scalar(other) else NotImplemented

    def __rmul__(self, other: Given[Scalar]) -> "Kernel":
        return Scaled(self, as_float64(other)) if is_scalar(other) else NotImplemented


def is_scalar(value: Any) -> bool:
    """Whether `value` is a number a kernel can be scaled by, NumPy's and JAX's zero-dimensional arrays included."""
    return isinstance(value, int | float | np.number) or (isinstance(value, ARRAYS) and value.ndim == 0)


def as_columns(xs: Any) -> AnyArray:
    """`xs` as a float matrix with one row an input; a vector becomes one column."""
    array = xs if isinstance(xs, ARRAYS) else np.asarray(xs, dtype=np.float64)
    if array.ndim not in (1, 2):
        raise ValueError(f"kernel inputs must be a matrix (one row an input) or a vector; their shape is {array.shape}")
    if not np.issubdtype(array.dtype, np.floating):
        array = array.astype(np.float64)
    return array[:, None] if array.ndim == 1 else array


def below(name: str, kernel: Kernel) -> tuple[FieldPath, ...]:
    """The overall scales of a kernel held as `name`."""
    return tuple((name, *path) for path in kernel.overall_scales())


class Around(Kernel):
    """A kernel made of another, `kernel`, whose length scales, name and overall scale are also its own."""

    kernel: Kernel

    @property
    def unwrapped(self) -> Kernel:
        return self.kernel.unwrapped

    def overall_scales(self) -> tuple[FieldPath, ...]:
        return below("kernel", self.kernel)


class Scaled(Around):
    """`variance` times `kernel`."""

    variance: Float[AnyArray, ""] = positive()

    def covariance(self, xs: Float[AnyArray, "x dim"], ys: Float[AnyArray, "y dim"]) -> Float[Array, "x y"]:
        return jnp.multiply(self.variance, self.kernel.covariance(xs, ys))

    def variances(self, xs: Float[AnyArray, "x dim"]) -> Float[Array, " x"]:
        return jnp.multiply(self.variance, self.kernel.variances(xs))

    def state_space(self) -> StateSpace:
        return ScaledStateSpace(self.kernel.state_space(), self.variance)

    def num_features(self, width: int) -> int | float:
        return self.kernel.num_features(width)

    def features(self, xs: Float[AnyArray, "x dim"]) -> Float[Array, "x feature"]:
        return jnp.sqrt(self.variance) * self.kernel.features(xs)

    def overall_scales(self) -> tuple[FieldPath, ...]:
        return (("variance",), *super().overall_scales())

    def coordinates(self, xs: Float[AnyArray, "x dim"]) -> Float[AnyArray, "x coordinate"]:
        return self.kernel.coordinates(xs)

    def random_features(
        self, xs: Float[np.ndarray, "x dim"], num: int, rng: np.random.Generator
    ) -> Float[np.ndarray, "x feature"]:
        return np.sqrt(float(self.variance)) * self.kernel.random_features(xs, num, rng)

    def check_width(self, width: int) -> None:
        self.kernel.check_width(width)

    def check_inputs(self, xs: Float[AnyArray, "x dim"]) -> None:
        self.kernel.check_inputs(xs)


class OfTwo(Kernel):
    """A kernel made of two others, which look at the same columns."""

    first: Kernel
    second: Kernel

    def coordinates(self, xs: Float[AnyArray, "x dim"]) -> Float[AnyArray, "x coordinate"]:
        return jnp.concatenate([self.first.coordinates(xs), self.second.coordinates(xs)], axis=1)

    def check_width(self, width: int) -> None:
        self.first.check_width(width)
        self.second.check_width(width)

    def check_inputs(self, xs: Float[AnyArray, "x dim"]) -> None:
        self.first.check_inputs(xs)
        self.second.check_inputs(xs)


class Sum(OfTwo):
    """Covariance of the sum of two independent processes."""

    def covariance(self, xs: Float[AnyArray, "x dim"], ys: Float[AnyArray, "y dim"]) -> Float[Array, "x y"]:
        return self.first.covariance(xs, ys) + self.second.covariance(xs, ys)

    def variances(self, xs: Float[AnyArray, "x dim"]) -> Float[Array, " x"]:
        return self.first.variances(xs) + self.second.variances(xs)

    def state_space(self) -> StateSpace:
        return SumStateSpace(self.first.state_space(), self.second.state_space())

    def num_features(self, width: int) -> int | float:
        return self.first.num_features(width) + self.second.num_features(width)

    def features(self, xs: Float[AnyArray, "x dim"]) -> Float[Array, "x feature"]:
        return jnp.concatenate([self.first.features(xs), self.second.features(xs)], axis=1)

    def overall_scales(self) -> tuple[FieldPath, ...]:
        # Of a sum only one term's scale is given by the whole's; of the other term all scales but one are.
        return below("first", self.first) + below("second", self.second)[1:]

    def random_features(
        self, xs: Float[np.ndarray, "x dim"], num: int, rng: np.random.Generator
    ) -> Float[np.ndarray, "x feature"]:
        parts = [kernel.random_features(xs, num, rng) for kernel in (self.first, self.second)]
        return np.concatenate(parts, axis=1)


class Product(OfTwo):
    """Covariance of the product of two independent processes."""

    def covariance(self, xs: Float[AnyArray, "x dim"], ys: Float[AnyArray, "y dim"]) -> Float[Array, "x y"]:
        return self.first.covariance(xs, ys) * self.second.covariance(xs, ys)

    def variances(self, xs: Float[AnyArray, "x dim"]) -> Float[Array, " x"]:
        return self.first.variances(xs) * self.second.variances(xs)

    def state_space(self) -> StateSpace:
        first, second = self.first.state_space(), self.second.state_space()
        if first.reversal is None or second.reversal is None:
            raise TypeError(
                f"the product of {type(self.first).__name__} and {type(self.second).__name__} has no state-space form "
                "here: a factor is not stationary; multiply stationary kernels only, or add instead of multiplying"
            )
        return ProductStateSpace(first, second)

    def num_features(self, width: int) -> int | float:
        return self.first.num_features(width) * self.second.num_features(width)

    def features(self, xs: Float[AnyArray, "x dim"]) -> Float[Array, "x feature"]:
        first, second = self.first.features(xs), self.second.features(xs)
        return jnp.reshape(first[:, :, None] * second[:, None, :], (first.shape[0], -1))

    def overall_scales(self) -> tuple[FieldPath, ...]:
        return below("first", self.first) + below("second", self.second)

    def random_features(
        self, xs: Float[np.ndarray, "x dim"], num: int, rng: np.random.Generator
    ) -> Float[np.ndarray, "x feature"]:
        first, second = (kernel.random_features(xs, num, rng) for kernel in (self.first, self.second))
        # Every column with every other one: few where a factor has few features of its own.
        return np.reshape(first[:, :, None] * second[:, None, :], (len(xs), -1))


class ScaledStateSpace(StateSpace):
    """A process times the root of `variance`, by its readout."""

    form: StateSpace
    variance: Float[AnyArray, ""] = positive()

    @property
    def size(self) -> int:
        return self.form.size

    @property
    def reversal(self) -> tuple[float, ...] | None:
        return self.form.reversal

    @property
    def readout(self) -> Float[Array, " latent"]:
        return jnp.sqrt(self.variance) * self.form.readout

    def covariance(self, time: Float[Array, ""]) -> Float[Array, "latent latent"]:
        return self.form.covariance(time)

    def transition(self, step: Float[Array, ""]) -> Float[Array, "latent latent"]:
        return self.form.transition(step)

    def process_noise(self, step: Float[Array, ""]) -> Float[Array, "latent latent"]:
        return self.form.process_noise(step)


def block_diagonal(first: Float[Array, "a a"], second: Float[Array, "b b"]) -> Float[Array, "c c"]:
    corner = jnp.zeros((first.shape[0], second.shape[0]))
    return jnp.block([[first, corner], [corner.T, second]])


class SumStateSpace(StateSpace):
    """Two processes side by side."""

    first: StateSpace
    second: StateSpace

    @property
    def size(self) -> int:
        return self.first.size + self.second.size

    @property
    def reversal(self) -> tuple[float, ...] | None:
        first, second = self.first.reversal, self.second.reversal
        return None if first is None or second is None else first + second

    @property
    def readout(self) -> Float[Array, " latent"]:
        return jnp.concatenate([self.first.readout, self.second.readout])

    def covariance(self, time: Float[Array, ""]) -> Float[Array, "latent latent"]:
        return block_diagonal(self.first.covariance(time), self.second.covariance(time))

    def transition(self, step: Float[Array, ""]) -> Float[Array, "latent latent"]:
        return block_diagonal(self.first.transition(step), self.second.transition(step))

    def process_noise(self, step: Float[Array, ""]) -> Float[Array, "latent latent"]:
        return block_diagonal(self.first.process_noise(step), self.second.process_noise(step))


class ProductStateSpace(StateSpace):
    """Two stationary processes multiplied: every matrix is a Kronecker product."""

    first: StateSpace
    second: StateSpace

    @property
    def size(self) -> int:
        return self.first.size * self.second.size

    @property
    def reversal(self) -> tuple[float, ...] | None:
        first, second = self.first.reversal, self.second.reversal
        return None if first is None or second is None else tuple(a * b for a in first for b in second)

    @property
    def readout(self) -> Float[Array, " latent"]:
        return jnp.kron(self.first.readout, self.second.readout)

    def covariance(self, time: Float[Array, ""]) -> Float[Array, "latent latent"]:
        return jnp.kron(self.first.covariance(time), self.second.covariance(time))

    def transition(self, step: Float[Array, ""]) -> Float[Array, "latent latent"]:
        return jnp.kron(self.first.transition(step), self.second.transition(step))

    def process_noise(self, step: Float[Array, ""]) -> Float[Array, "latent latent"]:
        # P1 (x) P2 - C1 (x) C2 with C = A P A': where P1 (x) P2 is not 0, written without the difference, which has no
        # digits on short steps.
        first, second = self.first, self.second
        first_carried, second_carried = carried_covariance(first, step), carried_covariance(second, step)
        gained = jnp.kron(first.process_noise(step), second.covariance(step))
        gained += jnp.kron(first_carried, second.process_noise(step))
        return jnp.where(self.covariance(step) == 0, -jnp.kron(first_carried, second_carried), gained)


def carried_covariance(form: StateSpace, step: Float[Array, ""]) -> Float[Array, "latent latent"]:
    """A P A' of a stationary process, every entry to its own precision.

    Where little is lost it is P - Q: in A P A' the entries that vanish at step 0 would be rounding noise. Where much is
    lost, it is P - Q that would be.
    """
    stationary, noise, transition = form.covariance(step), form.process_noise(step), form.transition(step)
    kept = stationary - noise
    return jnp.where(jnp.abs(kept) >= 0.1 * jnp.abs(stationary), kept, transition @ stationary @ transition.T)
