# SPDX-License-Identifier: MIT
"""Stationary kernels, for space and for time.

Distances are Euclidean after dividing each column by its lengthscale: r^2 = sum_i ((x_i - y_i) / lengthscale_i)^2.
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from weft.arrays import AnyArray, is_concrete
from weft.domains import positive
from weft.kernels.base import Kernel, ScaledStateSpace, StateSpace
from weft.kernels.distances import check_shapes, matern, per_column, phase, squared_distances
from weft.kernels.eq_in_time import CHAINS, EQForm
from weft.kernels.periodic_in_time import PeriodicForm
from weft.kernels.time import ConstantForm, CosineForm, MaternForm, one_time_parameter


def matern_covariance(
    order: int,
    xs: Float[AnyArray, "x dim"],
    ys: Float[AnyArray, "y dim"],
    lengthscale: Float[AnyArray, "..."],
    variance: Float[AnyArray, ""],
) -> Float[Array, "x y"]:
    return jnp.multiply(variance, matern(order, (2 * order + 1) * squared_distances(xs, ys, lengthscale)))


def matern_state_space(order: int, kernel: Kernel, variance: Float[AnyArray, ""]) -> StateSpace:
    decay = np.sqrt(2 * order + 1) / one_time_parameter(kernel, "lengthscale")
    return ScaledStateSpace(MaternForm(order, decay), variance)


def in_lengthscales(xs: Float[AnyArray, "x dim"], lengthscale: Float[AnyArray, "..."]) -> Float[AnyArray, "x dim"]:
    """In NumPy where all of it is numbers, since JAX would compile the division for each number of rows."""
    if is_concrete(xs) and is_concrete(lengthscale):
        return np.asarray(xs) / np.asarray(lengthscale)
    return jnp.asarray(xs) / per_column(lengthscale, xs.shape[1])[None, :]


def random_waves(
    coordinates: Float[np.ndarray, "x dim"],
    variance: float,
    stretch: Float[np.ndarray, " wave"],
    rng: np.random.Generator,
) -> Float[np.ndarray, "x wave"]:
    """Waves sqrt(2 variance / num) cos(w . x + b) with random phases and normal frequencies, each stretched (Rahimi & Recht 2007).

    Stretched by nothing they make the EQ kernel; by one over the root of a mean-one gamma variable, a mixture of EQ kernels.
    """
    frequencies = rng.standard_normal((coordinates.shape[1], len(stretch))) * stretch
    phases = rng.uniform(0.0, 2 * np.pi, len(stretch))
    return np.sqrt(2 * variance / len(stretch)) * np.cos(coordinates @ frequencies + phases)


def matern_waves(
    order: int, kernel: "Matern12 | Matern32 | Matern52 | Matern72", xs: np.ndarray, num: int, rng: np.random.Generator
) -> Float[np.ndarray, "x wave"]:
    """The frequencies of a Matern kernel of smoothness order + 1/2 have Student's distribution with 2 order + 1 degrees of freedom."""
    freedom = 2 * order + 1
    stretch = np.sqrt(freedom / rng.chisquare(freedom, num))
    return random_waves(np.asarray(kernel.coordinates(xs)), float(kernel.variance), stretch, rng)


def constant_variances(variance: Float[AnyArray, ""], xs: Float[AnyArray, "x dim"]) -> Float[Array, " x"]:
    return jnp.broadcast_to(jnp.asarray(variance), (xs.shape[0],))


class Matern12(Kernel):
    """variance exp(-r), also called exponential; in time, the Ornstein-Uhlenbeck process."""

    lengthscale: Float[AnyArray, "..."] = positive()
    variance: Float[AnyArray, ""] = positive(default=1.0)

    def covariance(self, xs: Float[AnyArray, "x dim"], ys: Float[AnyArray, "y dim"]) -> Float[Array, "x y"]:
        return matern_covariance(0, xs, ys, self.lengthscale, self.variance)

    def variances(self, xs: Float[AnyArray, "x dim"]) -> Float[Array, " x"]:
        return constant_variances(self.variance, xs)

    def state_space(self) -> StateSpace:
        return matern_state_space(0, self, self.variance)

    def coordinates(self, xs: Float[AnyArray, "x dim"]) -> Float[AnyArray, "x coordinate"]:
        return in_lengthscales(xs, self.lengthscale)

    def random_features(
        self, xs: Float[np.ndarray, "x dim"], num: int, rng: np.random.Generator
    ) -> Float[np.ndarray, "x feature"]:
        return matern_waves(0, self, xs, num, rng)

    def check_width(self, width: int) -> None:
        check_shapes(self, width, per_column=("lengthscale",), single=("variance",))


