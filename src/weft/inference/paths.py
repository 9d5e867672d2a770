# SPDX-License-Identifier: MIT
"""The prior over whole series: joint draws of it, and covariances of weighted sums over it.

Both walk the chain once (covariances once forwards and once backwards), in NumPy, holding one state a draw or sum; neither builds a
covariance across times.
"""

import dataclasses
from collections.abc import Iterator

import numpy as np
from jaxtyping import Float, Int

from weft.state_space.chain import Chain, ComponentChain, Queries, Rows

# As much above 1 as rounding makes of it where entries are still worth something.
HIGHEST_CORRELATION = 1 + 1e-8


@dataclasses.dataclass(frozen=True)
class Seen:
    """Rows at which the field is read along a chain: which belong to which time, and the weights of their places."""

    offsets: Int[np.ndarray, " time_plus_one"]
    place: Int[np.ndarray, " row"]
    weights: Float[np.ndarray, "place bottleneck"]

    def at(self, time: int) -> tuple[slice, Float[np.ndarray, "row bottleneck"]]:
        mine = slice(self.offsets[time], self.offsets[time + 1])
        return mine, self.weights[self.place[mine]]


def seen_rows(rows: Rows, weights: object) -> Seen:
    return Seen(rows.layout.offsets, np.asarray(rows.place), np.asarray(weights))


def seen_queries(queries: Queries) -> Seen:
    return Seen(queries.layout.offsets, np.asarray(queries.place), np.asarray(queries.weights))


class _Part:
    """One component's matrices in NumPy, with its columns of the bottleneck."""

    def __init__(self, component: ComponentChain, first: int):
        self.transition = np.asarray(component.transition)
        self.process_noise = np.asarray(component.process_noise)
        self.initial = np.asarray(component.initial)
        self.readout = np.asarray(component.readout)
        self.columns = slice(first, first + component.num_pseudo)
        self.num_pseudo = component.num_pseudo


def _parts(chain: Chain) -> list[_Part]:
    starts = np.cumsum([0, *(component.num_pseudo for component in chain.components)])
    return [_Part(component, int(first)) for component, first in zip(chain.components, starts, strict=False)]


def square_root(covariance: Float[np.ndarray, "... size size"]) -> Float[np.ndarray, "... size size"]:
    """R with R R' = covariance, also where that is singular (a static component, a step of length zero).

    Deviations times the symmetric root of the correlations, of which there is one, whatever signs and order a processor's routines give
    eigenvectors: a seed has the same draws on every machine.
    Each entry is right to the rounding of its own size: of a level and a slope over 1e9 seconds, variances differ by 1e18,
    and eigenvectors of the covariance itself would leave the slope nothing but the rounding of the level. What has no variance has no
    covariance either, and no correlation exceeds 1: where a covariance is the rounding of larger ones, its own entries need not agree.
    """
    variance = np.diagonal(covariance, axis1=-2, axis2=-1)
    varies = variance > 0
    deviation = np.sqrt(np.where(varies, variance, 1.0))
    correlation = covariance / deviation[..., :, None] / deviation[..., None, :]
    correlation = np.where(varies[..., :, None] & varies[..., None, :], correlation, 0.0)
    values, vectors = np.linalg.eigh(np.clip(correlation, -HIGHEST_CORRELATION, HIGHEST_CORRELATION))
    root = (vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]) @ np.swapaxes(vectors, -1, -2)
    return deviation[..., :, None] * root


def draw_prior(
    chain: Chain, seen: tuple[Seen, ...], num: int, rng: np.random.Generator
) -> tuple[Float[np.ndarray, "_ draw"], ...]:
    """`num` joint draws of f = weights . z at every row of each of `seen`."""
    step_number = np.asarray(chain.step_number)
    outputs = tuple(np.empty((len(each.place), num)) for each in seen)
    parts = _parts(chain)
    roots = [square_root(part.process_noise) for part in parts]
    states = _draw_start(chain, parts, num, rng)
    for time, step in enumerate(step_number):
        if time > 0:
            for number, (part, root) in enumerate(zip(parts, roots, strict=True)):
                fresh = rng.standard_normal((len(part.readout), part.num_pseudo * num))
                states[number] = part.transition[step] @ states[number] + root[step] @ fresh
        if not any(each.offsets[time] < each.offsets[time + 1] for each in seen):
            continue
        bottleneck = np.concatenate(
            [(part.readout @ state).reshape(part.num_pseudo, num) for part, state in zip(parts, states, strict=True)]
        )
        for each, output in zip(seen, outputs, strict=True):
            mine, weights = each.at(time)
            output[mine] = weights @ bottleneck
    return outputs


