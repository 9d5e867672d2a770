# SPDX-License-Identifier: MIT
"""The whitened prior of a model at given times, as a Markov chain."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from weft.arrays import AnyArray
from weft.state_space.chain import Chain, ComponentChain
from weft.kernels.separable import Separable


class TimeGrid(eqx.Module):
    """Sorted times by their distinct steps; number 0 is always the step of length zero that leads to the first time."""

    first: Float[AnyArray, ""]
    steps: Float[AnyArray, " step"]
    step_number: Int[AnyArray, " time"]


def time_grid(times: Float[np.ndarray, " time"]) -> TimeGrid:
    """The grid of sorted, distinct `times`; regular series have one step however long they are."""
    steps, number = np.unique(np.concatenate([np.zeros(1), np.diff(times)]), return_inverse=True)
    return TimeGrid(first=np.asarray(times[0]), steps=steps, step_number=number.astype(np.int32))


def make_chain(components: tuple[Separable, ...], num_pseudo: tuple[int, ...], grid: TimeGrid) -> Chain:
    """The chain of [eqn:lgssm-sum-separable], whitened: its noise acts on each pseudo-point independently."""
    return Chain(
        components=tuple(
            component_chain(component, pseudo, grid) for component, pseudo in zip(components, num_pseudo, strict=True)
        ),
        step_number=grid.step_number,
    )


def component_chain(component: Separable, num_pseudo: int, grid: TimeGrid) -> ComponentChain:
    form = component.time.state_space()
    steps = jnp.asarray(grid.steps)
    return ComponentChain(
        transition=jax.vmap(form.transition)(steps),
        process_noise=jax.vmap(form.process_noise)(steps),
        initial=form.covariance(jnp.asarray(grid.first)),
        readout=form.readout,
        num_pseudo=num_pseudo,
        reversal=form.reversal,
    )


def time_variances(component: Separable, times: Float[AnyArray, " time"]) -> Float[Array, " time"]:
    """Variance of the component's time process at each time, by its state-space form (which may approximate its kernel)."""
    form = component.time.state_space()
    return jax.vmap(lambda time: form.readout @ form.covariance(time) @ form.readout)(jnp.asarray(times))
