# SPDX-License-Identifier: MIT
"""The map's frames: mean, deviation and chance to exceed a threshold of the field, on a grid around the places."""

import base64
import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np
from jaxtyping import Float, Int
from scipy import special

from weft.data.tables import as_table, numbers
from weft.estimator.columns import Measurements
from weft.estimator.gridding import map_columns
from weft.estimator.wide import work_of_a_point
from weft.inference.prediction import Prediction
from weft.report.coast import lines_in_box
from weft.report.content import Layer, MapContent
from weft.report.nearby import from_neighbours
from weft.report.packing import pack
from weft.report.rows import SeenRows, ask, time_labels, values_by_place
from weft.report.size import ReportSize

if TYPE_CHECKING:
    from weft.space_time_gp import SpaceTimeGP

__all__ = ["MapAxes", "MapPlan", "build_map", "map_axes", "nice_threshold", "plan_map"]

# Levels at which quantiles are asked for, to find the chance to exceed a threshold between them: evenly spread over a
# Gaussian's deviations, with six digits, because the name of a column has no more.
_LEVELS = tuple(float(f"{level:.6g}") for level in special.ndtr(np.linspace(-4.0, 4.0, 33)))
_DEVIATES = special.ndtri(np.array(_LEVELS))
_PALETTES = {"mean": "viridis", "sd": "magma", "probability": "cividis"}
_MARGIN = 0.06


@final
@dataclasses.dataclass(frozen=True)
class MapAxes:
    """The two columns a map is drawn over; longitudes are counted from `west`, so that data stay in one piece."""

    x: str
    y: str
    is_degrees: bool
    west: float = -180.0

    def coordinates(self, places: dict[str, np.ndarray]) -> Float[np.ndarray, "place 2"]:
        x = places[self.x]
        if self.is_degrees:
            x = np.mod(x - self.west, 360.0) + self.west
        return np.stack([x, places[self.y]], axis=1)

    def columns(self, points: Float[np.ndarray, "point 2"]) -> dict[str, np.ndarray]:
        """Back to columns of a table; longitudes from -180 to 180."""
        x = points[:, 0]
        return {self.x: np.mod(x + 180.0, 360.0) - 180.0 if self.is_degrees else x, self.y: points[:, 1]}


def map_axes(gp: "SpaceTimeGP", rows: SeenRows) -> MapAxes | None:
    """Longitude and latitude, easting and northing, or the first two columns of space; None where there is only one."""
    geography = gp.fitted_.translation.scaling.geography
    if geography is None:
        space = map_columns(gp.fitted_)
        return MapAxes(space[0], space[1], False) if len(space) > 1 else None
    if geography.method == "plane":
        return MapAxes(geography.first, geography.second, False)
    # Cut the circle of longitudes in the middle of its widest gap.
    around = np.unique(np.mod(rows.places[geography.first], 360.0))
    gaps = np.diff(np.append(around, around[0] + 360.0))
    widest = int(np.argmax(gaps))
    west = float(around[widest] + gaps[widest] / 2)
    # Whole turns, so that the middle of the map is written as people do.
    turns = np.floor((west + 180.0 + 180.0) / 360.0)
    return MapAxes(geography.first, geography.second, True, west - 360.0 * float(turns))


class MapPlan(NamedTuple):
    """Frames of a map over a box of `width` by `height` cells, and what is to be predicted: every cell at each of them."""

    axes: MapAxes
    frames: Float[np.ndarray, " frame"]
    num_times: int
    box: tuple[float, float, float, float]
    stretch: float
    width: int
    height: int
    notes: list[str]
    asked: Measurements


