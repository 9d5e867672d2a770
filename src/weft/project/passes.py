# SPDX-License-Identifier: MIT
"""Who would answer for a table, and what asking takes: for what the field leaves at all rows, and for rows and places hidden in turn."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from weft.data.observations import Observations, take_rows
from weft.engines.choose import choose_engine
from weft.engines.cpu.threads import num_processors
from weft.engines.dense import coarsely_padded_size, padded_size
from weft.estimator.budget import PASS_WORK
from weft.estimator.calibration import Hidden, hide, predicted_without
from weft.estimator.learning import names_of_habits
from weft.estimator.translation import Translation
from weft.estimator.wide import exact_model, num_asked, one_model, stretches_to_ask
from weft.inference.exact_work import exact_work
from weft.inference.habits.noise import tells_noise
from weft.inference.posterior import Posterior
from weft.inference.regional import RegionalPosterior, condition_regions
from weft.inference.single import condition
from weft.likelihoods import Gaussian
from weft.model import Model
from weft.options import Options
from weft.project.rehearsal import MOST_LOADING, Clock, Timed
from weft.training.estimate import shape_of

__all__ = ["Answering", "rehearse_passes", "who_would_answer"]

# Times of the first stretch that is asked about; it is made longer until a question takes so many seconds, which tells of the whole series.
FIRST_STRETCH = 32
ENOUGH_SECONDS = 0.1


class Answering(NamedTuple):
    """One model or regions, and the seconds it takes to find out: the first time, and each other."""

    model: Model
    regions: RegionalPosterior | None
    first: float
    again: float


def who_would_answer(options: Options, model: Model, data: Observations, num_space: int, clock: Clock) -> Answering:
    """As `answering` decides, which says so."""
    seconds = []
    for _ in range(2):
        begun = clock()
        one = one_model(options, model, data, num_space)
        asked = num_asked(options)
        regions = None if one is not None else condition_regions(model, data, num_regions=asked, engine=options.engine)
        seconds.append(clock() - begun)
    return Answering(model if one is None else one, regions, *seconds)


def rehearse_passes(
    options: Options, translation: Translation, who: Answering, data: Observations, clock: Clock
) -> float:
    """Seconds of all that a fit asks about rows once it has its parameters."""
    num_map = translation.num_space - translation.scaling.marks.num_columns
    is_gaussian = isinstance(who.model.likelihood, Gaussian)
    if not is_gaussian and who.regions is None:
        # A search for sites, and then nobody asks.
        return who.first + _over_the_series(options, who, data, clock, lambda given, rows: given(rows)).of(1.0)
    if not is_gaussian or "noise" not in names_of_habits(options):
        return who.first
    some = data if who.regions is None else _rows_to_ask(who.regions, data)
    work = min(exact_work(exact_model(who.model), len(some.places), some.grouping.layout))
    turns = hide(some, num_map, options.seed, work=work)
    # What a turn takes goes with the rows that it leaves.
    sizes = [float(np.mean(hidden.rest)) for hidden in turns]
    asks_all = tells_noise(some, translation.num_space)
    if who.regions is not None:
        passes = sum(sizes) + float(asks_all)
        asking = _over_regions(who.regions, clock).of(passes * some.num_rows / data.num_rows) if passes else 0.0
    else:
        asking = 0.0
        if asks_all:
            asking += _over_the_series(options, who, some, clock, _ask_all).of(1.0)
        if turns:

            def ask_hidden(given: Given, rows: Observations) -> None:
                hidden = Hidden(*(each[: rows.num_rows] for each in turns[0]))
                predicted_without(given, rows, hidden, (), num_map)

            turn = _over_the_series(options, who, some, clock, ask_hidden)
            asking += turn.of(sum(sizes) / sizes[0])
            if not choose_engine(options.engine, shape_of(who.model, some)).has_state:
                asking += (_num_shapes(some, turns) - 1) * turn.loading
    # Who answers is found out at first, in each turn given other rows, and in the end.
    return who.first * (1 + len(turns)) + who.again + asking


def _rows_to_ask(regions: RegionalPosterior, data: Observations) -> Observations:
    """As `rows_to_ask` decides, which says so."""
    stretches = stretches_to_ask(regions, data.row_times, PASS_WORK)
    if stretches is None:
        return data
    return take_rows(data, np.flatnonzero(stretches.chosen[np.unique(data.row_times, return_inverse=True)[1]]))


def _over_regions(regions: RegionalPosterior, clock: Clock) -> Timed:
    """A pass over all of them, as told by some: as many at once as keep all processors busy."""
    numbers = np.unique(np.linspace(0, regions.num_regions - 1, 2 * num_processors()).astype(np.int64)).tolist()
    begun = clock()
    regions.at_cores(numbers)
    now = clock()
    # The same once more, by those that have not been conditioned.
    anew = RegionalPosterior(regions.model, regions.division, regions.rows, engine=regions.engine)
    anew.at_cores(numbers)
    seconds = clock() - now
    loading = min(max(now - begun - seconds, 0.0), MOST_LOADING)
    return Timed(seconds * regions.num_regions / len(numbers), loading)


# How rows are conditioned on, and a question about a series that is asked of that.
Given = Callable[[Observations], Posterior]
Question = Callable[[Given, Observations], object]


def _num_shapes(data: Observations, turns: Sequence[Hidden]) -> int:
    """For how many shapes a matrix over the rows that are left is compiled, where one answers."""
    place = np.asarray(data.grouping.place_of_row)
    shapes = set()
    for hidden in turns:
        left, asked = len(np.unique(place[hidden.rest])), len(np.unique(place[hidden.alone | hidden.with_place]))
        shapes.add((padded_size(int(hidden.rest.sum())), padded_size(left), coarsely_padded_size(asked)))
    return len(shapes)


def _ask_all(given: Given, rows: Observations) -> None:
    given(rows).fitted_marginals(rows)


def _over_the_series(options: Options, who: Answering, data: Observations, clock: Clock, question: Question) -> Timed:
    """A question, as told by stretches of the series."""
    shape = shape_of(who.model, data)
    engine = choose_engine(options.engine, shape)

    def given(rows: Observations) -> Posterior:
        return condition(who.model, rows, power=options.power, engine=engine)

    counts = np.asarray(data.grouping.layout.counts)
    # What one matrix over the rows takes does not go with their number, and another number would be compiled anew.
    length, first = min(FIRST_STRETCH, shape.num_times) if engine.has_state else shape.num_times, 0.0
    while True:
        rows = take_rows(data, np.arange(int(counts[:length].sum()))) if length < shape.num_times else data
        begun = clock()
        question(given, rows)
        now = clock()
        question(given, rows)
        seconds = clock() - now
        first = first or max(now - begun - seconds, 0.0)
        if length == shape.num_times or seconds >= ENOUGH_SECONDS:
            break
        length = min(4 * length, shape.num_times)
    whole, asked = (engine.cost(shape.first_times(each), gradient=False).flops for each in (shape.num_times, length))
    return Timed(seconds * whole / asked, min(first, MOST_LOADING))
