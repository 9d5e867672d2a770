# SPDX-License-Identifier: MIT
"""A posterior made of regions: each a posterior of what lies in and around it, passing smoothly from one to the next.

A region is exact where places are few or times are; else it does without functions of place that rows could hardly tell from noise.
At a point the means of the regions that have a say are averaged, and so are their deviations: products of experts would not be
calibrated. Joint draws have no seams: one draw of the prior for all regions, by waves of random frequency times series of time, is
corrected in each region by what it misses at the rows, and only the corrections are averaged.
"""

import dataclasses
import functools
import hashlib
import logging
import pickle
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
from jaxtyping import Float, Int

from weft.arrays import AnyArray, ArrayLike, require_float64, require_whole
from weft.data.observations import Observations, take_rows
from weft.data.on_disk import FileArrays
from weft.engines.base import Engine
from weft.engines.choose import check_engine_name, engine_name
from weft.engines.cpu import CpuEngine, Limits
from weft.engines.cpu.threads import num_processors
from weft.engines.dense import padded_size
from weft.heap import return_memory
from weft.inference.by_rows import ByRows
from weft.inference.cuts import Shares
from weft.inference.division import Division, Region, divide, in_turns
from weft.inference.exact_work import exact_work
from weft.inference.executor import Executor, current_executor
from weft.inference.fingerprints import add_arrays, arrays_of_model, arrays_of_rows, description_of
from weft.inference.kept_answers import current_answers
from weft.inference.merge import Given, concatenate_observations
from weft.inference.parts import plain_rows, rows_from_plain
from weft.inference.plain import from_plain, to_plain
from weft.inference.posterior import JointPart, OneStepAhead, OwnOfPlaces, Posterior
from weft.inference.prediction import LikelihoodEmission, Marginals
from weft.inference.prior import SpatialFeatures, own_features, signal_variances_at, time_variances_at
from weft.inference.prior_draws import draw_field
from weft.inference.queries import checked_rows, checked_sums
from weft.inference.reduced import Share, components_worth, noise_beside, reduced
from weft.inference.single import SinglePosterior, condition
from weft.inference.sites import NOISE_FLOOR, Sites, check_problem, rows_of
from weft.likelihoods import Gaussian, RowExtras
from weft.model import Model

__all__ = [
    "Conditioned",
    "RegionalPosterior",
    "components_at",
    "condition_regions",
    "filtered_at",
    "log_evidence_of",
    "marginals_at",
    "share_of_region",
]

logger = logging.getLogger("weft")

# Posteriors of regions kept for the next question where they take no more bytes; else they are made again, which is cheap beside
# asking them. Each takes a matrix of its rows where it is of rows, and else so much for each of them.
KEPT_BYTES = 512 * 2**20
BYTES_A_ROW = 200
# Draws behind the variance of a sum over several regions: known to 5 % then.
AGGREGATE_DRAWS = 200
# Points that regions are told of at once: more of them would be in memory several times over.
POINTS_TOLD = 2**21
# Draws of the prior that share their waves: more would share what these few waves happen to be like.
DRAWS_PER_WAVES = 10


def condition_regions(
    model: Model,
    data: Observations,
    *,
    num_regions: int | None = None,
    share: float | None = None,
    engine: str | Engine = "auto",
) -> "RegionalPosterior":
    """The posterior of an exact `model` given `data`, region by region; `num_regions` and `share` as in `divide`."""
    require_float64()
    check_problem(model, data)
    if not model.is_exact:
        raise ValueError("regions choose what they stand on themselves: give a model with pseudo_points=None")
    division = divide(model, data, num_regions=num_regions, share=share)
    return RegionalPosterior(model, division, data, engine=engine)


class Seam(NamedTuple):
    """By how many deviations two regions that both have a say differ: at most, and at 95 % of the places looked at."""

    largest: float
    usual: float
    num_points: int


