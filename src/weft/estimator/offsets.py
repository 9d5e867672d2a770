# SPDX-License-Identifier: MIT
"""A level of its own for each place, beside the field: what pseudo-points between the places cannot hold.

A model with a pseudo-point at every place needs none. With fewer, whatever sets a place apart from its neighbours (a
sheltered yard, a good street) would count as noise, time and again. Here it is an effect b ~ N(0, variance) of the
place, found by turns with the field: the mean of what the field leaves there, shrunk as a mean of n is, then the field
of what the effects leave (backfitting; Hastie & Tibshirani 1990, which converges to the joint posterior mean).
"""

import dataclasses
from typing import Any, final

import equinox as eqx
import numpy as np
from jaxtyping import Float

from weft.data.observations import Observations, distinct_rows
from weft.inference.posterior import Posterior
from weft.likelihoods import Gaussian

__all__ = ["Offsets", "are_worth_a_try", "find_offsets", "without"]

# Effects whose variance is a smaller part of what is left at a place would change no score.
_LEAST_PART = 0.02
# Rows that a place has on average, below which nothing about its level can be told from noise.
_FEWEST_ROWS = 2.0


@final
@dataclasses.dataclass(frozen=True)
class Offsets:
    """Effects of places, in units of f: mean and variance at each, and the variance where none has been seen."""

    places: Float[np.ndarray, "place dim"]
    mean: Float[np.ndarray, " place"]
    variance: Float[np.ndarray, " place"]
    prior_variance: float
    residual_variance: float

    def at(self, places: Float[np.ndarray, "row wide"]) -> tuple[Float[np.ndarray, " row"], Float[np.ndarray, " row"]]:
        """Mean and variance at rows of places, whose further columns (covariates) do not matter."""
        number = self._number(places)
        seen = number >= 0
        return np.where(seen, self.mean[number], 0.0), np.where(seen, self.variance[number], self.prior_variance)

    def draws(
        self, places: Float[np.ndarray, "row wide"], num: int, generator: np.random.Generator
    ) -> Float[np.ndarray, "draw row"]:
        """Draws of the effects at rows of places: one effect a place and draw."""
        _, place = distinct_rows(places[:, : self.places.shape[1]])
        mean, variance = self.at(places)
        return mean + np.sqrt(variance) * generator.standard_normal((num, int(place.max(initial=-1)) + 1))[:, place]

    def to_plain(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def _number(self, places: Float[np.ndarray, "row wide"]) -> np.ndarray:
        """Which of the places seen each is, -1 for none of them."""
        num_seen = len(self.places)
        together = np.concatenate([self.places, places[:, : self.places.shape[1]]])
        _, number = distinct_rows(together)
        found = np.full(int(number.max()) + 1, -1)
        found[number[:num_seen]] = np.arange(num_seen)
        return found[number[num_seen:]]


def are_worth_a_try(posterior: Posterior, data: Observations, num_space: int) -> bool:
    """Whether places may have levels that the field cannot hold: a Gaussian with fewer pseudo-points than places."""
    if not isinstance(posterior.model.likelihood, Gaussian) or posterior.exact_places is not None:
        return False
    num_places = len(distinct_rows(data.places[:, :num_space])[0])
    points = posterior.model.pseudo_points
    assert points is not None
    most = max(len(each) for each in points) if isinstance(points, tuple) else len(points)
    return most < num_places and data.num_rows >= _FEWEST_ROWS * num_places


def find_offsets(
    posterior: Posterior, data: Observations, num_space: int, known: Offsets | None = None
) -> Offsets | None:
    """Effects of the places of `data`, from what the mean field of `posterior` leaves; None where they hardly differ.

    Variances come from the analysis of variance of a one-way layout (Searle 1971), or are those of `known`.
    """
    left = np.asarray(data.values) - posterior.fitted_values()
    places, of_place = distinct_rows(data.places[:, :num_space])
    place = of_place[np.asarray(data.grouping.place_of_row)]
    counts = np.bincount(place, minlength=len(places)).astype(np.float64)
    level = np.bincount(place, left, len(places)) / counts
    if known is None:
        num_rows, num_places = len(left), len(places)
        within = float(np.sum((left - level[place]) ** 2)) / max(num_rows - num_places, 1)
        between = float(np.sum(counts * level**2)) - num_places * within
        variance = between / (num_rows - float(np.sum(counts**2)) / num_rows)
        if not variance > _LEAST_PART * within:
            return None
    else:
        variance, within = known.prior_variance, known.residual_variance
    spread = 1 / (1 / variance + counts / within)
    return Offsets(places, spread * counts / within * level, spread, variance, within)


def without(offsets: Offsets | None, data: Observations) -> Observations:
    """The observations less the effects of their places."""
    if offsets is None:
        return data
    effect = offsets.at(data.places)[0][np.asarray(data.grouping.place_of_row)]
    return eqx.tree_at(lambda held: held.values, data, np.asarray(data.values) - effect)
