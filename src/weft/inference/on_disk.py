# SPDX-License-Identifier: MIT
"""Regions whose rows stay in files: each is read, conditioned and asked where its task runs, and let go.

The answers are those of `RegionalPosterior`. Of a long series a region is told what is near the times asked about: from beyond the time
after which every component has forgotten, nothing would reach them.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NamedTuple, NoReturn, final

import numpy as np
from jaxtyping import Bool, Float, Int

from weft.arrays import AnyArray, ArrayLike
from weft.data.observations import Observations, take_rows
from weft.data.on_disk import FileArrays, TemporaryFolder
from weft.engines.base import Engine
from weft.engines.choose import check_engine_name, engine_name
from weft.heap import return_memory
from weft.inference.division import Division, Region, in_turns
from weft.inference.executor import current_executor
from weft.inference.forgetting import forgotten_after
from weft.inference.habits.base import place_numbers
from weft.inference.plain import from_plain, to_plain
from weft.inference.posterior import OneStepAhead, OwnOfPlaces, Posterior
from weft.inference.prediction import LikelihoodEmission, Marginals
from weft.inference.queries import checked_rows
from weft.inference.reduced import Share, components_worth
from weft.inference.regional import (
    Conditioned,
    RegionalPosterior,
    Told,
    components_at,
    condition_regions,
    filtered_at,
    log_evidence_of,
    marginals_at,
    share_of_region,
)
from weft.inference.rows_on_disk import EVER, RowsOnDisk, Span, join_parts, write_part
from weft.inference.sites import check_problem
from weft.likelihoods import RowExtras
from weft.model import Model

__all__ = ["PosteriorOnDisk"]

# Points that regions are told of at once: a worker has little memory beside the table's part that it answers for.
POINTS_AT_ONCE = 2**18
# Rows of a region that its evidence takes at once, beside those before them.
ROWS_AT_ONCE = 2**18
# Of the time a model remembers: asked about times farther apart than this, it is asked in several spans.
FAR_APART = 2.0


class RegionOnDisk(NamedTuple):
    """What one region is made of, wherever it is asked: its places, which cells they are in, and what it may leave unexplained there."""

    model: Model
    engine: str | Engine
    cells: tuple[int, ...]
    places: Int[np.ndarray, " place"]
    is_core: Bool[np.ndarray, " place"]
    share: Share | None

    def conditioned(self, rows: RowsOnDisk, span: Span) -> Conditioned:
        # Where all its rows are far away, it is told all of them.
        data = self.read(rows, span) or self.read(rows, EVER)
        assert data is not None
        return Conditioned(self.model, self.told(data, rows.places[self.places]), self.engine)

    def read(self, rows: RowsOnDisk, span: Span) -> Observations | None:
        """What it sees of the table within a span; None where that is nothing."""
        is_seen = np.zeros(len(rows.places), dtype=bool)
        is_seen[self.places] = True
        return rows.read(self.cells, is_seen, span)

    def told(self, data: Observations, places: Float[np.ndarray, "place dim"]) -> Told:
        """Some of the region's rows; what it stands on where it leaves something out are all of its `places`, as with all rows."""
        if self.share is None:
            return Told(data, data.places, None)
        seen = place_numbers(places, data.places)
        order = np.concatenate([seen, np.setdiff1d(np.arange(len(places)), seen)])
        return Told(data, places[order], self.share._replace(importance=self.share.importance[order]))


def _answer(
    question: Callable[..., np.ndarray],
    rows: RowsOnDisk,
    region: RegionOnDisk,
    span: Span,
    times: Float[np.ndarray, " query"],
    places: Float[np.ndarray, "query dim"],
) -> np.ndarray:
    return question(region.conditioned(rows, span), times, places)


class _Evidence(NamedTuple):
    """Log evidence of some rows given those before them, how many rows these are, and how many of them are the core's."""

    log_evidence: float
    num_rows: int
    num_core: int


def _evidence(rows: RowsOnDisk, region: RegionOnDisk, span: Span, remembers: float) -> _Evidence:
    """Of what a region sees within a span, given what it sees before it as far as it remembers: p(both) / p(those before)."""
    data = region.read(rows, Span(span.first - remembers, span.last))
    if data is None:
        return _Evidence(0.0, 0, 0)
    is_own = data.row_times >= span.first
    places = rows.places[region.places]
    found = (
        log_evidence_of(Conditioned(region.model, region.told(data, places), region.engine)) if is_own.any() else 0.0
    )
    if is_own.any() and not is_own.all():
        before = take_rows(data, np.flatnonzero(~is_own))
        found -= log_evidence_of(Conditioned(region.model, region.told(before, places), region.engine))
    is_core = place_numbers(places[region.is_core], data.places) >= 0
    own_core = is_own & is_core[np.asarray(data.grouping.place_of_row)]
    return _Evidence(float(found), int(np.count_nonzero(is_own)), int(np.count_nonzero(own_core)))


