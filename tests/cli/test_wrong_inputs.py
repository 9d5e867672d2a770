# SPDX-License-Identifier: MIT
"""Wrong inputs: each one clear sentence and status 2, and nothing half-written."""

import errno
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from tests.cli.conftest import COLUMNS, Run, assert_refused
from weft import SpaceTimeGP

Spoil = Callable[[pd.DataFrame], pd.DataFrame]


def first(column: str, value: object) -> Spoil:
    def spoiled(table: pd.DataFrame) -> pd.DataFrame:
        return table.assign(**{column: [value, *table[column][1:]]})

    return spoiled


SPOILED: dict[str, tuple[Spoil, tuple[str, ...]]] = {
    "missing column": (lambda table: table.rename(columns={"elevation": "elevatoin"}), ("'elevation'", "'elevatoin'?")),
    "unparsable dates": (first("date", "yesterday"), ("'date'", "'yesterday'", "row 0")),
    "a date missing": (first("date", None), ("'date'", "row 0")),
    "lat 95": (first("lat", 95.0), ("'lat'", "95", "-90 and 90")),
    "lon 400": (first("lon", 400.0), ("'lon'", "400")),
    "a place missing": (first("elevation", np.nan), ("'elevation'", "every row")),
    "all-NaN target": (lambda table: table.assign(tmax=np.nan), ("'tmax'", "no values")),
    "text in a number column": (first("tmax", "warm"), ("'tmax'", "'warm'", "row 0")),
    "infinite target": (first("tmax", np.inf), ("'tmax'", "finite")),
    "constant target": (lambda table: table.assign(tmax=3.5), ("'tmax'", "never changes", "3.5")),
    "one row": (lambda table: table[:1], ("only value",)),
    "header only": (lambda table: table[:0], ("no rows",)),
}


@pytest.mark.parametrize("name", SPOILED)
def test_spoiled_table_is_refused(name: str, run: Run, folder: pathlib.Path, small_table: pathlib.Path) -> None:
    spoil, words = SPOILED[name]
    spoil(pd.read_csv(small_table)).to_csv("spoiled.csv", index=False)
    assert_refused(run("fit", "spoiled.csv", *COLUMNS, "-o", "model.weft"), *words)
    assert os.listdir(folder) == ["spoiled.csv"]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("empty.csv", b"", ("empty.csv", "is empty")),
        ("empty.parquet", b"", ("is empty",)),
        ("noise.csv", bytes(range(256)) * 4, ("not a table",)),
        ("noise.parquet", bytes(range(256)) * 4, ("not a parquet file",)),
        ("noise.nc", bytes(range(256)) * 4, ("not a NetCDF file",)),
        ("letter.txt", b"Dear reader,\n", ("letter.txt", "no rows")),
        ("letter.doc", b"Dear reader,\n", ("letter.doc", ".csv")),
        ("letter.csv", b"Dear reader,\nthis is no table.\nYours\n", ()),
    ],
)
def test_file_that_is_not_a_table_is_refused(
    name: str, content: bytes, words: tuple[str, ...], run: Run, folder: pathlib.Path
) -> None:
    pathlib.Path(name).write_bytes(content)
    assert_refused(run("fit", name, "-o", "model.weft"), *words)
    assert_refused(run("init", name), *words)
    assert os.listdir(folder) == [name]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[model]\nlikelyhood = 'gaussian'\n", ("'likelyhood'", "[model]", "'likelihood'")),
        ("[modle]\nseed = 1\n", ("'modle'", "'model'")),
        ("[[model.kernel]]\nspace = 'EQ'\ntime = 'EQ'\nlength = 3\n", ("'length'", "[model.kernel]")),
        ("[[model.kernel]]\nspace = 'EQ'\ntime = 'Square'\n", ("'Square'", "Matern32")),
        ("[model]\nseed = 'one'\n", ("model.seed", "expected int", "got str")),
        ("[model\n", ("not valid TOML", "line 1")),
        ("[model]\nlikelihood = 'gauss'\n", ("likelihood", "'gauss'")),
        ("[model]\npseudo_points = 'many'\n", ("pseudo_points", "'many'")),
        ("[model]\ntransform = 'cube'\n", ("transform", "'cube'")),
        ("[model]\nseasonality = ['monthly']\n", ("seasonality", "'monthly'")),
        ("[model]\nengine = 'steam'\n", ("engine", "'steam'")),
        ("[data]\ntarget = 'tmin'\n", ("'tmin'",)),
    ],
)
def test_wrong_config_is_refused(
    text: str, words: tuple[str, ...], run: Run, folder: pathlib.Path, small_table: pathlib.Path
) -> None:
    pathlib.Path("weft.toml").write_text(text)
    assert_refused(run("fit", small_table, "--config", "weft.toml"), *words)
    assert os.listdir(folder) == ["weft.toml"]


