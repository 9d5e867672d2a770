# SPDX-License-Identifier: MIT
"""Small samples of rows, dense and stacked: what a candidate for a model is tried on, at a price that does not depend on the table.

A sample has a few tens of places, half of them a neighbourhood (which tells short range), half scattered (which tells
long range), at a few times: some that follow each other, the others at growing distances. All samples are of one size,
padded with rows that are not there, so that one compilation serves every sample of every table.
"""

from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from weft.arrays import AnyArray
from weft.data.observations import Observations, places_repeat
from weft.kernels import Kernel
from weft.likelihoods import Gaussian
from weft.model import Model

__all__ = ["LeftOut", "Stack", "choose_rows", "leave_out", "log_evidence_of", "sample_rows", "stack_rows"]

NUM_ROWS = 200
NUM_PLACES = 20
_ROUND = 10
_CHOICE = 5
# The furthest times of a sample are so many steps apart, if the series is as long.
_LONGEST = 200


class Stack(NamedTuple):
    """Samples of rows, one behind the other; `present` is False where a row only fills up.

    Kernels are evaluated on a sample's distinct times and places, `time` and `place` say which are a row's.
    """

    times: Float[np.ndarray, "sample distinct_time"]
    places: Float[np.ndarray, "sample distinct_place dim"]
    time: Int[np.ndarray, "sample row"]
    place: Int[np.ndarray, "sample row"]
    values: Float[np.ndarray, "sample row"]
    noise_variance: Float[np.ndarray, "sample row"]
    present: Bool[np.ndarray, "sample row"]

    @property
    def num_rows(self) -> int:
        return int(self.present.sum())


class LeftOut(NamedTuple):
    """Rows predicted without themselves, and without any row of their place: errors and deviations, noise included."""

    row_error: Float[np.ndarray, " row"]
    row_sd: Float[np.ndarray, " row"]
    place_error: Float[np.ndarray, " row"]
    place_sd: Float[np.ndarray, " row"]


def sample_rows(
    data: Observations, num_samples: int, *, num_space: int, seed: int, periods: Sequence[float] = ()
) -> Stack:
    """Samples of `data`, half around a place and half scattered, spread evenly over the series.

    With `periods`, in steps between times, every fourth sample is of times whole periods apart.
    """
    return stack_rows(data, choose_rows(data, num_samples, num_space=num_space, seed=seed, periods=periods))


