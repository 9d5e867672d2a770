# SPDX-License-Identifier: MIT
"""Learning from rows: their units, a model to start from, its parameters, and the posterior."""

import abc
import dataclasses
import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from weft.arrays import require_whole
from weft.data.area_points import read_members
from weft.data.clock import Binning
from weft.data.observations import Observations, places_repeat, take_rows
from weft.data.scaling import TargetScaling
from weft.estimator.budget import LEARNING_WORK, Stretches, choose_stretches, work_of_model
from weft.estimator.building import Start, build_start, improve_start, with_pseudo_points
from weft.estimator.calibration import tails_of_places
from weft.estimator.columns import Measurements, PackedMeasurements, Roles
from weft.estimator.components import (
    AUTO,
    FEWEST_ROWS,
    NAMED,
    degenerate_components,
    elsewhere,
    names_by_scale,
)
from weft.estimator.defaults import is_standardised, likelihood_from
from weft.estimator.fitted import Fitted
from weft.estimator.placement import check_pseudo_points
from weft.estimator.translation import Translation, learn_translation
from weft.estimator.wide import answering, rows_to_ask
from weft.inference.habits import Habit
from weft.inference.habits.shift import find_shift
from weft.inference.posterior import Posterior
from weft.inference.with_habits import field_model, find_habits, tell, with_habits
from weft.likelihoods import Gaussian
from weft.model import Model
from weft.options import Options
from weft.phases import timing
from weft.training.blocks import choose_blocks
from weft.training.fitting import FitResult, Outcome, fit
from weft.training.neighbourhoods import Neighbourhoods, find_neighbourhoods, may_differ

__all__ = [
    "MOST_LOOKED_AT",
    "Learned",
    "Whole",
    "answer_with_habits",
    "asks_neighbourhoods",
    "chosen_stretches",
    "learn",
    "learn_from_parts",
    "learns_small",
    "models_rows",
    "names_of_habits",
    "options_among",
    "small_parts",
    "start_for",
    "stretches_looked_at",
    "translation_for",
]

logger = logging.getLogger("weft")

# A climb ends when no entry of the gradient exceeds this many nats a row: what is left to gain no score would show.
_GRADIENT_PER_ROW = 2e-4
_TOLERANCE = 1e-7
# Blocks are a sample: another would move their optimum by more than a step that gains so many nats, or so many a row, and sites are found
# no more finely. No score would show it either: on five tables nothing beyond the fourth digit changed.
_NATS_OF_BLOCKS = 0.2
_NATS_PER_ROW = 5e-5
# Of a second climb, which starts near its end.
_ITERATIONS_AGAIN = 8
# Work of an evaluation of all blocks together: half a second on a core.
_BLOCKS_WORK = 4e9
# Rows that are looked at while learning: of more, those of stretches of the series, which one process holds at some 100 bytes each. Where
# places are so many that these would be few times, there are up to four times as many: few times tell little of what is slow.
MOST_LOOKED_AT = 1_000_000
FEWEST_TIMES_LOOKED_AT = 240
# What places may have of their own, in the order in which it is found.
HABITS_TO_FIND = ("shift", "level", "noise")


class Learned(NamedTuple):
    """What was learned, how the fit went, and what putting times on a step did."""

    fitted: Fitted
    result: FitResult
    binning: Binning | None


class Whole(abc.ABC):
    """A table of which only some rows are here to learn from: what all of them are like, and who answers given all of them."""

    target: TargetScaling
    target_sd: float
    num_rows: int
    num_missing: int
    # Of each time, in the order of the measurements that are here.
    rows_of_times: Int[np.ndarray, " time"]

    @abc.abstractmethod
    def posterior(self, translation: Translation, model: Model, habits: tuple[Habit, ...]) -> Posterior:
        """The posterior of `model`, the field's, given all rows, with these habits."""


def options_among(arguments: Mapping[str, Any]) -> Options:
    """An estimator's arguments as they are now, checked as far as no table is needed for it."""
    options = Options(**arguments)
    require_whole("seed", options.seed, 0)
    require_whole("max_iterations", options.max_iterations, 0)
    return options


