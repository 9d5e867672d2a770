# SPDX-License-Identifier: MIT
"""Ctrl-C, which a terminal sends to all processes at once."""

import contextlib
import signal
import sys
from collections.abc import Iterator
from multiprocessing import resource_tracker

__all__ = ["without_interrupts"]


@contextlib.contextmanager
def without_interrupts() -> Iterator[None]:
    """Processes that are started within it never hear of Ctrl-C: their caller decides what becomes of them.

    It hears of it at the end. Threads started within it are without, too, and so is whatever these start later.
    """
    if sys.platform == "win32":
        yield
        return
    # It would be started with the first process, and whoever starts it hears of Ctrl-C again.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
