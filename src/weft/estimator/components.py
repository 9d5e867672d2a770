# SPDX-License-Identifier: MIT
"""What a kernel is made of when nothing is said: a slow and a fast component, and changes to try on small blocks of the table.

Measured by leaving places out: a local component (short range in space, slow in time) took 15 % off the error of daily
temperatures in Croatia and 5 % off that of new stations in the United States, Matern-1/2 in place of 3/2 in space 16 % and
6 % off German PM10; elsewhere the same changes did nothing or harm. So they are tried, not taken.
"""

import dataclasses
import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, final

import equinox as eqx
import numpy as np
from jaxtyping import Float, Int
from scipy.spatial import cKDTree

from weft.data.observations import Observations, places_repeat, take_rows
from weft.data.scaling import Marks
from weft.estimator.defaults import VarianceSplit, field_scale, median_step
from weft.estimator.seasonality import frozen_names, seasonal_component
from weft.inference.cuts import cut
from weft.kernels import (
    Alike,
    Averages,
    Columns,
    Constant,
    Cosine,
    Kernel,
    Matern12,
    Matern32,
    Product,
    Separable,
    SumSeparable,
    Uneven,
)
from weft.likelihoods import Gaussian
from weft.model import Model
from weft.training.blocks import Kind, choose_blocks, through_the_series
from weft.training.parameters import Prior
from weft.training.priors import NormalPrior, WithinReach
from weft.training.selection import Candidate, Checks, Draft, Selection, learned_from, select
from weft.training.stand_ins import stand_ins

__all__ = [
    "AUTO",
    "FAST",
    "FEWEST_ROWS",
    "LOCAL",
    "NAMED",
    "PLACES",
    "SLOW",
    "Scales",
    "ToTry",
    "candidates_for",
    "choose_components",
    "degenerate_components",
    "degenerate_scales",
    "elsewhere",
    "named_components",
    "names_by_scale",
    "priors_for",
    "scales_of",
    "to_try",
]

AUTO = "auto"
SLOW, FAST, LOCAL = "slow", "fast", "local"
# Levels of places as a component where every place stands for itself; with pseudo-points they are a habit around the field.
PLACES = "places"
NAMED = (SLOW, FAST, LOCAL)
# Rows around a place that tell of it.
_NEIGHBOURS = 30
# A length in time of fewer steps than this leaves too few between to see how smooth it is.
_SEEN_STEPS = 2.0
# The fast component starts at so many steps between times.
_FAST_STEPS = 3.0
# Of the others' length in space, and of a unit variance: where the local component starts.
_LOCAL_PART = 0.1
_LOCAL_VARIANCE = 0.1
# The length at which a season that differs from place to place starts, likewise.
_SEASON_PART = 0.3
# A length in space, by the usual distance between neighbours, over which nothing is shared.
_ALONE = 1e-3
# A length beyond so many extents, or below this part of the usual distance between neighbours, no data can tell.
_EXTENTS = 10.0
_SPACINGS = 0.5
# Work of an evaluation of the blocks that candidates learn from: a tenth of a second on a core.
_TRIAL_WORK = 1e9
# Blocks that rows are left out of, and rows of each: a matrix of them is inverted.
_CHECKS = 6
_CHECKED_ROWS = 400
# Neighbourhoods that places are left out of over a whole series, places of each, and rows.
_NEIGHBOURHOODS = 20
_NEIGHBOURS_LEFT_OUT = 24
_ROWS_OF_NEIGHBOURS = 300
# Rows around each centre of a strength that differs over the map, and the most of these.
_ROWS_A_CENTRE = 400
_MOST_CENTRES = 12
# Of the logarithm of a strength from centre to centre: a factor of two in the deviation.
_STRENGTH_DEVIATION = 0.7
# Rows below which there is nothing to choose by.
FEWEST_ROWS = 2_000
# Variance by that of all components and the noise, below which a component, or the noise, is as good as not there.
_NOTHING = 1e-4
# Of the map's size, and of all variance: where a component is put that had ended at nothing.
_MIDDLING = 0.25
# Correlation of the mean over places with itself a period later, beyond that half a period later, that asks for a season.
_ASKS = 0.1


