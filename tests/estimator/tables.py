# SPDX-License-Identifier: MIT
"""Small tables of measurements that differ in everything they may differ in."""

import numpy as np
import pandas as pd

DAYS = 25
STATIONS = 6


def station_table(seed: int = 3) -> pd.DataFrame:
    """Six stations by 25 days in the order of time, a cycle of a week, a linear effect of wind, a missing value."""
    rng = np.random.default_rng(seed)
    places = np.column_stack(
        [rng.uniform(10.0, 12.0, STATIONS), rng.uniform(47.0, 48.5, STATIONS), rng.uniform(0, 900, STATIONS)]
    )
    days = pd.date_range("2021-03-01", periods=DAYS, freq="D")
    rows = [(day, number, *place) for day in days for number, place in enumerate(places)]
    table = pd.DataFrame(rows, columns=["time", "station", "lon", "lat", "elevation"])
    elapsed = (table["time"] - days[0]).dt.days.to_numpy()
    table["wind"] = rng.normal(3.0, 2.0, len(table))
    table["own_noise"] = rng.uniform(0.001, 0.02, len(table))
    table["value"] = (
        20.0
        + 4.0 * np.sin(elapsed / 5.0)
        + 1.5 * np.cos(2 * np.pi * elapsed / 7.0)
        - 0.004 * table["elevation"]
        + 0.6 * table["wind"]
        + 0.5 * rng.normal(size=len(table))
    )
    table.loc[17, "value"] = np.nan
    return table
