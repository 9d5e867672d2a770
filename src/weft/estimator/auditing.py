# SPDX-License-Identifier: MIT
"""Rows that disagree with their neighbours, and what may have gone wrong with them. Nothing is changed.

A row is judged twice: without itself, by all other rows, and without its station, by the other stations. The first is sharp for
single faults; the second sees what a whole station has wrong. Rows found wrong are taken out and the rest judged again, so that
they neither hide behind each other nor cast a shadow on their neighbours.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np
from jaxtyping import Bool, Float, Int

from weft.data.clock import UNIT_SECONDS
from weft.data.missing import far_from_others, is_missing_code
from weft.data.tables import Table, distinct_rows
from weft.estimator.columns import Measurements, read_measurements
from weft.estimator.errors_of_rows import (
    AGREES,
    MIDDLE,
    Errors,
    discoveries,
    ends_beside_mistakes,
    explained,
    likelihood_ratios,
)
from weft.estimator.fitted import Fitted
from weft.estimator.screening import Screened, screened
from weft.estimator.suspicions import (
    CODE,
    DATES,
    MISTAKES,
    Series,
    Suspicion,
    by_decimals,
    copied,
    following_worth,
    jumped,
    misplaced,
    observed_twice,
    shifted,
    stuck,
)
from weft.inference.prediction import Marginals, Prediction
from weft.likelihoods import Bernoulli, Gaussian, Rain, Support, Tobit

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["FirstLook", "audit", "clearest", "first_look", "learned_from"]

DISAGREES = "disagrees with its neighbours"
IMPOSSIBLE = "not a possible value"
# Folds of stations, and of rows: what a row's neighbours say is the sharper, the fewer of them are left out with it.
_FOLDS, _ROW_FOLDS = 4, 8
_ROUNDS = 2
_STATION_ROUNDS = 6
# The part of the clearest suspicion's odds, in logarithms, from which another is as good.
_NO_SHADOW = 0.5
# A station's share of rows found wrong, beyond which all of it takes no part.
_MOST_WRONG = 0.5
# A share of doubtful rows, or of the squares of differences from neighbours that are theirs, beyond which what was learned from them
# is learned again without.
_MANY_DOUBTFUL, _MOST_SQUARES = 0.02, 1 / 3
# By how much a mistake, which all rows must have made, has to explain them better than a level that changed once.
_MUCH_BETTER = 2.0
# Rows that tell how wide errors are where about as much is expected as at them, at least, and the number of such levels.
_FEWEST_ALIKE, _LEVELS = 100, 10
# Rows that count for the usual width of errors beside those of a station or a time, and by how much wider these may be than usual.
_PRIOR_ROWS, _WIDER = 10.0, 2.0


@final
@dataclasses.dataclass(frozen=True)
class _Expected:
    """What others say of each row, on the scale of f: mean and variance of an observation."""

    mean: Float[np.ndarray, " row"]
    sd: Float[np.ndarray, " row"]

    def z(self, values: Float[np.ndarray, " row"]) -> Float[np.ndarray, " row"]:
        return (values - self.mean) / self.sd


class _ByOthers(NamedTuple):
    """What other rows say of each row, and what other stations do."""

    single: _Expected
    whole: _Expected


def audit(fitted: Fitted, table: Table, rate: float) -> "pd.DataFrame":
    """The suspicious rows, most suspicious first; `rate` is the share of false alarms among them that is accepted."""
    if not 0 < rate < 1:
        raise ValueError(f"rate must lie between 0 and 1; it is {rate!r}")
    everything = read_measurements(table, fitted.roles, with_target=True)
    everything.require_value(fitted.roles, "audit")
    found = _Findings.nothing(everything.num_rows)
    place = _places_of(fitted, everything)
    possible = _look_at_places(fitted, everything, place, found)
    possible &= _look_at_range(fitted, everything, found)
    checked = np.flatnonzero(possible)
    rows = everything.take(checked)
    _judge(fitted, rows, checked, place[checked], found, rate)
    _look_at_impossible(fitted, everything, place, checked, found)
    return _as_frame(fitted, table, everything, found)


class FirstLook(NamedTuple):
    """Rows without a value that can be, or that their neighbours speak against without any model; the others can be learned from.

    `share` is the part of all differences from neighbours, squared, that the doubtful have.
    """

    sound: Int[np.ndarray, " some"]
    doubtful: Int[np.ndarray, " others"]
    share: float


def first_look(fitted: Fitted, rows: Measurements) -> FirstLook:
    """Which rows to learn from, if the model is not to learn from faults."""
    assert rows.values is not None
    place = _places_of(fitted, rows)
    found = _Findings.nothing(rows.num_rows)
    checked = np.flatnonzero(_look_at_places(fitted, rows, place, found) & _look_at_range(fitted, rows, found))
    some = rows.take(checked)
    look = _screened(fitted, some, place[checked])
    far = far_from_others(fitted.translation.values(some))
    doubted = look.either | far
    for each in _stuck(fitted, some, _series(fitted, some, place[checked])):
        doubted[each.rows] = True
    squares = np.where(np.isnan(look.apart), 0.0, look.apart) ** 2
    share = float(squares[doubted].sum() / max(squares.sum(), 1e-300))
    sound = checked[~doubted]
    present = np.flatnonzero(~np.isnan(rows.values))
    doubtful = np.setdiff1d(present, sound)
    # Values that cannot be have no neighbours to differ from.
    return FirstLook(sound, doubtful, 1.0 if len(doubtful) > doubted.sum() or far.any() else share)


def learned_from(fitted: Fitted, rows: Measurements, doubtful: Int[np.ndarray, " some"], share: float) -> bool:
    """Whether a model has seen doubtful rows, with these values, that are so many or so far off that it cannot have learned well."""
    if not fitted.batches or len(doubtful) == 0:
        return False
    if len(doubtful) <= _MANY_DOUBTFUL * rows.num_rows and share < _MOST_SQUARES:
        return False
    possible = fitted.translation.target.transform.allows(np.asarray(rows.values)[doubtful])
    seen = doubtful[possible & _are_on_earth(fitted, rows.take(doubtful))]
    return len(seen) > 0 and fitted.num_repeated(rows.take(seen), with_value=True) > len(seen) / 2


def _places_of(fitted: Fitted, rows: Measurements) -> Int[np.ndarray, " row"]:
    return distinct_rows([rows.space[name] for name in fitted.roles.where if name in rows.space])[1]


def _has_jumps(fitted: Fitted) -> bool:
    """Whether many values may be one and the same, beside which any other is far off: none of rain, the limit of an instrument."""
    return isinstance(fitted.model.likelihood, Rain | Tobit)


def _at_jumps(fitted: Fitted, rows: Measurements) -> Bool[np.ndarray, " row"]:
    """Rows whose value is one that sound rows share: none, yes or no, a limit."""
    values, likelihood = fitted.translation.values(rows), fitted.model.likelihood
    if isinstance(likelihood, Bernoulli):
        return np.ones(len(values), dtype=bool)
    if not isinstance(likelihood, Tobit):
        return (values == 0) & (likelihood.support is not Support.REAL)
    extras = fitted.translation.row_extras(rows)
    lower, upper = (getattr(extras, name) for name in ("lower", "upper"))
    found = np.zeros(len(values), dtype=bool)
    if lower is not None:
        found |= values <= np.asarray(lower)
    if upper is not None:
        found |= values >= np.asarray(upper)
    return found


def _stuck(fitted: Fitted, rows: Measurements, series: Series) -> list[Suspicion]:
    shared = _at_jumps(fitted, rows)
    return [each for each in stuck(series) if not shared[each.rows].all()]


def _series(fitted: Fitted, rows: Measurements, place: Int[np.ndarray, " row"]) -> Series:
    return Series.of(np.arange(rows.num_rows), place, fitted.translation.times(rows), np.asarray(rows.values))


def _years(fitted: Fitted, rows: Measurements) -> Float[np.ndarray, " row"] | None:
    """Times in years; None where they are plain numbers."""
    clock = fitted.translation.clock
    if clock.kind == "number":
        return None
    return fitted.translation.times(rows) * (UNIT_SECONDS[clock.unit] / UNIT_SECONDS["years"])


def _screened(fitted: Fitted, rows: Measurements, place: Int[np.ndarray, " row"]) -> Screened:
    translation = fitted.translation
    where = translation.places(rows)[:, : translation.num_space]
    number = np.unique(place, return_inverse=True)[1]
    found = screened(number, translation.times(rows), where, translation.values(rows))
    if _has_jumps(fitted):
        # Wet places beside dry ones are no faults.
        nothing = np.zeros(rows.num_rows, dtype=bool)
        return found._replace(rows=nothing, stations=nothing)
    return found


@dataclasses.dataclass
class _Findings:
    """By row of the table: what is expected there, how probable such a value is, and why it is wrong; "" for nothing found."""

    mean: Float[np.ndarray, " row"]
    sd: Float[np.ndarray, " row"]
    probability: Float[np.ndarray, " row"]
    cause: np.ndarray

    @classmethod
    def nothing(cls, num_rows: int) -> "_Findings":
        nan = np.full(num_rows, np.nan)
        return cls(nan, nan.copy(), np.ones(num_rows), np.full(num_rows, "", dtype=object))

    def add(self, rows: Int[np.ndarray, " some"], cause: str, probability: float = 0.0) -> None:
        """A cause found first stays."""
        new = rows[self.cause[rows] == ""]
        self.cause[new] = cause
        self.probability[rows] = np.minimum(self.probability[rows], probability)


def _look_at_places(
    fitted: Fitted, rows: Measurements, place: Int[np.ndarray, " row"], found: _Findings
) -> Bool[np.ndarray, " row"]:
    """Which rows have a value at a place that can be; stations that seem to lie elsewhere are noted."""
    geography = fitted.translation.scaling.geography
    assert rows.values is not None
    possible = ~np.isnan(rows.values)
    if geography is None or geography.method == "plane":
        return possible
    longitude, latitude = rows.space[geography.first], rows.space[geography.second]
    first = np.unique(place, return_index=True)[1]
    for number, cause in misplaced(longitude[first], latitude[first]):
        found.add(np.flatnonzero((place == number) & possible), cause)
    found.add(np.flatnonzero(~_are_on_earth(fitted, rows) & possible), "no such latitude or longitude")
    return possible & (found.cause == "")


def _are_on_earth(fitted: Fitted, rows: Measurements) -> Bool[np.ndarray, " row"]:
    """Which rows have a latitude and a longitude that there are."""
    geography = fitted.translation.scaling.geography
    if geography is None or geography.method == "plane":
        return np.ones(rows.num_rows, dtype=bool)
    longitude, latitude = rows.space[geography.first], rows.space[geography.second]
    return (np.abs(latitude) <= 90) & (longitude >= -180) & (longitude <= 360)


def _look_at_range(fitted: Fitted, rows: Measurements, found: _Findings) -> Bool[np.ndarray, " row"]:
    """Which rows have a value that the target can have; codes for missing values are none."""
    values = rows.values
    assert values is not None
    present = ~np.isnan(values)
    far = np.zeros(len(values), dtype=bool)
    far[present] = far_from_others(values[present])
    found.add(np.flatnonzero(far & is_missing_code(values)), CODE)
    impossible = np.zeros(len(values), dtype=bool)
    impossible[present] = ~fitted.translation.target.transform.allows(values[present])
    found.add(np.flatnonzero(impossible), IMPOSSIBLE)
    return ~impossible & (found.cause == "")


def _look_at_impossible(
    fitted: Fitted,
    rows: Measurements,
    place: Int[np.ndarray, " row"],
    checked: Int[np.ndarray, " some"],
    found: _Findings,
) -> None:
    """What is expected where there is a value that cannot be, and which mistake would make it of one that can, such as a sign."""
    cannot_be = np.flatnonzero(np.isin(found.cause, (IMPOSSIBLE, CODE)))
    told = checked[found.cause[checked] == ""]
    if len(cannot_be) == 0 or len(told) < 2:
        return
    asked = rows.take(cannot_be)
    mean, variance, noise = _observed(fitted.given_only(rows.take(told)), asked)
    sd = np.sqrt(variance + noise)
    found.mean[cannot_be], found.sd[cannot_be] = fitted.translation.target.moments(mean, sd)
    right, slopes = _set_right(fitted, asked, np.asarray(rows.values)[told])
    undone = np.abs(right - mean[:, None]) / sd[:, None]
    likelihood = np.exp(-0.5 * undone**2) * slopes
    causes = _mistakes(place[cannot_be], np.where(undone <= AGREES, likelihood, 0.0))
    for row, cause in zip(cannot_be, causes, strict=True):
        if found.cause[row] == IMPOSSIBLE and cause != DISAGREES:
            found.cause[row] = cause


def _judge(
    fitted: Fitted,
    rows: Measurements,
    checked: Int[np.ndarray, " row"],
    place: Int[np.ndarray, " row"],
    found: _Findings,
    rate: float,
) -> None:
    values = fitted.translation.values(rows)
    series = _series(fitted, rows, place)
    look = _screened(fitted, rows, place)
    frozen = _stuck(fitted, rows, series)
    spoiled = far_from_others(values)
    for each in frozen:
        spoiled[each.rows] = True
    wrong = spoiled | look.either
    misfit = _beyond_own_level(series, _without_station(fitted, rows, place, wrong).z(values)) ** 2

    def misfit_without(some: Int[np.ndarray, " some"]) -> Float[np.ndarray, " row"]:
        told = np.setdiff1d(np.flatnonzero(~wrong), some)
        mean, variance, noise = _observed(fitted.given_only(rows.take(told)), rows)
        return ((values - mean) ** 2 / (variance + noise))[series.row]

    plain = [*frozen, *copied(series, misfit, misfit_without), *observed_twice(series, misfit)]
    has_cause = spoiled | look.rows
    for each in plain:
        has_cause[each.rows] = wrong[each.rows] = True
    # The clearest first: the neighbours of a station with wrong dates, or another level, seem to have such too.
    stations: list[Suspicion] = []
    for _ in range(_STATION_ROUNDS):
        whole = _without_station(fitted, rows, place, wrong)
        suspects = _suspect_stations(series, values, whole, wrong, ~has_cause, look.apart, _years(fitted, rows))
        known = {place[each.rows[0]] for each in stations}
        suspects = [each for each in suspects if place[each.rows[0]] not in known]
        if not suspects:
            break
        for each in clearest(suspects, place):
            stations.append(each)
            wrong[each.rows] = True
    # Single rows that differ from their neighbours may be sound after all, and then tell how large errors are; of others they tell nothing.
    sound = ~wrong | (look.rows & ~spoiled)
    for _ in range(_ROUNDS):
        expected = _by_others(fitted, rows, place, wrong)
        weighed = _weighed(fitted, rows, values, expected, (place, series.ticks), sound, look.rows, rate)
        wrong |= weighed.alarms
        wrong |= _mostly(weighed.alarms, place)
        sound &= ~(weighed.alarms | _mostly(weighed.alarms, place))
    expected = _by_others(fitted, rows, place, wrong)
    weighed = _weighed(fitted, rows, values, expected, (place, series.ticks), sound, look.rows, rate)

    found.mean[checked], found.sd[checked] = fitted.translation.target.moments(weighed.mean, weighed.sd)
    found.probability[checked] = np.minimum(found.probability[checked], weighed.probability)
    z = (values - weighed.mean) / weighed.sd
    for each in (
        *plain,
        *(one for one in stations if one.cause.startswith(DATES) or _is_level(one, z, weighed.undone)),
    ):
        found.add(checked[each.rows], each.cause, each.probability)
    alarmed = np.flatnonzero(weighed.alarms & (found.cause[checked] == ""))
    unexplained = []
    for row, cause in zip(alarmed, _mistakes(place[alarmed], weighed.ratio[alarmed]), strict=True):
        if cause == DISAGREES:
            unexplained.append(row)
        else:
            found.add(checked[row : row + 1], cause, float(weighed.probability[row]))
    for each in stations:
        found.add(checked[each.rows], each.cause, each.probability)
    for row in unexplained:
        found.add(checked[row : row + 1], DISAGREES, float(weighed.probability[row]))


def _is_level(level: Suspicion, z: Float[np.ndarray, " row"], undone: Float[np.ndarray, "row mistake"]) -> bool:
    """Whether another level explains its rows, unless a mistake does so much better: Fahrenheit from here on is another level too."""
    own = z[level.rows]
    by_mistake = np.median(undone[level.rows], axis=0)
    return bool(np.median(np.abs(own - np.median(own))) < _MUCH_BETTER * np.min(by_mistake))


@final
@dataclasses.dataclass(frozen=True)
class _Weighed:
    """Of each row what is expected by what speaks most against it, how probable so large an error is, and whether to raise an alarm.

    `undone` is how far from it the row would be, in deviations of sound rows, were each mistake undone; `ratio`, how much likelier that
    mistake makes the row than none does.
    """

    mean: Float[np.ndarray, " row"]
    sd: Float[np.ndarray, " row"]
    probability: Float[np.ndarray, " row"]
    undone: Float[np.ndarray, "row mistake"]
    ratio: Float[np.ndarray, "row mistake"]
    alarms: Bool[np.ndarray, " row"]


def _weighed(
    fitted: Fitted,
    rows: Measurements,
    values: Float[np.ndarray, " row"],
    expected: _ByOthers,
    groups: Sequence[Int[np.ndarray, " row"]],
    trusted: Bool[np.ndarray, " row"],
    far: Bool[np.ndarray, " row"],
    rate: float,
) -> _Weighed:
    """By errors of trusted rows; of those that are `far` from their neighbours no more is taken than how many they are."""
    # The median of errors most of which are next to nothing is no measure of the others.
    least = 1.0 if _has_jumps(fitted) else 0.0
    looks = [_as_wide_as_errors(look, values, trusted, groups, least) for look in expected]
    right, slopes = _set_right(fitted, rows, np.asarray(rows.values)[trusted])
    slopes = slopes * by_decimals(np.asarray(rows.values), groups[0])
    undone = [np.abs(right - look.mean[:, None]) / look.sd[:, None] for look in looks]
    errors, never = [], []
    for look, distance in zip(looks, undone, strict=True):
        z = look.z(values)[trusted]
        errors.append(ends_beside_mistakes(z, distance[trusted], slopes[trusted], far[trusted]))
        never.append(_never_below_zero(fitted, rows, look, errors[-1], trusted))
    probabilities = np.stack(
        [error.probability(look.z(values)) * rarer for error, look, rarer in zip(errors, looks, never, strict=True)]
    )
    # Two looks at each row.
    probability = np.minimum(1.0, 2 * probabilities.min(axis=0))
    ratios = [
        likelihood_ratios(error, look.z(values), distance, slopes) / (2 * rarer[:, None])
        for error, look, rarer, distance in zip(errors, looks, never, undone, strict=True)
    ]
    whole_tells = probabilities[1] < probabilities[0]

    def of_look(each: Sequence[Float[np.ndarray, "row *more"]]) -> Float[np.ndarray, "row *more"]:
        return np.where(whole_tells.reshape(-1, *[1] * (each[0].ndim - 1)), each[1], each[0])

    ratio = of_look(ratios)
    alarms = discoveries(probability, rate) | (explained(ratio, rate) & (probability < rate))
    mean, sd = of_look([look.mean for look in looks]), of_look([look.sd for look in looks])
    return _Weighed(mean, sd, probability, of_look(undone), ratio, alarms)


def _never_below_zero(
    fitted: Fitted, rows: Measurements, look: _Expected, error: Errors, trusted: Bool[np.ndarray, " row"]
) -> Float[np.ndarray, " row"]:
    """By how much rarer a value below zero is than errors would have it, at rows that have one; 1 at all others.

    Of a concentration errors let expect some among thousands, and there are none.
    """
    assert rows.values is not None
    below = rows.values < 0
    target = fitted.translation.target
    zero = np.zeros(1)
    if not below.any() or not target.transform.allows(zero)[0]:
        return np.ones(len(below))
    z = (target.forward(zero)[0] - look.mean[trusted]) / look.sd[trusted]
    probability = error.probability(z) / 2
    expected = float(np.sum(np.where(z < 0, probability, 1 - probability)))
    seen = int(np.count_nonzero(below & trusted))
    return np.where(below, min((seen + 1) / (expected + 1), 1.0), 1.0)


def _set_right(
    fitted: Fitted, rows: Measurements, sound: Float[np.ndarray, " some"]
) -> tuple[Float[np.ndarray, "row mistake"], Float[np.ndarray, "row mistake"]]:
    """Values on the scale of f were each mistake undone, infinite where none can be; and by how much that spreads them.

    `sound` values tell which mistakes can be.
    """
    target = fitted.translation.target
    assert rows.values is not None
    lowest, highest = np.quantile(sound, [0.01, 0.99])

    def forward(values: Float[np.ndarray, " row"]) -> Float[np.ndarray, " row"]:
        found = np.full(len(values), np.inf)
        allowed = target.transform.allows(values)
        found[allowed] = target.forward(values[allowed])
        return found

    def slope(values: Float[np.ndarray, " row"]) -> Float[np.ndarray, " row"]:
        step = 1e-4 * np.maximum(np.abs(values), 1e-3)
        ends = forward(values - step), forward(values + step)
        within = np.isfinite(ends[0]) & np.isfinite(ends[1])
        return np.where(within, ends[1], 0.0) / (2 * step) - np.where(within, ends[0], 0.0) / (2 * step)

    own = slope(rows.values)
    right, slopes = [], []
    for mistake in MISTAKES.values():
        undone = mistake.undone(rows.values)
        can_be = mistake.among[0] <= lowest and highest <= mistake.among[1]
        right.append(forward(undone) if can_be else np.full(len(undone), np.inf))
        # Of a value that cannot be, nothing else is to be compared with.
        slopes.append(slope(undone) * abs(mistake.factor) / np.where(own > 0, own, 1.0))
    return np.stack(right, axis=1), np.stack(slopes, axis=1)


def _suspect_stations(
    series: Series,
    values: Float[np.ndarray, " row"],
    whole: _Expected,
    wrong: Bool[np.ndarray, " row"],
    open_to_doubt: Bool[np.ndarray, " row"],
    apart: Float[np.ndarray, " row"],
    years: Float[np.ndarray, " row"] | None,
) -> list[Suspicion]:
    """Stations whose dates seem shifted or whose level seems to jump, by what the others say; the clearest first.

    `open_to_doubt` are rows that are not known to have another fault. Rows that merely disagree are: what jumps far does. `apart` is how
    far each is from its neighbours by their medians, `years` are times, where they are dates.
    """
    # A station's level of its own is no news, and what others cannot know of it hides what changes.
    level = np.empty(len(values))
    level[series.row] = (values - whole.mean)[series.row] - _beyond_own_level(series, values - whole.mean)
    at_level = _as_wide_as_errors(_Expected(whole.mean + level, whole.sd), values, ~wrong)
    worth = following_worth(series, at_level.z(values), ~wrong)
    dated = shifted(series, _by_other_stations(series, values, at_level), worth)
    levels = jumped(series, (values - whole.mean) / at_level.sd, open_to_doubt, worth, years)
    levels = [each for each in levels if _has_jumped_itself(each, series, values - whole.mean, apart)]
    return sorted((*dated, *levels), key=lambda each: -each.log_odds)


def clearest(suspects: Sequence[Suspicion], place: Int[np.ndarray, " row"]) -> list[Suspicion]:
    """Of suspicions, the clearest first, that one, and other stations whose dates are off as far the same way, about as clearly.

    Beside a station that is late others seem early, so that none of these is its shadow.
    """
    first = suspects[0]
    found = {int(place[first.rows[0]]): first}
    for each in suspects[1:]:
        is_same = each.cause == first.cause and each.cause.startswith(DATES)
        if is_same and each.log_odds >= _NO_SHADOW * first.log_odds:
            found.setdefault(int(place[each.rows[0]]), each)
    return list(found.values())


def _has_jumped_itself(
    level: Suspicion, series: Series, left: Float[np.ndarray, " row"], apart: Float[np.ndarray, " row"]
) -> bool:
    """Whether the median of several neighbours sees the jump too: by the nearest alone, it may be that one's."""
    rows = series.row[series.place == series.place[series.row == level.rows[0]]]
    others = np.setdiff1d(rows, level.rows)
    seen = [each[~np.isnan(apart[each])] for each in (level.rows, others)]
    if min(len(each) for each in seen) < 2:
        return True
    by_others, by_neighbours = (float(np.median(of[seen[0]]) - np.median(of[seen[1]])) for of in (left, apart))
    return by_neighbours * np.sign(by_others) > abs(by_others) / 2


