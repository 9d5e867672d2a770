# SPDX-License-Identifier: MIT
"""A system that fails at the n-th call, for every n, and a disk that ends at the n-th byte: the old file or the new, never neither."""

import contextlib
import os
import pathlib
import time
from collections.abc import Callable
from typing import Any

import pytest

import weft
from tests.trust.faults import CALLS, each_failing_call, files_of_at_most, survived
from tests.trust.formats import FORMATS
from tests.trust.fuzzing import TIMES_MORE, contents
from weft.data.atomic import check_output

FILES = pathlib.Path(__file__).parent.parent / "kept" / "files"


def _fails(context: "contextlib.AbstractContextManager[Any]", write: Callable[[], Any]) -> bool:
    with context:
        try:
            write()
        except OSError:
            return True
    return False


def _assert_old_or_new(path: pathlib.Path, read: Callable[[pathlib.Path], int], raised: bool) -> None:
    assert read(path) in ((1, 2) if raised else (2,))
    for _ in range(100):
        # What could not be removed, or was written by a thread of Zarr's after another had failed, is removed the next time.
        check_output(path, is_folder=path.suffix == ".zarr")
        if os.listdir(path.parent) == [path.name]:
            return
        time.sleep(0.05)
    pytest.fail(f"{os.listdir(path.parent)} were left")


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("name", FORMATS)
def test_the_nth_call_fails(name: str, call: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over an old file, for every n until nothing fails any more."""
    path, (write, read) = tmp_path / name, FORMATS[name]
    write(path, 1)
    for fault, _ in each_failing_call(call, monkeypatch):
        raised = _fails(fault, lambda: write(path, 2))
        _assert_old_or_new(path, read, raised)
        survived(f"the writer of {name}", call, int(raised))
        write(path, 1)


@pytest.mark.parametrize("name", FORMATS)
def test_the_disk_ends_at_the_nth_byte(name: str, tmp_path: pathlib.Path) -> None:
    path, (write, read) = tmp_path / name, FORMATS[name]
    write(path, 1)
    largest = max(len(content) for content in contents(tmp_path).values())
    failed = 0
    # Whoever writes in C is stopped in each of its writes so; by `make fuzz` in a hundred places.
    sizes = {1, 10, 100, *(largest * part // (6 * TIMES_MORE) for part in range(1, 6 * TIMES_MORE)), largest - 1}
    for size in sorted(sizes):
        raised = _fails(files_of_at_most(size), lambda: write(path, 2))
        failed += raised
        _assert_old_or_new(path, read, raised)
        survived(f"the writer of {name}", "write", int(raised))
        write(path, 1)
    assert failed >= 3


def test_a_saved_estimator_survives_every_fault(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through `save` itself, its reading back included."""
    gp = weft.load(FILES / "estimator.weft")
    path = tmp_path / "m.weft"
    gp.save(path)
    whole = path.read_bytes()
    for call in ("fsync", "replace", "open"):
        for fault, _ in each_failing_call(call, monkeypatch):
            survived("save", call, int(_fails(fault, lambda: gp.save(path))))
            assert len(path.read_bytes()) == len(whole)
            assert os.listdir(tmp_path) == ["m.weft"]
            weft.load(path)
