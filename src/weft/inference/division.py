# SPDX-License-Identifier: MIT
"""A wide table divided into regions: a core that no other region has, what is seen around it, and how far its word carries."""

import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.spatial import cKDTree

from weft.data.observations import REPEATS, Observations, Outline, places_repeat
from weft.data.places import distinct_places
from weft.data.schema import Numbers, Schema, check_arrays
from weft.inference.cuts import Cuts, Shares, cut, surroundings
from weft.inference.exact_work import chain_work, exact_work, regular, rows_work
from weft.inference.nearness import Nearness, learn_nearness, num_coordinates
from weft.inference.reduced import (
    MOST_UNEXPLAINED,
    Share,
    can_be_reduced,
    components_worth,
    noise_beside,
    sizes_within,
)
from weft.model import Model

__all__ = [
    "Division",
    "Heard",
    "Region",
    "divide",
    "divide_places",
    "in_turns",
    "num_regions_within",
    "work_of_regions",
]

# One pass over all regions, in operations: some twenty seconds on a core.
REGIONS_WORK = 2.5e11
# How many points a region sees, of which a third are its core. Fewer than 30 around the core lose accuracy, more gain little.
SIZES = (48, 60, 72, 90, 108, 132, 160, 192, 240, 300, 384, 480, 600, 768)
FEWEST_AROUND = 30
# By this, at most, a region with a gap sees more around it than others do, and by this all regions take more work for it: where points are
# so unevenly dense that half of the regions are large, none of them sees much more.
MOST_AROUND_GAPS = 4.0
MOST_WORK_FOR_GAPS = 1.5
# By how much more than the largest saw at first a region may come to see before all is cut anew: a matrix of twice as many rows takes
# eight times the work.
MOST_GROWN = 2.0
# Regions by which the size of those with a share left out is guessed.
PLACES_TRIED = 4
# Points whose shares are looked up at a time.
POINTS_AT_ONCE = 2**20

SCHEMA: Schema = {
    "column": Numbers(("kept",), whole=True, within="coordinate"),
    "scale": Numbers(("kept",), least=0.0),
    "cut_column": Numbers(("cut",), whole=True, within="kept"),
    "cut_value": Numbers(("cut",)),
    "cut_below": Numbers(("cut",), whole=True),
    "cut_above": Numbers(("cut",), whole=True),
    "cut_lower": Numbers(("region", "kept"), endless=True),
    "cut_upper": Numbers(("region", "kept"), endless=True),
    "cut_least": Numbers(("region", "kept"), endless=True),
    "cut_most": Numbers(("region", "kept"), endless=True),
    "depth": Numbers(("region",), least=0.0),
    "counts": Numbers(("region",), whole=True, least=1.0),
    "rows": Numbers(("seen",), whole=True, within="row"),
    "is_core": Numbers(("seen",), flags=True),
    "share": Numbers(least=0.0),
    "num_points": Numbers(whole=True, least=0.0),
    "largest": Numbers(whole=True, least=0.0),
}


@dataclasses.dataclass(frozen=True)
class Region:
    """Numbers of the rows that a region sees, in order of time, and which of them are its core's.

    `depth` is how far from the core it sees, in length scales.
    """

    rows: Int[np.ndarray, " row"]
    is_core: Bool[np.ndarray, " row"]
    depth: float


class Heard(NamedTuple):
    """A region, the points at which it has a say, in order, and the weight of its word at each."""

    region: int
    point: Int[np.ndarray, " point"]
    weight: Float[np.ndarray, " point"]


class _AtPoints(Protocol):
    @property
    def point(self) -> Int[np.ndarray, " point"]: ...


Asked = TypeVar("Asked", bound=_AtPoints)


def in_turns(asked: Iterator[Asked], most_points: int) -> Iterator[list[Asked]]:
    """Regions to ask at once: until they are told of so many points, which are in memory meanwhile."""
    some: list[Asked] = []
    for each in asked:
        some.append(each)
        if sum(len(one.point) for one in some) >= most_points:
            yield some
            some = []
    if some:
        yield some