def _beyond_own_level(series: Series, z: Float[np.ndarray, " row"]) -> Float[np.ndarray, " row"]:
    """Errors in the order of the series, less the median that each station has of its own."""
    found = z[series.row]
    for place in np.unique(series.place):
        own = series.place == place
        found[own] -= np.median(found[own])
    return found


def _by_other_stations(
    series: Series, values: Float[np.ndarray, " row"], whole: _Expected
) -> Callable[[Int[np.ndarray, " some"], Int[np.ndarray, " some"]], Float[np.ndarray, " some"]]:
    def apart(here: Int[np.ndarray, " some"], there: Int[np.ndarray, " some"]) -> Float[np.ndarray, " some"]:
        a, b = series.row[here], series.row[there]
        return (values[a] - whole.mean[b]) / whole.sd[b]

    return apart


def _mostly(wrong: Bool[np.ndarray, " row"], place: Int[np.ndarray, " row"]) -> Bool[np.ndarray, " row"]:
    """Rows of stations that are mostly wrong."""
    number = np.unique(place, return_inverse=True)[1]
    share = np.bincount(number, wrong) / np.bincount(number)
    return (share > _MOST_WRONG)[number]


def _by_others(
    fitted: Fitted, rows: Measurements, place: Int[np.ndarray, " row"], wrong: Bool[np.ndarray, " row"]
) -> _ByOthers:
    seen_before = fitted.batches and fitted.num_repeated(rows) > 0
    known = fitted.given_only if seen_before or not fitted.batches else fitted.updated
    return _ByOthers(
        _left_out(rows, wrong, _folds_of_rows(fitted, rows, place), known),
        _without_station(fitted, rows, place, wrong),
    )


