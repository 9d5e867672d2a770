# SPDX-License-Identifier: MIT
"""Means and sums over groups of rows, and differences of groups, with their uncertainty.

Errors of one group go together, and so do those of two: a difference is one sum with weights of both signs, never two answers
subtracted. Of a Gaussian target that is not transformed the answer is exact; of any other, deviations come from joint draws.
"""

import dataclasses
import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np
from jaxtyping import Float, Int
from scipy import special

from weft.data.geographic_files import Shapes
from weft.data.polygons import which_polygon
from weft.data.tables import Table, as_table, distinct_rows, frame_of_kind, numbers
from weft.estimator.answers import quantile_name
from weft.estimator.columns import Measurements, read_measurements
from weft.estimator.fitted import Fitted
from weft.estimator.network import common_stations
from weft.inference.prediction import Marginals, Prediction
from weft.likelihoods import Gaussian

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["AREA", "POLYGON", "Aggregation", "aggregate", "as_grouped"]

logger = logging.getLogger("weft")

AREA, POLYGON = "area", "polygon"
_PARTS_OF_TIME = ("year", "month", "day", "hour")
_ANSWERS = ("mean", "sd", "rows", "uncertainty")
# Numbers in the matrix of weights, or of draws, held at once.
_MOST_NUMBERS = 16_000_000


@final
@dataclasses.dataclass(frozen=True)
class Aggregation:
    """How to put rows together."""

    by: tuple[str, ...]
    weights: str | None
    how: str
    of: str
    levels: tuple[float, ...]
    num_draws: int
    seed: int
    polygons: Shapes | None = None

    @property
    def of_polygons(self) -> tuple[str, ...]:
        """What makes groups and is said of polygons, not of rows."""
        return () if self.polygons is None else (POLYGON, *self.polygons.properties)


@final
@dataclasses.dataclass(frozen=True)
class _Sum:
    """A weighted sum over some of the rows."""

    rows: Int[np.ndarray, " row"]
    weights: Float[np.ndarray, " row"]

    def less(self, other: "_Sum") -> "_Sum":
        return _Sum(np.concatenate([self.rows, other.rows]), np.concatenate([self.weights, -other.weights]))


def as_grouped(fitted: Fitted, data: Any, asked: Aggregation) -> Table:
    """`data` as a table with the columns of the model and those that make groups; of a grid they say what a row is."""
    own = [name for name in asked.by if name not in (*_PARTS_OF_TIME, *asked.of_polygons)]
    if asked.weights not in (None, AREA):
        own.append(asked.weights)
    return as_table(data, (*fitted.roles.coordinates, *own))


def aggregate(fitted: Fitted, table: Table, asked: Aggregation, compare: Sequence[Any] | None) -> Any:
    """One row a group, or one row for the difference of the two groups to `compare`."""
    if asked.how not in ("mean", "sum"):
        raise ValueError(f"how must be 'mean' or 'sum'; it is {asked.how!r}")
    rows = read_measurements(table, fitted.roles, with_target=False)
    keys, group = _groups(fitted, table, rows, asked)
    weights = _weights(fitted, table, rows, asked.weights)
    sums = [_sum_of(np.flatnonzero(group == number), weights, asked.how) for number in range(len(keys))]
    if compare is not None:
        keys, sums = _differences(fitted, rows, keys, sums, compare)
    answer = keys.assign(**_answers(fitted, rows, sums, asked))
    if compare is not None and asked.how == "mean":
        for number, each in enumerate(sums):
            _say_what_common_stations_say(
                fitted, rows, each, float(answer["mean"][number]), float(answer["sd"][number])
            )
    answer.insert(len(answer.columns) - 1, "rows", [len(each.rows) for each in sums])
    made = frame_of_kind(answer, table.kind)
    if table.kind in ("pandas", "xarray"):
        made.attrs["of"] = asked.of
    return made