def plan_map(gp: "SpaceTimeGP", rows: SeenRows, axes: MapAxes, *, terrain: Any, size: ReportSize) -> MapPlan:
    """Frames at times spread evenly over those that have values; `terrain` is a table of space's other columns."""
    seen = np.unique(rows.times[rows.present])
    most_frames, most_points = _most(size, work_of_a_point(gp.fitted_.posterior))
    frames = seen[np.unique(np.rint(np.linspace(0, len(seen) - 1, most_frames)).astype(np.int64))]
    at = axes.coordinates(rows.places)
    box, stretch = _box(at, axes)
    width, height = _shape(box, stretch, min(most_points // len(frames), size.most_cells))
    points = _cells(box, width, height)
    columns, notes = _columns_at(gp, rows, axes, at, points, frames, terrain)
    asked = ask(gp, np.repeat(frames, len(points)), columns)
    return MapPlan(
        axes=axes,
        frames=frames,
        num_times=len(seen),
        box=box,
        stretch=stretch,
        width=width,
        height=height,
        notes=notes,
        asked=asked,
    )


def _most(size: ReportSize, work: float) -> tuple[int, int]:
    """Frames, and points of all of them together, where each takes so much work."""
    if work * size.map_points <= size.map_work:
        return size.max_frames, size.map_points
    points = max(int(size.map_work / work), size.fewest_cells)
    return min(size.max_frames, points // size.fewest_cells), points


def build_map(
    gp: "SpaceTimeGP",
    rows: SeenRows,
    stations: Int[np.ndarray, " station"],
    plan: MapPlan,
    prediction: Prediction,
    *,
    threshold: float,
    size: ReportSize,
) -> MapContent:
    """What `plan` asks for, as `prediction` answers it."""
    axes, frames, num_times, box, stretch, width, height, notes, _ = plan
    mean, sd = prediction.field()
    quantiles = prediction.quantile(_LEVELS, of="field")
    layers = (
        _layer("mean", f"Expected {gp.target}", gp.units or "", mean),
        _layer("sd", "Standard deviation of the map", gp.units or "", sd, low=0.0),
        _layer(
            "probability",
            f"Probability of more than {threshold:g} {gp.units or ''}".rstrip(),
            "",
            chance_above(quantiles, threshold),
            low=0.0,
            high=1.0,
        ),
    )
    markers = _markers(rows, stations, frames, size.max_markers)
    coast = axes.is_degrees
    return MapContent(
        box=box,
        stretch=stretch,
        width=width,
        height=height,
        is_geographic=axes.is_degrees,
        axes=(axes.x, axes.y),
        times=time_labels(gp.fitted_.translation.clock, frames),
        first_frame=len(frames) // 2,
        layers=layers,
        threshold=threshold,
        coast=lines_in_box("coast", box) if coast else (),
        borders=lines_in_box("borders", box) if coast else (),
        states=lines_in_box("states", box) if coast else (),
        km_across=_km_across(gp, box, axes),
        markers=_pairs(axes.coordinates(rows.places)[markers]),
        observed=pack(values_by_place(rows, markers, frames).T, bits=16),
        pseudo_points=_pairs(_pseudo_points(gp, axes)),
        notes=(*notes, _marker_note(rows, markers, stations, frames, num_times)),
    )


def chance_above(quantiles: Float[np.ndarray, "row level"], threshold: float) -> Float[np.ndarray, " row"]:
    """The chance to exceed a threshold, from quantiles at `_LEVELS`.

    Straight lines between quantiles over their deviates: exact for a Gaussian, close for whatever it is transformed to.
    """
    right = np.clip(np.sum(quantiles <= threshold, axis=1), 1, len(_DEVIATES) - 1)
    row = np.arange(len(quantiles))
    low, high = quantiles[row, right - 1], quantiles[row, right]
    differ = high > low
    share = np.where(differ, (threshold - low) / np.where(differ, high - low, 1.0), (threshold > low) * 1.0)
    deviate = _DEVIATES[right - 1] + np.clip(share, -4.0, 5.0) * (_DEVIATES[right] - _DEVIATES[right - 1])
    return special.ndtr(-deviate)


def nice_threshold(values: Float[np.ndarray, " value"]) -> float:
    """A round number near the value that one in ten exceeds."""
    step = 10.0 ** np.floor(np.log10(max(float(np.std(values)), 1e-12)))
    return float(np.rint(np.quantile(values, 0.9) / step) * step)


def _layer(
    key: str,
    label: str,
    units: str,
    values: Float[np.ndarray, " row"],
    low: float | None = None,
    high: float | None = None,
) -> Layer:
    import matplotlib

    colours = matplotlib.colormaps[_PALETTES[key]](np.linspace(0.0, 1.0, 255), bytes=True)[:, :3]
    palette = base64.b64encode(np.ascontiguousarray(colours).tobytes()).decode("ascii")
    return Layer(key, label, units, pack(values, bits=8, low=low, high=high), palette)


def _box(at: Float[np.ndarray, "place 2"], axes: MapAxes) -> tuple[tuple[float, float, float, float], float]:
    """West, south, east, north with a margin, and how much longer a unit upwards is than one across."""
    low, high = at.min(axis=0), at.max(axis=0)
    middle = np.radians(np.clip((low[1] + high[1]) / 2, -75.0, 75.0))
    stretch = float(1 / np.cos(middle)) if axes.is_degrees else 1.0
    side = max(high[0] - low[0], (high[1] - low[1]) * stretch, 1e-6)
    # Places in a row still get a map: no box is thinner than a quarter of its length.
    margin = np.maximum(_MARGIN * side, (0.25 * side - np.array([high[0] - low[0], (high[1] - low[1]) * stretch])) / 2)
    margin = margin / np.array([1.0, stretch])
    (west, south), (east, north) = (low - margin).tolist(), (high + margin).tolist()
    if axes.is_degrees:
        south, north = max(south, -89.5), min(north, 89.5)
        if east - west > 360.0:
            west, east = axes.west, axes.west + 360.0
    return (west, south, east, north), stretch


def _km_across(gp: "SpaceTimeGP", box: tuple[float, float, float, float], axes: MapAxes) -> float:
    if axes.is_degrees:
        return float(111.195 * (box[2] - box[0]) * np.cos(np.radians((box[1] + box[3]) / 2)))
    return (box[2] - box[0]) / 1000.0 if gp.fitted_.translation.scaling.geography is not None else 0.0


def _shape(box: tuple[float, float, float, float], stretch: float, cells: int) -> tuple[int, int]:
    """Columns and rows of about `cells` square cells."""
    across, up = box[2] - box[0], (box[3] - box[1]) * stretch
    width = max(2, int(np.sqrt(cells * across / up)))
    return width, max(2, cells // width)


def _cells(box: tuple[float, float, float, float], width: int, height: int) -> Float[np.ndarray, "cell 2"]:
    """Middles of the cells, from north-west, row by row."""
    west, south, east, north = box
    x = west + (np.arange(width) + 0.5) / width * (east - west)
    y = north - (np.arange(height) + 0.5) / height * (north - south)
    return np.stack([np.tile(x, height), np.repeat(y, width)], axis=1)


def _columns_at(
    gp: "SpaceTimeGP",
    rows: SeenRows,
    axes: MapAxes,
    at: Float[np.ndarray, "place 2"],
    points: Float[np.ndarray, "cell 2"],
    frames: Float[np.ndarray, " frame"],
    terrain: Any,
) -> tuple[dict[str, np.ndarray], list[str]]:
    """Every column a prediction needs at every frame and cell, and how those were come by that no map has."""
    notes = []
    columns = {name: np.tile(column, len(frames)) for name, column in axes.columns(points).items()}
    roles = gp.fitted_.roles
    others = [name for name in roles.space if name not in columns and name not in roles.kinds]
    if others and terrain is not None:
        table = as_table(terrain, [axes.x, axes.y, *others])
        known = {name: numbers(table.column(name), name) for name in (axes.x, axes.y, *others)}
        given_at = axes.coordinates(known)
        for name in others:
            columns[name] = np.tile(from_neighbours(given_at, known[name], points, 1), len(frames))
    elif others:
        for name in others:
            columns[name] = np.tile(from_neighbours(at, rows.places[name], points), len(frames))
        notes.append(
            f"Between stations, {_listed(others)} is guessed from the nearest of them, so the map is smoother than the "
            "land; give terrain= for a true one."
        )
    for name, column in rows.varying.items():
        parts = []
        for frame in frames:
            now = np.flatnonzero((rows.times == frame) & ~np.isnan(column))
            parts.append(
                from_neighbours(at[rows.place[now]], column[now], points)
                if len(now)
                else np.full(len(points), np.nanmean(column))
            )
        columns[name] = np.concatenate(parts)
    for name in (*roles.kinds, *rows.measured.categories):
        level = str(rows.measured.usual(name))
        columns[name] = np.full(len(points) * len(frames), level)
        notes.append(f"The map is for {name} {level}, the most frequent.")
    if rows.varying:
        notes.append(f"Between stations, {_listed(list(rows.varying))} is guessed from those that report at the time.")
    if "exposure" in gp.fitted_.roles.extras or "trials" in gp.fitted_.roles.extras:
        notes.append("The map is for an exposure of 1 and one trial.")
    return columns, notes


def _markers(
    rows: SeenRows, stations: Int[np.ndarray, " station"], frames: Float[np.ndarray, " frame"], most: int
) -> Int[np.ndarray, " marker"]:
    """The stations, then other places that report at a frame, the most observed first."""
    counts = rows.counts()
    seen_now = np.zeros(rows.num_places, dtype=bool)
    seen_now[rows.place[np.isin(rows.times, frames)]] = True
    others = np.setdiff1d(np.flatnonzero(counts > 0), stations)
    others = others[np.lexsort((-counts[others], ~seen_now[others]))]
    return np.concatenate([stations, others[: max(0, most - len(stations))]])


def _marker_note(
    rows: SeenRows,
    markers: Int[np.ndarray, " marker"],
    stations: Int[np.ndarray, " station"],
    frames: Float[np.ndarray, " frame"],
    num_times: int,
) -> str:
    said = [f"{len(frames):,} of {num_times:,} times, evenly spread." if len(frames) < num_times else ""]
    if len(markers) < rows.num_places:
        said.append(f"{len(markers):,} of {rows.num_places:,} places are marked.")
    if len(stations) < rows.num_places:
        said.append(f"Series are there for the {len(stations):,} most observed.")
    return " ".join(part for part in said if part)


def _pseudo_points(gp: "SpaceTimeGP", axes: MapAxes) -> Float[np.ndarray, "point 2"]:
    """Where the pseudo-points of the first component are; none for an exact model, whose places they all are."""
    first = np.asarray(gp.model_.bases[0].pseudo_points)
    if not len(first):
        return np.empty((0, 2))
    translation = gp.fitted_.translation
    return axes.coordinates(translation.scaling.inverse(first[:, : translation.num_space]))


def _pairs(points: Float[np.ndarray, "point 2"]) -> tuple[tuple[float, float], ...]:
    return tuple((round(float(x), 5), round(float(y), 5)) for x, y in points)


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
