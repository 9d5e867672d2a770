# SPDX-License-Identifier: MIT
"""A posterior of few rows from the covariance of the rows itself: no basis, no chain, and so N^3 / 3 and hardly more.

The engines' seam asks for weights of places on a basis, which for N rows at N places are a factor and two products of N x N a
component before a row is looked at. What regions are asked most (marginals, components, means of draws, fitted values) needs none.
"""

from typing import NamedTuple, final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

from weft.arrays import AnyArray
from weft.data.observations import Observations
from weft.engines.dense import coarsely_padded_size, factor_of, padded_size, root_of, sum_of
from weft.inference.prediction import Marginals
from weft.inference.sites import Sites, rows_of
from weft.kernels.separable import Separable
from weft.model import Model

__all__ = ["ByRows", "TimesAndPlaces", "covariances_between"]

# Sizes asked for at once: fewer are filled up to the first, so that few are compiled; more come one after another.
FEWEST_ASKED = 32
MOST_ASKED = 4096


class TimesAndPlaces(NamedTuple):
    """Times as a column, and places: what kernels take."""

    times: Float[AnyArray, "point one"]
    places: Float[AnyArray, "point dim"]


class FactoredRows(NamedTuple):
    """Rows, the root R of their precisions, I + R K R = factor factor', and the rows' values whitened by it."""

    points: TimesAndPlaces
    root: Float[Array, " row"]
    factor: Float[Array, "row row"]
    whitened: Float[Array, " row"]


@final
class ByRows:
    """Answers about f given rows whose Gaussian sites are known. Rows are filled up with some of precision zero."""

    def __init__(self, model: Model, data: Observations, sites: Sites):
        more = padded_size(data.num_rows) - data.num_rows
        self._components = model.components
        self.rows = rows_of(data, sites)
        self.log_constant = float(sites.log_constant)
        points = TimesAndPlaces(
            np.pad(data.row_times[:, None], ((0, more), (0, 0)), mode="edge"),
            np.pad(data.row_places, ((0, more), (0, 0)), mode="edge"),
        )
        padding = (0, more)
        self._given = _condition(
            self._components, points, np.pad(sites.precision, padding), np.pad(sites.value, padding)
        )

    @property
    def log_evidence(self) -> float:
        factor, whitened = np.asarray(self._given.factor), np.asarray(self._given.whitened)
        return float(-np.sum(np.log(np.diagonal(factor))) - np.sum(whitened**2) / 2) + self.log_constant

    def marginals(self, times: Float[np.ndarray, " query"], places: Float[np.ndarray, "query dim"]) -> Marginals:
        found = [
            np.asarray(_marginals(self._components, self._given, asked))[:, :count]
            for asked, count in _in_pieces(times, places)
        ]
        return Marginals(*np.concatenate(found, axis=1))

    def components(
        self, times: Float[np.ndarray, " query"], places: Float[np.ndarray, "query dim"]
    ) -> tuple[Marginals, ...]:
        found = [
            np.asarray(_components(self._components, self._given, asked))[:, :, :count]
            for asked, count in _in_pieces(times, places)
        ]
        return tuple(Marginals(*each) for each in np.concatenate(found, axis=2))

    def means_given(
        self,
        values: Float[np.ndarray, "row draw"],
        times: Float[np.ndarray, " query"],
        places: Float[np.ndarray, "query dim"],
    ) -> Float[np.ndarray, "query draw"]:
        """Posterior means of f for several sets of values of the rows."""
        num_draws = values.shape[1]
        more = ((0, len(self._given.root) - len(values)), (0, padded_size(num_draws) - num_draws))
        solved = _solve(self._given, np.pad(values, more))
        found = [
            np.asarray(_means(self._components, self._given.points, solved, asked))[:count]
            for asked, count in _in_pieces(times, places)
        ]
        return np.concatenate(found)[:, :num_draws]

    def fitted_values(self) -> Float[np.ndarray, " row"]:
        """Values less N (K + N)^-1 values, with N the rows' noise: no covariance with anything is made again."""
        value = np.asarray(self.rows.value)
        solved = _solve(self._given, np.pad(value, (0, len(self._given.root) - len(value)))[:, None])
        return value - np.asarray(solved)[: len(value), 0] / np.asarray(self.rows.precision)


