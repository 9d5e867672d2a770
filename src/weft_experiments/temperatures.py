# SPDX-License-Identifier: MIT
"""Sets of daily temperatures for the experiment: the paper's selection from NOAA's files, or the project's real samples of it."""

import dataclasses
import os
import pathlib

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from weft_experiments.learning import data_folder
from weft_experiments.options import RunOptions
from weft_experiments.originals.boxes import Box
from weft_experiments.originals.download import fetch_experiment
from weft_experiments.originals.ghcn_paper import PAPER_BOXES, PLAUSIBLE, paper_temperatures, read_paper_temperatures
from weft_experiments.originals.nasadem import ElevationMap, read_elevation_map
from weft_experiments.results import say

__all__ = ["SAMPLES", "TemperatureSet", "cut_map", "load_sets", "read_elevations"]

WANTED = "NOAA's ghcnd-stations.txt, ghcnd-inventory.txt and daily values (ghcnd_all.tar.gz, .dly or csv)"
PAPER_STATIONS, PAPER_ROWS = 99, 368_357
SAMPLES = {"paper_box": "paper_box_tmax.parquet", "pacific_northwest": "pnw_hcn_tmax_2000_2018.parquet"}
ELEVATIONS = "elevation_grid.parquet"
QUICK_DAYS = 90


@dataclasses.dataclass(frozen=True)
class TemperatureSet:
    """Rows by station number and day, the stations' places (latitude, longitude, hundreds of metres), and the set's story."""

    name: str
    story: str
    stations: pd.DataFrame
    station: Int[np.ndarray, " row"]
    day: Int[np.ndarray, " row"]
    value: Float[np.ndarray, " row"]
    first_date: pd.Timestamp
    elevations: ElevationMap | None
    # What the reader of original files kept, refused and left out, and why tiles of the folder could not be used.
    reading: str | None = None
    no_elevations: str | None = None

    @property
    def places(self) -> Float[np.ndarray, "station 3"]:
        return self.stations[["lat", "lon", "height"]].to_numpy(dtype=np.float64)

    @property
    def num_days(self) -> int:
        return int(self.day.max()) + 1

    def last_days(self, number: int) -> "TemperatureSet":
        """The rows of the last so many days, and the stations that have some."""
        kept = self.day >= self.num_days - number
        numbers, station = np.unique(self.station[kept], return_inverse=True)
        first = self.num_days - number
        return dataclasses.replace(
            self,
            stations=self.stations.iloc[numbers].reset_index(drop=True),
            station=station,
            day=self.day[kept] - first,
            value=self.value[kept],
            first_date=self.first_date + pd.Timedelta(days=first),
            story=f"{self.story} Of these only the last {number:,} days: {len(numbers)} stations and {int(kept.sum()):,} values.",
        )


def load_sets(options: RunOptions) -> list[TemperatureSet]:
    """The project's two samples, or the one set that a folder of NOAA's files holds."""
    if options.download and options.data is not None:
        fetch_experiment("ghcn", options.data)
    folder = data_folder(options, "ghcn_pnw", WANTED)
    if (folder / SAMPLES["paper_box"]).exists():
        chosen = options.sets or (("paper_box",) if options.quick else tuple(SAMPLES))
        unknown = set(chosen) - set(SAMPLES)
        if unknown:
            raise ValueError(f"sets must be among {', '.join(SAMPLES)}; they are {', '.join(chosen)}")
        found = [read_sample(folder, name, options.variant) for name in chosen]
    else:
        found = [read_original(folder, options.variant)]
    days = options.days or (QUICK_DAYS if options.quick else None)
    return found if days is None else [each.last_days(min(days, each.num_days)) for each in found]


def read_original(folder: pathlib.Path, variant: str) -> TemperatureSet:
    selection, report = read_paper_temperatures(folder, variant)
    say(f"ghcn: {report}")
    if selection.table.empty:
        raise ValueError(
            f"{folder} holds no daily maximum of 2000 to 2019 at a station of the paper's box ({variant}):\n{report}"
        )
    story = (
        f"NOAA's files by the paper's selection ({variant}): {len(selection.stations)} stations and {len(selection.table):,} "
        f"values, where the paper had {PAPER_STATIONS} and {PAPER_ROWS:,}. {report.num_rejected:,} values were refused and "
        f"{report.num_left_out:,} left out."
    )
    try:
        elevations, fault = read_elevations(folder, PAPER_BOXES[variant]), None
    except ValueError as error:
        # Elevations are for the maps alone. Where the data were is the user's own, and stays off the page.
        elevations, fault = None, str(error).replace(f"{folder}{os.sep}", "")
        say(f"ghcn: no map will be drawn: {fault}")
    found = make_set("noaa", story, selection.table, selection.stations, elevations)
    return dataclasses.replace(found, reading=str(report), no_elevations=fault)


