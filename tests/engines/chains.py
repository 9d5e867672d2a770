# SPDX-License-Identifier: MIT
"""Small series for the engines, given as dense problems; `for_engine` turns one into what an engine takes."""

import numpy as np

from tests.oracles.chain import Dense, Part
from weft.data.layout import Layout
from weft.state_space.chain import Chain, ComponentChain, Rows, State


def random_part(rng, num_latent, num_pseudo, num_steps):
    """A chain of no particular kernel: any contraction, any noise, and step 0 of length zero."""
    transition = rng.normal(size=(num_steps, num_latent, num_latent)) * 0.4 + 0.5 * np.eye(num_latent)
    transition[0] = np.eye(num_latent)
    noise = rng.normal(size=(num_steps, num_latent, num_latent))
    noise = 0.3 * noise @ noise.transpose(0, 2, 1) + 0.05 * np.eye(num_latent)
    noise[0] = 0.0
    factor = rng.normal(size=(num_latent, num_latent))
    readout = rng.normal(size=num_latent)
    if num_latent > 2:
        readout[1] = 0.0
    return Part(transition, noise, factor @ factor.T + 0.2 * np.eye(num_latent), readout, num_pseudo)


def matern(smoothness, lengthscale, steps, num_pseudo, variance=1.0):
    """Matern 1/2, 3/2 or 5/2 as a chain, in closed form; `steps` are the distinct steps, the first zero. Complex numbers pass through."""
    if smoothness == 0:
        rate = 1 / lengthscale
        transition = np.exp(-rate * steps)[:, None, None]
        noise = -np.expm1(-2 * rate * steps)[:, None, None]
        readout = np.ones(1) * np.sqrt(variance)
        return Part(transition, noise, np.ones((1, 1)) + 0 * rate, readout, num_pseudo, (1.0,))
    if smoothness == 1:
        rate = np.sqrt(3) / lengthscale
        transition = np.array(
            [np.exp(-rate * s) * np.array([[1 + rate * s, s], [-(rate**2) * s, 1 - rate * s]]) for s in steps]
        )
        initial = np.diag([1.0 + 0 * rate, rate**2])
        signs = (1.0, -1.0)
    else:
        rate = np.sqrt(5) / lengthscale
        drift = np.array([[0, 1, 0], [0, 0, 1], [-(rate**3), -3 * rate**2, -3 * rate]])
        shifted = drift + rate * np.eye(3)
        # The shifted drift is nilpotent: its exponential has three terms.
        transition = np.array(
            [np.exp(-rate * s) * (np.eye(3) + s * shifted + s**2 / 2 * shifted @ shifted) for s in steps]
        )
        initial = np.array([[1, 0, -(rate**2) / 3], [0, rate**2 / 3, 0], [-(rate**2) / 3, 0, rate**4]])
        signs = (1.0, -1.0, 1.0)
    noise = initial - transition @ initial @ np.swapaxes(transition, 1, 2)
    readout = np.zeros(len(signs), dtype=np.result_type(variance, float))
    readout[0] = np.sqrt(variance)
    return Part(transition, (noise + np.swapaxes(noise, 1, 2)) / 2, initial, readout, num_pseudo, signs)


def with_rows(rng, parts, counts, num_places, *, precision=(0.5, 20.0), step_number=None):
    """A series with so many rows at each time; places repeat, also within a time."""
    num_steps = len(parts[0].transition)
    if step_number is None:
        step_number = rng.integers(0, num_steps, len(counts))
        step_number[0] = 0
    total = int(np.sum(counts))
    return Dense(
        tuple(parts),
        step_number,
        rng.normal(size=(num_places, sum(part.num_pseudo for part in parts))) * 0.7,
        np.concatenate([[0], np.cumsum(counts)]),
        rng.integers(0, num_places, total),
        rng.normal(size=total),
        rng.uniform(*precision, total),
    )


def ragged(seed=0):
    """Two components with everything unequal; no rows at some times, fewer or more than the bottleneck at others."""
    rng = np.random.default_rng(seed)
    parts = [random_part(rng, 3, 2, 4), random_part(rng, 1, 4, 4)]
    return with_rows(rng, parts, [0, 3, 9, 0, 6, 1, 17, 5, 0], 11)


def stationary(seed=1, lengthscales=(2.0, 0.7), variances=(1.3, 0.6)):
    """Two Matern components on a ragged series, as a function of their parameters."""
    rng = np.random.default_rng(seed)
    steps = np.array([0.0, 0.3, 1.0, 5.0])
    parts = [
        matern(2, lengthscales[0], steps, 2, variances[0]),
        matern(1, lengthscales[1], steps, 3, variances[1]),
    ]
    step_number = np.array([0, 1, 3, 2, 1, 1, 2, 3, 2, 1])
    return with_rows(rng, parts, [2, 0, 7, 1, 4, 0, 5, 12, 3, 1], 9, step_number=step_number)


def for_engine(series):
    """chain, weights and rows as an engine takes them."""
    components = tuple(
        ComponentChain(part.transition, part.process_noise, part.initial, part.readout, part.num_pseudo, part.reversal)
        for part in series.parts
    )
    start = None if series.start is None else State(*series.start)
    chain = Chain(components, np.asarray(series.step_number), start)
    return chain, series.weights, Rows(Layout(series.offsets), series.place, series.value, series.precision)
