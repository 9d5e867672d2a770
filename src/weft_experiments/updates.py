# SPDX-License-Identifier: MIT
"""Four ways to condition a Gaussian state on the rows of one time, in plain NumPy and SciPy.

    x ~ N(mean, covariance),   z = readout x,   y ~ N(weights z, diag(noise))

The first three are the paper's Algorithms 1 to 3 with their slips put right: the posterior covariance of the first subtracts; the
second counts log det of the noise once; in the third cov(z) = H C H', its factor is that of cov(z) (not of its posterior), and the
gain C H' cov(z)^-1 stands on the left. The fourth is what weft's engines do. All return the same three things.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.linalg import cho_solve, cholesky, solve_triangular

__all__ = ["UPDATES", "Step", "Updated"]


class Step(NamedTuple):
    """A state of `latent` dimensions for each of `pseudo` points (latent slowest), and the rows seen at one time."""

    mean: Float[np.ndarray, " state"]
    covariance: Float[np.ndarray, "state state"]
    readout: Float[np.ndarray, "pseudo state"]
    weights: Float[np.ndarray, "row pseudo"]
    noise: Float[np.ndarray, " row"]
    values: Float[np.ndarray, " row"]


class Updated(NamedTuple):
    """The posterior of the state and the log marginal likelihood of the rows."""

    mean: Float[np.ndarray, " state"]
    covariance: Float[np.ndarray, "state state"]
    log_likelihood: float


def log_two_pi(step: Step) -> float:
    return float(len(step.values) * np.log(2 * np.pi))


def naive(step: Step) -> Updated:
    """[alg:lml-in-y]: factor the covariance of the rows; cubic in the rows."""
    emission = step.weights @ step.readout
    cross = emission @ step.covariance
    factor = cholesky(cross @ emission.T + np.diag(step.noise), lower=True)
    gain = solve_triangular(factor, cross, lower=True)
    residual = solve_triangular(factor, step.values - emission @ step.mean, lower=True)
    log_det = 2 * np.log(np.diagonal(factor)).sum()
    return Updated(
        step.mean + gain.T @ residual,
        step.covariance - gain.T @ gain,
        float(-0.5 * (log_two_pi(step) + log_det + residual @ residual)),
    )


def low_rank(step: Step) -> Updated:
    """[alg:lml-via-inversion-lemma]: factor in the state; cubic in the state."""
    return _low_rank(step, step.mean, step.covariance, step.weights @ step.readout)


def _low_rank(step: Step, mean: np.ndarray, covariance: np.ndarray, emission: np.ndarray) -> Updated:
    root_noise = np.sqrt(step.noise)
    upper = cholesky(covariance)
    projected = upper @ emission.T / root_noise
    factor = cholesky(projected @ projected.T + np.eye(len(mean)))
    gain = solve_triangular(factor, upper, trans="T")
    residual = (step.values - emission @ mean) / root_noise
    explained = solve_triangular(factor, projected @ residual, trans="T")
    log_det = 2 * np.log(np.diagonal(factor)).sum() + np.log(step.noise).sum()
    return Updated(
        mean + gain.T @ explained,
        gain.T @ gain,
        float(-0.5 * (residual @ residual - explained @ explained + log_two_pi(step) + log_det)),
    )


def bottleneck(step: Step) -> Updated:
    """[alg:bottleneck-lml-posterior]: condition z by the low-rank algorithm, then x given z as a smoother does."""
    cross = step.covariance @ step.readout.T
    mean_z, covariance_z = step.readout @ step.mean, step.readout @ cross
    posterior = _low_rank(step, mean_z, covariance_z, step.weights)
    gain = cho_solve((cholesky(covariance_z), False), cross.T).T
    return Updated(
        step.mean + gain @ (posterior.mean - mean_z),
        step.covariance + gain @ (posterior.covariance - covariance_z) @ gain.T,
        posterior.log_likelihood,
    )


def information(step: Step) -> Updated:
    """weft's: rows as G = B' S^-1 B = E'E on z; only W = I + E cov(z) E' >= I is factored, never a covariance of the state."""
    scaled = step.weights / np.sqrt(step.noise)[:, None]
    num_rows, num_pseudo = scaled.shape
    root = scaled if num_rows <= num_pseudo else np.asarray(np.linalg.qr(scaled, mode="r"))
    precision_values = step.values / step.noise
    seen = step.readout @ step.covariance
    mean_z, covariance_z = step.readout @ step.mean, seen @ step.readout.T
    rest = step.weights.T @ (precision_values - (step.weights @ mean_z) / step.noise)
    projected = root @ seen
    factor = cholesky(np.eye(len(root)) + root @ covariance_z @ root.T)
    gain = solve_triangular(factor, projected, trans="T")
    explained = solve_triangular(factor, root @ (covariance_z @ rest), trans="T")
    fitted = step.weights @ mean_z
    quadratic = ((step.values - fitted) ** 2 / step.noise).sum() - (rest @ covariance_z @ rest - explained @ explained)
    log_det = 2 * np.log(np.diagonal(factor)).sum() + np.log(step.noise).sum()
    return Updated(
        step.mean + seen.T @ rest - gain.T @ explained,
        step.covariance - gain.T @ gain,
        float(-0.5 * (quadratic + log_det + log_two_pi(step))),
    )


UPDATES = {"naive": naive, "low rank": low_rank, "bottleneck": bottleneck, "weft, NumPy": information}
