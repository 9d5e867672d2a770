# SPDX-License-Identifier: MIT
"""Cycles of known period as components: the same shape every year, week or day, changing slowly from place to place."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from weft.data.clock import UNIT_SECONDS, Clock, read_time_step
from weft.kernels import Columns, Constant, Kernel, Linear, Periodic, Separable

__all__ = ["PERIODS", "period_of", "seasonal_component"]

PERIODS = {"yearly": 31_556_952, "weekly": 604_800, "daily": 86_400}
# Harmonics: enough for the seasons of a year; a week of daily values has no more than three.
_HARMONICS = 3
# Variance of a cycle at the start of learning, of a target of variance 1.
_START_VARIANCE = 0.2


def period_of(season: str | float | int, clock: Clock, step: float) -> float:
    """A period in the clock's unit; seasons are "yearly", "weekly", "daily", a length such as "12h", or a number."""
    if isinstance(season, str):
        if clock.unit not in UNIT_SECONDS:
            raise ValueError(
                f"seasonality {season!r} needs times with dates; these are plain numbers, so give the period as a number"
            )
        if season in PERIODS:
            seconds = PERIODS[season]
        else:
            try:
                count, unit = read_time_step(season)
            except ValueError as error:
                raise ValueError(
                    f"seasonality must be {', '.join(map(repr, PERIODS))}, a length such as '12h' or a number of "
                    f"{clock.unit}; it is {season!r}"
                ) from error
            seconds = count * UNIT_SECONDS[unit]
        period = seconds / UNIT_SECONDS[clock.unit]
    else:
        period = float(season)
        if not (np.isfinite(period) and period > 0):
            raise ValueError(f"a period of seasonality must be positive; it is {season!r}")
    if period < 2 * step:
        raise ValueError(
            f"seasonality {season!r} is a period of {period:g} {clock.unit}, and times are {step:g} {clock.unit} apart: "
            "too far apart to show it; leave it out"
        )
    return period


def seasonal_component(period: float, places: Float[np.ndarray, "place dim"], step: float) -> Separable:
    """A cycle common to all places plus one whose amplitude is linear in space.

    Both are exact without pseudo-points: 1 + dim columns of state for each of at most seven harmonic terms.
    """
    deviations = places.std(axis=0)
    varying = np.flatnonzero(deviations > 0)
    space: Kernel = Constant(0.7)
    if len(varying):
        slopes = Linear(0.3 / (len(varying) * deviations[varying] ** 2), places.mean(axis=0)[varying])
        space = space + Columns(slopes, varying)
    order = int(np.clip(np.floor(period / (2 * step)), 1, _HARMONICS))
    return Separable(space=space, time=Periodic(period, 1.5, order=order), variance=_START_VARIANCE)


def frozen_names(first: int, count: int) -> Sequence[str]:
    """What is not learned of seasonal components: their period and how the cycle splits over space."""
    return [
        f"kernel.components[{number}].{part}"
        for number in range(first, first + count)
        for part in ("space", "time.period")
    ]
