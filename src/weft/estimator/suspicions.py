# SPDX-License-Identifier: MIT
"""What may have gone wrong with values and places: the marks each fault leaves."""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import special
from scipy.spatial import cKDTree

__all__ = [
    "CODE",
    "MISTAKES",
    "Series",
    "Suspicion",
    "copied",
    "jumped",
    "misplaced",
    "observed_twice",
    "shifted",
    "stuck",
]

CODE = "code for a missing value"
# A run is suspicious where fewer than so many such runs are expected by chance in the whole table.
_CHANCE = 0.01
# Rows by which the share of equal pairs in a table counts beside a station's own.
_PRIOR_ROWS = 2.0
_SHIFTS = tuple(k for k in range(-7, 8) if k)
_SHORTEST_SHIFT = 20
# Natural log of the odds that a shift of dates must reach, beyond what the number of tries asks for. Errors of following days go together,
# so odds alone say too much: the mean squares must also be clearly too large as dated, and about right as shifted.
_SHIFT_ODDS = 12.0
_TOO_LARGE, _ABOUT_RIGHT = 4.0, 2.0
# Rows on either side of a jump; deviations by which levels must differ, and standard errors of their difference.
_SHORTEST_LEVEL = 15
_LEAST_JUMP, _JUMP_ERRORS = 2.0, 8.0
# A share of rows at a time and place of another beyond which a table means it so.
_MOST_TWICE = 0.1

# How a wrong value came about, and the way back to the right one.
MISTAKES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "sign": lambda value: -value,
    "decimal point: 10 times too large": lambda value: value / 10,
    "decimal point: 10 times too small": lambda value: value * 10,
    "unit: degrees Fahrenheit for Celsius": lambda value: (value - 32) / 1.8,
    "unit: degrees Celsius for Fahrenheit": lambda value: value * 1.8 + 32,
    "unit: kelvin for degrees Celsius": lambda value: value - 273.15,
    "unit: degrees Celsius for kelvin": lambda value: value + 273.15,
    "decimal point: 100 times too large": lambda value: value / 100,
    "decimal point: 100 times too small": lambda value: value * 100,
}


class Suspicion(NamedTuple):
    """Rows with one cause, and how probable such a finding is where nothing is wrong."""

    rows: Int[np.ndarray, " some"]
    cause: str
    probability: float


@final
@dataclasses.dataclass(frozen=True)
class Series:
    """Rows with a value, sorted by place and time. `tick` numbers the table's distinct times."""

    row: Int[np.ndarray, " row"]
    place: Int[np.ndarray, " row"]
    tick: Int[np.ndarray, " row"]
    value: Float[np.ndarray, " row"]

    @classmethod
    def of(
        cls, rows: Int[np.ndarray, " row"], place: np.ndarray, times: Float[np.ndarray, " row"], values: np.ndarray
    ) -> "Series":
        tick = np.unique(times, return_inverse=True)[1]
        order = np.lexsort((tick, place))
        return cls(rows[order], place[order], tick[order], values[order])


def stuck(series: Series) -> list[Suspicion]:
    """Runs of one value at one place, longer than chance makes them: a sensor that no longer answers.

    How often a value follows itself is counted at the station, outside the run, so that the zeros of a dry season are none.
    """
    follows = (series.place[1:] == series.place[:-1]) & (np.diff(series.tick) > 0)
    equal = follows & (series.value[1:] == series.value[:-1])
    if not equal.any():
        return []
    num_places = int(series.place.max()) + 1
    # A station's most common value (no rain) follows itself more often than any other, and is counted for itself below.
    other = follows & ~_is_most_common(series)[:-1]
    pairs = np.bincount(series.place[1:][other], minlength=num_places)
    same = np.bincount(series.place[1:][other & equal], minlength=num_places)
    # The middle station: a few stuck ones do not change it.
    usual = float(np.median(same[pairs > 0] / pairs[pairs > 0])) if np.any(pairs > 0) else 0.0
    found = []
    for start, stop in _runs(equal):
        own = (series.place[:-1] == series.place[start]) & follows & (series.value[:-1] == series.value[start])
        own[start:stop] = False
        again = _share(int(np.count_nonzero(own & equal)), int(own.sum()), usual, len(series.row))
        chance = again ** (stop - start) * len(series.row)
        if chance < _CHANCE:
            found.append(Suspicion(series.row[start : stop + 1], "stuck sensor", chance / len(series.row)))
    return found