@final
class RegionalPosterior(Posterior):
    """Regions' answers, blended. It holds the rows and which region sees which; regions are conditioned when they are asked."""

    kind: ClassVar[str] = "regional"

    def __init__(
        self,
        model: Model,
        division: Division,
        data: Observations,
        *,
        engine: str | Engine,
        with_rows: bool = True,
        tell: "Callable[[int, Observations], Told] | None" = None,
    ):
        self._model = model
        self.division = division
        self.engine = engine
        self._data = data
        self._with_rows = with_rows
        self._tell = tell

    @property
    def model(self) -> Model:
        return self._model

    @property
    def times(self) -> Float[np.ndarray, " time"]:
        return self._data.times

    @property
    def num_columns(self) -> int:
        return self._data.places.shape[1]

    @property
    def num_regions(self) -> int:
        return len(self.division.regions)

    @property
    def basis_places(self) -> Float[AnyArray, "place dim"]:
        return self._data.places

    @property
    def batches(self) -> tuple[Observations, ...]:
        return (self._data,) if self._with_rows else ()

    @property
    def rows(self) -> Observations:
        """The rows that regions are conditioned on, by whose numbers they are divided."""
        return self._data

    @property
    def log_evidence(self) -> float:
        """Each region's by its core's share of the rows it sees: to compare models of the same table by, and no more than that."""
        return sum(
            float(np.mean(region.is_core)) * evidence
            for region, evidence in zip(self.division.regions, self._ask_all(log_evidence_of), strict=True)
        )

    def habits(self) -> tuple[OwnOfPlaces, ...]:
        return ()

    def region(self, number: int) -> SinglePosterior:
        """The posterior of one region, given the rows it sees."""
        return self._here.conditioned(number).posterior

    @functools.cached_property
    def _here(self) -> "_RegionsHere":
        return _RegionsHere(self.model, self.division, self._data, self.engine, self._tell)

    @functools.cached_property
    def _held_regions(self) -> tuple[Executor, dict[int, Any]]:
        """Regions as the executor holds them; those of another one are let go."""
        return current_executor(), {}

    def _held(self, executor: Executor, number: int) -> Any:
        if self._held_regions[0] is not executor:
            self.__dict__["_held_regions"] = (executor, {})
        held = self._held_regions[1]
        if number not in held:
            held[number] = executor.hold(_RegionHere(self._here, number))
        return held[number]

    def __getstate__(self) -> dict[str, Any]:
        made_again = ("_here", "_held_regions")
        return {name: value for name, value in self.__dict__.items() if name not in made_again}

    # --- answers at rows

    def marginals(self, times: ArrayLike, places: ArrayLike) -> Marginals:
        return self._blended(times, places, marginals_at)

    def filtered(self, times: ArrayLike, places: ArrayLike) -> Marginals:
        return self._blended(times, places, filtered_at)

    def components(self, times: ArrayLike, places: ArrayLike) -> tuple[Marginals, ...]:
        times, places = checked_rows(times, places, self.num_columns)
        if len(times) == 0:
            return (Marginals(np.empty(0), np.empty(0)),) * len(self.model.components)
        shares = self.division.shares(times, places)
        answers = self._ask(shares, components_at, times, places)
        return tuple(
            _average(shares, answers[:, number, 0], answers[:, number, 1], len(times))
            for number in range(len(self.model.components))
        )

    def fitted_values(self) -> Float[np.ndarray, " row"]:
        mean = np.empty(self._data.num_rows)
        for region, fitted in zip(self.division.regions, self._ask_all(_fitted_values), strict=True):
            mean[region.rows[region.is_core]] = fitted[region.is_core]
        return mean

    def one_step_ahead(self) -> OneStepAhead:
        residual, variance = np.empty((2, self._data.num_rows))
        for region, ahead in zip(self.division.regions, self._ask_all(_one_step_ahead), strict=True):
            own = region.rows[region.is_core]
            residual[own], variance[own] = ahead[:, region.is_core]
        return OneStepAhead(self._data.row, residual, variance)

    def given_rows(self, kept: Int[np.ndarray, " kept"]) -> "RegionalPosterior":
        """The same regions given only these of the rows, of which each is to see some."""
        kept = np.sort(kept)
        position = np.full(self._data.num_rows, -1)
        position[kept] = np.arange(len(kept))
        regions = []
        for region in self.division.regions:
            rows = position[region.rows]
            regions.append(Region(rows[rows >= 0], region.is_core[rows >= 0], region.depth))
        division = dataclasses.replace(self.division, regions=tuple(regions))
        return RegionalPosterior(self.model, division, take_rows(self._data, kept), engine=self.engine)

    def among_few(
        self, times: Float[np.ndarray, " point"], places: Float[np.ndarray, "point dim"], most: int, *, seed: int = 0
    ) -> Int[np.ndarray, " some"]:
        """Those of the points at which none has a say but up to so many regions, found around points drawn at random: first those where
        one has all the say, so that the regions lie apart.
        """
        if self.num_regions <= most:
            return np.arange(len(times))
        shares = self.division.shares(times, places)
        order = np.argsort(shares.point, kind="stable")
        first = np.searchsorted(shares.point[order], np.arange(len(times) + 1))
        few: set[int] = set()
        drawn = np.random.default_rng(seed).permutation(len(times))
        for point in drawn[np.argsort(np.diff(first)[drawn], kind="stable")]:
            own = few.union(shares.cell[order[first[point] : first[point + 1]]].tolist())
            few = own if len(own) <= most else few
            if len(few) == most:
                break
        others = ~np.isin(shares.cell, list(few))
        return np.flatnonzero(np.bincount(shares.point[others], minlength=len(times)) == 0)

    def seam(self, *, num: int = 500, seed: int = 0, most_regions: int | None = None) -> Seam:
        """How far regions disagree where two or more have a say, at rows of the data; of many regions, so many may be looked at."""
        # Rows are in order of time, and a region goes back only as far as it is asked: of stations late ones tell as much as any.
        count, most = self._data.num_rows, most_regions or self.num_regions
        wanted = 4 * num * -(-self.num_regions // most)
        first = 0 if self.division.nearness.with_times else max(0, min(count - wanted, int(0.9 * count)))
        chosen = np.sort(first + np.random.default_rng(seed).permutation(count - first)[:wanted])
        times, places = self._data.row_times[chosen], self._data.row_places[chosen]
        shares = self.division.shares(times, places)
        several = np.flatnonzero(np.bincount(shares.point, minlength=len(times)) > 1)
        several = several[self.among_few(times[several], places[several], most, seed=seed)][:num]
        if len(several) == 0:
            return Seam(0.0, 0.0, 0)
        times, places = times[several], places[several]
        shares = self.division.shares(times, places)
        answers = self._ask(shares, marginals_at, times, places)
        # A region with a hundredth of the weight has a hundredth of the say; what counts is what a border would show.
        heard = shares.weight > 0.05
        lowest, highest = np.full((2, len(times)), np.nan)
        np.fmin.at(lowest, shares.point[heard], answers[heard, 0])
        np.fmax.at(highest, shares.point[heard], answers[heard, 0])
        blended = _average(shares, answers[:, 0], answers[:, 1], len(times))
        apart = (highest - lowest) / np.sqrt(blended.variance)
        return Seam(float(apart.max()), float(np.quantile(apart, 0.95)), len(times))

    def at_cores(self, numbers: Sequence[int]) -> list[Float[np.ndarray, "row moment"]]:
        """What each of these regions alone says of the rows of its own core: mean and variance of f."""
        rows = [self.division.regions[number].rows[self.division.regions[number].is_core] for number in numbers]
        return self._map(
            marginals_at, numbers, [(self._data.row_times[own], self._data.row_places[own]) for own in rows]
        )

    def _blended(
        self, times: ArrayLike, places: ArrayLike, question: Callable[["Conditioned", Any, Any], np.ndarray]
    ) -> Marginals:
        times, places = checked_rows(times, places, self.num_columns)
        if len(times) == 0:
            return Marginals(np.empty(0), np.empty(0))
        mean, deviation = np.zeros((2, len(times)))
        for some in in_turns(self.division.heard(times, places), POINTS_TOLD):
            answers = self._map(
                question, [each.region for each in some], [(times[each.point], places[each.point]) for each in some]
            )
            for (_, point, weight), answer in zip(some, answers, strict=True):
                mean[point] += weight * answer[:, 0]
                deviation[point] += weight * np.sqrt(np.maximum(answer[:, 1], 0.0))
            del some, answers
            return_memory()
        return Marginals(mean, deviation**2)

    def _ask_all(self, question: Callable[["Conditioned"], Any]) -> list[Any]:
        """`question` of every region there is, in their order."""
        return self._map(question, range(self.num_regions), [()] * self.num_regions)

    def _ask(
        self, shares: Shares, question: Callable[..., np.ndarray], *columns: np.ndarray
    ) -> Float[np.ndarray, "share ..."]:
        """`question` of every region that has a say: a function of its posterior and of the columns' rows at its points.

        One row of the answer a share, in their order.
        """
        return self._ask_numbered(shares, question, lambda number, own: tuple(column[own] for column in columns))

    def _ask_numbered(
        self,
        shares: Shares,
        question: Callable[..., np.ndarray],
        told: Callable[[int, np.ndarray], tuple[np.ndarray, ...]],
    ) -> Float[np.ndarray, "share ..."]:
        """The same where what a region is told depends on which one it is: `told` gets its number, and those of its points."""
        order = np.argsort(shares.cell, kind="stable")
        cells, starts = np.unique(shares.cell[order], return_index=True)
        groups = np.split(order, starts[1:])
        answers = self._map(
            question,
            cells.tolist(),
            [told(int(cell), shares.point[group]) for cell, group in zip(cells, groups, strict=True)],
        )
        whole = np.empty((len(order), *answers[0].shape[1:]))
        for group, answer in zip(groups, answers, strict=True):
            whole[group] = answer
        return whole

    def _map(
        self, question: Callable[..., Any], numbers: Sequence[int], told: Sequence[tuple[np.ndarray, ...]]
    ) -> list[Any]:
        # Rows that are told otherwise are elsewhere, and no digest is of them.
        executor, kept = current_executor(), current_answers() if self._tell is None else None
        asked = list(range(len(numbers)))
        options: dict[str, Any] = {}
        answers: dict[int, Any] = {}
        if kept is not None:
            keys = [self._digest_of(question, number, each) for number, each in zip(numbers, told, strict=True)]
            answers = {place: kept.answer(key) for place, key in enumerate(keys) if key in kept}
            asked = [place for place in asked if place not in answers]
            missing = [keys[place] for place in asked]
            options = {"arrived": lambda place, answer: kept.keep(missing[place], np.asarray(answer))}
        found = executor.map(
            functools.partial(_answer, question),
            [self._held(executor, numbers[place]) for place in asked],
            [told[place] for place in asked],
            names=[self._name_of_region(numbers[place]) for place in asked],
            **options,
        )
        answers |= zip(asked, found, strict=True)
        return [answers[place] for place in range(len(numbers))]

    def _digest_of(self, question: Callable[..., Any], number: int, told: tuple[np.ndarray, ...]) -> bytes:
        """What tells this question to this region from all others, in any process."""
        digest = hashlib.sha256(self._fingerprint)
        digest.update(f"{question.__qualname__} {number}".encode())
        add_arrays(digest.update, told)
        return digest.digest()

    @functools.cached_property
    def _fingerprint(self) -> bytes:
        """Of rows, model, and who sees what."""
        digest = hashlib.sha256(f"{description_of(self.model)}{self.engine}".encode())
        add_arrays(digest.update, [*arrays_of_model(self.model), *arrays_of_rows(self._data)])
        add_arrays(digest.update, self.division.to_plain().values())
        return digest.digest()

    def _name_of_region(self, number: int) -> str:
        rows = self.division.regions[number].rows
        # Rows of a region are in order of time.
        first, last = self.times[np.asarray(self._data.grouping.time_of_row)[rows[[0, -1]]]]
        return f"region {number}, {len(rows)} rows at times {first:g} to {last:g}"

    # --- joint answers

    def sample(
        self, times: ArrayLike, places: ArrayLike, *, num: int = 1, seed: int = 0
    ) -> Float[np.ndarray, "draw query"]:
        """Draws without seams, exact but for the waves that stand for the prior and for what lies beyond a region's sight."""
        times, places = checked_rows(times, places, self.num_columns)
        require_whole("num", num, 1)
        require_whole("seed", seed, 0)
        found = np.empty((num, len(times)))
        if len(times) == 0:
            return found
        for first in range(0, num, DRAWS_PER_WAVES):
            some = slice(first, min(first + DRAWS_PER_WAVES, num))
            found[some] = self._draws(times, places, some.stop - some.start, np.random.default_rng([seed, first])).T
        return found

    def _draws(
        self,
        times: Float[np.ndarray, " query"],
        places: Float[np.ndarray, "query dim"],
        num: int,
        rng: np.random.Generator,
    ) -> Float[np.ndarray, "query draw"]:
        data = self._data
        at_rows, at_queries = draw_field(self.model, ((data.row_times, data.row_places), (times, places)), num, rng)
        noise = rng.standard_normal(at_rows.shape)
        shares = self.division.shares(times, places)

        def told(number: int, own: np.ndarray) -> tuple[np.ndarray, ...]:
            mine = self.division.regions[number].rows
            return at_rows[mine], noise[mine], times[own], places[own]

        corrections = self._ask_numbered(shares, _correction, told)
        for draw in range(num):
            at_queries[:, draw] += np.bincount(
                shares.point, weights=shares.weight * corrections[:, draw], minlength=len(times)
            )
        return at_queries

    def aggregate(self, times: ArrayLike, places: ArrayLike, weights: ArrayLike) -> Marginals:
        """Exact where one region answers for all the rows; else the variance is that of 200 draws, and a line in the log
        says so (`is_exact_over` tells beforehand).
        """
        times, places = checked_rows(times, places, self.num_columns)
        weights = checked_sums(weights, len(times))
        only = self._only_region(times, places)
        if only is not None:
            return self.region(only).aggregate(times, places, weights)
        logger.info("a sum over several regions: its variance is that of %d joint draws", AGGREGATE_DRAWS)
        sums = np.atleast_2d(weights)
        mean = sums @ self.marginals(times, places).mean
        variance = np.var(self.sample(times, places, num=AGGREGATE_DRAWS) @ sums.T, axis=0, ddof=1)
        return Marginals(mean, variance) if weights.ndim == 2 else Marginals(mean[0], variance[0])

    def covariance(self, times: ArrayLike, places: ArrayLike) -> Float[np.ndarray, "query query"]:
        """Exact where one region answers for all the rows; else deviations are the marginals' and correlations those of 200 draws."""
        times, places = checked_rows(times, places, self.num_columns)
        only = self._only_region(times, places)
        if only is not None:
            return self.region(only).covariance(times, places)
        draws = self.sample(times, places, num=AGGREGATE_DRAWS)
        correlation = np.atleast_2d(np.corrcoef(draws.T))
        deviation = np.sqrt(self.marginals(times, places).variance)
        return correlation * np.outer(deviation, deviation)

    def joint_parts(self, times: ArrayLike, places: ArrayLike) -> Iterator[JointPart]:
        """Each region that has a say, at the rows where it has one and at those that it would see."""
        times, places = checked_rows(times, places, self.num_columns)
        points = self.division.nearness(times, places)
        for heard in self.division.heard(times, places):
            sees = self.division.cuts.distance(points, heard.region) <= self.division.regions[heard.region].depth
            weight = np.zeros(len(times))
            weight[heard.point] = heard.weight
            rows = np.flatnonzero(sees | (weight > 0))
            (covariance,) = self._map(_covariance_of, [heard.region], [(times[rows], places[rows])])
            yield JointPart(rows, weight[rows], sees[rows], covariance)

    def is_exact_over(self, times: ArrayLike, places: ArrayLike) -> bool:
        """Whether a joint answer over these rows comes from one region, and so needs no draws."""
        return self._only_region(*checked_rows(times, places, self.num_columns)) is not None

    def _only_region(self, times: Float[np.ndarray, " query"], places: Float[np.ndarray, "query dim"]) -> int | None:
        """The region within whose core all rows lie; what others have to say near its border is left aside."""
        cells = np.unique(self.division.cuts.cell_of(self.division.nearness(times, places)))
        return int(cells[0]) if len(cells) == 1 else None

    # --- more rows, other rows, files

    def update(self, more: Observations) -> "RegionalPosterior":
        """Regions stay where they are, until one of them has come to see twice as much as any did at first: then all is cut anew, into
        more of them.
        """
        check_problem(self.model, more)
        before = self._data
        data = concatenate_observations((before, more))
        # Where each row of either stands now: rows are held by time, those of one time in the order given.
        position = np.argsort(np.argsort(np.concatenate([before.row_times, more.row_times]), kind="stable"))
        points = self.division.nearness(more.row_times, more.row_places)
        cell = self.division.cuts.cell_of(points)
        regions = []
        for number, region in enumerate(self.division.regions):
            seen = np.flatnonzero(self.division.cuts.distance(points, number) <= region.depth)
            rows = np.concatenate([position[region.rows], position[before.num_rows + seen]])
            is_core = np.concatenate([region.is_core, cell[seen] == number])
            order = np.argsort(rows, kind="stable")
            regions.append(Region(rows[order], is_core[order], region.depth))
        division = dataclasses.replace(self.division, regions=tuple(regions))
        num_regions = division.outgrown(data)
        if num_regions is not None:
            division = divide(self.model, data, num_regions=num_regions, share=self.division.share)
            logger.info(
                "%d regions are %d now, so that none sees far more than they did", self.num_regions, num_regions
            )
        return RegionalPosterior(self.model, division, data, engine=self.engine, with_rows=self._with_rows)

    def given_only(self, data: Observations) -> "RegionalPosterior":
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
            "rows": plain_rows(self._data, arrays),
            "engine": engine_name(self.engine),
            "with_rows": with_rows and self._with_rows,
        }

    @classmethod
    def from_plain(cls, plain: dict[str, Any], arrays: FileArrays) -> "RegionalPosterior":
        model = from_plain(plain["model"], arrays)
        parts = {name: from_plain(part, arrays) for name, part in plain["division"].items()}
        data = rows_from_plain(plain["rows"], arrays)
        check_problem(model, data)
        division = Division.from_plain(model, (data.num_rows, data.places.shape[1]), parts)
        engine = check_engine_name(plain["engine"])
        return cls(model, division, data, engine=engine, with_rows=bool(plain["with_rows"]))