def _groups(
    fitted: Fitted, table: Table, rows: Measurements, asked: Aggregation
) -> tuple["pd.DataFrame", Int[np.ndarray, " row"]]:
    """A line for each group with the columns that make it one, and the group of each row: -1 for none."""
    import pandas as pd

    by = asked.by
    if not by:
        return pd.DataFrame(index=[0]), np.zeros(rows.num_rows, dtype=np.int64)
    said = {} if asked.polygons is None else _by_polygon(fitted, rows, asked.polygons)
    columns = pd.DataFrame({name: said[name] if name in said else _key(fitted, table, rows, name) for name in by})
    grouped = columns.groupby(list(by), sort=True, dropna=True, observed=True)
    number = grouped.ngroup()
    group = number.where(columns.notna().all(axis=1), -1).fillna(-1).to_numpy().astype(np.int64)
    left_out = int(np.count_nonzero(group < 0))
    if left_out == len(group):
        raise ValueError(f"no row has a value of {', '.join(by)}, so there is no group")
    if left_out:
        logger.info("%s of %s rows are in no group (%s is missing) and left out", left_out, len(group), " or ".join(by))
    grouped_rows = np.flatnonzero(group >= 0)
    first = grouped_rows[np.unique(group[grouped_rows], return_index=True)[1]]
    # The number of a polygon tells nobody which it is; what else is said of it stands beside.
    beside = [name for name in said if POLYGON in by and name not in (*by, *_ANSWERS)]
    keys = columns.assign(**{name: said[name] for name in beside}).iloc[first]
    return keys.reset_index(drop=True), group


def _by_polygon(fitted: Fitted, rows: Measurements, polygons: Shapes) -> "dict[str, pd.Series]":
    """What is said of the polygon that each row lies in, nothing where it lies in none."""
    import pandas as pd

    geography = fitted.translation.scaling.geography
    if geography is None or geography.method == "plane":
        raise ValueError("polygons are in degrees, and the model's columns of space are not a longitude and a latitude")
    number = which_polygon(polygons.geometries, rows.space[geography.first], rows.space[geography.second])
    said = {POLYGON: list(range(len(polygons.geometries)))} | polygons.properties
    empty = np.setdiff1d(said[POLYGON], number)
    if len(empty):
        first = ", ".join(f"{name} {values[empty[0]]}" for name, values in said.items())
        logger.warning(
            "%s of %s polygons have no row in them, and no group (%s)", len(empty), len(said[POLYGON]), first
        )
    inside = pd.Series(number >= 0)
    return {
        name: pd.Series(values, dtype=object).reindex(number).reset_index(drop=True).where(inside)
        for name, values in said.items()
    }


def _key(fitted: Fitted, table: Table, rows: Measurements, name: str) -> "pd.Series":
    """A column, or a part of the time where the table has no column of that name."""
    clock = fitted.translation.clock
    if name in table.names or name not in _PARTS_OF_TIME:
        return table.column(name)
    if clock.kind == "number":
        raise KeyError(f"table has no column {name!r}, and its times are plain numbers, which have no {name}")
    return getattr(clock.datetimes(rows.time.column, fitted.roles.time).dt, name)


def _weights(fitted: Fitted, table: Table, rows: Measurements, weights: str | None) -> Float[np.ndarray, " row"]:
    """One number a row: that of a column, the area of a cell of a regular grid, or 1."""
    if weights is None:
        return np.ones(rows.num_rows)
    if weights == AREA and AREA not in table.names:
        geography = fitted.translation.scaling.geography
        if geography is None or geography.method == "plane":
            return np.ones(rows.num_rows)
        return np.cos(np.radians(rows.space[geography.second]))
    found = numbers(table.column(weights), weights)
    if not np.all(found >= 0):
        raise ValueError(f"weights must be zero or positive; column {weights!r} has others, or gaps")
    return found


def _sum_of(rows: Int[np.ndarray, " row"], weights: Float[np.ndarray, " all"], how: str) -> _Sum:
    own = weights[rows]
    if how == "sum":
        return _Sum(rows, own)
    total = float(own.sum())
    if not total > 0:
        raise ValueError("the weights of a group add up to 0, so it has no mean; leave the group out")
    return _Sum(rows, own / total)


