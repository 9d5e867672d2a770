# SPDX-License-Identifier: MIT
"""From f to a probability or a rate, and expectations of those under a Gaussian f."""

import functools
from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jaxtyping import Float

from weft.arrays import AnyArray
from weft.likelihoods.quadrature import expect_around
from weft.likelihoods.rows import PerRow

LINKS = ("logit", "probit")

# log(1 + e^f) and log Phi(f) bend around 0, over about this width (found by trial to be best for the quadrature).
BEND_WIDTH = 2.0


def check_link(link: str) -> None:
    if link not in LINKS:
        raise ValueError(f"link must be one of {list(LINKS)}; it is {link!r}")


def softplus(x: PerRow) -> PerRow:
    """The logarithm of 1 + e^x, without overflow."""
    return jnp.maximum(x, 0.0) + jnp.log1p(jnp.exp(-jnp.abs(x)))


def log_probability(link: str, f: PerRow) -> PerRow:
    """The logarithm of the probability at f; of its complement at -f."""
    return -softplus(-f) if link == "logit" else jax.scipy.special.log_ndtr(f)


# Compiled here, once a shape: called as it stands, the loop of the quadrature would be compiled anew at each call.
@functools.partial(jax.jit, static_argnames="link")
def expected_log_probability(link: str, mean: PerRow, variance: PerRow) -> PerRow:
    return expect_around(lambda f: log_probability(link, f), mean, variance, 0.0, BEND_WIDTH)


def expected_softplus(mean: PerRow, variance: PerRow) -> PerRow:
    """E log(1 + e^f)."""
    return -expected_log_probability("logit", -mean, variance)


@functools.partial(jax.jit, static_argnames="link")
def probability_moments(link: str, mean: PerRow, variance: PerRow) -> tuple[PerRow, PerRow]:
    """Mean and variance of the probability at f ~ N(mean, variance)."""
    function = jax.nn.sigmoid if link == "logit" else jax.scipy.special.ndtr
    expected = expect_around(function, mean, variance, 0.0, BEND_WIDTH)
    spread = expect_around(lambda f: (function(f) - expected) ** 2, mean, variance, 0.0, BEND_WIDTH)
    return expected, spread


def probability(link: str, f: Float[AnyArray, "..."]) -> Float[np.ndarray, "..."]:
    """The probability at f, as NumPy."""
    return scipy.special.expit(f) if link == "logit" else scipy.special.ndtr(f)


def inverse(link: str, fraction: PerRow, numpy: ModuleType) -> tuple[PerRow, PerRow]:
    """F at a probability of `fraction`, and the derivative of f with respect to it."""
    if link == "logit":
        return numpy.log(fraction) - numpy.log1p(-fraction), 1 / (fraction * (1 - fraction))
    f = scipy.special.ndtri(fraction) if numpy is np else jax.scipy.special.ndtri(fraction)
    return f, np.sqrt(2 * np.pi) * numpy.exp(0.5 * f**2)


def rate_moments(exposure: PerRow, mean: PerRow, variance: PerRow) -> tuple[PerRow, PerRow]:
    """Mean and variance of exposure times e^f, which is lognormal."""
    expected = exposure * jnp.exp(mean + 0.5 * variance)
    return expected, expected**2 * jnp.expm1(variance)
