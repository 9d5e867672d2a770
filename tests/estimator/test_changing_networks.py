# SPDX-License-Identifier: MIT
"""Stations that come and go: what changed in a region must not be what changed in the network."""

import logging

import numpy as np
import pandas as pd
import pytest

import weft

WARMING = 0.6


def changing_network(seed: int = 2) -> pd.DataFrame:
    """Twenty-eight years of a region that warms evenly by 0.6; stations at cold places close, those at warm ones open.

    A place is colder or warmer than others for good, and stations near each other differ too.
    """
    rng = np.random.default_rng(seed)
    count = 18
    lon, lat = rng.uniform(-120.0, -115.0, count), rng.uniform(42.0, 46.0, count)
    own = np.sort(rng.normal(0.0, 2.0, count))
    first, last = np.full(count, 1970), np.full(count, 1997)
    last[:6], first[-6:] = 1984, 1983
    rows = []
    for year in range(1970, 1998):
        weather = 0.8 * np.sin(1.7 * year) + 0.3 * np.cos(lon / 2 + year)
        value = 10.0 + own + weather + (WARMING if year >= 1984 else 0.0) + 0.2 * rng.normal(size=count)
        there = np.flatnonzero((year >= first) & (year <= last))
        rows += [(year, lon[k], lat[k], value[k]) for k in there]
    return pd.DataFrame(rows, columns=["year", "lon", "lat", "value"])


def regional_difference(lasting: float, caplog: pytest.LogCaptureFixture) -> pd.Series:
    """The last ten years less the first ten, over a grid, by a model whose slow component lasts so many years."""
    kernel = 0.85 * weft.Separable(
        space=weft.Matern32([60.0, 60.0]), time=weft.Matern32(lasting)
    ) + 0.15 * weft.Separable(space=weft.Matern32([500.0, 500.0]), time=weft.Matern12(0.7))
    gp = weft.SpaceTimeGP(
        time="year",
        space=("lon", "lat"),
        target="value",
        kernel=kernel,
        likelihood=weft.Gaussian(0.01),
        habits=None,
        pseudo_points=None,
        max_iterations=0,
        progress=None,
    ).fit(changing_network())
    years = np.r_[1970:1980, 1988:1998]
    lon, lat = (each.ravel() for each in np.meshgrid(np.arange(-119.5, -115), np.arange(42.5, 46)))
    grid = pd.concat([pd.DataFrame({"year": year, "lon": lon, "lat": lat}) for year in years])
    grid["period"] = np.where(grid["year"] < 1980, "early", "late")
    with caplog.at_level(logging.WARNING, "weft"):
        return gp.aggregate(grid, by="period", compare=("late", "early")).iloc[0]


def test_a_model_in_which_levels_last_tells_the_warming(caplog: pytest.LogCaptureFixture) -> None:
    found = regional_difference(1000.0, caplog)
    assert abs(found["mean"] - WARMING) < 3 * found["sd"] + 0.15
    assert "stations with values in both periods" not in caplog.text


def test_one_in_which_they_do_not_is_found_out_by_the_common_stations(caplog: pytest.LogCaptureFixture) -> None:
    """The network's change of two degrees and more comes through, and the warning says what the six stations in both do."""
    found = regional_difference(3.0, caplog)
    assert found["mean"] > 2 * WARMING
    assert "at the 6 stations with values in both periods, of 12 and 12" in caplog.text
