# SPDX-License-Identifier: MIT
"""The selection of GHCN-Daily in the paper's temperature experiment.

The paper's text and its authors' scripts disagree on the western border: both boxes are here, by name.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from weft_experiments.originals.boxes import Box
from weft_experiments.originals.ghcn import find_inventory, find_stations, read_ghcn
from weft_experiments.originals.ghcn_stations import read_inventory, read_stations
from weft_experiments.originals.rejected import ReadReport, left_out

__all__ = ["PAPER_BOXES", "PaperTemperatures", "paper_stations", "paper_temperatures", "read_paper_temperatures"]

PAPER_BOXES = {
    "scripts": Box(south=47.0, north=49.0, west=-125.0, east=-122.0),
    "text": Box(south=47.0, north=49.0, west=-127.0, east=-122.0),
}
FIRST_YEAR, LAST_YEAR = 1980, 2020
# A station counts if it has a value in the loaded days, though only the used ones enter the experiment.
FIRST_LOADED, FIRST_USED, LAST_USED = "1980-01-01", "2000-01-01", "2019-12-31"
PLAUSIBLE = (-30.0, 60.0)
METRES_A_UNIT = 100.0


@dataclass(frozen=True)
class PaperTemperatures:
    """The experiment's observations, its stations (some may have none) and its number of days.

    `table` has time, station, lon, lat, elevation, value and the model's inputs: `day` counted from the first used day,
    `lat`, `lon` and `height`, the elevation in hundreds of metres.
    """

    table: pd.DataFrame
    stations: pd.DataFrame
    num_days: int


def paper_stations(inventory: pd.DataFrame, box: str | Box = "scripts", element: str = "TMAX") -> list[str]:
    """Identifiers of the stations the paper chose from a table as `read_inventory` gives, in its order.

    Chosen are those strictly in the box whose first or last year lies in 1980..2020. The last year is clipped to 2020
    first: the paper's inventory ended there, and in a newer one every station that goes on has a later last year, so
    that those which began before 1980 would be lost. A station that began after 2020 was not in it.
    """
    rows = inventory[inventory["element"] == element]
    last_year = rows["last_year"].clip(upper=LAST_YEAR)
    in_years = rows["first_year"].between(FIRST_YEAR, LAST_YEAR) | last_year.between(FIRST_YEAR, LAST_YEAR)
    in_years &= rows["first_year"] <= LAST_YEAR
    inside = _box(box).inside(rows["lat"].to_numpy(dtype=float), rows["lon"].to_numpy(dtype=float))
    return list(dict.fromkeys(rows["station"][in_years & inside]))


def paper_temperatures(values: pd.DataFrame, stations: pd.DataFrame) -> tuple[PaperTemperatures, ReadReport]:
    """The paper's window and inputs from values (as `read_ghcn` gives) of the given stations.

    A station with no value since 1980 is dropped, and so is one whose elevation is unknown: it has no input.
    """
    first, last = pd.Timestamp(FIRST_USED), pd.Timestamp(LAST_USED)
    loaded = values[values["time"].between(pd.Timestamp(FIRST_LOADED), last)]
    has_values = stations["station"].isin(loaded["station"].astype("str"))
    has_height = stations["elevation"].notna()
    report = left_out("station without a value from 1980 to 2019", int((~has_values).sum()))
    report += left_out("station without an elevation", int((has_values & ~has_height).sum()))
    chosen = stations[has_values & has_height].reset_index(drop=True)
    # The paper's reader took coordinates in single precision; to the last digit these are its inputs.
    for name in ("lat", "lon", "elevation"):
        chosen[name] = chosen[name].to_numpy(dtype=np.float32).astype(np.float64)
    chosen["height"] = chosen["elevation"] / METRES_A_UNIT
    used = loaded.loc[loaded["time"] >= first, ["time", "station", "value"]].astype({"station": "str"})
    table = used.merge(chosen[["station", "lon", "lat", "elevation", "height"]], on="station", how="inner")
    table["day"] = (table["time"] - first).dt.days
    order = chosen.reset_index().set_index("station")["index"]
    table = table.iloc[np.lexsort([table["station"].map(order), table["day"]])].reset_index(drop=True)
    columns = ["time", "station", "lon", "lat", "elevation", "value", "day", "height"]
    return PaperTemperatures(table[columns], chosen, (last - first).days + 1), report.keeping(len(table))


def read_paper_temperatures(
    folder: str | Path, box: str | Box = "scripts", *, keep_flagged: bool = True
) -> tuple[PaperTemperatures, ReadReport]:
    """The paper's temperatures from a folder of NOAA's files: stations, inventory, and daily values in any layout.

    As in the paper, quality flags are not looked at and only values between -30 and 60 degrees are kept. Without
    an inventory, the stations of the list in the box are taken and their years are those of their values.
    """
    station_list, inventory_file = find_stations(folder), find_inventory(folder)
    if station_list is None:
        raise ValueError(f"{folder} has no ghcnd-stations.txt, which holds the elevations; add it to the folder")
    listed, report = read_stations(station_list)
    if inventory_file is not None:
        inventory, refusals = read_inventory(inventory_file)
        report += refusals
        names = paper_stations(inventory, box)
        order = pd.Series(range(len(names)), index=names)
        chosen = listed[listed["station"].isin(names)].copy()
        chosen = chosen.iloc[np.argsort(chosen["station"].map(order).to_numpy())]
        report += left_out("station of the inventory that is not in the station list", len(names) - len(chosen))
    else:
        report += ReadReport(notes=("no ghcnd-inventory.txt: the years of a station are those of its values",))
        chosen = listed[_box(box).inside(listed["lat"].to_numpy(), listed["lon"].to_numpy())]
    values, refusals = read_ghcn(
        folder,
        stations=chosen,
        only=list(chosen["station"]),
        first=FIRST_LOADED,
        last=LAST_USED,
        keep_flagged=keep_flagged,
        plausible=PLAUSIBLE,
    )
    selection, dropped = paper_temperatures(values, chosen)
    return selection, (report + refusals + dropped).keeping(len(selection.table))


def _box(box: str | Box) -> Box:
    if isinstance(box, Box):
        return box
    if box not in PAPER_BOXES:
        raise ValueError(f"box must be one of {', '.join(PAPER_BOXES)} or a Box; it is {box!r}")
    return PAPER_BOXES[box]
