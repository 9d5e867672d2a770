# SPDX-License-Identifier: MIT
"""Wrong input that ended in a traceback, or in a sentence that misled."""

import io
import json
import os
import pathlib
import shutil
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xarray as xr

from tests.cli.conftest import Run, assert_refused, folder, run
from weft.cli import application
from weft.data.files import read_table, read_table_to_answer, write_table
from weft.data.outputs import check_outputs
from weft.project import read_settings
from weft.report.build import check_threshold
from weft.training.checkpoint import read_checkpoint

__all__ = ["folder", "run"]


@pytest.mark.parametrize("threshold", [np.nan, np.inf, -np.inf, float("1e400")])
def test_a_threshold_that_is_no_number(threshold: float) -> None:
    with pytest.raises(ValueError, match="threshold must be a finite number"):
        check_threshold(threshold)
    check_threshold(None)
    check_threshold(-3)


def test_a_threshold_in_a_config_was_refused_only_after_the_fit(run: Run, folder: pathlib.Path) -> None:
    pathlib.Path("weft.toml").write_text('[data]\ntable = "none.csv"\n[report]\nthreshold = nan\n')
    assert_refused(run("run"), "threshold must be a finite number")
    assert_refused(run("report", "none.weft", "--threshold", "1e400"), "threshold must be a finite number")


NESTED = {
    "list": pa.array([[1.0], [2.0]]),
    "struct": pa.array([{"a": 1}, {"a": 2}]),
    "binary": pa.array([b"\xff", b"\xfe"]),
}


@pytest.mark.parametrize("kind", NESTED)
def test_columns_that_csv_cannot_hold(kind: str, tmp_path: pathlib.Path) -> None:
    pq.write_table(pa.table({"x": [1.0, 2.0], "odd": NESTED[kind]}), tmp_path / "t.parquet")
    with pytest.raises(ValueError, match=r"column 'odd' holds values of the kind .* csv cannot"):
        read_table_to_answer(tmp_path / "t.parquet", tmp_path / "p.csv")
    with pytest.raises(ValueError, match="column 'odd'"):
        write_table(read_table(tmp_path / "t.parquet"), tmp_path / "p.csv")
    assert os.listdir(tmp_path) == ["t.parquet"]


def test_two_parquet_columns_of_one_name_were_called_damage(tmp_path: pathlib.Path) -> None:
    table = pa.Table.from_arrays([pa.array([1.0]), pa.array([2.0])], names=["y", "y"])
    pq.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(ValueError, match="more than one column 'y'"):
        read_table(tmp_path / "t.parquet")


def test_a_zarr_store_with_a_corrupt_chunk(tmp_path: pathlib.Path) -> None:
    write_table(pd.DataFrame({"a": np.arange(50.0)}), tmp_path / "t.zarr")
    chunks = [path for path in (tmp_path / "t.zarr" / "a").rglob("*") if path.is_file() and path.suffix != ".json"]
    assert chunks
    for chunk in chunks:
        chunk.write_bytes(b"\x00garbage" * 3)
    with pytest.raises(ValueError, match="not a Zarr store, or it is damaged"):
        read_table(tmp_path / "t.zarr")
    shutil.rmtree(tmp_path / "t.zarr")


@pytest.mark.parametrize("text", ["x = " + "[" * 5000 + "]" * 5000, "x = " + "{a=" * 5000 + "1" + "}" * 5000])
def test_a_config_nested_5000_deep(text: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "weft.toml").write_text(text)
    with pytest.raises(ValueError, match=r"weft\.toml'"):
        read_settings(tmp_path / "weft.toml")


def _checkpoint(path: pathlib.Path, header: str) -> pathlib.Path:
    with path.open("wb") as file:
        np.savez(
            file, header=np.array(header), history=np.zeros((0, 5)), finished_points=np.zeros((0, 1)), point=np.ones(1)
        )
    return path


def test_a_checkpoint_nested_5000_deep(tmp_path: pathlib.Path) -> None:
    path = _checkpoint(tmp_path / "c", "[" * 5000 + "]" * 5000)
    with pytest.raises(ValueError, match="not a checkpoint of a fit, or is damaged"):
        read_checkpoint(path, "x")


