# SPDX-License-Identifier: MIT
"""A system that fails at the n-th call, and files that may not grow: what can go wrong while something is written."""

import contextlib
import errno
import os
import resource
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from weft.data import atomic

# Every call of the system by which weft's file layer makes a file; what libraries write is stopped by `files_of_at_most`.
CALLS = ("fsync", "replace", "open", "exchange")
# So many calls are more than anything here makes.
MOST_CALLS = 400


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


def each_failing_call(
    call: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple["contextlib.AbstractContextManager[Faults]", int]]:
    """For n = 1, 2, ... a context in which the n-th `call` fails; ends after the first in which nothing failed any more."""
    holder: Any = atomic if call == "exchange" else os
    for fails_at in range(1, MOST_CALLS):
        fault = Faults(getattr(holder, call), fails_at)
        yield _patched(monkeypatch, holder, call, fault), fails_at
        if fault.calls < fails_at:
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
