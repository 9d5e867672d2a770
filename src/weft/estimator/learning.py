# SPDX-License-Identifier: MIT
"""Learning from rows: their units, a model to start from, its parameters, and the posterior."""

import dataclasses
from typing import Any, NamedTuple, final

import numpy as np

from weft.data.clock import Binning
from weft.estimator.building import build_start
from weft.estimator.columns import Measurements, Roles
from weft.estimator.defaults import is_standardised, likelihood_from
from weft.estimator.fitted import Fitted
from weft.estimator.translation import Translation, learn_translation
from weft.inference.posterior import condition
from weft.likelihoods import Gaussian
from weft.training.fitting import FitResult, fit

__all__ = ["Learned", "Settings", "learn", "translation_for"]

# A climb ends when no entry of the gradient exceeds this many nats a row: what is left to gain no score would show.
_GRADIENT_PER_ROW = 2e-4
_TOLERANCE = 1e-7


@final
@dataclasses.dataclass(frozen=True)
class Settings:
    """An estimator's arguments that say how to learn; see there what they mean."""

    kernel: Any
    likelihood: Any
    pseudo_points: Any
    transform: str | None
    seasonality: Any
    time_step: str | float | int | None
    power: float
    engine: str
    seed: int
    max_iterations: int


class Learned(NamedTuple):
    """What was learned, how the fit went, and what putting times on a step did."""

    fitted: Fitted
    result: FitResult
    binning: Binning | None


def translation_for(settings: Settings, roles: Roles, rows: Measurements) -> Translation:
    likelihood = likelihood_from(settings.likelihood)
    if settings.transform is not None and not isinstance(likelihood, Gaussian):
        raise ValueError(
            f"transform={settings.transform!r} goes with a Gaussian likelihood; this one is "
            f"{type(likelihood).__name__}: leave one of them out"
        )
    return learn_translation(
        rows,
        time_name=roles.time,
        target_name=roles.target,
        transform=settings.transform,
        standardise=is_standardised(likelihood),
        time_step=settings.time_step,
    )


def learn(settings: Settings, roles: Roles, rows: Measurements, **options: Any) -> Learned:
    """Everything from rows; `options` go to `weft.fit`."""
    translation = translation_for(settings, roles, rows)
    binning = translation.clock.binning(rows.time, roles.time)
    data = translation.observations(rows)
    start = build_start(
        data,
        num_space=translation.num_space,
        clock=translation.clock,
        kernel=settings.kernel,
        likelihood=likelihood_from(settings.likelihood),
        likelihood_setting=settings.likelihood,
        seasonality=settings.seasonality,
        pseudo_points=settings.pseudo_points,
        seed=settings.seed,
    )
    result = fit(
        start.model,
        data,
        frozen=start.frozen,
        power=settings.power,
        engine=settings.engine,
        seed=settings.seed,
        max_iterations=settings.max_iterations,
        tolerance=_TOLERANCE,
        gradient_tolerance=max(_GRADIENT_PER_ROW * data.num_rows, 1e-4),
        **options,
    )
    assert rows.values is not None
    fitted = Fitted(
        roles=roles,
        translation=translation,
        names=start.names,
        posterior=condition(result.model, data, power=settings.power, engine=settings.engine),
        converged=result.converged,
        target_sd=float(np.nanstd(rows.values)),
        num_rows=rows.num_rows,
        num_missing=rows.num_missing,
    )
    return Learned(fitted, result, binning)