@final
@dataclasses.dataclass(frozen=True)
class Scales:
    """Lengths of a table in the units of its coordinates: where components start and what priors allow.

    `marks` tells of the columns of space that follow those with lengths: kinds of places, and areas that rows are means over.
    """

    length: Float[np.ndarray, " space"]
    extent: Float[np.ndarray, " space"]
    spacing: Float[np.ndarray, " space"]
    slow: float
    fast: float
    fast_part: float | Float[np.ndarray, " space"]
    reach: WithinReach
    duration: WithinReach
    num_columns: int
    marks: Marks

    def in_space(self, kind: Callable[..., Kernel], factor: float | Float[np.ndarray, " space"]) -> Kernel:
        """A kernel of the columns of space, told to look past covariates; kinds of places are as alike as will be learned."""
        found: Kernel = kind(factor * self.length)
        num_ordered, areas = len(self.length), self.marks.areas
        if self._looks_past:
            found = Columns(found, range(num_ordered))
        for column, num_levels in enumerate(self.marks.levels, num_ordered):
            found = found * Columns(Alike(num_levels), (column,))
        if areas is None:
            return found
        found = Averages(found, areas.points, areas.weights)
        return Columns(found, range(self._num_space)) if self.num_columns > self._num_space else found

    @property
    def _num_space(self) -> int:
        return len(self.length) + self.marks.num_columns

    @property
    def _looks_past(self) -> bool:
        """Whether the kernel of where is told which columns it is of; around it, `Averages` takes its own column off."""
        width = self.num_columns if self.marks.areas is None else self._num_space - 1
        return width > len(self.length)

    @property
    def path_in_space(self) -> str:
        """Where a kernel made by `in_space` has its length scales."""
        around = ""
        if self.marks.areas is not None:
            around = ".kernel.kernel" if self.num_columns > self._num_space else ".kernel"
        return around + ".first" * len(self.marks.levels) + (".kernel" if self._looks_past else "")


def scales_of(data: Observations, num_space: int, alike: Sequence[int], marks: Marks) -> Scales:
    """`alike` are the columns of space that are directions of one map; `marks` tells of the last of its columns."""
    places = data.places[:, : num_space - marks.num_columns]
    deviations = places.std(axis=0)
    length = 2.0 * np.where(deviations > 0, deviations, 1.0)
    extent = np.where(deviations > 0, np.ptp(places, axis=0), 1.0)
    apart = cKDTree(places / length).query(places / length, k=[2])[0] if len(places) > 1 else np.empty(0)
    apart = apart[np.isfinite(apart) & (apart > 0)]
    spacing = length * (float(np.median(apart)) if len(apart) else 1.0)
    # Of one image nothing can be told about time, whose lengths then stay where they start.
    step, span = _usual_step(data), float(np.ptp(data.times)) if len(data.times) > 1 else 1.0
    fast = min(_FAST_STEPS * step, span / 2)
    return Scales(
        length=length,
        extent=extent,
        spacing=spacing,
        slow=float(max(np.sqrt(fast * span), 2 * fast)),
        fast=fast,
        # Where every row is at a place of its own, what is fast is also near: between the spacing of rows and the map's size.
        fast_part=np.sqrt(spacing / length) if not places_repeat(data) else 1.5,
        reach=WithinReach(_SPACINGS * spacing, _EXTENTS * extent, tuple(alike)),
        duration=WithinReach(_SPACINGS * step, _EXTENTS * span),
        num_columns=data.places.shape[1],
        marks=marks,
    )


def _usual_step(data: Observations) -> float:
    """The time from one row to the next nearby: the usual step of the series where places come again and again.

    Elsewhere times next to each other are of places far apart, and say nothing; of rows spread evenly over the span, so many
    neighbours of a place are so many steps.
    """
    step = median_step(data.times)
    return max(step, float(np.ptp(data.times)) / _NEIGHBOURS) if not places_repeat(data) else step


def named_components(names: Sequence[str], scales: Scales, shares: VarianceSplit) -> list[Separable]:
    """Components of these names, each where it starts."""
    made = {
        SLOW: lambda: Separable(space=scales.in_space(Matern32, 1.0), time=Matern32(scales.slow), variance=shares.slow),
        FAST: lambda: Separable(
            space=scales.in_space(Matern32, scales.fast_part), time=Matern12(scales.fast), variance=shares.fast
        ),
        LOCAL: lambda: _local(scales),
    }
    return [made[name]() for name in names]


