# SPDX-License-Identifier: MIT
"""Tasks that go wrong: workers that die in the middle of one, errors, and some that take long."""

import functools
import os
import pathlib
import signal
import time
from collections.abc import Callable, Sequence
from typing import Any

from weft.inference.executor import Executor


class Deadly(Executor):
    """Another executor, where the first task of a name that contains `word` kills the process it runs in."""

    def __init__(self, inner: Executor, flag: pathlib.Path, word: str):
        self.inner, self.flag, self.word = inner, flag, word

    def hold(self, piece: Any) -> Any:
        return self.inner.hold(piece)

    def map(
        self,
        function: Callable[..., Any],
        *columns: Sequence[Any],
        names: Sequence[str] | None = None,
        again: bool = False,
        arrived: Callable[[int, Any], None] | None = None,
    ) -> list[Any]:
        assert names is not None
        dies = [self.word in name for name in names]
        task = functools.partial(die_once, function, self.flag, os.getpid())
        return self.inner.map(task, dies, *columns, names=names, arrived=arrived)


def die_once(function: Callable[..., Any], flag: pathlib.Path, caller: int, dies: bool, *arguments: Any) -> Any:
    if dies and not flag.exists():
        flag.touch()
        assert os.getpid() != caller
        os.kill(os.getpid(), signal.SIGKILL)
    return function(*arguments)


def read_and_die_once(flag: pathlib.Path, number: int, part: Any) -> Any:
    """A part of a table; whoever reads the third first dies of it."""
    return die_once(lambda: part, flag, 0, number == 2)


class Failing(Executor):
    """Another executor, where tasks of a name that contains `word` fail."""

    def __init__(self, inner: Executor, word: str):
        self.inner, self.word = inner, word

    def hold(self, piece: Any) -> Any:
        return self.inner.hold(piece)

    def map(
        self,
        function: Callable[..., Any],
        *columns: Sequence[Any],
        names: Sequence[str] | None = None,
        again: bool = False,
        arrived: Callable[[int, Any], None] | None = None,
    ) -> list[Any]:
        assert names is not None
        fails = [self.word in name for name in names]
        return self.inner.map(functools.partial(fail, function), fails, *columns, names=names, arrived=arrived)


def fail(function: Callable[..., Any], fails: bool, *arguments: Any) -> Any:
    if fails:
        raise ValueError("its rows are cursed")
    return function(*arguments)


def die(number: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def root(number: float) -> float:
    if number < 0:
        raise ValueError(f"{number:g} has no real root")
    return number**0.5


def over(number: float) -> float:
    return 1 / number


def slow(folder: pathlib.Path, number: int) -> int:
    """Leaves a file where it was begun."""
    (folder / str(number)).touch()
    time.sleep(0.4)
    return number


def threads(number: int) -> tuple[int, int]:
    """The most that a library of BLAS may have in a task, and those of an engine."""
    import numpy as np
    import threadpoolctl

    from weft.engines.cpu.threads import num_processors

    np.ones((2, 2)) @ np.ones((2, 2))
    blas = [each["num_threads"] for each in threadpoolctl.threadpool_info() if each["user_api"] == "blas"]
    return max(blas), num_processors()


HOARD = []


def hoard(flag: pathlib.Path, number: int) -> int:
    """The first one takes more memory than Dask lets a worker have, and keeps it."""
    import distributed
    import psutil

    if not flag.exists():
        flag.touch()
        limit = distributed.get_worker().memory_manager.memory_limit
        HOARD.append(b"x" * int(0.87 * limit - psutil.Process().memory_info().rss))
        time.sleep(1.0)
    return number


def busy(seconds: float) -> int:
    """So long at work; who was."""
    begun = time.process_time()
    while time.process_time() - begun < seconds:
        pass
    return os.getpid()
