# SPDX-License-Identifier: MIT
"""Pictures of a fitted model by matplotlib: `gp.plot.map(time)`, `.series(station)`, `.components()`, `.calibration()`, `.regions()`.

Each takes `ax=` to draw into, makes a figure otherwise, and gives the Axes back.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, final

import matplotlib
import numpy as np
from jaxtyping import Float
from scipy import special

from weft.arrays import Given
from weft.data.clock import Clock
from weft.data.scaling import Geography
from weft.estimator.gridding import map_columns, read_times
from weft.estimator.precision import in_float64
from weft.estimator.wide import regional_of
from weft.likelihoods import Gaussian
from weft.report.cities import cities_in_box
from weft.report.coast import lines_in_box
from weft.report.nearby import from_neighbours
from weft.report.rows import SeenRows, kept_rows, rows_of_table, time_labels

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

    from weft.space_time_gp import SpaceTimeGP

__all__ = ["PICTURES", "Plots"]

PICTURES = ("map", "series", "components", "calibration", "regions")
# Points of a map for which no step is given.
_MAP_POINTS = 3600
# Names on a map: more hide what it shows.
_MOST_CITIES = 6
_BAND = (0.05, 0.95)
_COVERAGES = np.linspace(0.05, 0.95, 19)


@final
class Plots:
    """Pictures of one estimator."""

    def __init__(self, gp: "SpaceTimeGP"):
        self._gp = gp

    @in_float64
    def map(
        self,
        time: Any = None,
        *,
        what: str = "mean",
        step: Any = None,
        terrain: Any = None,
        ax: "Axes | None" = None,
    ) -> "Axes":
        """The field at one time (the last, unless given), with coast lines, borders, stations and what they measured.

        `what` is "mean" or "sd"; `step` and `terrain` are those of `gp.grid`. Without a terrain, columns such as an elevation
        are interpolated between stations.
        """
        if what not in ("mean", "sd"):
            raise ValueError(f"what must be 'mean' or 'sd'; it is {what!r}")
        gp, ax = self._gp, _axes(ax)
        fitted = gp.fitted_
        if len(map_columns(fitted)) < 2:
            raise ValueError(f"a map needs two columns of space; the model has {map_columns(fitted)[0]!r} alone")
        rows = kept_rows(gp)
        clock = fitted.translation.clock
        when = fitted.times[-1:] if time is None else read_times(clock, time, fitted.roles.time)[:1]
        chosen = _map_step(rows, map_columns(fitted)) if step is None else step
        heights = _between_stations(gp, rows) if terrain is None else terrain
        grid = gp.grid(chosen, clock.restore(when), heights)
        across, up = map_columns(fitted)
        values = gp.predict(grid, quantiles=(), of="field")[what].squeeze(fitted.roles.time).transpose(up, across)
        mesh = ax.pcolormesh(
            grid[across],
            grid[up],
            values,
            shading="nearest",
            cmap="viridis" if what == "mean" else "magma",
            rasterized=True,
        )
        _draw_stations(ax, rows, (across, up), float(when[0]), mesh if what == "mean" else None)
        _orient(ax, fitted.translation.scaling.geography)
        label = _with_units(fitted.roles.target, gp.units)
        ax.figure.colorbar(mesh, ax=ax, shrink=0.8, label=label if what == "mean" else f"deviation of {label}")
        ax.set(xlabel=across, ylabel=up, title=time_labels(clock, when)[0])
        # Longitudes have as many as six characters, which meet in a small picture.
        ax.locator_params(axis="x", nbins=5)
        return ax

    @in_float64
    def series(
        self,
        station: Given[int | str | Mapping[str, float | str] | Sequence[float]] = 0,
        *,
        table: Any = None,
        ax: "Axes | None" = None,
    ) -> "Axes":
        """What was measured at a station, and what the model says would be: mean and 90 % band.

        `station` is a number in the order of the model's places, or a place as `gp.point` takes it; a name where `table` gives the
        stations theirs.
        """
        gp, ax = self._gp, _axes(ax)
        rows = kept_rows(gp) if table is None else rows_of_table(gp, table)
        clock = gp.fitted_.translation.clock
        place: Any
        if np.iterable(station) and not isinstance(station, str):
            # A place, as numbers, by its columns, or a row of a frame.
            place, own, name = station, None, ""
        else:
            own = _station_number(rows, station)
            at = {key: column[own] for key, column in rows.places.items()}
            place, name = {**at, **_covariates_of(gp, rows, own)}, rows.names[own]
        answer = gp.point(place, quantiles=_BAND)
        if own is None:
            said = answer[
                [key for key in (*gp.fitted_.roles.where, *gp.fitted_.roles.covariates) if key in answer]
            ].iloc[0]
            name = ", ".join(
                f"{key} {value if isinstance(value, str) else f'{value:g}'}" for key, value in said.items()
            )
        times = _drawn_times(clock, gp.fitted_.times)
        ax.fill_between(times, answer["q0.05"], answer["q0.95"], alpha=0.25, linewidth=0, label="90 % of measurements")
        ax.plot(times, answer["mean"], label="expected")
        if own is not None:
            seen = rows.present[rows.place[rows.present] == own]
            ax.plot(_drawn_times(clock, rows.times[seen]), rows.values[seen], "k.", markersize=4, label="measured")
        ax.set(ylabel=_with_units(gp.fitted_.roles.target, gp.units), title=name)
        _finish_times(ax, clock)
        ax.legend(frameon=False)
        return ax

    @in_float64
    def components(self, station: int = 0, *, ax: "Axes | None" = None) -> "Axes":
        """What each component says through time at one station, each about its own zero, on the scale of the model."""
        gp, ax = self._gp, _axes(ax)
        fitted, clock = gp.fitted_, gp.fitted_.translation.clock
        rows = kept_rows(gp)
        number = _station_number(rows, station)
        times, places = fitted.times, fitted.seen_places()
        place = places[
            _place_like(fitted.translation.scaling.inverse(places[:, : fitted.translation.num_space]), rows, number)
        ]
        parts = fitted.posterior.components(times, np.tile(place, (len(times), 1)))
        names = [*fitted.all_names, *(f"part {k}" for k in range(len(fitted.all_names), len(parts)))]
        drawn = _drawn_times(clock, times)
        scale = fitted.translation.target.scale
        for name, part in zip(names, parts, strict=False):
            middle, sd = part.mean * scale, np.sqrt(np.maximum(part.variance, 0.0)) * scale
            (line,) = ax.plot(drawn, middle, label=name)
            ax.fill_between(drawn, middle - sd, middle + sd, color=line.get_color(), alpha=0.15, linewidth=0)
        transform = fitted.translation.target.transform.name
        scaled = fitted.roles.target if transform == "identity" else f"{transform} of {fitted.roles.target}"
        ax.axhline(0.0, color="0.6", linewidth=0.8, zorder=0)
        ax.set(ylabel=_with_units(scaled, gp.units if transform == "identity" else None), title=rows.names[number])
        _finish_times(ax, clock)
        ax.legend(frameon=False)
        return ax

    @in_float64
    def calibration(self, table: Any = None, *, ax: "Axes | None" = None) -> "Axes":
        """How many values lie in central intervals, against how many should: the diagonal is right, below it too sure.

        Of the rows of a `table` that the model has not seen; without one, of the rows seen, each as it was forecast from earlier
        times alone.
        """
        gp, ax = self._gp, _axes(ax)
        if table is not None:
            scored = gp.score_rows(table)
            pit, words = scored.loc[scored["model"] == "weft", "pit"].to_numpy(), "rows given"
        elif isinstance(gp.fitted_.model.likelihood, Gaussian):
            ahead = gp.fitted_.posterior.one_step_ahead()
            pit, words = special.ndtr(ahead.residual / np.sqrt(ahead.variance)), "forecasts one time ahead"
        else:
            raise ValueError("of a likelihood that is not Gaussian, calibration needs rows not seen; give table=")
        from_middle = 2 * np.abs(pit - 0.5)
        found = np.mean(from_middle[:, None] <= _COVERAGES, axis=0)
        ax.plot([0, 1], [0, 1], color="0.6", linewidth=0.8)
        ax.plot(_COVERAGES, found, marker="o", markersize=4)
        ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", xlabel="intervals that should hold this share")
        ax.set(ylabel="share of values they hold", title=f"{len(pit):,} {words}")
        return ax

    @in_float64
    def regions(self, *, ax: "Axes | None" = None) -> "Axes":
        """Which region each place belongs to: places in the colour of theirs, its number in its middle."""
        gp, ax = self._gp, _axes(ax)
        fitted = gp.fitted_
        posterior = regional_of(fitted.posterior)
        if posterior is None:
            raise ValueError(
                "one model answers for all places, so there are no regions to draw; regions= of SpaceTimeGP asks for some"
            )
        across, up = map_columns(fitted)
        inverse = fitted.translation.scaling.inverse
        table = gp.regions_
        colours = matplotlib.colormaps["tab10"](np.arange(10))
        for number, region in enumerate(posterior.division.regions):
            own = np.unique(posterior.rows.row_places[region.rows[region.is_core]], axis=0)
            if not len(own):
                continue
            at = inverse(own[:, : fitted.translation.num_space])
            colour = colours[number % len(colours)]
            ax.scatter(at[across], at[up], s=14, color=colour, linewidths=0)
            # In the colour of its places: regions that differ in height have middles close to each other.
            middle = table.iloc[number]
            label = {"ha": "center", "va": "center", "weight": "bold", "color": colour}
            behind = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.7}
            ax.annotate(str(number), (middle[across], middle[up]), bbox=behind, **label)
        _orient(ax, fitted.translation.scaling.geography)
        ax.set(xlabel=across, ylabel=up, title=f"{len(table):,} regions")
        return ax


def _orient(ax: "Axes", geography: Geography | None) -> None:
    """What tells where one is: coast lines, borders and a few cities on a map in degrees, a scale wherever lengths are known."""
    if geography is not None and geography.method != "plane":
        _draw_lines(ax)
        middle = np.radians(np.clip(np.mean(ax.get_ylim()), -80.0, 80.0))
        ax.set_aspect(1 / np.cos(middle))
        _draw_scale(ax, 111.195 * float(np.cos(middle)))
        _draw_cities(ax)
    else:
        ax.set_aspect("equal")
        if geography is not None:
            _draw_scale(ax, 1e-3)


def _axes(ax: "Axes | None") -> "Axes":
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(layout="constrained")[1]


def _with_units(name: str, units: str | None) -> str:
    return name if units is None else f"{name} ({units})"


def _map_step(rows: SeenRows, columns: tuple[str, ...]) -> float:
    extents = [max(float(np.ptp(rows.places[name])), 1e-9) for name in columns]
    return float(f"{np.sqrt(np.prod(extents) / _MAP_POINTS):.2g}")


def _between_stations(gp: "SpaceTimeGP", rows: SeenRows) -> "xr.Dataset | None":
    """The columns that the map has no coordinate for, interpolated between stations; covariates as they are on average, kinds as
    they are most often.
    """
    import xarray as xr

    fitted = gp.fitted_
    across, up = map_columns(fitted)
    kinds = fitted.roles.kinds
    others = [name for name in fitted.roles.space if name not in (across, up, *kinds)]
    if not others and not kinds and not fitted.roles.covariates:
        return None
    at = np.stack([rows.places[across], rows.places[up]], axis=1)
    # Wide enough for a grid that ends a step beyond the stations.
    margin = np.maximum(np.ptp(at, axis=0), 1e-6)
    x, y = (np.linspace(at[:, k].min() - margin[k], at[:, k].max() + margin[k], 120) for k in (0, 1))
    points = np.stack([np.tile(x, len(y)), np.repeat(y, len(x))], axis=1)
    shape = (len(y), len(x))
    values = {name: ((up, across), from_neighbours(at, rows.places[name], points).reshape(shape)) for name in others}
    for name in (*kinds, *fitted.roles.covariates):
        values[name] = ((up, across), np.full(shape, rows.measured.usual(name)))
    return xr.Dataset(values, coords={up: y, across: x})


def _draw_stations(ax: "Axes", rows: SeenRows, columns: tuple[str, str], time: float, mesh: Any) -> None:
    """Small circles in the map's own colours where something was measured at that time, dots where nothing was."""
    across, up = columns
    now = rows.present[rows.times[rows.present] == time]
    quiet = np.setdiff1d(np.arange(rows.num_places), rows.place[now])
    ax.plot(rows.places[across][quiet], rows.places[up][quiet], "k.", markersize=2, alpha=0.5)
    x, y = rows.places[across][rows.place[now]], rows.places[up][rows.place[now]]
    if mesh is None:
        ax.plot(x, y, "wo", markersize=4, markeredgecolor="k", markeredgewidth=0.6)
    elif len(now):
        low, high = mesh.get_clim()
        mesh.set_clim(min(low, rows.values[now].min()), max(high, rows.values[now].max()))
        ax.scatter(x, y, c=rows.values[now], cmap=mesh.cmap, norm=mesh.norm, s=28, edgecolors="w", linewidths=0.8)


