# SPDX-License-Identifier: MIT
"""A noise variance of its own for each place: one observer reads to the degree, another's thermometer hangs in the sun.

Found from rows predicted without themselves. With e the residual of a row from the mean field, v the field's variance
there and s the noise variance it was conditioned with, both given the row, h = v / s is its leverage: without the row the
field's mean is off by e / (1 - h) and its variance v / (1 - h), so that E e^2 = (1 - h)^2 own + v (1 - h), where `own`
is the variance wanted. What a place's rows say is shrunk, in the logarithm, towards what all places say.
"""

import dataclasses
from collections.abc import Callable
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, final

import equinox as eqx
import numpy as np
from jaxtyping import Bool, Float, Int

from weft.data.observations import Observations, places_of_rows
from weft.data.places import distinct_places
from weft.data.schema import Numbers, Schema
from weft.inference.habits.base import AskedPlaces, Habit, Places, Times, are_settled, asked_numbers, place_numbers
from weft.inference.posterior import OwnOfPlaces, Posterior
from weft.likelihoods import Gaussian
from weft.model import Model

__all__ = ["Noise", "find_noise", "tells_noise"]

# Rows a place has on average, below which its noise cannot be told.
_FEWEST_ROWS = 50.0
_FEWEST_PLACES = 10
# Variance between places of the logarithm of the noise variance: a smaller one would change no score.
_LEAST_VARIANCE = 0.02
# A squared residual counts up to so many times what is expected, so that one wild row does not make a noisy place.
_MOST_SQUARES = 16.0
# The median of the square of a standard normal.
_MEDIAN_SQUARE = 0.4549
# The logarithm of a variance from n rows of normal noise has variance 2 / n; real noise has heavier tails.
_LOG_VARIANCE_PER_ROW = 4.0
# Nats a row that left-out rows have to gain.
_LEAST_GAIN = 0.002
# Deviations from the other places, from which a place's noise is called its own.
_CLEAR = 3.0
# No place is quieter than this part of the noise of all.
_FLOOR = 0.02


@final
@dataclasses.dataclass(frozen=True)
class Noise(Habit):
    """Noise variances of places: `base` is the model's own, `added` comes to it at each place, `typical` where none was seen.

    `log_ratio` is the logarithm of each place's variance to that of a typical one, with its deviation `log_sd`; `spread` is the
    deviation of the logarithm from place to place.
    """

    name: ClassVar[str] = "noise"
    schema: ClassVar[Schema] = MappingProxyType(
        {
            "places": Numbers(("place", "dim")),
            "log_ratio": Numbers(("place",)),
            "log_sd": Numbers(("place",), least=0.0),
            "median": Numbers(least=0.0),
            "spread": Numbers(least=0.0),
            "base": Numbers(least=0.0),
        }
    )

    places: Float[np.ndarray, "place dim"]
    log_ratio: Float[np.ndarray, " place"]
    log_sd: Float[np.ndarray, " place"]
    median: float
    spread: float
    base: float

    @property
    def added(self) -> Float[np.ndarray, " place"]:
        return np.maximum(self.median * np.exp(self.log_ratio) - self.base, 0.0)

    @property
    def typical(self) -> float:
        """The mean variance of a log-normal place, beyond the model's."""
        return max(self.median * float(np.exp(self.spread**2 / 2)) - self.base, 0.0)

    def field_model(self, model: Model) -> Model:
        assert isinstance(model.likelihood, Gaussian)
        return eqx.tree_at(lambda each: each.likelihood.variance, model, np.asarray(self.base))

    def told(self, data: Observations) -> Observations:
        own = self._at(data.places)[np.asarray(data.grouping.place_of_row)]
        return _with_noise(data, own if data.noise_variance is None else np.asarray(data.noise_variance) + own)

    def untold(self, data: Observations) -> Observations:
        own = self._at(data.places)[np.asarray(data.grouping.place_of_row)]
        assert data.noise_variance is not None
        return _with_noise(data, np.maximum(np.asarray(data.noise_variance) - own, 0.0))

    def noise_variance(self, times: Times, places: AskedPlaces) -> Float[np.ndarray, " query"]:
        return places.each(self._at)

    def again(self, field: Callable[[], Posterior], data: Observations) -> "Noise":
        """Given a field that was told of the former variances."""
        if are_settled(self.places, data):
            return self.only_at(distinct_places(data.places[:, : self.places.shape[1]])[0])
        left = _what_is_left(field(), self.told(data), data, self.places.shape[1])
        return dataclasses.replace(
            self, places=left.places, **_shrunk(left.variance, left.worth, self.median, self.spread)
        )

    def only_at(self, places: Float[np.ndarray, "place dim"]) -> "Noise":
        kept = place_numbers(places, self.places) >= 0
        return dataclasses.replace(
            self, places=self.places[kept], log_ratio=self.log_ratio[kept], log_sd=self.log_sd[kept]
        )

    def describe(self) -> OwnOfPlaces:
        return OwnOfPlaces(
            name=self.name,
            component=None,
            words="a noise of its own at each place: value is the logarithm of its variance by the usual one",
            spread=self.spread,
            places=self.places,
            value=self.log_ratio,
            sd=self.log_sd,
            found=np.abs(self.log_ratio) > _CLEAR * self.log_sd,
        )

    def _at(self, places: Places) -> Float[np.ndarray, " query"]:
        number = asked_numbers(self.places, places)
        return np.where(number >= 0, self.added[number], self.typical)


