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
    "DATES",
    "MISTAKES",
    "Series",
    "Suspicion",
    "by_decimals",
    "copied",
    "following_worth",
    "jumped",
    "misplaced",
    "observed_twice",
    "shifted",
    "stuck",
]

CODE = "code for a missing value"
DATES = "dates shifted"
# A run is suspicious where fewer than so many such runs are expected by chance in the whole table.
_CHANCE = 0.01
# Rows by which the share of equal pairs in a table counts beside a station's own.
_PRIOR_ROWS = 2.0
_SHIFTS = tuple(k for k in range(-7, 8) if k)
_SHORTEST_SHIFT = 20
# Natural log of the odds that a shift of dates or a jump must reach, beyond what the number of tries asks for.
_LEAST_ODDS = 12.0
# The mean square that values have once dates are right, at most, by that of a usual station, and by how much that is less than it was.
_ABOUT_RIGHT, _BETTER = 2.0, 2.5
# Rows on either side of a jump, and deviations by which levels must differ.
_SHORTEST_LEVEL = 15
_LEAST_JUMP = 2.0
# Deviations by which an error counts at most where all of them are asked how they go together.
_MOST_ERROR = 3.0
# Rows in a row that may differ within a copy: faults of one of the two.
_LONGEST_BREAK = 2
# A share of rows at a time and place of another beyond which a table means it so.
_MOST_TWICE = 0.1


# Decimals that are told apart: from hundreds to as many as single precision holds of usual values, within its rounding.
_FEWEST_DECIMALS, _MOST_DECIMALS, _SINGLE_PRECISION = -2, 6, 2e-7


class Mistake(NamedTuple):
    """The way back from a wrong value to the right one: times a factor, plus an offset; where sound values lie between `among`."""

    factor: float
    offset: float = 0.0
    among: tuple[float, float] = (-np.inf, np.inf)

    def undone(self, values: Float[np.ndarray, "*row"]) -> Float[np.ndarray, "*row"]:
        return values * self.factor + self.offset

    @property
    def fewer_decimals(self) -> int:
        """By how many a right value has fewer decimals than the wrong one, if it is the decimal point that was moved."""
        power = float(np.log10(abs(self.factor)))
        return round(power) if self.offset == 0.0 and power == round(power) else 0


# Temperatures on Earth, of air, ground and water; nothing else is confused with another scale of temperature.
_CELSIUS, _FAHRENHEIT, _KELVIN = (-90.0, 60.0), (-130.0, 140.0), (183.0, 333.0)
MISTAKES = {
    "sign": Mistake(-1.0),
    "decimal point: 10 times too large": Mistake(0.1),
    "decimal point: 10 times too small": Mistake(10.0),
    "unit: degrees Fahrenheit for Celsius": Mistake(1 / 1.8, -32 / 1.8, _CELSIUS),
    "unit: degrees Celsius for Fahrenheit": Mistake(1.8, 32.0, _FAHRENHEIT),
    "unit: kelvin for degrees Celsius": Mistake(1.0, -273.15, _CELSIUS),
    "unit: degrees Celsius for kelvin": Mistake(1.0, 273.15, _KELVIN),
    "decimal point: 100 times too large": Mistake(0.01),
    "decimal point: 100 times too small": Mistake(100.0),
}


class Suspicion(NamedTuple):
    """Rows with one cause, and how probable such a finding is where nothing is wrong; `log_odds` tell apart what is far below 1e-300."""

    rows: Int[np.ndarray, " some"]
    cause: str
    probability: float
    log_odds: float = 0.0


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

    @property
    def ticks(self) -> Int[np.ndarray, " row"]:
        """Of all rows, in their own order."""
        found = np.empty_like(self.tick)
        found[self.row] = self.tick
        return found


def by_decimals(values: Float[np.ndarray, " row"], place: Int[np.ndarray, " row"]) -> Float[np.ndarray, "row mistake"]:
    """How much likelier each mistake makes the number of a value's decimals, by those of the other values of its station.

    Where whole numbers are measured 7.8 has lost a decimal point, and 780 has more likely gained one than 781.
    """
    number = _decimals(values)
    kinds = np.arange(_FEWEST_DECIMALS, _MOST_DECIMALS + 1)
    stations = np.unique(place, return_inverse=True)[1]
    counts = np.zeros((int(stations.max(initial=0)) + 1, len(kinds)))
    np.add.at(counts, (stations, number - _FEWEST_DECIMALS), 1.0)
    usual = (counts.sum(axis=0) + 1 / len(kinds)) / (len(values) + 1)
    own = counts[stations]
    rows = np.arange(len(values))
    own[rows, number - _FEWEST_DECIMALS] -= 1
    share = (own + _PRIOR_ROWS * usual) / (own.sum(axis=1, keepdims=True) + _PRIOR_ROWS)
    found = np.ones((len(values), len(MISTAKES)))
    for column, mistake in enumerate(MISTAKES.values()):
        right = number - mistake.fewer_decimals
        # What has no last decimal, or none that can be told, has none that could be missing.
        told = (number < _MOST_DECIMALS) & (right < _MOST_DECIMALS) & (right >= _FEWEST_DECIMALS) & (values != 0)
        both = share[rows, np.where(told, right, number) - _FEWEST_DECIMALS], share[rows, number - _FEWEST_DECIMALS]
        found[:, column] = both[0] / both[1]
    return found


