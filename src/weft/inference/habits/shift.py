# SPDX-License-Identifier: MIT
"""Places whose dates are off by a whole step: observers who read in the morning date the maximum of yesterday by today.

Told by comparing series with their neighbours' at a few lags: what is common to a neighbourhood from one step to the
next stands out where dates agree. First pairs of neighbours: the lag at which two series agree best is the difference of
their shifts, and a tree of the clearest pairs spreads it over the map, so that no part of it keeps dates of its own. Then
each place against the mean of its neighbours, dated as they are held to be, a few times over. Only differences can be told, so
the dates that most places have are taken to be right.
"""

import dataclasses
from collections.abc import Callable
from types import MappingProxyType
from typing import Any, ClassVar, final

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.sparse import coo_array
from scipy.sparse.csgraph import breadth_first_order, connected_components, minimum_spanning_tree
from scipy.spatial import cKDTree

from weft.data.observations import ROW_EXTRAS, Observations, places_of_rows
from weft.data.places import distinct_places
from weft.data.schema import Numbers, Schema
from weft.inference.habits.base import (
    AskedPlaces,
    Habit,
    Places,
    Times,
    Version,
    are_settled,
    asked_numbers,
    place_numbers,
)
from weft.inference.posterior import OwnOfPlaces, Posterior
from weft.phases import timing

__all__ = ["Shift", "find_shift"]

_STEPS = (-1, 0, 1)
# Lags between two places of which each may be off by one.
_LAGS = (-2, -1, 0, 1, 2)
_NEIGHBOURS = 8
# Neighbours that have to have a value before their mean is taken for what was common.
_FEWEST_NEIGHBOURS = 3
# Steps common to a place and its neighbours, below which nothing is said about its dates.
_FEWEST_COMMON = 60
# The mean over so many steps to either side is taken off: what is left tells one step from the next.
_AROUND = 7
# Steps so far apart have nothing to do with each other: neither is among those around the other, whatever the lag.
_FAR_APART = _AROUND + max(_LAGS) + 1
# What is left is correlated from step to step still: so many steps tell as much as one that is independent.
_STEPS_PER_FACT = 3.0
# The probability from which a shift is taken for one.
_SURE = 0.99
# Of what neighbours leave unexplained, the part that a shift has to take off: over thousands of hours even the time that the air takes
# from here to there makes one date likelier than another, and moving a place by a whole step for it does harm.
_LEAST_GAIN = 0.1
_PASSES = 12
# No shift is rarer than this before the data are looked at.
_LEAST_SHARE = 0.005
# Steps between times that differ from the usual one, beyond which times are not regular.
_MOST_IRREGULAR = 0.2
# Larger tables are looked at in their middle.
_MOST_CELLS = 20_000_000
# Seen places around one never seen that tell of its dates, and how many unseen ones what is known of all counts for: the best of
# these at the places seen, each told from the others.
_AROUND_UNSEEN = (4, 8, 16, 32)
_PRIOR_PLACES = (1.0, 4.0, 16.0)


