# SPDX-License-Identifier: MIT
"""Linear Markov chains in 200 digits, from their stochastic differential equation, by matrix exponentials."""

import mpmath as mp
import numpy as np

DIGITS = 200


def companion(order):
    """The Matern equation (d/dt + 1)^(order + 1) f = noise, as a first-order system in f and its derivatives."""
    size = order + 1
    drift = mp.zeros(size)
    for i in range(order):
        drift[i, i + 1] = 1
    for j in range(size):
        drift[order, j] = -mp.binomial(size, j)
    return drift


def damped_chain(rates, damping):
    """Neighbours that drive each other in opposite directions, the last one damped."""
    size = len(rates) + 1
    drift = mp.zeros(size)
    for k, rate in enumerate(rates):
        drift[k, k + 1], drift[k + 1, k] = mp.mpf(rate), -mp.mpf(rate)
    drift[size - 1, size - 1] = -mp.mpf(damping)
    return drift


def stationary(drift):
    """P of F P + P F' + q e e' = 0, noise in the last state only, scaled to P[0, 0] = 1, by its linear equations."""
    with mp.workdps(DIGITS):
        size = drift.rows
        system, right = mp.zeros(size**2), mp.zeros(size**2, 1)
        for i in range(size):
            for j in range(size):
                for k in range(size):
                    system[size * i + j, size * k + j] += drift[i, k]
                    system[size * i + j, size * i + k] += drift[j, k]
        right[size**2 - 1] = -1
        entries = mp.lu_solve(system, right)
        unscaled = mp.matrix(size)
        for i in range(size):
            for j in range(size):
                unscaled[i, j] = entries[size * i + j]
        return unscaled / unscaled[0, 0]


def exponential(matrix):
    """exp(matrix), by halving until it is small, its series, and squaring."""
    with mp.workdps(DIGITS):
        halvings = max(0, int(mp.ceil(mp.log(mp.mnorm(matrix, 1) + mp.mpf(10) ** -DIGITS, 2))) + 8)
        small = matrix / 2**halvings
        term = total = mp.eye(matrix.rows)
        power = 0
        while mp.mnorm(term, 1) > mp.mpf(10) ** -DIGITS:
            power += 1
            term = term * small / power
            total = total + term
        for _ in range(halvings):
            total = total * total
        return total


def step_matrices(drift, covariance, u):
    """Transition over `u` and its process noise P - A P A', whose cancellation 200 digits can afford."""
    with mp.workdps(DIGITS):
        transition = exponential(drift * u)
        return transition, covariance - transition * covariance * transition.T


def step_derivatives(drift, covariance, u):
    """Derivatives of both in u, by a difference over a step so short that it is right to 30 digits."""
    with mp.workdps(DIGITS):
        width = mp.mpf(10) ** -40
        after = step_matrices(drift, covariance, u + width)
        before = step_matrices(drift, covariance, u - width)
        return tuple((late - early) / (2 * width) for late, early in zip(after, before, strict=True))


def kronecker(first, second):
    product = mp.zeros(first.rows * second.rows)
    with mp.workdps(DIGITS):
        for i in range(product.rows):
            for j in range(product.cols):
                product[i, j] = first[i // second.rows, j // second.cols] * second[i % second.rows, j % second.cols]
    return product


def relative_error(values, exact, beside=None):
    """Largest |value - exact| / |exact| over entries, or / `beside`; absolute where that is zero or would underflow."""
    errors = [0.0]
    for i in range(exact.rows):
        for j in range(exact.cols):
            value, reference = mp.mpf(float(values[i, j])), exact[i, j]
            scale = abs(reference) if beside is None else beside
            errors.append(float(abs(value - reference) / (scale if scale > 1e-290 else 1)))
    return max(errors)


def as_array(matrix):
    return np.array([[float(matrix[i, j]) for j in range(matrix.cols)] for i in range(matrix.rows)])