def translation_for(
    options: Options, roles: Roles, rows: Measurements | PackedMeasurements, target: TargetScaling | None = None
) -> Translation:
    """Units of these rows; of the target those given, if any are."""
    likelihood = likelihood_from(options.likelihood)
    if options.transform is not None and not isinstance(options.transform, str):
        raise ValueError(f"transform must be one name, as there is one target; it is {options.transform!r}")
    if options.transform is not None and not isinstance(likelihood, Gaussian):
        raise ValueError(
            f"transform={options.transform!r} goes with a Gaussian likelihood; this one is "
            f"{type(likelihood).__name__}: leave one of them out"
        )
    if (options.area is None) != (options.areas is None):
        raise ValueError(
            "area= names the column that says which area a row is the mean over, and areas= says what each is made of, polygons or a "
            "table of points; give both or neither"
        )
    return learn_translation(
        rows,
        members=None if roles.area is None else read_members(options.areas, roles.area, roles.space, roles.kinds),
        area=roles.area,
        time_name=roles.time,
        target_name=roles.target,
        transform=options.transform,
        standardise=is_standardised(likelihood),
        time_step=options.time_step,
        by_rows=models_rows(options),
        time_format=options.time_format,
        local=roles.local,
        target=target,
    )


@timing("learn")
def learn(
    options: Options,
    roles: Roles,
    rows: Measurements | PackedMeasurements,
    *,
    whole: Whole | None = None,
    **fit_options: Any,
) -> Learned:
    """Everything from rows; `fit_options` go to `weft.fit`. Where these are some of a `whole` table, that answers given all."""
    translation = translation_for(options, roles, rows, None if whole is None else whole.target)
    binning = (
        rows.binning(translation.clock, roles.time)
        if whole is None
        else translation.clock.binning(rows.time, roles.time, whole.rows_of_times)
    )
    if binning is not None and options.time_step == AUTO:
        binning = dataclasses.replace(binning, is_chosen=True)
    data, everything = _to_look_at(options, translation, rows, whole)
    habits = names_of_habits(options) if isinstance(likelihood_from(options.likelihood), Gaussian) else ()
    # Dates before anything is learned: rows a day late look like noise, and like a field that forgets overnight.
    shift = find_shift(None, data, translation.num_space) if "shift" in habits else None
    dated = () if shift is None else (shift,)
    told = tell(dated, data)
    start = start_for(options, translation, told)
    if learns_small(options, told, translation.num_space):
        start, result, learned_from = _learned_small(options, start, told, translation, fit_options)
    else:
        # The bound over a whole series speaks for itself, here and when it is climbed again.
        start = with_pseudo_points(
            start._replace(priors={}), options.pseudo_points, told, translation.num_space, seed=options.seed
        )
        result, learned_from = _learned_at_length(options, start, told, fit_options)
    result, posterior = answer_with_habits(
        options,
        start,
        result,
        learned_from,
        data,
        dated=dated,
        names=habits,
        num_space=translation.num_space,
        num_map=translation.num_space - translation.scaling.marks.num_columns,
        everything=everything,
    )
    assert rows.values is not None
    fitted = Fitted(
        roles=roles,
        translation=translation,
        names=names_by_scale(start.names, result.model),
        posterior=posterior,
        converged=result.converged,
        target_sd=float(np.nanstd(rows.values)) if whole is None else whole.target_sd,
        num_rows=(rows if whole is None else whole).num_rows,
        num_missing=(rows if whole is None else whole).num_missing,
        trials=tuple(str(trial) for trial in start.trials),
    )
    return Learned(fitted, result, binning)


# The posterior of a field's model with the habits of places, given all rows.
Everything = Callable[[Model, tuple[Habit, ...]], Posterior]


def _to_look_at(
    options: Options, translation: Translation, rows: Measurements | PackedMeasurements, whole: Whole | None
) -> tuple[Observations, Everything | None]:
    """The rows to learn from, and who answers given all where these are not all."""
    data = translation.observations(rows)
    if whole is not None:
        # Times that other rows have are not theirs.
        return take_rows(data, np.arange(data.num_rows)), functools.partial(whole.posterior, translation)
    is_gaussian = isinstance(likelihood_from(options.likelihood), Gaussian)
    if not is_gaussian or not models_rows(options) or not places_repeat(data):
        return data, None
    chosen = stretches_looked_at(data.layout.counts)
    if chosen is None:
        return data, None

    def given_all(model: Model, habits: tuple[Habit, ...]) -> Posterior:
        return with_habits(lambda told: answering(options, model, told, translation.num_space), data, habits)

    return take_rows(data, np.flatnonzero(chosen[np.asarray(data.grouping.time_of_row)])), given_all