def _draw_start(chain: Chain, parts: list[_Part], num: int, rng: np.random.Generator) -> list[np.ndarray]:
    """State of each component as [latent, pseudo * draw]."""
    if chain.start is None:
        return [
            square_root(part.initial) @ rng.standard_normal((len(part.readout), part.num_pseudo * num))
            for part in parts
        ]
    whole = np.asarray(chain.start.mean)[:, None] + square_root(
        np.asarray(chain.start.covariance)
    ) @ rng.standard_normal((chain.num_state, num))
    sizes = [len(part.readout) * part.num_pseudo for part in parts]
    blocks = np.split(whole, np.cumsum(sizes)[:-1])
    return [block.reshape(len(part.readout), part.num_pseudo * num) for block, part in zip(blocks, parts, strict=True)]


def covariance_with_sums(
    chain: Chain, summed: Seen, sums: Float[np.ndarray, "summed sum"], seen: tuple[Seen, ...]
) -> tuple[Float[np.ndarray, "_ sum"], ...]:
    """Prior covariance of f at every row of each of `seen` with weighted sums of f over the rows of `summed`.

    Cov(x_t, x_s) = A(s -> t) P_s for t >= s, so rows before t reach it by a forward walk and rows after it by a backward one.
    """
    outputs = tuple(np.zeros((len(each.place), sums.shape[1])) for each in seen)
    parts = _parts(chain)
    walks = [_walk_forward(part, chain, summed, sums) for part in parts]
    _collect(parts, walks, seen, outputs)
    walks = [_walk_backward(part, chain, summed, sums) for part in parts]
    _collect(parts, walks, seen, outputs)
    return outputs


def _collect(
    parts: list[_Part],
    walks: list[Iterator[tuple[int, np.ndarray]]],
    seen: tuple[Seen, ...],
    outputs: tuple[np.ndarray, ...],
) -> None:
    for part, walk in zip(parts, walks, strict=True):
        for time, covariance in walk:
            for each, output in zip(seen, outputs, strict=True):
                mine, weights = each.at(time)
                if mine.start < mine.stop:
                    output[mine] += weights[:, part.columns] @ covariance


def _marginal_covariances(part: _Part, chain: Chain) -> Iterator[np.ndarray]:
    """Prior covariance of the latent vector at each time: the initial one carried along (it stays put if stationary)."""
    covariance = part.initial
    for time, step in enumerate(np.asarray(chain.step_number)):
        if time > 0:
            covariance = part.transition[step] @ covariance @ part.transition[step].T + part.process_noise[step]
        yield covariance


def _loading(part: _Part, summed: Seen, sums: np.ndarray, time: int) -> np.ndarray | None:
    """What the sums put on this component's bottleneck at a time: [pseudo, sum]."""
    mine, weights = summed.at(time)
    return None if mine.start == mine.stop else weights[:, part.columns].T @ sums[mine]


def _walk_forward(part: _Part, chain: Chain, summed: Seen, sums: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """At each time, covariance of the bottleneck with the sums over rows up to and including that time."""
    latent, pseudo, num = len(part.readout), part.num_pseudo, sums.shape[1]
    state = np.zeros((latent, pseudo * num))
    for time, (step, covariance) in enumerate(
        zip(np.asarray(chain.step_number), _marginal_covariances(part, chain), strict=True)
    ):
        if time > 0:
            state = part.transition[step] @ state
        loading = _loading(part, summed, sums, time)
        if loading is not None:
            state = state + np.multiply.outer(covariance @ part.readout, loading.reshape(-1))
        yield time, (part.readout @ state).reshape(pseudo, num)


def _walk_backward(part: _Part, chain: Chain, summed: Seen, sums: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """At each time, last to first, covariance of the bottleneck with the sums over later rows."""
    latent, pseudo, num = len(part.readout), part.num_pseudo, sums.shape[1]
    step_number = np.asarray(chain.step_number)
    covariances = list(_marginal_covariances(part, chain))
    adjoint = np.zeros((latent, pseudo * num))
    for time in range(len(step_number) - 1, -1, -1):
        yield time, ((part.readout @ covariances[time]) @ adjoint).reshape(pseudo, num)
        loading = _loading(part, summed, sums, time)
        if loading is not None:
            adjoint = adjoint + np.multiply.outer(part.readout, loading.reshape(-1))
        adjoint = part.transition[step_number[time]].T @ adjoint