def _folds_of_rows(fitted: Fitted, rows: Measurements, place: Int[np.ndarray, " row"]) -> Int[np.ndarray, " row"]:
    """Rows that follow each other at a station are in different folds, and so are most of those at a time."""
    series = _series(fitted, rows, place)
    rank = np.arange(len(place)) - np.searchsorted(series.place, series.place)
    fold = np.empty(len(place), dtype=np.int64)
    fold[series.row] = (rank + series.place) % _ROW_FOLDS
    return fold


def _without_station(
    fitted: Fitted, rows: Measurements, place: Int[np.ndarray, " row"], wrong: Bool[np.ndarray, " row"]
) -> _Expected:
    """What other stations say of each row; where there is but one, what its other rows do."""
    number = np.unique(place, return_inverse=True)[1]
    num_folds = min(_FOLDS, int(number.max()) + 1)
    # Stations next to each other in a table are often next to each other on the map: folds take every fourth.
    fold = number % num_folds if num_folds > 1 else _folds_of_rows(fitted, rows, place)
    return _left_out(rows, wrong, fold, fitted.given_only)


def _left_out(
    rows: Measurements,
    wrong: Bool[np.ndarray, " row"],
    fold: Int[np.ndarray, " row"],
    given: Callable[[Measurements], Fitted],
) -> _Expected:
    """What rows of other folds say of each row.

    Not by dividing a row's own factor out of the posterior: of one that is approximate, or where noise is small, that leaves the row in it.
    """
    if np.count_nonzero(~wrong) < 2:
        raise ValueError(
            "hardly any value is like the others, so there is nothing to audit by; look at the table first"
        )
    mean, sd = np.empty(rows.num_rows), np.empty(rows.num_rows)
    for each in np.unique(fold):
        out = np.flatnonzero(fold == each)
        told = np.flatnonzero((fold != each) & ~wrong)
        if len(told) < 2:
            told = np.flatnonzero(~wrong)
        of_f, variance, noise = _observed(given(rows.take(told)), rows.take(out))
        mean[out], sd[out] = of_f, np.sqrt(variance + noise)
    return _Expected(mean, sd)


