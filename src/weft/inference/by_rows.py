# SPDX-License-Identifier: MIT
"""A posterior of few rows from the covariance of the rows itself: no basis, no chain, and so N^3 / 3 and hardly more.

The engines' seam asks for weights of places on a basis, which for N rows at N places are a factor and two products of N x N a
component before a row is looked at. What regions are asked most (marginals, components, means of draws, fitted values) needs none.
"""

from collections.abc import Iterator
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg.lapack import dpotrf, dtrtrs

from weft.arrays import AnyArray
from weft.data.observations import Observations
from weft.data.places import distinct_places
from weft.inference.prediction import Marginals
from weft.inference.sites import Sites, rows_of
from weft.kernels.closed_forms import covariance_at, variances_at
from weft.kernels.separable import Separable
from weft.model import Model

__all__ = ["ByRows", "Points", "covariances_between"]

# Points asked about at once: their covariances with a thousand rows stay near the processor, and LAPACK has enough to do.
MOST_ASKED = 2048


class TimesAndPlaces(NamedTuple):
    """Times as a column, and places: what kernels take."""

    times: Float[AnyArray, "point one"]
    places: Float[AnyArray, "point dim"]


@final
class Points(NamedTuple):
    """Points by their distinct times and places: a map has each of its cells at many times, and kernels are asked once for each."""

    distinct: TimesAndPlaces
    time_of: Int[np.ndarray, " point"]
    place_of: Int[np.ndarray, " point"]

    @classmethod
    def of(cls, times: Float[np.ndarray, " point"], places: Float[np.ndarray, "point dim"]) -> "Points":
        own_times, time_of = np.unique(times, return_inverse=True)
        own_places, place_of = distinct_places(places)
        return cls(TimesAndPlaces(own_times[:, None], own_places), time_of, place_of)

    def pieces(self) -> "Iterator[tuple[Int[np.ndarray, ' some'], Points]]":
        """All points a few at a time, those of one place together: which they are, and the points themselves."""
        order = np.argsort(self.place_of, kind="stable")
        for first in range(0, len(order), MOST_ASKED):
            some = order[first : first + MOST_ASKED]
            # In this order places are a stretch of all of them.
            stretch = slice(self.place_of[some[0]], self.place_of[some[-1]] + 1)
            own = TimesAndPlaces(self.distinct.times, self.distinct.places[stretch])
            yield some, Points(own, self.time_of[some], self.place_of[some] - stretch.start)


class FactoredRows(NamedTuple):
    """Rows, the root R of their precisions, I + R K R = factor factor', and the rows' values whitened by it."""

    points: Points
    root: Float[np.ndarray, " row"]
    factor: Float[np.ndarray, "row row"]
    whitened: Float[np.ndarray, " row"]


@final
class ByRows:
    """Answers about f given rows whose Gaussian sites are known."""

    def __init__(self, model: Model, data: Observations, sites: Sites):
        self._components = model.components
        self.rows = rows_of(data, sites)
        self.log_constant = float(sites.log_constant)
        points = Points.of(data.row_times, data.row_places)
        self._given = _condition(self._components, points, np.asarray(sites.precision), np.asarray(sites.value))

    @property
    def log_evidence(self) -> float:
        factor, whitened = self._given.factor, self._given.whitened
        return float(-np.sum(np.log(np.diagonal(factor))) - np.sum(whitened**2) / 2) + self.log_constant

    def marginals(self, times: Float[np.ndarray, " query"], places: Float[np.ndarray, "query dim"]) -> Marginals:
        mean, variance = np.empty((2, len(times)))
        for some, asked in Points.of(times, places).pieces():
            covariance = _sum_over(self._components, asked, self._given.points)
            before = np.sum([_variances(part, asked) for part in self._components], axis=0)
            mean[some], variance[some] = _told(self._given, covariance, before)
        return Marginals(mean, variance)

    def components(
        self, times: Float[np.ndarray, " query"], places: Float[np.ndarray, "query dim"]
    ) -> tuple[Marginals, ...]:
        mean, variance = np.empty((2, len(self._components), len(times)))
        for some, asked in Points.of(times, places).pieces():
            for number, part in enumerate(self._components):
                covariance = _covariance(part, asked, self._given.points)
                mean[number, some], variance[number, some] = _told(self._given, covariance, _variances(part, asked))
        return tuple(Marginals(*each) for each in zip(mean, variance, strict=True))

    def means_given(
        self,
        values: Float[np.ndarray, "row draw"],
        times: Float[np.ndarray, " query"],
        places: Float[np.ndarray, "query dim"],
    ) -> Float[np.ndarray, "query draw"]:
        """Posterior means of f for several sets of values of the rows."""
        solved, found = _solve(self._given, values), np.empty((len(times), values.shape[1]))
        for some, asked in Points.of(times, places).pieces():
            found[some] = _sum_over(self._components, asked, self._given.points) @ solved
        return found

    def fitted_values(self) -> Float[np.ndarray, " row"]:
        """Values less N (K + N)^-1 values, with N the rows' noise: no covariance with anything is made again."""
        value = np.asarray(self.rows.value)
        return value - _solve(self._given, value[:, None])[:, 0] / np.asarray(self.rows.precision)