class Matern32(Kernel):
    """variance (1 + u) exp(-u) with u = sqrt(3) r."""

    lengthscale: Float[AnyArray, "..."] = positive()
    variance: Float[AnyArray, ""] = positive(default=1.0)

    def covariance(self, xs: Float[AnyArray, "x dim"], ys: Float[AnyArray, "y dim"]) -> Float[Array, "x y"]:
        return matern_covariance(1, xs, ys, self.lengthscale, self.variance)

    def variances(self, xs: Float[AnyArray, "x dim"]) -> Float[Array, " x"]:
        return constant_variances(self.variance, xs)

    def state_space(self) -> StateSpace:
        return matern_state_space(1, self, self.variance)

    def coordinates(self, xs: Float[AnyArray, "x dim"]) -> Float[AnyArray, "x coordinate"]:
        return in_lengthscales(xs, self.lengthscale)

    def random_features(
        self, xs: Float[np.ndarray, "x dim"], num: int, rng: np.random.Generator
    ) -> Float[np.ndarray, "x feature"]:
        return matern_waves(1, self, xs, num, rng)

    def check_width(self, width: int) -> None:
        check_shapes(self, width, per_column=("lengthscale",), single=("variance",))


class Matern52(Kernel):
    """variance (1 + u + u^2 / 3) exp(-u) with u = sqrt(5) r."""

    lengthscale: Float[AnyArray, "..."] = positive()
    variance: Float[AnyArray, ""] = positive(default=1.0)

    def covariance(self, xs: Float[AnyArray, "x dim"], ys: Float[AnyArray, "y dim"]) -> Float[Array, "x y"]:
        return matern_covariance(2, xs, ys, self.lengthscale, self.variance)

    def variances(self, xs: Float[AnyArray, "x dim"]) -> Float[Array, " x"]:
        return constant_variances(self.variance, xs)

    def state_space(self) -> StateSpace:
        return matern_state_space(2, self, self.variance)

    def coordinates(self, xs: Float[AnyArray, "x dim"]) -> Float[AnyArray, "x coordinate"]:
        return in_lengthscales(xs, self.lengthscale)

    def random_features(
        self, xs: Float[np.ndarray, "x dim"], num: int, rng: np.random.Generator
    ) -> Float[np.ndarray, "x feature"]:
        return matern_waves(2, self, xs, num, rng)

    def check_width(self, width: int) -> None:
        check_shapes(self, width, per_column=("lengthscale",), single=("variance",))


class Matern72(Kernel):
    """variance (1 + u + 2 u^2 / 5 + u^3 / 15) exp(-u) with u = sqrt(7) r."""

    lengthscale: Float[AnyArray, "..."] = positive()
    variance: Float[AnyArray, ""] = positive(default=1.0)

    def covariance(self, xs: Float[AnyArray, "x dim"], ys: Float[AnyArray, "y dim"]) -> Float[Array, "x y"]:
        return matern_covariance(3, xs, ys, self.lengthscale, self.variance)

    def variances(self, xs: Float[AnyArray, "x dim"]) -> Float[Array, " x"]:
        return constant_variances(self.variance, xs)

    def state_space(self) -> StateSpace:
        return matern_state_space(3, self, self.variance)

    def coordinates(self, xs: Float[AnyArray, "x dim"]) -> Float[AnyArray, "x coordinate"]:
        return in_lengthscales(xs, self.lengthscale)

    def random_features(
        self, xs: Float[np.ndarray, "x dim"], num: int, rng: np.random.Generator
    ) -> Float[np.ndarray, "x feature"]:
        return matern_waves(3, self, xs, num, rng)

    def check_width(self, width: int) -> None:
        check_shapes(self, width, per_column=("lengthscale",), single=("variance",))


