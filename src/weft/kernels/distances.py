# SPDX-License-Identifier: MIT
"""Distances between rows, and the Matern functions of them, with derivatives that are right at distance zero."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from weft.arrays import AnyArray


def per_column(parameter: Float[AnyArray, "..."], width: int) -> Float[Array, " dim"]:
    """A parameter given once, or once per column, as one per column."""
    return jnp.broadcast_to(jnp.asarray(parameter), (width,))


def check_shapes(kernel: object, width: int, *, per_column: tuple[str, ...] = (), single: tuple[str, ...] = ()) -> None:
    """Raise ValueError unless the named parameters are numbers, or for `per_column` one number for each of `width`."""
    for name in (*per_column, *single):
        shape = np.shape(getattr(kernel, name))
        if shape == () or (name in per_column and shape == (width,)):
            continue
        allowed = (
            f"; give one number, or one for each of the {width} column(s) of the inputs" if name in per_column else ""
        )
        raise ValueError(f"{type(kernel).__name__}: {name} must be a number; its shape is {shape}{allowed}")


def squared_distances(
    xs: Float[AnyArray, "x dim"], ys: Float[AnyArray, "y dim"], lengthscale: Float[AnyArray, "..."]
) -> Float[Array, "x y"]:
    """Sum over columns of ((x - y) / lengthscale)^2.

    Differences first: neither |x|^2 - 2 x.y + |y|^2 nor x / lengthscale - y / lengthscale keeps the digits of near
    points.
    """
    scales = per_column(lengthscale, xs.shape[1])
    columns = ((jnp.subtract(xs[:, i, None], ys[None, :, i]) / scales[i]) ** 2 for i in range(xs.shape[1]))
    return functools.reduce(jnp.add, columns, jnp.zeros((xs.shape[0], ys.shape[0])))


def root(squares: Float[Array, "..."]) -> Float[Array, "..."]:
    """The square root, with derivative 0 at 0."""
    apart = squares > 0
    return jnp.where(apart, jnp.sqrt(jnp.where(apart, squares, 1.0)), 0.0)


def phase(lag: Float[Array, "..."], period: Float[AnyArray, ""]) -> Float[Array, "..."]:
    """2 pi lag / period less whole turns, between -pi and pi.

    Whole periods come off before dividing, which is exact, so long lags keep their digits.
    """
    rest = jax.lax.rem(lag, jnp.broadcast_to(jnp.asarray(period), lag.shape))
    centred = jnp.where(rest > period / 2, rest - period, jnp.where(rest < -period / 2, rest + period, rest))
    return 2 * jnp.pi * (centred / period)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def matern(order: int, squares: Float[Array, "..."]) -> Float[Array, "..."]:
    """The Matern correlation of smoothness order + 1/2, given squares = (2 order + 1) (distance / lengthscale)^2.

    exp(-u) times a polynomial in u = sqrt(squares) (Rasmussen & Williams 2006, equation 4.16).
    """
    u = root(squares)
    return jnp.exp(-u) * jnp.polyval(jnp.asarray(matern_polynomial(order)), u)


@matern.defjvp
def matern_jvp(order: int, primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    # d matern_p / d squares = -matern_(p-1) / (4p - 2): no division by the distance, so right at zero, twice over.
    (squares,), (tangent,) = primals, tangents
    if order == 0:
        # The cusp at zero has no derivative; its two sides average to 0.
        u = root(squares)
        slope = jnp.where(u > 0, -jnp.exp(-u) / (2 * jnp.where(u > 0, u, 1.0)), 0.0)
    else:
        slope = -matern(order - 1, squares) / (4 * order - 2)
    return matern(order, squares), slope * tangent


def matern_polynomial(order: int) -> list[float]:
    """Coefficients, highest power first, of the polynomial factor of the Matern correlation in u = decay * distance."""
    coefficients = [1.0]
    for k in range(1, order + 1):
        # Of u^k: p! (2p - k)! 2^k / ((2p)! k! (p - k)!), each from the one before.
        coefficients.append(coefficients[-1] * 2 * (order - k + 1) / (k * (2 * order - k + 1)))
    return coefficients[::-1]