def stretches_looked_at(
    counts: Float[np.ndarray, " time"] | Int[np.ndarray, " time"],
) -> Bool[np.ndarray, " time"] | None:
    """Which times of a table are looked at while learning, of those with so many rows each; None for all."""
    enough = FEWEST_TIMES_LOOKED_AT * float(np.mean(counts))
    most = float(np.clip(enough, MOST_LOOKED_AT, 4 * MOST_LOOKED_AT))
    stretches = choose_stretches(np.asarray(counts, dtype=np.float64), most)
    return None if stretches is None else stretches.chosen


def start_for(options: Options, translation: Translation, data: Observations) -> Start:
    """The model that `options` ask for, scaled to `data`; pseudo-points are placed where it is to have any."""
    check_pseudo_points(options.pseudo_points)
    return build_start(
        data,
        num_space=translation.num_space,
        alike=translation.scaling.alike,
        marks=translation.scaling.marks,
        categories=translation.categories,
        slopes=translation.slopes,
        clock=translation.clock,
        kernel=options.kernel,
        components=options.components,
        likelihood=likelihood_from(options.likelihood),
        likelihood_setting=options.likelihood,
        seasonality=options.seasonality,
    )


def names_of_habits(options: Options) -> tuple[str, ...]:
    """The habits to look for, in the order in which they are found."""
    asked = options.habits
    if isinstance(asked, str):
        asked = HABITS_TO_FIND if asked == "auto" else (asked,)
    names = () if asked is None else tuple(asked)
    wrong = [name for name in names if name not in HABITS_TO_FIND]
    if wrong:
        raise ValueError(
            f"habits must be 'auto', None or some of {', '.join(HABITS_TO_FIND)}; one of them is {wrong[0]!r}"
        )
    return tuple(name for name in HABITS_TO_FIND if name in names and (name != "level" or options.place_offsets))


def learns_small(options: Options, data: Observations, num_space: int) -> bool:
    """Whether parameters come from small parts of the table, each modelled exactly: unless somebody asked for something else.

    A bound with as many pseudo-points as a budget allows learns the wrong parameters of a wide table: on ocean floats its
    noise had swallowed the eddies. Places with covariates are told apart by them, which is another matter.
    """
    return models_rows(options) and data.places.shape[1] == num_space


def models_rows(options: Options) -> bool:
    """The same as far as no table is needed for it."""
    return (
        isinstance(options.learning_rows, str)
        and options.learning_rows == "auto"
        and isinstance(options.pseudo_points, str)
        and options.regions is not None
        and options.power == 0.0
        and not options.covariates
    )


def small_parts(options: Options, model: Model, data: Observations) -> list[Observations]:
    """The parts of a table that parameters are learned from; all of it is one where that takes no longer."""
    return [block.data for block in choose_blocks(model, data, work=_BLOCKS_WORK, seed=options.seed)]


def _learned_small(
    options: Options, start: Start, data: Observations, translation: Translation, fit_options: dict[str, Any]
) -> tuple[Start, FitResult, Sequence[Observations]]:
    """Components where they are to be chosen, parameters, and the parts of the table they are learned from."""
    if options.kernel is None and options.components == AUTO:
        start = improve_start(
            start,
            data,
            num_space=translation.num_space,
            alike=translation.scaling.alike,
            marks=translation.scaling.marks,
            clock=translation.clock,
            seed=options.seed,
        )
    blocks = small_parts(options, start.model, data)
    result = learn_from_parts(options, start, blocks, data.num_rows, fit_options)
    extent = np.ptp(data.places[:, : translation.num_space - translation.scaling.marks.num_columns], axis=0)
    extent = np.where(extent > 0, extent, 1.0)
    return start, _or_from_elsewhere(options, start, result, blocks, extent, fit_options), blocks


