# SPDX-License-Identifier: MIT
"""How a table's columns become the numbers a model works on, learned once and kept."""

import dataclasses
from typing import Any, final

import numpy as np
from jaxtyping import Float, Int

from weft.data.areas import Members, make_areas
from weft.data.categories import MISSING, Category, Labels, learn_category
from weft.data.clock import Clock, learn_clock
from weft.data.observations import ROW_EXTRAS, Observations
from weft.data.scaling import Scaling, TargetScaling, centre_and_scale, learn_scaling, learn_target
from weft.data.steps import MOST_ROWS_A_TIME, suitable_step
from weft.data.tables import distinct_rows
from weft.estimator.budget import PASS_WORK, work_of
from weft.estimator.columns import Measurements, PackedMeasurements
from weft.likelihoods import RowExtras

__all__ = ["Translation", "learn_translation", "step_for"]

# Of a slow component and a fast one, as of those that a model starts with.
_LATENT = (2, 1)
# Of the budget of a pass: what one over all times may take, some seconds, before fewer are worth the little that a step loses.
_STEP_SHARE = 0.1


@final
@dataclasses.dataclass(frozen=True)
class Translation:
    """Times in a unit people use, places in kilometres and deviations followed by covariates, a standardised target.

    Covariates that are numbers come first, then the numbers of levels of those that are categories; slopes of those in `local`
    vary in space. Where this is one of several targets of one model, `output` is its number, and the last column of places.
    """

    clock: Clock
    scaling: Scaling
    covariates: Scaling
    target: TargetScaling
    time_name: str
    target_name: str
    categories: tuple[Category, ...] = ()
    local: tuple[str, ...] = ()
    output: int | None = None

    @property
    def num_space(self) -> int:
        """How many columns of a place say where it is; the rest are covariates."""
        return len(self.scaling.dimensions)

    @property
    def num_numbers(self) -> int:
        """How many columns of a place come before those of covariates that are categories."""
        return self.num_space + len(self.covariates.columns)

    @property
    def num_columns(self) -> int:
        return self.num_numbers + len(self.categories) + (0 if self.output is None else 1)

    def times(self, rows: Measurements | PackedMeasurements) -> Float[np.ndarray, " time"]:
        """Of every row, or where rows are packed every time."""
        return self.clock.numbers(rows.time, self.time_name)

    def places(self, rows: Measurements | PackedMeasurements) -> Float[np.ndarray, "place dim"]:
        """Of every row, or where rows are packed every place."""
        levels = [category.numbers(rows.categories[category.name])[:, None] for category in self.categories]
        if self.output is not None:
            levels.append(np.full((len(next(iter(rows.space.values()))), 1), float(self.output)))
        if not self.covariates.columns and not levels:
            return self.scaling.forward(rows.space)
        numbers = [self.covariates.forward(rows.covariates)] if self.covariates.columns else []
        return np.concatenate([self.scaling.forward(rows.space), *numbers, *levels], axis=1)

    @property
    def slopes(self) -> dict[str, int]:
        """Columns of places that are covariates whose slopes vary in space, by name."""
        return {name: self.num_space + self.covariates.columns.index(name) for name in self.local}

    def levels(self, places: Float[np.ndarray, "row dim"]) -> dict[str, Labels]:
        """The categories of places, by column."""
        first = self.num_numbers
        return {each.name: each.labels(places[:, first + k]) for k, each in enumerate(self.categories)}

    def values(self, rows: Measurements | PackedMeasurements) -> Float[np.ndarray, " row"]:
        assert rows.values is not None
        return self.target.forward(rows.values, self.target_name)

    def extras(self, rows: Measurements | PackedMeasurements) -> dict[str, Float[np.ndarray, " row"]]:
        """Extras as a model takes them: noise variances are of the transformed target, so they are scaled with it.

        Limits are values of the target.
        """
        scaled = dict(rows.extras)
        if "noise_variance" in scaled:
            scaled["noise_variance"] = scaled["noise_variance"] / self.target.scale**2
        for name in {"lower", "upper"} & scaled.keys():
            scaled[name] = self.target.forward(scaled[name], name)
        return scaled

    def row_extras(self, rows: Measurements) -> RowExtras:
        extras = self.extras(rows)
        for name in {"lower", "upper"} & extras.keys():
            extras[name] = np.where(np.isnan(extras[name]), ROW_EXTRAS[name], extras[name])
        return RowExtras(**extras)

    def observations(self, rows: Measurements | PackedMeasurements) -> Observations:
        times, places = rows.by_time(self.times(rows)), rows.by_place(self.places(rows))
        return Observations(times, places, self.values(rows), **self.extras(rows))

    def to_json(self) -> dict[str, Any]:
        return {
            "clock": self.clock.to_json(),
            "scaling": self.scaling.to_json(),
            "covariates": self.covariates.to_json(),
            "target": self.target.to_json(),
            "time_name": self.time_name,
            "target_name": self.target_name,
            "categories": [category.to_json() for category in self.categories],
            "local": list(self.local),
            "output": self.output,
        }

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> "Translation":
        return cls(
            clock=Clock.from_json(record["clock"]),
            scaling=Scaling.from_json(record["scaling"]),
            covariates=Scaling.from_json(record["covariates"]),
            target=TargetScaling.from_json(record["target"]),
            time_name=str(record["time_name"]),
            target_name=str(record["target_name"]),
            # Version 0.1 knew none.
            categories=tuple(Category.from_json(each) for each in record.get("categories", ())),
            local=tuple(record.get("local", ())),
            output=None if record.get("output") is None else int(record["output"]),
        )


