# SPDX-License-Identifier: MIT
"""Cholesky with the one jitter policy of the project."""

import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float
from scipy.linalg.lapack import dpotrf, dpotri, dtrtrs

# Relative to the largest diagonal entry. Large enough for the rounding of a Gram matrix of a few thousand places
# (about size * 2e-16), small enough to leave ten digits of the evidence alone.
RELATIVE_JITTER = 1e-12


def cholesky(gram: Float[Array, "pseudo pseudo"]) -> Float[Array, "pseudo pseudo"]:
    """Lower Cholesky factor of `gram` plus the project's jitter; NaN where that is not positive definite."""
    size = gram.shape[0]
    jitter = jitter_of(size) * jnp.max(jnp.diagonal(gram))
    return jnp.linalg.cholesky(gram + jitter * jnp.eye(size))


def jitter_of(size: int) -> float:
    """Of a matrix of this size, by its largest diagonal entry."""
    return float(RELATIVE_JITTER + 4 * size * np.finfo(np.float64).eps)


def cholesky_of_several(grams: Float[np.ndarray, "block pseudo pseudo"]) -> Float[np.ndarray, "block pseudo pseudo"]:
    """The same of several matrices in NumPy; LinAlgError where one is not positive definite."""
    size = grams.shape[1]
    jitter = jitter_of(size) * np.max(np.diagonal(grams, axis1=1, axis2=2), axis=1)
    return np.linalg.cholesky(grams + jitter[:, None, None] * np.eye(size))


def pull_back_cholesky(
    grams: Float[np.ndarray, "block pseudo pseudo"],
    factors: Float[np.ndarray, "block pseudo pseudo"],
    slopes: Float[np.ndarray, "block pseudo pseudo"],
) -> Float[np.ndarray, "block pseudo pseudo"]:
    """Slopes in the entries of matrices from those in their factors: L^-T lower(L' slopes) L^-1, the diagonal of `lower` halved.

    Murray (2016), "Differentiation of the Cholesky decomposition". What the jitter does comes through the largest diagonal entries.
    """
    size = grams.shape[1]
    each = np.arange(size)
    lower = np.tril(np.swapaxes(factors, 1, 2) @ np.tril(slopes))
    lower[:, each, each] /= 2
    found = np.empty_like(grams)
    for number, (factor, inner) in enumerate(zip(factors, lower, strict=True)):
        # A matrix in C's order is its transpose in Fortran's, which upper triangles are taken from.
        half, _ = dtrtrs(factor.T, inner, lower=0)
        whole, _ = dtrtrs(factor.T, half.T, lower=0)
        found[number] = (whole + whole.T) / 2
    diagonal = np.diagonal(grams, axis1=1, axis2=2)
    largest = diagonal == diagonal.max(axis=1, keepdims=True)
    through_jitter = jitter_of(size) * np.trace(found, axis1=1, axis2=2) / largest.sum(axis=1)
    found[:, each, each] += through_jitter[:, None] * largest
    return found


def whiten(factor: Float[Array, "pseudo pseudo"], cross: Float[Array, "place pseudo"]) -> Float[Array, "place pseudo"]:
    """`cross` times the inverse transpose of the lower triangular `factor`."""
    return solve_triangular(factor, cross.T, lower=True).T


def inverse_of(covariance: Float[np.ndarray, "row row"]) -> Float[np.ndarray, "row row"]:
    """The inverse of a positive definite matrix that is asked for entry by entry, at half of what solving for it takes."""
    factor, failed = dpotrf(covariance, lower=1, clean=0)
    if failed:
        raise np.linalg.LinAlgError("a covariance is not positive definite")
    below, _ = dpotri(factor, lower=1, overwrite_c=1)
    return np.tril(below) + np.tril(below, -1).T
