# SPDX-License-Identifier: MIT
"""Learning from a table that stays in its parts: counts of all rows, some stretches of them, and all of them in files by region.

Units come from reductions over all rows. Components, parameters and what places have of their own come from stretches of the series, as
many rows as one process may hold. Then the rows are put into files by the region that their place is in, once, and regions answer from
there. Where one model answers for all rows instead of regions, all rows come to it.
"""

import dataclasses
import functools
import logging
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from weft.data.clock import learn_clock, times_of
from weft.data.layout import Layout
from weft.data.observations import REPEATS, Observations, Outline
from weft.data.on_disk import TemporaryFolder
from weft.data.packed import PackedTable, Repeated
from weft.data.places import distinct_places
from weft.data.scaling import target_of_moments
from weft.data.steps import MOST_ROWS_A_TIME
from weft.data.tables import as_table
from weft.distributed.clients import shared_folder
from weft.distributed.in_parts import Census, TableInParts
from weft.estimator.columns import Roles, read_packed, read_to_learn
from weft.estimator.components import AUTO
from weft.estimator.defaults import is_standardised, likelihood_from
from weft.estimator.learning import MOST_LOOKED_AT, Learned, Whole, learn, models_rows, stretches_looked_at
from weft.estimator.translation import Translation
from weft.estimator.wide import exact_model, how_regions_answer, num_asked, one_model
from weft.inference.division import divide_places
from weft.inference.habits import Habit
from weft.inference.habits.base import AskedPlaces, place_numbers
from weft.inference.on_disk import PosteriorOnDisk, cells_of_places
from weft.inference.posterior import Posterior
from weft.inference.rows_on_disk import PartOnDisk, join_parts, write_part
from weft.inference.single import condition
from weft.inference.with_habits import PosteriorWithHabits, tell, with_habits
from weft.likelihoods import Gaussian
from weft.model import Model
from weft.options import Options
from weft.phases import timing

__all__ = ["learn_in_parts", "rows_to_hold_out"]

logger = logging.getLogger("weft")


def learn_in_parts(options: Options, named: Roles, table: TableInParts, **fit_options: Any) -> Learned:
    """Everything from a table in parts; `fit_options` go to `weft.fit`.

    All rows come here where they are few, and where they cannot be modelled region by region anyway.
    """
    is_gaussian = isinstance(likelihood_from(options.likelihood), Gaussian)
    if named.area is None and is_gaussian and models_rows(options) and table.num_rows > MOST_LOOKED_AT:
        census = table.census(named.target, named.missing, _transform(options))
        roles = named.seen_in(as_table(census.places))
        # Whether times are to be put on a step is seen in all rows together, if there are few at a time.
        is_stepped = options.time_step == AUTO and census.num_rows <= MOST_ROWS_A_TIME * len(census.times)
        if census.target.num >= REPEATS * len(census.places) and not is_stepped:
            step = None if options.time_step == AUTO else options.time_step
            whole = _WholeInParts(dataclasses.replace(options, time_step=step), table, census, roles)
            rows = read_packed(whole.rows_to_look_at(), roles)
            return learn(whole.options, roles, rows, whole=whole, **fit_options)
    return learn(options, *read_to_learn(table.gathered(), named), **fit_options)


def rows_to_hold_out(options: Options, named: Roles, table: TableInParts) -> Any:
    """Rows of a table in parts, in one frame, to judge a model by: all, or those of the stretches that are learned from."""
    if table.num_rows <= MOST_LOOKED_AT:
        return table.gathered().unpacked()
    census = table.census(named.target, named.missing, None)
    whole = _WholeInParts(options, table, census, named)
    found = whole.rows_to_look_at().unpacked()
    logger.info(
        "%s of %s rows, in stretches of the series, are learned from, and some of them held out to judge by",
        f"{len(found):,}",
        f"{census.num_rows:,}",
    )
    return found