class Told(NamedTuple):
    """What a region is told: its rows, the places it stands on, theirs first, and what it may leave unexplained there; None for nothing."""

    data: Observations
    places: Float[np.ndarray, "place dim"]
    share: Share | None


def share_of_region(
    model: Model,
    division: Division,
    number: int,
    places: Float[np.ndarray, "place dim"],
    noise_of_places: Float[np.ndarray, " place"] | None,
    worth: Float[np.ndarray, " component"],
) -> Share:
    """What a region may leave unexplained at these places, all that it sees at any time, whose rows bring so much noise."""
    most = division.share * noise_beside(model, noise_of_places)
    return Share(most, division.importance(places, number), worth)


class Conditioned:
    """One region given what it is told, conditioned as it is asked."""

    def __init__(self, model: Model, told: Told, engine: str | Engine):
        self.data, self.places, share = told
        self.model = model if share is None else reduced(model, self.places, share)
        self.engine = engine
        self.is_by_rows = False
        if engine == "auto" and share is not None:
            # Regions answer side by side, each keeping half of what one series may: a gigabyte less on 6.7 million rows, as fast.
            self.engine = CpuEngine(Limits(threads=1, whole_bytes=Limits().whole_bytes // 2))
        elif engine == "auto":
            self.engine = chosen = exact_work(model, len(self.data.places), self.data.grouping.layout).engine
            self.is_by_rows = isinstance(model.likelihood, Gaussian) and not chosen.has_state

    @functools.cached_property
    def posterior(self) -> SinglePosterior:
        """It has every answer."""
        if not isinstance(self.model.likelihood, Gaussian):
            return condition(self.model, self.data, engine=self.engine)
        # What `condition` does, compiled once for all regions with as many places, however many rows and times they have.
        return SinglePosterior(
            self.model,
            self.data.times,
            rows_of(self.data, self.sites),
            np.asarray(self._features.weights),
            exact_places=self.places if self.model.needs_places else None,
            log_constant=float(self.sites.log_constant),
            power=0.0 if self.model.is_exact else 1.0,
            engine=self.engine,
            given=Given(self.data.row, self._unexplained, self.data.num_rows),
        )

    @functools.cached_property
    def _features(self) -> SpatialFeatures:
        return own_features(self.model, self.places)

    @functools.cached_property
    def _unexplained(self) -> Float[np.ndarray, " row"]:
        """Variance of f at each row that the region does without: like noise to it."""
        spatial = np.asarray(self._features.unexplained)
        if not spatial.any():
            return np.zeros(self.data.num_rows)
        by_time = time_variances_at(self.model, self.data.times)
        grouping = self.data.grouping
        return np.sum(by_time[grouping.time_of_row] * spatial[grouping.place_of_row], axis=1)

    @functools.cached_property
    def quickest(self) -> SinglePosterior | ByRows:
        """It has the answers that are asked for most."""
        return ByRows(self.model, self.data, self.sites) if self.is_by_rows else self.posterior

    @functools.cached_property
    def sites(self) -> Sites:
        """Those of a Gaussian likelihood."""
        assert isinstance(self.model.likelihood, Gaussian)
        floor = NOISE_FLOOR * signal_variances_at(self.model, self.data)
        own = 0.0 if self.data.noise_variance is None else np.asarray(self.data.noise_variance)
        noise = np.maximum(np.full(self.data.num_rows, float(self.model.likelihood.variance)) + own, floor)
        if not self.model.is_exact:
            noise = noise + self._unexplained
        return Sites(np.asarray(self.data.values), 1 / noise, -np.sum(np.log(2 * np.pi * noise)) / 2)


class _RegionsHere:
    """The regions of a posterior in this process: what each is told, and those conditioned last.

    It knows nothing of the posterior, which could not be let go the moment nobody needs it.
    """

    def __init__(
        self,
        model: Model,
        division: Division,
        data: Observations,
        engine: str | Engine,
        tell: Callable[[int, Observations], Told] | None,
    ):
        self.model, self.division, self.data, self.engine, self.tell = model, division, data, engine, tell
        most = max(len(region.rows) for region in division.regions)
        each = max(BYTES_A_ROW * most, 8 * most**2 if division.nearness.with_times else 0)
        # All or few: of all but some, those that a pass comes to next were let go for those it has just asked.
        count = len(division.regions)
        self._most_kept = count if count * each <= KEPT_BYTES else 2 * num_processors()
        self._kept: OrderedDict[int, Conditioned] = OrderedDict()
        self._lock = threading.Lock()

    def conditioned(self, number: int) -> Conditioned:
        with self._lock:
            if number in self._kept:
                self._kept.move_to_end(number)
                return self._kept[number]
        # Two threads that ask for one region at once each make it, and one is let go.
        made = Conditioned(self.model, self.told_to(number), self.engine)
        with self._lock:
            self._kept[number] = made
            while len(self._kept) > self._most_kept:
                self._kept.popitem(last=False)
        return made

    def told_to(self, number: int) -> Told:
        """The rows that a region sees, and the places it stands on: theirs, and where rows were cut some more of which nothing was
        seen, so that one size serves all regions.
        """
        data = take_rows(self.data, self.division.regions[number].rows)
        if self.tell is not None:
            return self.tell(number, data)
        more = self._most_places - len(data.places)
        if self.division.share > 0:
            share = share_of_region(self.model, self.division, number, data.places, data.noise_of_places, self._worth)
            return Told(data, data.places, share)
        if more <= 0:
            return Told(data, data.places, None)
        everywhere = self.data.places
        own = np.asarray(self.data.grouping.place_of_row)[self.division.regions[number].rows]
        others = np.setdiff1d((own[0] + np.arange(len(data.places) + more)) % len(everywhere), own)[:more]
        return Told(data, np.concatenate([data.places, everywhere[others]]), None)

    @functools.cached_property
    def _worth(self) -> Float[np.ndarray, " component"]:
        return components_worth(self.model, self.data.times)

    @functools.cached_property
    def _most_places(self) -> int:
        """Places that a region is filled up to; none where places were cut, of which each region has as many."""
        if not self.division.nearness.with_times:
            return 0
        place = np.asarray(self.data.grouping.place_of_row)
        most = max(len(np.unique(place[region.rows])) for region in self.division.regions)
        return min(padded_size(most), len(self.data.places))


class _RegionHere:
    """One region in this process, which keeps what it conditioned; only the region's own rows travel elsewhere."""

    def __init__(self, regions: _RegionsHere, number: int):
        self.regions, self.number = regions, number

    def conditioned(self) -> Conditioned:
        return self.regions.conditioned(self.number)

    def __reduce__(self) -> tuple[Any, ...]:
        told = pickle.dumps(self.regions.told_to(self.number), protocol=pickle.HIGHEST_PROTOCOL)
        return _RegionElsewhere, (self.regions.model, told, self.regions.engine)


class _RegionElsewhere(NamedTuple):
    """What one region is made of, where the others are not; conditioned anew for each question, which is cheap beside asking it.

    Its rows and places stay as they travelled, which is a third of what they take else.
    """

    model: Model
    told: bytes
    engine: str | Engine

    def conditioned(self) -> Conditioned:
        return Conditioned(self.model, pickle.loads(self.told), self.engine)


def _answer(question: Callable[..., Any], region: _RegionHere | _RegionElsewhere, told: tuple[np.ndarray, ...]) -> Any:
    return question(region.conditioned(), *told)


def log_evidence_of(one: Conditioned) -> float:
    return one.quickest.log_evidence


def _fitted_values(one: Conditioned) -> Float[np.ndarray, " row"]:
    return one.quickest.fitted_values()


def _one_step_ahead(one: Conditioned) -> Float[np.ndarray, "moment row"]:
    ahead = one.posterior.one_step_ahead()
    return np.stack([ahead.residual, ahead.variance])


# Questions about points, wherever the region is: one row of the answer a point.


def marginals_at(
    one: Conditioned, times: Float[np.ndarray, " query"], places: Float[np.ndarray, "query dim"]
) -> Float[np.ndarray, "query moment"]:
    return np.array(one.quickest.marginals(times, places)).T


def _covariance_of(
    one: Conditioned, times: Float[np.ndarray, " query"], places: Float[np.ndarray, "query dim"]
) -> Float[np.ndarray, "query query"]:
    return np.asarray(one.posterior.covariance(times, places))


def filtered_at(
    one: Conditioned, times: Float[np.ndarray, " query"], places: Float[np.ndarray, "query dim"]
) -> Float[np.ndarray, "query moment"]:
    return np.array(one.posterior.filtered(times, places)).T


def components_at(
    one: Conditioned, times: Float[np.ndarray, " query"], places: Float[np.ndarray, "query dim"]
) -> Float[np.ndarray, "query component moment"]:
    return np.array(one.quickest.components(times, places)).transpose(2, 0, 1)


def _correction(
    one: Conditioned,
    at_rows: Float[np.ndarray, "row draw"],
    noise: Float[np.ndarray, "row draw"],
    times: Float[np.ndarray, " query"],
    places: Float[np.ndarray, "query dim"],
) -> Float[np.ndarray, "query draw"]:
    """What a region makes of the difference between its rows and a draw's: the same noise for a row in every region that sees it."""
    rows = one.quickest.rows
    missed = np.asarray(rows.value)[:, None] - at_rows - np.asarray(rows.precision)[:, None] ** -0.5 * noise
    return one.quickest.means_given(missed, times, places)


def _average(
    shares: Shares, mean: Float[np.ndarray, " share"], variance: Float[np.ndarray, " share"], num_points: int
) -> Marginals:
    """Means by weight, and deviations by weight."""
    deviation = np.sqrt(np.maximum(variance, 0.0))
    blended = np.bincount(shares.point, weights=shares.weight * mean, minlength=num_points)
    spread = np.bincount(shares.point, weights=shares.weight * deviation, minlength=num_points)
    return Marginals(blended, spread**2)
