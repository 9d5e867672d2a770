# SPDX-License-Identifier: MIT
import errno
import gzip
import os
import shutil
import subprocess

import h5netcdf
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xarray as xr

from weft.data import atomic
from weft.data.atomic import check_output, whole_file, whole_folder
from weft.data.clock import learn_clock
from weft.data.files import file_kind, read_table, write_pieces, write_table
from weft.data.tables import as_table, numbers
from weft.extras import is_installed

TABLES = ["t.csv", "t.csv.gz", "t.parquet", "t.nc", "t.zarr"]


@pytest.fixture
def frame():
    return pd.DataFrame(
        {
            "time": pd.to_datetime(["2020-01-02 06:00", "2020-01-01 00:00", "2020-01-01 00:00"]).tz_localize(
                "Europe/Rome"
            ),
            "station": ["NA", "007", 'a "quoted", one'],
            "value": [0.1, np.nan, -1e-17],
            "count": [2, 1, 1],
        }
    )


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_every_kind_of_table_through_every_kind_of_file(tmp_path, frame, name, kind):
    native = {"pandas": frame, "polars": pl.from_pandas(frame), "pyarrow": pa.Table.from_pandas(frame)}[kind]
    write_table(native, tmp_path / name)
    table = as_table(read_table(tmp_path / name))
    np.testing.assert_array_equal(numbers(table.column("value"), "value"), frame["value"])
    np.testing.assert_array_equal(numbers(table.column("count"), "count"), frame["count"])
    assert list(table.column("station")) == list(frame["station"])
    times = table.column("time")
    # Local midnight in Rome is 23:00 UTC the day before: no file may shift it.
    clock = learn_clock(times, unit="hours")
    assert (clock.origin, clock.numbers(times).tolist()) == ("2019-12-31", [53.0, 23.0, 23.0])
    # csv has offsets, and the rest the zone.
    assert clock.time_zone == ("UTC" if "csv" in name else "Europe/Rome")
    assert os.listdir(tmp_path) == [name]


def test_a_zone_that_is_none_is_refused():
    times = xr.Variable("row", np.array(["2020-01-01"], dtype="datetime64[ns]"), {"time_zone": "Mars/Olympus"})
    with pytest.raises(ValueError, match="time_zone of 't' must name a time zone; it is 'Mars/Olympus'"):
        as_table(xr.Dataset({"t": times})).column("t")


def test_times_of_a_fixed_offset_keep_it_in_netcdf(tmp_path):
    times = pd.to_datetime(["2020-01-01T06:00+01:00", "2020-01-02T06:00+01:00"])
    write_table(pd.DataFrame({"t": times}), tmp_path / "t.nc")
    back = as_table(read_table(tmp_path / "t.nc")).column("t")
    assert [str(time) for time in back] == [str(time) for time in times]


def test_parquet_keeps_types_and_index(tmp_path, frame):
    frame = frame.set_index(pd.Index([5, 5, 3], name="row"))
    frame["station"] = frame["station"].astype("category")
    write_table(frame, tmp_path / "t.parquet")
    pd.testing.assert_frame_equal(read_table(tmp_path / "t.parquet"), frame)


def test_csv_is_written_as_a_person_would(tmp_path):
    frame = pd.DataFrame(
        {
            "time": pd.to_datetime(["2020-01-02", None]),
            "at": pd.to_datetime(["2020-01-02 03:04:05", "2020-01-01 00:00:00"]),
            "v": [0.1, np.nan],
            "s": ["a", None],
        }
    )
    write_table(frame.set_index(pd.Index(["p", "q"], name="id")), tmp_path / "t.csv")
    assert (
        tmp_path / "t.csv"
    ).read_text() == "id,time,at,v,s\np,2020-01-02,2020-01-02T03:04:05,0.1,a\nq,,2020-01-01T00:00:00,,\n"


