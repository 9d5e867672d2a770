# SPDX-License-Identifier: MIT
"""The bundled data, and `weft demo`: real temperatures to scores, a map and a report."""

import dataclasses
import importlib.resources
import pathlib
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, final

import numpy as np

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from weft.space_time_gp import SpaceTimeGP

__all__ = ["DemoResult", "bundled", "heights", "run_demo", "temperatures"]

SPACE = ("lat", "lon", "elevation")
HELD_OUT = 0.1
# A hot day: warm inland, cool at the coast and on the mountains.
MAP_DAY = "2019-06-12"


@final
@dataclasses.dataclass(frozen=True)
class DemoResult:
    """Scores of weft and of the baselines on held-out rows, and the files that were written."""

    scores: dict[str, dict[str, float | int]]
    files: dict[str, str]
    seconds: float


def bundled(name: str) -> pathlib.Path:
    """The path of a bundled file: "tmax.csv.gz" or "elevation.nc"."""
    # The package is installed as files, never inside an archive.
    return pathlib.Path(str(importlib.resources.files("weft") / "demo_data" / name))


def temperatures(*, stations: int | None = None, days: int | None = None) -> "pd.DataFrame":
    """Daily maximum temperature at 61 stations of the Pacific North-West: date, station, lat, lon, elevation, tmax.

    `stations` (spread over the list) and `days` (the first ones) ask for a small cut, to try things out on.
    """
    from weft.data.files import read_table

    table: Any = read_table(bundled("tmax.csv.gz"))
    names, dates = sorted(table["station"].unique()), sorted(table["date"].unique())
    if stations is not None:
        chosen = np.linspace(0, len(names) - 1, min(stations, len(names))).astype(int)
        table = table[table["station"].isin([names[k] for k in chosen])]
    if days is not None:
        table = table[table["date"] <= dates[min(days, len(dates)) - 1]]
    return table.reset_index(drop=True)


def heights(*dates: str) -> "xr.Dataset":
    """The elevation of a grid over the same box, with a coordinate `date` if dates are given: something to predict on."""
    from weft.data.files import read_table

    grid = read_table(bundled("elevation.nc"))
    return grid.assign_coords(date=list(dates)) if dates else grid


def run_demo(folder: str | pathlib.Path, *, say: Callable[[str], Any] = print) -> DemoResult:
    """Fit the bundled temperatures with defaults, score held-out rows, and write a map and a report to `folder`."""
    from weft.data.outputs import check_outputs
    from weft.estimator.evaluation import summaries_of
    from weft.report.build import build_report
    from weft.space_time_gp import SpaceTimeGP

    started = time.perf_counter()
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    files = {"map": folder / "map.png", "report": folder / "report.html", "model": folder / "model.weft"}
    check_outputs({}, files=files)
    table = temperatures()
    held_out = np.random.default_rng(0).random(len(table)) < HELD_OUT
    say(
        f"{len(table):,} daily maxima of temperature at {table['station'].nunique()} stations, "
        f"{table['date'].min()} to {table['date'].max()}; {held_out.sum():,} of them are held out"
    )
    gp = SpaceTimeGP(time="date", space=SPACE, target="tmax", units="degC")
    gp.fit(table[~held_out])
    say(gp.summary())
    scored = gp.score_rows(table[held_out])
    draw_map(gp, table, files["map"])
    gp.save(files["model"])
    build_report(
        gp,
        table[~held_out],
        path=files["report"],
        held_out=table[held_out],
        evaluated={"held_out": scored},
        # Rows at random are what is held out already.
        checks=("station",),
        terrain=heights(),
        station="station",
        command="weft demo",
        title="Daily maximum temperature, Pacific North-West",
    )
    scores = summaries_of(scored, gp.target_sd_)
    return DemoResult(scores, {what: str(file) for what, file in files.items()}, time.perf_counter() - started)


def draw_map(gp: "SpaceTimeGP", table: "pd.DataFrame", path: str | pathlib.Path, date: str = MAP_DAY) -> None:
    """The posterior mean and deviation of the field on one day, with stations and pseudo-points: the paper's first figure."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from weft.data.atomic import whole_file

    grid = gp.predict(heights(date), quantiles=(), of="field").isel(date=0)
    reports = table[table["date"] == date]
    stations = table.drop_duplicates("station")
    points = np.asarray(gp.model_.bases[0].pseudo_points)
    figure = Figure(figsize=(10.5, 3.9), layout="constrained")
    FigureCanvasAgg(figure)
    # At 48 degrees north a degree of longitude is two thirds as long as one of latitude.
    panels = figure.subplots(1, 2, sharey=True, subplot_kw={"aspect": 1 / np.cos(np.radians(48.0))})
    lowest, highest = (float(reports["tmax"].quantile(level)) for level in (0.02, 0.98))
    for panel, name, colours, limits, title in (
        (panels[0], "mean", "RdYlBu_r", (lowest, highest), "mean (°C)"),
        (panels[1], "latent_sd", "viridis", (None, None), "standard deviation (°C)"),
    ):
        mesh = panel.pcolormesh(
            grid["lon"], grid["lat"], grid[name], cmap=colours, vmin=limits[0], vmax=limits[1], shading="nearest"
        )
        figure.colorbar(mesh, ax=panel, pad=0.02, extend="both" if name == "mean" else "neither")
        draw_coast(panel, (-126.0, 47.0, -122.0, 49.0))
        panel.set_title(title, fontsize=10)
        panel.set_xlabel("longitude")
        panel.set_xticks(range(-126, -121))
    panels[0].scatter(
        reports["lon"],
        reports["lat"],
        c=reports["tmax"],
        cmap="RdYlBu_r",
        vmin=lowest,
        vmax=highest,
        s=26,
        lw=0.6,
        ec="k",
    )
    label = "stations" if len(points) else "stations, each a pseudo-point"
    panels[1].plot(stations["lon"], stations["lat"], "o", ms=3.5, mfc="none", mec="w", mew=0.8, label=label)
    if len(points):
        placed = gp.translation_.scaling.inverse(points)
        panels[1].plot(placed["lon"], placed["lat"], "x", ms=4, c="tomato", mew=1.0, label="pseudo-points")
    panels[1].legend(loc="lower left", fontsize=8, framealpha=0.8, facecolor="0.3", labelcolor="w")
    panels[0].set_ylabel("latitude")
    figure.suptitle(f"Daily maximum temperature, {date}: measured (dots) and mapped", fontsize=11)
    with whole_file(path) as part:
        figure.savefig(part, dpi=110, format="png")


def draw_coast(panel: Any, box: tuple[float, float, float, float]) -> None:
    from weft.report.coast import lines_in_box

    west, south, east, north = box
    for line in lines_in_box("coast", box):
        panel.plot(line[0::2], line[1::2], color="0.15", lw=0.8)
    panel.set_xlim(west, east)
    panel.set_ylim(south, north)
