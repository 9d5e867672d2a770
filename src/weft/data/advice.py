# SPDX-License-Identifier: MIT
"""Which transform or likelihood suits a target, by what its values are and how well neighbours in time and other places predict them."""

import dataclasses
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import special

from weft.data.missing import ValuesTally, tally_values
from weft.data.transforms import Transform, transform_named

__all__ = ["Advice", "advise"]

# Mildest first, and last the one that nobody knows: of those nearly as good as the best, the first is taken.
_POSITIVE = (None, "sqrt", "log", "fourth_root")
_WITH_ZEROS = (None, "sqrt", "log1p", "fourth_root")
# Nats a value by which a stronger transform has to be better.
_WORTH = 0.05
# The part of a left-out score by which one transform has to be better than another.
_WORTH_OF_LOSS = 0.01
# And by how many standard errors of the difference.
_CLEAR = 2.0
_LEVELS = np.arange(1, 20) / 20
_MOST_TRIPLES = 20_000
# Rows beside others of their time that are looked at, and how many others there are at least.
_MOST_BESIDE = 20_000
_FEWEST_OTHERS = 3
_FEWEST_PAIRS = 100
_SKEWED = 1.5
# Counts below this on average are too coarse for a transform and a Gaussian.
_SMALL_COUNTS = 10.0
# With so many zeros no transform makes a Gaussian of the values.
_DRY = 0.25


@final
@dataclasses.dataclass(frozen=True)
class Advice:
    """A transform, or a likelihood, or neither, and why in words."""

    transform: str | None = None
    likelihood: str | None = None
    reason: str = ""

    @property
    def options(self) -> dict[str, str]:
        """What is advised, by the names of an estimator's arguments."""
        both = {"transform": self.transform, "likelihood": self.likelihood}
        return {name: value for name, value in both.items() if value is not None}


def advise(
    times: Float[np.ndarray, " row"],
    place: Int[np.ndarray, " row"],
    values: Float[np.ndarray, " row"],
    step: float,
    tally: ValuesTally | None = None,
) -> Advice:
    """Advice for a target with values at places (by number) and times; `step` is the usual step between times.

    Where these are some rows of a larger table, the `tally` is of all: what its values may be, no sample can tell.
    Of transforms those count under which values left out are predicted best, in the units of the target, from those before and after
    and, as of places never seen, from what the others have at the same time: levels of places may differ by factors where
    changes in time do not (counts of provinces large and small). Of several that are as good, the mildest under which the size of
    changes does not depend on the level: the one that makes differences of neighbours in time most likely as draws of one Gaussian
    (the profile likelihood of Box & Cox 1964, of differences); where there are zeros, which have no logarithm, the mildest. Where a quarter
    of the values are zeros, a likelihood for amounts that may be none.
    """
    tally = tally_values(values) if tally is None else tally
    present = ~np.isnan(values)
    times, place, values = times[present], place[present], values[present]
    if len(values) == 0 or tally.lowest < 0 or values.min() == values.max():
        return Advice()
    if tally.are_counts:
        if tally.highest == 1:
            return Advice(likelihood="bernoulli", reason="all values are 0 or 1")
        if values.mean() < _SMALL_COUNTS:
            return Advice(likelihood="negative_binomial", reason=f"small counts (mean {values.mean():.2g})")
    elif np.mean(values == 0) >= _DRY:
        dry = f"{100 * float(np.mean(values == 0)):.0f} % of values are exactly 0 and the others are amounts"
        return Advice(likelihood="rain", reason=dry)
    names: tuple[str | None, ...] = _POSITIVE if tally.lowest > 0 else _WITH_ZEROS
    best = _best_of_left_out(names, times, place, values, step)
    if best and (tally.lowest == 0 or len(best) == 1):
        return Advice(best[0], reason=f"under {best[0]} values left out are predicted best" if best[0] else "")
    names = best or names
    first, second = _neighbours(times, place, values, step)
    if len(first) >= _FEWEST_PAIRS:
        chosen = _mildest([_fit_of_changes(transform_named(name), first, second) for name in names], names)
        return Advice(chosen, reason=f"under {chosen} the size of changes depends least on the level" if chosen else "")
    positive = values[values > 0]
    if _skewness(values) <= _SKEWED:
        return Advice()
    chosen = _mildest([_fit_of_values(transform_named(name), positive) for name in names], names)
    return Advice(chosen, reason=f"values are skewed, and under {chosen} least so" if chosen else "")


def _mildest(fits: list[float], names: tuple[str | None, ...], worth: float = _WORTH) -> str | None:
    return next(name for name, fit in zip(names, fits, strict=True) if fit >= max(fits) - worth)


def _best_of_left_out(
    names: tuple[str | None, ...],
    times: Float[np.ndarray, " row"],
    place: Int[np.ndarray, " row"],
    values: Float[np.ndarray, " row"],
    step: float,
) -> tuple[str | None, ...]:
    """Those under which values left out are predicted as well as under the best, of rows and of places alike; none where too few tell."""
    triples = _triples(times, place, values, step)
    if triples.shape[1] < _FEWEST_PAIRS:
        return ()
    kinds = [np.stack([_loss_of_rows(transform_named(name), triples) for name in names])]
    beside = _beside_others(times, place, values)
    if len(beside.value) >= _FEWEST_PAIRS:
        kinds.append(np.stack([_loss_of_places(transform_named(name), beside) for name in names]))
    # Each by that of the best of its kind, so that rows and places count alike; where nothing is lost, all are as good.
    means = [losses.mean(axis=1) for losses in kinds]
    if min(each.min() for each in means) <= 1e-9 * np.abs(values).max():
        return names
    kinds = [losses / each.min() / len(kinds) for losses, each in zip(kinds, means, strict=True)]
    best = int(np.argmin(np.sum([losses.mean(axis=1) for losses in kinds], axis=0)))
    more = [losses - losses[best] for losses in kinds]
    mean = np.sum([each.mean(axis=1) for each in more], axis=0)
    error = np.sqrt(np.sum([each.var(axis=1) / each.shape[1] for each in more], axis=0))
    is_worse = mean > np.maximum(_WORTH_OF_LOSS, _CLEAR * error)
    return tuple(name for name, worse in zip(names, is_worse, strict=True) if not worse)