@pytest.mark.parametrize(("place", "bits"), [(8, 0x01), (10, 0x63)], ids=["encrypted", "another compression"])
def test_a_checkpoint_whose_zip_asks_for_more_than_there_is(place: int, bits: int, tmp_path: pathlib.Path) -> None:
    """One byte of the zip's directory changed: the library's errors were no sentence."""
    path = _checkpoint(tmp_path / "c", "{}")
    whole = bytearray(path.read_bytes())
    whole[whole.index(b"PK\x01\x02") + place] = bits
    path.write_bytes(whole)
    with pytest.raises(ValueError, match="not a checkpoint of a fit, or is damaged"):
        read_checkpoint(path, "x")


@pytest.mark.parametrize("version", ["new", None, [2], 99])
def test_a_checkpoint_of_a_wrong_version(version: object, tmp_path: pathlib.Path) -> None:
    header = {"format": "weft fit", "version": version, "fingerprint": "x", "names": [], "finished": []}
    path = _checkpoint(tmp_path / "c", json.dumps(header | {"running": True, "num_evaluations": 3}))
    with pytest.raises(ValueError, match="checkpoint") as caught:
        read_checkpoint(path, "x")
    assert str(caught.value).endswith(("fit without resuming", "update weft"))


def test_names_that_are_not_utf8(tmp_path: pathlib.Path) -> None:
    name = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.csv")
    pathlib.Path(name).write_text("a\n1\n")
    with pytest.raises(ValueError, match="name is not text in UTF-8; rename it"):
        read_table(name)
    with pytest.raises(ValueError, match="name is not text in UTF-8"):
        check_outputs({}, files={"model": name})
    with pytest.raises(ValueError, match="name is not text in UTF-8"):
        read_settings(name)
    with pytest.raises(ValueError, match="character 0"):
        check_outputs({}, files={"model": tmp_path / "a\0b"})


class _Full(io.StringIO):
    def flush(self) -> None:
        raise OSError(28, "No space left on device")


def test_standard_output_that_is_closed_or_full(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert application.main(["reproduce"]) == 0
    monkeypatch.setattr(application, "_close_output", lambda: None)
    monkeypatch.setattr(sys, "stdout", _Full())
    assert application.main(["reproduce"]) == 2


def _grid(tmp_path: pathlib.Path, **attributes: object) -> pathlib.Path:
    values = np.array([[1.0, 2.0], [9.969209968386869e36, 400.0]], dtype=np.float32)
    data = xr.Dataset({"t": (("y", "x"), values, attributes)}, coords={"y": [0.0, 1.0], "x": [3.0, 4.0]})
    data.to_netcdf(tmp_path / "g.nc", engine="h5netcdf", encoding={"t": {"_FillValue": None}})
    return tmp_path / "g.nc"


@pytest.mark.parametrize(
    ("attributes", "missing"),
    [
        ({}, 1),
        ({"valid_max": 100.0}, 2),
        ({"valid_range": np.array([0.0, 100.0])}, 2),
        ({"valid_range": np.array([1.5, 500.0])}, 2),
        ({"valid_min": np.float32(1.0)}, 1),
        ({"valid_range": "0 to 100"}, 1),
    ],
)
def test_values_that_a_grid_calls_invalid_were_measurements(
    attributes: dict[str, object], missing: int, tmp_path: pathlib.Path
) -> None:
    with pytest.warns(UserWarning, match=f"{missing} of 4 values of 't' .*taken as missing"):
        found = read_table(_grid(tmp_path, **attributes))["t"].to_numpy()
    assert np.isnan(found).sum() == missing
    assert np.isnan(found[1, 0])


def test_a_missing_value_of_another_precision_was_a_measurement(tmp_path: pathlib.Path) -> None:
    path = _grid(tmp_path, missing_value=400.0000001)
    with pytest.warns(UserWarning, match="2 of 4 values"):
        found = read_table(path)["t"].to_numpy()
    np.testing.assert_array_equal(np.isnan(found), [[False, False], [True, True]])


def test_a_valid_range_is_in_the_units_of_packed_numbers(tmp_path: pathlib.Path) -> None:
    data = xr.Dataset({"t": (("x",), np.array([-1.0, 20.0, 30.5]))})
    encoding = {"t": {"dtype": "int16", "scale_factor": 0.1, "add_offset": 10.0, "_FillValue": np.int16(-999)}}
    data["t"].attrs = {"valid_range": np.array([0, 205], dtype=np.int16)}
    data.to_netcdf(tmp_path / "p.nc", engine="h5netcdf", encoding=encoding)
    with pytest.warns(UserWarning, match="1 of 3 values"):
        found = read_table(tmp_path / "p.nc")["t"].to_numpy()
    np.testing.assert_allclose(found, [np.nan, 20.0, 30.5])
