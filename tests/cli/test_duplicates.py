# SPDX-License-Identifier: MIT
"""Rows that repeat another in every column: refused where they cannot be measurements, unless they are said to be."""

import os
import pathlib
from typing import Any

import pandas as pd

from tests.cli.conftest import COLUMNS, Run, assert_refused
from weft.project.settings import ReportSettings, Settings
from weft.project.surveys import arranged, surveyed


def test_copies_are_refused_before_any_fit(run: Run, folder: pathlib.Path, small_table: pathlib.Path) -> None:
    table = pd.read_csv(small_table)
    pd.concat([table, table[2:3]]).to_csv("twice.csv", index=False)
    words = (f"1 of {len(table) + 1} rows repeats", f"row {len(table)} (counting from 0) does row 2", "remove")
    assert_refused(run("fit", "twice.csv", *COLUMNS), *words, "--keep-duplicates")
    pathlib.Path("weft.toml").write_text("[data]\ntable = 'twice.csv'\n")
    assert_refused(run("run"), *words, "keep_duplicates = true")
    assert sorted(os.listdir(folder)) == ["twice.csv", "weft.toml"]


def test_check_counts_copies_and_says_what_becomes_of_them(run: Run, small_table: pathlib.Path) -> None:
    table = pd.read_csv(small_table)
    again = table[:3].assign(tmax=lambda rows: rows["tmax"].where(rows.index != 1, 99.0))
    pd.concat([table, again]).to_csv("rows.csv", index=False)
    record = run("check", "rows.csv", "--json").json
    assert (record["num_duplicates"], record["num_copies"]) == (3, 2)
    outcome = run("check", "rows.csv")
    assert "repeating every column" in outcome.out
    assert "note: fit and run refuse this table: 2 of" in outcome.out
    assert "fit and run refuse this table: 2 of" in run("init", "rows.csv").out


def test_which_copies_may_be_measurements(small_table: pathlib.Path) -> None:
    def objection(data: pd.DataFrame, *, target: str = "tmax", **said: Any) -> str | None:
        known = Settings(options={"time": "date", "space": ("lat", "lon"), "target": target}, **said)
        return surveyed(known, arranged(data, None, known.options), advised=False).objection

    table = pd.read_csv(small_table)
    flats = table.drop(columns="station")
    few, many = (pd.concat([flats, flats[:count]]) for count in (len(flats) // 10, len(flats) // 8))
    # Without stations a few are no wonder, more than a tenth are.
    assert objection(few) is None
    assert objection(many) is not None
    assert objection(many, keep_duplicates=True) is None
    # Another value at the same time and place is another measurement.
    assert objection(pd.concat([table, table[:3].assign(tmax=99.0)])) is None
    # A column that the config names makes stations of places, whatever it is called; a target never does.
    said = objection(few, report=ReportSettings(station="elevation"))
    assert said is not None
    assert f"{len(flats) // 10} of {len(few)} rows repeat another in every column" in said
    assert objection(few.rename(columns={"tmax": "site_level"}), target="site_level") is None