@final
@dataclasses.dataclass(frozen=True)
class Shift(Habit):
    """By how many steps of time the dates of each place are off: a row dated t there belongs to t + shift * step.

    `probability` is that of each place's being off by just so much; `shares` are how many places are off by -1, 0 and 1
    steps. A place never seen is dated as the `num_near` nearest ones are, with `prior_places` more that are as all are: how
    observers work is often the same in a county or a country.
    """

    name: ClassVar[str] = "shift"
    schema: ClassVar[Schema] = MappingProxyType(
        {
            "places": Numbers(("place", "dim")),
            "shift": Numbers(("place",), whole=True, least=-1.0),
            "probability": Numbers(("place",), least=0.0),
            "shares": Numbers(("version",), least=0.0),
            "step": Numbers(least=0.0),
            "num_near": Numbers(whole=True, least=0.0),
            "prior_places": Numbers(least=0.0),
        }
    )

    places: Float[np.ndarray, "place dim"]
    shift: Int[np.ndarray, " place"]
    probability: Float[np.ndarray, " place"]
    shares: Float[np.ndarray, " version"]
    step: float
    num_near: int = 0
    prior_places: float = 1.0

    def told(self, data: Observations) -> Observations:
        return _moved(data, self.step * self._at_rows(data))

    def untold(self, data: Observations) -> Observations:
        return _moved(data, -self.step * self._at_rows(data))

    def versions(self, times: Times, places: AskedPlaces) -> tuple[Version, ...]:
        shares = places.each(self._shares_at)
        return tuple(Version(share, times + self.step * step) for step, share in zip(_STEPS, shares.T, strict=True))

    def again(self, field: Callable[[], Posterior], data: Observations) -> "Shift":
        if are_settled(self.places, data):
            return self.only_at(distinct_places(data.places[:, : self.places.shape[1]])[0])
        found = find_shift(None, data, self.places.shape[1])
        if found is not None:
            return dataclasses.replace(
                found, shares=self.shares, num_near=self.num_near, prior_places=self.prior_places
            )
        places = distinct_places(data.places[:, : self.places.shape[1]])[0]
        nothing = np.zeros(len(places), dtype=np.int64)
        return dataclasses.replace(self, places=places, shift=nothing, probability=np.ones(len(places)))

    def only_at(self, places: Float[np.ndarray, "place dim"]) -> "Shift":
        kept = place_numbers(places, self.places) >= 0
        return dataclasses.replace(
            self, places=self.places[kept], shift=self.shift[kept], probability=self.probability[kept]
        )

    def describe(self) -> OwnOfPlaces:
        return OwnOfPlaces(
            name=self.name,
            component=None,
            words="dates off by whole steps",
            spread=float(np.sqrt(self.shares @ np.square(_STEPS))),
            places=self.places,
            value=self.shift.astype(np.float64),
            sd=np.sqrt(np.maximum(1 - self.probability, 0.0)),
            found=self.shift != 0,
        )

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> "Shift":
        return cls(**{**plain, "num_near": int(plain["num_near"])})

    def _shares_at(self, places: Places) -> Float[np.ndarray, "query version"]:
        """How likely each shift is."""
        number = asked_numbers(self.places, places)
        seen = number >= 0
        own = np.where(seen, self.shift[number], 0)
        shares = np.empty((len(places), len(_STEPS)))
        shares[seen] = own[seen, None] == np.array(_STEPS)
        shares[~seen] = self._shares_at_unseen(places[~seen, : self.places.shape[1]])
        return shares

    def _shares_at_unseen(self, places: Float[np.ndarray, "place dim"]) -> Float[np.ndarray, "place version"]:
        if self.num_near == 0 or len(places) == 0 or len(self.places) == 0:
            return np.tile(self.shares, (len(places), 1))
        scale = _deviations(self.places)
        count = min(self.num_near, len(self.places))
        _, near = cKDTree(self.places / scale).query(places / scale, k=np.arange(1, count + 1))
        return _shares_of(self.shift[near], self.shares, self.prior_places)

    def _at_rows(self, data: Observations) -> Int[np.ndarray, " row"]:
        number = asked_numbers(self.places, data.places)
        return np.where(number >= 0, self.shift[number], 0)[np.asarray(data.grouping.place_of_row)]