def test_csv_as_people_write_it(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes('\ufeffdate;code;x;"two\nlines"\n01.02.2020;007; 1.5 ;a\n02.02.2020;NA;NA;b\n'.encode())
    table = read_table(path)
    assert list(table.columns)[:3] == ["date", "code", "x"]
    assert list(table["date"]) == ["01.02.2020", "02.02.2020"]
    assert list(table["code"]) == ["007", "NA"]
    np.testing.assert_array_equal(table["x"], [1.5, np.nan])


def test_blanks_around_column_names_of_csv_are_left_out(tmp_path):
    (tmp_path / "t.csv").write_text(' date, t max ,"code" \n2020-01-01, 1.5,007\n')
    table = read_table(tmp_path / "t.csv")
    assert list(table.columns) == ["date", "t max", "code"]
    assert table.to_dict("list") == {"date": ["2020-01-01"], "t max": [1.5], "code": ["007"]}


@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_decimal_commas_where_commas_do_not_separate(tmp_path, separator):
    rows = [["day", "lat", "v", "n", "note"], ["01.02.2020", "46,27", "-1,5e3", "2", "1,2 m"]]
    rows += [["02.02.2020", "47", "NA", "3", "x"]]
    (tmp_path / "t.csv").write_text("\n".join(separator.join(row) for row in rows))
    table = read_table(tmp_path / "t.csv")
    assert table["lat"].tolist() == [46.27, 47.0]
    np.testing.assert_array_equal(table["v"], [-1500.0, np.nan])
    assert table["n"].tolist() == [2, 3]
    assert table["note"].tolist() == ["1,2 m", "x"]
    assert table["day"].tolist() == ["01.02.2020", "02.02.2020"]
    write_table(table, tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text().splitlines()[1] == '"01.02.2020",46.27,-1500,2,"1,2 m"'


def test_decimal_points_beside_lists_of_numbers_stay_points(tmp_path):
    (tmp_path / "t.csv").write_text("v;list\n1.5;1,2\n2.5;3,4\n")
    assert read_table(tmp_path / "t.csv").to_dict("list") == {"v": [1.5, 2.5], "list": ["1,2", "3,4"]}


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
@pytest.mark.parametrize("code", ["007", '"007"', " 007 ", "00"])
def test_codes_that_come_late_stay_text(tmp_path, monkeypatch, name, code):
    monkeypatch.setattr("weft.data.csv_text._SCANNED_BYTES", 1000)
    write = gzip.open if name.endswith("gz") else open
    with write(tmp_path / name, "wt") as file:
        file.write("n,station,v\n" + "".join(f"{k},{100 + k % 7},0.5\n" for k in range(3000)))
        file.write(f"3000,{code},10")
    table = read_table(tmp_path / name)
    assert table["station"].iloc[0] == "100"
    assert table["station"].iloc[-1].strip() == code.strip('" ')
    assert table["n"].iloc[-1] == 3000
    assert table["v"].iloc[-1] == 10


@pytest.mark.parametrize("block", range(90, 110))
def test_codes_are_found_wherever_a_block_of_bytes_ends(tmp_path, monkeypatch, block):
    monkeypatch.setattr("weft.data.csv_text._SNIFFED_ROWS", 1)
    monkeypatch.setattr("weft.data.csv_text._SCANNED_BYTES", block)
    (tmp_path / "t.csv").write_text("station\n" + "11\n" * 29 + "0123456\n" + "12\n" * 30)
    assert read_table(tmp_path / "t.csv")["station"].iloc[29] == "0123456"


def grid(days):
    values = np.arange(len(days) * 6.0).reshape(len(days), 2, 3) + days[0]
    values[0, 0, 0] = np.nan
    return xr.Dataset(
        {"mean": (("time", "lat", "lon"), values), "height": (("lat", "lon"), np.ones((2, 3)))},
        coords={
            "time": np.datetime64("2020-01-01", "ns") + np.array(days, dtype="timedelta64[D]"),
            "lat": [1.0, 2.0],
            "lon": [3.0, 4.0, 5.0],
        },
        attrs={"Conventions": "CF-1.11"},
    )


@pytest.mark.parametrize("name", ["g.nc", "g.zarr"])
def test_grids_written_whole_or_in_pieces_are_the_same(tmp_path, name):
    pieces = [grid([0, 1]), grid([2]), grid([5, 6, 7])]
    whole = xr.concat(pieces, "time", data_vars="minimal", coords="minimal", compat="override", join="exact")
    write_table(whole, tmp_path / f"whole-{name}")
    write_pieces(iter(pieces), tmp_path / name)
    for path in (tmp_path / name, tmp_path / f"whole-{name}"):
        back = read_table(path)
        xr.testing.assert_identical(back[["mean", "height"]], whole[["mean", "height"]])
    write_table(pieces[0], tmp_path / name)  # over the old one
    xr.testing.assert_identical(read_table(tmp_path / name), pieces[0])
    with pytest.raises(ValueError, match="differ"):
        write_pieces([grid([0]), grid([1]).drop_vars("height")], tmp_path / name)
    xr.testing.assert_identical(read_table(tmp_path / name), pieces[0])
    assert sorted(os.listdir(tmp_path)) == sorted([name, f"whole-{name}"])


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.csv.gz"])
def test_frames_written_in_pieces(tmp_path, name):
    pieces = [pd.DataFrame({"a": [1.5, 2.0], "s": ["x", "y"]}), pd.DataFrame({"a": [3.0], "s": ["z,"]})]
    write_pieces((piece for piece in pieces), tmp_path / name)
    pd.testing.assert_frame_equal(read_table(tmp_path / name), pd.concat(pieces, ignore_index=True))
    with pytest.raises(ValueError, match="nothing to write"):
        write_pieces([], tmp_path / name)


def test_classic_netcdf_and_grids_as_rows(tmp_path):
    dataset = grid([0, 1])
    dataset.to_netcdf(tmp_path / "old.nc", engine="scipy")
    xr.testing.assert_equal(read_table(tmp_path / "old.nc"), dataset)
    write_table(dataset, tmp_path / "rows.csv")
    rows = read_table(tmp_path / "rows.csv")
    assert list(rows.columns) == ["time", "lat", "lon", "mean", "height"]
    np.testing.assert_array_equal(rows["mean"], dataset["mean"].to_numpy().ravel())


@pytest.mark.parametrize(
    ("name", "content", "error", "words"),
    [
        ("t.csv", b"", ValueError, "is empty"),
        ("t.csv", b"\n \n", ValueError, "is empty"),
        ("t.csv", b"a,b\n", ValueError, "header but no rows"),
        (
            "t.csv",
            b"a,b\n1,2\n3\n",
            ValueError,
            "is not a table: there are 2 names of columns and 1 field in '3'; mend such lines",
        ),
        ("t.csv", b"a,a\n1,2\n", ValueError, "more than one column named 'a'"),
        ("t.csv", b"\x89PNG\r\n\x1a\n\x00\x00", ValueError, "not a table: it holds binary data"),
        ("t.csv", b"<!DOCTYPE html><p>", ValueError, "not a table: it starts with"),
        ("t.csv", b"a, a \n1,2\n", ValueError, "more than one column named 'a'"),
        ("t.csv", b"a,b\n1,\x81\n", ValueError, "not UTF-8; save it as UTF-8"),
        (
            "t.csv",
            "a,b\n1,é\n".encode() + b"2,\xe9\n",
            ValueError,
            "in UTF-8 and text that is not; save all of it as UTF-8",
        ),
        ("t.csv.gz", b"a,b\n1,2\n", ValueError, "not a gzipped file"),
        # Without a time of writing: it would be part of the test's name, and differ between the workers that collect it.
        ("t.csv.gz", gzip.compress(b"a,b\n1,2\n" * 5000, mtime=0)[:-20], ValueError, "cut short"),
        ("t.parquet", b"not parquet at all", ValueError, "not a parquet file"),
        ("t.nc", b"not NetCDF at all", ValueError, "not a NetCDF file"),
        ("t.zarr", None, ValueError, "not a Zarr store"),
        pytest.param(
            *("t.xlsx", b"PK", ValueError, "not an Excel workbook"),
            marks=pytest.mark.skipif(not is_installed("excel"), reason="Excel workbooks need an extra"),
        ),
        ("t.doc", b"PK", ValueError, r"must end in \.csv"),
    ],
)
def test_files_that_are_no_tables(tmp_path, name, content, error, words):
    path = tmp_path / name
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
    with pytest.raises(error, match=words) as caught:
        read_table(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["t.nc", "t.zarr"])
def test_a_calendar_of_climate_models_is_named(tmp_path, name):
    days = xr.Variable("time", [0, 1], {"units": "days since 2000-02-28", "calendar": "noleap"})
    dataset = xr.Dataset({"v": ("time", [1.0, 2.0])}, coords={"time": days})
    if name.endswith("nc"):
        dataset.to_netcdf(tmp_path / name, engine="h5netcdf")
    else:
        dataset.to_zarr(tmp_path / name, consolidated=False)
    with pytest.raises(
        ValueError, match=r"times \('time'\) in the calendar 'noleap', .*; convert them first"
    ) as caught:
        read_table(tmp_path / name)
    assert "damaged" not in str(caught.value)


def test_places_where_nothing_can_be_read_or_written(tmp_path, frame):
    with pytest.raises(FileNotFoundError, match="no file"):
        read_table(tmp_path / "none.csv")
    with pytest.raises(FileNotFoundError, match=r"no folder .*make it first"):
        write_table(frame, tmp_path / "none" / "t.csv")
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError, match="not a folder"):
        write_table(frame, tmp_path / "file" / "t.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(FileNotFoundError, match="a folder without parquet files"):
        read_table(tmp_path / "folder.csv")
    with pytest.raises(IsADirectoryError, match="folder"):
        write_table(frame, tmp_path / "folder.csv")
    (tmp_path / "t.zarr").write_text("")
    with pytest.raises(FileExistsError, match="file of that name"):
        write_table(frame, tmp_path / "t.zarr")
    assert file_kind("A/B.CSV") == "csv"


def test_a_folder_that_is_not_writable(tmp_path, frame, monkeypatch):
    """By a stand-in for the system's answer, because root may write anywhere."""

    def refuse(path, *arguments, **options):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(atomic.os, "open", refuse)
    with pytest.raises(PermissionError, match="folder is not writable; choose another"):
        check_output(tmp_path / "t.csv")


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.nc", "t.zarr"])
def test_a_disk_that_fills_up_leaves_the_old_file_and_nothing_else(tmp_path, frame, name):
    write_table(frame, tmp_path / name)
    before = _contents(tmp_path)

    def pieces():
        yield frame
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="the disk is full; nothing was written") as caught:
        write_pieces(pieces(), tmp_path / name)
    assert caught.value.errno == errno.ENOSPC
    assert _contents(tmp_path) == before


@pytest.mark.parametrize("when", ["fsync", "replace"])
@pytest.mark.parametrize("name", ["t.csv", "t.zarr"])
def test_a_failure_at_the_last_moment_leaves_the_old_file(tmp_path, frame, monkeypatch, when, name):
    write_table(frame, tmp_path / name)
    before = _contents(tmp_path)

    def fail(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    def pieces():
        yield frame.iloc[:1]
        monkeypatch.setattr(atomic.os, when, fail)
        monkeypatch.setattr(atomic, "exchange", fail)

    with pytest.raises(OSError, match="disk is full"):
        write_pieces(pieces(), tmp_path / name)
    monkeypatch.undo()
    assert _contents(tmp_path) == before


def test_a_store_that_cannot_be_put_in_place_gives_way_to_the_old_one(tmp_path, frame, monkeypatch):
    write_table(frame, tmp_path / "t.zarr")
    before = _contents(tmp_path)
    replace, calls = os.replace, []

    def fail_once(source, target):
        calls.append(source)
        if len(calls) == 2:  # the old store is aside, the new one not yet there
            raise OSError(errno.ENOSPC, "No space left on device")
        replace(source, target)

    def pieces():
        yield frame.iloc[:1]
        monkeypatch.setattr(atomic.os, "replace", fail_once)
        monkeypatch.setattr(atomic, "exchange", lambda one, other: False)

    with pytest.raises(OSError, match="disk is full"):
        write_pieces(pieces(), tmp_path / "t.zarr")
    assert len(calls) == 3
    assert _contents(tmp_path) == before


def test_gridded_values_lie_in_chunks_of_about_a_megabyte(tmp_path):
    values = np.zeros((40, 100, 200))
    write_table(xr.Dataset({"mean": (("time", "lat", "lon"), values)}), tmp_path / "g.nc")
    with h5netcdf.File(tmp_path / "g.nc", "r") as file:
        assert file.variables["mean"].chunks == (6, 100, 200)


@pytest.mark.parametrize("whole", [whole_file, whole_folder])
def test_an_error_of_the_writer_is_reported_as_itself_and_nothing_is_left(tmp_path, whole):
    def write():
        with whole(tmp_path / "t") as part:
            if whole is whole_folder:
                part.mkdir()
            (part / "a" if whole is whole_folder else part).write_text("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write()
    assert os.listdir(tmp_path) == []


def test_links_are_followed_and_permissions_are_ordinary(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "link.csv").symlink_to(tmp_path / "there" / "real.csv")
    write_table(pd.DataFrame({"a": [1.0]}), tmp_path / "link.csv")
    assert (tmp_path / "link.csv").is_symlink()
    (tmp_path / "plain").write_text("")
    assert (tmp_path / "there" / "real.csv").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 256 kB, where the system lets us mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = shutil.which("mount")
    command = [mount or "mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)]
    if mount is None or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting a small file system is not permitted here; run as root to test a really full disk")
    yield folder
    if subprocess.run(["umount", str(folder)], capture_output=True, check=False).returncode != 0:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
        pytest.fail("a file on the small disk was left open")


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet", "t.nc", "t.zarr"])
def test_a_really_full_disk(small_disk, name):
    values = np.random.default_rng(0).normal(size=(100_000, 3))
    with pytest.raises(OSError, match="the disk is full; nothing was written"):
        write_table(pd.DataFrame(values, columns=["a", "b", "c"]), small_disk / name)
    assert os.listdir(small_disk) == []


def _contents(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }
