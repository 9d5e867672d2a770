# SPDX-License-Identifier: MIT
"""What fitting will take, found out without it."""

import dataclasses
import time
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Bool, Float

from weft.data.observations import Observations, take_rows
from weft.data.places import distinct_places
from weft.engines.base import Shape
from weft.engines.choose import choose_engine
from weft.estimator.budget import work_of_model
from weft.estimator.building import Start, with_pseudo_points
from weft.estimator.components import AUTO, FEWEST_ROWS, NAMED
from weft.estimator.learning import asks_neighbourhoods, chosen_stretches, learns_small, names_of_habits, start_for
from weft.estimator.placement import most_points
from weft.estimator.precision import in_float64
from weft.estimator.translation import Translation
from weft.estimator.wide import exact_model, one_model
from weft.inference.division import num_regions_within
from weft.inference.evidence import log_evidence
from weft.inference.variational import SearchMemory
from weft.kernels import SumSeparable
from weft.likelihoods import Gaussian
from weft.model import Model
from weft.options import Options
from weft.project.passes import rehearse_passes, who_would_answer
from weft.project.prepared import Prepared
from weft.project.rehearsal import Clock, rehearse_neighbourhoods, rehearse_parts
from weft.project.words import duration, megabytes
from weft.state_space.basis import num_weights
from weft.training.estimate import REPEATS, available_memory, estimate, memory_needed, shape_of

__all__ = ["Cost", "cost_of"]

# Evaluations that a climb of the bound over a series takes, which nothing counts beforehand: single ones took 17 to 32.
EVALUATIONS = 20
# Of a search for sites: what one takes on the way, by one that begins beside where the last ended (two fits of 1,900 rows, by counts and by
# rain). So many rows are tried, the rest by its work.
SEARCH = 3.0
SEARCHED_ROWS = 4_000


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


@in_float64
def cost_of(prepared: Prepared, clock: Clock = time.perf_counter) -> Cost:
    """By a short trial: of the parts that parameters are learned from, or of a stretch of the series; `clock` tells seconds."""
    begun = clock()
    options, translation = prepared.options, prepared.translation
    data = translation.observations(prepared.rows)
    is_chosen = options.kernel is None and options.components == AUTO
    draft = start_for(options, translation, data)
    if not learns_small(options, data, translation.num_space):
        return _of_the_whole(options, translation, draft, data, clock, is_chosen=is_chosen)
    chooses = is_chosen and data.num_rows >= FEWEST_ROWS
    found = rehearse_parts(options, translation, draft, data, clock, begun=begun, chooses=chooses)
    seconds = found.learning
    if asks_neighbourhoods(options, draft.model, data, names_of_habits(options), translation.num_space):
        more, field = rehearse_neighbourhoods(options, draft, found.parts, data, clock)
        seconds += more
    else:
        field = exact_model(_with_all(options, translation, draft, data, is_chosen=chooses).model)
    who = who_would_answer(options, field, data, translation.num_space, clock)
    # Where one exact model answers it has mostly no more components than the draft.
    asked = who._replace(model=exact_model(draft.model)) if who.regions is None and who.model.is_exact else who
    seconds += rehearse_passes(options, translation, asked, data, clock)
    shape = shape_of(who.model, data) if who.regions is None else _shape_within(who.model, data, translation.num_space)
    return _cost(
        options,
        shape,
        evaluation_seconds=found.evaluation,
        fit_seconds=seconds,
        num_learning_rows=sum(part.num_rows for part in found.parts),
        num_regions=0 if who.regions is None else who.regions.num_regions,
    )


def _with_all(
    options: Options, translation: Translation, draft: Start, data: Observations, *, is_chosen: bool
) -> Start:
    """The start with all components that may be tried."""
    return start_for(dataclasses.replace(options, components=NAMED), translation, data) if is_chosen else draft


def _cost(options: Options, shape: Shape, **found: Any) -> Cost:
    return Cost(
        memory_bytes=memory_needed(shape, choose_engine(options.engine, shape)),
        available_bytes=available_memory(),
        num_pseudo_points=shape.num_bottleneck,
        **found,
    )


def _shape_within(model: Model, data: Observations, num_space: int) -> Shape:
    """Of `model` with as many pseudo-points as the budget of a pass allows, wherever they would be."""
    kernel, width = model.kernel, data.places.shape[1]
    assert isinstance(kernel, SumSeparable)
    points = most_points(data, len(distinct_places(data.places[:, :num_space])[0]), kernel)
    sizes = [num_weights(part.space, width, points) for part in kernel.components]
    latent = [part.time.state_space().size for part in kernel.components]
    return Shape(data.grouping.layout, len(data.places), sum(sizes), int(np.dot(sizes, latent)))


def _of_the_whole(
    options: Options, translation: Translation, draft: Start, data: Observations, clock: Clock, *, is_chosen: bool
) -> Cost:
    """Of a fit that learns from the series itself, or from stretches of it."""
    num_space = translation.num_space
    exact = _with_all(options, translation, draft, data, is_chosen=is_chosen)
    model = with_pseudo_points(exact, options.pseudo_points, data, num_space, seed=options.seed).model
    if isinstance(draft.model.likelihood, Gaussian):
        evaluation, seconds, rows = _of_stretches(options, model, data)
    else:
        own = with_pseudo_points(draft, options.pseudo_points, data, num_space, seed=options.seed)
        evaluation, seconds, rows = _of_searches(options, own.model, data, clock)
    return _cost(
        options,
        shape_of(model, data),
        evaluation_seconds=evaluation,
        fit_seconds=seconds,
        num_learning_rows=rows,
        num_regions=_num_regions(options, exact.model, data, num_space),
    )


def _num_regions(options: Options, largest: Model, data: Observations, num_space: int) -> int:
    """By a model with all that may be tried: what it has of short range no few pseudo-points hold."""
    if one_model(options, largest, data, num_space) is not None:
        return 0
    return num_regions_within(largest, data) if isinstance(options.regions, str) else int(options.regions or 0)


def _of_searches(options: Options, model: Model, data: Observations, clock: Clock) -> tuple[float, float, int]:
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

    def seconds_of(given: Model) -> float:
        begun = clock()
        evaluated(given)
        return clock() - begun

    first = seconds_of(model)
    # Beside the first, as the next step of a climb is: a search from its very end would have nothing to do.
    beside = eqx.tree_at(lambda each: each.kernel, model, 1.1 * model.kernel)
    again = min(seconds_of(beside) for _ in range(REPEATS))
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
