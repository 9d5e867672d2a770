# SPDX-License-Identifier: MIT
"""Tables in many parts: every row comes once, whatever the parts are like."""

import functools
import os

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from pandas.testing import assert_frame_equal

import weft
from tests.distributed.made_rows import noted, rows
from weft.data.files import read_table
from weft.data.packed import PackedTable
from weft.data.parts import parts_of
from weft.distributed.reading import gathered

dd = pytest.importorskip("dask.dataframe")

COLUMNS = ("day", "x", "y", "value")
ROLES = ("day", ("x", "y"), ("value",))


def unpacked(packed: PackedTable) -> pd.DataFrame:
    columns = [each.each.iloc[each.number].reset_index(drop=True) for each in (packed.times, packed.places)]
    return pd.concat([*columns, pd.DataFrame(packed.numbers)], axis=1)


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
    found = unpacked(gathered(dd.from_map(lambda part: part[list(COLUMNS)], parts), *ROLES))
    assert list(found.columns) == list(COLUMNS)
    assert_frame_equal(as_numbers(found), as_numbers(table[list(COLUMNS)]), rtol=1e-6, check_like=True)


def test_a_column_that_is_not_there_is_named_before_any_work():
    lazy = dd.from_pandas(rows(10), npartitions=2)
    with pytest.raises(KeyError, match=r"table has no column 'tmax'; it has \['day'"):
        gathered(lazy, "day", ("x",), ("tmax",))


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
    found = unpacked(gathered(folder, "day", ("x", "y", "year"), ("value",)))
    assert_frame_equal(found[list(COLUMNS)], rows(60)[list(COLUMNS)], check_dtype=False)
    assert found["year"].tolist() == [2019] * 25 + [2021] * 35
    assert_frame_equal(read_table(folder)[list(COLUMNS)], rows(60)[list(COLUMNS)], check_dtype=False)
    found = unpacked(gathered(str(folder / "*" / "part.parquet"), *ROLES))
    assert_frame_equal(found, rows(60)[list(COLUMNS)], check_dtype=False)


def test_parts_say_what_is_wrong_with_them(folder):
    with pytest.raises(KeyError, match=r"part\.parquet' has no column 'tmax'; it has \["):
        gathered(folder, "day", ("x",), ("tmax",))
    with pytest.raises(FileNotFoundError, match=r"matches no parquet files"):
        parts_of(folder / "*.csv")
    (folder / "year=2019" / "part.parquet").write_text("no")
    with pytest.raises(ValueError, match=r"part\.parquet' is not a parquet file, or it is damaged"):
        gathered(folder, *ROLES)


def estimator(**options) -> weft.SpaceTimeGP:
    return weft.SpaceTimeGP(
        **{
            "time": "day",
            "space": ("x", "y"),
            "target": "value",
            "components": ("slow", "fast"),
            "max_iterations": 1,
            "progress": None,
            "engine": "dense",
            "regions": None,
            "habits": None,
            **options,
        }
    )


def test_a_fit_of_parts_is_the_fit_of_the_table(folder):
    gp = estimator()
    asked = rows(5, seed=11)
    expected = gp.fit(rows(60)).predict(asked)["mean"]
    assert gp.fit(folder).predict(asked)["mean"].tolist() == expected.tolist()
    assert gp.num_missing_ == rows(60)["value"].isna().sum()
    lazy = dd.from_pandas(rows(60), npartitions=3, sort=False)
    assert gp.fit(lazy).predict(asked)["mean"].tolist() == expected.tolist()


def test_the_client_there_is_has_a_table_on_dask_read_by_its_workers(client, tmp_path):
    """Nobody names it; there are more workers than parts."""
    asked = rows(5, seed=11)
    expected = estimator().fit(rows(60)).predict(asked)["mean"]
    table = dd.from_map(functools.partial(noted, tmp_path), [rows(60).iloc[:33], rows(60).iloc[33:]], meta=rows(1))
    with client.as_current():
        found = estimator().fit(table)
    readers = {int(file.name) for file in tmp_path.iterdir()}
    assert readers
    assert readers <= set(client.run(os.getpid).values())
    np.testing.assert_allclose(found.predict(asked)["mean"], expected, rtol=1e-9)


def stations() -> pd.DataFrame:
    """Times in two columns, a code for missing values, a covariate of numbers and one of kinds, noise of rows."""
    rng = np.random.default_rng(12)
    station, month = np.tile(np.arange(6), 8), np.repeat(np.arange(8), 6)
    height = np.array([10.0, 250.0, 40.0, 900.0, 90.0, 130.0])[station]
    return pd.DataFrame(
        {
            "year": 2020 + month // 4,
            "month": 1 + 3 * (month % 4),
            "x": np.arange(6.0)[station],
            "height": height,
            "ground": np.array(["clay", "sand"])[station % 2],
            "value": np.where(rng.uniform(size=48) < 0.1, -99.0, height / 300 + rng.normal(size=48)),
            "error": rng.uniform(0.1, 0.2, 48),
        }
    )


def test_every_role_of_a_column_is_read_from_parts():
    gp = estimator(
        time=("year", "month"),
        space=("x",),
        covariates=("height", "ground"),
        missing=-99.0,
        noise_variance="error",
        time_step="1W",
    )
    table = stations()
    expected = gp.fit(table)
    columns, binning, missing = expected.predict(table)["mean"], gp.binning_, gp.num_missing_
    found = gp.fit(dd.from_pandas(table, npartitions=5, sort=False))
    assert found.predict(table)["mean"].tolist() == columns.tolist()
    assert (gp.binning_, gp.num_missing_) == (binning, missing)
    assert missing == np.sum(table["value"] == -99.0) > 0


def test_a_grid_on_dask_is_read_chunk_by_chunk():
    values = np.random.default_rng(13).normal(size=(5, 4, 3))
    coordinates = {"day": pd.date_range("2020-01-02", periods=5), "x": np.arange(4.0), "y": np.arange(3.0)}
    grid = xr.Dataset({"value": (("day", "x", "y"), values), "more": ("x", np.ones(4))}, coordinates)
    found = unpacked(gathered(grid.chunk(day=2, x=3), *ROLES)).sort_values(["day", "x", "y"], ignore_index=True)
    assert_frame_equal(found, grid["value"].to_dataframe().reset_index(), check_dtype=False)


def test_a_place_that_is_not_there_is_told():
    table = rows(30)
    table.loc[[4, 9], "x"] = np.nan
    with pytest.raises(ValueError, match=r"column 'x' must hold a number in every row; 2 rows of 30 hold none"):
        estimator().fit(dd.from_pandas(table, npartitions=2, sort=False))