def covariances_between(
    components: tuple[Separable, ...], first: Points, second: Points
) -> list[Float[np.ndarray, "first second"]]:
    """Of one component after another."""
    return [_covariance(part, first, second) for part in components]


def _covariance(part: Separable, first: Points, second: Points) -> Float[np.ndarray, "first second"]:
    in_time = float(part.variance) * covariance_at(part.time, first.distinct.times, second.distinct.times)
    in_space = covariance_at(part.space, first.distinct.places, second.distinct.places)
    found = np.take(in_space, second.place_of, axis=1)[first.place_of]
    found *= np.take(in_time, second.time_of, axis=1)[first.time_of]
    return found


def _sum_over(components: tuple[Separable, ...], first: Points, second: Points) -> Float[np.ndarray, "first second"]:
    found = _covariance(components[0], first, second)
    for part in components[1:]:
        found += _covariance(part, first, second)
    return found


def _variances(part: Separable, points: Points) -> Float[np.ndarray, " point"]:
    in_time = float(part.variance) * variances_at(part.time, points.distinct.times)
    return in_time[points.time_of] * variances_at(part.space, points.distinct.places)[points.place_of]


def _condition(
    components: tuple[Separable, ...],
    points: Points,
    precision: Float[np.ndarray, " row"],
    values: Float[np.ndarray, " row"],
) -> FactoredRows:
    root = np.sqrt(np.maximum(precision, 0.0))
    spread = _sum_over(components, points, points)
    spread *= root[:, None]
    spread *= root
    spread[np.diag_indices(len(root))] += 1.0
    # Of a symmetric matrix in one order of its numbers the transpose is the same in the other, LAPACK's.
    factor, failed = dpotrf(spread.T, lower=1, clean=1, overwrite_a=1)
    if failed:
        # As a number that cannot be: whoever looks at answers finds out.
        factor = np.full_like(spread, np.nan).T
    return FactoredRows(points, root, factor, dtrtrs(factor, root * values, lower=1)[0])


def _solve(given: FactoredRows, values: Float[np.ndarray, "row draw"]) -> Float[np.ndarray, "row draw"]:
    """(K + N)^-1 values."""
    whitened = dtrtrs(given.factor, given.root[:, None] * values, lower=1)[0]
    return given.root[:, None] * dtrtrs(given.factor, whitened, lower=1, trans=1)[0]


def _told(
    given: FactoredRows, covariance: Float[np.ndarray, "query row"], before: Float[np.ndarray, " query"]
) -> tuple[Float[np.ndarray, " query"], Float[np.ndarray, " query"]]:
    """Mean and variance of what has this covariance with the rows, in whose place the work is done, and this variance before them."""
    covariance *= given.root
    cross = dtrtrs(given.factor, covariance.T, lower=1, overwrite_b=1)[0].T
    variance = before - np.einsum("qr,qr->q", cross, cross)
    return cross @ given.whitened, np.maximum(variance, 0.0)
