# SPDX-License-Identifier: MIT
"""The same models by plain dense linear algebra, straight from their definitions: what the fast methods are held to.

Cost is cubic and memory quadratic in the rows (exact) or in the pseudo-points at all times (the bound).
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.linalg import cho_factor, cho_solve, cholesky, solve_triangular

from weft_experiments.synthetic import Component, Problem

__all__ = ["DenseBound", "dense_bound", "exact_log_evidence", "prior_covariance"]

# The paper's scripts add this to the covariance of the pseudo-points.
JITTER = 1e-9


def time_covariance(
    smoothness: int, lengthscale: float, x: Float[np.ndarray, " x"], y: Float[np.ndarray, " y"]
) -> Float[np.ndarray, "x y"]:
    a = np.sqrt(smoothness) * np.abs(x[:, None] - y[None, :]) / lengthscale
    return (1 + a + (a**2 / 3 if smoothness == 5 else 0)) * np.exp(-a)


def place_covariance(
    lengthscale: float, x: Float[np.ndarray, " x"], y: Float[np.ndarray, " y"]
) -> Float[np.ndarray, "x y"]:
    return np.exp(-(((x[:, None] - y[None, :]) / lengthscale) ** 2) / 2)


def prior_covariance(
    part: Component,
    smoothness: int,
    times: Float[np.ndarray, " x"],
    places: Float[np.ndarray, "x 1"],
    other_times: Float[np.ndarray, " y"],
    other_places: Float[np.ndarray, "y 1"],
) -> Float[np.ndarray, "x y"]:
    covariance = time_covariance(smoothness, part.time_lengthscale, times, other_times)
    covariance *= place_covariance(part.place_lengthscale, places[:, 0], other_places[:, 0])
    covariance *= part.variance
    return covariance


def exact_log_evidence(components: tuple[Component, ...], smoothness: int, problem: Problem) -> float:
    """Log N(values; 0, prior covariance + noise), by one Cholesky factorisation."""
    rows = (problem.times, problem.places)
    covariance = prior_covariance(components[0], smoothness, *rows, *rows)
    for part in components[1:]:
        covariance += prior_covariance(part, smoothness, *rows, *rows)
    covariance[np.diag_indices(problem.num_rows)] += problem.noise_variance
    # A Fortran-ordered view of the symmetric matrix, so that it is factored in place.
    factor = cholesky(covariance.T, lower=True, overwrite_a=True, check_finite=False)
    whitened = solve_triangular(factor, problem.values, lower=True, check_finite=False)
    log_det = 2 * np.log(np.diagonal(factor)).sum()
    return float(-0.5 * (whitened @ whitened + log_det + problem.num_rows * np.log(2 * np.pi)))


@dataclass(frozen=True)
class DenseBound:
    """Titsias' bound and posterior with pseudo-points at every place given and every time of the data."""

    log_evidence: float
    components: tuple[Component, ...]
    smoothness: int
    pseudo: tuple[Float[np.ndarray, " u"], Float[np.ndarray, "u 1"]]
    factor: Float[np.ndarray, "all_u all_u"]
    inner: tuple[Float[np.ndarray, "all_u all_u"], bool]
    projected: Float[np.ndarray, " all_u"]

    def marginals(
        self, times: Float[np.ndarray, " x"], places: Float[np.ndarray, "x 1"]
    ) -> tuple[Float[np.ndarray, " x"], Float[np.ndarray, " x"]]:
        """Mean and standard deviation of f."""
        whitened = solve_triangular(self.factor, self._cross(times, places), lower=True)
        prior = sum(part.variance for part in self.components)
        mean = whitened.T @ cho_solve(self.inner, self.projected)
        rest = np.einsum("ux,ux->x", whitened, cho_solve(self.inner, whitened) - whitened)
        return mean, np.sqrt(prior + rest)

    def _cross(self, times: np.ndarray, places: np.ndarray) -> Float[np.ndarray, "all_u x"]:
        return np.concatenate(
            [prior_covariance(part, self.smoothness, *self.pseudo, times, places) for part in self.components]
        )


def dense_bound(
    components: tuple[Component, ...],
    smoothness: int,
    problem: Problem,
    pseudo_places: Float[np.ndarray, "pseudo 1"],
    jitter: float = JITTER,
) -> DenseBound:
    """[eqn:saturated-bound-appendix] and the optimal posterior, with K_uu over all pseudo-points of all times."""
    times = np.unique(problem.times)
    pseudo = (np.repeat(times, len(pseudo_places)), np.tile(pseudo_places, (len(times), 1)))
    size = len(pseudo[0])
    factor = np.zeros((size * len(components),) * 2)
    for number, part in enumerate(components):
        block = slice(number * size, (number + 1) * size)
        covariance = prior_covariance(part, smoothness, *pseudo, *pseudo)
        factor[block, block] = cholesky(covariance + jitter * np.eye(size), lower=True)
    cross = np.concatenate(
        [prior_covariance(part, smoothness, *pseudo, problem.times, problem.places) for part in components]
    )
    whitened = solve_triangular(factor, cross, lower=True)
    scaled = whitened / problem.noise_variance
    inner = cho_factor(np.eye(len(factor)) + scaled @ whitened.T, lower=True)
    projected = scaled @ problem.values
    unexplained = sum(part.variance for part in components) - (whitened**2).sum(axis=0)
    quadratic = problem.values**2 @ (1 / problem.noise_variance) - projected @ cho_solve(inner, projected)
    log_det = 2 * np.log(np.diagonal(inner[0])).sum() + np.log(problem.noise_variance).sum()
    bound = -0.5 * (quadratic + log_det + problem.num_rows * np.log(2 * np.pi))
    bound -= 0.5 * (unexplained / problem.noise_variance).sum()
    return DenseBound(float(bound), components, smoothness, pseudo, factor, inner, projected)