def _differences(
    fitted: Fitted, rows: Measurements, keys: "pd.DataFrame", sums: list[_Sum], compare: Sequence[Any]
) -> tuple["pd.DataFrame", list[_Sum]]:
    """The first group less the second; where values of the last column are given, once for each of the other groups."""
    import pandas as pd

    if isinstance(compare, str) or len(compare) != 2:
        raise ValueError(f"compare must be two groups, such as ('1982-1997', '1960-1975'); it is {compare!r}")
    if keys.shape[1] == 0:
        raise ValueError("compare needs groups; name the column that makes them with by=")
    names = list(keys.columns)
    whole = all(isinstance(side, tuple | list) for side in compare)
    own = names if whole else names[-1:]
    sides = [list(side) if isinstance(side, tuple | list) else [side] for side in compare]
    for side in sides:
        if len(side) != len(own):
            raise ValueError(f"a group of {', '.join(own)} has {len(own)} values; {tuple(side)!r} has {len(side)}")
    others = [name for name in names if name not in own]
    found = [_lines(keys, own, side) for side in sides]
    lines, differences = [], []
    for number in found[0]:
        rest = [k for k in found[1] if all(keys[name].iloc[k] == keys[name].iloc[number] for name in others)]
        if not rest:
            continue
        _say_other_places(fitted, rows, sums[number], sums[rest[0]])
        labels = {"a": _label(sides[0]), "b": _label(sides[1])}
        lines.append({name: keys[name].iloc[number] for name in others} | labels)
        differences.append(sums[number].less(sums[rest[0]]))
    if not lines:
        raise ValueError(f"no group of {', '.join(others)} has both {_label(sides[0])!r} and {_label(sides[1])!r}")
    return pd.DataFrame(lines), differences


def _lines(keys: "pd.DataFrame", names: list[str], values: list[Any]) -> list[int]:
    """Which groups have these values, as they are or as they are written."""
    found = [
        k
        for k in range(len(keys))
        if all(
            keys[name].iloc[k] == value or str(keys[name].iloc[k]) == str(value)
            for name, value in zip(names, values, strict=True)
        )
    ]
    if not found:
        there = ["/".join(str(value) for value in line) for line in keys[names].drop_duplicates().to_numpy()]
        shown = ", ".join(there[:10]) + (", ..." if len(there) > 10 else "")
        raise ValueError(f"there is no group {_label(values)!r} of {', '.join(names)}; there are {shown}")
    return found


def _label(values: list[Any]) -> str:
    return "/".join(str(value) for value in values)


def _say_other_places(fitted: Fitted, rows: Measurements, a: _Sum, b: _Sum) -> None:
    """Two groups of other places differ because the places do: a network that moves uphill looks like a climate that cools."""
    space = [rows.space[name] for name in fitted.roles.where if name in rows.space]
    _, place = distinct_rows(space)
    first, second = set(place[a.rows].tolist()), set(place[b.rows].tolist())
    if first != second:
        logger.warning(
            "the two groups are of different places (%d and %d, %d in both), so their difference is also one between "
            "places; ask about the same places in both, those of a grid for instance",
            len(first),
            len(second),
            len(first & second),
        )


def _say_what_common_stations_say(fitted: Fitted, rows: Measurements, both: _Sum, mean: float, sd: float) -> None:
    """Where the network is another one in the second period, stations that were there in both are the check."""
    times = fitted.translation.times(rows)[both.rows]
    found = common_stations(fitted, times[both.weights > 0], times[both.weights < 0])
    if found is not None and found.is_another_network and found.disagrees(mean, sd):
        logger.warning(
            "the difference is %.3g (sd %.2g), but at the %d stations with values in both periods, of %d and %d, it is %.3g (standard "
            "error %.2g): a change of the network may be taken for one of the field. That is so where no component of the model lasts "
            "from one period to the other (gp.summary() says how long each does), and a place's own level is forgotten in between; "
            "trust the common stations, or fit with a kernel that has a component which lasts",
            *(mean, sd, found.num_both, found.num_first, found.num_second, found.difference, found.standard_error),
        )


def _is_exact(fitted: Fitted) -> bool:
    """Whether a sum of the target is a sum of f, plus Gaussian noise where that is asked about."""
    return fitted.translation.target.transform.name == "identity" and isinstance(fitted.model.likelihood, Gaussian)


