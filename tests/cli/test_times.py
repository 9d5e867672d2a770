# SPDX-License-Identifier: MIT
"""Times on the command line: how they are written, and steps of plain numbers."""

import pathlib

import numpy as np
import pandas as pd
import pytest

from tests.cli.conftest import COLUMNS, Run, assert_refused
from weft.cli.options import DEFAULT_MODEL, ColumnOptions, settings_from


@pytest.fixture
def ambiguous(small_table: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """The small table, its dates with days up to 12 only, written in a way that may have day or month first."""
    table = pd.read_csv(small_table)
    table = table[table["date"] <= "2018-07-12"]
    path = folder / "ambiguous.csv"
    table.assign(date=pd.to_datetime(table["date"]).dt.strftime("%d/%m/%Y")).to_csv(path, index=False)
    return path


def test_dates_that_can_be_read_in_two_ways_are_told_about(run: Run, ambiguous: pathlib.Path) -> None:
    words = ("'date' can be read as '%d/%m/%Y' and as '%m/%d/%Y'", "--time-format")
    assert_refused(run("check", ambiguous), *words)
    assert_refused(run("fit", ambiguous, "--target", "tmax", "-o", "model.weft"), *words)
    reasons = run("init", ambiguous, "--json").json["reasons"]
    assert "can be read as" in reasons["time"]


def test_a_time_format_settles_it_from_fit_to_predictions(
    run: Run, ambiguous: pathlib.Path, folder: pathlib.Path
) -> None:
    said = run("fit", ambiguous, *COLUMNS, "--time-format", "%d/%m/%Y", "-o", "m.weft", "--max-iterations", "1")
    assert said.status == 0, said.err
    assert run("predict", "m.weft", ambiguous, "-o", "p.csv").status == 0
    predicted = pd.read_csv("p.csv")
    assert list(predicted["date"]) == list(pd.read_csv(ambiguous)["date"])
    assert np.isfinite(predicted["mean"]).all()
    pathlib.Path("weft.toml").write_text(
        f'[data]\ntable = "{ambiguous.name}"\ntime_format = "%d/%m/%Y"\ntarget = "tmax"\n'
    )
    checked = run("check", "--json").json
    assert checked["first_time"] == "07/07/2018"
    assert checked["time_unit"] == "days"


@pytest.mark.parametrize(("text", "step"), [("5", 5.0), ("0.25", 0.25), ("1D", "1D")])
def test_a_time_step_may_be_a_number(text: str, step: object) -> None:
    settings = settings_from(None, None, ColumnOptions(time="t", time_step=text), DEFAULT_MODEL)
    assert settings.arguments() == {"time": "t", "time_step": step}
