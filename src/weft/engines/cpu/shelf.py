# SPDX-License-Identifier: MIT
"""Memory kept between calls: the system hands out fresh pages one fault at a time, zeroed, which costs up to a quarter of a call."""

import os
import threading
import time

import numpy as np
from jaxtyping import Float

# Numbers in a cache line.
LINE = 8
# Bytes of an array that stays in the first cache or near it.
IN_CACHE = 2**16
# At most this much stays with the process between calls.
MOST_BYTES = 64 * 2**20
# What is more stays so long after a call: in a fit the next one comes at once.
SECONDS = 1.0


def make_aligned(length: int) -> Float[np.ndarray, " length"]:
    """Numbers not yet written, from the start of a cache line: eight at a time then lie in one line, not in two."""
    return _from_line(np.empty(length + LINE), length)


def aligned(numbers: Float[np.ndarray, "..."]) -> Float[np.ndarray, " length"]:
    """A flat copy that begins with a cache line, if it is to stay in the cache.

    Large ones come from the system at the same place of a page each; moved to the same line, loads of one wait for stores to another.
    """
    copy = make_aligned(numbers.size) if numbers.nbytes < IN_CACHE else np.empty(numbers.size)
    copy[:] = numbers.reshape(-1)
    return copy


def _from_line(owner: Float[np.ndarray, " longer"], length: int) -> Float[np.ndarray, " length"]:
    first = -(owner.ctypes.data // owner.itemsize) % LINE
    return owner[first : first + length]


class Shelf:
    """Flat arrays that were given back, for whoever next needs one as long; safe from several threads."""

    def __init__(self, for_a_while: int, most_bytes: int = MOST_BYTES, seconds: float = SECONDS):
        self.for_a_while = for_a_while
        self.most_bytes = most_bytes
        self.seconds = seconds
        self._begin()
        if hasattr(os, "register_at_fork"):
            # In a forked child the thread that held the lock, or was to let go, is gone.
            os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._arrays: list[np.ndarray] = []
        self._later: threading.Timer | None = None
        self._until = 0.0

    def take(self, length: int) -> Float[np.ndarray, " length"]:
        """An array of that length, with whatever it held before."""
        with self._lock:
            fitting = [array for array in self._arrays if len(array) >= length + LINE]
            if fitting:
                best = min(fitting, key=len)
                self._arrays = [array for array in self._arrays if array is not best]
                return _from_line(best, length)
            # Not beside a new large one, or a call would take twice what it needs.
            self._shrink(self.most_bytes)
        return make_aligned(length)

    def give_back(self, array: Float[np.ndarray, " length"]) -> None:
        """Keep the array for later, and let the oldest go where there is no room."""
        owner = array.base
        if owner is None or owner.nbytes > self.for_a_while:
            return
        with self._lock:
            self._arrays.append(owner)
            self._shrink(self.for_a_while)
            if self._held() > self.most_bytes:
                self._until = time.monotonic() + self.seconds
                if self._later is None:
                    self._wait(self.seconds)

    def _held(self) -> int:
        return sum(array.nbytes for array in self._arrays)

    def _shrink(self, most_bytes: int) -> None:
        while self._held() > most_bytes:
            self._arrays.pop(0)

    def _wait(self, seconds: float) -> None:
        self._later = threading.Timer(seconds, self._let_go)
        self._later.daemon = True
        self._later.start()

    def _let_go(self) -> None:
        """One thread waits on for whatever has been given back meanwhile: a new one at each would take longer than small calls do."""
        with self._lock:
            self._later, left = None, self._until - time.monotonic()
            if left > 0:
                self._wait(left)
            else:
                self._shrink(self.most_bytes)
