# SPDX-License-Identifier: MIT
"""Probabilities of a normal variable beyond or between limits, and their expectations over an uncertain f."""

import jax.numpy as jnp
from jax.scipy.special import log_ndtr
from jaxtyping import Array, Float

from weft.arrays import AnyArray
from weft.likelihoods.quadrature import expect_around
from weft.likelihoods.rows import PerRow

# In deviations of the noise: over this width the logarithm of a probability bends from a parabola to nothing.
_BEND = 2.0


def log_below(
    limit: Float[AnyArray, "..."] | float, f: Float[AnyArray, "..."], sd: Float[AnyArray, "..."]
) -> Float[Array, "..."]:
    """The logarithm of P(f + noise <= limit)."""
    return log_ndtr((limit - f) / sd)


def log_between(
    lowest: Float[AnyArray, "..."],
    highest: Float[AnyArray, "..."],
    f: Float[AnyArray, "..."],
    sd: Float[AnyArray, "..."],
) -> Float[Array, "..."]:
    """The logarithm of P(lowest <= f + noise <= highest)."""
    low, high = (lowest - f) / sd, (highest - f) / sd
    # On the side where both probabilities are small, so that their difference keeps its digits.
    turned = low + high > 0
    first, second = log_ndtr(jnp.where(turned, -high, low)), log_ndtr(jnp.where(turned, -low, high))
    return second + jnp.log(-jnp.expm1(first - second))


def expected_log_below(limit: PerRow, mean: PerRow, variance: PerRow, sd: PerRow) -> PerRow:
    """E log P(f + noise <= limit) under f ~ N(mean, variance), to 1e-9 and better."""
    return expect_around(lambda f: log_below(limit, f, sd), mean, variance, limit, _BEND * sd)


def expected_log_between(lowest: PerRow, highest: PerRow, mean: PerRow, variance: PerRow, sd: PerRow) -> PerRow:
    """E log P(lowest <= f + noise <= highest) under f ~ N(mean, variance).

    As a sum of one limit at a time, each around its own bend, and what they have to do with each other, which is smooth.
    """
    middle, width = 0.5 * (lowest + highest), jnp.hypot(_BEND * sd, 0.5 * (highest - lowest))

    def together(f: AnyArray) -> AnyArray:
        apart = log_below(highest, f, sd) + log_below(-lowest, -f, sd)
        return log_between(lowest, highest, f, sd) - apart

    return (
        expected_log_below(highest, mean, variance, sd)
        + expected_log_below(-lowest, -mean, variance, sd)
        + expect_around(together, mean, variance, middle, width)
    )
