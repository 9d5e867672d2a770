# SPDX-License-Identifier: MIT
"""A network of stations with known faults: what an audit must find, and nothing else."""

import numpy as np
import pandas as pd

STATIONS, DAYS = 24, 70


def weather(seed: int = 5) -> pd.DataFrame:
    """Temperatures that neighbours share, to a tenth of a degree, in the order of time."""
    rng = np.random.default_rng(seed)
    lon, lat = rng.uniform(8.0, 12.0, STATIONS), rng.uniform(46.0, 49.0, STATIONS)
    day = np.arange(DAYS)
    value = 18.0 + 0.05 * day[:, None] - 1.5 * (lat - 47.5)
    for _ in range(60):
        waves = rng.normal(0.0, 0.7, 2)
        phase = waves[0] * lon + waves[1] * lat + rng.normal(0.0, 0.35) * day[:, None] + rng.uniform(0, 2 * np.pi)
        value = value + 4.0 * np.sqrt(2 / 60) * np.cos(phase)
    value = value + rng.normal(0.0, 0.4, value.shape)
    return pd.DataFrame(
        {
            "time": np.repeat(pd.date_range("2022-04-01", periods=DAYS), STATIONS),
            "station": np.tile(np.arange(STATIONS), DAYS),
            "lon": np.tile(lon, DAYS),
            "lat": np.tile(lat, DAYS),
            "value": np.round(value, 1).ravel(),
        },
        index=pd.RangeIndex(1000, 1000 + STATIONS * DAYS),
    )


def with_faults(table: pd.DataFrame, seed: int = 6) -> tuple[pd.DataFrame, np.ndarray]:
    """The table with faults of every kind, and the name of the fault of each row: "" where there is none."""
    rng = np.random.default_rng(seed)
    wrong, fault = table.copy(), np.full(len(table), "", dtype=object)
    values = wrong["value"].to_numpy().copy()
    station, day = wrong["station"].to_numpy(), np.repeat(np.arange(DAYS), STATIONS)

    def rows(of: int, first: int, last: int) -> np.ndarray:
        return np.flatnonzero((station == of) & (day >= first) & (day < last))

    free = np.flatnonzero(station >= 8)
    single = rng.choice(free, 40, replace=False)
    for kind, some in zip(("code", "sign", "decimal", "unit"), single.reshape(4, 10), strict=True):
        changed = {
            "code": -9999.0,
            "sign": -values[some],
            "decimal": values[some] * 10,
            "unit": values[some] * 1.8 + 32,
        }
        values[some], fault[some] = changed[kind], kind
    stretches = {
        "unit": rows(0, 20, 45),
        "stuck": rows(1, 30, 42),
        "copied": rows(2, 10, 40),
        "shifted": rows(3, 0, DAYS),
    }
    for kind, some in stretches.items():
        fault[some] = kind
        if kind == "unit":
            values[some] = values[some] * 1.8 + 32
        elif kind == "stuck":
            values[some] = values[some[0]]
        elif kind == "copied":
            values[some] = values[rows(4, 10, 40)]
        else:
            values[some] = np.roll(values[some], 3)
    # The first of a stuck run was measured.
    fault[stretches["stuck"][0]] = ""
    wrong["value"] = values
    swapped = rows(5, 0, DAYS)
    fault[swapped] = "coordinates"
    place = wrong.iloc[swapped]
    wrong.iloc[swapped, wrong.columns.get_loc("lon")] = place["lat"].to_numpy()
    wrong.iloc[swapped, wrong.columns.get_loc("lat")] = place["lon"].to_numpy()
    return wrong, fault
