# SPDX-License-Identifier: MIT
"""What a habit of places has to say: about rows that come in, and about answers that go out."""

import abc
import functools
from collections.abc import Callable
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Protocol, final

import numpy as np
from jaxtyping import Float, Int
from scipy.spatial import cKDTree

from weft.data.observations import Observations, places_of_rows
from weft.data.places import distinct_places
from weft.data.schema import Schema
from weft.inference.posterior import OwnOfPlaces, Posterior
from weft.inference.prediction import Emission, Marginals
from weft.model import Model

# Places nearer than this are one: a tenth of a millimetre in kilometres.
_SAME_PLACE = 1e-7
# Degrees in single precision are known to a metre; and the part of the way to the next place by which one may be off and still be meant.
_LOST_DIGITS, _NEXT_PLACE = 1e-3, 0.01
# Rows a place has on average, from which a number of its own is settled: one row of n that told it gains 1 / 2n nats by that, so less
# than what a habit has to gain to be kept. And the part of rows at places that have such a number.
_MANY_ROWS = 250
_NEARLY_ALL = 0.98

Times = Float[np.ndarray, " query"]
Places = Float[np.ndarray, "query dim"]


@final
class AskedPlaces:
    """The places of rows asked about: many rows share one, and every habit asks which ones, so they are told apart once for all."""

    def __init__(self, by_row: Places):
        self.by_row = by_row

    def __len__(self) -> int:
        return len(self.by_row)

    @functools.cached_property
    def _apart(self) -> tuple[Float[np.ndarray, "place dim"], Int[np.ndarray, " query"]]:
        return distinct_places(self.by_row)

    def each(self, answer: Callable[[Float[np.ndarray, "place dim"]], np.ndarray]) -> np.ndarray:
        """What `answer` says of each distinct place, row by row."""
        distinct, place = self._apart
        return answer(distinct)[place]


class Version(NamedTuple):
    """One way in which rows may be meant: how likely it is for each of them, and at which times the field then holds what is asked."""

    probability: Float[np.ndarray, " query"]
    times: Float[np.ndarray, " query"]


class Habit(abc.ABC):
    """Something of each place's own besides the field. A habit says what it changes; what it leaves alone it need not mention.

    Rows go to the field as `told` makes them and come back as `untold`. The field, whose model is `field_model`, is asked in all
    `versions`; to its answers come `effect` and, to an observation's noise, `noise_variance`, and the whole is `emitted`.
    """

    name: ClassVar[str]
    # Whether it adds anything to f; only then are the questions about its effect asked.
    adds_to_f: ClassVar[bool] = False
    # What `to_plain` puts into a file, checked before `from_plain` is given it.
    schema: ClassVar[Schema] = MappingProxyType({})

    def told(self, data: Observations) -> Observations:
        """What the field learns of these rows."""
        return data

    def untold(self, data: Observations) -> Observations:
        """The rows that `told` was given."""
        return data

    def field_model(self, model: Model) -> Model:
        """The model of the field, given that of field and habit in one."""
        return model

    def versions(self, times: Times, places: AskedPlaces) -> tuple[Version, ...]:
        """In how many ways the rows may be meant; probabilities of a row sum to 1."""
        return (Version(np.ones(len(times)), times),)

    def effect(self, times: Times, places: AskedPlaces) -> Marginals:
        """What is added to f at each row, independent of the field."""
        raise NotImplementedError

    def effect_on_sums(
        self, times: Times, places: AskedPlaces, sums: Float[np.ndarray, "query sum"]
    ) -> tuple[Float[np.ndarray, " sum"], Float[np.ndarray, "sum sum"]]:
        """Mean and covariance of what is added to weighted sums of f over the rows."""
        raise NotImplementedError

    def effect_draws(
        self, times: Times, places: AskedPlaces, num: int, generator: np.random.Generator
    ) -> Float[np.ndarray, "draw query"]:
        """Joint draws of what is added to f at the rows."""
        raise NotImplementedError

    def noise_variance(self, times: Times, places: AskedPlaces) -> Float[np.ndarray, " query"] | None:
        """What is added to the variance of each row's noise; None where nothing is."""
        return None

    def emitted(self, emission: Emission, times: Times, places: AskedPlaces) -> Emission:
        """What an observation is, given what it would be without this habit."""
        return emission

    @abc.abstractmethod
    def again(self, field: Callable[[], Posterior], data: Observations) -> "Habit":
        """The habit as these rows show it, given the field; what was learned about places in general stays.

        The field is made when it is asked for, since many a habit can do without.
        """

    @abc.abstractmethod
    def only_at(self, places: Float[np.ndarray, "place dim"]) -> "Habit":
        """The same with nothing known of any place but these."""

    @abc.abstractmethod
    def describe(self) -> OwnOfPlaces: ...

    def to_plain(self) -> dict[str, Any]:
        """Numbers and arrays by name, from which `from_plain` makes it again: fields of these names, unless it says otherwise."""
        return {name: getattr(self, name) for name in self.schema}

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> "Habit":
        return cls(**plain)


