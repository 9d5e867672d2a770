# SPDX-License-Identifier: MIT
"""Where a filter run forwards and one run backwards in time meet.

With x at the meeting time known as N(m1, P1) from one side, N(m2, P2) from the other and N(0, Pi) a priori, and all of it whitened so
that Pi is the identity:

    log int N(x; 1) N(x; 2) / N(x; 0, I) dx = -log det T / 2 - m1'Lam1 m1 / 2 - m2'Lam2 m2 / 2 + m1' T'^-1 m2,
    T = I - (I - P1)(I - P2),   Lam1 = (I - P2) T^-1,   Lam2 = (I - P1) T'^-1,

and its gradients in m1, P1 and m2, P2 are lam = dL/dm and (lam lam' - Lam) / 2, as the backward sweeps want them.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.linalg.lapack import dgetrf, dgetrs, dtrtrs

# Each side knows its covariance to about this many roundings of the prior's; a direction that both sides know to a share s of its
# prior variance then has s to a relative error of ROUNDINGS * eps / s, and the meeting is refused beyond TOLERANCE: such a series
# (a constant offset, seen many times from both sides) is filtered from one end.
ROUNDINGS = 16
TOLERANCE = 1e-10
# The same for the prior's own factor, by the condition number of its correlation matrix.
WORST_CONDITION = 1e6


class Side(NamedTuple):
    """A Gaussian over the state from one side; then, of the same shapes, lam and Lam for that side."""

    vector: Float[np.ndarray, " state"]
    matrix: Float[np.ndarray, "state state"]


class Meeting(NamedTuple):
    """The log factor, what goes back into both sweeps, and the gradient in the prior of each component."""

    log_factor: float
    left: Side
    right: Side
    initial: list[np.ndarray]


def well_conditioned(initial: list[np.ndarray]) -> bool:
    """Whether every component's prior covariance can be whitened without loss."""
    for prior in initial:
        deviation = np.sqrt(np.diagonal(prior))
        if not np.all(deviation > 0):
            return False
        if len(prior) > 1 and not np.linalg.cond(prior / np.outer(deviation, deviation)) < WORST_CONDITION:
            return False
    return True


def meet(left: Side, right: Side, initial: list[np.ndarray], pseudo: list[int]) -> Meeting | None:
    """The meeting of two sides, or None where it would lose digits (see TOLERANCE)."""
    factors = [np.linalg.cholesky(prior) for prior in initial]
    m1, p1 = _whiten(factors, pseudo, left)
    m2, p2 = _whiten(factors, pseudo, right)
    size = len(m1)
    unseen1, unseen2 = np.eye(size) - p1, np.eye(size) - p2
    total = p1 + p2 - p1 @ p2
    # LAPACK itself: what SciPy puts around it takes longer than small matrices do.
    factored, pivots, _ = dgetrf(total)
    diagonal = np.diagonal(factored)
    if not np.all(np.isfinite(diagonal) & (diagonal != 0)):
        return None
    inverse, _ = dgetrs(factored, pivots, np.eye(size))
    # The 1-norm bounds nothing smaller than 1 / (smallest singular value) / sqrt(size).
    error = ROUNDINGS * np.finfo(np.float64).eps * np.linalg.norm(inverse, 1)
    if not (np.all(np.isfinite(inverse)) and error < TOLERANCE):
        return None
    adjoint1, adjoint2 = symmetric(unseen2 @ inverse), symmetric(unseen1 @ inverse.T)
    pulled1 = inverse.T @ m2 - adjoint1 @ m1
    pulled2 = inverse @ m1 - adjoint2 @ m2
    log_factor = (
        -np.sum(np.log(np.abs(diagonal))) / 2 - m1 @ adjoint1 @ m1 / 2 - m2 @ adjoint2 @ m2 / 2 + m1 @ inverse.T @ m2
    )
    mean = m1 + p1 @ pulled1
    surprise = np.eye(size) - p2 @ inverse @ p1 - np.outer(mean, mean)
    gradients, first = [], 0
    for factor, count in zip(factors, pseudo, strict=True):
        latent = len(factor)
        block = surprise[first : first + latent * count, first : first + latent * count]
        traced = np.einsum("dmem->de", block.reshape(latent, count, latent, count)) / 2
        half, _ = dtrtrs(factor, traced, lower=1, trans=1)
        gradients.append(symmetric(dtrtrs(factor, half.T, lower=1, trans=1)[0]))
        first += latent * count
    return Meeting(
        float(log_factor),
        _unwhiten(factors, pseudo, Side(pulled1, adjoint1)),
        _unwhiten(factors, pseudo, Side(pulled2, adjoint2)),
        gradients,
    )


def symmetric(matrix: Float[np.ndarray, "size size"]) -> Float[np.ndarray, "size size"]:
    """Exactly so: a sum does not depend on the order of its two terms."""
    return (matrix + matrix.T) / 2


def _solve_blocks(
    factors: list[np.ndarray], pseudo: list[int], columns: Float[np.ndarray, "state column"], transposed: bool
) -> Float[np.ndarray, "state column"]:
    """Each component's factor (or its transpose) solved against its block of `columns`."""
    solved, first = np.empty_like(columns), 0
    for factor, count in zip(factors, pseudo, strict=True):
        last = first + len(factor) * count
        block = columns[first:last].reshape(len(factor), -1)
        solved[first:last] = dtrtrs(factor, block, lower=1, trans=int(transposed))[0].reshape(last - first, -1)
        first = last
    return solved


def _whiten(factors: list[np.ndarray], pseudo: list[int], side: Side) -> Side:
    half = _solve_blocks(factors, pseudo, side.matrix, False)
    return Side(
        _solve_blocks(factors, pseudo, side.vector[:, None], False)[:, 0],
        symmetric(_solve_blocks(factors, pseudo, np.ascontiguousarray(half.T), False)),
    )


def _unwhiten(factors: list[np.ndarray], pseudo: list[int], side: Side) -> Side:
    """The pair lam, Lam of the whitened state as that of the state: both transform with the inverse transpose."""
    half = _solve_blocks(factors, pseudo, side.matrix, True)
    return Side(
        _solve_blocks(factors, pseudo, side.vector[:, None], True)[:, 0],
        symmetric(_solve_blocks(factors, pseudo, np.ascontiguousarray(half.T), True)),
    )
