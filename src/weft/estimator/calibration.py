# SPDX-License-Identifier: MIT
"""Tails of predictions, from rows and whole places that are hidden once, together: the price is one pass over the rest."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from weft.data.observations import Observations, take_rows
from weft.data.places import distinct_places
from weft.inference.habits import Habit
from weft.inference.habits.tails import TailsOfPlaces
from weft.inference.mixed import MixedEmission, Way
from weft.inference.posterior import Posterior
from weft.inference.prediction import IDENTITY
from weft.inference.tails import LeftOutWays, learn_tails
from weft.inference.with_habits import with_habits
from weft.phases import timing

__all__ = ["Hidden", "hide", "tails_of_places"]

# Rows below which a table has nothing to spare.
_FEWEST_ROWS = 2_000
_FEWEST_PLACES = 10
# Shares of rows and of places that are hidden; no more rows than settle two numbers.
_ROWS = 0.1
_PLACES = 0.1
_MOST_ROWS = 30_000


class Hidden(NamedTuple):
    """Which rows are hidden one by one, and which with their whole place."""

    alone: Bool[np.ndarray, " row"]
    with_place: Bool[np.ndarray, " row"]


def hide(data: Observations, num_space: int, seed: int) -> Hidden | None:
    """Rows to hide; None where a table is too small to spare any."""
    if data.num_rows < _FEWEST_ROWS:
        return None
    generator = np.random.default_rng(seed)
    places, of_place = distinct_places(data.places[:, :num_space])
    place = of_place[np.asarray(data.grouping.place_of_row)]
    count = round(_PLACES * len(places)) if len(places) >= _FEWEST_PLACES else 0
    whole = np.isin(place, generator.permutation(len(places))[:count])
    alone = ~whole & (generator.random(data.num_rows) < min(_ROWS, _MOST_ROWS / data.num_rows))
    return Hidden(alone, whole)


@timing("habits")
def tails_of_places(
    condition: Callable[[Observations], Posterior],
    data: Observations,
    habits: tuple[Habit, ...],
    num_space: int,
    seed: int,
) -> TailsOfPlaces | None:
    """What hidden rows say about the tails of predictions made without them; `condition` knows the field's model."""
    hidden = hide(data, num_space, seed)
    if hidden is None:
        return None
    rest = take_rows(data, np.flatnonzero(~(hidden.alone | hidden.with_place)))
    seen = distinct_places(rest.places[:, :num_space])[0]
    left = with_habits(condition, rest, tuple(habit.only_at(seen) for habit in habits))
    # Asked for together, since one pass over the rest answers for all.
    alone, with_place = (np.flatnonzero(chosen)[: 2 * _MOST_ROWS] for chosen in hidden)
    found = _left_out(left, data, np.concatenate([alone, with_place]))
    first = learn_tails(LeftOutWays(*(array[:, : len(alone)] for array in found)))
    if len(with_place) == 0:
        return TailsOfPlaces(_places(data, num_space), first, first)
    second = learn_tails(LeftOutWays(*(array[:, len(alone) :] for array in found)))
    return TailsOfPlaces(_places(data, num_space), first, second)


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


def _places(data: Observations, num_space: int) -> Float[np.ndarray, "place dim"]:
    return distinct_places(data.places[:, :num_space])[0]