def test_absent_files_are_refused(run: Run, folder: pathlib.Path, small_table: pathlib.Path) -> None:
    assert_refused(run("fit", "absent.csv"), "absent.csv")
    assert_refused(run("fit"), "no table")
    assert_refused(run("fit", small_table, "--config", "absent.toml"), "absent.toml", "weft init")
    assert_refused(run("run"), "weft.toml")
    assert_refused(run("check", "."), "'.' is a folder")
    assert_refused(run("info", "absent.weft"), "absent.weft")
    assert_refused(run("info", small_table), "not a file weft can read")
    assert_refused(run("fit", small_table, *COLUMNS, "-o", "nowhere/model.weft"), "nowhere", "no folder")
    assert os.listdir(folder) == []


@pytest.mark.parametrize("output", ["afolder", ".", ""])
def test_folder_where_a_file_is_wanted_is_refused(
    output: str, run: Run, folder: pathlib.Path, model_file: pathlib.Path, small_table: pathlib.Path
) -> None:
    """Before the long work, of which nothing is left behind."""
    pathlib.Path("afolder").mkdir()
    assert_refused(run("fit", small_table, *COLUMNS, "-o", output), "it is a folder")
    assert_refused(run("update", model_file, small_table, "-o", output), "it is a folder")
    assert_refused(run("report", model_file, "-o", output), "it is a folder")
    pathlib.Path("afolder.csv").mkdir()
    assert_refused(run("score", model_file, small_table, "--rows", "afolder.csv"), "it is a folder")
    pathlib.Path("file.zarr").write_text("")
    assert_refused(run("predict", model_file, small_table, "-o", "file.zarr"), "a file of that name")
    assert sorted(os.listdir(folder)) == ["afolder", "afolder.csv", "file.zarr"]


def test_wrong_arguments_are_refused(run: Run, model_file: pathlib.Path, small_table: pathlib.Path) -> None:
    assert_refused(run("fitt"), "fitt", "fit")
    assert_refused(run("fit", small_table, "--tme", "date"), "--tme", "--time")
    assert_refused(run("fit", small_table, "--seed", "x"), "--seed")
    assert_refused(run("predict"), "requires an argument")
    assert_refused(run("predict", model_file, small_table), "--output")
    assert_refused(run("predict", model_file, small_table, "-o", "p.doc"), "p.doc", ".csv")
    assert_refused(run("predict", model_file, small_table, "-o", "p.csv", "--quantiles", "0.5,x"), "--quantiles")
    assert_refused(run("predict", model_file, small_table, "-o", "p.csv", "--quantiles", "1.5"), "1.5")
    assert_refused(run("predict", model_file, small_table, "-o", "p.csv", "--of", "noise"), "noise")
    assert_refused(run("sample", model_file, small_table, "-o", "s.csv", "--num", "0"), "num")
    assert_refused(run("sample", model_file, small_table, "-o", "s.csv", "--seed", "-1"), "seed", "-1")
    assert_refused(run("fit", small_table, *COLUMNS, "--seed", "-1"), "seed", "-1")
    assert_refused(run("fit", small_table, *COLUMNS, "--pseudo-points", "0"), "pseudo_points", "at least 1")
    assert_refused(run("evaluate", small_table, "--model", model_file, "--by", "day"), "'day'", "station")
    assert_refused(run("compare", model_file, model_file), "give a table to score them on")
    assert_refused(run("reproduce", "everything"), "everything", "benchmark")
    assert os.listdir() == []


def test_prediction_table_must_have_the_columns(run: Run, model_file: pathlib.Path, small_table: pathlib.Path) -> None:
    table = pd.read_csv(small_table)
    table.drop(columns="lat").to_csv("rows.csv", index=False)
    assert_refused(run("predict", model_file, "rows.csv", "-o", "p.csv"), "'lat'")
    table.assign(mean=1.0).to_csv("rows.csv", index=False)
    assert_refused(run("predict", model_file, "rows.csv", "-o", "p.csv"), "'mean'")
    assert os.listdir() == ["rows.csv"]


def test_rows_without_values_are_not_scored_or_taken_in(
    run: Run, model_file: pathlib.Path, small_table: pathlib.Path
) -> None:
    pd.read_csv(small_table).assign(tmax=np.nan).to_csv("none.csv", index=False)
    assert_refused(run("score", model_file, "none.csv"), "no row has a value of 'tmax'")
    assert_refused(run("update", model_file, "none.csv", "-o", "model.weft"), "no row has a value of 'tmax'")
    assert os.listdir() == ["none.csv"]


