# SPDX-License-Identifier: MIT
"""A system that fails at the n-th call, for every n, and a disk that ends at the n-th byte: the old file or the new, never neither."""

import contextlib
import errno
import json
import os
import pathlib
import resource
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

import weft
from tests.trust.fuzzing import contents
from weft.data import atomic
from weft.data.archive import read_archive, write_archive
from weft.data.atomic import check_output, whole_file
from weft.data.files import read_table, write_pieces
from weft.training.checkpoint import Checkpoint, read_checkpoint, write_checkpoint

FILES = pathlib.Path(__file__).parent.parent / "kept" / "files"
# So many calls are more than any of these makes.
MOST_CALLS = 200


class Format(NamedTuple):
    """How a version, a number, is written to a file and read back from it."""

    write: Callable[[pathlib.Path, int], Any]
    read: Callable[[pathlib.Path], int]


def _write_table(path: pathlib.Path, version: int) -> None:
    write_pieces((pd.DataFrame({"a": np.full(30, float(version)), "b": "text"}) for _ in range(2)), path)


def _read_table(path: pathlib.Path) -> int:
    (version,) = set(np.asarray(read_table(path)["a"]))
    return int(version)


def _write_model(path: pathlib.Path, version: int) -> None:
    write_archive(path, "test", {"version": version}, [np.full(40, version)], read=lambda content, arrays: None)


def _write_checkpoint(path: pathlib.Path, version: int) -> None:
    write_checkpoint(path, Checkpoint("f", ("a",), (), np.array([0.5]), (), version))


def _write_page(path: pathlib.Path, version: int) -> None:
    with whole_file(path) as part:
        part.write_text(json.dumps([version] * 50))


TABLE = Format(_write_table, _read_table)
FORMATS = {
    "t.csv": TABLE,
    "t.csv.gz": TABLE,
    "t.parquet": TABLE,
    "t.nc": TABLE,
    "t.zarr": TABLE,
    "m.weft": Format(_write_model, lambda path: int(read_archive(path)[1]["version"])),
    "m.checkpoint": Format(_write_checkpoint, lambda path: read_checkpoint(path, "f").num_evaluations),
    "page.html": Format(_write_page, lambda path: int(json.loads(path.read_text())[0])),
}


class Faults:
    """Stands in for a function of the system, and fails at the n-th call."""

    def __init__(self, function: Callable[..., Any], fails_at: int):
        self.function = function
        self.fails_at = fails_at
        self.calls = 0

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        self.calls += 1
        if self.calls == self.fails_at:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return self.function(*arguments, **options)


def _assert_old_or_new(path: pathlib.Path, read: Callable[[pathlib.Path], int], raised: bool) -> None:
    assert read(path) in ((1, 2) if raised else (2,))
    for _ in range(100):
        # What could not be removed, or was written by a thread of Zarr's after another had failed, is removed the next time.
        check_output(path, is_folder=path.suffix == ".zarr")
        if os.listdir(path.parent) == [path.name]:
            return
        time.sleep(0.05)
    pytest.fail(f"{os.listdir(path.parent)} were left")


@pytest.mark.parametrize("call", ["fsync", "replace", "open", "exchange"])
@pytest.mark.parametrize("name", FORMATS)
def test_the_nth_call_fails(name: str, call: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over an old file, for every n until nothing fails any more."""
    path, (write, read) = tmp_path / name, FORMATS[name]
    holder: Any = atomic if call == "exchange" else os
    for fails_at in range(1, MOST_CALLS):
        write(path, 1)
        fault = Faults(getattr(holder, call), fails_at)
        raised = False
        with monkeypatch.context() as patch:
            patch.setattr(holder, call, fault)
            try:
                write(path, 2)
            except OSError:
                raised = True
        _assert_old_or_new(path, read, raised)
        if fault.calls < fails_at:
            return
    pytest.fail(f"{name} makes {MOST_CALLS} calls of {call}")


@contextlib.contextmanager
def _files_of_at_most(size: int) -> Iterator[None]:
    """No file may grow beyond so many bytes: what a full disk is, without one."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("name", FORMATS)
def test_the_disk_ends_at_the_nth_byte(name: str, tmp_path: pathlib.Path) -> None:
    path, (write, read) = tmp_path / name, FORMATS[name]
    write(path, 1)
    largest = max(len(content) for content in contents(tmp_path).values())
    failed = 0
    for size in (1, 10, 100, largest // 3, largest // 2, largest - 1):
        raised = False
        with _files_of_at_most(size):
            try:
                write(path, 2)
            except OSError:
                raised = True
        failed += raised
        _assert_old_or_new(path, read, raised)
        write(path, 1)
    assert failed >= 3


def test_a_saved_estimator_survives_every_fault(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through `save` itself, its reading back included."""
    gp = weft.load(FILES / "estimator.weft")
    path = tmp_path / "m.weft"
    gp.save(path)
    whole = path.read_bytes()
    for call in ("fsync", "replace", "open"):
        for fails_at in range(1, MOST_CALLS):
            fault = Faults(getattr(os, call), fails_at)
            with monkeypatch.context() as patch, contextlib.suppress(OSError):
                patch.setattr(os, call, fault)
                gp.save(path)
            assert len(path.read_bytes()) == len(whole)
            assert os.listdir(tmp_path) == ["m.weft"]
            weft.load(path)
            if fault.calls < fails_at:
                break
        else:
            pytest.fail(f"save makes {MOST_CALLS} calls of {call}")
