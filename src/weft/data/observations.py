# SPDX-License-Identifier: MIT
"""Rows of measurements, sorted and grouped by time: the one place where that is done."""

import dataclasses
from typing import Any, final

import equinox as eqx
import numpy as np
from jaxtyping import Float, Int

from weft.arrays import AnyArray, ArrayLike, is_concrete, require_float64
from weft.data.layout import Layout
from weft.data.packed import Repeated
from weft.data.places import distinct_places


class Grouping:
    """Who measured where and when: distinct sorted times, distinct places, and which rows belong to which.

    Compared by identity: it is made once and travels with its observations.
    """

    def __init__(self, times: np.ndarray | Repeated, places: np.ndarray | Repeated, present: np.ndarray):
        distinct_times, time_of_row = _distinct_times(times)
        kept = np.flatnonzero(present)
        # Stable, so that rows of one time keep their order and a sum over them its rounding.
        kept = kept[np.argsort(time_of_row[kept], kind="stable")]
        self.places, place_of_kept = _distinct_places(places, kept)
        time_of_kept = time_of_row[kept]
        counts = np.bincount(time_of_kept, minlength=len(distinct_times))

        self.num_given = len(present)
        self.row = kept
        self.times = distinct_times
        self.time_of_row = time_of_kept
        self.place_of_row = place_of_kept
        self.layout = Layout(np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)]))
        self._protect()

    def _protect(self) -> None:
        for array in (self.row, self.times, self.places, self.time_of_row, self.place_of_row):
            array.setflags(write=False)

    # Rows travel to workers, and a scheduler keeps what travels: two bytes a row where places are few, not 24.

    def __getstate__(self) -> dict[str, Any]:
        in_order = np.array_equal(self.row, np.arange(len(self.row)))
        return {
            "num_given": self.num_given,
            "times": self.times,
            "places": self.places,
            "layout": self.layout,
            "row": None if in_order else self.row.astype(np.min_scalar_type(self.num_given)),
            "place_of_row": self.place_of_row.astype(np.min_scalar_type(len(self.places))),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        num_rows = len(state["place_of_row"])
        self.row = np.arange(num_rows) if state["row"] is None else state["row"].astype(np.int64)
        self.place_of_row = state["place_of_row"].astype(np.int64)
        self.time_of_row = np.repeat(np.arange(len(self.times)), self.layout.counts)
        self._protect()


def _distinct_times(times: np.ndarray | Repeated) -> tuple[np.ndarray, np.ndarray]:
    """Sorted, and which of them each row has."""
    if not isinstance(times, Repeated):
        return np.unique(times, return_inverse=True)
    # Times that were written differently may be the same.
    distinct, which = np.unique(times.each, return_inverse=True)
    return distinct, which[times.number]


def _distinct_places(places: np.ndarray | Repeated, kept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Those of the rows kept, and which of them each has."""
    if not isinstance(places, Repeated):
        return distinct_places(places[kept])
    number = places.number[kept]
    seen = np.flatnonzero(np.bincount(number, minlength=len(places.each)))
    distinct, which = distinct_places(places.each[seen])
    place = np.empty(len(places.each), dtype=np.int64)
    place[seen] = which
    return distinct, place[number]


# What a row may bring besides its value, and what it has where it brings nothing.
ROW_EXTRAS = {"noise_variance": 0.0, "exposure": 1.0, "trials": 1.0, "lower": -np.inf, "upper": np.inf}

# Places are seen again and again where a table has so many rows a place on average.
REPEATS = 4.0


class Observations(eqx.Module):
    """Measurements `values` at `places` (a row each) and `times`, in any order.

    A NaN value is missing: the row is not used, its time stays. Several rows may share a time, a place, or both.
    `noise_variance` (one number or one per row) is known measurement noise, added to the likelihood's own variance.
    `exposure` and `trials` are per row too, for likelihoods of counts, and so are `lower` and `upper`, limits beyond which
    a value says only that it lies there (`Tobit`); NaN and infinite ones are none. Rows present are held sorted by time; `row` says
    where each stood in what was given. Times and places that many rows share may be given `Repeated`.
    """

    grouping: Grouping = eqx.field(static=True)
    values: Float[AnyArray, " row"]
    noise_variance: Float[AnyArray, " row"] | None
    exposure: Float[AnyArray, " row"] | None
    trials: Float[AnyArray, " row"] | None
    lower: Float[AnyArray, " row"] | None
    upper: Float[AnyArray, " row"] | None

    def __init__(
        self,
        times: ArrayLike | Repeated,
        places: ArrayLike | Repeated,
        values: ArrayLike,
        noise_variance: ArrayLike | None = None,
        *,
        exposure: ArrayLike | None = None,
        trials: ArrayLike | None = None,
        lower: ArrayLike | None = None,
        upper: ArrayLike | None = None,
    ):
        require_float64()
        distinct_times, times = _numbers_of(times, "times", 1)
        distinct_places, places = _numbers_of(places, "places", 2)
        values = as_numbers(values, "values", 1)
        num_times, num_places = (_num_rows(each) for each in (times, places))
        if not num_times == num_places == len(values):
            raise ValueError(
                f"times, places and values must have one entry a row; they have {num_times}, {num_places} and "
                f"{len(values)} rows"
            )
        if distinct_places.shape[1] == 0:
            raise ValueError("places has no column; give one column per coordinate")
        for name, array in (("times", distinct_times), ("places", distinct_places)):
            refuse_rows(~np.isfinite(array).all(axis=tuple(range(1, array.ndim))), f"{name} must be finite", array)
        refuse_rows(np.isinf(values), "values must be finite, or NaN where missing", values)
        present = ~np.isnan(values)
        if not present.any():
            raise ValueError(f"no value is observed: all {len(values)} values are missing; at least one is needed")

        grouping = Grouping(times, places, present)
        self.grouping = grouping
        self.values = values[grouping.row]
        self.noise_variance = per_row(noise_variance, "noise_variance", grouping, present, allows_zero=True)
        self.exposure = per_row(exposure, "exposure", grouping, present, allows_zero=False)
        self.trials = per_row(trials, "trials", grouping, present, allows_zero=False)
        self.lower = _limits(lower, "lower", grouping)
        self.upper = _limits(upper, "upper", grouping)

    @property
    def times(self) -> Float[np.ndarray, " time"]:
        """Distinct times, sorted; times whose every row is missing included."""
        return self.grouping.times

    @property
    def places(self) -> Float[np.ndarray, "place dim"]:
        """Distinct places of the rows present."""
        return self.grouping.places

    @property
    def row(self) -> Int[np.ndarray, " row"]:
        """Where each row held here stood in what was given."""
        return self.grouping.row

    @property
    def layout(self) -> Layout:
        """Which rows belong to which time."""
        return self.grouping.layout

    @property
    def rows_of_places(self) -> Int[np.ndarray, " place"]:
        """How many rows each place has."""
        return np.bincount(self.grouping.place_of_row, minlength=len(self.places))

    @property
    def noise_of_places(self) -> Float[np.ndarray, " place"] | None:
        """The mean of the noise variances that rows of each place bring; None where they bring none."""
        if self.noise_variance is None:
            return None
        whole = np.bincount(self.grouping.place_of_row, np.asarray(self.noise_variance), len(self.places))
        return whole / self.rows_of_places

    @property
    def num_rows(self) -> int:
        """Rows present."""
        return len(self.grouping.row)

    @property
    def num_missing(self) -> int:
        return self.grouping.num_given - self.num_rows

    @property
    def row_times(self) -> Float[np.ndarray, " row"]:
        return self.grouping.times[self.grouping.time_of_row]

    @property
    def row_places(self) -> Float[np.ndarray, "row dim"]:
        return self.grouping.places[self.grouping.place_of_row]

    def __repr__(self) -> str:
        return (
            f"Observations({self.num_rows} rows at {len(self.times)} times and {len(self.places)} places, "
            f"{self.num_missing} missing)"
        )


@final
@dataclasses.dataclass(frozen=True)
class Outline:
    """What decides how rows are modelled, without the rows: their distinct times and places, how many are at each, and their own noise."""

    times: Float[np.ndarray, " time"]
    places: Float[np.ndarray, "place dim"]
    layout: Layout
    rows_of_places: Int[np.ndarray, " place"]
    noise_of_places: Float[np.ndarray, " place"] | None = None

    @property
    def num_rows(self) -> int:
        return self.layout.num_rows


def take_rows(data: Observations, rows: Int[np.ndarray, " some"]) -> Observations:
    """Some of the rows present, by their numbers among those held; times with none of them are left out."""

    def of(numbers: AnyArray | None) -> np.ndarray | None:
        return None if numbers is None else np.asarray(numbers)[rows]

    # Not `row_times[rows]`: of a table of 10^8 rows that would first make the times of all.
    grouping = data.grouping
    return Observations(
        grouping.times[grouping.time_of_row[rows]],
        grouping.places[grouping.place_of_row[rows]],
        np.asarray(data.values)[rows],
        **{name: of(getattr(data, name)) for name in ROW_EXTRAS},
    )


def _numbers_of(given: ArrayLike | Repeated, name: str, ndim: int) -> tuple[np.ndarray, np.ndarray | Repeated]:
    """What rows have, each that differs once if it was packed; and that for all rows, as it was given."""
    if not isinstance(given, Repeated):
        array = as_numbers(given, name, ndim)
        return array, array
    each = as_numbers(given.each, name, ndim)
    return each, Repeated(each, given.number)


def _num_rows(given: np.ndarray | Repeated) -> int:
    return len(given.number if isinstance(given, Repeated) else given)


def as_numbers(array: ArrayLike, name: str, ndim: int) -> np.ndarray:
    """`array` as float64 NumPy, refused where it has another number of axes or holds no numbers."""
    if not is_concrete(array):
        raise TypeError(
            f"{name} must be known numbers; inside jit or grad make the Observations outside and pass them in"
        )
    numbers = as_floats(array, name)
    if numbers.ndim != ndim:
        wanted = (
            "a vector, one entry a row" if ndim == 1 else "a matrix, one row a measurement and one column a coordinate"
        )
        raise ValueError(f"{name} must be {wanted}; its shape is {numbers.shape}")
    return numbers


def as_floats(array: ArrayLike, name: str) -> np.ndarray:
    """`array` as float64 NumPy; dates and complex numbers, which NumPy would take for numbers, are refused."""
    try:
        given = np.asarray(array)
        if given.dtype.kind in "mM":
            raise TypeError(
                f"{name} must be numbers; they are {given.dtype}, so say in which unit: "
                f"({name} - {name}.min()) / numpy.timedelta64(1, 'D') counts days"
            )
        if given.dtype.kind == "c":
            raise TypeError(f"{name} must be real numbers; they are {given.dtype}")
        return np.asarray(given, dtype=np.float64)
    except ValueError as error:
        raise TypeError(f"{name} must be numbers; {error}") from error


def refuse_rows(bad: np.ndarray, rule: str, array: np.ndarray) -> None:
    if bad.any():
        first = int(np.flatnonzero(bad)[0])
        raise ValueError(f"{rule}; row {first} is {array[first].tolist()} ({int(bad.sum())} such rows)")


def per_row(
    numbers: ArrayLike | None, name: str, grouping: Grouping, present: np.ndarray, *, allows_zero: bool
) -> np.ndarray | None:
    """One number a row present, sorted as they are; a single number counts for every row."""
    array = numbers_per_row(numbers, name, len(present), allows_zero=allows_zero, present=present)
    return None if array is None else array[grouping.row]


def _limits(numbers: ArrayLike | None, name: str, grouping: Grouping) -> np.ndarray | None:
    """One limit a row present; rows that have none are given one that nothing lies beyond."""
    limits = limits_per_row(numbers, name, grouping.num_given)
    return None if limits is None else limits[grouping.row]


def limits_per_row(numbers: ArrayLike | None, name: str, num_rows: int) -> Float[np.ndarray, " row"] | None:
    """One limit a row, from one for all or one each; NaN is none."""
    if numbers is None:
        return None
    array = as_floats(numbers, name)
    if array.shape not in ((), (num_rows,)):
        raise ValueError(f"{name} must be one number or one per row ({num_rows}); its shape is {array.shape}")
    return np.where(np.isnan(array), ROW_EXTRAS[name], array) + np.zeros(num_rows)


def numbers_per_row(
    numbers: ArrayLike | None, name: str, num_rows: int, *, allows_zero: bool, present: np.ndarray | None = None
) -> Float[np.ndarray, " row"] | None:
    """One number a row, from one for all or one each; those of rows not present may be anything."""
    if numbers is None:
        return None
    array = as_floats(numbers, name)
    if array.ndim == 0:
        array = np.full(num_rows, array)
    if array.shape != (num_rows,):
        raise ValueError(f"{name} must be one number or one per row ({num_rows}); its shape is {array.shape}")
    bad = ~(np.isfinite(array) & ((array >= 0) if allows_zero else (array > 0)))
    if present is not None:
        bad &= present
    refuse_rows(bad, f"{name} must be finite and {'zero or ' if allows_zero else ''}positive", array)
    return array


def places_of_rows(
    data: Observations, num_columns: int
) -> tuple[Float[np.ndarray, "place column"], Int[np.ndarray, " row"]]:
    """Places that differ in their first columns, in lexicographic order, and which of them each row is at."""
    places, number = distinct_places(data.places[:, :num_columns])
    return places, number[data.grouping.place_of_row]


def places_repeat(data: Observations | Outline) -> bool:
    """Whether places are seen again and again, as stations are; else nearly every row is at a place of its own."""
    return data.num_rows >= REPEATS * len(data.places)
