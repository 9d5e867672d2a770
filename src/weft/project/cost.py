# SPDX-License-Identifier: MIT
"""What fitting will take, found out without it."""

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Bool, Float

from weft.data.observations import Observations, take_rows
from weft.engines.base import Shape
from weft.engines.choose import choose_engine
from weft.estimator.budget import work_of_model
from weft.estimator.building import Start, draft_of, usable_periods, with_pseudo_points
from weft.estimator.calibration import hide
from weft.estimator.components import AUTO, FEWEST_ROWS, NAMED, candidates_for, scales_of, to_try
from weft.estimator.learning import chosen_stretches, learns_small, names_of_habits, small_parts, start_for
from weft.estimator.precision import in_float64
from weft.estimator.translation import Translation
from weft.estimator.wide import exact_model, one_model
from weft.inference.division import num_regions_within, work_of_regions
from weft.inference.evidence import log_evidence
from weft.inference.exact_work import exact_work
from weft.inference.single import condition
from weft.inference.variational import SearchMemory
from weft.likelihoods import Gaussian
from weft.model import Model
from weft.options import Options
from weft.project.prepared import Prepared
from weft.project.words import duration, megabytes
from weft.training.composite import CompositeObjective
from weft.training.estimate import REPEATS, available_memory, estimate, memory_needed, shape_of
from weft.training.left_out import leave_places_out, leave_rows_out
from weft.training.maximise import maximise
from weft.training.parameters import make_space, prior_terms
from weft.training.selection import Draft

__all__ = ["Cost", "cost_of"]

# Evaluations that climbs take, which nothing counts beforehand: of the bound over a series, of all parts of a table together, of the first
# model on the smaller parts that components are tried on, and of each change to it. Means over the tables of benchmarks/fit_time.py, on
# which single climbs took 17 to 32, 18 to 28 and 1 to 18. All else is counted, and timed where it is made once.
EVALUATIONS = 20
EVALUATIONS_OF_PARTS = 24
EVALUATIONS_OF_DRAFT = 22
EVALUATIONS_OF_CHANGE = 12
# Of a search for sites: what one takes on the way, by one that begins beside where the last ended (two fits of 1,900 rows, by counts and by
# rain). So many rows are tried, the rest by its work.
SEARCH = 3.0
SEARCHED_ROWS = 4_000
# Seconds that a process takes at most to read rows into shape and to load what was compiled before: what comes before the second evaluation
# and is longer is compiling, which is done once on a machine, and now.
MOST_LOADING = 2.0
# From one step of a climb to the next, on the real line of its parameters.
_BESIDE = 0.02
# Rows a place from which the field is asked what it leaves at all of them, for the noise of places.
ROWS_A_PLACE = 50


class Cost(NamedTuple):
    """Peak memory, seconds of an evaluation of what is learned from and of a whole fit, rows learned from, pseudo-points in all, and how
    many regions answer if one model has too few of these; 0 where one will do.
    """

    memory_bytes: int
    available_bytes: int
    evaluation_seconds: float
    fit_seconds: float
    num_learning_rows: int
    num_pseudo_points: int
    num_regions: int = 0

    def lines(self) -> list[list[str]]:
        """The same in words."""
        return [
            ["memory to fit, about", megabytes(self.memory_bytes)],
            ["memory there is", megabytes(self.available_bytes)],
            ["time to fit, by the clock", duration(self.fit_seconds)],
            *(
                [["pseudo-points in all", f"{self.num_pseudo_points:,}"]]
                if self.num_regions == 0
                else [["regions to answer, about", f"{self.num_regions:,}"]]
            ),
            ["rows to learn from", f"{self.num_learning_rows:,}"],
        ]


class _Trial(NamedTuple):
    """Seconds of one evaluation of an objective with its gradient, those that went before it, and those of the curvature."""

    seconds: float
    loading: float
    curving: float