def copied(series: Series, misfit: Float[np.ndarray, " row"]) -> list[Suspicion]:
    """Stretches in which two places report the same values; the one that fits its neighbours less is taken for the copy.

    `misfit` is how far each row of the series is from what its neighbours say, squared.
    """
    places = np.unique(series.place)
    table = np.full((len(places), int(series.tick.max(initial=0)) + 1), np.nan)
    at = np.full(table.shape, -1)
    line = np.searchsorted(places, series.place)
    table[line, series.tick] = series.value
    at[line, series.tick] = np.arange(len(series.row))
    counts = []
    for first in range(len(places) - 1):
        both = ~np.isnan(table[first]) & ~np.isnan(table[first + 1 :])
        counts.append((np.sum((table[first + 1 :] == table[first]) & both, axis=1), both.sum(axis=1)))
    if not counts:
        return []
    same, pairs = (np.concatenate([each[k] for each in counts]) for k in (0, 1))
    # Of pairs as alike as the most alike tenth, which are neighbours.
    usual = float(np.quantile(same[pairs > 0] / pairs[pairs > 0], 0.9)) if np.any(pairs > 0) else 0.0
    num_tries = int(pairs.sum())
    found = []
    for first in range(len(places) - 1):
        for second in range(first + 1, len(places)):
            both = np.flatnonzero(~np.isnan(table[first]) & ~np.isnan(table[second]))
            equal = table[first, both] == table[second, both]
            if np.count_nonzero(equal) < 2:
                continue
            for start, stop in _runs(equal):
                outside = int(np.count_nonzero(equal)) - (stop - start)
                again = _share(outside, len(both) - (stop - start), usual, num_tries)
                chance = again ** (stop - start) * num_tries
                values = table[first, both[start:stop]]
                if chance < _CHANCE and len(np.unique(values)) > 1:
                    rows = [at[each, both[start:stop]] for each in (first, second)]
                    worse = max(rows, key=lambda of: float(np.nanmean(misfit[of])))
                    found.append(Suspicion(series.row[worse], "copied from another station", chance / num_tries))
    return found


def shifted(
    series: Series,
    z: Callable[[Int[np.ndarray, " some"], Int[np.ndarray, " some"]], Float[np.ndarray, " some"]],
) -> list[Suspicion]:
    """Stretches of a station whose values fit what its neighbours say of other dates much better, the clearest first.

    `z(a, b)` is the value of row a of the series less what is expected at row b, in deviations.
    """
    places = np.unique(series.place)
    threshold = _SHIFT_ODDS + np.log(len(places) * len(_SHIFTS))
    found: list[tuple[float, Suspicion]] = []
    for place in places:
        own = np.flatnonzero(series.place == place)
        by_tick = dict(zip(series.tick[own].tolist(), own.tolist(), strict=True))
        best: tuple[float, np.ndarray, int] | None = None
        for shift in _SHIFTS:
            here = np.array([k for k in own if int(series.tick[k]) - shift in by_tick], dtype=np.int64)
            if len(here) < _SHORTEST_SHIFT:
                continue
            there = np.array([by_tick[int(series.tick[k]) - shift] for k in here], dtype=np.int64)
            # Squares are cut: one wild value is no evidence for dates.
            before, after = (np.minimum(z(here, at) ** 2, 25.0) for at in (here, there))
            start, stop, gain = _best_stretch((before - after) / 2)
            clear = (
                stop - start >= _SHORTEST_SHIFT
                and before[start:stop].mean() > _TOO_LARGE
                and after[start:stop].mean() < _ABOUT_RIGHT
            )
            if clear and gain > threshold and (best is None or gain > best[0]):
                best = (gain, here[start:stop], shift)
        if best is not None:
            gain, rows, shift = best
            word = f"dates shifted: {abs(shift)} too {'late' if shift > 0 else 'early'}"
            chance = float(np.exp(threshold - _SHIFT_ODDS - gain))
            found.append((gain, Suspicion(series.row[rows], word, chance)))
    return [suspicion for _, suspicion in sorted(found, key=lambda each: -each[0])]


def jumped(series: Series, residual: Float[np.ndarray, " row"], trusted: Bool[np.ndarray, " row"]) -> list[Suspicion]:
    """Stations whose level changes for good against what the others say: moved, recalibrated, or another instrument.

    `residual` is each row's value less what other stations expect, in deviations. Errors of following times go together, so the
    standard error is that of as many independent ones as they are worth (by their correlation at one step). The side that is
    farther from the others is the wrong one.
    """
    found = []
    for place in np.unique(series.place):
        own = np.flatnonzero((series.place == place) & trusted[series.row])
        if len(own) < 2 * _SHORTEST_LEVEL:
            continue
        each = residual[series.row[own]]
        sums, counts = np.cumsum(each)[:-1], np.arange(1, len(each))
        means = sums / counts, (each.sum() - sums) / (len(each) - counts)
        allowed = (counts >= _SHORTEST_LEVEL) & (len(each) - counts >= _SHORTEST_LEVEL)
        # Of least squares, the best split.
        gain = np.where(allowed, counts * (len(each) - counts) * (means[0] - means[1]) ** 2, -np.inf)
        split = int(np.argmax(gain)) + 1
        before, after = each[:split].mean(), each[split:].mean()
        rest = each - np.where(np.arange(len(each)) < split, before, after)
        spread = float(np.sqrt(np.mean(rest**2)))
        if spread == 0.0:
            continue
        together = min(max(float(np.mean(rest[1:] * rest[:-1])) / spread**2, 0.0), 0.95)
        worth = (1 - together) / (1 + together)
        error = spread * np.sqrt((1 / split + 1 / (len(each) - split)) / worth)
        if abs(after - before) > max(_JUMP_ERRORS * error, _LEAST_JUMP * max(spread, 1.0)):
            later = abs(after) > abs(before)
            rows = series.row[own[split:]] if later else series.row[own[:split]]
            chance = float(special.erfc(abs(after - before) / error / np.sqrt(2)))
            found.append(Suspicion(rows, "jump: another level " + ("from here on" if later else "up to here"), chance))
    return found