def _in_order(
    times: Float[np.ndarray, " row"], place: Int[np.ndarray, " row"], values: Float[np.ndarray, " row"], step: float
) -> tuple[Float[np.ndarray, " row"], Bool[np.ndarray, " pair"]]:
    """Values place after place, and which pairs of neighbours are of one place, one usual step (or less) apart."""
    order = np.lexsort((times, place))
    gap = np.diff(times[order])
    return values[order], (np.diff(place[order]) == 0) & (gap > 0) & (gap <= 1.01 * step)


def _triples(
    times: Float[np.ndarray, " row"], place: Int[np.ndarray, " row"], values: Float[np.ndarray, " row"], step: float
) -> Float[np.ndarray, "3 triple"]:
    """Values before, at and after a time at one place, one usual step (or less) apart."""
    value, near = _in_order(times, place, values, step)
    middle = np.flatnonzero(near[:-1] & near[1:]) + 1
    middle = middle[:: max(1, len(middle) // _MOST_TRIPLES)]
    return np.stack([value[middle - 1], value[middle], value[middle + 1]])


class _Beside(NamedTuple):
    """Values of some times with the numbers of their times, of two halves of the places: either has several at each time."""

    value: Float[np.ndarray, " row"]
    time: Int[np.ndarray, " row"]
    half: Int[np.ndarray, " row"]


def _beside_others(
    times: Float[np.ndarray, " row"], place: Int[np.ndarray, " row"], values: Float[np.ndarray, " row"]
) -> _Beside:
    """Rows of times evenly through the series, every other place in one half."""
    distinct, number = np.unique(times, return_inverse=True)
    every = min(max(1, len(values) // _MOST_BESIDE), len(distinct))
    some = np.flatnonzero(number % every == 0)
    time, half = number[some], place[some] % 2
    counts = np.stack([np.bincount(time[half == each], minlength=len(distinct)) for each in (0, 1)])
    enough = np.min(counts, axis=0)[time] >= _FEWEST_OTHERS
    return _Beside(values[some][enough], np.unique(time[enough], return_inverse=True)[1], half[enough])


def _loss_of_places(transform: Transform, beside: _Beside) -> Float[np.ndarray, " row"]:
    """Of values predicted from the mean of the other half's at their time.

    Not of all others: from what their mean lacks one could tell which of the places it is.
    """
    z, size = transform.forward(beside.value), int(beside.time.max()) + 1
    of_half = [beside.half == half for half in (0, 1)]
    means = [
        np.bincount(beside.time[some], z[some], size) / np.bincount(beside.time[some], minlength=size)
        for some in of_half
    ]
    return _quantile_losses(
        transform, np.where(of_half[0], means[1][beside.time], means[0][beside.time]), z, beside.value
    )


def _loss_of_rows(transform: Transform, triples: Float[np.ndarray, "3 triple"]) -> Float[np.ndarray, " triple"]:
    """Of the middle values predicted from those beside them."""
    before, z, after = transform.forward(triples)
    return _quantile_losses(transform, before + after, z, triples[1])


def _quantile_losses(
    transform: Transform,
    known: Float[np.ndarray, " row"],
    z: Float[np.ndarray, " row"],
    values: Float[np.ndarray, " row"],
) -> Float[np.ndarray, " row"]:
    """Mean quantile scores, in the target's units, of values predicted from something known by least squares of the transformed."""
    design = np.stack([np.ones_like(z), known], axis=1)
    mean = design @ np.linalg.lstsq(design, z, rcond=None)[0]
    sd = max(float(np.std(z - mean)), 1e-12)
    losses = np.zeros(len(z))
    for level in _LEVELS:
        below = values - transform.inverse(mean + sd * special.ndtri(level))
        losses += np.where(below >= 0, level * below, (level - 1) * below) / len(_LEVELS)
    return losses


def _neighbours(
    times: Float[np.ndarray, " row"], place: Int[np.ndarray, " row"], values: Float[np.ndarray, " row"], step: float
) -> tuple[Float[np.ndarray, " pair"], Float[np.ndarray, " pair"]]:
    """Positive values that follow each other at a place, one usual step (or less) apart."""
    value, near = _in_order(times, place, values, step)
    near &= (value[:-1] > 0) & (value[1:] > 0)
    return value[:-1][near], value[1:][near]


def _fit_of_changes(
    transform: Transform, first: Float[np.ndarray, " pair"], second: Float[np.ndarray, " pair"]
) -> float:
    variance = float(np.mean((transform.forward(second) - transform.forward(first)) ** 2)) / 2
    stretch = float(np.mean(transform.log_jacobian(first)) + np.mean(transform.log_jacobian(second))) / 2
    return stretch - 0.5 * np.log(variance) if variance > 0 else -np.inf


def _fit_of_values(transform: Transform, values: Float[np.ndarray, " value"]) -> float:
    return float(np.mean(transform.log_jacobian(values))) - 0.5 * float(np.log(np.var(transform.forward(values))))


def _skewness(values: Float[np.ndarray, " value"]) -> float:
    deviations = values - values.mean()
    spread = float(np.sqrt(np.mean(deviations**2)))
    return float(np.mean(deviations**3)) / spread**3 if spread > 0 else 0.0
