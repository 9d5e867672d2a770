# SPDX-License-Identifier: MIT
"""Rows that disagree with their neighbours, and what may have gone wrong with them. Nothing is changed.

A row is judged twice: without itself, by all other rows, and without its station, by the other stations. The first is sharp for
single faults; the second sees what a whole station has wrong. Rows found wrong are taken out and the rest judged again, so that
they neither hide behind each other nor cast a shadow on their neighbours.
"""

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, final

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import special

from weft.data.missing import far_from_others, is_missing_code
from weft.data.tables import Table, distinct_rows
from weft.estimator.columns import Measurements, read_measurements
from weft.estimator.fitted import Fitted
from weft.estimator.suspicions import (
    CODE,
    MISTAKES,
    Series,
    Suspicion,
    copied,
    jumped,
    misplaced,
    observed_twice,
    shifted,
    stuck,
)
from weft.inference.prediction import Marginals, Prediction
from weft.likelihoods import Gaussian

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["audit", "learned_from_gross", "learned_from_suspects", "without_gross"]

DISAGREES = "disagrees with its neighbours"
IMPOSSIBLE = "not a possible value"
_FOLDS = 4
_ROUNDS = 2
_MOST_SHIFTED = 5
# A station's share of rows found wrong, beyond which all of it takes no part.
_MOST_WRONG = 0.5
# A share of suspects beyond which what was learned from them is learned again without.
_MANY_SUSPECTS = 0.02
# Deviations within which a value set right agrees with its neighbours.
_AGREES = 2.5
_TAILS = (3.0, 4.0, 5.0, 7.0, 10.0, 15.0, 30.0, 100.0)


@final
@dataclasses.dataclass(frozen=True)
class _Expected:
    """What others say of each row, on the scale of f: mean and variance of an observation."""

    mean: Float[np.ndarray, " row"]
    sd: Float[np.ndarray, " row"]

    def z(self, values: Float[np.ndarray, " row"]) -> Float[np.ndarray, " row"]:
        return (values - self.mean) / self.sd


def audit(fitted: Fitted, table: Table, rate: float) -> "pd.DataFrame":
    """The suspicious rows, most suspicious first; `rate` is the share of false alarms among them that is accepted."""
    if not 0 < rate < 1:
        raise ValueError(f"rate must lie between 0 and 1; it is {rate!r}")
    everything = read_measurements(table, fitted.roles, with_target=True)
    everything.require_value(fitted.roles, "audit")
    found = _Findings.nothing(everything.num_rows)
    place = distinct_rows([everything.space[name] for name in fitted.roles.where if name in everything.space])[1]
    possible = _look_at_places(fitted, everything, place, found)
    possible &= _look_at_range(fitted, everything, found)
    checked = np.flatnonzero(possible)
    rows = everything.take(checked)
    _judge(fitted, rows, checked, place[checked], found, rate)
    _look_at_impossible(fitted, everything, place, checked, found)
    return _as_frame(fitted, table, everything, found)


def learned_from_gross(fitted: Fitted) -> int:
    """How many of the values a model has seen are so far from all others that it cannot have learned well."""
    if not fitted.batches:
        return 0
    values = fitted.seen_values()
    return int(np.count_nonzero(far_from_others(values[np.isfinite(values)])))


def learned_from_suspects(fitted: Fitted, rows: Measurements, suspects: Int[np.ndarray, " some"]) -> bool:
    """Whether so many of the rows a model has seen are suspects that it cannot have learned well."""
    if len(suspects) <= _MANY_SUSPECTS * rows.num_rows or not fitted.batches:
        return False
    return fitted.num_repeated(rows.take(suspects)) > len(suspects) / 2


