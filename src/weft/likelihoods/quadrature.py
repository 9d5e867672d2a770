# SPDX-License-Identifier: MIT
"""Expectations of a function of a Gaussian variable, one a row.

Both rules are sums of weights times function(mean + deviation * score), differentiated with scores and weights held
fixed: the gradient in the mean is the same quadrature of the derivative (Bonnet's identity), that in the variance of
derivative * score / (2 deviation) (Price's, before integration by parts, so that a kink needs no second derivative).
"""

from collections.abc import Callable
from types import ModuleType
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from weft.arrays import AnyArray

NUM_HERMITE = 32
NUM_WARPED = 64
# How many standard deviations the warped rule reaches: the Gaussian's mass beyond is 2e-17.
REACH = 8.5
# Added to a variance before its root is taken: at variance 0 the root has no derivative, and below this the nodes could
# not be told apart from the mean.
VARIANCE_FLOOR = 1e-16


def gauss_hermite(
    function: Callable[[AnyArray], AnyArray], mean: Float[AnyArray, " row"], variance: Float[AnyArray, " row"]
) -> Float[Array, " row"]:
    """E function(f) under f ~ N(mean, variance), by Gauss-Hermite quadrature with `NUM_HERMITE` nodes.

    Exact for polynomials up to degree 63. For log(1 + e^f) the error is 1e-14, 3e-9, 3e-6, 4e-4 and 1e-2 at a standard
    deviation of 1, 2, 3, 5 and 10; a function that bends within less than a third of the standard deviation wants
    `expect_around` instead.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(NUM_HERMITE)
    deviation = jnp.sqrt(variance + VARIANCE_FLOOR)
    at_nodes = jax.vmap(lambda node: function(mean + deviation * node))(nodes)
    return jnp.tensordot(weights / np.sqrt(2 * np.pi), at_nodes, axes=1)


def expect_around(
    function: Callable[[AnyArray], AnyArray],
    mean: Float[AnyArray, " row"],
    variance: Float[AnyArray, " row"],
    centre: Float[AnyArray, "..."] | float,
    width: Float[AnyArray, "..."] | float,
) -> Float[Array, " row"]:
    """E function(f) under f ~ N(mean, variance), where the function bends within `width` of `centre`.

    For log(1 + e^f) (centre 0, width 2) the error is below 1e-13 up to a standard deviation of 10, and 4e-11 at 30. For
    log(1 + f^2) it is below 5e-8 up to a standard deviation of 1000. The cost is `NUM_WARPED` evaluations a row.
    """
    deviation = jnp.sqrt(variance + VARIANCE_FLOOR)
    warp = jax.lax.stop_gradient(
        make_warp(mean, deviation, jnp.broadcast_to(centre, mean.shape), jnp.broadcast_to(width, mean.shape), jnp)
    )
    # The weights add up to one but for the error of the rule, which then only meets the change of the function.
    at_mean = function(mean)

    # A loop over nodes: three times faster on a CPU than all at once, where XLA fuses what is per row into every node.
    def add(total: Array, position: Array) -> tuple[Array, None]:
        score, weight = warped_node(position, warp, jnp)
        return total + weight * (function(mean + deviation * score) - at_mean), None

    total, _ = jax.lax.scan(add, jnp.asarray(at_mean), jnp.linspace(0.0, 1.0, NUM_WARPED))
    return total


class Warp(NamedTuple):
    """For each row, the coordinate u in which nodes are evenly spaced: f = centre + width sinh(u).

    Dense around the centre, where the function bends, and ever wider apart beyond. The trapezoidal rule in u converges
    exponentially for what is smooth in u and vanishes at both ends, mean +- REACH deviations.
    """

    offset: Float[AnyArray, " row"]  # sinh(u) and cosh(u) at the mean
    radius: Float[AnyArray, " row"]
    lowest: Float[AnyArray, " row"]  # u at both ends, less u at the mean
    highest: Float[AnyArray, " row"]
    ratio: Float[AnyArray, " row"]  # width / deviation


def make_warp(
    mean: Float[AnyArray, " row"],
    deviation: Float[AnyArray, " row"],
    centre: Float[AnyArray, " row"],
    width: Float[AnyArray, " row"],
    numpy: ModuleType,
) -> Warp:
    offset, ratio = (mean - centre) / width, width / deviation
    lowest, highest = (warped_distance(offset, reach / ratio, numpy) for reach in (-REACH, REACH))
    return Warp(offset, numpy.sqrt(1 + offset**2), lowest, highest, ratio)


def warped_node(
    position: Float[AnyArray, "*node"], warp: Warp, numpy: ModuleType
) -> tuple[Float[AnyArray, "*nodes row"], Float[AnyArray, "*nodes row"]]:
    """(f - mean) / deviation at a position in [0, 1] between the ends, and its weight, of `NUM_WARPED` evenly spaced.

    f - mean = 2 width cosh(u at the mean + v / 2) sinh(v / 2) with v = u - u at the mean: no difference of large
    numbers, so that a small variance far from the centre is safe. One exponential gives all hyperbolic functions.
    """
    offset, radius, lowest, highest, ratio = warp
    growth = numpy.expm1(0.5 * (lowest + (highest - lowest) * position))
    sinh_half, cosh_half = 0.5 * growth * (2 + growth) / (1 + growth), 1 + 0.5 * growth**2 / (1 + growth)
    score = 2 * ratio * (radius * cosh_half + offset * sinh_half) * sinh_half
    slope = radius * (1 + 2 * sinh_half**2) + 2 * offset * sinh_half * cosh_half
    spacing = (highest - lowest) / (NUM_WARPED - 1)
    return score, spacing * ratio * slope * numpy.exp(-0.5 * score**2) / np.sqrt(2 * np.pi)


def warped_distance(
    start: Float[AnyArray, " row"], move: Float[AnyArray, " row"], numpy: ModuleType
) -> Float[AnyArray, " row"]:
    """The arcsinh of start + move less that of start, without subtracting."""
    end = start + move
    from_start, from_end = numpy.sqrt(1 + start**2), numpy.sqrt(1 + end**2)
    roots, product = from_start * from_end, start * end
    same_side = product > 0
    # roots - product, which is (1 + start^2 + end^2) / (roots + product).
    gap = numpy.where(same_side, (1 + start**2 + end**2) / (roots + numpy.abs(product)), roots - product)
    return numpy.arcsinh(move * (1 + gap) / (from_start + from_end))
