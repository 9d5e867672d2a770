# SPDX-License-Identifier: MIT
"""Which transform or likelihood suits a target, by what its values are and how neighbours in time differ."""

import dataclasses
from typing import final

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import special

from weft.data.transforms import Transform, transform_named

__all__ = ["Advice", "advise"]

# Mildest first: of those nearly as good as the best, the first is taken.
_POSITIVE = (None, "sqrt", "log")
_WITH_ZEROS = (None, "sqrt", "log1p")
# Nats a value by which a stronger transform has to be better.
_WORTH = 0.05
# The part of a left-out score by which a stronger transform has to be better, where there are zeros.
_WORTH_OF_LOSS = 0.01
_LEVELS = np.arange(1, 20) / 20
_MOST_TRIPLES = 20_000
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
    times: Float[np.ndarray, " row"], place: Int[np.ndarray, " row"], values: Float[np.ndarray, " row"], step: float
) -> Advice:
    """Advice for a target with values at places (by number) and times; `step` is the usual step between times.

    Of transforms, the mildest under which the size of changes does not depend on the level: the one that makes
    differences of neighbours in time most likely as draws of one Gaussian, in the units of the target (the profile
    likelihood of Box & Cox 1964, of differences). Where there are zeros, which have no logarithm and no spread, the one under
    which values left out are predicted best, in the units of the target, from those before and after; where a quarter of them
    are zeros, a likelihood for amounts that may be none.
    """
    present = ~np.isnan(values)
    times, place, values = times[present], place[present], values[present]
    if len(values) == 0 or values.min() < 0 or values.min() == values.max():
        return Advice()
    if np.all(values == np.rint(values)):
        if values.max() == 1:
            return Advice(likelihood="bernoulli", reason="all values are 0 or 1")
        if values.mean() < _SMALL_COUNTS:
            return Advice(likelihood="negative_binomial", reason=f"small counts (mean {values.mean():.2g})")
    elif np.mean(values == 0) >= _DRY:
        dry = f"{100 * float(np.mean(values == 0)):.0f} % of values are exactly 0 and the others are amounts"
        return Advice(likelihood="rain", reason=dry)
    names = _POSITIVE if values.min() > 0 else _WITH_ZEROS
    if values.min() == 0:
        triples = _triples(times, place, values, step)
        if triples.shape[1] >= _FEWEST_PAIRS:
            losses = [_left_out_loss(transform_named(name), triples) for name in names]
            chosen = _mildest([-loss for loss in losses], names, worth=_WORTH_OF_LOSS * min(losses))
            dry = f"{100 * float(np.mean(values == 0)):.0f} % of values are 0"
            return Advice(
                chosen, reason=f"{dry}, and under {chosen} values left out are predicted best" if chosen else ""
            )
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


def _triples(
    times: Float[np.ndarray, " row"], place: Int[np.ndarray, " row"], values: Float[np.ndarray, " row"], step: float
) -> Float[np.ndarray, "3 triple"]:
    """Values before, at and after a time at one place, one usual step (or less) apart."""
    order = np.lexsort((times, place))
    gap, value = np.diff(times[order]), values[order]
    near: Bool[np.ndarray, " pair"] = (np.diff(place[order]) == 0) & (gap > 0) & (gap <= 1.01 * step)
    middle = np.flatnonzero(near[:-1] & near[1:]) + 1
    middle = middle[:: max(1, len(middle) // _MOST_TRIPLES)]
    return np.stack([value[middle - 1], value[middle], value[middle + 1]])


def _left_out_loss(transform: Transform, triples: Float[np.ndarray, "3 triple"]) -> float:
    """Mean quantile score, in the target's units, of the middle values predicted from those beside them by least squares."""
    before, value, after = transform.forward(triples)
    design = np.stack([np.ones_like(value), before + after], axis=1)
    coefficients = np.linalg.lstsq(design, value, rcond=None)[0]
    mean = design @ coefficients
    sd = max(float(np.std(value - mean)), 1e-12)
    losses = []
    for level in _LEVELS:
        below = triples[1] - transform.inverse(mean + sd * special.ndtri(level))
        losses.append(float(np.mean(np.where(below >= 0, level * below, (level - 1) * below))))
    return float(np.mean(losses))


def _neighbours(
    times: Float[np.ndarray, " row"], place: Int[np.ndarray, " row"], values: Float[np.ndarray, " row"], step: float
) -> tuple[Float[np.ndarray, " pair"], Float[np.ndarray, " pair"]]:
    """Positive values that follow each other at a place, one usual step (or less) apart."""
    order = np.lexsort((times, place))
    gap, value = np.diff(times[order]), values[order]
    near: Bool[np.ndarray, " pair"] = (np.diff(place[order]) == 0) & (gap > 0) & (gap <= 1.01 * step)
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