class EQ(Kernel):
    """variance exp(-r^2 / 2), the exponentiated quadratic, also called squared exponential, Gaussian or RBF.

    In time it has no exact state-space form; `state_space()` is the nearest one with `order` states (see
    `weft.kernels.eq_in_time`). The variance is exact; the largest error of the covariance over all lags, for variance
    1, is

        order    2       3       4       5       6       7       8       9       10
        error    2.8e-2  6.4e-3  1.7e-3  4.7e-4  1.4e-4  4.1e-5  1.2e-5  3.8e-6  1.2e-6
    """

    lengthscale: Float[AnyArray, "..."] = positive()
    variance: Float[AnyArray, ""] = positive(default=1.0)
    order: int = eqx.field(static=True, default=6, kw_only=True)

    def __check_init__(self) -> None:
        if self.order not in CHAINS:
            raise ValueError(
                f"EQ: order, the number of states in time, must be 2 to {max(CHAINS)}; it is {self.order!r}"
            )

    def covariance(self, xs: Float[AnyArray, "x dim"], ys: Float[AnyArray, "y dim"]) -> Float[Array, "x y"]:
        return jnp.multiply(self.variance, jnp.exp(-0.5 * squared_distances(xs, ys, self.lengthscale)))

    def variances(self, xs: Float[AnyArray, "x dim"]) -> Float[Array, " x"]:
        return constant_variances(self.variance, xs)

    def state_space(self) -> StateSpace:
        return ScaledStateSpace(EQForm(self.order, one_time_parameter(self, "lengthscale")), self.variance)

    def coordinates(self, xs: Float[AnyArray, "x dim"]) -> Float[AnyArray, "x coordinate"]:
        return in_lengthscales(xs, self.lengthscale)

    def random_features(
        self, xs: Float[np.ndarray, "x dim"], num: int, rng: np.random.Generator
    ) -> Float[np.ndarray, "x feature"]:
        return random_waves(np.asarray(self.coordinates(xs)), float(self.variance), np.ones(num), rng)

    def check_width(self, width: int) -> None:
        check_shapes(self, width, per_column=("lengthscale",), single=("variance",))


class RationalQuadratic(Kernel):
    """variance (1 + r^2 / (2 shape))^(-shape): EQ kernels of many lengthscales, and EQ itself as `shape` grows."""

    lengthscale: Float[AnyArray, "..."] = positive()
    shape: Float[AnyArray, ""] = positive(default=1.0)
    variance: Float[AnyArray, ""] = positive(default=1.0)

    def covariance(self, xs: Float[AnyArray, "x dim"], ys: Float[AnyArray, "y dim"]) -> Float[Array, "x y"]:
        squares = squared_distances(xs, ys, self.lengthscale)
        return jnp.multiply(self.variance, jnp.exp(-self.shape * jnp.log1p(squares / (2 * self.shape))))

    def variances(self, xs: Float[AnyArray, "x dim"]) -> Float[Array, " x"]:
        return constant_variances(self.variance, xs)

    def coordinates(self, xs: Float[AnyArray, "x dim"]) -> Float[AnyArray, "x coordinate"]:
        return in_lengthscales(xs, self.lengthscale)

    def random_features(
        self, xs: Float[np.ndarray, "x dim"], num: int, rng: np.random.Generator
    ) -> Float[np.ndarray, "x feature"]:
        stretch = np.sqrt(rng.gamma(float(self.shape), 1 / float(self.shape), num))
        return random_waves(np.asarray(self.coordinates(xs)), float(self.variance), stretch, rng)

    def check_width(self, width: int) -> None:
        check_shapes(self, width, per_column=("lengthscale",), single=("shape", "variance"))


