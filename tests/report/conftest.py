# SPDX-License-Identifier: MIT
"""One small fitted model and its report, shared by the tests of this folder."""

import dataclasses
import pathlib
from typing import Any

import numpy as np
import pandas as pd
import pytest

from weft import SpaceTimeGP
from weft.report import ReportContent, ReportSize, build_report

EVIL = ("<img src=x onerror=alert(1)>", "</script><script>alert(2)</script>", 'O\'Hare & "sons" $x^2$')
SIZE = ReportSize(max_frames=7, map_points=7 * 120, series_points=9 * 200, max_stations=9, strip_columns=20)


@dataclasses.dataclass(frozen=True)
class Written:
    """A report, the model it is of, and the tables behind it."""

    gp: Any
    table: pd.DataFrame
    held_out: pd.DataFrame
    content: ReportContent
    path: pathlib.Path


def weather(num_times: int = 36, seed: int = 3) -> pd.DataFrame:
    """Daily values at ten places around the Strait of Juan de Fuca, ragged and with gaps."""
    rng = np.random.default_rng(seed)
    names = [*EVIL, *(f"station {k}" for k in range(7))]
    lon, lat = -124.6 + 2.4 * rng.random(10), 47.2 + 1.6 * rng.random(10)
    height = 30 + 900 * rng.random(10) ** 2
    day = np.arange(num_times)
    swell = np.cumsum(rng.normal(size=(num_times, 3)), axis=0)
    field = (
        12
        + swell[:, :1]
        + swell[:, 1:2] * (lon - lon.mean())
        + 0.8 * swell[:, 2:] * (lat - lat.mean())
        - 0.006 * height
    )
    value = field + 0.6 * rng.normal(size=field.shape)
    times = np.repeat(np.datetime64("2021-02-20", "us") + day.astype("timedelta64[D]"), 10)
    table = pd.DataFrame(
        {
            "day": times,
            "name": np.tile(names, num_times),
            "lon": np.tile(lon, num_times),
            "lat": np.tile(lat, num_times),
            "height": np.tile(height, num_times),
            "t<max>&": value.reshape(-1),
        }
    )
    kept = table[rng.random(len(table)) < 0.85].reset_index(drop=True)
    kept.loc[kept.index % 29 == 4, "t<max>&"] = np.nan
    return kept


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    everything = weather()
    hold = np.random.default_rng(0).random(len(everything)) < 0.1
    table, held_out = everything[~hold].reset_index(drop=True), everything[hold].reset_index(drop=True)
    gp = SpaceTimeGP(
        time="day",
        space=("lon", "lat", "height"),
        target="t<max>&",
        units="°C",
        pseudo_points=6,
        max_iterations=6,
        # Numbers are computed again from one model; what places add of their own has tests elsewhere.
        habits=None,
        progress=None,
    )
    gp.fit(table)
    path = tmp_path_factory.mktemp("report") / "report.html"
    content = build_report(gp, table, path=path, held_out=held_out, threshold=13.0, size=SIZE, seed=1)
    return Written(gp, table, held_out, content, path)
