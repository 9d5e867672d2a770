# SPDX-License-Identifier: MIT
"""What a kernel and a state-space form are, and how kernels add, multiply and scale."""

import abc
from typing import Self

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from weft.arrays import AnyArray
from weft.domains import Parametrised, positive


class StateSpace(Parametrised):
    """A scalar Gaussian process of time as the readout of a linear Markov chain.

    At time t the latent vector x has covariance `covariance(t)`; over a step s it becomes `transition(s)` x plus noise of
    covariance `process_noise(s)`; the process is `readout` . x. All three are differentiable, also at step 0, where they are
    the identity and zero.
    """

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """How many latent dimensions."""

    @property
    @abc.abstractmethod
    def reversal(self) -> tuple[float, ...] | None:
        """Signs S with S transition(s) S = P transition(s)' P^-1 (run backwards in time, it is itself up to these signs).

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

    @abc.abstractmethod
    def covariance(self, xs: Float[AnyArray, "x dim"], ys: Float[AnyArray, "y dim"]) -> Float[Array, "x y"]: ...

    @abc.abstractmethod
    def variances(self, xs: Float[AnyArray, "x dim"]) -> Float[Array, " x"]:
        """The diagonal of `covariance(xs, xs)`."""

    @abc.abstractmethod
    def state_space(self) -> StateSpace:
        """The Markov form needed in `time=`; TypeError where there is none."""

    @abc.abstractmethod
    def features(self, xs: Float[AnyArray, "x dim"]) -> Float[Array, "x feature"] | None:
        """phi with covariance(x, y) = phi(x) . phi(y) exactly and few columns, or None where there is no such map.

        A component whose spatial kernel has features needs no pseudo-points.
        """

    @abc.abstractmethod
    def check_width(self, width: int) -> None:
        """Raise ValueError unless inputs of `width` columns fit this kernel."""

    def __call__(self, xs: Float[AnyArray, "..."], ys: Float[AnyArray, "..."] | None = None) -> Float[Array, "x y"]:
        """The covariance matrix of `xs` and `ys` (of `xs` with itself if not given); a vector is taken as one column."""
        xs = as_columns(xs)
        return self.covariance(xs, xs if ys is None else as_columns(ys))

    def __add__(self, other: "Kernel") -> "Kernel":
        return Sum(self, other) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other: "Kernel | float") -> "Kernel":
        if isinstance(other, Kernel):
            return Product(self, other)
        return Scaled(self, other) if is_scalar(other) else NotImplemented

    def __rmul__(self, other: float) -> "Kernel":
        return Scaled(self, other) if is_scalar(other) else NotImplemented


def is_scalar(value: object) -> bool:
    """Whether `value` is a number a kernel can be scaled by, NumPy's and JAX's zero-dimensional arrays included."""
    return isinstance(value, int | float | np.number) or (isinstance(value, AnyArray) and value.ndim == 0)


def as_columns(xs: AnyArray) -> AnyArray:
    xs = xs if isinstance(xs, AnyArray) else np.asarray(xs, dtype=np.float64)
    return xs[:, None] if xs.ndim == 1 else xs


def time_column(time: Float[Array, ""]) -> Float[Array, "1 1"]:
    return jnp.reshape(time, (1, 1))


class Scaled(Kernel):
    """`variance` times `kernel`."""

    kernel: Kernel
    variance: Float[AnyArray, ""] = positive()

    def covariance(self, xs: Float[AnyArray, "x dim"], ys: Float[AnyArray, "y dim"]) -> Float[Array, "x y"]:
        return self.variance * self.kernel.covariance(xs, ys)

    def variances(self, xs: Float[AnyArray, "x dim"]) -> Float[Array, " x"]:
        return self.variance * self.kernel.variances(xs)

    def state_space(self) -> StateSpace:
        return ScaledStateSpace(self.kernel.state_space(), self.variance)

    def features(self, xs: Float[AnyArray, "x dim"]) -> Float[Array, "x feature"] | None:
        unscaled = self.kernel.features(xs)
        return None if unscaled is None else jnp.sqrt(self.variance) * unscaled

    def check_width(self, width: int) -> None:
        self.kernel.check_width(width)


class Sum(Kernel):
    """Covariance of the sum of two independent processes."""

    first: Kernel
    second: Kernel

    def covariance(self, xs: Float[AnyArray, "x dim"], ys: Float[AnyArray, "y dim"]) -> Float[Array, "x y"]:
        return self.first.covariance(xs, ys) + self.second.covariance(xs, ys)

    def variances(self, xs: Float[AnyArray, "x dim"]) -> Float[Array, " x"]:
        return self.first.variances(xs) + self.second.variances(xs)

    def state_space(self) -> StateSpace:
        return SumStateSpace(self.first.state_space(), self.second.state_space())

    def features(self, xs: Float[AnyArray, "x dim"]) -> Float[Array, "x feature"] | None:
        first, second = self.first.features(xs), self.second.features(xs)
        return None if first is None or second is None else jnp.concatenate([first, second], axis=1)

    def check_width(self, width: int) -> None:
        self.first.check_width(width)
        self.second.check_width(width)


class Product(Kernel):
    """Covariance of the product of two independent processes."""

    first: Kernel
    second: Kernel

    def covariance(self, xs: Float[AnyArray, "x dim"], ys: Float[AnyArray, "y dim"]) -> Float[Array, "x y"]:
        return self.first.covariance(xs, ys) * self.second.covariance(xs, ys)

    def variances(self, xs: Float[AnyArray, "x dim"]) -> Float[Array, " x"]:
        return self.first.variances(xs) * self.second.variances(xs)

    def state_space(self) -> StateSpace:
        first, second = self.first.state_space(), self.second.state_space()
        if first.reversal is None or second.reversal is None:
            raise TypeError(
                f"the product of {type(self.first).__name__} and {type(self.second).__name__} has no state-space form here: "
                "a factor is not stationary; multiply stationary kernels only, or add instead of multiplying"
            )
        return ProductStateSpace(first, second)

    def features(self, xs: Float[AnyArray, "x dim"]) -> Float[Array, "x feature"] | None:
        first, second = self.first.features(xs), self.second.features(xs)
        if first is None or second is None:
            return None
        return jnp.reshape(first[:, :, None] * second[:, None, :], (first.shape[0], -1))

    def check_width(self, width: int) -> None:
        self.first.check_width(width)
        self.second.check_width(width)


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
        # P1 (x) P2 - A1 P1 A1' (x) A2 P2 A2', written as a sum of positive terms: the difference has no digits on short steps.
        first, second = self.first, self.second
        carried = first.transition(step) @ first.covariance(step) @ first.transition(step).T
        return jnp.kron(first.process_noise(step), second.covariance(step)) + jnp.kron(carried, second.process_noise(step))