def _draw_lines(ax: "Axes") -> None:
    (west, east), (south, north) = ax.get_xlim(), ax.get_ylim()
    drawn = (("states", "0.45", 0.5, ":"), ("borders", "0.3", 0.7, "--"), ("coast", "k", 0.9, "-"))
    for kind, colour, width, dashes in drawn:
        for line in lines_in_box(kind, (west, south, east, north)):
            points: Float[np.ndarray, "point 2"] = np.asarray(line).reshape(-1, 2)
            ax.plot(points[:, 0], points[:, 1], linestyle=dashes, color=colour, linewidth=width)
    ax.set_xlim(west, east)
    ax.set_ylim(south, north)


def _draw_cities(ax: "Axes") -> None:
    """A few names to orient by; the map stays as wide as it is."""
    import matplotlib.patheffects as effects

    (west, east), (south, north) = ax.get_xlim(), ax.get_ylim()
    around = [effects.withStroke(linewidth=2.0, foreground="w", alpha=0.8)]
    for city in cities_in_box((west, south, east, north), _MOST_CITIES):
        ax.plot(city.longitude, city.latitude, "s", color="k", markersize=2.5)
        # Near the eastern rim there is no room for a name to the right.
        side = -1 if city.longitude > west + 0.8 * (east - west) else 1
        at = (city.longitude + side * 0.012 * (east - west), city.latitude)
        towards = "left" if side > 0 else "right"
        ax.text(*at, city.name, fontsize="x-small", va="center", ha=towards, clip_on=True, path_effects=around)
    ax.set_xlim(west, east)
    ax.set_ylim(south, north)


