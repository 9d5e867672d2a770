# SPDX-License-Identifier: MIT
"""A grid over the places a model has seen, with all the columns that `predict` needs."""

import re
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from weft.data.clock import Clock
from weft.data.files import as_dataset
from weft.data.scaling import EARTH_RADIUS_KM, find_lon_lat
from weft.data.tables import as_table
from weft.estimator.fitted import Fitted

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["make_grid", "map_columns", "read_times", "time_coordinate"]

_KM_PER_DEGREE = EARTH_RADIUS_KM * np.pi / 180
_MOST_POINTS = 50_000_000


def make_grid(fitted: Fitted, step: Any, times: Any, terrain: Any, *, land_only: bool) -> "xr.Dataset":
    """Points at multiples of `step` over the box of the places seen; the rest of the columns comes from `terrain`."""
    import xarray as xr

    roles, clock = fitted.roles, fitted.translation.clock
    axes = _axes(fitted, step)
    when = fitted.times[-1:] if times is None else read_times(clock, times, roles.time)
    _refuse_many(step, float(np.prod([len(points) for points in axes.values()])) * len(when))
    heights = _needed_from_terrain(fitted, axes, terrain)
    if land_only and not heights:
        raise ValueError(
            "land_only needs terrain= with the height of a column of the model: land is where it is above 0"
        )
    # The last column of the map runs fastest: rows of a map are latitudes.
    across, *up = axes
    order = [*up, across]
    values = {name: (order, heights[name]) for name in heights}
    grid = xr.Dataset(values, coords={name: axes[name] for name in order})
    if land_only:
        grid = _on_land(grid, next(iter(heights)), order)
    for name in heights:
        missing = int(grid[name].isnull().sum())
        if missing:
            raise ValueError(
                f"terrain has no {name!r} at {missing:,} of {grid[name].size:,} points; fill it in, or leave points "
                "without one out with land_only=True"
            )
    return grid.assign_coords({roles.time: time_coordinate(clock, roles.time, when)})


def map_columns(fitted: Fitted) -> tuple[str, ...]:
    """The columns a map is drawn over, across first: longitude and latitude, easting and northing, or the first two of space."""
    geography = fitted.translation.scaling.geography
    numbers = tuple(name for name in fitted.roles.space if name not in fitted.roles.kinds)
    return numbers[:2] if geography is None else (geography.first, geography.second)


def read_times(clock: Clock, times: Any, name: str) -> Float[np.ndarray, " time"]:
    """One time or several, in any form that a column of times may have, in the clock's unit."""
    import pandas as pd

    several = [times] if isinstance(times, str) or not hasattr(times, "__len__") else times
    column = several if isinstance(several, pd.Series) else pd.Series(np.asarray(several) if len(several) else [])
    if len(column) == 0:
        raise ValueError("times is empty; give at least one time")
    return clock.numbers(column.reset_index(drop=True), name)


def time_coordinate(
    clock: Clock, name: str, times: Float[np.ndarray, " time"]
) -> tuple[str, np.ndarray, dict[str, Any]]:
    """Times as the coordinate of a Dataset: datetimes, in UTC with a note of their zone where they have one, or numbers."""
    import pandas as pd

    column = as_dataset(pd.DataFrame({name: clock.datetimes(clock.restore(times), name)}))[name]
    return (name, column.to_numpy(), dict(column.attrs))


def _axes(fitted: Fitted, step: Any) -> dict[str, Float[np.ndarray, " _"]]:
    """The points along each column of the map."""
    scaling = fitted.translation.scaling
    geography = scaling.geography
    places = scaling.inverse(fitted.seen_places()[:, : fitted.translation.num_space])
    columns = map_columns(fitted)
    is_degrees = geography is not None and geography.method != "plane"
    length, is_km = _read_step(step)
    if is_km and geography is None:
        raise ValueError(
            f"a step in kilometres needs longitude and latitude, or easting and northing; the columns of space are "
            f"{', '.join(fitted.roles.space)}: give a number in their units"
        )
    seen = {name: places[name] for name in columns}
    steps = dict.fromkeys(columns, length)
    if is_degrees:
        longitude, latitude = columns
        seen[longitude] = _in_one_piece(seen[longitude])
        if is_km:
            middle = np.radians(np.clip((seen[latitude].min() + seen[latitude].max()) / 2, -85.0, 85.0))
            steps = {longitude: length / _KM_PER_DEGREE / np.cos(middle), latitude: length / _KM_PER_DEGREE}
    elif is_km:
        steps = dict.fromkeys(columns, length * 1000.0)
    # Before there are any: an axis alone may be longer than memory.
    _refuse_many(step, float(np.prod([np.ptp(seen[name]) / steps[name] for name in columns])))
    axes = {name: _multiples(seen[name], steps[name]) for name in columns}
    if is_degrees:
        longitude, latitude = columns
        axes[latitude] = axes[latitude][np.abs(axes[latitude]) <= 90.0]
        # All the way round, the last meridian would be the first.
        axes[longitude] = axes[longitude][axes[longitude] < axes[longitude][0] + 360.0 - 1e-9]
    return axes


def _refuse_many(step: Any, num_points: float) -> None:
    if num_points > _MOST_POINTS:
        raise ValueError(f"a step of {step!r} makes {num_points:,.0f} points; choose a wider one, or fewer times")


