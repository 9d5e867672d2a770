# SPDX-License-Identifier: MIT
"""Tables in many parts: every row comes once, whatever the parts are like."""

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

import weft
from tests.distributed.test_lazy import rows
from weft.data.files import read_table
from weft.data.parts import parts_of
from weft.distributed.reading import gathered

dd = pytest.importorskip("dask.dataframe")

COLUMNS = ("day", "x", "y", "value")


def uneven(table: pd.DataFrame) -> list[pd.DataFrame]:
    """Unsorted, overlapping, one empty, one whose numbers are text and one whose times are."""
    mixed = table.sample(frac=1.0, random_state=3)
    return [
        mixed.iloc[:30].astype({"x": np.float64, "value": np.float32}),
        mixed.iloc[:0].astype(object),
        mixed.iloc[30:50].astype({"y": str}),
        mixed.iloc[50:].assign(more=1),
    ]


def as_numbers(frame: pd.DataFrame) -> pd.DataFrame:
    numbers = frame.drop(columns="day").astype(np.float64).assign(day=pd.to_datetime(frame["day"]))
    return numbers.sort_values(["x", "y"], ignore_index=True)


def test_parts_of_other_types_are_one_table():
    table = rows(80)
    parts = uneven(table)
    found = gathered(dd.from_map(lambda part: part[list(COLUMNS)], parts), COLUMNS)
    assert list(found.columns) == list(COLUMNS)
    assert_frame_equal(as_numbers(found), as_numbers(table[list(COLUMNS)]), rtol=1e-6, check_like=True)


def test_a_column_that_is_not_there_is_named_before_any_work():
    lazy = dd.from_pandas(rows(10), npartitions=2)
    with pytest.raises(KeyError, match=r"table has no column 'tmax'; it has \['day'"):
        gathered(lazy, ("day", "tmax"))


@pytest.fixture
def folder(tmp_path):
    """A file a year, in folders that are named after it, the second with its columns in another order."""
    table = rows(60).assign(name="a")
    for number, part in enumerate((table.iloc[:25], table.iloc[25:25], table.iloc[25:])):
        place = tmp_path / "rows" / f"year={2019 + number}"
        place.mkdir(parents=True)
        part[part.columns[:: 1 if number else -1]].to_parquet(place / "part.parquet", index=False)
    (tmp_path / "rows" / "_metadata.parquet").write_text("of another program")
    return tmp_path / "rows"


def test_a_folder_of_parquet_files_is_one_table(folder):
    found = gathered(folder, (*COLUMNS, "year"))
    assert_frame_equal(found[list(COLUMNS)], rows(60)[list(COLUMNS)], check_dtype=False)
    assert found["year"].tolist() == [2019] * 25 + [2021] * 35
    assert_frame_equal(read_table(folder)[list(COLUMNS)], rows(60)[list(COLUMNS)], check_dtype=False)
    assert_frame_equal(
        gathered(str(folder / "*" / "part.parquet"), COLUMNS), rows(60)[list(COLUMNS)], check_dtype=False
    )


def test_parts_say_what_is_wrong_with_them(folder):
    with pytest.raises(KeyError, match=r"part\.parquet' has no column 'tmax'; it has \["):
        gathered(folder, ("day", "tmax"))
    with pytest.raises(FileNotFoundError, match=r"matches no parquet files"):
        parts_of(folder / "*.csv")
    (folder / "year=2019" / "part.parquet").write_text("no")
    with pytest.raises(ValueError, match=r"part\.parquet' is not a parquet file, or it is damaged"):
        gathered(folder, COLUMNS)


def test_a_fit_of_parts_is_the_fit_of_the_table(folder):
    options = {"max_iterations": 1, "progress": None, "engine": "dense", "regions": None, "habits": None}
    gp = weft.SpaceTimeGP(time="day", space=("x", "y"), target="value", components=("slow", "fast"), **options)
    asked = rows(5, seed=11)
    expected = gp.fit(rows(60)).predict(asked)["mean"]
    assert gp.fit(folder).predict(asked)["mean"].tolist() == expected.tolist()
    lazy = dd.from_pandas(rows(60), npartitions=3, sort=False)
    assert gp.fit(lazy).predict(asked)["mean"].tolist() == expected.tolist()
