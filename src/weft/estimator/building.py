# SPDX-License-Identifier: MIT
"""From settings and observations to the model that is learned, and which of its parameters stay."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from weft.data.clock import Clock
from weft.data.observations import Observations
from weft.estimator.defaults import (
    Shares,
    default_kernel,
    field_scale,
    is_standardised,
    median_step,
    start_likelihood,
    variance_shares,
)
from weft.estimator.placement import choose_pseudo_points
from weft.estimator.seasonality import frozen_names, period_of, seasonal_component
from weft.kernels import Columns, Constant, Linear, Separable, SumSeparable
from weft.likelihoods import Likelihood
from weft.model import ConstantMean, Model

__all__ = ["COVARIATES", "Start", "build_start"]

COVARIATES = "covariates"
# Prior variance of a slope, per deviation of the covariate and of the target.
SLOPE_VARIANCE = 10.0


class Start(NamedTuple):
    """The model to learn from, the names of parameters that stay, and what each component of the kernel is called."""

    model: Model
    frozen: tuple[str, ...]
    names: tuple[str, ...]


def build_start(
    data: Observations,
    *,
    num_space: int,
    clock: Clock,
    kernel: Any,
    likelihood: Likelihood,
    likelihood_setting: Any,
    seasonality: Sequence[Any],
    pseudo_points: Any,
    seed: int,
) -> Start:
    f = field_scale(likelihood, data)
    if kernel is None:
        own: Separable | SumSeparable
        own, shares = default_kernel(data, f, num_space)
        names = ["slow", "fast"]
    else:
        if not isinstance(kernel, Separable | SumSeparable):
            raise TypeError(f"kernel must be None, a weft.Separable or a sum of them; it is {kernel!r}")
        own, shares = only_space(kernel, num_space, data.places.shape[1]), variance_shares(data, f, num_space)
        names = [f"component {number}" for number in range(1, len(own.components) + 1)]
    seasons, frozen = seasonal_parts(seasonality, data, num_space, clock, first=len(own.components))
    components = [*own.components, *(component for _, component in seasons)]
    names += [name for name, _ in seasons]
    if data.places.shape[1] > num_space:
        # Slopes with a wide prior, integrated out: nothing of it is learned.
        frozen.append(f"kernel.components[{len(components)}]")
        columns = range(num_space, data.places.shape[1])
        components.append(Separable(space=Columns(Linear(1.0), columns), time=Constant(), variance=SLOPE_VARIANCE))
        names.append(COVARIATES)
    whole = SumSeparable(components)
    model = Model(
        kernel=whole,
        likelihood=start_likelihood(likelihood, likelihood_setting, shares),
        pseudo_points=choose_pseudo_points(pseudo_points, data, num_space, whole, seed=seed),
        # A standardised target has mean zero; a log rate or a logit has not.
        mean=None if is_standardised(likelihood) else ConstantMean(variance_of_mean(f, shares)),
    )
    return Start(model, tuple(frozen), tuple(names))


def variance_of_mean(f: np.ndarray, shares: Shares) -> float:
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
    seasonality: Any, data: Observations, num_space: int, clock: Clock, *, first: int
) -> tuple[list[tuple[str, Separable]], list[str]]:
    """Named seasonal components, and what of them is not learned when they stand at `first` in the kernel."""
    if seasonality is None:
        seasonality = ()
    asked = (seasonality,) if isinstance(seasonality, str | int | float) else tuple(seasonality)
    step = median_step(data.times)
    parts = []
    for season in asked:
        period = period_of(season, clock, step)
        name = season if isinstance(season, str) else f"every {season:g} {clock.unit}"
        parts.append((name, seasonal_component(period, data.places[:, :num_space], step)))
    return parts, list(frozen_names(first, len(parts)))
