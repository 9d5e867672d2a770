# SPDX-License-Identifier: MIT
"""From settings and observations to the model that is learned, and which of its parameters stay."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from weft.data.categories import Category
from weft.data.clock import UNIT_SECONDS, Clock
from weft.data.observations import Observations
from weft.data.scaling import Marks
from weft.estimator.components import (
    AUTO,
    FAST,
    NAMED,
    SLOW,
    choose_components,
    named_components,
    priors_for,
    scales_of,
)
from weft.estimator.defaults import (
    VarianceSplit,
    field_scale,
    is_standardised,
    median_step,
    start_likelihood,
    variance_shares,
)
from weft.estimator.placement import choose_pseudo_points
from weft.estimator.seasonality import PERIODS, frozen_names, period_of, seasonal_component
from weft.kernels import Categories, Columns, Constant, Linear, Matern32, Separable, SumSeparable
from weft.likelihoods import Likelihood
from weft.model import ConstantMean, Model
from weft.training.parameters import Prior
from weft.training.selection import Draft, Trial

__all__ = [
    "COVARIATES",
    "Start",
    "build_start",
    "draft_of",
    "improve_start",
    "usable_periods",
    "with_pseudo_points",
]

COVARIATES = "covariates"
# Prior variance of a slope, per deviation of the covariate and of the target.
SLOPE_VARIANCE = 10.0
# Of the variance of f: where the spread of a category's levels starts.
LEVELS_SHARE = 0.1
# And that of a slope, per deviation of its covariate, over space.
SLOPES_SHARE = 0.1


class Start(NamedTuple):
    """The model to learn from, the names of parameters that stay, priors, and what each component of the kernel is called.

    `trials` are the changes that were tried on small blocks of the table.
    """

    model: Model
    frozen: tuple[str, ...]
    priors: Mapping[str, Prior]
    names: tuple[str, ...]
    trials: tuple[Trial, ...] = ()


def build_start(
    data: Observations,
    *,
    num_space: int,
    alike: Sequence[int],
    marks: Marks,
    categories: Sequence[Category],
    slopes: Mapping[str, int],
    clock: Clock,
    kernel: Any,
    components: Any,
    likelihood: Likelihood,
    likelihood_setting: Any,
    seasonality: Any,
) -> Start:
    """From settings to a model scaled to `data`, in which nothing stands for places but themselves.

    `alike` are the columns of space that are directions of one map, `marks` tells of the last of them; `categories` have the last
    columns of places;
    `slopes` are the columns of covariates whose slopes vary in space, by name.
    """
    f = field_scale(likelihood, data)
    num_ordered = num_space - marks.num_columns
    shares = variance_shares(data, f, num_ordered)
    scales = scales_of(data, num_space, alike, marks)
    asked = names_of_components(components)
    seasons = several(seasonality)
    if kernel is not None:
        if not isinstance(kernel, Separable | SumSeparable):
            raise TypeError(f"kernel must be None, a weft.Separable or a sum of them; it is {kernel!r}")
        own = list(only_space(kernel, num_space, data.places.shape[1]).components)
        names = [f"component {number}" for number in range(1, len(own) + 1)]
    else:
        names = [name for name in asked if name in NAMED]
        seasons = (*seasons, *(name for name in asked if name in PERIODS and name not in seasons))
        own = named_components(names, scales, shares)
    named = tuple(names)
    parts, frozen = seasonal_parts(seasons, data, num_ordered, clock, first=len(own))
    own += [component for _, component in parts]
    names += [name for name, _ in parts]
    num_numbers = data.places.shape[1] - len(categories)
    if num_numbers > num_space:
        # Slopes with a wide prior, integrated out: nothing of it is learned.
        frozen.append(f"kernel.components[{len(own)}]")
        columns = range(num_space, num_numbers)
        own.append(Separable(space=Columns(Linear(1.0), columns), time=Constant(), variance=SLOPE_VARIANCE))
        names.append(COVARIATES)
    for name, column in slopes.items():
        # A field of its own for how far the slope at a place is from the one that all places share.
        frozen += [f"kernel.components[{len(own)}].space.second", f"kernel.components[{len(own)}].time"]
        varying = scales.in_space(Matern32, 1.0) * Columns(Linear(1.0), (column,))
        own.append(Separable(space=varying, time=Constant(), variance=SLOPES_SHARE * sum(shares)))
        names.append(f"slope of {name}")
    for column, category in enumerate(categories, num_numbers):
        # How far levels differ is learned from all of them, so that those with few rows stay near the others.
        frozen += [f"kernel.components[{len(own)}].space", f"kernel.components[{len(own)}].time"]
        levels = Columns(Categories(category.num_levels), (column,))
        own.append(Separable(space=levels, time=Constant(), variance=LEVELS_SHARE * sum(shares)))
        names.append(category.component)
    first = start_likelihood(likelihood, likelihood_setting, shares)
    # A standardised target has mean zero; a log rate or a logit has not.
    mean = None if is_standardised(likelihood) else ConstantMean(variance_of_mean(f, shares))
    return Start(Model(SumSeparable(own), first, None, mean), tuple(frozen), priors_for(named, scales), tuple(names))


def with_pseudo_points(start: Start, setting: Any, data: Observations, num_space: int, *, seed: int) -> Start:
    """The same with what the one setting makes of the places of `data`."""
    model = start.model
    assert isinstance(model.kernel, SumSeparable)
    points = choose_pseudo_points(setting, data, num_space, model.kernel, seed=seed)
    return start._replace(model=Model(model.kernel, model.likelihood, points, model.mean))


def improve_start(
    start: Start,
    data: Observations,
    *,
    num_space: int,
    alike: Sequence[int],
    marks: Marks,
    clock: Clock,
    seed: int,
) -> Start:
    """The same with what small blocks of `data` ask for."""
    draft, trials = choose_components(
        draft_of(start),
        data,
        num_space - marks.num_columns,
        scales_of(data, num_space, alike, marks),
        usable_periods(start, data, clock),
        seed=seed,
    )
    return Start(draft.model, draft.frozen, draft.priors, draft.names, trials)


def draft_of(start: Start) -> Draft:
    """What candidates are changes to."""
    return Draft(start.model, start.names, start.frozen, start.priors)


def usable_periods(start: Start, data: Observations, clock: Clock) -> dict[str, float]:
    """The seasons that may be tried beside `start`, by name: those that steps of time can tell."""
    step = median_step(data.times)
    periods = {name: PERIODS[name] / UNIT_SECONDS[clock.unit] for name in PERIODS if clock.unit in UNIT_SECONDS}
    return {name: period for name, period in periods.items() if period >= 2 * step and name not in start.names}


def names_of_components(setting: Any) -> tuple[str, ...]:
    """The names that `components` asks for; those of a draft to start from where it is "auto"."""
    if isinstance(setting, str) and setting == AUTO:
        return (SLOW, FAST)
    names = several(setting)
    known = (*NAMED, *PERIODS)
    wrong = [name for name in names if name not in known]
    if wrong or not any(name in NAMED for name in names):
        raise ValueError(
            f"components must be 'auto' or some of {', '.join(known)}, one of {', '.join(NAMED)} at least; they are {setting!r}"
        )
    return tuple(dict.fromkeys(names))


def several(setting: Any) -> tuple[Any, ...]:
    if setting is None:
        return ()
    return (setting,) if isinstance(setting, str | int | float) else tuple(setting)


def variance_of_mean(f: np.ndarray, shares: VarianceSplit) -> float:
    return float(np.mean(f) ** 2 + 10 * sum(shares))


def only_space(kernel: Separable | SumSeparable, num_space: int, width: int) -> Separable | SumSeparable:
    """A kernel of space, told to look past the covariates."""
    if num_space == width:
        return kernel
    return SumSeparable(
        Separable(space=Columns(part.space, range(num_space)), time=part.time, variance=part.variance)
        for part in kernel.components
    )


def seasonal_parts(
    seasonality: Sequence[Any], data: Observations, num_space: int, clock: Clock, *, first: int
) -> tuple[list[tuple[str, Separable]], list[str]]:
    """Named seasonal components, and what of them is not learned when they stand at `first` in the kernel."""
    step = median_step(data.times)
    parts = []
    for season in seasonality:
        period = period_of(season, clock, step)
        name = season if isinstance(season, str) else f"every {season:g} {clock.unit}"
        parts.append((name, seasonal_component(period, data.places[:, :num_space], step)))
    return parts, list(frozen_names(first, len(parts)))
