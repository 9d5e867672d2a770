# SPDX-License-Identifier: MIT
"""Learning from rows: their units, a model to start from, its parameters, and the posterior."""

import dataclasses
import logging
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from weft.arrays import require_whole
from weft.data.clock import Binning
from weft.data.observations import Observations
from weft.estimator.budget import LEARNING_WORK, Stretches, choose_stretches, work_of_model
from weft.estimator.building import Start, build_start
from weft.estimator.columns import Measurements, Roles
from weft.estimator.defaults import is_standardised, likelihood_from
from weft.estimator.fitted import Fitted
from weft.estimator.translation import Translation, learn_translation
from weft.estimator.wide import answering
from weft.inference.posterior import Posterior
from weft.inference.with_habits import find_habits, tell, with_habits
from weft.likelihoods import Gaussian
from weft.model import Model
from weft.options import Options
from weft.training.fitting import FitResult, Outcome, fit

__all__ = ["Learned", "chosen_stretches", "learn", "options_among", "start_for", "translation_for"]

logger = logging.getLogger("weft")

# A climb ends when no entry of the gradient exceeds this many nats a row: what is left to gain no score would show.
_GRADIENT_PER_ROW = 2e-4
_TOLERANCE = 1e-7
# Of a second climb, which starts near its end.
_ITERATIONS_AGAIN = 8


class Learned(NamedTuple):
    """What was learned, how the fit went, and what putting times on a step did."""

    fitted: Fitted
    result: FitResult
    binning: Binning | None


def options_among(arguments: Mapping[str, Any]) -> Options:
    """An estimator's arguments as they are now, checked as far as no table is needed for it."""
    options = Options(**arguments)
    require_whole("seed", options.seed, 0)
    require_whole("max_iterations", options.max_iterations, 0)
    return options


def translation_for(settings: Options, roles: Roles, rows: Measurements) -> Translation:
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
        time_format=settings.time_format,
    )


def start_for(settings: Options, translation: Translation, data: Observations) -> Start:
    """The model to start from."""
    return build_start(
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


def learn(settings: Options, roles: Roles, rows: Measurements, **options: Any) -> Learned:
    """Everything from rows; `options` go to `weft.fit`."""
    translation = translation_for(settings, roles, rows)
    binning = translation.clock.binning(rows.time, roles.time)
    data = translation.observations(rows)
    start = start_for(settings, translation, data)
    learned_from = _rows_to_learn_from(settings, start.model, data, rows, translation)
    result = fit(
        start.model,
        learned_from,
        frozen=start.frozen,
        **_options_for(settings, learned_from),
        **options,
    )
    result, posterior = _with_habits(settings, start.frozen, result, learned_from, data, translation.num_space)
    assert rows.values is not None
    fitted = Fitted(
        roles=roles,
        translation=translation,
        names=start.names,
        posterior=posterior,
        converged=result.converged,
        target_sd=float(np.nanstd(rows.values)),
        num_rows=rows.num_rows,
        num_missing=rows.num_missing,
    )
    return Learned(fitted, result, binning)


def _with_habits(
    settings: Options,
    frozen: tuple[str, ...],
    result: FitResult,
    learned_from: Observations,
    data: Observations,
    num_space: int,
) -> tuple[FitResult, Posterior]:
    """The posterior with the habits that places have, and the result of the climbs it took."""
    names = ("level",) if settings.place_offsets else ()
    field = answering(settings, result.model, data, num_space)
    if result.outcome is Outcome.INTERRUPTED:
        return result, field
    habits = find_habits(names, field, data, num_space)
    if not habits:
        return result, field
    # With the habits gone, what was noise is less so; then the habits once more, given the better field.
    again = _options_for(settings, learned_from) | {"max_iterations": min(_ITERATIONS_AGAIN, settings.max_iterations)}
    second = fit(result.model, tell(habits, learned_from), frozen=frozen, progress=None, **again)

    def given(data: Observations) -> Posterior:
        return answering(settings, second.model, data, num_space)

    posterior = with_habits(given, data, find_habits(names, given(tell(habits, data)), data, num_space))
    return _one_after_another(result, second), posterior


def _options_for(settings: Options, data: Observations) -> dict[str, Any]:
    return {
        "power": settings.power,
        "engine": settings.engine,
        "seed": settings.seed,
        "max_iterations": settings.max_iterations,
        "tolerance": _TOLERANCE,
        "gradient_tolerance": max(_GRADIENT_PER_ROW * data.num_rows, 1e-4),
    }


def _one_after_another(first: FitResult, second: FitResult) -> FitResult:
    """The second climb, with the work of both; whether it converged is what the first says, which was the long one."""
    return dataclasses.replace(
        second,
        history=first.history,
        outcome=first.outcome,
        message=first.message,
        num_evaluations=first.num_evaluations + second.num_evaluations,
        num_engine_calls=first.num_engine_calls + second.num_engine_calls,
        seconds=first.seconds + second.seconds,
    )


def chosen_stretches(settings: Options, work: Float[np.ndarray, " time"], data: Observations) -> Stretches | None:
    """Times to learn from, by the one setting; None for all of them."""
    setting = settings.learning_rows
    if setting is None:
        return None
    if isinstance(setting, str) and setting == "auto":
        return choose_stretches(work, LEARNING_WORK)
    if isinstance(setting, int | np.integer) and not isinstance(setting, bool) and setting > 0:
        return choose_stretches(np.asarray(data.grouping.layout.counts, dtype=np.float64), float(setting))
    raise ValueError(f"learning_rows must be 'auto', a number of rows, or None for all of them; it is {setting!r}")


def _rows_to_learn_from(
    settings: Options, model: Model, data: Observations, rows: Measurements, translation: Translation
) -> Observations:
    """All rows, or those of stretches of the series where all would take long; said aloud."""
    stretches = chosen_stretches(settings, work_of_model(model, data), data)
    if stretches is None:
        return data
    times = translation.times(rows)
    chosen = translation.observations(rows.take(np.flatnonzero(stretches.chosen[np.searchsorted(data.times, times)])))
    where = "one stretch" if stretches.num_stretches == 1 else f"{stretches.num_stretches} stretches"
    logger.info(
        "parameters are learned from %s of %s rows (%s of the series); predictions use all of them",
        f"{chosen.num_rows:,}",
        f"{data.num_rows:,}",
        where,
    )
    return chosen