@in_float64
def cost_of(prepared: Prepared, clock: Callable[[], float] = time.perf_counter) -> Cost:
    """By a short trial: of the parts that parameters are learned from, or of a stretch of the series; `clock` tells seconds."""
    begun = clock()
    options, translation = prepared.options, prepared.translation
    data = translation.observations(prepared.rows)
    is_chosen = options.kernel is None and options.components == AUTO
    draft = start_for(options, translation, data)

    def largest() -> tuple[Start, Model, Shape]:
        """With all that may be tried: the start, the model with its pseudo-points, and what takes the most memory."""
        components = (*NAMED,) if is_chosen else options.components
        exact = start_for(dataclasses.replace(options, components=components), translation, data)
        sparse = with_pseudo_points(exact, options.pseudo_points, data, translation.num_space, seed=options.seed)
        return exact, sparse.model, shape_of(sparse.model, data)

    if learns_small(options, data, translation.num_space):
        chooses = is_chosen and data.num_rows >= FEWEST_ROWS
        evaluation, seconds, rows = _of_parts(options, translation, draft, data, clock, begun, is_chosen=chooses)
        exact, _, shape = largest()
    elif isinstance(draft.model.likelihood, Gaussian):
        exact, model, shape = largest()
        evaluation, seconds, rows = _of_stretches(options, model, data)
    else:
        own = with_pseudo_points(draft, options.pseudo_points, data, translation.num_space, seed=options.seed)
        evaluation, seconds, rows = _of_searches(options, own.model, data, clock)
        exact, _, shape = largest()
    return Cost(
        memory_bytes=memory_needed(shape, choose_engine(options.engine, shape)),
        available_bytes=available_memory(),
        evaluation_seconds=evaluation,
        fit_seconds=seconds,
        num_learning_rows=rows,
        num_pseudo_points=shape.num_bottleneck,
        num_regions=_num_regions(options, exact.model, data, translation.num_space),
    )


def _num_regions(options: Options, largest: Model, data: Observations, num_space: int) -> int:
    """By a model with all that may be tried: what it has of short range no few pseudo-points hold."""
    if one_model(options, largest, data, num_space) is not None:
        return 0
    return num_regions_within(largest, data) if isinstance(options.regions, str) else int(options.regions or 0)


def _of_parts(
    options: Options,
    translation: Translation,
    draft: Start,
    data: Observations,
    clock: Callable[[], float],
    begun: float,
    *,
    is_chosen: bool,
) -> tuple[float, float, int]:
    """Seconds of an evaluation and of a fit that learns from parts of the table, and how many rows these have.

    Everything that a fit does is done once: an evaluation of all parts, one of each change that will be tried, one look at what is left
    out of them, and a pass over one part; the rest is how often, and over how much.
    """
    parts = small_parts(options, draft.model, data)
    found = _tried(draft_of(draft), parts, options, clock, begun)
    choosing, larger = _of_choosing(options, translation, draft, data, clock) if is_chosen else (0.0, 1.0)
    passing = _of_passes(options, translation, draft.model, parts[0], data, clock)
    return (
        found.seconds,
        min(found.loading, MOST_LOADING)
        + choosing
        + larger * (EVALUATIONS_OF_PARTS * found.seconds + found.curving + passing),
        sum(part.num_rows for part in parts),
    )


def _of_choosing(
    options: Options, translation: Translation, draft: Start, data: Observations, clock: Callable[[], float]
) -> tuple[float, float]:
    """Seconds that the choice of components takes, and how much longer an evaluation of a changed model takes than one of the draft."""
    marks, start = translation.scaling.marks, draft_of(draft)
    num_ordered = translation.num_space - marks.num_columns
    periods = usable_periods(draft, data, translation.clock)
    tried = to_try(start, data, periods, seed=options.seed)
    first = _tried(start, tried.learning, options, clock)
    # Candidates are judged on Gaussian stand-ins of the rows, whatever the likelihood.
    model = Model(draft.model.kernel, Gaussian(1.0), None, draft.model.mean)
    plain = start if isinstance(draft.model.likelihood, Gaussian) else dataclasses.replace(start, model=model)
    scales = scales_of(data, translation.num_space, translation.scaling.alike, marks)
    changes = [
        changed
        for candidate in candidates_for(plain, data, num_ordered, scales, tried.periods)
        if (changed := candidate.change(plain)) is not None
    ]
    again = 0.0 if plain is start else _tried(plain, tried.learning, options, clock).seconds
    each = [_tried(changed, tried.learning, options, clock).seconds for changed in changes]
    leaving = _seconds_of(lambda: leave_rows_out(plain.model, tried.checks.rows), clock)
    leaving += _seconds_of(lambda: leave_places_out(plain.model, tried.checks.places), clock)
    climbs = EVALUATIONS_OF_DRAFT * (first.seconds + again) + EVALUATIONS_OF_CHANGE * sum(each)
    larger = float(np.mean(each)) / max(again or first.seconds, 1e-9) if each else 1.0
    return climbs + (1 + len(each)) * leaving, max(larger, 1.0)


