# SPDX-License-Identifier: MIT
"""A level of its own for each place, beside the field: what pseudo-points between the places cannot hold.

A model with a pseudo-point at every place needs none. With fewer, whatever sets a place apart from its neighbours (a
sheltered yard, a good street) would count as noise, time and again. Here it is an effect b ~ N(0, variance) of the
place, found by turns with the field: the mean of what the field leaves there, shrunk as a mean of n is, then the field
of what the effects leave (backfitting; Hastie & Tibshirani 1990, which converges to the joint posterior mean).
"""

import dataclasses
from collections.abc import Callable
from types import MappingProxyType
from typing import ClassVar, NamedTuple, final

import equinox as eqx
import numpy as np
from jaxtyping import Float, Int

from weft.data.observations import Observations, places_of_rows
from weft.data.places import distinct_places
from weft.data.schema import Numbers, Schema
from weft.inference.habits.base import AskedPlaces, Habit, Places, Times, asked_numbers, place_numbers
from weft.inference.posterior import OwnOfPlaces, Posterior
from weft.inference.prediction import Marginals
from weft.inference.prior import sizes_at
from weft.likelihoods import Gaussian

__all__ = ["Level", "find_level"]

# Effects whose variance is a smaller part of what is left at a place would change no score.
_LEAST_PART = 0.02
# Rows that a place has on average, below which nothing about its level can be told from noise.
_FEWEST_ROWS = 2.0
# Deviations from none, from which a place is said to have a level of its own.
_CLEAR = 3.0


@final
@dataclasses.dataclass(frozen=True)
class Level(Habit):
    """Effects of places, in units of f: mean and variance at each, and the variance where none has been seen."""

    name: ClassVar[str] = "level"
    adds_to_f: ClassVar[bool] = True
    schema: ClassVar[Schema] = MappingProxyType(
        {
            "places": Numbers(("place", "dim")),
            "mean": Numbers(("place",)),
            "variance": Numbers(("place",), least=0.0),
            "prior_variance": Numbers(least=0.0),
            "residual_variance": Numbers(least=0.0),
        }
    )

    places: Float[np.ndarray, "place dim"]
    mean: Float[np.ndarray, " place"]
    variance: Float[np.ndarray, " place"]
    prior_variance: float
    residual_variance: float

    def told(self, data: Observations) -> Observations:
        return _with_values(data, np.asarray(data.values) - self._at_rows(data))

    def untold(self, data: Observations) -> Observations:
        return _with_values(data, np.asarray(data.values) + self._at_rows(data))

    def at(self, places: Places) -> Marginals:
        """The effect at places, whose further columns (covariates) do not matter."""
        number = asked_numbers(self.places, places)
        seen = number >= 0
        return Marginals(
            np.where(seen, self.mean[number], 0.0), np.where(seen, self.variance[number], self.prior_variance)
        )

    def effect(self, times: Times, places: AskedPlaces) -> Marginals:
        mean, variance = places.each(lambda distinct: np.stack(self.at(distinct), axis=1)).T
        return Marginals(mean, variance)

    def effect_on_sums(
        self, times: Times, places: AskedPlaces, sums: Float[np.ndarray, "query sum"]
    ) -> tuple[Float[np.ndarray, " sum"], Float[np.ndarray, "sum sum"]]:
        mean, variance = self.effect(times, places)
        distinct, place = distinct_places(places.by_row[:, : self.places.shape[1]])
        by_place = np.zeros((len(distinct), sums.shape[1]))
        np.add.at(by_place, place, sums)
        of_place = np.empty(len(distinct))
        of_place[place] = variance
        return sums.T @ mean, by_place.T @ (of_place[:, None] * by_place)

    def effect_draws(
        self, times: Times, places: AskedPlaces, num: int, generator: np.random.Generator
    ) -> Float[np.ndarray, "draw query"]:
        """One effect a place and draw."""
        _, place = distinct_places(places.by_row[:, : self.places.shape[1]])
        mean, variance = self.effect(times, places)
        return mean + np.sqrt(variance) * generator.standard_normal((num, int(place.max(initial=-1)) + 1))[:, place]

    def again(self, field: Callable[[], Posterior], data: Observations) -> "Level":
        left = _what_is_left(field(), data, self.places.shape[1])
        return _shrunk(left, self.prior_variance, self.residual_variance)

    def only_at(self, places: Float[np.ndarray, "place dim"]) -> "Level":
        kept = place_numbers(places, self.places) >= 0
        return dataclasses.replace(self, places=self.places[kept], mean=self.mean[kept], variance=self.variance[kept])

    def describe(self) -> OwnOfPlaces:
        return OwnOfPlaces(
            name=self.name,
            component="places",
            words="a level of its own at each place",
            spread=float(np.sqrt(self.prior_variance)),
            places=self.places,
            value=self.mean,
            sd=np.sqrt(self.variance),
            found=np.abs(self.mean) > _CLEAR * np.sqrt(self.variance),
        )

    def _at_rows(self, data: Observations) -> Float[np.ndarray, " row"]:
        return self.at(data.places).mean[np.asarray(data.grouping.place_of_row)]


def find_level(field: Posterior, data: Observations, num_space: int) -> Level | None:
    """Levels of the places of `data`, from what the mean field leaves; None where they hardly differ.

    Variances come from the analysis of variance of a one-way layout (Searle 1971).
    """
    if not _may_be_there(field, data, num_space):
        return None
    left = _what_is_left(field, data, num_space)
    num_rows, num_places = len(left.residual), len(left.places)
    within = float(np.sum((left.residual - left.mean[left.place]) ** 2)) / max(num_rows - num_places, 1)
    between = float(np.sum(left.num_rows * left.mean**2)) - num_places * within
    variance = between / (num_rows - float(np.sum(left.num_rows**2)) / num_rows)
    return _shrunk(left, variance, within) if variance > _LEAST_PART * within else None


class _Left(NamedTuple):
    """What the mean field leaves of each row, and of each place its number of rows and their mean."""

    residual: Float[np.ndarray, " row"]
    place: Int[np.ndarray, " row"]
    places: Float[np.ndarray, "place dim"]
    num_rows: Float[np.ndarray, " place"]
    mean: Float[np.ndarray, " place"]


def _what_is_left(field: Posterior, data: Observations, num_space: int) -> _Left:
    residual = np.asarray(data.values) - field.fitted_values()
    places, place = places_of_rows(data, num_space)
    count = np.bincount(place, minlength=len(places)).astype(np.float64)
    return _Left(residual, place, places, count, np.bincount(place, residual, len(places)) / count)


def _shrunk(left: _Left, variance: float, within: float) -> Level:
    spread = 1 / (1 / variance + left.num_rows / within)
    return Level(left.places, spread * left.num_rows / within * left.mean, spread, variance, within)


def _may_be_there(field: Posterior, data: Observations, num_space: int) -> bool:
    """Whether places may have levels that the field cannot hold: a Gaussian with fewer pseudo-points than places."""
    if not isinstance(field.model.likelihood, Gaussian):
        return False
    num_places = len(distinct_places(data.places[:, :num_space])[0])
    return max(sizes_at(field.model, data.places)) < num_places and data.num_rows >= _FEWEST_ROWS * num_places


def _with_values(data: Observations, values: Float[np.ndarray, " row"]) -> Observations:
    return eqx.tree_at(lambda held: held.values, data, values)
