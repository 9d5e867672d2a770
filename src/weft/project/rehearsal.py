# SPDX-License-Identifier: MIT
"""What learning from small parts of a table takes: everything that it does is done once, and over little of it where that tells the rest.

Told by a clock, in seconds. What is done once in a fit, such as to load what was compiled before, is counted as it is found.
"""

import dataclasses
import importlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from weft.data.observations import Observations
from weft.estimator.building import Start, draft_of, usable_periods
from weft.estimator.components import candidates_for, scales_of, to_try
from weft.estimator.learning import small_parts
from weft.estimator.translation import Translation
from weft.estimator.wide import exact_model
from weft.likelihoods import Gaussian
from weft.model import Model
from weft.options import Options
from weft.training.composite import CompositeObjective
from weft.training.fitting import objective_for
from weft.training.left_out import leave_places_out, leave_rows_out
from weft.training.maximise import maximise
from weft.training.neighbourhoods import learn_neighbourhoods, place_neighbourhoods
from weft.training.selection import Draft, learned_from, numbers_of

__all__ = ["MOST_LOADING", "Clock", "Rehearsed", "Timed", "rehearse_neighbourhoods", "rehearse_parts"]

Clock = Callable[[], float]

# Evaluations that climbs take, which nothing counts beforehand. Means over the tables of benchmarks/fit_time.py: of the first model on the
# parts that components are tried on (10 to 22 there); of each change that may be tried (7 to 10), of which some are not once others
# are kept, as one in four was; and, the middle one, of all parts by what was chosen (5 to 70), or by what nobody chose (26 to 37).
EVALUATIONS_OF_DRAFT = 16.0
EVALUATIONS_OF_CHANGE = 9.0
SHARE_TRIED = 0.75
EVALUATIONS_OF_CHOSEN = 14.0
EVALUATIONS_UNCHOSEN = 30.0
# The same with a likelihood that is not Gaussian, whose climbs end sooner (16 and 27).
EVALUATIONS_OF_SITES = 20.0
# Steps of a climb that tell what one takes.
STEPS = 4
# Of parts, so many tell by how much a change makes an evaluation longer.
ENOUGH_PARTS = 2
# Neighbourhoods that tell of all, and parts that teach a model as much as it takes for these to differ from each other alone.
ENOUGH_NEIGHBOURHOODS = 48
ENOUGH_TO_LEARN = 4
# Seconds that a process takes at most to load what was compiled before: what takes longer the first time is compiling, which is done once
# on a machine, and now.
MOST_LOADING = 2.0
# What is timed again is timed until it took so many seconds together, or so often.
ENOUGH_SECONDS = 0.05
REPEATS = 3
# From one step of a climb to the next, on the real line of its parameters.
_BESIDE = 0.02


class Timed(NamedTuple):
    """Seconds of something that is done again and again, and what the first time took beyond."""

    seconds: float
    loading: float

    def of(self, times: float) -> float:
        """Seconds of so many times."""
        return self.loading + times * self.seconds


class Rehearsed(NamedTuple):
    """Seconds of an evaluation of the parts to learn from and of all learning, and the parts."""

    evaluation: float
    learning: float
    parts: Sequence[Observations]


def timed(function: Callable[[int], object], clock: Clock, *, begun: float | None = None) -> Timed:
    """By a few calls, each told its number; all since `begun`, if that is given, was on the way to the first."""
    begun = clock() if begun is None else begun
    function(0)
    now = clock()
    first, seconds = now - begun, list[float]()
    while len(seconds) < REPEATS and sum(seconds) < ENOUGH_SECONDS:
        before = now
        function(1 + len(seconds))
        now = clock()
        seconds.append(now - before)
    usual = float(np.median(seconds))
    return Timed(usual, min(max(first - usual, 0.0), MOST_LOADING))