def test_full_disk_is_refused(
    run: Run, folder: pathlib.Path, small_table: pathlib.Path, model_file: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    # Every output passes through here before it is put in its place.
    monkeypatch.setattr(os, "fsync", full)
    for arguments in (
        ("init", small_table, "-o", "weft.toml"),
        ("predict", model_file, small_table, "-o", "p.csv"),
        ("predict", model_file, small_table, "-o", "p.parquet"),
        ("update", model_file, small_table, "-o", "model.weft"),
    ):
        assert_refused(run(*arguments), "disk is full")
        assert os.listdir(folder) == []


def test_full_tmpfs_is_refused(
    run: Run, folder: pathlib.Path, small_table: pathlib.Path, model_file: pathlib.Path
) -> None:
    place = folder / "small_disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", str(place)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("mounting a tmpfs is not permitted here; the full disk is only simulated")
    try:
        for name in ("p.csv", "p.parquet", "p.nc", "p.zarr"):
            assert_refused(run("predict", model_file, small_table, "-o", place / name), "disk is full")
            assert os.listdir(place) == []
        assert_refused(run("update", model_file, small_table, "-o", place / "model.weft"), "disk is full")
        assert os.listdir(place) == []
    finally:
        subprocess.run(["umount", str(place)], check=True)


def test_folder_that_is_not_writable_is_refused(
    run: Run, folder: pathlib.Path, small_table: pathlib.Path, model_file: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked = folder / "locked"
    locked.mkdir(mode=0o500)
    if os.access(locked, os.W_OK):
        # Root may write anywhere, so that the system's refusal is simulated.
        really_open = os.open

        def refusing(path: str | os.PathLike, flags: int, *rest: int, **more: int) -> int:
            if flags & os.O_CREAT and pathlib.Path(path).parent == locked:
                raise PermissionError(errno.EACCES, "Permission denied", str(path))
            return really_open(path, flags, *rest, **more)

        monkeypatch.setattr(os, "open", refusing)
    assert_refused(run("predict", model_file, small_table, "-o", locked / "p.csv"), "not writable")
    assert_refused(run("fit", small_table, *COLUMNS, "-o", locked / "model.weft"), "not writable")
    assert_refused(run("init", small_table, "-o", locked / "weft.toml"), "not writable")
    assert os.listdir(locked) == []


def test_refusal_of_the_installed_command(folder: pathlib.Path) -> None:
    """The same through a process of its own."""
    ended = subprocess.run(
        [sys.executable, "-m", "weft", "fit", "absent.csv"], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == "weft: there is no file 'absent.csv'\n"


def test_fault_of_ours_is_told_apart(run: Run, small_table: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error from a library's depths is not put down to the user."""

    def broken(path: object) -> None:
        np.zeros(2) + np.zeros(3)

    monkeypatch.setattr("weft.project.surveys.read_table", broken)
    outcome = run("fit", small_table, *COLUMNS)
    assert outcome.status == 1
    assert "Traceback" in outcome.err
    assert "fault of weft" in outcome.err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[evaluate]\nby = []\n", ("by is empty", "station")),
        ("[evaluate]\nby = ['station']\nfolds = 40\n", ("40 distinct places", "there are 9")),
        ("[evaluate]\nfolds = 0\n", ("folds must be at least 1",)),
        ("[report]\nstation = 'stattion'\n", ("'stattion'", "'station'?")),
        ("[report]\nterrain = 'flat.csv'\n", ("'elevation'",)),
        ("[predict]\ntable = 'flat.csv'\n", ("'elevation'",)),
        ("[predict]\ntable = 'north.csv'\n", ("'lat'", "95")),
        ("[predict]\ntable = 'undated.csv'\n", ("'date'", "'soon'")),
        ("[predict]\ntable = 'answered.csv'\nquantiles = [0.5]\n", ("already has a column 'q0.5'",)),
        ("[predict]\ntable = 'rows.csv'\nquantiles = [0.5, 2]\n", ("quantile levels", "2.0")),
        ("[predict]\ntable = 'rows.csv'\nof = 'noise'\n", ("'noise'",)),
        ("[predict]\ntable = 'rows.csv'\noutput = 'old.csv'\n", ("it is a folder",)),
    ],
)
def test_run_is_refused_before_the_fit(
    text: str,
    words: tuple[str, ...],
    run: Run,
    folder: pathlib.Path,
    small_table: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever would only be found out once a long fit has ended, and nothing is left behind."""
    monkeypatch.setattr(SpaceTimeGP, "fit", lambda *given, **more: pytest.fail("it was fitted"))
    table = pd.read_csv(small_table)
    table.to_csv("rows.csv", index=False)
    table.drop(columns="elevation").to_csv("flat.csv", index=False)
    table.assign(lat=95.0).to_csv("north.csv", index=False)
    table.assign(date="soon").to_csv("undated.csv", index=False)
    table.assign(**{"q0.5": 1.0}).to_csv("answered.csv", index=False)
    pathlib.Path("old.csv").mkdir()
    pathlib.Path("weft.toml").write_text("[data]\ntable = 'rows.csv'\n" + text)
    before = sorted(os.listdir(folder))
    assert_refused(run("run"), *words)
    assert sorted(os.listdir(folder)) == before


def test_evaluation_is_refused_before_the_fit(
    run: Run, small_table: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SpaceTimeGP, "fit", lambda *given, **more: pytest.fail("it was fitted"))
    arguments = ("evaluate", small_table, *COLUMNS, "--by", "random,station", "--folds", "40")
    assert_refused(run(*arguments), "40 distinct places")