def choose_components(
    start: Draft,
    data: Observations,
    num_space: int,
    scales: Scales,
    periods: Mapping[str, float],
    *,
    seed: int,
) -> Selection:
    """The draft with what blocks of `data` ask for; `periods` are the seasons that may be tried, by name."""
    if data.num_rows < FEWEST_ROWS:
        return Selection(start, ())
    asked, learning, checks = to_try(start, data, periods, seed=seed)
    likelihood = start.model.likelihood
    if not isinstance(likelihood, Gaussian):
        start = learned_from(start, learning)
        likelihood = start.model.likelihood
        found_stand_ins = stand_ins(start.model, (learning, *checks))
        if found_stand_ins is None:
            return Selection(start, ())
        model, (learning, *checked) = found_stand_ins
        start, checks = dataclasses.replace(start, model=model), Checks(*checked)
    found = select(start, candidates_for(start, data, num_space, scales, asked), learning, checks)
    if isinstance(likelihood, Gaussian):
        return found
    model = Model(found.draft.model.kernel, likelihood, None, found.draft.model.mean)
    return found._replace(draft=dataclasses.replace(found.draft, model=model))


class ToTry(NamedTuple):
    """The seasons that rows ask for, the blocks that candidates learn from, and those they are judged by."""

    periods: Mapping[str, float]
    learning: Sequence[Observations]
    checks: Checks


def to_try(start: Draft, data: Observations, periods: Mapping[str, float], *, seed: int) -> ToTry:
    """What candidates are tried with."""
    step = median_step(data.times)
    rough = field_scale(start.model.likelihood, data)
    asked = {name: period for name, period in periods.items() if _asks_for(data, rough, period)}
    lags = [period / step for period in asked.values()]
    learning = [block.data for block in choose_blocks(start.model, data, work=_TRIAL_WORK, seed=seed, periods=lags)]
    return ToTry(asked, learning, _to_check(start.model, data, seed + 1))


def candidates_for(
    start: Draft, data: Observations, num_space: int, scales: Scales, asked: Mapping[str, float]
) -> list[Candidate]:
    """What may be changed about `start`, in the order in which it is tried; `asked` are the seasons that the rows ask for."""
    step = median_step(data.times)
    # What is near comes first: a rough slow component would take the part of a local one and serve far places worse.
    return [
        Candidate("local component", lambda draft: _with_local(draft, scales)),
        # Before anything else that is kept beside the two, since it begins without, and against a local one that may have taken what is
        # rough in both.
        *(
            [Candidate("both components rough in space", lambda draft: _both_rougher(start))]
            if places_repeat(data)
            else []
        ),
        # Cycles of each place before one of all of them: the latter alone made left-out places worse wherever valleys and coasts differ.
        *(
            Candidate(f"{name} season of places", _season_of_places(f"{name} of places", period, scales))
            for name, period in asked.items()
        ),
        *(
            Candidate(f"{name} season", _season(name, seasonal_component(period, data.places[:, :num_space], step)))
            for name, period in asked.items()
        ),
        Candidate("fast component smooth in time", lambda draft: _smoother(draft, FAST, _SEEN_STEPS * step)),
        Candidate("fast component rough in space", lambda draft: _rougher(draft, FAST)),
        Candidate("fast component stronger here than there", lambda draft: _uneven(draft, FAST, num_space, data)),
        Candidate("slow component rough in space", lambda draft: _unless_local(draft, _rougher(draft, SLOW))),
        Candidate("slow component stronger here than there", lambda draft: _uneven(draft, SLOW, num_space, data)),
        *(
            [Candidate("levels of places", lambda draft: _unless_local(draft, _with_levels(draft, scales)))]
            if places_repeat(data)
            else []
        ),
    ]