def find_noise(field: Posterior, data: Observations, num_space: int) -> Noise | None:
    """Noise variances of the places of `data`, which `field` has seen; None where they hardly differ or left-out rows do not gain."""
    if not isinstance(field.model.likelihood, Gaussian) or not tells_noise(data, num_space):
        return None
    left = _what_is_left(field, data, data, num_space)
    found = _learned(left.variance, left.worth)
    if found is None:
        return None
    # By turns: variances from every other row of a place, and what they are worth on those between.
    turn = _turns(left.place)
    halves = [_left_at(left, turn == half) for half in (0, 1)]
    gains = []
    for half, (variance, count) in enumerate(halves):
        own = _shrunk(variance, count, found[0], found[1])["log_ratio"]
        gains.append(_density(left, turn != half, found[0] * np.exp(own)[left.place]))
    plain = [_density(left, turn != half, np.full(len(left.place), left.overall)) for half in (0, 1)]
    if float(np.mean(np.concatenate(gains)) - np.mean(np.concatenate(plain))) < _LEAST_GAIN:
        return None
    median, spread = found
    shrunk = _shrunk(left.variance, left.worth, median, spread)
    # The model's own noise is that of the quietest place, and every other adds to it.
    base = median * float(np.exp(np.min(shrunk["log_ratio"])))
    return Noise(left.places, **shrunk, median=median, spread=spread, base=base)


def tells_noise(data: Observations, num_space: int) -> bool:
    """Whether there are places enough, and rows at each."""
    num_places = len(distinct_places(data.places[:, :num_space])[0])
    return num_places >= _FEWEST_PLACES and data.num_rows >= _FEWEST_ROWS * num_places


class _Left(NamedTuple):
    """Rows predicted without themselves, and what each place's say about its noise variance."""

    place: Int[np.ndarray, " row"]
    places: Float[np.ndarray, "place dim"]
    square: Float[np.ndarray, " row"]  # of the residual, given the row
    spread: Float[np.ndarray, " row"]  # the field's variance there, given the row
    free: Float[np.ndarray, " row"]  # 1 less the leverage
    variance: Float[np.ndarray, " place"]
    worth: Float[np.ndarray, " place"]  # in independent rows
    overall: float