def _or_from_elsewhere(
    options: Options,
    start: Start,
    result: FitResult,
    blocks: Sequence[Observations],
    extent: Float[np.ndarray, " space"],
    fit_options: dict[str, Any],
) -> FitResult:
    """Where named components ended at scales that no data can have told, a climb from others too; the higher end counts."""
    numbers = [
        number
        for number in degenerate_components(result.model, start.names, extent)
        if start.names[number] in NAMED and result.outcome is not Outcome.INTERRUPTED
    ]
    if not numbers:
        return result
    logger.info("the %s component ended where nothing tells it; once more from elsewhere", start.names[numbers[0]])
    # A checkpoint is of the first climb, which a fit that is resumed has done already.
    again = {name: value for name, value in fit_options.items() if name not in ("checkpoint", "resume")}
    moved = start._replace(model=elsewhere(result.model, numbers, extent))
    second = learn_from_parts(options, moved, blocks, result.num_rows, again, is_told=True)
    best = max(result, second, key=lambda each: each.objective)
    # Ctrl-C on the second way up ends the fit, whichever end is higher.
    last = second if second.outcome is Outcome.INTERRUPTED else best
    return dataclasses.replace(
        best,
        outcome=last.outcome,
        message=last.message,
        starts=(*result.starts, *second.starts),
        num_evaluations=result.num_evaluations + second.num_evaluations,
        num_engine_calls=result.num_engine_calls + second.num_engine_calls,
        seconds=result.seconds + second.seconds,
    )


def learn_from_parts(
    options: Options,
    start: Start,
    blocks: Sequence[Observations],
    num_rows: int,
    fit_options: dict[str, Any],
    *,
    is_told: bool = False,
) -> FitResult:
    """Parameters of an exact model from parts of a table of so many rows, which is said unless `is_told` already."""
    if len(blocks) > 1 and not is_told:
        logger.info(
            "parameters are learned from %d small parts of the table, %s of %s rows, each modelled exactly; "
            "predictions use all of them",
            len(blocks),
            f"{sum(block.num_rows for block in blocks):,}",
            f"{num_rows:,}",
        )
    num_learned = sum(block.num_rows for block in blocks)
    is_rough = len(blocks) > 1 or not isinstance(start.model.likelihood, Gaussian)
    return fit(
        start.model,
        blocks if len(blocks) > 1 else blocks[0],
        frozen=start.frozen,
        priors=start.priors,
        **_options_for(options, *blocks)
        | ({"tolerance": max(_NATS_OF_BLOCKS / num_learned, _NATS_PER_ROW)} if is_rough else {}),
        **fit_options,
    )


def _learned_at_length(
    options: Options, start: Start, data: Observations, fit_options: dict[str, Any]
) -> tuple[FitResult, Sequence[Observations]]:
    """Parameters by the bound, and the stretches of the series they are learned from."""
    chosen = _rows_to_learn_from(options, start.model, data)
    result = fit(start.model, chosen, frozen=start.frozen, **_options_for(options, chosen), **fit_options)
    return result, (chosen,)


