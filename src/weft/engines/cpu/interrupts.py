# SPDX-License-Identifier: MIT
"""Ctrl-C in the middle of a long call, wherever JAX runs it.

Python delivers an interrupt to the main thread only. There it is raised between two slices of a sweep, like anywhere else. Inside a
compiled function JAX may run the call on a thread of its own while the main thread waits: then a pipe that Python writes to on every
signal (`signal.set_wakeup_fd`) tells, and once the call has ended the waiting main thread raises KeyboardInterrupt itself.
"""

import _thread
import os
import signal
import threading

# By then the main thread has left the call.
SECONDS_UNTIL_AGAIN = 0.02


class Stopped(Exception):
    """Raised in a piece of work whose companion has failed or was interrupted."""


class _Watch:
    """Counts interrupts that arrived while watching."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.reader, self.writer = -1, -1
        self.count = 0

    def start(self) -> None:
        """Begin, from the main thread; not where an event loop watches already (its own handling stands)."""
        with self.lock:
            # Elsewhere pipes that never block are not to be had: an interrupt is then noticed when the call ends.
            if os.name != "posix" or self.reader >= 0 or threading.current_thread() is not threading.main_thread():
                return
            reader, writer = os.pipe()
            os.set_blocking(reader, False)
            os.set_blocking(writer, False)
            before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
            if before == -1:
                self.reader, self.writer = reader, writer
                return
            signal.set_wakeup_fd(before)
            os.close(reader)
            os.close(writer)

    def interrupts(self) -> int:
        """How many so far."""
        with self.lock:
            while self.reader >= 0:
                try:
                    signals = os.read(self.reader, 4096)
                except BlockingIOError:
                    break
                if not signals:
                    break
                self.count += signals.count(signal.SIGINT)
            return self.count

    def leave(self) -> None:
        """Give the pipe up without a word to whoever else holds it."""
        if self.reader >= 0:
            signal.set_wakeup_fd(-1)
            os.close(self.reader)
            os.close(self.writer)


_watch = _Watch()


def _watch_afresh() -> None:
    """A forked child must not write into its parent's pipe."""
    global _watch
    inherited, _watch = _watch, _Watch()
    inherited.leave()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_watch_afresh)


def watch_for_interrupts() -> None:
    """Begin to notice Ctrl-C on behalf of calls that JAX will make on other threads."""
    _watch.start()


class Brake:
    """What the sweeps of one call look at between two slices."""

    def __init__(self) -> None:
        self._stopped = threading.Event()
        # On the main thread Python raises by itself; a handler of the user's own decides by itself too.
        self._alone = (
            threading.current_thread() is not threading.main_thread()
            and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        )
        self._before = _watch.interrupts()

    def stop(self) -> None:
        self._stopped.set()

    def check(self) -> None:
        """Raise if the work should end here."""
        if self._stopped.is_set():
            raise Stopped
        if self._alone and _watch.interrupts() > self._before:
            raise KeyboardInterrupt


def interrupt_again() -> None:
    """Interrupt the main thread once more: JAX has turned the first KeyboardInterrupt into an error of its own."""
    if threading.current_thread() is threading.main_thread():
        again = threading.Timer(SECONDS_UNTIL_AGAIN, _thread.interrupt_main)
        again.daemon = True
        again.start()
