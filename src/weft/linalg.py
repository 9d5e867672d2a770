# SPDX-License-Identifier: MIT
"""Cholesky with the one jitter policy of the project."""

import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

# Relative to the largest diagonal entry. Large enough for the rounding of a Gram matrix of a few thousand places
# (about size * 2e-16), small enough to leave ten digits of the evidence alone.
RELATIVE_JITTER = 1e-12


def cholesky(gram: Float[Array, "pseudo pseudo"]) -> Float[Array, "pseudo pseudo"]:
    """Lower Cholesky factor of `gram` plus the project's jitter; NaN where that is not positive definite."""
    size = gram.shape[0]
    jitter = (RELATIVE_JITTER + 4 * size * np.finfo(np.float64).eps) * jnp.max(jnp.diagonal(gram))
    return jnp.linalg.cholesky(gram + jitter * jnp.eye(size))


def whiten(factor: Float[Array, "pseudo pseudo"], cross: Float[Array, "place pseudo"]) -> Float[Array, "place pseudo"]:
    """`cross` times the inverse transpose of the lower triangular `factor`."""
    return solve_triangular(factor, cross.T, lower=True).T