def observed_twice(series: Series, misfit: Float[np.ndarray, " row"]) -> list[Suspicion]:
    """Rows at the time and place of another: of several, all but the one that fits its neighbours best.

    Where more than a tenth of all rows are, that is how the table is (sales, samples), and none is wrong.
    """
    again = (np.diff(series.place) == 0) & (np.diff(series.tick) == 0)
    if not again.any() or np.count_nonzero(again) > _MOST_TWICE * len(series.row):
        return []
    found = []
    for start, stop in _runs(again):
        group = np.arange(start, stop + 1)
        best = group[np.argmin(misfit[group])]
        others = group[group != best]
        same = series.value[others] == series.value[best]
        for rows, word in ((others[same], "the same value"), (others[~same], "another value")):
            if len(rows):
                found.append(Suspicion(series.row[rows], f"observed twice: {word}", 0.0))
    return found


def misplaced(longitude: Float[np.ndarray, " place"], latitude: Float[np.ndarray, " place"]) -> list[tuple[int, str]]:
    """Places far from all others that are among them once the coordinates are exchanged, or a sign is."""
    swaps: dict[str, tuple[np.ndarray, np.ndarray]] = {
        "latitude and longitude swapped": (latitude, longitude),
        "sign of the longitude": (-longitude, latitude),
        "sign of the latitude": (longitude, -latitude),
    }
    if len(longitude) < 4:
        return []
    with np.errstate(invalid="ignore"):
        near = _nearest(longitude, latitude, longitude, latitude, skip_self=True)
    usual = float(np.quantile(near, 0.75))
    found = []
    for place in np.flatnonzero(near > 5 * usual):
        others = np.delete(np.arange(len(longitude)), place)
        for cause, (lon, lat) in swaps.items():
            if abs(lat[place]) > 90:
                continue
            distance = _nearest(
                longitude[others], latitude[others], lon[place : place + 1], lat[place : place + 1], skip_self=False
            )[0]
            if distance < near[place] / 5 and distance < 3 * usual:
                found.append((int(place), cause))
                break
    return found


def _is_most_common(series: Series) -> Bool[np.ndarray, " row"]:
    common = np.zeros(len(series.row), dtype=bool)
    for place in np.unique(series.place):
        own = np.flatnonzero(series.place == place)
        _, number, counts = np.unique(series.value[own], return_inverse=True, return_counts=True)
        common[own] = number == np.argmax(counts)
    return common


def _nearest(
    lon: np.ndarray, lat: np.ndarray, wanted_lon: np.ndarray, wanted_lat: np.ndarray, *, skip_self: bool
) -> Float[np.ndarray, " wanted"]:
    """Distance on the unit sphere to the nearest place; latitudes beyond the pole are as far as can be."""

    def vectors(longitude: np.ndarray, latitude: np.ndarray) -> np.ndarray:
        a, b = np.radians(longitude), np.radians(latitude)
        at = np.stack([np.cos(b) * np.cos(a), np.cos(b) * np.sin(a), np.sin(b)], axis=1)
        return np.where(np.abs(latitude)[:, None] <= 90, at, 10.0)

    distance = cKDTree(vectors(lon, lat)).query(vectors(wanted_lon, wanted_lat), k=[2 if skip_self else 1])[0]
    return distance[:, 0]


def _share(num_equal: int, num_pairs: int, usual: float, num_rows: int) -> float:
    """How often two values are equal by chance: as often as usual or as seen here, and at least once in the table."""
    here = (num_equal + _PRIOR_ROWS * usual) / (num_pairs + _PRIOR_ROWS)
    return max(here, usual, 1 / max(num_rows, 2))


def _runs(wanted: Bool[np.ndarray, " entry"]) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate([[0], wanted.astype(np.int8), [0]])))
    return [(int(start), int(stop)) for start, stop in edges.reshape(-1, 2)]


def _best_stretch(gains: Float[np.ndarray, " row"]) -> tuple[int, int, float]:
    """The stretch whose gains add up to most (Kadane)."""
    total, start, best = 0.0, 0, (0, 0, 0.0)
    for number, gain in enumerate(gains.tolist()):
        if total <= 0:
            total, start = 0.0, number
        total += gain
        if total > best[2]:
            best = (start, number + 1, total)
    return best