def rehearse_parts(
    options: Options,
    translation: Translation,
    start: Start,
    data: Observations,
    clock: Clock,
    *,
    begun: float,
    chooses: bool,
) -> Rehearsed:
    """What a fit takes until it has its parameters; `chooses` says whether components are tried before."""
    # A climb loads it; most of the time for which a small fit waits before its first step.
    importlib.import_module("scipy.optimize")
    choosing, larger = 0.0, 1.0
    if chooses:
        choosing, larger = _rehearse_choice(options, translation, start, data, clock, begun)
        begun = clock()
    before = clock()
    parts = small_parts(options, start.model, data)
    cutting = clock() - before
    space, terms = numbers_of(draft_of(start))
    objective = objective_for(space, start.model, parts, terms, power=options.power, engine=options.engine)
    point = space.start(start.model)
    # As the next step of a climb is: a search for sites from its very end would have nothing to do.
    each = timed(lambda turn: objective(point + _BESIDE * turn), clock, begun=begun + cutting)
    is_gaussian = isinstance(start.model.likelihood, Gaussian)
    if not chooses:
        # Of a small table the climb's own steps take as long as evaluations.
        before = clock()
        top = maximise(objective, point, max_iterations=STEPS, tolerance=0.0, gradient_tolerance=0.0).best
        each = each._replace(seconds=(clock() - before) / top.num_evaluations)
    before = clock()
    # What was learned is put into the model at the end, by what is compiled for it.
    space.place_numpy(start.model, point, to_keep=True)
    keeping = min(clock() - before, MOST_LOADING)
    evaluations = EVALUATIONS_OF_CHOSEN if chooses else EVALUATIONS_UNCHOSEN if is_gaussian else EVALUATIONS_OF_SITES
    if isinstance(objective, CompositeObjective) and len(parts) > 1:
        # Standard errors, of several parts only: all of them once, and for each free number, and one more, those of a batch.
        evaluations += 1 + (space.size + 1) * objective.batch_size / len(parts)
    return Rehearsed(
        each.seconds,
        choosing + cutting + keeping + each.of(larger * evaluations),
        parts,
    )


def _rehearse_choice(
    options: Options, translation: Translation, start: Start, data: Observations, clock: Clock, begun: float
) -> tuple[float, float]:
    """Seconds that the choice of components takes, and how much longer an evaluation of a changed model takes than one of the first."""
    marks, draft = translation.scaling.marks, draft_of(start)
    num_ordered = translation.num_space - marks.num_columns
    before = clock()
    tried = to_try(draft, data, usable_periods(start, data, translation.clock), seed=options.seed)
    cutting = clock() - before
    first = timed(_evaluations(draft, tried.learning), clock, begun=begun + cutting)
    seconds = cutting + first.of(EVALUATIONS_OF_DRAFT)
    usual = first.seconds
    # Candidates are judged on Gaussian stand-ins of the rows, whatever the likelihood.
    if not isinstance(draft.model.likelihood, Gaussian):
        draft = dataclasses.replace(draft, model=Model(draft.model.kernel, Gaussian(1.0), None, draft.model.mean))
        again = timed(_evaluations(draft, tried.learning), clock)
        seconds += again.of(EVALUATIONS_OF_DRAFT)
        usual = again.seconds
    some = tried.learning[:: max(len(tried.learning) // ENOUGH_PARTS, 1)]
    of_some = usual if len(some) == len(tried.learning) else timed(_evaluations(draft, some), clock).seconds
    scales = scales_of(data, translation.num_space, translation.scaling.alike, marks)
    changes = [candidate.change(draft) for candidate in candidates_for(draft, data, num_ordered, scales, tried.periods)]
    each = [timed(_evaluations(changed, some), clock) for changed in changes if changed is not None]
    longer = [change.seconds / max(of_some, 1e-9) for change in each]
    seconds += SHARE_TRIED * sum(change.loading for change in each) + EVALUATIONS_OF_CHANGE * usual * sum(longer)
    before = clock()
    leave_rows_out(draft.model, tried.checks.rows)
    leave_places_out(draft.model, tried.checks.places)
    seconds += (1 + SHARE_TRIED * len(each)) * (clock() - before)
    return seconds, max(float(np.mean(longer)), 1.0) if longer else 1.0


def _evaluations(draft: Draft, parts: Sequence[Observations]) -> Callable[[int], object]:
    """An evaluation as trials make them, beside the one before."""
    space, terms = numbers_of(draft)
    objective = CompositeObjective(space, draft.model, parts, terms, power=0.0, engine="auto")
    point = space.start(draft.model)
    return lambda turn: objective(point + _BESIDE * turn)


def rehearse_neighbourhoods(
    options: Options, start: Start, parts: Sequence[Observations], data: Observations, clock: Clock
) -> tuple[float, Model]:
    """Seconds until it is found what each has of its own, and a model like the one that would then answer."""
    # Where a model starts, all neighbourhoods differ from it, and so each from the others.
    some = parts[:: max(len(parts) // ENOUGH_TO_LEARN, 1)]
    model = exact_model(learned_from(draft_of(start), some).model)
    begun = clock()
    placed = place_neighbourhoods(model, data)
    now = clock()
    if placed is None:
        return now - begun, model
    every = max(len(placed.rows) // ENOUGH_NEIGHBOURHOODS, 1)
    found = learn_neighbourhoods(
        model, data, placed._replace(centres=placed.centres[::every], rows=placed.rows[::every])
    )
    seconds = now - begun + (clock() - now) * len(placed.rows) / len(placed.rows[::every])
    return seconds, model if found is None else found.strengthened(model)
