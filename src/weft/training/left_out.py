# SPDX-License-Identifier: MIT
"""Rows of small blocks predicted without themselves, and without their place: what a candidate for a model is judged by."""

from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from weft.arrays import AnyArray
from weft.data.observations import Observations
from weft.inference.at_once import at_once
from weft.kernels import Kernel
from weft.kernels.closed_forms import EachWithEach, closed_form, has_closed_form
from weft.likelihoods import Gaussian
from weft.linalg import inverse_of
from weft.model import Model

__all__ = ["LeftOut", "leave_out"]


class LeftOut(NamedTuple):
    """Errors and deviations, noise included, of rows predicted without themselves, and without any row of their place."""

    row_error: Float[np.ndarray, " row"]
    row_sd: Float[np.ndarray, " row"]
    place_error: Float[np.ndarray, " row"]
    place_sd: Float[np.ndarray, " row"]


def leave_out(model: Model, blocks: Sequence[Observations]) -> LeftOut:
    """Every row predicted from the others of its block, and from those at other places.

    With K the covariance of a block, rows g left out together have the error ((K^-1)_gg)^-1 (K^-1 y)_g and the
    covariance ((K^-1)_gg)^-1: one inverse serves all of them (Dubrule 1983).
    """
    num_times, num_places = max(len(block.times) for block in blocks), max(len(block.places) for block in blocks)

    def answer(number: int) -> LeftOut:
        return _leave_out(blocks[number], _covariance(model, blocks[number], num_times, num_places))

    found = at_once(answer, len(blocks))
    return LeftOut(*(np.concatenate(arrays) for arrays in zip(*found, strict=True)))


def _leave_out(block: Observations, covariance: Float[np.ndarray, "row row"]) -> LeftOut:
    precision = inverse_of(covariance)
    solved = precision @ np.asarray(block.values)
    own, place = np.diagonal(precision), np.asarray(block.grouping.place_of_row)
    error, variance = solved / own, 1 / own
    place_error, place_variance = error.copy(), variance.copy()
    for number in np.flatnonzero(np.bincount(place) > 1):
        members = np.flatnonzero(place == number)
        together = inverse_of(precision[np.ix_(members, members)])
        place_error[members] = together @ solved[members]
        place_variance[members] = np.diagonal(together)
    return LeftOut(error, np.sqrt(variance), place_error, np.sqrt(place_variance))


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
        pairs = EachWithEach(points[None])
        return pairs.matrices(closed_form(kernel, pairs).value)[0]
    count = len(points)
    return np.asarray(_compiled(kernel, np.pad(points, ((0, most - count), (0, 0)), mode="edge")))[:count, :count]


@eqx.filter_jit
def _compiled(kernel: Kernel, points: Float[AnyArray, "point dim"]) -> Float[Array, "point point"]:
    return jnp.asarray(kernel(points))