def learn_translation(
    rows: Measurements | PackedMeasurements,
    *,
    time_name: str,
    target_name: str,
    transform: str | None,
    standardise: bool,
    time_step: str | float | int | None,
    by_rows: bool = True,
    time_format: str | None = None,
    local: tuple[str, ...] = (),
    area: str | None = None,
    members: Members | None = None,
    target: TargetScaling | None = None,
) -> Translation:
    """The translation of these rows; rows nothing can be learned from are refused in a sentence.

    `target` is that of more rows than these, where it is known.
    A `time_step` of "auto" is one where it is worth it, which depends on whether models may be of rows (`by_rows`).
    """
    if rows.num_rows == 0:
        raise ValueError("the table has no rows; give at least a few measurements")
    assert rows.values is not None
    if target is None:
        target = learn_target(rows.values, transform, name=target_name, standardise=standardise)
    present = ~np.isnan(rows.values)
    if present.sum() < 2:
        raise ValueError(f"only one row has a value of {target_name!r}; a model needs more than one")
    is_free = isinstance(time_step, str) and time_step == "auto"
    clock = learn_clock(rows.time, time_name, time_step=None if is_free else time_step, text_format=time_format)
    if is_free:
        clock = dataclasses.replace(clock, time_step=_chosen_step(clock, rows, time_name, by_rows))
    scaling = _learn_scaling(rows, area, members)
    times, somewhere = clock.numbers(rows.time, time_name)[rows.times_of(present)], rows.places_of(present)
    one_place = len(distinct_rows([column[somewhere] for column in rows.space.values()])[0]) == 1
    if one_place and np.all(times == times[0]):
        raise ValueError(
            f"all rows with a value are at one time ({clock.restore(times[:1]).iloc[0]}) and one place, so nothing can be "
            "learned about either; give rows at two times or places or more"
        )
    categories = tuple(learn_category(labels[somewhere], name) for name, labels in rows.categories.items())
    covariates = _learn_covariates(rows.covariates_of_rows)
    return Translation(clock, scaling, covariates, target, time_name, target_name, categories, local)


def _chosen_step(
    clock: Clock, rows: Measurements | PackedMeasurements, time_name: str, by_rows: bool
) -> str | float | None:
    times = clock.numbers(rows.time, time_name)
    if rows.num_rows > MOST_ROWS_A_TIME * len(np.unique(times)):
        return None
    assert rows.values is not None
    return step_for(clock, rows.of_each_row(times), rows.numbered_places(), rows.values, by_rows=by_rows)


def step_for(
    clock: Clock,
    times: Float[np.ndarray, " row"],
    place: Int[np.ndarray, " row"],
    values: Float[np.ndarray, " row"],
    *,
    by_rows: bool,
) -> str | float | None:
    """`suitable_step` where a pass over all times, each place standing for itself, would take long."""
    num_places = int(place.max()) + 1
    if (
        work_of([(num_places, latent) for latent in _LATENT], np.unique(times, return_counts=True)[1])
        <= _STEP_SHARE * PASS_WORK
    ):
        return None
    return suitable_step(clock, times, place, values, by_rows=by_rows)


def _learn_scaling(rows: Measurements | PackedMeasurements, area: str | None, members: Members | None) -> Scaling:
    """The scaling of the columns of space; where rows may be means over areas, of those at places and the areas' points."""
    if area is None or members is None:
        return learn_scaling(rows.space)
    at_place = rows.space[area] == MISSING
    named = set(np.unique(rows.space[area]).tolist())
    used = np.array([label in named for label in members.area.tolist()])
    scaling = learn_scaling(
        {name: np.concatenate([rows.space[name][at_place], column[used]]) for name, column in members.space.items()}
    )
    return dataclasses.replace(scaling, areas=make_areas(members, area, scaling.forward(members.space)))


def _learn_covariates(columns: dict[str, Float[np.ndarray, " row"]]) -> Scaling:
    """Covariates by mean and deviation over rows, whatever their names: no map is made of them."""
    centres, scales = {}, {}
    for name, values in columns.items():
        centres[name], scales[name] = centre_and_scale(values[~np.isnan(values)])
    return Scaling(tuple(columns), None, centres, scales)