def choose_rows(
    data: Observations, num_samples: int, *, num_space: int, seed: int, periods: Sequence[float] = ()
) -> list[Int[np.ndarray, " _"]]:
    """The numbers of the rows of each sample, at most `NUM_ROWS`."""
    generator = np.random.default_rng(seed)
    plain = _lags(data)
    seasonal = [lags for period in periods if (lags := _seasonal_lags(len(data.times), period)) is not None]
    chosen = []
    for number in range(num_samples):
        lags = seasonal[number // 4 % len(seasonal)] if seasonal and number % 4 == 3 else plain
        chosen.append(_choose(data, number, num_samples, lags, num_space, generator))
    return chosen


def stack_rows(data: Observations, chosen: Sequence[Int[np.ndarray, " _"]]) -> Stack:
    grouping = data.grouping
    noise = np.zeros(data.num_rows) if data.noise_variance is None else np.asarray(data.noise_variance)
    times, time = _numbered(data.times, [np.asarray(grouping.time_of_row)[rows] for rows in chosen])
    places, place = _numbered(data.places, [np.asarray(grouping.place_of_row)[rows] for rows in chosen])
    return Stack(
        times=times,
        places=places,
        time=time,
        place=place,
        values=np.stack([_filled_up(np.asarray(data.values)[rows], NUM_ROWS) for rows in chosen]),
        noise_variance=np.stack([_filled_up(noise[rows], NUM_ROWS) for rows in chosen]),
        present=np.stack([np.arange(NUM_ROWS) < len(rows) for rows in chosen]),
    )


def _numbered(
    distinct: Float[np.ndarray, "distinct ..."], numbers: list[Int[np.ndarray, " _"]]
) -> tuple[Float[np.ndarray, "sample few ..."], Int[np.ndarray, "sample row"]]:
    """Of each sample those of the distinct times or places it has, and which of them each row's is."""
    found = [np.unique(each, return_inverse=True) for each in numbers]
    # A few sizes serve all tables.
    size = -(-max(len(few) for few, _ in found) // _ROUND) * _ROUND
    kept = np.stack([distinct[_filled_up(few, size)] for few, _ in found])
    return kept, np.stack([_filled_up(number, NUM_ROWS) for _, number in found])


def _filled_up(array: np.ndarray, size: int) -> np.ndarray:
    return np.concatenate([array, np.repeat(array[:1], size - len(array), axis=0)])


def _choose(
    data: Observations,
    number: int,
    num_samples: int,
    lags: Int[np.ndarray, " lag"],
    num_space: int,
    generator: np.random.Generator,
) -> Int[np.ndarray, " some"]:
    """Rows of one sample, at most `NUM_ROWS`."""
    layout, num_times = data.grouping.layout, len(data.times)
    place = np.asarray(data.grouping.place_of_row)
    first = round((number + 0.5) / num_samples * max(num_times - 1 - lags[-1], 0))
    times = np.clip(first + (lags if number % 4 < 2 else lags[-1] - lags[::-1]), 0, num_times - 1)
    rows = np.concatenate([np.arange(layout.offsets[time], layout.offsets[time + 1]) for time in np.unique(times)])
    there, count = np.unique(place[rows], return_counts=True)
    places = data.places[there][:, :num_space]
    deviations = data.places[:, :num_space].std(axis=0)
    scaled = places / np.where(deviations > 0, deviations, 1.0)
    if number % 2 == 0:
        centre = scaled[generator.integers(len(there))]
        order = np.argsort(np.sum((scaled - centre) ** 2, axis=1), kind="stable")
    else:
        order = generator.permutation(len(there))
    # As many places as fill the sample.
    several = order[: int(np.searchsorted(np.cumsum(count[order]), NUM_ROWS, side="right")) or 1]
    taken = rows[np.isin(place[rows], there[several])]
    return taken if len(taken) <= NUM_ROWS else np.sort(generator.choice(taken, NUM_ROWS, replace=False))


def _lags(data: Observations) -> Int[np.ndarray, " lag"]:
    """Times of a sample counted from its first: half of them in a row, the others at growing distances.

    As many as fill a sample with twenty places, or with all there are where they are fewer; many more where no place is seen
    twice (a sale, a float), so that there are neighbours to choose from.
    """
    num_times = len(data.times)
    per_time = min(data.num_rows / num_times, NUM_PLACES)
    choice = 1 if places_repeat(data) else _CHOICE
    wanted = int(min(max(choice * NUM_ROWS // per_time, 2), num_times))
    furthest = min(max(_LONGEST, 2 * wanted), num_times - 1)
    if furthest <= wanted:
        return np.arange(wanted)
    in_a_row = np.arange(wanted // 2)
    growing = np.geomspace(max(wanted // 2, 1), furthest, wanted - wanted // 2).round().astype(np.int64)
    return np.unique(np.concatenate([in_a_row, growing]))


def _seasonal_lags(num_times: int, period: float) -> Int[np.ndarray, " lag"] | None:
    """Times near each other, and the same so many whole and half periods later; None where there are no two periods."""
    most = int((num_times - 1) // period)
    if most < 2:
        return None
    starts = np.unique(np.concatenate([[0.0, 0.5], np.geomspace(1, most, 3).round()]) * period).round()
    return np.unique(np.minimum(np.concatenate([starts, starts + 1]), num_times - 1).astype(np.int64))


def log_evidence_of(model: Model, stack: Stack) -> Float[Array, ""]:
    """The sum over samples of their exact log evidence: a composite likelihood, differentiable in the model.

    Each kernel is compiled by itself, and so is what all models have in common: candidates are made of the same few kernels, and
    compiling each as a whole would take longer than learning it.
    """
    return _sum_of_densities(_blocks(model, stack), stack)


def leave_out(model: Model, stack: Stack) -> LeftOut:
    """Every row predicted from the others of its sample, and from those at other places.

    With K the covariance of a sample, rows g left out together have the error ((K^-1)_gg)^-1 (K^-1 y)_g and the
    covariance ((K^-1)_gg)^-1: one inverse serves all of them (Dubrule 1983).
    """
    inverses = np.asarray(_inverses(_blocks(model, stack), stack))
    found: list[list[np.ndarray]] = [[], [], [], []]
    for inverse, place, values, present in zip(inverses, stack.place, stack.values, stack.present, strict=True):
        rows = np.flatnonzero(present)
        precision = inverse[np.ix_(rows, rows)]
        solved = precision @ values[rows]
        own, group = np.diagonal(precision), place[rows]
        error, variance = solved / own, 1 / own
        place_error, place_variance = error.copy(), variance.copy()
        for number in np.flatnonzero(np.bincount(group) > 1):
            members = np.flatnonzero(group == number)
            covariance = np.linalg.inv(precision[np.ix_(members, members)])
            place_error[members] = covariance @ solved[members]
            place_variance[members] = np.diagonal(covariance)
        for kept, array in zip(found, (error, np.sqrt(variance), place_error, np.sqrt(place_variance)), strict=True):
            kept.append(array)
    return LeftOut(*(np.concatenate(arrays) for arrays in found))


class _Blocks(NamedTuple):
    """A model at the times and places of samples: covariances of each component along time and across space, and the noise."""

    along: Float[Array, "component sample distinct_time distinct_time"]
    across: Float[Array, "component sample distinct_place distinct_place"]
    noise: Float[Array, ""]


def _blocks(model: Model, stack: Stack) -> _Blocks:
    assert isinstance(model.likelihood, Gaussian)
    along = [component.variance * _each(component.time, stack.times) for component in model.components]
    across = [_each(component.space, stack.places) for component in model.components]
    return _Blocks(jnp.stack(along), jnp.stack(across), jnp.asarray(model.likelihood.variance))


@eqx.filter_jit
def _each(kernel: Kernel, inputs: Float[AnyArray, "sample point ..."]) -> Float[Array, "sample point point"]:
    """The covariance of each sample's points."""
    return jax.vmap(kernel)(inputs)


def _covariances(blocks: _Blocks, stack: Stack) -> Float[Array, "sample row row"]:
    """Of the values of each sample; rows that only fill up are independent, of variance 1."""

    def one(along: Array, across: Array, sample: Stack) -> Array:
        both = along[:, sample.time][:, :, sample.time] * across[:, sample.place][:, :, sample.place]
        there = sample.present[:, None] & sample.present[None, :]
        noise = jnp.where(sample.present, blocks.noise + sample.noise_variance, 1.0)
        return jnp.where(there, jnp.sum(both, axis=0), 0.0) + jnp.diag(noise)

    return jax.vmap(one, in_axes=(1, 1, 0))(blocks.along, blocks.across, stack)


@jax.jit
def _sum_of_densities(blocks: _Blocks, stack: Stack) -> Float[Array, ""]:
    values = jnp.where(stack.present, stack.values, 0.0)
    densities = jax.lax.map(lambda sample: _log_density(*sample), (_covariances(blocks, stack), values))
    return jnp.sum(densities) - 0.5 * jnp.log(2 * jnp.pi) * jnp.sum(stack.present)


@jax.jit
def _inverses(blocks: _Blocks, stack: Stack) -> Float[Array, "sample row row"]:
    return jax.lax.map(jnp.linalg.inv, _covariances(blocks, stack))


@jax.custom_vjp
def _log_density(covariance: Float[Array, "row row"], values: Float[Array, " row"]) -> Float[Array, ""]:
    """Of N(0, covariance) but for the constant; the derivative is in closed form, (K^-1 y y' K^-1 - K^-1) / 2."""
    return _with_inverse(covariance, values)[0]


def _with_inverse(covariance: Array, values: Array) -> tuple[Array, tuple[Array, Array]]:
    factor = jnp.linalg.cholesky(covariance)
    half = jax.scipy.linalg.solve_triangular(factor, jnp.eye(len(values)), lower=True)
    whitened = half @ values
    value = -0.5 * whitened @ whitened - jnp.sum(jnp.log(jnp.diagonal(factor)))
    return value, (half.T @ half, half.T @ whitened)


def _pulled_back(kept: tuple[Array, Array], cotangent: Array) -> tuple[Array, Array]:
    inverse, solved = kept
    return 0.5 * cotangent * (jnp.outer(solved, solved) - inverse), -cotangent * solved


_log_density.defvjp(_with_inverse, _pulled_back)