def _read_step(step: Any) -> tuple[float, bool]:
    """A step, and whether it is in kilometres."""
    match = re.fullmatch(r"\s*([0-9.eE+-]+)\s*(km|m)?\s*", step) if isinstance(step, str) else None
    try:
        length = float(step if match is None else match[1])
    except (TypeError, ValueError):
        length = np.nan
    if not 0 < length < np.inf:
        raise ValueError(
            f"step must be a length such as '10km', or a number in the units of the columns of space; it is {step!r}"
        )
    unit = None if match is None else match[2]
    return (length / 1000.0 if unit == "m" else length), unit is not None


def _multiples(values: Float[np.ndarray, " place"], step: float) -> Float[np.ndarray, " point"]:
    """Multiples of the step that just hold all values between them."""
    first, last = np.floor(values.min() / step + 1e-9), np.ceil(values.max() / step - 1e-9)
    # Rounded, so that 3 * 0.1 is 0.3 and a point may be asked for by its name.
    return np.round(np.arange(first, last + 1) * step, 10)


def _in_one_piece(longitudes: Float[np.ndarray, " place"]) -> Float[np.ndarray, " place"]:
    """Longitudes as they are, or counted on beyond 180 where the data lie across the antimeridian."""
    around = np.unique(np.mod(longitudes, 360.0))
    gaps = np.diff(np.append(around, around[0] + 360.0))
    start = around[(int(np.argmax(gaps)) + 1) % len(around)]
    continued = np.mod(longitudes - start, 360.0) + start
    return continued if np.ptp(continued) < np.ptp(longitudes) - 1e-9 else longitudes


def _needed_from_terrain(
    fitted: Fitted, axes: dict[str, Float[np.ndarray, " _"]], terrain: Any
) -> dict[str, np.ndarray]:
    """The columns that the map has no axis for, at its points: numbers, or kinds."""
    needed = [name for name in (*fitted.roles.space, *fitted.roles.covariates) if name not in axes]
    if not needed:
        return {}
    on_map = " and ".join(axes)
    if terrain is None:
        raise ValueError(f"each point of the grid needs {needed[0]!r}; give terrain=, a Dataset of it over {on_map}")
    dataset = _terrain_dataset(terrain, tuple(axes))
    lacking = [name for name in needed if name not in dataset.data_vars]
    if lacking:
        raise KeyError(f"terrain has no {lacking[0]!r}, which the model needs; it has {list(dataset.data_vars)}")
    asked = {}
    for name, points in axes.items():
        known = dataset[name].to_numpy().astype(np.float64)
        turned = np.mod(points - known.min(), 360.0) + known.min() if find_lon_lat([name, "lat"]) else points
        beyond = float(max(known.min() - turned.min(), turned.max() - known.max(), 0.0))
        step = float(np.diff(points).max()) if len(points) > 1 else np.inf
        if beyond > step:
            raise ValueError(
                f"terrain reaches from {known.min():g} to {known.max():g} of {name!r} and the places from "
                f"{points.min():g} to {points.max():g}; give a terrain that covers them"
            )
        # The grid ends at most a step outside the places; there, terrain goes on as at its edge.
        asked[name] = np.clip(turned, known.min(), known.max())
    across, *up = axes
    found = {}
    for name in needed:
        if name in (*fitted.roles.categories, *fitted.roles.kinds):
            # Between two kinds there is nothing: the nearer one.
            found[name] = dataset[name].sel(asked, method="nearest").transpose(*up, across).to_numpy()
        else:
            found[name] = dataset[name].interp(asked).transpose(*up, across).to_numpy().astype(np.float64)
    return found


def _terrain_dataset(terrain: Any, columns: tuple[str, ...]) -> "xr.Dataset":
    """Terrain with the model's own names of the columns of the map, which ascend."""
    import xarray as xr

    if isinstance(terrain, xr.DataArray):
        terrain = terrain.to_dataset(name=terrain.name or "elevation")
    if not isinstance(terrain, xr.Dataset):
        table = as_table(terrain, columns)
        import pandas as pd

        terrain = pd.DataFrame({name: table.column(name) for name in table.names}).set_index(list(columns)).to_xarray()
    if any(name not in terrain.coords for name in columns):
        theirs, ours = find_lon_lat([str(name) for name in terrain.coords]), find_lon_lat(columns)
        if theirs is None or ours is None:
            raise ValueError(
                f"terrain must have coordinates {' and '.join(columns)}; it has {', '.join(map(str, terrain.coords))}"
            )
        terrain = terrain.rename({a: b for a, b in zip(theirs, ours, strict=True) if a != b})
    return terrain.sortby(list(columns))


def _on_land(grid: "xr.Dataset", height: str, order: list[str]) -> "xr.Dataset":
    """The points above sea level, along one dimension `point`."""
    import xarray as xr

    values = {name: grid[name].to_numpy().ravel() for name in grid.data_vars}
    meshed = np.meshgrid(*(grid[name].to_numpy() for name in order), indexing="ij")
    land = np.flatnonzero(values[height] > 0)
    if len(land) == 0:
        raise ValueError(f"no point of the grid is on land: {height!r} is nowhere above 0")
    coordinates = {name: ("point", column.ravel()[land]) for name, column in zip(order, meshed, strict=True)}
    return xr.Dataset({name: ("point", column[land]) for name, column in values.items()}, coords=coordinates)
