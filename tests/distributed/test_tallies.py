# SPDX-License-Identifier: MIT
"""Counts of a table in many files: those of the table in memory, however its rows are cut into files."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from weft.data.copies import find_copies
from weft.data.inspect import ColumnsCounted, Counts, count_table, counts_of, looked_at, refuse_mixed_units
from weft.data.parts import parts_of
from weft.data.tables import as_table
from weft.distributed import Processes, tallies
from weft.distributed.tallies import Tallied, tally_files
from weft.inference.executor import running_on

COLUMNS = ColumnsCounted("day", ("lon", "lat"), "value", (-99.0,))


def table() -> pd.DataFrame:
    """Gaps in time, values that are missing or coded so, and rows that are there twice: by time and place, with their value, or all."""
    rng = np.random.default_rng(4)
    day, place = np.repeat(np.delete(np.arange(32), [9, 10]), 6), np.tile(np.arange(6), 30)
    value = np.where(rng.uniform(size=180) < 0.1, np.nan, np.rint(rng.gamma(2.0, 12.0, 180)) / 4)
    rows = pd.DataFrame(
        {
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(day, "D"),
            "lon": np.linspace(7.0, 9.0, 6)[place],
            "lat": np.array([0.0, 46.5, 47.0, 46.2, 47.1, 46.8])[place],
            "value": np.where(rng.uniform(size=180) < 0.05, -99.0, value),
            "note": np.array(["a", "b", None], dtype=object)[rng.integers(0, 3, 180)],
        }
    )
    rows.loc[place == 0, "lon"] = 0.0
    again = [
        rows.iloc[[3, 50, 51]].assign(value=7.0),
        rows.iloc[[20, 21]].assign(note="c"),
        rows.iloc[[30, 31, 31, 90]],
        rows.iloc[[40]].assign(value=-99.0),
        rows.iloc[[40]].assign(value=np.nan),
    ]
    return pd.concat([rows, *again], ignore_index=True)


def by_time(rows: pd.DataFrame) -> list[pd.DataFrame]:
    return [rows[rows["day"].dt.day % 4 == k] for k in range(4)]


def by_place(rows: pd.DataFrame) -> list[pd.DataFrame]:
    return [each for _, each in rows.groupby("lon")]


def mixed(rows: pd.DataFrame) -> list[pd.DataFrame]:
    """One file empty, one without a value, and columns of other types, in another order, and one that the others have not."""
    shuffled = rows.sample(frac=1.0, random_state=5)
    return [
        shuffled.iloc[:60].astype({"value": np.float32}),
        shuffled.iloc[:0].astype(object),
        shuffled.iloc[60:100][["note", "value", "lat", "lon", "day"]],
        shuffled.iloc[[5, 70]].assign(value=np.nan, flag=1),
        shuffled.iloc[100:].astype({"day": "datetime64[s]"}),
    ]


def written(folder, parts: list[pd.DataFrame]) -> pd.DataFrame:
    for number, part in enumerate(parts):
        part.to_parquet(folder / f"{number}.parquet", index=False)
    return pd.concat([part for part in parts if len(part)], ignore_index=True)


def counted(found: Tallied, rows: pd.DataFrame) -> Counts:
    return counts_of(found.tally, "value", looked_at(as_table(rows), found.tally.clock, COLUMNS))


@pytest.fixture(autouse=True)
def small_bunches(monkeypatch):
    monkeypatch.setattr(tallies, "ROWS_IN_BUNCH", 40)


@pytest.mark.parametrize("cut", [by_time, by_place, mixed])
def test_files_are_counted_as_their_table_is(tmp_path, cut):
    whole = written(tmp_path, cut(table()))
    found = tally_files(parts_of(tmp_path), COLUMNS)
    expected = count_table(as_table(whole), time="day", space=("lon", "lat"), target="value", missing=(-99.0,))
    assert (expected.num_duplicates, expected.num_identical) >= (10, 6)
    assert dataclasses.asdict(counted(found, whole)) == dataclasses.asdict(expected)
    assert any("rows are at lat 0 and lon 0" in note for note in expected.notes)
    assert found.copies == find_copies(as_table(whole))


def test_workers_count_the_same(tmp_path):
    whole = written(tmp_path, mixed(table()))
    with Processes(2) as workers, running_on(workers):
        found = tally_files(parts_of(tmp_path), COLUMNS)
    here = tally_files(parts_of(tmp_path), COLUMNS)
    assert counted(found, whole) == counted(here, whole)
    assert (found.copies, found.units) == (here.copies, here.units)


def test_rows_that_no_second_file_can_have_are_not_compared(tmp_path, monkeypatch):
    """Files by time have no time in common but for a day at their ends, and those by place no place."""
    compared = []
    inner = tallies._put_into_bunches

    def noted(*given):
        offsets = inner(*given)
        compared.append(int(offsets[-1]))
        return offsets

    monkeypatch.setattr(tallies, "_put_into_bunches", noted)
    rows = table()
    for cut in (by_time, by_place):
        written(tmp_path, cut(rows))
        tally_files(parts_of(tmp_path), COLUMNS)
        for file in tmp_path.iterdir():
            file.unlink()
    assert compared == []
    late = rows["day"] >= pd.Timestamp("2020-01-20")
    written(tmp_path, [rows[~late], rows[late | (rows["day"] == pd.Timestamp("2020-01-19"))]])
    found = tally_files(parts_of(tmp_path), COLUMNS)
    assert compared == [6, 6]
    assert found.copies.number == find_copies(as_table(rows)).number + 6


def test_what_is_wrong_with_a_file_is_said_with_its_name(tmp_path):
    rows = table()
    written(tmp_path, [rows.iloc[:50], rows.iloc[50:].assign(value="much")])
    with pytest.raises(ValueError, match=r"'1\.parquet': column 'value' must hold numbers; row 0"):
        tally_files(parts_of(tmp_path), COLUMNS)
    written(tmp_path, [rows.iloc[:50].assign(lon=np.nan), rows.iloc[50:]])
    with pytest.raises(ValueError, match=r"column 'lon' must hold a number in every row; 50 rows of 191 hold none"):
        tally_files(parts_of(tmp_path), COLUMNS)


def test_units_that_differ_between_files_are_seen(tmp_path):
    rows = table()
    written(tmp_path, [rows.iloc[:50].assign(unit="degC"), rows.iloc[50:].assign(unit="degF")])
    found = tally_files(parts_of(tmp_path), COLUMNS)
    with pytest.raises(ValueError, match="'value' is in degC in some rows and in degF in others"):
        refuse_mixed_units(found.units, "value")