def _decimals(values: Float[np.ndarray, " row"]) -> Int[np.ndarray, " row"]:
    """How many decimals each value is written with, -1 for tens; the most there are where single precision does not tell."""
    found = np.full(len(values), _MOST_DECIMALS)
    for number in range(_MOST_DECIMALS - 1, _FEWEST_DECIMALS - 1, -1):
        scaled = np.abs(values) * 10.0**number
        blurred = _SINGLE_PRECISION * scaled
        found[(np.abs(scaled - np.rint(scaled)) <= blurred) & (blurred < 0.01)] = number
    return found


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
        again = max(again, _by_rounding(series.value[series.place == series.place[start]]))
        chance = again ** (stop - start) * len(series.row)
        if chance < _CHANCE:
            found.append(Suspicion(series.row[start : stop + 1], "stuck sensor", chance / len(series.row)))
    return found


def copied(
    series: Series,
    usual_misfit: Float[np.ndarray, " row"],
    misfit_without: Callable[[Int[np.ndarray, " some"]], Float[np.ndarray, " row"]],
) -> list[Suspicion]:
    """Stretches in which two places report the same values; the one that fits its neighbours less is taken for the copy.

    `usual_misfit` is how far each row of the series is from what other stations say, squared, and `misfit_without(rows)` the same by
    all but `rows` of the table: what is the same at two places must not speak for either.
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
    alike_at: list[tuple[list[np.ndarray], float]] = []
    for first in range(len(places) - 1):
        for second in range(first + 1, len(places)):
            both = np.flatnonzero(~np.isnan(table[first]) & ~np.isnan(table[second]))
            equal = table[first, both] == table[second, both]
            if np.count_nonzero(equal) < 2:
                continue
            for start, stop in _mostly_equal(equal):
                alike = both[start:stop][equal[start:stop]]
                longest = max(end - begin for begin, end in _runs(equal[start:stop]))
                again = _share(int(np.count_nonzero(equal)) - len(alike), len(both) - (stop - start), usual, num_tries)
                chance = again**longest * num_tries
                if chance < _CHANCE and len(np.unique(table[first, alike])) > 1:
                    alike_at.append(([at[each, alike] for each in (first, second)], chance / num_tries))
    if not alike_at:
        return []
    misfit = misfit_without(series.row[np.concatenate([rows for pair, _ in alike_at for rows in pair])])
    found = []
    for pair, chance in alike_at:
        worse = max(pair, key=lambda rows: float(np.nanmean(misfit[rows])) / _usual(series, usual_misfit, rows))
        found.append(Suspicion(series.row[worse], "copied from another station", chance))
    return found


def shifted(
    series: Series,
    z: Callable[[Int[np.ndarray, " some"], Int[np.ndarray, " some"]], Float[np.ndarray, " some"]],
    worth: float,
) -> list[Suspicion]:
    """Stretches of a station whose values fit what its neighbours say of other dates much better.

    `z(a, b)` is the value of row a of the series less what is expected at row b, in deviations. `worth` is how many independent rows
    one is worth: a front that passes a valley some hours late says little more than once that it does.
    """
    places = np.unique(series.place)
    threshold = _LEAST_ODDS + np.log(len(places) * len(_SHIFTS))
    every = np.arange(len(series.row))
    squares = np.minimum(z(every, every) ** 2, 25.0)
    usual = float(np.median([squares[series.place == place].mean() for place in places]))
    found = []
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
            start, stop, gain = _best_stretch(worth * (before - after) / 2)
            clear = (
                stop - start >= _SHORTEST_SHIFT
                and before[start:stop].mean() > _BETTER * after[start:stop].mean()
                and after[start:stop].mean() < _ABOUT_RIGHT * usual
            )
            if clear and gain > threshold and (best is None or gain > best[0]):
                best = (gain, here[start:stop], shift)
        if best is not None:
            gain, rows, shift = best
            word = f"{DATES}: {abs(shift)} too {'late' if shift > 0 else 'early'}"
            chance = float(np.exp(threshold - _LEAST_ODDS - gain))
            found.append(Suspicion(series.row[rows], word, chance, gain))
    return found


def following_worth(series: Series, residual: Float[np.ndarray, " row"], trusted: Bool[np.ndarray, " row"]) -> float:
    """How many independent errors one of those that follow each other at a station is worth, by their correlation at one step.

    A station's median is taken off, and errors are cut, so that a few stations with another level do not tell for all.
    """
    error = np.clip(residual[series.row], -_MOST_ERROR, _MOST_ERROR)
    sound = trusted[series.row]
    for place in np.unique(series.place):
        own = series.place == place
        if np.any(own & sound):
            error[own] -= np.median(error[own & sound])
    follows = (np.diff(series.place) == 0) & (np.diff(series.tick) == 1) & sound[1:] & sound[:-1]
    squares = float(np.mean(error[sound] ** 2)) if sound.any() else 0.0
    if not follows.any() or squares == 0.0:
        return 1.0
    return _worth(float(np.mean(error[1:][follows] * error[:-1][follows])) / squares)


def _worth(correlation: float) -> float:
    together = min(max(correlation, 0.0), 0.95)
    return (1 - together) / (1 + together)


def jumped(
    series: Series,
    residual: Float[np.ndarray, " row"],
    trusted: Bool[np.ndarray, " row"],
    worth: float,
    years: Float[np.ndarray, " row"] | None = None,
) -> list[Suspicion]:
    """Stations whose level changes for good against what the others say: moved, recalibrated, or another instrument.

    `residual` is each row's value less what other stations expect, in deviations. Errors of following times go together, so the
    standard error is that of as many independent ones as they are worth, here or in all the table. The side that is farther from the
    others is the wrong one. Where rows are told in `years`, what a wave of a year says as well is no jump: a mountain is above the fog in
    winter only.
    """
    found, places = [], np.unique(series.place)
    for place in places:
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
        if spread == 0.0 or (years is not None and _is_seasonal(each, float(rest @ rest), years[series.row[own]])):
            continue
        least = min(worth, _worth(float(np.mean(rest[1:] * rest[:-1])) / spread**2))
        error = spread * np.sqrt((1 / split + 1 / (len(each) - split)) / least)
        z = float(abs(after - before) / error)
        threshold = _LEAST_ODDS + np.log(np.count_nonzero(allowed) * len(places))
        if z**2 / 2 > threshold and abs(after - before) > _LEAST_JUMP * max(spread, 1.0):
            later = abs(after) > abs(before)
            rows = series.row[own[split:]] if later else series.row[own[:split]]
            word = "jump: another level " + ("from here on" if later else "up to here")
            found.append(Suspicion(rows, word, float(special.erfc(z / np.sqrt(2))), z**2 / 2))
    return found


def _is_seasonal(each: Float[np.ndarray, " some"], left: float, years: Float[np.ndarray, " some"]) -> bool:
    """Whether a wave of a year leaves no more of a station's errors than a jump does, squared; both are told by three numbers."""
    angles = 2 * np.pi * years
    wave = np.stack([np.ones(len(each)), np.sin(angles), np.cos(angles)], axis=1)
    beside = each - wave @ np.linalg.lstsq(wave, each, rcond=None)[0]
    return float(beside @ beside) <= left


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


