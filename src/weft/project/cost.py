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
from weft.engines.choose import choose_engine
from weft.estimator.budget import work_of_model
from weft.estimator.building import Start, with_pseudo_points
from weft.estimator.components import AUTO, FEWEST_ROWS, NAMED, TRIAL_WORK
from weft.estimator.learning import chosen_stretches, learns_small, small_parts, start_for
from weft.estimator.precision import in_float64
from weft.estimator.wide import one_model
from weft.inference.division import num_regions_within, work_of_regions
from weft.inference.evidence import log_evidence
from weft.inference.exact_work import exact_work
from weft.inference.variational import SearchMemory
from weft.likelihoods import Gaussian
from weft.model import Model
from weft.options import Options
from weft.project.prepared import Prepared
from weft.project.words import duration, megabytes
from weft.training.blocks import choose_blocks
from weft.training.composite import CompositeObjective
from weft.training.estimate import REPEATS, available_memory, estimate, memory_needed, shape_of
from weft.training.parameters import make_space, prior_terms

__all__ = ["Cost", "cost_of"]

# What an estimator's fit took on the real sets this was tried on: 8 to 25.
EVALUATIONS = 20
# The same where parameters are learned from parts of the table: of all of them together, of the first model tried on smaller ones, and of
# each change to it that is tried. Models have a component or a strength more by then, which takes so many times as long; and smaller
# parts take longer for their work.
EVALUATIONS_OF_PARTS = 28
EVALUATIONS_OF_DRAFT = 25
EVALUATIONS_OF_CHANGE = 12
CHANGES = 6
LARGER = 1.4
SMALLER = 1.75
# Programs that are compiled, by that of an objective's value and gradient: what learns and answers on any table; what looks at the noise
# of places, from so many rows a place; and where components are chosen, other shapes of parts, hidden rows and each change that is tried.
# Found, as the numbers above, on tables of 300 to 28,000 rows (benchmarks/fit_time.py).
COMPILED_ALWAYS = 1.7
COMPILED_FOR_HABITS = 0.6
ROWS_A_PLACE = 50
COMPILED_TO_CHOOSE = 3.7
COMPILED_FOR_CHANGE = 0.35
# Where sites are searched for: programs compiled, by those of an evaluation; and what a search takes on the way, by one that begins beside
# where the last ended (two fits of 1,900 rows, by counts and by rain). So many rows are tried, the rest by its work.
COMPILED_TO_SEARCH = 1.2
SEARCH = 3.0
SEARCHED_ROWS = 4_000
# Passes over the whole table: fields are conditioned when they are asked, about what is left at rows, and about hidden ones.
PASSES = 2


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
            ["time to fit, about", duration(self.fit_seconds)],
            *(
                [["pseudo-points in all", f"{self.num_pseudo_points:,}"]]
                if self.num_regions == 0
                else [["regions to answer, about", f"{self.num_regions:,}"]]
            ),
            ["rows to learn from", f"{self.num_learning_rows:,}"],
        ]


class _Trial(NamedTuple):
    """Seconds of one evaluation of an objective with its gradient, those that compiling it took, and its work."""

    seconds: float
    compiling: float
    work: float


@in_float64
def cost_of(prepared: Prepared, clock: Callable[[], float] = time.perf_counter) -> Cost:
    """By a short trial: of the parts that parameters are learned from, or of a stretch of the series; `clock` tells seconds."""
    options, translation = prepared.options, prepared.translation
    data = translation.observations(prepared.rows)
    is_chosen = options.kernel is None and options.components == AUTO
    draft = start_for(options, translation, data)
    # With all that may be tried a fit takes the most memory.
    components = (*NAMED,) if is_chosen else options.components
    exact = start_for(dataclasses.replace(options, components=components), translation, data)
    largest = with_pseudo_points(exact, options.pseudo_points, data, translation.num_space, seed=options.seed)
    shape = shape_of(largest.model, data)
    if learns_small(options, data, translation.num_space):
        evaluation, seconds, rows = _of_parts(
            options, draft, data, clock, is_chosen=is_chosen and data.num_rows >= FEWEST_ROWS
        )
    elif isinstance(draft.model.likelihood, Gaussian):
        evaluation, seconds, rows = _of_stretches(options, largest.model, data)
    else:
        own = with_pseudo_points(draft, options.pseudo_points, data, translation.num_space, seed=options.seed)
        evaluation, seconds, rows = _of_searches(options, own.model, data, clock)
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
    options: Options, draft: Start, data: Observations, clock: Callable[[], float], *, is_chosen: bool
) -> tuple[float, float, int]:
    """Seconds of an evaluation and of a fit that learns from parts of the table, and how many rows these have."""
    parts = small_parts(options, draft.model, data)
    found = _tried(draft, parts, options, clock)
    larger = LARGER if is_chosen else 1.0
    has_habits = options.habits is not None and data.num_rows >= ROWS_A_PLACE * len(data.places)
    compilations = COMPILED_ALWAYS + (COMPILED_FOR_HABITS if has_habits else 0.0)
    evaluations = larger * EVALUATIONS_OF_PARTS
    if is_chosen:
        compilations += COMPILED_TO_CHOOSE + COMPILED_FOR_CHANGE * CHANGES
        blocks = [block.data for block in choose_blocks(draft.model, data, work=TRIAL_WORK, seed=options.seed)]
        share = SMALLER * _work_of(draft.model, blocks) / max(found.work, 1.0)
        evaluations += larger * share * (EVALUATIONS_OF_DRAFT + EVALUATIONS_OF_CHANGE * CHANGES)
    passing = PASSES * larger * _work_of_a_pass(draft.model, data) / max(found.work, 1.0)
    return (
        found.seconds,
        compilations * found.compiling + (evaluations + passing) * found.seconds,
        sum(part.num_rows for part in parts),
    )


def _work_of_a_pass(exact: Model, data: Observations) -> float:
    """Of all rows by one model, or by regions where these take less."""
    return min(*exact_work(exact, len(data.places), data.grouping.layout), work_of_regions(exact, data))


def _tried(draft: Start, parts: Sequence[Observations], options: Options, clock: Callable[[], float]) -> _Trial:
    space = make_space(draft.model, frozen=draft.frozen)
    terms = prior_terms(draft.priors, space, draft.model) if draft.priors else ()
    objective = CompositeObjective(space, draft.model, parts, terms, power=0.0, engine=options.engine)
    point = space.start(draft.model)
    first, *others = (_seconds_of(lambda: objective(point), clock) for _ in range(1 + REPEATS))
    return _Trial(min(others), max(first - min(others), 0.0), _work_of(draft.model, parts))


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
    compiling = COMPILED_TO_SEARCH * max(first - again, 0.0)
    return seconds, compiling + EVALUATIONS * seconds, int(counts[used].sum())


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