def _in_pieces(
    times: Float[np.ndarray, " query"], places: Float[np.ndarray, "query dim"]
) -> list[tuple[TimesAndPlaces, int]]:
    """What is asked in pieces of a few sizes, each with how many of its points were asked."""
    pieces = []
    for first in range(0, len(times), MOST_ASKED):
        some = slice(first, first + MOST_ASKED)
        count = len(times[some])
        more = coarsely_padded_size(max(count, FEWEST_ASKED)) - count
        pieces.append(
            (
                TimesAndPlaces(
                    np.pad(times[some, None], ((0, more), (0, 0)), mode="edge"),
                    np.pad(places[some], ((0, more), (0, 0)), mode="edge"),
                ),
                count,
            )
        )
    return pieces


def covariances_between(
    components: tuple[Separable, ...], first: TimesAndPlaces, second: TimesAndPlaces
) -> list[Float[Array, "first second"]]:
    return [
        part.variance
        * part.time.covariance(first.times, second.times)
        * part.space.covariance(first.places, second.places)
        for part in components
    ]


def _variances(components: tuple[Separable, ...], points: TimesAndPlaces) -> list[Float[Array, " point"]]:
    return [
        part.variance * part.time.variances(points.times) * part.space.variances(points.places) for part in components
    ]


@eqx.filter_jit
def _condition(
    components: tuple[Separable, ...],
    points: TimesAndPlaces,
    precision: Float[AnyArray, " row"],
    values: Float[AnyArray, " row"],
) -> FactoredRows:
    root = root_of(precision)
    covariance = sum_of(covariances_between(components, points, points))
    factor = factor_of(root[:, None] * covariance * root[None, :])
    return FactoredRows(points, root, factor, solve_triangular(factor, root * values, lower=True))


@eqx.filter_jit
def _solve(given: FactoredRows, values: Float[AnyArray, "row draw"]) -> Float[Array, "row draw"]:
    """(K + N)^-1 values."""
    whitened = solve_triangular(given.factor, given.root[:, None] * values, lower=True)
    return given.root[:, None] * solve_triangular(given.factor, whitened, lower=True, trans=1)


@eqx.filter_jit
def _marginals(
    components: tuple[Separable, ...], given: FactoredRows, asked: TimesAndPlaces
) -> Float[Array, "moment query"]:
    cross = _cross(given, sum_of(covariances_between(components, given.points, asked)))
    variance = sum_of(_variances(components, asked)) - jnp.sum(cross**2, axis=0)
    return jnp.stack([cross.T @ given.whitened, jnp.maximum(variance, 0.0)])


@eqx.filter_jit
def _components(
    components: tuple[Separable, ...], given: FactoredRows, asked: TimesAndPlaces
) -> Float[Array, "component moment query"]:
    crosses = [_cross(given, cross) for cross in covariances_between(components, given.points, asked)]
    before = _variances(components, asked)
    return jnp.stack(
        [
            jnp.stack([cross.T @ given.whitened, jnp.maximum(own - jnp.sum(cross**2, axis=0), 0.0)])
            for cross, own in zip(crosses, before, strict=True)
        ]
    )


@eqx.filter_jit
def _means(
    components: tuple[Separable, ...], points: TimesAndPlaces, solved: Float[Array, "row draw"], asked: TimesAndPlaces
) -> Float[Array, "query draw"]:
    return sum_of(covariances_between(components, asked, points)) @ solved


def _cross(given: FactoredRows, covariance: Float[Array, "row query"]) -> Float[Array, "row query"]:
    return solve_triangular(given.factor, given.root[:, None] * covariance, lower=True)
