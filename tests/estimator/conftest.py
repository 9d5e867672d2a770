# SPDX-License-Identifier: MIT
"""One estimator fitted once for many tests: each fit compiles anew."""

import pandas as pd
import pytest

import weft
from tests.estimator.tables import station_table


@pytest.fixture(scope="session")
def table() -> pd.DataFrame:
    return station_table()


@pytest.fixture(scope="session")
def fitted(table: pd.DataFrame) -> weft.SpaceTimeGP:
    """Longitude, latitude and height; nothing else asked for. Tests must not change it."""
    gp = weft.SpaceTimeGP(
        time="time", space=("lon", "lat", "elevation"), target="value", max_iterations=4, progress=None, units="degC"
    )
    return gp.fit(table)
