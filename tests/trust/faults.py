# SPDX-License-Identifier: MIT
"""A system that fails at the n-th call, and files that may not grow: what can go wrong while something is written.

How many faults of each kind were survived, by what was writing, goes to the file that WEFT_FAULT_RESULTS names (`make fuzz`).
"""

import atexit
import contextlib
import errno
import json
import os
import pathlib
import resource
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from weft.data import atomic

# Every call of the system by which weft's file layer makes a file; what libraries write is stopped by `files_of_at_most`.
CALLS = ("fsync", "replace", "open", "exchange")
# So many calls are more than anything here makes.
MOST_CALLS = 400
# Whoever wrote, the kind of fault, and how many of it were survived.
SURVIVED: dict[str, dict[str, int]] = {}


def survived(writer: str, fault: str, count: int = 1) -> None:
    """Note that a writer left the old or the new after so many faults of a kind."""
    of_writer = SURVIVED.setdefault(writer, {})
    of_writer[fault] = of_writer.get(fault, 0) + count


def _write_survived(path: str) -> None:
    total = sum(sum(of_writer.values()) for of_writer in SURVIVED.values())
    record = {"total": total, "faults survived, by what was writing": dict(sorted(SURVIVED.items()))}
    pathlib.Path(path).write_text(json.dumps(record, indent=1) + "\n")


if os.environ.get("WEFT_FAULT_RESULTS"):
    # The folder that tests run in may be gone by then.
    atexit.register(_write_survived, os.path.abspath(os.environ["WEFT_FAULT_RESULTS"]))


class Faults:
    """Stands in for a function of the system, and fails at the n-th call."""

    def __init__(self, function: Callable[..., Any], fails_at: int):
        self.function = function
        self.fails_at = fails_at
        self.calls = 0

    @property
    def failed(self) -> bool:
        return self.calls >= self.fails_at

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        self.calls += 1
        if self.calls == self.fails_at:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return self.function(*arguments, **options)


def each_failing_call(
    call: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple["contextlib.AbstractContextManager[Faults]", Faults]]:
    """For n = 1, 2, ... a context in which the n-th `call` fails; ends after the first in which nothing failed any more."""
    holder: Any = atomic if call == "exchange" else os
    for fails_at in range(1, MOST_CALLS):
        fault = Faults(getattr(holder, call), fails_at)
        yield _patched(monkeypatch, holder, call, fault), fault
        if not fault.failed:
            return
    pytest.fail(f"there are more than {MOST_CALLS} calls of {call}")


@contextlib.contextmanager
def _patched(monkeypatch: pytest.MonkeyPatch, holder: Any, call: str, fault: Faults) -> Iterator[Faults]:
    with monkeypatch.context() as patch:
        patch.setattr(holder, call, fault)
        yield fault


@contextlib.contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """No file may grow beyond so many bytes: what a full disk is, without one."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