def _observed(
    fitted: Fitted, rows: Measurements
) -> tuple[Float[np.ndarray, " row"], Float[np.ndarray, " row"], Float[np.ndarray, " row"]]:
    """Mean and variance of f, and the variance of noise, at rows."""
    translation = fitted.translation
    times, places = translation.times(rows), translation.places(rows)
    latent = fitted.posterior.marginals(times, places)
    emission = fitted.posterior.emission(times, places, translation.row_extras(rows))
    if isinstance(fitted.model.likelihood, Gaussian):
        nothing = Marginals(np.zeros(len(times)), np.zeros(len(times)))
        return latent.mean, np.maximum(latent.variance, 0.0), Prediction(nothing, emission).variance
    whole = Prediction(latent, emission)
    return whole.mean, np.zeros(len(times)), whole.variance


def _as_wide_as_errors(
    expected: _Expected,
    values: Float[np.ndarray, " row"],
    trusted: Bool[np.ndarray, " row"],
    groups: Sequence[Int[np.ndarray, " row"]] = (),
    least: float = 0.0,
) -> _Expected:
    """The same with the deviation that errors of sound rows have where as much is expected, and in each group: at a station, at a time.

    Errors of concentrations, counts and prices grow with what is measured, whatever the model takes them to be; a street is noisier
    than a field, and the day a front passes than the day before. What a group says is shrunk, in the logarithm, and goes so far only:
    one that is wrong throughout must not pass for a noisy one. It is never narrower than `least` times what the model has it.
    """
    size = np.abs(expected.z(values))
    order = np.flatnonzero(trusted)[np.argsort(expected.mean[trusted])]
    num_alike = min(len(order), max(_FEWEST_ALIKE, len(order) // _LEVELS))
    starts = np.unique(np.linspace(0, len(order) - num_alike, 2 * _LEVELS).astype(np.int64))
    alike = [order[start : start + num_alike] for start in starts]
    at = np.array([np.median(expected.mean[rows]) for rows in alike])
    widths = np.array([np.median(size[rows]) for rows in alike]) / MIDDLE
    scale = np.maximum(np.interp(expected.mean, at, widths), 1e-300)
    for group in groups:
        number = np.unique(group, return_inverse=True)[1]
        factor = np.ones(int(number.max()) + 1)
        sorted_rows = np.flatnonzero(trusted)[np.argsort(number[trusted], kind="stable")]
        for rows in np.split(sorted_rows, np.flatnonzero(np.diff(number[sorted_rows])) + 1):
            own = max(float(np.median((size / scale)[rows])) / MIDDLE, 1e-300)
            factor[number[rows[0]]] = np.clip(own ** (len(rows) / (len(rows) + _PRIOR_ROWS)), 1 / _WIDER, _WIDER)
        scale = scale * factor[number]
    return _Expected(expected.mean, expected.sd * np.maximum(scale, least))


def _mistakes(place: Int[np.ndarray, " row"], ratio: Float[np.ndarray, "row mistake"]) -> list[str]:
    """Of each row the mistake that explains it; of several, the station's most frequent, then the likeliest."""
    names = list(MISTAKES)
    causes = []
    for row, own in enumerate(ratio):
        votes = np.count_nonzero(ratio[place == place[row]] > 0, axis=0)
        best = np.lexsort((-own, -votes, own == 0))[0]
        causes.append(names[best] if own[best] > 0 else DISAGREES)
    return causes


def _as_frame(fitted: Fitted, table: Table, rows: Measurements, found: _Findings) -> "pd.DataFrame":
    import pandas as pd

    suspicious = np.flatnonzero(found.cause != "")
    suspicious = suspicious[np.lexsort((suspicious, found.probability[suspicious]))]
    assert rows.values is not None
    own = _index(table)
    return pd.DataFrame(
        {
            "value": rows.values[suspicious],
            "expected": found.mean[suspicious],
            "sd": found.sd[suspicious],
            "probability": found.probability[suspicious],
            "cause": found.cause[suspicious],
            "row": suspicious,
        },
        index=suspicious if own is None else own.take(suspicious),
    )


def _index(table: Table) -> Any:
    return table.frame.to_native().index if table.kind == "pandas" else None  # type: ignore[attr-defined]