@timing("habits")
def find_shift(field: Posterior | None, data: Observations, num_space: int) -> Shift | None:
    """Places of `data` whose dates are off; None where there are none, or times are not regular. It needs no field."""
    step = _regular_step(data.times)
    places, place = places_of_rows(data, num_space)
    if step is None or len(places) <= _FEWEST_NEIGHBOURS or data.num_rows < _FEWEST_COMMON * _FEWEST_NEIGHBOURS:
        return None
    series = _common_scale(_series(data, place, len(places), step))
    scaled = places / _deviations(places)
    most = max(_NEIGHBOURS, *_AROUND_UNSEEN)
    _, around = cKDTree(scaled).query(scaled, k=np.arange(2, min(most, len(places) - 1) + 2))
    near = around[:, :_NEIGHBOURS]
    shift = _synchronised(series, near)
    shares = np.full(len(_STEPS), 1 / len(_STEPS))
    for _ in range(_PASSES):
        odds, agrees = _odds(series, shift, near, shares)
        best = np.argmax(odds, axis=1)
        sure = (odds[np.arange(len(places)), best] > _SURE) & agrees
        turned = np.where(sure, np.array(_STEPS)[best], 0)
        shares = np.maximum(odds.mean(axis=0), _LEAST_SHARE)
        shares = shares / shares.sum()
        is_settled = np.array_equal(turned, shift)
        shift = turned
        if is_settled:
            break
    if not np.any(shift):
        return None
    probability = odds[np.arange(len(places)), shift - _STEPS[0]]
    shares = np.bincount(shift - _STEPS[0], minlength=len(_STEPS)) / len(shift)
    return Shift(places, shift, probability, shares, step, *_told_by_those_near(shift, shares, around))


def _synchronised(
    series: Float[np.ndarray, "time place"], near: Int[np.ndarray, "place neighbour"]
) -> Int[np.ndarray, " place"]:
    """Shifts that agree with the lags of the clearest pairs: along a spanning tree of them, counted from what most places have.

    Where nothing clear leads from one part of the map to another, as from island to island, each counts from what most of its own have.
    """
    num_places, count = near.shape
    lag, clearness, is_clear = _pair_lags(series, near)
    kept = is_clear.reshape(-1)
    first, second = np.repeat(np.arange(num_places), count)[kept], near.reshape(-1)[kept]
    lag, clearness = lag.reshape(-1)[kept], clearness.reshape(-1)[kept]
    forward = coo_array((2.0 - clearness, (first, second)), shape=(num_places, num_places))
    # Of the two looks at a pair, from either side, the tree takes whichever is there.
    tree = minimum_spanning_tree(forward.tocsr())
    both_ways = (tree + tree.T).tocsr()
    lag_of = {(int(a), int(b)): int(found) for a, b, found in zip(first, second, lag, strict=True)}
    shift = np.zeros(num_places, dtype=np.int64)
    _, part = connected_components(both_ways, directed=False)
    for number in range(int(part.max()) + 1):
        members = np.flatnonzero(part == number)
        order, before = breadth_first_order(both_ways, members[0], directed=False)
        for place in order[1:]:
            pair = (int(place), int(before[place]))
            difference = lag_of[pair] if pair in lag_of else -lag_of[pair[::-1]]
            shift[place] = shift[before[place]] + difference
        shift[members] -= int(np.bincount(shift[members] - shift[members].min()).argmax() + shift[members].min())
    # Two steps from what most have is a chain of misreadings; what each place itself says comes next.
    return np.where(np.abs(shift) <= 1, shift, 0)


def _pair_lags(
    series: Float[np.ndarray, "time place"], near: Int[np.ndarray, "place neighbour"]
) -> tuple[
    Int[np.ndarray, "place neighbour"], Float[np.ndarray, "place neighbour"], Bool[np.ndarray, "place neighbour"]
]:
    """At how many steps later each neighbour's series is most like a place's own, by how much more than at any other lag, and whether
    that is more than chance: series that have nothing to do with each other are most alike at some lag too.
    """
    known = ~np.isnan(series)
    filled = np.where(known, series, 0.0)
    found, common = np.zeros((2, len(_LAGS), *near.shape))
    for number, lag in enumerate(_LAGS):
        own = slice(max(0, -lag), len(series) - max(0, lag))
        later = slice(max(0, lag), len(series) - max(0, -lag))
        for column, other in enumerate(near.T):
            both = known[own] & known[later][:, other]
            product = np.sum(filled[own] * filled[later][:, other], axis=0)
            squares = np.sum(filled[own] ** 2 * both, axis=0) * np.sum(filled[later][:, other] ** 2 * both, axis=0)
            common[number, :, column] = both.sum(axis=0)
            enough = common[number, :, column] >= _FEWEST_COMMON
            found[number, :, column] = np.where(enough, product / np.sqrt(np.where(squares > 0, squares, 1.0)), 0.0)
    ranked = np.sort(found, axis=0)
    # The likelihood of a linear relation, as of a place with the mean of its neighbours.
    explained = np.log1p(-(np.clip(ranked[-2:], 0.0, 1 - 1e-12) ** 2))
    odds = 0.5 * common.min(axis=0) / _STEPS_PER_FACT * (explained[0] - explained[1])
    is_clear = odds > np.log(_SURE / (1 - _SURE))
    return np.array(_LAGS)[np.argmax(found, axis=0)], ranked[-1] - ranked[-2], is_clear