@final
class PosteriorOnDisk(Posterior):
    """Answers of regions, blended, from rows in files. In `division`, `rows` of a region are numbers of places."""

    kind: ClassVar[str] = "regional on disk"

    def __init__(self, model: Model, division: Division, rows: RowsOnDisk, *, engine: str | Engine):
        self._model = model
        self.division = division
        self.stored = rows
        self.engine = engine

    @property
    def model(self) -> Model:
        return self._model

    @property
    def times(self) -> Float[np.ndarray, " time"]:
        return self.stored.times

    @property
    def num_columns(self) -> int:
        return self.stored.places.shape[1]

    @property
    def num_regions(self) -> int:
        return len(self.division.regions)

    @property
    def basis_places(self) -> Float[AnyArray, "place dim"]:
        return self.stored.places

    @property
    def batches(self) -> tuple[Observations, ...]:
        """None: nobody has them all."""
        return ()

    @property
    def rows_are_on_disk(self) -> bool:
        return True

    @property
    def log_evidence(self) -> float:
        """Each region's by its core's share of the rows it sees: to compare models of the same table by, and no more than that.

        A long series goes through stretch by stretch, each given what came before it as far as the model remembers: nobody holds more
        rows than that of a region. One that never forgets, with a season say, is told all of a region's rows at once.
        """
        executor, held, remembers = current_executor(), current_executor().hold(self.stored), self._remembers
        tasks = [(number, span) for number in range(self.num_regions) for span in self._stretches(number)]
        found = executor.map(
            _evidence,
            [held] * len(tasks),
            [self._region(number) for number, _ in tasks],
            [span for _, span in tasks],
            [remembers] * len(tasks),
            names=[f"region {number} at times {span.first:g} to {span.last:g}" for number, span in tasks],
        )
        total = 0.0
        for number in range(self.num_regions):
            own = [each for each, task in zip(found, tasks, strict=True) if task[0] == number]
            share = sum(each.num_core for each in own) / max(sum(each.num_rows for each in own), 1)
            total += share * sum(each.log_evidence for each in own)
        return total

    def _stretches(self, number: int) -> list[Span]:
        """The series in stretches none of which is shorter than what the model remembers, with so many rows of a region as one may hold."""
        times, cells = self.times, np.asarray(self._region(number).cells)
        num_rows = int(np.sum(self.stored.offsets[:, cells + 1] - self.stored.offsets[:, cells]))
        most = (times[-1] - times[0]) // self._remembers if self._remembers > 0 else np.inf
        count = int(max(1, min(-(-num_rows // ROWS_AT_ONCE), most)))
        return [Span(float(some[0]), float(some[-1])) for some in np.array_split(times, min(count, len(times)))]

    def habits(self) -> tuple[OwnOfPlaces, ...]:
        return ()

    # --- answers at rows

    def marginals(self, times: ArrayLike, places: ArrayLike) -> Marginals:
        return Marginals(*self._blended(marginals_at, times, places, ()))

    def filtered(self, times: ArrayLike, places: ArrayLike) -> Marginals:
        return Marginals(*self._blended(filtered_at, times, places, ()))

    def components(self, times: ArrayLike, places: ArrayLike) -> tuple[Marginals, ...]:
        count = len(self.model.components)
        mean, variance = self._blended(components_at, times, places, (count,))
        return tuple(Marginals(mean[:, number], variance[:, number]) for number in range(count))

    def fitted_values(self) -> Float[np.ndarray, " row"]:
        _refuse("fitted values")

    def one_step_ahead(self) -> OneStepAhead:
        _refuse("one-step-ahead forecasts")

    def _blended(
        self, question: Callable[..., np.ndarray], times: ArrayLike, places: ArrayLike, shape: tuple[int, ...]
    ) -> tuple[Float[np.ndarray, "query ..."], Float[np.ndarray, "query ..."]]:
        """Means by weight, and the squares of deviations by weight."""
        times, places = checked_rows(times, places, self.num_columns)
        mean, deviation = np.zeros((2, len(times), *shape))
        if len(times) == 0:
            return mean, deviation
        executor = current_executor()
        held = executor.hold(self.stored)
        for some in in_turns(self._asked(times, places), POINTS_AT_ONCE):
            answers = executor.map(
                functools.partial(_answer, question),
                [held] * len(some),
                [self._region(each.region) for each in some],
                [each.span for each in some],
                [times[each.point] for each in some],
                [places[each.point] for each in some],
                names=[f"region {each.region} at times {each.span.first:g} to {each.span.last:g}" for each in some],
            )
            for each, answer in zip(some, answers, strict=True):
                weight = each.weight.reshape(-1, *(1 for _ in shape))
                mean[each.point] += weight * answer[..., 0]
                deviation[each.point] += weight * np.sqrt(np.maximum(answer[..., 1], 0.0))
            del some, answers
            return_memory()
        return mean, deviation**2

    def _asked(self, times: Float[np.ndarray, " query"], places: Float[np.ndarray, "query dim"]) -> Iterator["_Asked"]:
        """Regions with a say and the points they are asked about, those far apart in time by themselves."""
        remembers = self._remembers
        for region, point, weight in self.division.heard(times, places):
            order = np.argsort(times[point], kind="stable")
            when = times[point][order]
            ends = np.flatnonzero(np.diff(when) > FAR_APART * remembers) + 1
            for own in np.split(order, ends):
                span = Span(float(times[point[own]].min()) - remembers, float(times[point[own]].max()) + remembers)
                own = np.sort(own)
                yield _Asked(region, span, point[own], weight[own])

    def _region(self, number: int) -> RegionOnDisk:
        if number not in self._regions:
            self._regions[number] = self._made_region(number)
        return self._regions[number]

    @functools.cached_property
    def _regions(self) -> dict[int, RegionOnDisk]:
        """Those asked before: the next part of a table asks most of them again."""
        return {}

    def _made_region(self, number: int) -> RegionOnDisk:
        region = self.division.regions[number]
        cells = np.unique(self._cell_of_place[region.rows])
        share = None
        if self.division.share > 0:
            noise = None if self._noise_of_places is None else self._noise_of_places[region.rows]
            places = self.stored.places[region.rows]
            share = share_of_region(self.model, self.division, number, places, noise, self._worth)
        return RegionOnDisk(self.model, self.engine, tuple(cells.tolist()), region.rows, region.is_core, share)

    def _tell(self, number: int, data: Observations) -> Told:
        region = self._region(number)
        return region.told(data, self.stored.places[region.places])

    @functools.cached_property
    def _cell_of_place(self) -> Int[np.ndarray, " place"]:
        return cells_of_places(self.division, len(self.stored.places))

    @functools.cached_property
    def _noise_of_places(self) -> Float[np.ndarray, " place"] | None:
        return self.stored.noise_of_places()

    @functools.cached_property
    def _remembers(self) -> float:
        return forgotten_after(self.model)

    @functools.cached_property
    def _worth(self) -> Float[np.ndarray, " component"]:
        return components_worth(self.model, self.times)

    def __getstate__(self) -> dict[str, Any]:
        made_again = ("_cell_of_place", "_regions")
        return {name: value for name, value in self.__dict__.items() if name not in made_again}

    # --- joint answers, by the rows that matter to them

    def sample(
        self, times: ArrayLike, places: ArrayLike, *, num: int = 1, seed: int = 0
    ) -> Float[np.ndarray, "draw query"]:
        """Draws as of `RegionalPosterior`; the rows that regions with a say see around the times asked about are then in memory."""
        times, places = checked_rows(times, places, self.num_columns)
        if len(times) == 0:
            return np.empty((num, 0))
        return self._around(times, places).sample(times, places, num=num, seed=seed)

    def aggregate(self, times: ArrayLike, places: ArrayLike, weights: ArrayLike) -> Marginals:
        times, places = checked_rows(times, places, self.num_columns)
        return self._around(times, places).aggregate(times, places, weights)

    def covariance(self, times: ArrayLike, places: ArrayLike) -> Float[np.ndarray, "query query"]:
        times, places = checked_rows(times, places, self.num_columns)
        return self._around(times, places).covariance(times, places)

    def is_exact_over(self, times: ArrayLike, places: ArrayLike) -> bool:
        times, places = checked_rows(times, places, self.num_columns)
        return len(np.unique(self.division.cuts.cell_of(self.division.nearness(times, places)))) == 1

    def _around(self, times: Float[np.ndarray, " query"], places: Float[np.ndarray, "query dim"]) -> RegionalPosterior:
        """Regions with a say, from what they see around the times asked about."""
        remembers = self._remembers
        span = Span(float(times.min()) - remembers, float(times.max()) + remembers)
        heard = [each.region for each in self.division.heard(times, places)]
        is_seen = np.zeros(len(self.stored.places), dtype=bool)
        is_seen[np.concatenate([self.division.regions[number].rows for number in heard])] = True
        cells = np.unique(self._cell_of_place[is_seen]).tolist()
        data = self.stored.read(cells, is_seen, span) or self.stored.read(cells, is_seen)
        assert data is not None
        place = place_numbers(self.stored.places, data.places)[np.asarray(data.grouping.place_of_row)]
        regions = []
        for number, region in enumerate(self.division.regions):
            if number not in heard:
                regions.append(Region(np.empty(0, dtype=np.int64), np.empty(0, dtype=bool), region.depth))
                continue
            rows = np.flatnonzero(np.isin(place, region.rows))
            regions.append(Region(rows, np.isin(place[rows], region.rows[region.is_core]), region.depth))
        division = dataclasses.replace(self.division, regions=tuple(regions))
        return RegionalPosterior(self.model, division, data, engine=self.engine, tell=self._tell)

    # --- more rows, other rows, files

    def update(self, more: Observations) -> "PosteriorOnDisk":
        """Regions stay where they are; new places belong to those that see so far. The new rows are a file beside the others."""
        check_problem(self.model, more)
        known = place_numbers(self.stored.places, more.places)
        places = np.concatenate([self.stored.places, more.places[known < 0]])
        new = np.arange(len(self.stored.places), len(places))
        number = np.array(known)
        number[known < 0] = new
        points = self.division.nearness(np.full(len(new), more.times[0]), places[new])
        cell = self.division.cuts.cell_of(points)
        regions = []
        for which, region in enumerate(self.division.regions):
            seen = self.division.cuts.distance(points, which) <= region.depth
            # Numbers of new places come after all others, so those of a region stay in order.
            regions.append(
                Region(
                    np.concatenate([region.rows, new[seen]]),
                    np.concatenate([region.is_core, cell[seen] == which]),
                    region.depth,
                )
            )
        division = dataclasses.replace(self.division, regions=tuple(regions))
        folder = TemporaryFolder()
        part = write_part(folder.path, 0, more, number, cells_of_places(division, len(places)))
        rows = self.stored.with_more(join_parts([part], more.times, places, folder))
        return PosteriorOnDisk(self.model, division, rows, engine=self.engine)

    def given_only(self, data: Observations) -> RegionalPosterior:
        return condition_regions(
            self.model, data, num_regions=self.num_regions, share=self.division.share, engine=self.engine
        )

    def emission(self, times: ArrayLike, places: ArrayLike, extra: RowExtras) -> LikelihoodEmission:
        return LikelihoodEmission(self.model.likelihood, extra)

    def to_plain(self, arrays: FileArrays, *, with_rows: bool) -> dict[str, Any]:
        """The rows are always inside: regions are conditioned on them when asked."""
        return {
            "kind": self.kind,
            "model": to_plain(self.model, arrays),
            "division": {name: to_plain(part, arrays) for name, part in self.division.to_plain().items()},
            "rows": self.stored.to_plain(arrays),
            "engine": engine_name(self.engine),
        }

    @classmethod
    def from_plain(cls, plain: dict[str, Any], arrays: FileArrays) -> "PosteriorOnDisk":
        model = from_plain(plain["model"], arrays)
        parts = {name: from_plain(part, arrays) for name, part in plain["division"].items()}
        rows = RowsOnDisk.from_plain(plain["rows"], arrays)
        division = Division.from_plain(model, rows.places.shape, parts)
        if len(division.regions) != rows.offsets.shape[1] - 1:
            raise ValueError("its rows are of other regions")
        return cls(model, division, rows, engine=check_engine_name(plain["engine"]))


class _Asked(NamedTuple):
    """A region, what it is to be told of the series, and the points it is asked about, with the weight of its word at each."""

    region: int
    span: Span
    point: Int[np.ndarray, " point"]
    weight: Float[np.ndarray, " point"]


def cells_of_places(division: Division, num_places: int) -> Int[np.ndarray, " place"]:
    """The region whose core each place is in, of a division of places."""
    cell = np.empty(num_places, dtype=np.int64)
    for number, region in enumerate(division.regions):
        cell[region.rows[region.is_core]] = number
    return cell


def _refuse(what: str) -> NoReturn:
    raise ValueError(
        f"a model of a table in parts has no {what} of all rows at once; predict the table, which is answered part by part"
    )