def _draw_scale(ax: "Axes", km_per_unit: float) -> None:
    """A bar of a round number of kilometres, about a fifth of the map, in its lower left corner."""
    (west, east), (south, north) = ax.get_xlim(), ax.get_ylim()
    wanted = 0.2 * (east - west) * km_per_unit
    power = 10.0 ** np.floor(np.log10(wanted))
    length = power * max(each for each in (1, 2, 5) if each * power <= wanted * (1 + 1e-9))
    x, y = west + 0.04 * (east - west), south + 0.05 * (north - south)
    for colour, width in (("w", 5.0), ("k", 2.0)):
        ax.plot([x, x + length / km_per_unit], [y, y], color=colour, linewidth=width, solid_capstyle="butt")
    ax.text(
        *(x + length / km_per_unit / 2, y + 0.015 * (north - south), f"{length:g} km"),
        ha="center",
        va="bottom",
        fontsize="small",
        bbox={"facecolor": "w", "alpha": 0.7, "edgecolor": "none", "pad": 1},
    )


def _station_number(rows: SeenRows, station: int | str) -> int:
    if isinstance(station, str):
        if not rows.has_names:
            raise ValueError(
                f"the model does not know stations by name; give table= with a column of names for {station!r}"
            )
        if station not in rows.names:
            raise ValueError(f"there is no station {station!r}; there are {', '.join(rows.names[:8])}, ...")
        return rows.names.index(station)
    if not 0 <= station < rows.num_places:
        raise ValueError(f"stations are numbered from 0 to {rows.num_places - 1}; there is no {station}")
    return int(station)