def read_sample(folder: pathlib.Path, name: str, variant: str) -> TemperatureSet:
    """One of the project's samples; the paper's box is cut as the variant says, the larger set is taken whole."""
    values = pd.read_parquet(folder / SAMPLES[name]).astype({"station": "str"})
    if name == "paper_box":
        values = values[
            PAPER_BOXES[variant].inside(*(values[column].to_numpy(dtype=float) for column in ("lat", "lon")))
        ]
    values = values[(values["value"] > PLAUSIBLE[0]) & (values["value"] < PLAUSIBLE[1])]
    stations = values.drop_duplicates("station").sort_values("station")[["station", "lat", "lon", "elevation"]]
    selection, _ = paper_temperatures(values, stations.reset_index(drop=True))
    cells = len(selection.stations) * selection.num_days
    counts = (
        f"{len(selection.stations)} stations and {len(selection.table):,} values ({len(selection.table) / cells:.1%} of station-days) "
        f"where the paper had {PAPER_STATIONS} and {PAPER_ROWS:,} ({PAPER_ROWS / (PAPER_STATIONS * 7305):.1%})"
    )
    stories = {
        "paper_box": f"The paper's box and days, as far as the archive could be had: {counts}. Until mid 2018 there are twelve "
        "stations or fewer; most report from July 2018 on only. Values that failed a quality check are left out, which the paper "
        "kept.",
        "pacific_northwest": f"A larger box (latitude 41 to 49.1, longitude -125 to -115) of long-running stations, to September "
        f"2018: {counts}. As many stations as the paper over an area ten times as large, so each knows less of its neighbours.",
    }
    columns = selection.stations[["lat", "lon"]]
    box = Box(
        *(float(edge) for edge in (columns["lat"].min() - 0.1, columns["lat"].max() + 0.1)),
        *(float(edge) for edge in (columns["lon"].min() - 0.1, columns["lon"].max() + 0.1)),
    )
    return make_set(name, stories[name], selection.table, selection.stations, read_elevations(folder, box))


def make_set(
    name: str, story: str, table: pd.DataFrame, stations: pd.DataFrame, elevations: ElevationMap | None
) -> TemperatureSet:
    number = pd.Series(np.arange(len(stations)), index=stations["station"])
    return TemperatureSet(
        name,
        story,
        stations,
        number[table["station"]].to_numpy(),
        table["day"].to_numpy(),
        table["value"].to_numpy(dtype=np.float64),
        table["time"].iloc[0] - pd.Timedelta(days=int(table["day"].iloc[0])),
        elevations,
    )


def read_elevations(folder: pathlib.Path, box: Box) -> ElevationMap | None:
    """Elevations for the maps: NASADEM tiles of the folder, else the project's grid, else none."""
    if any(folder.rglob("*.hgt")) or any(folder.rglob("NASADEM*.zip")):
        return read_elevation_map(folder, box, absent_elevation=0.0)
    if not (folder / ELEVATIONS).exists():
        return None
    cells = pd.read_parquet(folder / ELEVATIONS).pivot(index="lat", columns="lon", values="elevation").sort_index()
    whole = ElevationMap(
        cells.index.to_numpy(dtype=float), cells.columns.to_numpy(dtype=float), cells.to_numpy(dtype=float)
    )
    return cut_map(whole, box)


def cut_map(elevations: ElevationMap, box: Box) -> ElevationMap:
    rows = (elevations.latitudes >= box.south) & (elevations.latitudes <= box.north)
    columns = (elevations.longitudes >= box.west) & (elevations.longitudes <= box.east)
    return ElevationMap(
        elevations.latitudes[rows], elevations.longitudes[columns], elevations.elevation[np.ix_(rows, columns)]
    )