def _of_passes(
    options: Options,
    translation: Translation,
    model: Model,
    part: Observations,
    data: Observations,
    clock: Callable[[], float],
) -> float:
    """Seconds of the passes over the table: what the field leaves at rows, and rows and places that are hidden in turn."""
    if not isinstance(model.likelihood, Gaussian) or "noise" not in names_of_habits(options):
        return 0.0
    exact = exact_model(model)

    def asked() -> None:
        condition(exact, part, engine=options.engine).marginals(part.row_times, part.row_places)

    first, *others = (_seconds_of(asked, clock) for _ in range(1 + REPEATS))
    rate = min(others) / max(_work_of(exact, [part]), 1.0)
    work = _work_of_a_pass(exact, data)
    turns = hide(data, translation.num_space - translation.scaling.marks.num_columns, options.seed, work=work)
    shares = [float(np.mean(hidden.rest)) for hidden in turns]
    # In the end the field is conditioned only when it is asked, which is not the fit's.
    asks_all = data.num_rows >= ROWS_A_PLACE * len(data.places)
    passes = sum(shares) + float(asks_all)
    return max(first - min(others), 0.0) + rate * work * passes if passes else 0.0


def _work_of_a_pass(exact: Model, data: Observations) -> float:
    """Of all rows by one model, or by regions where these take less."""
    return min(*exact_work(exact, len(data.places), data.grouping.layout), work_of_regions(exact, data))


def _tried(
    draft: Draft,
    parts: Sequence[Observations],
    options: Options,
    clock: Callable[[], float],
    begun: float | None = None,
) -> _Trial:
    """What an evaluation takes; all since `begun`, if that is given, was on the way to the first."""
    space = make_space(draft.model, frozen=draft.frozen)
    terms = prior_terms(draft.priors, space, draft.model) if draft.priors else ()
    objective = CompositeObjective(space, draft.model, parts, terms, power=0.0, engine=options.engine)
    point = space.start(draft.model)
    begun = clock() if begun is None else begun
    # The first step of a climb loads all that the others need.
    step = maximise(objective, point, max_iterations=1, tolerance=0.0, gradient_tolerance=0.0).best
    first = clock() - begun

    def beside(turn: int) -> float:
        # As the next step of a climb is: a search for sites from its very end would have nothing to do.
        return _seconds_of(lambda: objective(step.point + _BESIDE * turn), clock)

    seconds = min(beside(turn) for turn in range(REPEATS))
    loading = max(first - step.num_evaluations * seconds, 0.0)
    # Standard errors, of several parts only: all of them once, and for each free number, and one more, those of a batch.
    of_batch = (space.size + 1) * objective.batch_size / len(parts)
    return _Trial(seconds, loading, seconds * (1 + of_batch) if len(parts) > 1 else 0.0)


def _work_of(model: Model, parts: Sequence[Observations]) -> float:
    return float(sum(min(exact_work(model, len(part.places), part.grouping.layout)) for part in parts))


def _seconds_of(function: Callable[[], object], clock: Callable[[], float]) -> float:
    begun = clock()
    function()
    return clock() - begun


def _of_searches(
    options: Options, model: Model, data: Observations, clock: Callable[[], float]
) -> tuple[float, float, int]:
    """Seconds of an evaluation and of a fit that searches for sites at every step, and how many rows it learns from."""
    work = work_of_model(model, data)
    used = _learned_from(options, work, data)
    counts = np.asarray(data.grouping.layout.counts)
    length = max(int(np.searchsorted(np.cumsum(counts), SEARCHED_ROWS, side="right")), 1)
    part = take_rows(data, np.arange(int(counts[:length].sum())))
    memory = SearchMemory()

    def evaluated(given: Model) -> None:
        evidence = eqx.filter_value_and_grad(
            lambda each: log_evidence(each, part, power=options.power, engine=options.engine, memory=memory)
        )
        jax.block_until_ready(evidence(given))

    first = _seconds_of(lambda: evaluated(model), clock)
    # Beside the first, as the next step of a climb is: a search from its very end would have nothing to do.
    beside = eqx.tree_at(lambda each: each.kernel, model, 1.1 * model.kernel)
    again = min(_seconds_of(lambda: evaluated(beside), clock) for _ in range(REPEATS))
    seconds = SEARCH * again * float(work[used].sum()) / float(work[:length].sum())
    return seconds, max(first - again, 0.0) + EVALUATIONS * seconds, int(counts[used].sum())


def _of_stretches(options: Options, model: Model, data: Observations) -> tuple[float, float, int]:
    """Seconds of an evaluation and of a fit that climbs the bound, and how many rows it learns from."""
    found = estimate(model, data, engine=options.engine)
    work = work_of_model(model, data)
    used = _learned_from(options, work, data)
    seconds = found.seconds_per_evaluation * float(work[used].sum()) / float(work.sum())
    return seconds, EVALUATIONS * seconds, int(np.asarray(data.grouping.layout.counts)[used].sum())


def _learned_from(options: Options, work: Float[np.ndarray, " time"], data: Observations) -> Bool[np.ndarray, " time"]:
    """The times that parameters are learned from."""
    chosen = chosen_stretches(options, work, data)
    return np.ones(len(work), dtype=bool) if chosen is None else chosen.chosen