def _covariates_of(gp: "SpaceTimeGP", rows: SeenRows, place: int) -> dict[str, float | str]:
    """Covariates at a place, as they are there on average."""
    own = rows.place == place
    return {name: rows.measured.usual(name, own) for name in gp.fitted_.roles.covariates}


def _place_like(known: Mapping[str, np.ndarray], rows: SeenRows, number: int) -> int:
    """Which of the places the posterior knows is that of a station: the nearest, for digits may differ."""
    apart = [_apart(column, rows.places[name][number]) for name, column in known.items()]
    return int(np.argmin(np.sum(apart, axis=0)))


def _apart(column: np.ndarray, value: Any) -> Float[np.ndarray, " place"]:
    """Squared distances in deviations; of kinds, beyond any where they are not the same."""
    if column.dtype.kind == "U":
        return np.where(column == value, 0.0, 1e6)
    return ((column - value) / (np.std(column) or 1.0)) ** 2


def _drawn_times(clock: Clock, times: Float[np.ndarray, " time"]) -> Any:
    """Times for an axis: datetimes, without their zone, or numbers."""
    column = clock.datetimes(clock.restore(times))
    if clock.kind == "number":
        return column.to_numpy()
    return (column if column.dt.tz is None else column.dt.tz_localize(None)).to_numpy()


def _finish_times(ax: "Axes", clock: Clock) -> None:
    if clock.kind == "number":
        ax.set_xlabel("time")
        return
    import matplotlib.dates

    locator = matplotlib.dates.AutoDateLocator()
    ax.xaxis.set_major_locator(locator)
    ax.xaxis.set_major_formatter(matplotlib.dates.ConciseDateFormatter(locator))
