# SPDX-License-Identifier: MIT
"""Rows of small blocks predicted without themselves, and without their place: what a candidate for a model is judged by."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from weft.arrays import AnyArray
from weft.data.observations import Observations
from weft.inference.at_once import at_once
from weft.inference.closed_prior import closed_covariance
from weft.kernels import Kernel
from weft.kernels.closed_forms import has_closed_form
from weft.likelihoods import Gaussian
from weft.linalg import inverse_of
from weft.model import Model
from weft.scores import crps_gaussian

__all__ = ["LeftOut", "leave_places_out", "leave_rows_out"]


class LeftOut(NamedTuple):
    """Errors and deviations, noise included, of rows that were predicted without some."""

    error: Float[np.ndarray, " row"]
    sd: Float[np.ndarray, " row"]

    @property
    def mean_crps(self) -> float:
        return float(np.mean(crps_gaussian(self.error, np.zeros_like(self.error), self.sd)))


def leave_rows_out(model: Model, blocks: Sequence[Observations]) -> LeftOut:
    """Every row predicted from the others of its block."""
    return _leave_out(model, blocks, _each_row)


def leave_places_out(model: Model, blocks: Sequence[Observations]) -> LeftOut:
    """Every row predicted from those of its block at other places."""
    return _leave_out(model, blocks, _each_place)


def _leave_out(
    model: Model,
    blocks: Sequence[Observations],
    leave: Callable[[Observations, Float[np.ndarray, "row row"]], tuple[np.ndarray, np.ndarray]],
) -> LeftOut:
    """With P the inverse of the covariance of a block, rows g left out together have the error (P_gg)^-1 (P y)_g and the
    covariance (P_gg)^-1: one inverse serves all of them (Dubrule 1983).
    """
    num_times, num_places = max(len(block.times) for block in blocks), max(len(block.places) for block in blocks)

    def answer(number: int) -> tuple[np.ndarray, np.ndarray]:
        block = blocks[number]
        return leave(block, inverse_of(_covariance(model, block, num_times, num_places)))

    error, variance = (np.concatenate(arrays) for arrays in zip(*at_once(answer, len(blocks)), strict=True))
    return LeftOut(error, np.sqrt(variance))


def _each_row(block: Observations, precision: Float[np.ndarray, "row row"]) -> tuple[np.ndarray, np.ndarray]:
    own = np.diagonal(precision)
    return precision @ np.asarray(block.values) / own, 1 / own


def _each_place(block: Observations, precision: Float[np.ndarray, "row row"]) -> tuple[np.ndarray, np.ndarray]:
    solved = precision @ np.asarray(block.values)
    error, variance = _each_row(block, precision)
    place = np.asarray(block.grouping.place_of_row)
    for number in np.flatnonzero(np.bincount(place) > 1):
        members = np.flatnonzero(place == number)
        together = inverse_of(precision[np.ix_(members, members)])
        error[members] = together @ solved[members]
        variance[members] = np.diagonal(together)
    return error, variance


def _covariance(model: Model, block: Observations, num_times: int, num_places: int) -> Float[np.ndarray, "row row"]:
    """Of the values of a block; kernels that are compiled are compiled once for blocks of up to so many times and places."""
    assert isinstance(model.likelihood, Gaussian)
    time, place = np.asarray(block.grouping.time_of_row), np.asarray(block.grouping.place_of_row)
    own = 0.0 if block.noise_variance is None else np.asarray(block.noise_variance)
    whole = np.diag(np.full(block.num_rows, float(model.likelihood.variance)) + own)
    for component in model.components:
        along = float(component.variance) * _matrix(component.time, block.times[:, None], num_times)
        across = _matrix(component.space, block.places, num_places)
        whole += along[np.ix_(time, time)] * across[np.ix_(place, place)]
    return whole


def _matrix(kernel: Kernel, points: Float[np.ndarray, "point dim"], most: int) -> Float[np.ndarray, "point point"]:
    if has_closed_form(kernel):
        return closed_covariance(kernel, points)
    count = len(points)
    return np.asarray(_compiled(kernel, np.pad(points, ((0, most - count), (0, 0)), mode="edge")))[:count, :count]


@eqx.filter_jit
def _compiled(kernel: Kernel, points: Float[AnyArray, "point dim"]) -> Float[Array, "point point"]:
    return jnp.asarray(kernel(points))
