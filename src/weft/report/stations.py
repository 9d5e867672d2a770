# SPDX-License-Identifier: MIT
"""Series at the stations people will look at: what was measured, and what the model expects of a measurement."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from weft.estimator.columns import Measurements
from weft.inference.prediction import Prediction
from weft.report.content import HeldOut, SeriesContent, Station
from weft.report.packing import pack
from weft.report.rows import SeenRows, as_seconds, ask, place_in_words, time_labels, values_by_place
from weft.report.size import ReportSize
from weft.report.validation import HiddenRows

if TYPE_CHECKING:
    from weft.space_time_gp import SpaceTimeGP

__all__ = ["SeriesPlan", "build_series", "choose_stations", "columns_at_stations", "plan_series"]

LEVELS = (0.05, 0.25, 0.75, 0.95)


def choose_stations(rows: SeenRows, most: int) -> Int[np.ndarray, " station"]:
    """The most observed places, in the order of their names."""
    counts = rows.counts()
    busiest = np.argsort(-counts, kind="stable")[:most]
    busiest = busiest[counts[busiest] > 0]
    return np.array(sorted(busiest.tolist(), key=lambda place: rows.names[place]), dtype=np.int64)


class SeriesPlan(NamedTuple):
    """The times that series are shown at, of how many there are, and what is to be predicted: every station at each of them."""

    times: Float[np.ndarray, " time"]
    num_times: int
    asked: Measurements


def plan_series(
    gp: "SpaceTimeGP",
    rows: SeenRows,
    stations: Int[np.ndarray, " station"],
    held_out: SeenRows | None,
    size: ReportSize,
) -> SeriesPlan:
    """Rows held out have their times in it too: they may lie beyond the last one seen."""
    all_times = np.unique(rows.times if held_out is None else np.concatenate([rows.times, held_out.times]))
    times = all_times[-max(2, size.series_points // max(len(stations), 1)) :]
    return SeriesPlan(times, len(all_times), ask(gp, *columns_at_stations(gp, rows, stations, times)))


def build_series(
    gp: "SpaceTimeGP",
    rows: SeenRows,
    stations: Int[np.ndarray, " station"],
    hidden: Sequence[HiddenRows],
    plan: SeriesPlan,
    prediction: Prediction,
    size: ReportSize,
) -> SeriesContent:
    """What `plan` asks for, as `prediction` answers it."""
    times = plan.times
    shape = (len(stations), len(times))
    quantiles = prediction.quantile(LEVELS)
    curves = {"mean": prediction.mean.reshape(shape)}
    curves |= {f"q{level:g}": quantiles[:, number].reshape(shape) for number, level in enumerate(LEVELS)}
    values = values_by_place(rows, stations, times)
    clock = gp.fitted_.translation.clock
    notes = []
    if len(stations) < rows.num_places:
        notes.append(f"The {len(stations):,} most observed of {rows.num_places:,} places.")
    if len(times) < plan.num_times:
        first, last = time_labels(clock, times[[0, -1]])
        notes.append(f"The last {len(times):,} of {plan.num_times:,} times: {first} to {last}.")
    points = _held_out_points(gp, rows, stations, hidden, times, size.max_held_out)
    counts = rows.counts()
    found = []
    for number, place in enumerate(stations):
        packed = {name: pack(curve[number], bits=16) for name, curve in curves.items()}
        found.append(
            Station(
                name=rows.names[place],
                where=place_in_words(rows.places, int(place), 6),
                num_rows=int(counts[place]),
                values=pack(values[number], bits=16),
                mean=packed["mean"],
                q05=packed["q0.05"],
                q25=packed["q0.25"],
                q75=packed["q0.75"],
                q95=packed["q0.95"],
                held_out=points[number],
            )
        )
    has_dates = clock.origin is not None
    return SeriesContent(
        stations=tuple(found),
        times=tuple(as_seconds(clock, times).tolist()),
        has_dates=has_dates,
        time_label="UTC" if clock.time_zone is not None else "" if has_dates else clock.unit,
        notes=tuple(notes),
    )


def columns_at_stations(
    gp: "SpaceTimeGP", rows: SeenRows, stations: Int[np.ndarray, " station"], times: Float[np.ndarray, " time"]
) -> tuple[Float[np.ndarray, " row"], dict[str, np.ndarray]]:
    """Times and columns of every station at every time, station after station.

    Covariates, exposures and the like are those of the station's own rows, with straight lines between them; a category is what it is
    there most often.
    """
    columns = {name: np.repeat(column[stations], len(times)) for name, column in rows.places.items()}
    extras = {gp.fitted_.roles.extras[extra]: column for extra, column in rows.measured.extras.items()}
    varying: Mapping[str, np.ndarray] = {**rows.varying, **extras}
    for name, column in varying.items():
        parts = []
        for place in stations:
            own = np.flatnonzero((rows.place == place) & ~np.isnan(column))
            own = own[np.argsort(rows.times[own], kind="stable")]
            known = (
                np.interp(times, rows.times[own], column[own]) if len(own) else np.full(len(times), np.nanmean(column))
            )
            parts.append(known)
        columns[name] = np.concatenate(parts)
    for name in rows.measured.categories:
        levels = [rows.measured.usual(name, rows.place == place) for place in stations]
        columns[name] = np.repeat(levels, len(times))
    return np.tile(times, len(stations)), columns


def _held_out_points(
    gp: "SpaceTimeGP",
    rows: SeenRows,
    stations: Int[np.ndarray, " station"],
    hidden: Sequence[HiddenRows],
    times: Float[np.ndarray, " time"],
    most: int,
) -> list[HeldOut]:
    """Hidden rows at each station within the series' times, at most so many of all."""
    if not hidden:
        return [HeldOut((), (), (), ()) for _ in stations]
    each = hidden[0]
    coordinates = {name: column[stations] for name, column in rows.places.items()}
    found = []
    share = max(1, most // max(len(stations), 1))
    clock = gp.fitted_.translation.clock
    for number in range(len(stations)):
        here = np.all(
            [each.rows.measured.space[name] == column[number] for name, column in coordinates.items()], axis=0
        )
        inside = (each.rows.times >= times[0]) & (each.rows.times <= times[-1]) & ~np.isnan(each.rows.values)
        own = np.flatnonzero(here & inside)
        own = own[np.argsort(each.rows.times[own], kind="stable")][-share:]
        found.append(
            HeldOut(
                times=tuple(as_seconds(clock, each.rows.times[own]).tolist()),
                values=_short(each.rows.values[own]),
                low=_short(each.low[own]),
                high=_short(each.high[own]),
            )
        )
    return found


def _short(values: Float[np.ndarray, " value"]) -> tuple[float, ...]:
    return tuple(float(f"{value:.6g}") for value in values)