class Finder(Protocol):
    """Looks for a habit in rows, given a field; None where there is none worth keeping.

    The first `num_space` columns of a place say where it is; the rest are covariates.
    """

    def __call__(self, field: Posterior, data: Observations, num_space: int) -> Habit | None: ...


def are_settled(known: Float[np.ndarray, "place dim"], data: Observations) -> bool:
    """Whether `data` have so many rows a place, nearly all at known places, that a number a place told by more rows stays as it is.

    A fold keeps it then, as it keeps the model's parameters, where to find it again takes a pass over all rows.
    """
    places, place = places_of_rows(data, known.shape[1])
    if data.num_rows < _MANY_ROWS * len(places):
        return False
    is_known = place_numbers(known, places) >= 0
    return bool(np.mean(is_known[place]) >= _NEARLY_ALL)


def place_numbers(
    known: Float[np.ndarray, "place dim"], places: Float[np.ndarray, "query column"]
) -> Int[np.ndarray, " query"]:
    """Which of the known places each is, -1 for none of them; further columns (covariates) do not matter.

    Those nearer than a tenth of a millimetre (where columns are in kilometres) are the same: coordinates that went through a file, or
    through another unit and back, have lost their last digits.
    """
    asked = places[:, : known.shape[1]]
    together = np.concatenate([known, asked])
    _, number = distinct_places(together)
    found = np.full(int(number.max(initial=-1)) + 1, -1)
    found[number[: len(known)]] = np.arange(len(known))
    which = found[number[len(known) :]]
    unknown = np.flatnonzero(which < 0)
    if len(unknown) and len(known):
        apart, nearest = cKDTree(known).query(asked[unknown], distance_upper_bound=_SAME_PLACE)
        which[unknown] = np.where(np.isfinite(apart), nearest, -1)
    return which


def asked_numbers(
    known: Float[np.ndarray, "place dim"], places: Float[np.ndarray, "query column"]
) -> Int[np.ndarray, " query"]:
    """The same for places that somebody asks about: one that lies nearly at a known place, and far nearer to it than others do, is that.

    A table of single precision and what was written of it as text are up to a metre apart.
    """
    which = place_numbers(known, places)
    unknown = np.flatnonzero(which < 0)
    if not len(unknown) or not len(known):
        return which
    tree = cKDTree(known)
    apart, nearest = tree.query(places[unknown, : known.shape[1]], distance_upper_bound=_LOST_DIGITS)
    near = np.flatnonzero(np.isfinite(apart))
    if len(near):
        next_place = tree.query(known[nearest[near]], k=[2])[0][:, 0]
        meant = near[apart[near] <= _NEXT_PLACE * next_place]
        which[unknown[meant]] = nearest[meant]
    return which