def answer_with_habits(
    options: Options,
    start: Start,
    result: FitResult,
    learned_from: Sequence[Observations],
    data: Observations,
    *,
    dated: tuple[Habit, ...],
    names: tuple[str, ...],
    num_space: int,
    num_map: int | None = None,
    everything: Everything | None = None,
) -> tuple[FitResult, Posterior]:
    """The posterior with the habits that places have, and the result of the climbs it took; `dated` are those known already.

    The first `num_space` columns of places tell who has habits of its own; of these `num_map` say where, all unless given. `everything`
    is who answers in the end, where `data` are not all rows.
    """
    told = tell(dated, data)
    # Columns of space that are no map, such as one of kinds, have no neighbourhoods.
    has_map = num_map in (None, num_space)
    own = _own_of_neighbourhoods(options, result, told, names, num_space) if has_map else None

    def given(model: Model) -> Callable[[Observations], Posterior]:
        strengthened = model if own is None else own.strengthened(model)
        return lambda data: answering(options, strengthened, data, num_space)

    def given_all(model: Model, habits: tuple[Habit, ...]) -> Posterior:
        if everything is None:
            return with_habits(given(model), data, habits)
        return everything(model if own is None else own.strengthened(model), habits)

    if result.outcome is Outcome.INTERRUPTED:
        return result, given_all(result.model, dated)
    field = given(result.model)(told)
    later = tuple(name for name in names if name != "shift")
    some = rows_to_ask(field, data) if later else data

    def seen(field: Posterior, habits: tuple[Habit, ...]) -> Posterior:
        """Who has seen just the rows that habits are looked for in, less these; `field` has seen all of them so."""
        return field if some is data else given(result.model)(tell(habits, some))

    asked = seen(field, dated)
    level = find_habits(tuple(name for name in later if name == "level"), asked, tell(dated, some), num_space)
    if level and len(learned_from) == 1:
        # With the levels gone, what was noise is less so; then the levels once more, given the better field.
        again = _options_for(options, *learned_from) | {
            "max_iterations": min(_ITERATIONS_AGAIN, options.max_iterations)
        }
        (rows,) = learned_from
        second = fit(result.model, tell(level, rows), frozen=start.frozen, priors=start.priors, progress=None, **again)
        result = _one_after_another(result, second)
    if level:
        asked = seen(given(result.model)(tell(level, told)), (*dated, *level))
        level = find_habits(("level",), asked, tell(dated, some), num_space)
        field = given(result.model)(tell(level, told))
        asked = seen(field, (*dated, *level))
    of_map = None if own is None else own.noise(result.model)
    noise: tuple[Habit, ...] = (of_map,) if of_map is not None else ()
    if own is None:
        of_places = tuple(name for name in later if name == "noise")
        noise = find_habits(of_places, asked, tell((*dated, *level), some), num_space)
    habits = (*dated, *level, *noise)
    of_field = field_model(habits, result.model)
    if "noise" in names:
        num_where = num_space if num_map is None else num_map
        tails = tails_of_places(
            given(of_field),
            of_field,
            some,
            habits,
            num_space=num_where,
            seed=options.seed,
            is_settled=result.converged,
        )
        habits = habits if tails is None else (*habits, tails)
    # The field has seen just these rows already where nobody has a habit.
    return result, given_all(of_field, habits) if habits or everything is not None else field


def _own_of_neighbourhoods(
    options: Options, result: FitResult, data: Observations, names: tuple[str, ...], num_space: int
) -> Neighbourhoods | None:
    """What neighbourhoods have of their own, where nothing else was asked for: strengths change the kernel, and noise is a habit."""
    if result.outcome is Outcome.INTERRUPTED or not asks_neighbourhoods(options, result.model, data, names, num_space):
        return None
    return find_neighbourhoods(result.model, data)


def asks_neighbourhoods(
    options: Options, model: Model, data: Observations, names: tuple[str, ...], num_space: int
) -> bool:
    """Whether neighbourhoods are asked what they have of their own: where nothing else was asked for, and rows are enough."""
    is_free = options.kernel is None and options.components == AUTO and "noise" in names and model.is_exact
    return is_free and data.num_rows >= FEWEST_ROWS and data.places.shape[1] == num_space and may_differ(model, data)


def _options_for(options: Options, *data: Observations) -> dict[str, Any]:
    return {
        "power": options.power,
        "engine": options.engine,
        "seed": options.seed,
        "max_iterations": options.max_iterations,
        "tolerance": _TOLERANCE,
        "gradient_tolerance": max(_GRADIENT_PER_ROW * sum(each.num_rows for each in data), 1e-4),
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


def chosen_stretches(options: Options, work: Float[np.ndarray, " time"], data: Observations) -> Stretches | None:
    """Times to learn from, by the one setting; None for all of them."""
    setting = options.learning_rows
    if setting is None:
        return None
    if isinstance(setting, str) and setting == "auto":
        return choose_stretches(work, LEARNING_WORK)
    if isinstance(setting, int | np.integer) and not isinstance(setting, bool) and setting > 0:
        return choose_stretches(np.asarray(data.grouping.layout.counts, dtype=np.float64), float(setting))
    raise ValueError(f"learning_rows must be 'auto', a number of rows, or None for all of them; it is {setting!r}")


def _rows_to_learn_from(options: Options, model: Model, data: Observations) -> Observations:
    """All rows, or those of stretches of the series where all would take long; said aloud."""
    stretches = chosen_stretches(options, work_of_model(model, data), data)
    if stretches is None:
        return data
    chosen = take_rows(data, np.flatnonzero(stretches.chosen[np.asarray(data.grouping.time_of_row)]))
    where = "one stretch" if stretches.num_stretches == 1 else f"{stretches.num_stretches} stretches"
    logger.info(
        "parameters are learned from %s of %s rows (%s of the series); predictions use all of them",
        f"{chosen.num_rows:,}",
        f"{data.num_rows:,}",
        where,
    )
    return chosen