@dataclasses.dataclass(frozen=True)
class Division:
    """Regions, and who answers where: `cuts` are of places, or of places and times where hardly any place is seen twice.

    `share` is what a region may leave unexplained of the field, by the noise variance; at 0 each is exact. `num_points` were cut, of which
    the region that saw most saw `largest`; 0 where that is not known.
    """

    nearness: Nearness
    cuts: Cuts
    regions: tuple[Region, ...]
    share: float = 0.0
    num_points: int = 0
    largest: int = 0

    def outgrown(self, data: Observations) -> int | None:
        """How many regions would be as large as they were made where one has come to see far more of `data`; None where none has.

        Rows of a float come at the end of a series, and all of them in the few regions that end there.
        """
        if self.largest == 0:
            return None
        if self.nearness.with_times:
            num_points, seen = data.num_rows, max(len(region.rows) for region in self.regions)
        else:
            place = np.asarray(data.grouping.place_of_row)
            num_points, seen = len(data.places), max(len(np.unique(place[region.rows])) for region in self.regions)
        if seen <= MOST_GROWN * self.largest:
            return None
        return -(-len(self.regions) * num_points // self.num_points)

    @property
    def reach(self) -> Float[np.ndarray, " region"]:
        """A region has a say up to half as far as it sees: beyond, others know better."""
        return np.array([region.depth for region in self.regions]) / 2

    def importance(self, places: Float[np.ndarray, "place dim"], number: int) -> Float[np.ndarray, " place"]:
        """How much places count for a region: 1 in its core, half as far away as its word carries, less beyond."""
        reach = self.reach[number]
        if reach == 0:
            return np.ones(len(places))
        # Only regions of places leave anything out: when does not matter.
        away = self.cuts.distance(self.nearness(np.zeros(len(places)), places), number)
        return 1 / (1 + (away / reach) ** 2)

    def shares(self, times: Float[np.ndarray, " query"], places: Float[np.ndarray, "query dim"]) -> Shares:
        # Some at a time: what is made on the way takes several times as much memory as what comes of it.
        parts = [slice(start, start + POINTS_AT_ONCE) for start in range(0, max(len(times), 1), POINTS_AT_ONCE)]
        found = [self.cuts.shares(self.nearness(times[part], places[part]), self.reach) for part in parts]
        if len(found) == 1:
            return found[0]
        return Shares(
            np.concatenate([each.point + part.start for each, part in zip(found, parts, strict=True)]),
            np.concatenate([each.cell for each in found]),
            np.concatenate([each.weight for each in found]),
        )

    def heard(self, times: Float[np.ndarray, " query"], places: Float[np.ndarray, "query dim"]) -> Iterator[Heard]:
        """Each region that has a say at some points, in the order of regions."""
        if self.nearness.with_times:
            yield from _by_region(self.shares(times, places))
            return
        # Rows of a place have the same regions: these are looked up once a place, and held for no row before its region comes.
        distinct, place = distinct_places(places)
        if not len(places) >= REPEATS * len(distinct):
            yield from _by_region(self.shares(times, places))
            return
        points = np.argsort(place, kind="stable")
        first = np.searchsorted(place[points], np.arange(len(distinct) + 1))
        for region, own, weight in _by_region(self.shares(times[: len(distinct)], distinct)):
            mine = np.concatenate([points[first[each] : first[each + 1]] for each in own])
            order = np.argsort(mine, kind="stable")
            yield Heard(region, mine[order], np.repeat(weight, first[own + 1] - first[own])[order])

    def to_plain(self) -> dict[str, Any]:
        """Everything but the model, as plain numbers and arrays."""
        return {
            "with_times": self.nearness.with_times,
            "column": self.nearness.column,
            "scale": self.nearness.scale,
            **{f"cut_{field.name}": getattr(self.cuts, field.name) for field in dataclasses.fields(Cuts)},
            "depth": np.array([region.depth for region in self.regions]),
            "counts": np.array([len(region.rows) for region in self.regions]),
            "rows": np.concatenate([region.rows for region in self.regions]),
            "is_core": np.concatenate([region.is_core for region in self.regions]),
            "share": self.share,
            "num_points": self.num_points,
            "largest": self.largest,
        }

    @classmethod
    def from_plain(cls, model: Model, shape: tuple[int, int], plain: dict[str, Any]) -> "Division":
        """The division that `to_plain` told of, of so many rows at places of so many columns; ValueError where it cannot be one."""
        with_times = plain["with_times"]
        if not isinstance(with_times, bool):
            raise ValueError(f"its 'with_times' is {with_times!r}, not true or false")
        num_rows, width = shape
        sizes = {"row": num_rows, "coordinate": num_coordinates(model, with_times, width)}
        # Files that say nothing of it have exact ones; those that do not say where a core's points are have them all over its cell.
        all_over = {"cut_least": plain.get("cut_lower"), "cut_most": plain.get("cut_upper")}
        part = check_arrays(SCHEMA, {"share": 0.0, "num_points": 0, "largest": 0, **all_over, **plain}, sizes)
        cuts = Cuts(*(part[f"cut_{field.name}"] for field in dataclasses.fields(Cuts)))
        cuts.check()
        if part["counts"].sum() != sizes["seen"]:
            raise ValueError("its 'counts' are not those of its 'rows'")
        if not np.array_equal(np.sort(part["rows"][part["is_core"]]), np.arange(sizes["row"])):
            raise ValueError("its 'is_core' does not give each row to one region")
        ends = np.cumsum(part["counts"])[:-1]
        regions = tuple(
            Region(rows, is_core, float(depth))
            for rows, is_core, depth in zip(
                np.split(part["rows"], ends), np.split(part["is_core"], ends), part["depth"], strict=True
            )
        )
        if any(np.any(np.diff(region.rows) <= 0) for region in regions):
            raise ValueError("its 'rows' are not in order")
        nearness = Nearness(model, with_times, part["column"], part["scale"])
        return cls(nearness, cuts, regions, float(part["share"]), int(part["num_points"]), int(part["largest"]))


def _by_region(shares: Shares) -> Iterator[Heard]:
    order = np.argsort(shares.cell, kind="stable")
    cells, starts = np.unique(shares.cell[order], return_index=True)
    for cell, group in zip(cells.tolist(), np.split(order, starts[1:]), strict=True):
        yield Heard(cell, shares.point[group], shares.weight[group])


def divide(model: Model, data: Observations, *, num_regions: int | None = None, share: float | None = None) -> Division:
    """Balanced regions of `data`: so many, or as few as keep one pass over all of them within the budget of work.

    Near is what the model's length scales say; the same table and model give the same regions. `share` is what regions may leave
    unexplained of the field by the noise variance; unless given, they are exact where that is within the budget.
    """
    with_times = not places_repeat(data)
    place_of_row = np.asarray(data.grouping.place_of_row)
    # What is cut: rows, or places with all their rows.
    times = data.row_times if with_times else np.full(len(data.places), data.times[0])
    places = data.row_places if with_times else data.places
    point_of_row = np.arange(data.num_rows) if with_times else place_of_row
    plan = (
        _plan(model, data, share, with_times=with_times)
        if num_regions is None
        else _planned(model, data, num_regions, share, with_times=with_times)
    )
    return _divide_points(model, times, places, point_of_row, plan, with_times=with_times)


def divide_places(model: Model, outline: Outline, *, num_regions: int | None = None) -> Division:
    """The same of rows that are elsewhere, at places that are seen again and again: `rows` of a region are numbers of places."""
    plan = (
        _plan(model, outline, with_times=False)
        if num_regions is None
        else _planned(model, outline, num_regions, None, with_times=False)
    )
    times = np.full(len(outline.places), outline.times[0])
    each = np.arange(len(outline.places))
    return _divide_points(model, times, outline.places, each, plan, with_times=False)


def _divide_points(
    model: Model,
    times: Float[np.ndarray, " point"],
    places: Float[np.ndarray, "point dim"],
    point_of_row: Int[np.ndarray, " row"],
    plan: "_Plan",
    *,
    with_times: bool,
) -> Division:
    """Regions of points, as many and as large as planned."""
    nearness = learn_nearness(model, times, places, with_times=with_times)
    points = nearness(times, places)
    cuts = cut(points, plan.num_regions)
    core_size = -(-len(points) // cuts.num_cells)
    size = max(plan.size, _least_size(core_size))
    cell = cuts.cell_of(points)
    order = np.argsort(cell, kind="stable")
    cores = np.split(order, np.searchsorted(cell[order], np.arange(1, cuts.num_cells)))
    # Rows by point, so that a region finds its rows without a look at all.
    rows_in_order = np.argsort(point_of_row, kind="stable")
    first_row = np.searchsorted(point_of_row[rows_in_order], np.arange(len(points) + 1))
    tree = cKDTree(points)
    more = _more_around_gaps(cuts, points) if with_times else np.ones(cuts.num_cells)
    around = [round((size - len(core)) * factor) for core, factor in zip(cores, more, strict=True)]
    regions = tuple(
        _region(points, core, num_around, tree, rows_in_order, first_row)
        for core, num_around in zip(cores, around, strict=True)
    )
    largest = max(min(len(core) + num, len(points)) for core, num in zip(cores, around, strict=True))
    return Division(nearness, cuts, regions, plan.share, len(points), largest)


def _more_around_gaps(cuts: Cuts, points: Float[np.ndarray, "point dim"]) -> Float[np.ndarray, " cell"]:
    """By how much more each cell is to see than most: in proportion to its border, where it is larger than the usual one.

    Cells hold equally many points, so one that is large has a gap in it or beside it. What lies in a gap is told by all of its rim, and the
    nearest points of a core that holds a piece of it are of that piece: on an image with gaps under clouds, seeing more there took 2 %
    off the error of all of them.
    """
    lower, upper = np.maximum(cuts.lower, points.min(axis=0)), np.minimum(cuts.upper, points.max(axis=0))
    widths = upper - lower
    # Columns in which all points are alike have no border.
    widths = widths[:, np.ptp(points, axis=0) > 0]
    volume = np.sum(np.log(np.maximum(widths, np.finfo(float).tiny)), axis=1)
    num_columns = max(widths.shape[1], 1)
    by_border = np.maximum(np.exp((volume - np.median(volume)) * (num_columns - 1) / num_columns), 1.0)
    # A third of what a region usually sees is its core, and a matrix takes the cube of all it sees.
    each = (np.minimum(by_border, most) for most in np.linspace(MOST_AROUND_GAPS, 1.0, 16))
    return next(more for more in each if np.mean(((1 + 2 * more) / 3) ** 3) <= MOST_WORK_FOR_GAPS)


def _region(
    points: Float[np.ndarray, "point dim"],
    core: Int[np.ndarray, " core"],
    num_around: int,
    tree: cKDTree,
    rows_in_order: Int[np.ndarray, " row"],
    first_row: Int[np.ndarray, " point_plus_one"],
) -> Region:
    around, depth = surroundings(points, core, least=num_around, most=num_around, depth=0.0, tree=tree)
    seen = np.concatenate([core, around])
    count = first_row[seen + 1] - first_row[seen]
    # Rows of one point after another: where each point's begin, and so many from there.
    begin = np.cumsum(count) - count
    rows = rows_in_order[np.arange(count.sum()) + np.repeat(first_row[seen] - begin, count)]
    order = np.argsort(rows, kind="stable")
    return Region(rows[order], order < count[: len(core)].sum(), depth)


class _Plan(NamedTuple):
    """How many points a region is to see, how many regions there are then, what they may leave unexplained, and operations of a pass."""

    size: int
    num_regions: int
    share: float
    work: float


def _plan(model: Model, data: Observations | Outline, share: float | None = None, *, with_times: bool) -> _Plan:
    """Regions as large as the budget of a pass allows, exact; where none is small enough, those that take least with a share left out."""
    num_points = data.num_rows if with_times else len(data.places)

    def planned(size: int, share: float) -> _Plan:
        work = _work_of_region(model, data, size, share, with_times=with_times) * num_points / (size // 3)
        return _Plan(size, -(-num_points // max(size // 3, 1)), share, work)

    if not share:
        exact = [planned(size, 0.0) for size in SIZES]
        within = [plan for plan in exact if plan.work <= REGIONS_WORK]
        if within or share == 0.0 or not _may_be_reduced(model, data, with_times=with_times):
            return max(within, default=exact[0], key=lambda plan: plan.size)
    best = planned(SIZES[0], share or MOST_UNEXPLAINED)
    for size in SIZES[1:]:
        larger = planned(size, best.share)
        if larger.work >= best.work:
            break
        best = larger
    return best


def _planned(
    model: Model, data: Observations | Outline, num_regions: int, share: float | None, *, with_times: bool
) -> _Plan:
    """So many regions; they leave out nothing where exact ones keep to the budget, unless `share` was said."""
    num_points = data.num_rows if with_times else len(data.places)
    size = min(_least_size(-(-num_points // max(num_regions, 1))), num_points)
    work = _work_of_region(model, data, size, share or 0.0, with_times=with_times) * num_points / max(size // 3, 1)
    if share is None:
        is_long = work > REGIONS_WORK and _may_be_reduced(model, data, with_times=with_times)
        share = MOST_UNEXPLAINED if is_long else 0.0
    return _Plan(size, max(1, num_regions), share, work)


def _least_size(core_size: int) -> int:
    """How many points a region sees at least, with a core of so many."""
    return max(3 * core_size, core_size + FEWEST_AROUND)


def _may_be_reduced(model: Model, data: Observations | Outline, *, with_times: bool) -> bool:
    return not with_times and can_be_reduced(model, data.places.shape[1])


def num_regions_within(model: Model, data: Observations) -> int:
    """How many regions `divide` makes of the data, unless some coincide."""
    return _plan(model, data, with_times=not places_repeat(data)).num_regions


def work_of_regions(model: Model, data: Observations) -> float:
    """Operations of a pass over all regions that `divide` makes of the data."""
    return _plan(model, data, with_times=not places_repeat(data)).work


def _work_of_region(model: Model, data: Observations | Outline, size: int, share: float, *, with_times: bool) -> float:
    """Operations of a pass over a region that sees so many points."""
    if with_times:
        return rows_work(model, size)
    num_times = len(data.times)
    layout = regular(1, max(1, round(size * data.num_rows / (len(data.places) * num_times))))
    if not share:
        return exact_work(model, size, layout).by_chain * num_times
    most = share * noise_beside(model, data.noise_of_places)
    worth = components_worth(model, data.times)
    works = [
        chain_work(model, sizes_within(model, places, Share(most, np.ones(len(places)), worth)), layout)
        for places in _neighbourhoods(model, data, size)
    ]
    return float(np.mean(works)) * num_times


def _neighbourhoods(model: Model, data: Observations | Outline, size: int) -> Iterator[Float[np.ndarray, "place dim"]]:
    """Places that are near each other, so many of them, here and there."""
    points = learn_nearness(model, np.full(len(data.places), data.times[0]), data.places)(
        np.full(len(data.places), data.times[0]), data.places
    )
    # Places are in order of their first column, so these lie apart.
    middles = points[np.linspace(0, len(points) - 1, PLACES_TRIED + 2).astype(np.int64)[1:-1]]
    _, near = cKDTree(points).query(middles, k=np.arange(1, min(size, len(points)) + 1))
    for members in near:
        yield data.places[members]