class Periodic(Kernel):
    """variance exp(-2 sum_i sin^2(pi (x_i - y_i) / period_i) / lengthscale_i^2) (MacKay 1998).

    `lengthscale` has no unit: it compares with the phase in radians, 2 being a gentle wave and 0.5 a wiggly one.
    In time, `state_space()` keeps the first `order` harmonics (2 order + 1 states; Solin & Sarkka 2014), scaled up
    together so that the variance is exact. The largest error of its covariance over all lags, for variance 1, is

        order               4       6       8
        lengthscale 0.25    3.3e-1  1.4e-1  5.0e-2
        lengthscale 0.5     3.9e-2  3.3e-3  1.7e-4
        lengthscale 1       4.0e-4  2.4e-6  8.3e-9
        lengthscale 2       7.9e-7  3.0e-10 6.5e-14
    """

    period: Float[AnyArray, "..."] = positive()
    lengthscale: Float[AnyArray, "..."] = positive(default=1.0)
    variance: Float[AnyArray, ""] = positive(default=1.0)
    order: int = eqx.field(static=True, default=6, kw_only=True)

    def __check_init__(self) -> None:
        if not isinstance(self.order, int) or self.order < 1:
            raise ValueError(
                f"Periodic: order, the number of harmonics in time, must be 1 or more; it is {self.order!r}"
            )

    def covariance(self, xs: Float[AnyArray, "x dim"], ys: Float[AnyArray, "y dim"]) -> Float[Array, "x y"]:
        periods, scales = per_column(self.period, xs.shape[1]), per_column(self.lengthscale, xs.shape[1])
        exponent = jnp.zeros((xs.shape[0], ys.shape[0]))
        for i in range(xs.shape[1]):
            angle = phase(jnp.subtract(xs[:, i, None], ys[None, :, i]), periods[i])
            exponent -= 2 * (jnp.sin(angle / 2) / scales[i]) ** 2
        return jnp.multiply(self.variance, jnp.exp(exponent))

    def variances(self, xs: Float[AnyArray, "x dim"]) -> Float[Array, " x"]:
        return constant_variances(self.variance, xs)

    def state_space(self) -> StateSpace:
        period, lengthscale = one_time_parameter(self, "period"), one_time_parameter(self, "lengthscale")
        return ScaledStateSpace(PeriodicForm(self.order, period, lengthscale), self.variance)

    def check_width(self, width: int) -> None:
        check_shapes(self, width, per_column=("period", "lengthscale"), single=("variance",))


class Cosine(Kernel):
    """variance cos(2 pi sum_i (x_i - y_i) / period_i): one wave, of random amplitude and phase."""

    period: Float[AnyArray, "..."] = positive()
    variance: Float[AnyArray, ""] = positive(default=1.0)

    def covariance(self, xs: Float[AnyArray, "x dim"], ys: Float[AnyArray, "y dim"]) -> Float[Array, "x y"]:
        periods = per_column(self.period, xs.shape[1])
        angle = jnp.zeros((xs.shape[0], ys.shape[0]))
        for i in range(xs.shape[1]):
            angle += phase(jnp.subtract(xs[:, i, None], ys[None, :, i]), periods[i])
        return jnp.multiply(self.variance, jnp.cos(angle))

    def variances(self, xs: Float[AnyArray, "x dim"]) -> Float[Array, " x"]:
        return constant_variances(self.variance, xs)

    def state_space(self) -> StateSpace:
        return ScaledStateSpace(CosineForm(one_time_parameter(self, "period")), self.variance)

    def check_width(self, width: int) -> None:
        check_shapes(self, width, per_column=("period",), single=("variance",))


class Constant(Kernel):
    """variance, everywhere: an unknown constant."""

    variance: Float[AnyArray, ""] = positive(default=1.0)

    def covariance(self, xs: Float[AnyArray, "x dim"], ys: Float[AnyArray, "y dim"]) -> Float[Array, "x y"]:
        return jnp.broadcast_to(jnp.asarray(self.variance), (xs.shape[0], ys.shape[0]))

    def variances(self, xs: Float[AnyArray, "x dim"]) -> Float[Array, " x"]:
        return constant_variances(self.variance, xs)

    def state_space(self) -> StateSpace:
        return ScaledStateSpace(ConstantForm(), self.variance)

    def num_features(self, width: int) -> int | float:
        return 1

    def features(self, xs: Float[AnyArray, "x dim"]) -> Float[Array, "x feature"]:
        return jnp.broadcast_to(jnp.sqrt(self.variance), (xs.shape[0], 1))

    def check_width(self, width: int) -> None:
        check_shapes(self, width, single=("variance",))
