# SPDX-License-Identifier: MIT
"""A chain whose components stand at the same places, by `places`: the log normaliser of its rows with its slopes."""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from weft.engines.cpu.blas import ROUTINES
from weft.engines.cpu.compiled import place_kernel
from weft.engines.cpu.places import AtPlaces, KeptAtPlaces, PlaceSlopes, PlaceWork
from weft.engines.cpu.problem import FilterFailure
from weft.engines.cpu.series import ComponentGradient, readout_slopes
from weft.engines.cpu.shelf import LINE
from weft.engines.cpu.sweeps import SHELF
from weft.engines.cpu.threads import single_blas_thread
from weft.engines.cpu.triangular import BLOCK
from weft.state_space.chain import ComponentChain

__all__ = ["SharedPlaces", "fits_in_memory", "value_and_slopes_at_places"]

# Of what is kept of every time for the way back.
MOST_BYTES = 256 * 2**20


class SharedPlaces(NamedTuple):
    """Slopes of a log normaliser: component by component in the chain and in the covariance of the places, and in each row's noise.

    `pull` is by how much each row differs from f as all rows tell it, by the variance of its noise.
    """

    components: list[ComponentGradient]
    covariances: list[Float[np.ndarray, "place place"]]
    noise: Float[np.ndarray, "time place"]
    pull: Float[np.ndarray, "time place"]


def fits_in_memory(num_times: int, num_places: int, num_latent: int) -> bool:
    return 8 * num_times * sum(_kept_lengths(num_places, num_latent)) <= MOST_BYTES


def value_and_slopes_at_places(
    chains: Sequence[ComponentChain],
    covariances: Sequence[Float[np.ndarray, "place place"]],
    step_number: Int[np.ndarray, " time"],
    values: Float[np.ndarray, "time place"],
    precision: Float[np.ndarray, "time place"],
) -> tuple[float, SharedPlaces]:
    """Of rows with these values and precisions, zero where there is no row; `step_number` says which step leads to a time."""
    problem = _make_problem(chains, covariances, step_number, values, precision)
    num_times, num_places, num_latent = len(values), problem.num_places, len(problem.readout)
    lengths = [num_times * length for length in _kept_lengths(num_places, num_latent)]
    scratch = _work_lengths(num_places, num_latent)
    memory = SHELF.take(sum(lengths) + sum(scratch))
    parts = [
        memory[first:last] for first, last in itertools.pairwise(itertools.accumulate(lengths + scratch, initial=0))
    ]
    gain, inner, pull, moved, mean = parts[: len(lengths)]
    present, count = np.empty(num_times * num_places, dtype=np.int32), np.empty(num_times, dtype=np.int32)
    kept = KeptAtPlaces(gain, inner, pull, present, count, moved, mean)
    slopes = PlaceSlopes(
        np.zeros_like(problem.transition),
        np.zeros_like(problem.process_noise),
        np.zeros_like(problem.initial),
        np.zeros_like(problem.covariance),
        np.zeros_like(problem.root),
        np.zeros_like(problem.root),
    )
    with single_blas_thread():
        total, broken = place_kernel()(problem, kept, PlaceWork(*parts[len(lengths) :]), slopes)
    SHELF.give_back(memory)
    if broken >= 0:
        raise FilterFailure(
            f"the filter broke down at time step {broken} of {num_times}: the covariance there is no longer positive or finite; likely "
            "causes are a noise variance too small for the signal, or parameters that overflow"
        )
    components = []
    square = (num_latent, num_latent)
    transition, process_noise = (getattr(slopes, name).reshape(-1, *square) for name in ("transition", "process_noise"))
    for chain, own in zip(chains, _spans(chains), strict=True):
        of_initial = slopes.initial.reshape(square)[own, own]
        of_transition, of_noise = transition[:, own, own], process_noise[:, own, own]
        readout = readout_slopes(chain, of_transition, of_noise, of_initial)
        components.append(ComponentGradient(of_transition, of_noise, of_initial, readout))
    of_places = list(slopes.covariance.reshape(len(chains), num_places, num_places))
    noise, pull = slopes.noise.reshape(values.shape), slopes.pull.reshape(values.shape)
    return float(total), SharedPlaces(components, of_places, noise, pull)


def _make_problem(
    chains: Sequence[ComponentChain],
    covariances: Sequence[Float[np.ndarray, "place place"]],
    step_number: Int[np.ndarray, " time"],
    values: Float[np.ndarray, "time place"],
    precision: Float[np.ndarray, "time place"],
) -> AtPlaces:
    spans = _spans(chains)
    num_latent, num_steps = spans[-1].stop, len(chains[0].transition)
    transition, process_noise = np.zeros((2, num_steps, num_latent, num_latent))
    initial, readout = np.zeros((num_latent, num_latent)), np.zeros(num_latent)
    component = np.zeros(num_latent, dtype=np.int64)
    for number, (chain, own) in enumerate(zip(chains, spans, strict=True)):
        transition[:, own, own], process_noise[:, own, own] = chain.transition, chain.process_noise
        initial[own, own], readout[own], component[own] = chain.initial, chain.readout, number
    return AtPlaces(
        routines=ROUTINES,
        num_places=values.shape[1],
        component=component,
        readout=readout,
        transition=transition.reshape(-1),
        process_noise=process_noise.reshape(-1),
        initial=initial.reshape(-1),
        covariance=np.stack(covariances).reshape(-1),
        step=np.asarray(step_number, dtype=np.int64),
        root=np.sqrt(precision).reshape(-1),
        values=np.ascontiguousarray(values).reshape(-1),
    )


def _spans(chains: Sequence[ComponentChain]) -> list[slice]:
    """Where the latent dimensions of each component are."""
    edges = itertools.accumulate((len(chain.readout) for chain in chains), initial=0)
    return [slice(first, last) for first, last in itertools.pairwise(edges)]


def _kept_lengths(num_places: int, num_latent: int) -> list[int]:
    """Numbers kept of one time, in the order of the fields of `KeptAtPlaces` that have any."""
    size = num_places * num_latent
    return [num_places * size, num_places**2, num_places, size**2, size]


def _work_lengths(num_places: int, num_latent: int) -> list[int]:
    """Numbers of the fields of `PlaceWork`, in lines of the cache; short loops look a little beyond the end."""
    size = num_places * num_latent
    lengths = [size**2, max(size**2, num_places * size), num_places * size, num_places**2]
    lengths += [(num_places + BLOCK) * BLOCK, BLOCK * size, size, size, num_places]
    return [(-(-length // LINE) + 1) * LINE for length in lengths]