def _what_is_left(field: Posterior, told: Observations, data: Observations, num_space: int) -> _Left:
    """`told` is what the field was told of `data`: with which noise variance."""
    assert isinstance(field.model.likelihood, Gaussian)
    own = 0.0 if told.noise_variance is None else np.asarray(told.noise_variance)
    noise = np.broadcast_to(float(field.model.likelihood.variance) + own, told.values.shape)
    mean, spread = field.fitted_marginals(told)
    spread = np.clip(spread, 0.0, 0.95 * noise)
    free = 1 - spread / noise
    places, place = places_of_rows(data, num_space)
    square = (np.asarray(told.values) - mean) ** 2
    # As if no row were off by more than so many of its place's deviations.
    usual = _medians(square / free, place, len(places)) / _MEDIAN_SQUARE
    square = np.minimum(square, _MOST_SQUARES * usual[place] * free)
    overall = float(np.sum(square - spread * free) / np.sum(free**2))
    overall = max(overall, _FLOOR * float(np.mean(noise)))
    left = _Left(place, places, square, spread, free, np.empty(0), np.empty(0), overall)
    variance, count = _left_at(left, np.ones(len(place), dtype=bool))
    return left._replace(variance=variance, worth=count)


def _medians(
    values: Float[np.ndarray, " row"], place: Int[np.ndarray, " row"], num_places: int
) -> Float[np.ndarray, " place"]:
    """Of the rows of each place."""
    order = np.lexsort((values, place))
    ends = np.searchsorted(place[order], np.arange(num_places), side="right")
    starts = np.searchsorted(place[order], np.arange(num_places), side="left")
    return values[order][np.minimum((starts + ends) // 2, np.maximum(ends - 1, 0))]


def _left_at(left: _Left, chosen: Bool[np.ndarray, " row"]) -> tuple[np.ndarray, np.ndarray]:
    """Each place's noise variance by the chosen rows, and how many independent ones they are worth."""
    size = len(left.places)

    def total(numbers: Float[np.ndarray, " row"]) -> Float[np.ndarray, " place"]:
        return np.bincount(left.place[chosen], numbers[chosen], size)

    weight = total(left.free**2)
    estimate = total(left.square - left.spread * left.free) / np.where(weight > 0, weight, 1.0)
    return np.where(weight > 0, np.maximum(estimate, _FLOOR * left.overall), left.overall), weight


def _learned(variance: Float[np.ndarray, " place"], count: Float[np.ndarray, " place"]) -> tuple[float, float] | None:
    """The median noise variance and the deviation of its logarithm between places; None where they hardly differ.

    Robust: a few noisy places must not make all of them uncertain.
    """
    several = count > 1
    if not several.any():
        # The field goes through every row, and leaves nothing to tell a noise from.
        return None
    logs, sampling = np.log(variance[several]), _LOG_VARIANCE_PER_ROW / count[several]
    middle = float(np.median(logs))
    low, high = np.quantile(logs, (0.16, 0.84))
    squares = max((0.5 * (high - low)) ** 2, float(np.mean((logs - middle) ** 2)) / 2)
    between = float(squares - np.median(sampling))
    return None if between < _LEAST_VARIANCE else (float(np.exp(middle)), float(np.sqrt(between)))


def _shrunk(
    variance: Float[np.ndarray, " place"], count: Float[np.ndarray, " place"], median: float, spread: float
) -> dict[str, Any]:
    sampling = _LOG_VARIANCE_PER_ROW / np.maximum(count, 1e-9)
    part = spread**2 / (spread**2 + sampling)
    return {"log_ratio": part * (np.log(variance) - np.log(median)), "log_sd": np.sqrt(part * sampling)}


def _turns(place: Int[np.ndarray, " row"]) -> Int[np.ndarray, " row"]:
    """0 and 1 in turn along the rows of each place."""
    order = np.argsort(place, kind="stable")
    starts = np.searchsorted(place[order], place[order], side="left")
    turn = np.empty(len(place), dtype=np.int64)
    turn[order] = (np.arange(len(place)) - starts) % 2
    return turn


def _density(
    left: _Left, chosen: Bool[np.ndarray, " row"], noise: Float[np.ndarray, " row"]
) -> Float[np.ndarray, " some"]:
    """Log density of the chosen rows, each predicted without itself, were its noise variance `noise`."""
    free = left.free[chosen]
    total = left.spread[chosen] / free + noise[chosen]
    return -0.5 * (np.log(2 * np.pi * total) + left.square[chosen] / free**2 / total)


def _with_noise(data: Observations, noise: Float[np.ndarray, " row"]) -> Observations:
    return eqx.tree_at(lambda held: held.noise_variance, data, np.asarray(noise), is_leaf=lambda leaf: leaf is None)
