# SPDX-License-Identifier: MIT
"""Tails of predictions, from rows and whole places that are hidden in turn: the price is one pass over the rest for each turn.

Rows by the thousand are hidden at once, and of a small table a tenth after another. Places are what is rare: one draw of a tenth of
twelve is a single place, whose level and whose weather are its own, so all of a small network are hidden, a few at a time, until there
are enough to tell of one never seen.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from weft.data.observations import Observations, places_of_rows, take_rows
from weft.data.places import distinct_places
from weft.estimator.budget import LEARNING_WORK, choose_stretches
from weft.inference.exact_work import exact_work
from weft.inference.habits import Habit
from weft.inference.habits.tails import TailsOfPlaces
from weft.inference.mixed import MixedEmission, Way
from weft.inference.posterior import Posterior
from weft.inference.prediction import IDENTITY
from weft.inference.tails import LeftOutWays, Tails, count_numbers, learn_tails
from weft.inference.with_habits import with_habits
from weft.model import Model
from weft.phases import timing

__all__ = ["Hidden", "hide", "predicted_without", "tails_of_places"]

# Rows below which answers stay the model's own unless hidden ones say clearly that its tails are others; rows, and places, below which
# those left tell nothing about what is hidden.
_FEW_ROWS = 2_000
_FEWEST_ROWS = 100
_FEWEST_PLACES = 4
# Shares of rows, and of places, that are hidden at once; no more rows than settle two numbers.
_ROWS = 0.1
_PLACES = 0.1
_MOST_ROWS = 30_000
# Rows hidden one turn after another, until a coverage of half of them is known to a part in sixty, or all have been hidden once.
_ENOUGH_ROWS = 1_000
# Places hidden one turn after another: so many settle two numbers about places.
_ENOUGH_PLACES = 30
# Times of a stretch of the series in which they are looked at, at least: long enough for what is fast, and brief enough that there are
# several. In one summer without a wave of infections intervals had seemed too wide.
_TIMES_A_STRETCH = 16


class Hidden(NamedTuple):
    """Which rows are hidden one by one, which with their whole place, and which rows both are predicted from."""

    alone: Bool[np.ndarray, " row"]
    with_place: Bool[np.ndarray, " row"]
    rest: Bool[np.ndarray, " row"]


def hide(data: Observations, num_space: int, seed: int, *, work: float) -> tuple[Hidden, ...]:
    """Rows to hide in each turn, no row and no place in two of them; none where a table is too small to spare any.

    `work` is what one turn over the whole series takes. Where turns would take long, those after the first have stretches of it, and
    hidden places are looked at there alone, so that all of them count alike.
    """
    if data.num_rows < _FEWEST_ROWS:
        return ()
    generator = np.random.default_rng(seed)
    places, place = places_of_rows(data, num_space)
    count = max(round(_PLACES * len(places)), 1) if len(places) >= _FEWEST_PLACES else 0
    share = min(_ROWS, _MOST_ROWS / data.num_rows)
    turns_of_rows = math.ceil(min(_ENOUGH_ROWS / (share * data.num_rows), 1 / share))
    if (turns_of_rows - 1) * work > LEARNING_WORK:
        # Stretches of a series are no place for rows of their own.
        turns_of_rows = 1
    turns_of_places = math.ceil(min(_ENOUGH_PLACES, len(places)) / count) if count else 1
    num_turns = max(turns_of_rows, turns_of_places)
    order, drawn = generator.permutation(len(places)), generator.random(data.num_rows)
    looked_at = np.ones(data.num_rows, dtype=bool)
    per_time = np.full(len(data.times), work / len(data.times))
    stretches = (
        choose_stretches(per_time, LEARNING_WORK / (num_turns - 1), length=_TIMES_A_STRETCH) if num_turns > 1 else None
    )
    if stretches is not None:
        looked_at = stretches.chosen[np.asarray(data.grouping.time_of_row)]
    turns = []
    for turn in range(num_turns):
        here = looked_at if turn else np.ones_like(looked_at)
        whole = np.isin(place, order[turn * count : (turn + 1) * count])
        alone = here & ~whole & (drawn >= turn * share) & (drawn < (turn + 1) * share) & (turn < turns_of_rows)
        turns.append(Hidden(alone, whole & looked_at, here & ~(alone | whole)))
    return tuple(turns)


@timing("habits")
def tails_of_places(
    condition: Callable[[Observations], Posterior],
    model: Model,
    data: Observations,
    habits: tuple[Habit, ...],
    *,
    num_space: int,
    seed: int,
    is_settled: bool,
) -> TailsOfPlaces | None:
    """What hidden rows say about the tails of predictions made without them; `condition` knows the field, whose model is `model`.

    A small table's model that has not settled, since somebody stopped it early, answers as it is.
    """
    is_small = data.num_rows < _FEW_ROWS
    if is_small and not is_settled:
        return None
    work = min(exact_work(model, len(data.places), data.grouping.layout))
    turns = hide(data, num_space, seed, work=work)
    if not turns:
        return None
    found = [predicted_without(condition, data, hidden, habits, num_space) for hidden in turns]
    of_rows = learn_tails(_one_after_another([each for each, _ in found]))
    seen = unseen = Tails() if is_small and not of_rows.is_clear() else of_rows.tails
    places, place = places_of_rows(data, num_space)
    hidden_at = np.concatenate([place[_asked_about(hidden.with_place)] for hidden in turns])
    if len(np.unique(hidden_at)) >= _FEWEST_PLACES:
        left_out = _one_after_another([each for _, each in found])
        of_places = learn_tails(left_out)
        count = count_numbers(left_out, of_places.tails, hidden_at)
        unseen = (
            Tails() if is_small and not of_places.is_clear_of_groups(count) else of_places.tails.for_one_more(count)
        )
    return None if seen == unseen == Tails() else TailsOfPlaces(places, seen, unseen)


def predicted_without(
    condition: Callable[[Observations], Posterior],
    data: Observations,
    hidden: Hidden,
    habits: tuple[Habit, ...],
    num_space: int,
) -> tuple[LeftOutWays, LeftOutWays]:
    """Rows hidden one by one, and those hidden with their place, as predicted from the rest."""
    rest = take_rows(data, np.flatnonzero(hidden.rest))
    seen = distinct_places(rest.places[:, :num_space])[0]
    left = with_habits(condition, rest, tuple(habit.only_at(seen) for habit in habits))
    # Asked for together, since one pass over the rest answers for all.
    alone, with_place = _asked_about(hidden.alone), _asked_about(hidden.with_place)
    found = _left_out(left, data, np.concatenate([alone, with_place]))
    first, second = slice(None, len(alone)), slice(len(alone), None)
    return LeftOutWays(*(array[:, first] for array in found)), LeftOutWays(*(array[:, second] for array in found))


def _asked_about(hidden: Bool[np.ndarray, " row"]) -> Int[np.ndarray, " some"]:
    """Those of the hidden rows that are predicted."""
    return np.flatnonzero(hidden)[: 2 * _MOST_ROWS]


def _one_after_another(parts: Sequence[LeftOutWays]) -> LeftOutWays:
    """Rows of several turns; those that may be meant in fewer ways are never meant in the others."""
    most = max(len(part.error) for part in parts)

    def padded(arrays: Sequence[np.ndarray], value: float) -> Float[np.ndarray, "way row"]:
        return np.concatenate(
            [np.pad(array, ((0, most - len(array)), (0, 0)), constant_values=value) for array in arrays], axis=1
        )

    error, sd, probability = zip(*parts, strict=True)
    return LeftOutWays(padded(error, 0.0), padded(sd, 1.0), padded(probability, 0.0))


def _left_out(left: Posterior, data: Observations, rows: Int[np.ndarray, " left"]) -> LeftOutWays:
    """These rows as predicted without them, in each way they may be meant."""
    own = None if data.noise_variance is None else np.asarray(data.noise_variance)[rows]
    found = left.predict(data.row_times[rows], data.row_places[rows], noise_variance=own)
    emission = found.emission
    ways = emission.ways if isinstance(emission, MixedEmission) else (Way(np.ones(len(rows)), found.latent),)
    inner = emission.inner if isinstance(emission, MixedEmission) else emission
    moments = [inner.observed(way.latent).moments(IDENTITY) for way in ways]
    values = np.asarray(data.values)[rows]
    return LeftOutWays(
        np.stack([values - mean for mean, _ in moments]),
        np.stack([sd for _, sd in moments]),
        np.stack([way.probability for way in ways]),
    )
