# SPDX-License-Identifier: MIT
"""A posterior around a posterior: the field inside knows nothing of places' habits, the one outside takes them off and adds them.

Habits are found by turns with the field, and taken as independent of it once found.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
from jaxtyping import Float

from weft.arrays import AnyArray, ArrayLike
from weft.data.observations import Observations
from weft.data.on_disk import FileArrays
from weft.data.places import distinct_places
from weft.data.scaling import TargetScaling
from weft.data.schema import check_arrays
from weft.inference.habits import FINDERS, HABITS, Habit
from weft.inference.habits.base import AskedPlaces, Places, Times, Version
from weft.inference.merge import concatenate_observations
from weft.inference.mixed import MixedEmission, Way, mixed_marginals
from weft.inference.plain import from_plain, to_plain
from weft.inference.posterior import AskedRows, JointPart, OneStepAhead, OwnOfPlaces, Posterior, marginals_of_groups
from weft.inference.prediction import IDENTITY, Emission, Marginals, Prediction
from weft.inference.queries import checked_rows, checked_sums
from weft.likelihoods import RowExtras
from weft.model import Model
from weft.phases import timing

__all__ = ["PosteriorWithHabits", "field_model", "find_habits", "tell", "with_habits"]


@timing("habits")
def find_habits(names: Iterable[str], field: Posterior, data: Observations, num_space: int) -> tuple[Habit, ...]:
    """Those of the habits called `names` that `data` show beside `field`, which has seen just them."""
    found = (FINDERS[name](field, data, num_space) for name in names)
    return tuple(habit for habit in found if habit is not None)


def tell(habits: Iterable[Habit], data: Observations) -> Observations:
    """What a field without habits learns of these rows."""
    for habit in habits:
        data = habit.told(data)
    return data


def with_habits(
    condition: Callable[[Observations], Posterior], data: Observations, habits: tuple[Habit, ...]
) -> Posterior:
    """The posterior given `data` with these habits; where there are none, the field itself."""
    field = condition(tell(habits, data))
    return PosteriorWithHabits(field, habits) if habits else field


def field_model(habits: Iterable[Habit], model: Model) -> Model:
    """The model of a field that is told less its habits."""
    for habit in habits:
        model = habit.field_model(model)
    return model


@final
class PosteriorWithHabits(Posterior):
    """A field's answers, with what places have of their own.

    `field` has been told the rows less the habits; the log evidence is the field's, given the habits.
    """

    kind: ClassVar[str] = "with habits"

    def __init__(self, field: Posterior, habits: tuple[Habit, ...]):
        self._field = field
        self._habits = habits

    @property
    def field(self) -> Posterior:
        """The posterior inside, which knows nothing of habits."""
        return self._field

    def with_field(self, field: Posterior) -> "PosteriorWithHabits":
        """The same habits around another field, which has been told other rows less them."""
        return PosteriorWithHabits(field, self._habits)

    @property
    def model(self) -> Model:
        return self._field.model

    @property
    def times(self) -> Float[np.ndarray, " time"]:
        return self._field.times

    @property
    def num_columns(self) -> int:
        return self._field.num_columns

    @property
    def basis_places(self) -> Float[AnyArray, "place dim"]:
        return self._field.basis_places

    @property
    def log_evidence(self) -> float:
        return self._field.log_evidence

    @property
    def batches(self) -> tuple[Observations, ...]:
        return tuple(self._untell(batch) for batch in self._field.batches)

    @property
    def rows_are_on_disk(self) -> bool:
        return self._field.rows_are_on_disk

    def habits(self) -> tuple[OwnOfPlaces, ...]:
        return tuple(habit.describe() for habit in self._habits)

    def marginals(self, times: ArrayLike, places: ArrayLike) -> Marginals:
        """Where rows may be meant in several ways, the mean and variance over all of them."""
        return self._over_versions(self._field.marginals, times, places)

    def filtered(self, times: ArrayLike, places: ArrayLike) -> Marginals:
        """As of the field; habits are those that all rows show."""
        return self._over_versions(self._field.filtered, times, places)

    def components(self, times: ArrayLike, places: ArrayLike) -> tuple[Marginals, ...]:
        asked = self._meant(times, places)
        of_field = self._field.components(_likeliest(asked.versions), asked.places.by_row)
        return (*of_field, *self._effects(asked))

    def fitted_values(self) -> Float[np.ndarray, " row"]:
        # Not by the field's: a habit may change when a row is held to be, and so the order of rows.
        rows = concatenate_observations(self.batches)
        return self.marginals(rows.row_times, rows.row_places).mean

    def covariance(self, times: ArrayLike, places: ArrayLike) -> Float[np.ndarray, "query query"]:
        asked = self._meant(times, places)
        of_field = self._field.covariance(_likeliest(asked.versions), asked.places.by_row)
        return of_field + self._on_sums(asked, np.eye(len(asked.times)))[1]

    def joint_parts(self, times: ArrayLike, places: ArrayLike) -> Iterator[JointPart]:
        asked = self._meant(times, places)
        own = self._on_sums(asked, np.eye(len(asked.times)))[1]
        for part in self._field.joint_parts(_likeliest(asked.versions), asked.places.by_row):
            yield part._replace(covariance=part.covariance + own[np.ix_(part.rows, part.rows)])

    def aggregate(self, times: ArrayLike, places: ArrayLike, weights: ArrayLike) -> Marginals:
        asked = self._meant(times, places)
        weights = checked_sums(weights, len(asked.times))
        mean, variance = self._field.aggregate(_likeliest(asked.versions), asked.places.by_row, weights)
        more, covariance = self._on_sums(asked, np.atleast_2d(weights).T)
        shape = weights.shape[:-1]
        return Marginals(mean + more.reshape(shape), variance + np.diagonal(covariance).reshape(shape))

    def is_exact_over(self, times: ArrayLike, places: ArrayLike) -> bool:
        asked = self._meant(times, places)
        return self._field.is_exact_over(_likeliest(asked.versions), asked.places.by_row)

    def sample(
        self, times: ArrayLike, places: ArrayLike, *, num: int = 1, seed: int = 0
    ) -> Float[np.ndarray, "draw query"]:
        """One version a place and draw."""
        asked = self._meant(times, places)
        versions, rows = asked.versions, asked.places.by_row
        draws = self._field.sample(
            np.concatenate([version.times for version in versions]),
            np.tile(rows, (len(versions), 1)),
            num=num,
            seed=seed,
        ).reshape(num, len(versions), len(rows))
        # Streams of their own, beside the field's [seed] and the noise's [seed, 1].
        draws = _one_version(draws, versions, rows, np.random.default_rng([seed, 2]))
        for number, habit in enumerate(self._adding, start=3):
            generator = np.random.default_rng([seed, number])
            draws = draws + habit.effect_draws(asked.times, asked.places, num, generator)
        return draws

    def one_step_ahead(self) -> OneStepAhead:
        """As of the field; habits are those that all rows show."""
        return self._field.one_step_ahead()

    def emission(self, times: ArrayLike, places: ArrayLike, extra: RowExtras) -> Emission:
        return self._emission(self._meant(times, places), extra)

    def _emission(self, asked: "_Meant", extra: RowExtras) -> Emission:
        times, places, versions = asked
        own = [habit.noise_variance(times, places) for habit in self._habits]
        found = [variance for variance in own if variance is not None]
        if found:
            given = np.zeros(len(times)) if extra.noise_variance is None else np.asarray(extra.noise_variance)
            extra = dataclasses.replace(extra, noise_variance=np.sum([given, *found], axis=0))
        emission = self._field.emission(_likeliest(versions), places.by_row, extra)
        for habit in self._habits:
            emission = habit.emitted(emission, times, places)
        return emission

    def predictions(self, asked: Sequence[AskedRows], target: TargetScaling = IDENTITY) -> list[Prediction]:
        groups = [self._meant(each.times, each.places) for each in asked]
        found = []
        for each, group, ways in zip(asked, groups, self._ways(self._field.marginals, groups), strict=True):
            emission = self._emission(group, each.extra)
            if len(ways) == 1:
                found.append(Prediction(ways[0].latent, emission, target))
            else:
                found.append(Prediction(mixed_marginals(ways), MixedEmission(emission, ways), target))
        return found

    def update(self, more: Observations) -> "PosteriorWithHabits":
        """Habits stay as they are."""
        return PosteriorWithHabits(self._field.update(tell(self._habits, more)), self._habits)

    def given_only(self, data: Observations) -> Posterior:
        """One turn of two: a field that knows the former habits, where one asks for it, the habits it leaves, and the field once more."""

        @functools.cache
        def field() -> Posterior:
            return self._field.given_only(tell(self._habits, data))

        habits = tuple(
            habit.again(field, tell((other for other in self._habits if other is not habit), data))
            for habit in self._habits
        )
        return with_habits(self._field.given_only, data, habits)

    def to_plain(self, arrays: FileArrays, *, with_rows: bool) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "field": self._field.to_plain(arrays, with_rows=with_rows),
            "habits": [
                {
                    "name": habit.name,
                    "parts": {name: to_plain(value, arrays) for name, value in habit.to_plain().items()},
                }
                for habit in self._habits
            ],
        }

    @classmethod
    def from_plain(
        cls,
        plain: dict[str, Any],
        arrays: FileArrays,
        read: Callable[[dict[str, Any], FileArrays], Posterior],
    ) -> "PosteriorWithHabits":
        habits = []
        for stored in plain["habits"]:
            if stored["name"] not in HABITS:
                raise ValueError(f"its places have a habit {stored['name']!r}, which this weft does not know")
            parts = {name: from_plain(value, arrays) for name, value in stored["parts"].items()}
            kind = HABITS[stored["name"]]
            habits.append(kind.from_plain(check_arrays(kind.schema, parts, {})))
        return cls(read(plain["field"], arrays), tuple(habits))

    def _untell(self, data: Observations) -> Observations:
        for habit in reversed(self._habits):
            data = habit.untold(data)
        return data

    def _meant(self, times: ArrayLike, places: ArrayLike) -> "_Meant":
        times, rows = checked_rows(times, places, self.num_columns)
        at = AskedPlaces(rows)
        return _Meant(times, at, self._versions(times, at))

    def _versions(self, times: Times, places: AskedPlaces) -> tuple[Version, ...]:
        found: tuple[Version, ...] = (Version(np.ones(len(times)), times),)
        for habit in self._habits:
            found = tuple(
                Version(before.probability * after.probability, after.times)
                for before in found
                for after in habit.versions(before.times, places)
            )
        # Of no rows none has any probability, and one says so as well as all.
        return tuple(version for version in found if np.any(version.probability > 0)) or found[:1]

    def _over_versions(
        self, answer: Callable[[ArrayLike, ArrayLike], Marginals], times: ArrayLike, places: ArrayLike
    ) -> Marginals:
        (ways,) = self._ways(answer, [self._meant(times, places)])
        return mixed_marginals(ways)

    def _ways(
        self, answer: Callable[[ArrayLike, ArrayLike], Marginals], groups: Sequence["_Meant"]
    ) -> list[tuple[Way, ...]]:
        """F at the rows of each group in each of the ways they may be meant, with what is a place's own.

        The field is asked once for all.
        """
        several = [(group, version) for group in groups for version in group.versions]
        rows = [np.flatnonzero(version.probability > 0) for _, version in several]
        asked = [
            (version.times[some], group.places.by_row[some])
            for (group, version), some in zip(several, rows, strict=True)
        ]
        answers = zip(rows, marginals_of_groups(answer, asked), strict=True)
        found = []
        for group in groups:
            ways, effects = [], self._effects(group)
            for version in group.versions:
                some, of_field = next(answers)
                latent = np.zeros((2, len(group.times)))
                latent[:, some] = of_field
                ways.append(Way(version.probability, _with_effects(Marginals(*latent), effects)))
            found.append(tuple(ways))
        return found

    @property
    def _adding(self) -> tuple[Habit, ...]:
        return tuple(habit for habit in self._habits if habit.adds_to_f)

    def _effects(self, asked: "_Meant") -> tuple[Marginals, ...]:
        return tuple(habit.effect(asked.times, asked.places) for habit in self._adding)

    def _on_sums(
        self, asked: "_Meant", sums: Float[np.ndarray, "query sum"]
    ) -> tuple[Float[np.ndarray, " sum"], Float[np.ndarray, "sum sum"]]:
        mean, covariance = np.zeros(sums.shape[1]), np.zeros((sums.shape[1], sums.shape[1]))
        for habit in self._adding:
            more = habit.effect_on_sums(asked.times, asked.places, sums)
            mean, covariance = mean + more[0], covariance + more[1]
        return mean, covariance


class _Meant(NamedTuple):
    """Rows asked about, and the versions in which they may be meant."""

    times: Times
    places: AskedPlaces
    versions: tuple[Version, ...]


def _with_effects(field: Marginals, effects: Iterable[Marginals]) -> Marginals:
    mean, variance = field
    for more in effects:
        mean, variance = mean + more.mean, variance + more.variance
    return Marginals(mean, variance)


def _likeliest(versions: tuple[Version, ...]) -> Times:
    """Of each row the times of its likeliest version."""
    likeliest = np.argmax([version.probability for version in versions], axis=0)
    return np.stack([version.times for version in versions])[likeliest, np.arange(len(likeliest))]


def _one_version(
    draws: Float[np.ndarray, "draw version query"],
    versions: tuple[Version, ...],
    places: Places,
    generator: np.random.Generator,
) -> Float[np.ndarray, "draw query"]:
    """Of each draw the version that a place has in it; all rows of a place are meant in the same way."""
    if len(versions) == 1:
        return draws[:, 0]
    _, place = distinct_places(places)
    level = generator.random((len(draws), int(place.max(initial=-1)) + 1))[:, place]
    upto = np.cumsum([version.probability for version in versions], axis=0)
    chosen = np.minimum(np.sum(level[:, None] > upto[None], axis=1), len(versions) - 1)
    return np.take_along_axis(draws, chosen[:, None], axis=1)[:, 0]
