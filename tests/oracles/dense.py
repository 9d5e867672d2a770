# SPDX-License-Identifier: MIT
"""Dense Gaussian processes and pseudo-point approximations, straight from their definitions, in plain NumPy.

Everything is written with analytic functions only (no conjugates, no absolute values, LU instead of Cholesky), so that a complex
step gives derivatives to rounding: f'(x) = Im f(x + ih) / h with h = 1e-30 (Squire & Trapp 1998).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from math import gamma

import numpy as np

COMPLEX_STEP = 1e-30

# --- covariances -------------------------------------------------------------------------------------------------------------


def distance_squared(x, y, lengthscale):
    difference = (x[:, None, :] - y[None, :, :]) / lengthscale
    return (difference**2).sum(axis=-1)


def root(r2):
    """Distance from its square, with derivative 0 where points coincide (where every kernel here is smooth enough)."""
    same = r2 == 0
    return np.where(same, 0.0, np.sqrt(np.where(same, 1.0, r2)))


def eq(x, y, lengthscale):
    return np.exp(-distance_squared(x, y, lengthscale) / 2)


def matern12(x, y, lengthscale):
    return np.exp(-root(distance_squared(x, y, lengthscale)))


def matern32(x, y, lengthscale):
    a = np.sqrt(3) * root(distance_squared(x, y, lengthscale))
    return (1 + a) * np.exp(-a)


def matern52(x, y, lengthscale):
    a = np.sqrt(5) * root(distance_squared(x, y, lengthscale))
    return (1 + a + a**2 / 3) * np.exp(-a)


def matern72(x, y, lengthscale):
    a = np.sqrt(7) * root(distance_squared(x, y, lengthscale))
    return (1 + a + 2 * a**2 / 5 + a**3 / 15) * np.exp(-a)


def cosine(x, y, period):
    return np.cos(2 * np.pi * (x[:, None, 0] - y[None, :, 0]) / period)


def constant(x, y):
    return np.ones((len(x), len(y)))


def linear(x, y):
    return x @ y.T


def wiener(x, y):
    return np.minimum(x[:, None, 0], y[None, :, 0])


def waves(x, y, density, lengthscale, extent, reach, order):
    """What waves over a box explain of a stationary kernel: sum_j S(2 pi j / P) / prod P cos(2 pi j . (x - y) / P), j by j."""
    period = extent + reach * lengthscale
    total = 0.0
    for wave in product(*(range(-number, number + 1) for number in order)):
        if sum((j / number) ** 2 for j, number in zip(wave, order, strict=True)) <= 1 + 1e-9:
            frequency = 2 * np.pi * np.array(wave) / period
            share = density(((frequency * lengthscale) ** 2).sum()) * (lengthscale / period).prod()
            total = total + share * np.cos(((x[:, None, :] - y[None, :, :]) * frequency).sum(axis=-1))
    return total


def eq_density(squared):
    """In two dimensions (Rasmussen & Williams 2006, eq. 4.11), of unit length scale, at a squared angular frequency."""
    return 2 * np.pi * np.exp(-squared / 2)


def matern32_density(squared):
    """In two dimensions (Rasmussen & Williams 2006, eq. 4.15), of unit length scale, at a squared angular frequency."""
    return 4 * np.pi * gamma(2.5) * 3**1.5 / gamma(1.5) * (3 + squared) ** -2.5


# --- models ------------------------------------------------------------------------------------------------------------------

Covariance = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass
class Component:
    """One separable component; no pseudo-points means that it is treated exactly, unless what of `space` is explained is said."""

    variance: complex
    space: Covariance
    time: Covariance
    pseudo_points: np.ndarray | None
    explained_space: Covariance | None = None


@dataclass
class Problem:
    components: list[Component]
    noise_variance: np.ndarray
    times: np.ndarray
    places: np.ndarray
    values: np.ndarray

    def present(self) -> "Problem":
        """Without the missing rows."""
        kept = ~np.isnan(np.real(self.values))
        return Problem(
            self.components, self.noise_variance[kept], self.times[kept], self.places[kept], self.values[kept]
        )


def prior(component, times, places, other_times, other_places):
    k_time = component.time(times[:, None], other_times[:, None])
    return component.variance * component.space(places, other_places) * k_time


def explained(component, times, places, other_times, other_places, pseudo_times):
    """K_xu K_uu^-1 K_uy with pseudo-points at pseudo_points x pseudo_times."""
    if component.explained_space is not None:
        return prior(replace(component, space=component.explained_space), times, places, other_times, other_places)
    if component.pseudo_points is None:
        return prior(component, times, places, other_times, other_places)
    z = np.repeat(component.pseudo_points, len(pseudo_times), axis=0)
    t = np.tile(pseudo_times, len(component.pseudo_points))
    k_xu = prior(component, times, places, t, z)
    k_uy = prior(component, t, z, other_times, other_places)
    return k_xu @ np.linalg.solve(prior(component, t, z, t, z), k_uy)


def total(function, components, *args):
    return sum(function(component, *args) for component in components)


def log_normal(values, covariance):
    """Log N(values; 0, covariance); analytic, unlike one by absolute values."""
    sign, log_abs = np.linalg.slogdet(covariance)
    log_det = log_abs + np.log(sign)
    return -0.5 * (values @ np.linalg.solve(covariance, values) + log_det + len(values) * np.log(2 * np.pi))


def log_marginal_likelihood(problem):
    p = problem.present()
    rows = (p.times, p.places)
    return log_normal(p.values, total(prior, p.components, *rows, *rows) + np.diag(p.noise_variance))


def power_ep(problem, power, correction=True):
    """Titsias' bound at power 0, FITC at 1 (Bui, Yan & Turner 2017); DTC at 0 without the correction."""
    p = problem.present()
    rows = (p.times, p.places)
    q_ff = total(explained, p.components, *rows, *rows, np.unique(problem.times))
    rest = np.diagonal(total(prior, p.components, *rows, *rows) - q_ff)
    value = log_normal(p.values, q_ff + np.diag(p.noise_variance + power * rest))
    if not correction:
        return value
    if power == 0:
        return value - (rest / p.noise_variance).sum() / 2
    return value - (1 - power) / (2 * power) * np.log(1 + power * rest / p.noise_variance).sum()


def posterior(problem, times, places, power=0.0, only=None):
    """Joint mean and covariance of f at new rows under the approximate posterior; of one component with `only`."""
    p = problem.present()
    rows, new, pseudo_times = (p.times, p.places), (times, places), np.unique(problem.times)
    asked = p.components if only is None else [p.components[only]]
    q_ff = total(explained, p.components, *rows, *rows, pseudo_times)
    rest = np.diagonal(total(prior, p.components, *rows, *rows) - q_ff)
    q_nf = total(explained, asked, *new, *rows, pseudo_times)
    gain = np.linalg.solve(q_ff + np.diag(p.noise_variance + power * rest), q_nf.T).T
    return gain @ p.values, total(prior, asked, *new, *new) - gain @ q_nf.T


def gradient(function, parameters):
    """Gradient of an analytic `function` of a flat real vector, by complex steps."""
    parameters = np.asarray(parameters, dtype=float)
    out = np.empty(len(parameters))
    for i in range(len(parameters)):
        stepped = parameters.astype(complex)
        stepped[i] += 1j * COMPLEX_STEP
        out[i] = np.imag(function(stepped)) / COMPLEX_STEP
    return out