def _told_by_those_near(
    shift: Int[np.ndarray, " place"], shares: Float[np.ndarray, " version"], around: Int[np.ndarray, "place other"]
) -> tuple[int, float]:
    """How many places near an unseen one tell of its dates, and the weight of what all show beside them; 0 where none do better."""
    own = shift - _STEPS[0]
    best, found = float(np.sum(np.log(np.maximum(shares[own], 1e-12)))), (0, 1.0)
    for num_near in _AROUND_UNSEEN:
        if num_near > around.shape[1]:
            break
        for prior_places in _PRIOR_PLACES:
            local = _shares_of(shift[around[:, :num_near]], shares, prior_places)
            told = float(np.sum(np.log(np.maximum(local[np.arange(len(own)), own], 1e-12))))
            if told > best:
                best, found = told, (num_near, prior_places)
    return found


def _shares_of(
    shift: Int[np.ndarray, "place near"], shares: Float[np.ndarray, " version"], prior_places: float
) -> Float[np.ndarray, "place version"]:
    counts = np.stack([np.sum(shift == step, axis=1) for step in _STEPS], axis=1)
    return (counts + prior_places * shares) / (shift.shape[1] + prior_places)


def _deviations(places: Float[np.ndarray, "place dim"]) -> Float[np.ndarray, " dim"]:
    deviations = places.std(axis=0)
    return np.where(deviations > 0, deviations, 1.0)


def _regular_step(times: Float[np.ndarray, " time"]) -> float | None:
    """The step between times, where they lie on a grid of it and mostly follow each other."""
    steps = np.diff(times)
    if len(steps) < _FEWEST_COMMON:
        return None
    step = float(np.median(steps))
    ratio = steps / step
    on_grid = np.abs(ratio - np.round(ratio)) < 1e-6
    return step if np.all(on_grid) and np.mean(ratio > 1.5) < _MOST_IRREGULAR else None