def without_gross(rows: Measurements) -> Measurements:
    """The rows whose value is not far from all others."""
    assert rows.values is not None
    kept = ~np.isnan(rows.values)
    kept[kept] = ~far_from_others(rows.values[kept])
    return rows.take(np.flatnonzero(kept))


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
    outside = (np.abs(latitude) > 90) | (longitude < -180) | (longitude > 360)
    found.add(np.flatnonzero(outside & possible), "no such latitude or longitude")
    return possible & (found.cause == "")


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
    causes = _mistakes(fitted, asked, place[cannot_be], np.arange(len(cannot_be)), mean, sd, 1.0)
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
    series = Series.of(np.arange(rows.num_rows), place, fitted.translation.times(rows), np.asarray(rows.values))
    frozen = stuck(series)
    wrong = far_from_others(values)
    for each in frozen:
        wrong[each.rows] = True
    single, whole = _expectations(fitted, rows, place, wrong)
    probability = np.ones(rows.num_rows)
    for _ in range(_ROUNDS):
        tails = [_tail(single.z(values), ~wrong), _tail(whole.z(values), ~wrong)]
        # Two looks at each row.
        probability = np.minimum(1.0, 2 * np.minimum(*tails))
        wrong = _discoveries(probability, rate) | far_from_others(values)
        for each in frozen:
            wrong[each.rows] = True
        wrong |= _mostly(wrong, place)
        single, whole = _expectations(fitted, rows, place, wrong)
    dated: list[Suspicion] = []
    for _ in range(_MOST_SHIFTED):
        suspects = shifted(series, _by_other_stations(series, values, whole, _scale(whole.z(values), ~wrong)))
        known = {place[each.rows[0]] for each in dated}
        suspects = [each for each in suspects if place[each.rows[0]] not in known]
        if not suspects:
            break
        # One at a time: the neighbours of a station with wrong dates seem to have wrong dates too.
        dated.append(suspects[0])
        wrong[suspects[0].rows] = True
        single, whole = _expectations(fitted, rows, place, wrong)
    tails = [_tail(single.z(values), ~wrong), _tail(whole.z(values), ~wrong)]
    probability = np.minimum(1.0, 2 * np.minimum(*tails))
    alarms = _discoveries(probability, rate)

    by_others = np.abs(whole.z(values)) > np.abs(single.z(values))
    mean, sd = (np.where(by_others, getattr(whole, name), getattr(single, name)) for name in ("mean", "sd"))
    found.mean[checked], found.sd[checked] = fitted.translation.target.moments(mean, sd)
    found.probability[checked] = np.minimum(found.probability[checked], probability)
    misfit = whole.z(values)[series.row] ** 2
    for each in (*frozen, *copied(series, misfit), *dated, *observed_twice(series, misfit)):
        found.add(checked[each.rows], each.cause, each.probability)
    scale = _scale(whole.z(values), ~wrong)
    known = found.cause[checked] != ""
    levels = jumped(series, whole.z(values) / scale, ~known & ~far_from_others(values))
    alarmed = np.flatnonzero(alarms & (found.cause[checked] == ""))
    unexplained = []
    for row, cause in zip(alarmed, _mistakes(fitted, rows, place, alarmed, mean, sd, scale), strict=True):
        if cause == DISAGREES:
            unexplained.append(row)
        else:
            found.add(checked[row : row + 1], cause, float(probability[row]))
    for each in levels:
        found.add(checked[each.rows], each.cause, each.probability)
    for row in unexplained:
        found.add(checked[row : row + 1], DISAGREES, float(probability[row]))


def _by_other_stations(
    series: Series, values: Float[np.ndarray, " row"], whole: _Expected, scale: float
) -> Callable[[Int[np.ndarray, " some"], Int[np.ndarray, " some"]], Float[np.ndarray, " some"]]:
    def apart(here: Int[np.ndarray, " some"], there: Int[np.ndarray, " some"]) -> Float[np.ndarray, " some"]:
        a, b = series.row[here], series.row[there]
        return (values[a] - whole.mean[b]) / whole.sd[b] / scale

    return apart


def _mostly(wrong: Bool[np.ndarray, " row"], place: Int[np.ndarray, " row"]) -> Bool[np.ndarray, " row"]:
    """Rows of stations that are mostly wrong."""
    number = np.unique(place, return_inverse=True)[1]
    share = np.bincount(number, wrong) / np.bincount(number)
    return (share > _MOST_WRONG)[number]


def _expectations(
    fitted: Fitted, rows: Measurements, place: Int[np.ndarray, " row"], wrong: Bool[np.ndarray, " row"]
) -> tuple[_Expected, _Expected]:
    """Each row by all other rows, and by other stations; rows found wrong tell nothing of others."""
    told = np.flatnonzero(~wrong)
    if len(told) < 2:
        raise ValueError(
            "hardly any value is like the others, so there is nothing to audit by; look at the table first"
        )
    seen_before = fitted.batches and fitted.num_repeated(rows) > 0
    start = fitted.given_only(rows.take(told)) if seen_before or not fitted.batches else None
    known = fitted.updated(rows.take(told)) if start is None else start
    mean, variance, noise = _observed(known, rows)
    if isinstance(fitted.model.likelihood, Gaussian):
        mean, variance = _without_itself(fitted.translation.values(rows), mean, variance, noise, ~wrong)
    single = _Expected(mean, np.sqrt(variance + noise))

    number = np.unique(place, return_inverse=True)[1]
    num_folds = min(_FOLDS, int(number.max()) + 1)
    if num_folds < 2:
        return single, single
    # Stations next to each other in a table are often next to each other on the map: folds take every fourth.
    fold = number % num_folds
    whole_mean, whole_sd = np.empty(rows.num_rows), np.empty(rows.num_rows)
    for each in range(num_folds):
        out = np.flatnonzero(fold == each)
        kept = np.flatnonzero((fold != each) & ~wrong)
        if len(kept) < 2:
            whole_mean[out], whole_sd[out] = single.mean[out], single.sd[out]
            continue
        mean, variance, noise = _observed(known.given_only(rows.take(kept)), rows.take(out))
        whole_mean[out], whole_sd[out] = mean, np.sqrt(variance + noise)
    return single, _Expected(whole_mean, whole_sd)


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