class _WholeInParts(Whole):
    """A table whose rows are elsewhere."""

    def __init__(self, options: Options, table: TableInParts, census: Census, roles: Roles):
        self.options, self.table, self.census, self.roles = options, table, census, roles
        self.target = target_of_moments(
            census.target,
            census.transformed,
            _transform(options),
            name=roles.target,
            standardise=is_standardised(likelihood_from(options.likelihood)),
        )
        self.target_sd = census.target.deviation
        self.num_rows, self.num_missing = census.num_rows, census.num_rows - census.target.num
        self.rows_of_times = census.rows_of_times

    def rows_to_look_at(self) -> PackedTable:
        """Rows of stretches of the series; their times and places are those of the whole table."""
        name = self.roles.time
        column = times_of(as_table(self.census.times), name)
        step = None if self.options.time_step == AUTO else self.options.time_step
        clock = learn_clock(column, name, time_step=step, text_format=self.options.time_format)
        times, time = np.unique(clock.numbers(column, name), return_inverse=True)
        counts = np.bincount(time, self.census.values_of_times, len(times))
        chosen = stretches_looked_at(counts)
        return self.table.rows_at(self.census, np.ones(len(time), dtype=bool) if chosen is None else chosen[time])

    def posterior(self, translation: Translation, model: Model, habits: tuple[Habit, ...]) -> Posterior:
        """See `Whole`."""
        placed = self._placed(translation)
        one = one_model(self.options, model, placed.outline, translation.num_space)
        if one is not None:
            logger.info("one model answers for all rows, which come here for it")
            data = translation.observations(read_packed(self.table.gathered(), self.roles))
            given = functools.partial(condition, one, power=self.options.power, engine=self.options.engine)
            return with_habits(given, data, habits)
        field = self._in_files(placed, translation, exact_model(model), habits)
        return PosteriorWithHabits(field, habits) if habits else field

    def _placed(self, translation: Translation) -> "_Placed":
        census = self.census
        nothing = np.empty(0, dtype=np.int32)
        numbers = dict.fromkeys(self.roles.numeric, np.empty(0))
        packed = PackedTable(Repeated(census.times, nothing), Repeated(census.places, nothing), numbers)
        rows = read_packed(packed, self.roles)
        times = translation.times(rows)
        distinct, time = np.unique(times, return_inverse=True)
        seen = np.flatnonzero(census.values_of_places)
        places, number = distinct_places(translation.places(rows)[seen])
        place = np.full(len(census.places), -1)
        place[seen] = number
        counts = np.bincount(time, census.values_of_times, len(distinct)).astype(np.int64)
        outline = Outline(
            distinct,
            places,
            Layout(np.concatenate([[0], np.cumsum(counts)])),
            np.bincount(number, census.values_of_places[seen], len(places)).astype(np.int64),
        )
        return _Placed(outline, times, place)

    @timing("condition")
    def _in_files(
        self, placed: "_Placed", translation: Translation, model: Model, habits: tuple[Habit, ...]
    ) -> PosteriorOnDisk:
        """All rows in files, by the region that their place is in; workers read the parts once more, and write them."""
        places = placed.outline.places
        told = _Told(self.roles, translation, habits, places)
        of_parts = (
            [placed.times[numbers] for numbers in self.census.time_of_part],
            [placed.place[numbers] for numbers in self.census.place_of_part],
        )
        outline = placed.outline
        if "noise_variance" in self.roles.extras or any(_brings_noise(habit, outline) for habit in habits):
            # What regions may leave out goes by the noise.
            summed = self.table.each(functools.partial(_noise, told), *of_parts, doing="weighing")
            outline = dataclasses.replace(outline, noise_of_places=np.sum(summed, axis=0) / outline.rows_of_places)
        division = divide_places(model, outline, num_regions=num_asked(self.options))
        folder = TemporaryFolder(shared_folder())
        cells = cells_of_places(division, len(places))
        parts = self.table.each(
            functools.partial(_put_away, told, cells, folder.path),
            *of_parts,
            range(self.table.num_parts),
            doing="sorting",
        )
        written: list[PartOnDisk] = [part for part in parts if part is not None]
        rows = join_parts(written, np.unique(np.concatenate([part.times for part in written])), places, folder)
        found = PosteriorOnDisk(model, division, rows, engine=self.options.engine)
        logger.info(
            "%d regions answer, %s, from %s rows in files; nobody holds them all",
            len(division.regions),
            how_regions_answer(found),
            f"{rows.num_rows:,}",
        )
        return found


def _transform(options: Options) -> str | None:
    """That of the one target there is."""
    return options.transform if isinstance(options.transform, str) else None


class _Placed(NamedTuple):
    """The outline of all rows with a value; of each time of the census when it is, and of each place which one, -1 for none."""

    outline: Outline
    times: Float[np.ndarray, " time"]
    place: Int[np.ndarray, " place"]


class _Told(NamedTuple):
    """What whoever makes observations of a part has to know."""

    roles: Roles
    translation: Translation
    habits: tuple[Habit, ...]
    places: Float[np.ndarray, "place dim"]

    def observations(
        self,
        packed: PackedTable,
        times: Float[np.ndarray, " time_of_part"],
        place: Int[np.ndarray, " place_of_part"],
    ) -> Observations | None:
        """The rows of one part that have a value, as the field is told of them; None where none has."""
        rows = read_packed(packed, self.roles)
        values = self.translation.values(rows)
        if np.isnan(values).all():
            return None
        data = Observations(
            Repeated(times, rows.time_of_row),
            Repeated(self.places[place], rows.place_of_row),
            values,
            **self.translation.extras(rows),
        )
        return tell(self.habits, data)


def _brings_noise(habit: Habit, outline: Outline) -> bool:
    return habit.noise_variance(outline.times[:1], AskedPlaces(outline.places[:1])) is not None


def _noise(
    told: _Told,
    packed: PackedTable,
    times: Float[np.ndarray, " time_of_part"],
    place: Int[np.ndarray, " place_of_part"],
) -> Float[np.ndarray, " place"]:
    """The noise variances that rows of one part bring, summed by place."""
    data = told.observations(packed, times, place)
    found = np.zeros(len(told.places))
    if data is not None and data.noise_of_places is not None:
        found[place_numbers(told.places, data.places)] = data.noise_of_places * data.rows_of_places
    return found


def _put_away(
    told: _Told,
    cell_of_place: Int[np.ndarray, " place"],
    folder: str,
    packed: PackedTable,
    times: Float[np.ndarray, " time_of_part"],
    place: Int[np.ndarray, " place_of_part"],
    number: int,
) -> PartOnDisk | None:
    """The rows of one part in files; None where there is none."""
    data = told.observations(packed, times, place)
    if data is None:
        return None
    return write_part(folder, number, data, place_numbers(told.places, data.places), cell_of_place)