def _series(
    data: Observations, place: Int[np.ndarray, " row"], num_places: int, step: float
) -> Float[np.ndarray, "time place"]:
    """Values by step and place, NaN where there is none; of several at once their mean.

    Of a stretch without any value there are no more steps than part what comes before it from what comes after.
    """
    steps, which = np.unique(np.round((data.row_times - data.times[0]) / step).astype(np.int64), return_inverse=True)
    number = np.concatenate([[0], np.cumsum(np.minimum(np.diff(steps), _FAR_APART))])[which]
    num_times = int(number.max()) + 1
    kept = max(_MOST_CELLS // num_places, 4 * _FEWEST_COMMON)
    first = max((num_times - kept) // 2, 0)
    inside = (number >= first) & (number < first + kept)
    cell = (number[inside] - first) * num_places + place[inside]
    size = min(num_times, kept) * num_places
    count = np.bincount(cell, minlength=size)
    total = np.bincount(cell, np.asarray(data.values)[inside], size)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan).reshape(-1, num_places)


def _common_scale(series: Float[np.ndarray, "time place"]) -> Float[np.ndarray, "time place"]:
    """Less the mean of the steps around, by the deviation of what is left; 0 where there is no value."""
    present = ~np.isnan(series)
    values = np.where(present, series, 0.0)
    count, total = (_moving_sum(array) for array in (present.astype(np.float64), values))
    left = np.where(present & (count > _AROUND), series - total / np.maximum(count, 1.0), np.nan)
    known = ~np.isnan(left)
    square = np.sum(np.where(known, left, 0.0) ** 2, axis=0) / np.maximum(known.sum(axis=0), 1)
    return left / np.sqrt(np.where(square > 0, square, 1.0))


def _moving_sum(array: Float[np.ndarray, "time place"]) -> Float[np.ndarray, "time place"]:
    width = 2 * _AROUND + 1
    summed = np.cumsum(np.pad(array, ((_AROUND + 1, _AROUND), (0, 0))), axis=0)
    return summed[width:] - summed[:-width]


def _odds(
    series: Float[np.ndarray, "time place"],
    shift: Int[np.ndarray, " place"],
    near: Int[np.ndarray, "place neighbour"],
    shares: Float[np.ndarray, " version"],
) -> tuple[Float[np.ndarray, "place version"], np.ndarray]:
    """Probability of each shift at each place given its neighbours' shifts, and whether that is worth it in
    both halves of the series.
    """
    aligned = np.stack([_at(series[:, place], -own) for place, own in enumerate(shift)], axis=1)
    odds, agrees = np.tile(shares, (len(shift), 1)), np.ones(len(shift), dtype=bool)
    for place in range(len(shift)):
        around = aligned[:, near[place]]
        count = np.sum(~np.isnan(around), axis=1)
        enough = count >= min(_FEWEST_NEIGHBOURS, near.shape[1])
        common = np.where(enough, np.nansum(around, axis=1) / np.maximum(count, 1), np.nan)
        others = np.stack([_at(common, step) for step in _STEPS], axis=1)
        both = ~(np.isnan(series[:, place]) | np.isnan(others).any(axis=1))
        if both.sum() < _FEWEST_COMMON:
            continue
        own, others = series[both, place], others[both]
        # The likelihood of a linear relation, by its correlation.
        unexplained = 1 - _correlation(own, others) ** 2
        logs = np.log(shares) - 0.5 * len(own) / _STEPS_PER_FACT * np.log(unexplained)
        odds[place] = np.exp(logs - np.logaddexp.reduce(logs))
        best, unmoved, half = int(np.argmax(odds[place])), _STEPS.index(0), len(own) // 2
        halves = [_correlation(own[part], others[part]) for part in (slice(half), slice(half, None))]
        is_worth_it = unexplained[best] <= (1 - _LEAST_GAIN) * unexplained[unmoved]
        agrees[place] = best == unmoved or (is_worth_it and all(each[best] >= each[unmoved] for each in halves))
    return odds, agrees


def _at(series: Float[np.ndarray, " time"], step: int | np.integer) -> Float[np.ndarray, " time"]:
    """The series so many steps later; NaN beyond its end."""
    moved = np.full_like(series, np.nan)
    if step == 0:
        return series
    if step > 0:
        moved[:-step] = series[step:]
    else:
        moved[-step:] = series[:step]
    return moved


def _correlation(own: Float[np.ndarray, " time"], others: Float[np.ndarray, "time version"]) -> np.ndarray:
    """With each of the others, at least 0: neighbours that go the other way are no reason to move a date."""
    size = np.sqrt(np.sum(own**2) * np.sum(others**2, axis=0))
    return np.clip(own @ others / np.where(size > 0, size, 1.0), 0.0, 1 - 1e-12)


def _moved(data: Observations, by: Float[np.ndarray, " row"]) -> Observations:
    """The same rows at other times; each stands where it stood in what was given."""
    count, moved = data.grouping.num_given, data.row_times + by

    def whole(numbers: Any, filler: float) -> Any:
        if numbers is None:
            return None
        array = np.full((count, *np.shape(numbers)[1:]), filler)
        array[data.row] = np.asarray(numbers)
        return array

    return Observations(
        # A row without a value stands at a time that others have: at one of those before, there would be a time of nobody's.
        whole(moved, float(np.min(moved))),
        whole(data.row_places, 0.0),
        whole(data.values, np.nan),
        **{name: whole(getattr(data, name), default) for name, default in ROW_EXTRAS.items()},
    )