def _by_rounding(values: Float[np.ndarray, " row"]) -> float:
    """How often values that follow each other are equal because they are rounded: to the whole unit far more often than to a tenth."""
    apart = np.diff(np.unique(values))
    changes = np.abs(np.diff(values))
    if len(apart) < 2 or not np.any(changes > 0):
        return 0.0
    return min(float(np.quantile(apart, 0.1) / (2 * np.median(changes[changes > 0]))), 0.5)


def _share(num_equal: int, num_pairs: int, usual: float, num_rows: int) -> float:
    """How often two values are equal by chance: as often as usual or as seen here, and at least once in the table."""
    here = (num_equal + _PRIOR_ROWS * usual) / (num_pairs + _PRIOR_ROWS)
    return max(here, usual, 1 / max(num_rows, 2))


def _runs(wanted: Bool[np.ndarray, " entry"]) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate([[0], wanted.astype(np.int8), [0]])))
    return [(int(start), int(stop)) for start, stop in edges.reshape(-1, 2)]


def _usual(series: Series, misfit: Float[np.ndarray, " row"], rows: Int[np.ndarray, " some"]) -> float:
    """How far from its neighbours a station is at other rows than these."""
    others = series.place == series.place[rows[0]]
    others[rows] = False
    return max(float(np.nanmedian(misfit[others])), 1e-300) if others.any() else 1.0


def _mostly_equal(equal: Bool[np.ndarray, " entry"]) -> list[tuple[int, int]]:
    """Runs of equal ones, joined where hardly any lie between that are not: faults of one of the two, made after it was copied."""
    joined: list[tuple[int, int]] = []
    for start, stop in _runs(equal):
        if joined and start - joined[-1][1] <= min(_LONGEST_BREAK, stop - start, joined[-1][1] - joined[-1][0]):
            start = joined.pop()[0]
        joined.append((start, stop))
    return joined


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
