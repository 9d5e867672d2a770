# SPDX-License-Identifier: MIT
"""Threads: how many, the BLAS library's own held still meanwhile, and two pieces of work at once that can be interrupted."""

import contextlib
import functools
import os
import threading
from collections.abc import Callable, Iterator

import threadpoolctl

from weft.engines.cpu.interrupts import Brake, Stopped


def available_threads(threads: int | None) -> int:
    """`threads`, or by default two where this process may use two processors: a series has two ends."""
    if threads is None:
        return min(2, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    if threads < 1:
        raise ValueError(f"threads must be 1 or more; it is {threads}")
    return threads


class _Pin:
    """BLAS threads set to one while anyone holds the pin, and put back as found by the last to let go."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.holders = 0
        self.limit: contextlib.AbstractContextManager | None = None

    def hold(self) -> None:
        with self.lock:
            if self.holders == 0:
                self.limit = _controller().limit(limits=1, user_api="blas")
                self.limit.__enter__()
            self.holders += 1

    def release(self) -> None:
        with self.lock:
            self.holders -= 1
            if self.holders == 0 and self.limit is not None:
                self.limit.__exit__(None, None, None)
                self.limit = None


_pin = _Pin()


@functools.cache
def _controller() -> threadpoolctl.ThreadpoolController:
    return threadpoolctl.ThreadpoolController()


def _forget_holders() -> None:
    """In a forked child the holders are gone: give back what they had found, and start afresh."""
    global _pin
    inherited, _pin = _pin, _Pin()
    if inherited.limit is not None:
        inherited.limit.__exit__(None, None, None)


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


def run_both(first: Callable[[], None], second: Callable[[], None], brake: Brake) -> None:
    """Run two pieces of work at once, `first` on this thread; both look at `brake`. The first real failure is raised."""
    failures: list[BaseException] = []

    def guarded() -> None:
        try:
            second()
        except BaseException as failure:
            failures.append(failure)
            brake.stop()

    companion = threading.Thread(target=guarded, name="weft-other-end", daemon=True)
    companion.start()
    try:
        first()
        companion.join()
    except BaseException as failure:
        brake.stop()
        companion.join()
        if not isinstance(failure, Stopped):
            raise
    if failures:
        raise failures[0]