def _to_check(model: Model, data: Observations, seed: int) -> Checks:
    """Compact blocks, whose places have neighbours as they have in the table: cut to rows of some times, and over the series."""
    blocks = choose_blocks(model, data, work=_TRIAL_WORK, seed=seed)
    compact = [block.data for block in blocks if block.kind in (Kind.WHOLE, Kind.COMPACT)][:_CHECKS]
    # Of a few blocks, which a small network has, as many stretches as of many: its first two days would judge alone.
    near = [take_rows(block, rows) for block in compact for rows in _stretches(block, -(-_CHECKS // len(compact)))]
    if not places_repeat(data):
        return Checks(near, near)
    around = through_the_series(
        model, data, count=_NEIGHBOURHOODS, num_places=_NEIGHBOURS_LEFT_OUT, num_rows=_ROWS_OF_NEIGHBOURS, seed=seed
    )
    return Checks(near, around)


def _stretches(block: Observations, count: int) -> list[Int[np.ndarray, " row"]]:
    """Up to `count` runs of its rows in the order of time, from the first on, evenly spaced."""
    size = min(block.num_rows, _CHECKED_ROWS)
    starts = np.linspace(0, block.num_rows - size, max(1, min(count, block.num_rows // size)) + 1)[:-1].astype(np.int64)
    return [np.arange(start, start + size) for start in starts]


def priors_for(names: Sequence[str], scales: Scales) -> dict[str, Prior]:
    """Weak priors on the lengths of the components that have any."""
    found: dict[str, Prior] = {}
    for number, name in enumerate(names):
        if name in NAMED:
            found[_lengths_of(number, scales)] = scales.reach
            found[f"kernel.components[{number}].time.lengthscale"] = scales.duration
    return found


def _lengths_of(number: int, scales: Scales) -> str:
    """The name of the length scales in space of this component."""
    return f"kernel.components[{number}].space{scales.path_in_space}.lengthscale"


def names_by_scale(names: Sequence[str], model: Model) -> tuple[str, ...]:
    """The same names, given to the components they now fit best: slow lasts long, fast does not, and local reaches least far.

    A climb knows no names: what started as local may end as the widest component of all. Where none was local, a slow and a fast one
    keep the order they are always told in.
    """
    if LOCAL not in names:
        return tuple(names)
    numbers = [number for number, name in enumerate(names) if name in NAMED]
    reach, duration = {}, {}
    for number in numbers:
        component: Any = model.kernel.components[number]
        reach[number] = float(np.mean(np.log(np.asarray(_of_where(component.space).lengthscale))))
        duration[number] = float(np.log(component.time.lengthscale))

    def fit(order: Sequence[int]) -> float:
        of = dict(zip((names[number] for number in numbers), order, strict=True))
        lasting = {SLOW: 1.0, FAST: -1.0}
        return sum(
            (lasting[name] * duration[number] if name in lasting else -reach[number] for name, number in of.items()),
            start=0.0,
        )

    best = max(itertools.permutations(numbers), key=fit)
    found = list(names)
    for name, number in zip([names[number] for number in numbers], best, strict=True):
        found[number] = name
    return tuple(found)


def degenerate_scales(model: Model, names: Sequence[str], extent: Float[np.ndarray, " space"]) -> list[str]:
    """What no data can have told, in words: a length that is endless in one direction alone, a component that is not there."""
    found = list(degenerate_components(model, names, extent).values())
    noise = getattr(model.likelihood, "variance", None)
    if noise is not None and 0 < float(noise) < _NOTHING**2 * _total_variance(model):
        found.append("The noise is as good as zero: rows may repeat each other, or a component has taken its place.")
    return found


def degenerate_components(model: Model, names: Sequence[str], extent: Float[np.ndarray, " space"]) -> dict[int, str]:
    """The components with such scales, by number, and what to say of each."""
    found, total = {}, _total_variance(model)
    for number, (name, component) in enumerate(zip(names, model.kernel.components, strict=True)):
        if float(component.variance) < _NOTHING * total:
            found[number] = (
                f"The {name} component has no variance to speak of: leave it out (components=...), it tells nothing."
            )
            continue
        lengths = np.atleast_1d(np.asarray(getattr(component.space.unwrapped, "lengthscale", np.empty(0))))
        if len(lengths) != len(extent) or len(lengths) < 2:
            continue
        ratio = lengths / extent
        if np.any(ratio > _EXTENTS) and np.any(ratio < 1.0):
            found[number] = (
                f"The {name} component is {np.max(ratio):.0f} times as long as the map in one direction and "
                f"{np.min(ratio):.2g} in another, which makes maps with stripes: leave a column of space out, or give the "
                "kernel one length for both."
            )
    return found


def elsewhere(model: Model, numbers: Collection[int], extent: Float[np.ndarray, " space"]) -> Model:
    """`model` with these of the named components where a climb may find something else: of middling length and strength."""
    components = list(model.kernel.components)
    for number in numbers:
        part = components[number]
        space = eqx.tree_at(lambda each: _of_where(each).lengthscale, part.space, _MIDDLING * extent)
        components[number] = Separable(space=space, time=part.time, variance=_MIDDLING * _total_variance(model))
    return _with_components(model, components)


def _of_where(space: Kernel) -> Any:
    """The kernel of where places are, within those of their kind and of what rows are means over: it has the length scales."""
    inner = space.unwrapped
    return _of_where(inner.first) if isinstance(inner, Product) else inner


def _total_variance(model: Model) -> float:
    noise = getattr(model.likelihood, "variance", None)
    return sum(float(part.variance) for part in model.kernel.components) + (0.0 if noise is None else float(noise))


def _asks_for(data: Observations, f: Float[np.ndarray, " row"], period: float) -> bool:
    """Whether there are two periods, and what places have in common of a rough `f` is more alike a period later than half of one."""
    if np.ptp(data.times) < 2 * period:
        return False
    counts = np.asarray(data.grouping.layout.counts)
    mean = np.bincount(np.asarray(data.grouping.time_of_row), f, len(counts)) / np.maximum(counts, 1)
    mean = np.where(counts > 0, mean - np.average(mean, weights=counts), np.nan)

    def correlation(lag: float) -> float:
        other = np.interp(data.times + lag, data.times, np.arange(len(data.times)))
        there = data.times + lag <= data.times[-1]
        pairs = np.stack([mean[there], mean[np.rint(other[there]).astype(np.int64)]])
        pairs = pairs[:, ~np.isnan(pairs).any(axis=0)]
        return float(np.mean(pairs[0] * pairs[1]) / max(float(np.nanvar(mean)), 1e-300)) if pairs.size else 0.0

    return correlation(period) - correlation(period / 2) > _ASKS


def _rougher(draft: Draft, name: str) -> Draft | None:
    """Matern-1/2 in place of 3/2 in space, at twice the length: about as correlated at middling distances."""

    def rough(part: Separable) -> Separable | None:
        space = _with_rough(part.space)
        return None if space is None else Separable(space=space, time=part.time, variance=part.variance)

    return _with_changed(draft, name, rough)


def _both_rougher(draft: Draft) -> Draft | None:
    """Of a draft where it starts: one that has learned, smooth and without a local component, often has a slow component that
    has shrunk to single places, and from there no rough one is found.
    """
    changed = _rougher(draft, SLOW)
    return None if changed is None else _rougher(changed, FAST)


def _with_rough(space: Kernel) -> Kernel | None:
    if isinstance(space, Product):
        first = _with_rough(space.first)
        return None if first is None else first * space.second
    if isinstance(space, Columns | Averages):
        inner = _with_rough(space.kernel)
        return None if inner is None else eqx.tree_at(lambda around: around.kernel, space, inner)
    return Matern12(2.0 * np.asarray(space.lengthscale)) if isinstance(space, Matern32) else None


def _smoother(draft: Draft, name: str, shortest: float) -> Draft | None:
    """Matern-3/2 in place of 1/2 in time; None where the length is below `shortest`, since steps are then too long to tell."""

    def smooth(part: Separable) -> Separable | None:
        if not isinstance(part.time, Matern12) or float(part.time.lengthscale) < shortest:
            return None
        return Separable(space=part.space, time=Matern32(np.asarray(part.time.lengthscale)), variance=part.variance)

    return _with_changed(draft, name, smooth)


def _with_changed(draft: Draft, name: str, change: Callable[[Separable], Separable | None]) -> Draft | None:
    """The draft with another component in place of the one of this name; None where there is none to change."""
    if name not in draft.names:
        return None
    number = draft.names.index(name)
    changed = change(draft.model.kernel.components[number])
    return None if changed is None else dataclasses.replace(draft, model=_with_component(draft.model, number, changed))


def _with_component(model: Model, number: int, component: Separable) -> Model:
    components = list(model.kernel.components)
    components[number] = component
    return _with_components(model, components)


def _uneven(draft: Draft, name: str, num_space: int, data: Observations) -> Draft | None:
    """The component of this name with a strength of its own around each of some centres, which are as dense as the places."""
    # Columns of covariates and of kinds have no map, and one component takes what is uneven: beside a fast one a slow one brought nothing.
    is_uneven = any(isinstance(part.space, Uneven) for part in draft.model.kernel.components)
    if name not in draft.names or data.places.shape[1] > num_space or is_uneven:
        return None
    number, places = draft.names.index(name), data.places
    part = draft.model.kernel.components[number]
    deviations = places.std(axis=0)
    used = np.where(deviations > 0, deviations, np.inf)
    cells = cut(places / used, int(np.clip(data.num_rows // _ROWS_A_CENTRE, 2, _MOST_CENTRES)))
    of_place = cells.cell_of(places / used)
    centres = np.stack([places[of_place == cell].mean(axis=0) for cell in np.unique(of_place)])
    if len(centres) < 2:
        return None
    apart = cKDTree(centres / used).query(centres / used, k=[2])[0]
    uneven = Separable(
        space=Uneven(part.space, np.zeros(len(centres)), centres, used * float(np.median(apart))),
        time=part.time,
        variance=part.variance,
    )
    below = f"kernel.components[{number}].space"
    priors = {name.replace(below, f"{below}.kernel"): prior for name, prior in draft.priors.items()}
    priors[f"{below}.logarithms"] = NormalPrior(0.0, _STRENGTH_DEVIATION)
    return dataclasses.replace(draft, model=_with_component(draft.model, number, uneven), priors=priors)


def _unless_local(draft: Draft, changed: Draft | None) -> Draft | None:
    """A local component has taken what is rough and what is a place's own: never was either kept beside it."""
    return None if LOCAL in draft.names else changed


def _local(scales: Scales) -> Separable:
    return Separable(
        space=scales.in_space(Matern12, _LOCAL_PART), time=Matern12(2 * scales.slow), variance=_LOCAL_VARIANCE
    )


def _with_local(draft: Draft, scales: Scales) -> Draft | None:
    number = len(draft.names)
    priors = {
        name: prior
        for name, prior in priors_for((*draft.names, LOCAL), scales).items()
        if name.startswith(f"kernel.components[{number}]")
    }
    return _with_another(draft, LOCAL, _local(scales), priors=priors)


def _with_levels(draft: Draft, scales: Scales) -> Draft | None:
    alone = scales.in_space(lambda length: Matern12(_ALONE * scales.spacing), 1.0)
    component = Separable(space=alone, time=Constant(), variance=_LOCAL_VARIANCE)
    return _with_another(draft, PLACES, component, frozen=(f"kernel.components[{len(draft.names)}].space",))


def _season(name: str, component: Separable) -> Callable[[Draft], Draft | None]:
    return lambda draft: _with_another(draft, name, component, frozen=frozen_names(len(draft.names), 1))


def _season_of_places(name: str, period: float, scales: Scales) -> Callable[[Draft], Draft | None]:
    """One wave a period whose strength and phase change from place to place, as far as is learned; it has two numbers a place."""

    def change(draft: Draft) -> Draft | None:
        number = len(draft.names)
        component = Separable(
            space=scales.in_space(Matern12, _SEASON_PART), time=Cosine(period), variance=_LOCAL_VARIANCE
        )
        return _with_another(
            draft,
            name,
            component,
            frozen=(f"kernel.components[{number}].time",),
            priors={_lengths_of(number, scales): scales.reach},
        )

    return change


def _with_another(
    draft: Draft,
    name: str,
    component: Separable,
    *,
    frozen: Sequence[str] = (),
    priors: Mapping[str, Prior] | None = None,
) -> Draft | None:
    """The draft with one more component; None where it has one of this name."""
    if name in draft.names:
        return None
    return dataclasses.replace(
        draft,
        model=_with_components(draft.model, [*draft.model.kernel.components, component]),
        names=(*draft.names, name),
        frozen=(*draft.frozen, *frozen),
        priors={**draft.priors, **(priors or {})},
    )


def _with_components(model: Model, components: Sequence[Separable]) -> Model:
    return Model(SumSeparable(components), model.likelihood, None, model.mean)