def _without_itself(
    values: Float[np.ndarray, " row"],
    mean: Float[np.ndarray, " row"],
    variance: Float[np.ndarray, " row"],
    noise: Float[np.ndarray, " row"],
    told: Bool[np.ndarray, " row"],
) -> tuple[Float[np.ndarray, " row"], Float[np.ndarray, " row"]]:
    """F at each row given all rows but that one: its own Gaussian factor divided out of the posterior.

    Of an approximate posterior little may be left; then no more than 99 % of what is known is taken away.
    """
    own = np.where(told, np.minimum(variance / np.maximum(noise, 1e-300), 0.99), 0.0)
    return mean + (mean - values) * own / (1 - own), variance / (1 - own)


def _scale(z: Float[np.ndarray, " row"], trusted: Bool[np.ndarray, " row"]) -> float:
    return max(float(np.median(np.abs(z[trusted]))) / 0.6745, 1e-300)


def _tail(z: Float[np.ndarray, " row"], trusted: Bool[np.ndarray, " row"]) -> Float[np.ndarray, " row"]:
    """Two-sided probabilities by Student's t with the scale and tails of the trusted rows.

    The middle and the ninth decile of |z| tell both; rows that are wrong, if fewer than a tenth, hardly move either.
    """
    size = np.abs(z[trusted])
    middle, high = np.quantile(size, [0.5, 0.9])
    ratio = high / max(middle, 1e-300)
    usual = [special.stdtrit(tail, 0.95) / special.stdtrit(tail, 0.75) for tail in _TAILS]
    tail = _TAILS[int(np.argmin(np.abs(np.array(usual) - ratio)))]
    scale = max(middle / special.stdtrit(tail, 0.75), 1e-300)
    return 2 * special.stdtr(tail, -np.abs(z) / scale)


def _discoveries(probability: Float[np.ndarray, " row"], rate: float) -> Bool[np.ndarray, " row"]:
    """Rows to raise an alarm for, so that a share `rate` of alarms is false (Benjamini & Hochberg 1995)."""
    order = np.argsort(probability)
    passed = probability[order] <= rate * np.arange(1, len(order) + 1) / len(order)
    alarms = np.zeros(len(order), dtype=bool)
    if passed.any():
        alarms[order[: int(np.flatnonzero(passed)[-1]) + 1]] = True
    return alarms


def _mistakes(
    fitted: Fitted,
    rows: Measurements,
    place: Int[np.ndarray, " row"],
    alarmed: Int[np.ndarray, " some"],
    mean: Float[np.ndarray, " row"],
    sd: Float[np.ndarray, " row"],
    scale: float,
) -> list[str]:
    """Of each row the mistake whose undoing makes it agree with its neighbours; of several, the station's most frequent."""
    target = fitted.translation.target
    assert rows.values is not None
    fits = np.full((len(alarmed), len(MISTAKES)), np.inf)
    for column, undo in enumerate(MISTAKES.values()):
        right = undo(rows.values[alarmed])
        allowed = target.transform.allows(right)
        standard = np.full(len(right), np.inf)
        standard[allowed] = target.forward(right[allowed])
        fits[:, column] = np.abs(standard - mean[alarmed]) / sd[alarmed] / scale
    agrees = fits <= _AGREES
    causes = []
    names = list(MISTAKES)
    for line, row in enumerate(alarmed):
        if not agrees[line].any():
            causes.append(DISAGREES)
            continue
        votes = agrees[place[alarmed] == place[row]].sum(axis=0)
        best = np.lexsort((fits[line], -votes * agrees[line], ~agrees[line]))[0]
        causes.append(names[best])
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
