# SPDX-License-Identifier: MIT
"""Threads: how many, the BLAS library's own held still meanwhile, and two pieces of work at once that can be interrupted."""

import concurrent.futures
import contextlib
import ctypes
import functools
import importlib
import itertools
import os
import threading
from collections.abc import Callable, Iterator
from typing import NamedTuple

import threadpoolctl

from weft.engines.cpu.interrupts import Brake, Stopped

# Calls at once, each from a Python thread of its own, that need not wait for each other.
MOST_COMPANIONS = 64


class _Alone:
    """How many callers want this process to keep to one processor: for the process, because callbacks of JAX have threads of their own."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.holders = 0

    def change(self, by: int) -> None:
        with self.lock:
            self.holders += by


_alone = _Alone()


def processors_of_process() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def num_processors() -> int:
    """The same, but one within `one_processor`."""
    return 1 if _alone.holders > 0 else processors_of_process()


def available_threads(threads: int | None) -> int:
    """`threads`, or by default two where this process may use two processors: a series has two ends."""
    if threads is None:
        return min(2, num_processors())
    return threads


class _BlasThreads(NamedTuple):
    """How one OpenBLAS library is asked and told its number of threads."""

    get: Callable[[], int]
    set: Callable[[int], None]


@functools.cache
def _libraries() -> tuple[_BlasThreads, ...]:
    """Every OpenBLAS in the process; its own functions, because threadpoolctl lets only the thread that set a limit lift it."""
    # SciPy brings a library of its own, which must be there to be found.
    importlib.import_module("scipy.linalg")
    found = []
    for library in threadpoolctl.threadpool_info():
        if library["internal_api"] != "openblas":
            continue
        loaded = ctypes.CDLL(library["filepath"])
        for prefix, suffix in itertools.product(("", "scipy_"), ("", "64_", "_64")):
            with contextlib.suppress(AttributeError):
                found.append(
                    _BlasThreads(
                        getattr(loaded, f"{prefix}openblas_get_num_threads{suffix}"),
                        getattr(loaded, f"{prefix}openblas_set_num_threads{suffix}"),
                    )
                )
                break
    return tuple(found)


class _Pin:
    """BLAS threads set to one while anyone holds the pin, and put back as found by the last to let go."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.holders = 0
        self.found: list[int] = []

    def hold(self) -> None:
        with self.lock:
            if self.holders == 0:
                self.found = [library.get() for library in _libraries()]
                for library in _libraries():
                    library.set(1)
            self.holders += 1

    def release(self) -> None:
        with self.lock:
            self.holders -= 1
            if self.holders == 0:
                self.restore()

    def restore(self) -> None:
        for library, count in zip(_libraries(), self.found, strict=True):
            library.set(count)


_pin = _Pin()


def _forget_holders() -> None:
    """In a forked child the holders are gone: give back what they had found, and start afresh."""
    global _pin
    inherited, _pin = _pin, _Pin()
    if inherited.holders > 0:
        inherited.restore()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_holders)


@contextlib.contextmanager
def single_blas_thread() -> Iterator[None]:
    """Within it BLAS starts no threads of its own."""
    pin = _pin
    pin.hold()
    try:
        yield
    finally:
        pin.release()


@contextlib.contextmanager
def one_processor() -> Iterator[None]:
    """Within it neither BLAS nor engines start threads of their own: other processes keep the other processors busy."""
    _alone.change(+1)
    try:
        with single_blas_thread():
            yield
    finally:
        _alone.change(-1)


@functools.cache
def _companions() -> concurrent.futures.ThreadPoolExecutor:
    """Threads that stay for the next call: to start one takes longer than a short series has to spare."""
    return concurrent.futures.ThreadPoolExecutor(MOST_COMPANIONS, thread_name_prefix="weft-other-end")


if hasattr(os, "register_at_fork"):
    # A forked child has the pool but none of its threads.
    os.register_at_fork(after_in_child=_companions.cache_clear)


def run_both(first: Callable[[], None], second: Callable[[], None], brake: Brake) -> None:
    """Run two pieces of work at once, `first` on this thread; both look at `brake`. The first real failure is raised."""
    failures: list[BaseException] = []

    def guarded() -> None:
        try:
            second()
        except BaseException as failure:
            failures.append(failure)
            brake.stop()

    companion = _companions().submit(guarded)
    try:
        first()
        companion.result()
    except BaseException as failure:
        brake.stop()
        concurrent.futures.wait([companion])
        if not isinstance(failure, Stopped):
            raise
    if failures:
        raise failures[0]