def _answers(fitted: Fitted, rows: Measurements, sums: list[_Sum], asked: Aggregation) -> dict[str, Any]:
    """Mean, deviation, quantiles, and where the uncertainty is from; a sum over several regions has that of draws."""
    levels = np.asarray(asked.levels)
    mean, sd = np.empty(len(sums)), np.empty(len(sums))
    quantiles = np.empty((len(sums), len(levels)))
    uncertainty = np.full(len(sums), "sampled")
    for chunk in _chunks(sums):
        chosen = np.unique(np.concatenate([sums[k].rows for k in chunk]))
        matrix = np.zeros((len(chunk), len(chosen)))
        for line, k in enumerate(chunk):
            np.add.at(matrix[line], np.searchsorted(chosen, sums[k].rows), sums[k].weights)
        some = rows.take(chosen)
        if _is_exact(fitted):
            mean[chunk], sd[chunk] = _exact(fitted, some, matrix, asked.of)
            quantiles[chunk] = mean[chunk, None] + sd[chunk, None] * special.ndtri(levels)
            if fitted.posterior.is_exact_over(fitted.translation.times(some), fitted.translation.places(some)):
                uncertainty[chunk] = "exact"
        else:
            drawn = _drawn(fitted, some, matrix, asked)
            mean[chunk] = matrix @ _expected(fitted, some, asked.of)
            sd[chunk] = drawn.std(axis=0, ddof=1)
            quantiles[chunk] = np.quantile(drawn, levels, axis=0).T
    named = {quantile_name(level): quantiles[:, k] for k, level in enumerate(asked.levels)}
    return {"mean": mean, "sd": sd, **named, "uncertainty": uncertainty}


def _chunks(sums: list[_Sum]) -> Iterator[Int[np.ndarray, " some"]]:
    """Numbers of sums, so many at once as their weights have room; each chunk costs a pass over the series."""
    first, num_rows = 0, 0
    for number, each in enumerate(sums):
        num_rows += len(each.rows)
        if number > first and num_rows * (number + 1 - first) > _MOST_NUMBERS:
            yield np.arange(first, number)
            first, num_rows = number, len(each.rows)
    yield np.arange(first, len(sums))


def _exact(
    fitted: Fitted, rows: Measurements, matrix: Float[np.ndarray, "sum row"], of: str
) -> tuple[Float[np.ndarray, " sum"], Float[np.ndarray, " sum"]]:
    translation = fitted.translation
    times, places, target = translation.times(rows), translation.places(rows), translation.target
    latent = fitted.posterior.aggregate(times, places, matrix)
    variance = np.maximum(latent.variance, 0.0) * target.scale**2
    if of == "observation":
        # What an observation varies by where f is known.
        nothing = Marginals(np.zeros(len(times)), np.zeros(len(times)))
        emission = fitted.posterior.emission(times, places, translation.row_extras(rows))
        variance = variance + matrix**2 @ Prediction(nothing, emission, target).variance
    return latent.mean * target.scale + target.centre * matrix.sum(axis=1), np.sqrt(variance)


def _expected(fitted: Fitted, rows: Measurements, of: str) -> Float[np.ndarray, " row"]:
    prediction = fitted.prediction(rows)
    return prediction.field()[0] if of == "field" else prediction.mean


def _drawn(
    fitted: Fitted, rows: Measurements, matrix: Float[np.ndarray, "sum row"], asked: Aggregation
) -> Float[np.ndarray, "draw sum"]:
    """Sums of joint draws, a few draws at a time where rows are many."""
    at_once = max(1, min(asked.num_draws, _MOST_NUMBERS // max(rows.num_rows, 1)))
    counts = [min(at_once, asked.num_draws - start) for start in range(0, asked.num_draws, at_once)]
    seeds = np.random.SeedSequence(asked.seed).generate_state(len(counts))
    parts = [
        fitted.draws(rows, count, int(seed), asked.of) @ matrix.T for count, seed in zip(counts, seeds, strict=True)
    ]
    return np.concatenate(parts)
