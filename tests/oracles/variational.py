# SPDX-License-Identifier: MIT
"""A dense variational Gaussian process: a full Gaussian over everything the rows see, found by a general optimiser.

Plain NumPy and SciPy, from the definition. With the explained covariance of the rows as R R' and f = R v + what is unexplained, the
approximation is q(v) = N(mean, L L') with any mean and any lower triangular L (Titsias 2009, Hensman et al. 2015):

    bound = sum_n E log p(y_n | f_n) - KL(q(v) || N(0, I)).

Nothing is assumed about the form of the optimum.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, gammaln, log_ndtr

from tests.oracles import dense

# Nodes of the trapezoidal rule over the standard normal, which converges exponentially.
NODES = np.linspace(-9.0, 9.0, 361)
WEIGHTS = np.exp(-(NODES**2) / 2) / np.sqrt(2 * np.pi) * (NODES[1] - NODES[0])


@dataclass
class LogDensity:
    """log p(y | f) of rows side by side, and its derivative in f."""

    value: Callable[[np.ndarray], np.ndarray]
    slope: Callable[[np.ndarray], np.ndarray]


def poisson(y, exposure=1.0):
    return LogDensity(
        lambda f: y * (f + np.log(exposure)) - exposure * np.exp(f) - gammaln(y + 1), lambda f: y - exposure * np.exp(f)
    )


def bernoulli(y):
    return LogDensity(lambda f: -np.logaddexp(0, (1 - 2 * y) * f), lambda f: y - expit(f))


def negative_binomial(y, dispersion, exposure=1.0):
    def log_odds(f):
        return f + np.log(exposure / dispersion)

    def value(f):
        constant = gammaln(y + dispersion) - gammaln(dispersion) - gammaln(y + 1)
        return constant + y * log_odds(f) - (y + dispersion) * np.logaddexp(0, log_odds(f))

    return LogDensity(value, lambda f: y - (y + dispersion) * expit(log_odds(f)))


def student_t(y, scale, df):
    def value(f):
        constant = gammaln((df + 1) / 2) - gammaln(df / 2) - np.log(np.pi * df) / 2 - np.log(scale)
        return constant - (df + 1) / 2 * np.log1p(((y - f) / scale) ** 2 / df)

    return LogDensity(value, lambda f: (df + 1) * (y - f) / (df * scale**2 + (y - f) ** 2))


def gaussian(y, variance):
    return LogDensity(
        lambda f: -(np.log(2 * np.pi * variance) + (y - f) ** 2 / variance) / 2, lambda f: (y - f) / variance
    )


def _hazard(x):
    """The derivative of log_ndtr."""
    return np.exp(-(x**2) / 2 - np.log(2 * np.pi) / 2 - log_ndtr(x))


def tobit(y, variance, lower, upper):
    """Rows are exact, at or below their lower limit, at or above their upper one, or between the two."""
    sd = np.sqrt(variance)
    below, above = y <= lower, y >= upper
    low, high = np.where(below, lower, 0.0), np.where(above, upper, 0.0)
    exact = gaussian(y, variance)

    def log_inside(f):
        # From the side where both probabilities are small.
        ends = np.stack(np.broadcast_arrays(np.where(below & above, high, -1.0), np.where(below & above, low, 1.0)))
        x = (ends - f[..., None, :]) / sd
        x = np.where(x.sum(axis=-2, keepdims=True) > 0, -x[..., ::-1, :], x)
        smaller, larger = log_ndtr(x[..., 0, :]), log_ndtr(x[..., 1, :])
        return larger + np.log(-np.expm1(smaller - larger))

    def value(f):
        between = log_inside(f)
        one_sided = np.where(
            below, log_ndtr((low - f) / sd), np.where(above, log_ndtr((f - high) / sd), exact.value(f))
        )
        return np.where(below & above, between, one_sided)

    def slope(f):
        log_densities = [-(((end - f) / sd) ** 2) / 2 - np.log(2 * np.pi) / 2 for end in (high, low)]
        first, second = (np.exp(np.where(below & above, each - log_inside(f), 0.0)) for each in log_densities)
        between = (first - second) / sd
        to_left, to_right = -_hazard((low - f) / sd) / sd, _hazard((f - high) / sd) / sd
        return np.where(below & above, between, np.where(below, to_left, np.where(above, to_right, exact.slope(f))))

    return LogDensity(value, slope)


def rain(y, variance, power):
    """max(f + noise, 0)^power."""
    sd, dry = np.sqrt(variance), y == 0
    amount = np.where(dry, 1.0, y)
    wet = gaussian(amount ** (1 / power), variance)
    stretch = (1 / power - 1) * np.log(amount) - np.log(power)
    return LogDensity(
        lambda f: np.where(dry, log_ndtr(-f / sd), wet.value(f) + stretch),
        lambda f: np.where(dry, -_hazard(-f / sd) / sd, wet.slope(f)),
    )


def expectations(density, mean, variance):
    """E log p and its derivatives in mean and variance, one a row."""
    deviation = np.sqrt(variance)
    f = mean + deviation * NODES[:, None]
    slopes = density.slope(f)
    return WEIGHTS @ density.value(f), WEIGHTS @ slopes, (WEIGHTS * NODES) @ slopes / (2 * deviation)


@dataclass
class Solution:
    """The optimum: the bound, and q(v); `basis` turns covariances with the rows into weights on v."""

    bound: float
    mean: np.ndarray
    factor: np.ndarray
    basis: np.ndarray
    problem: dense.Problem


def solve(problem: dense.Problem, density: LogDensity, start: Solution | None = None) -> Solution:
    """The best q(v) for the rows present, of which `density` knows the values; `problem`'s own noise is not used."""
    p = problem.present()
    rows = (p.times, p.places)
    explained = dense.total(dense.explained, p.components, *rows, *rows, np.unique(problem.times))
    unexplained = np.maximum(np.diagonal(dense.total(dense.prior, p.components, *rows, *rows) - explained), 0.0)
    eigenvalues, vectors = np.linalg.eigh((explained + explained.T) / 2)
    kept = eigenvalues > 1e-13 * eigenvalues.max()
    basis = vectors[:, kept] / np.sqrt(eigenvalues[kept])
    weights = explained @ basis
    size = weights.shape[1]
    lower = np.tril_indices(size)
    on_diagonal = lower[0] == lower[1]

    def unpack(flat):
        factor = np.zeros((size, size))
        factor[lower] = flat[size:]
        return flat[:size], factor

    def negative_bound(flat):
        mean, factor = unpack(flat)
        projected = weights @ factor
        value, in_mean, in_variance = expectations(density, weights @ mean, (projected**2).sum(axis=1) + unexplained)
        diagonal = np.diagonal(factor)
        divergence = ((factor**2).sum() + mean @ mean - size) / 2 - np.log(np.abs(diagonal)).sum()
        of_factor = (weights.T @ (2 * in_variance[:, None] * projected) - factor)[lower]
        of_factor[on_diagonal] += 1 / diagonal
        return divergence - value.sum(), -np.concatenate([weights.T @ in_mean - mean, of_factor])

    flat = (
        np.concatenate([np.zeros(size), np.eye(size)[lower]])
        if start is None
        else np.concatenate([start.mean, start.factor[lower]])
    )
    for _ in range(3):
        options = {"maxiter": 5000, "maxfun": 10000, "maxcor": 100, "ftol": 0.0, "gtol": 1e-9}
        flat = minimize(negative_bound, flat, jac=True, method="L-BFGS-B", options=options).x
    mean, factor = unpack(flat)
    return Solution(-negative_bound(flat)[0], mean, factor, basis, problem)


def marginals(solution: Solution, times: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of f at new rows."""
    p = solution.problem.present()
    across = dense.total(
        dense.explained, p.components, times, places, p.times, p.places, np.unique(solution.problem.times)
    )
    weights = across @ solution.basis
    prior = np.diagonal(dense.total(dense.prior, p.components, times, places, times, places))
    return weights @ solution.mean, prior - (weights**2).sum(axis=1) + ((weights @ solution.factor) ** 2).sum(axis=1)
