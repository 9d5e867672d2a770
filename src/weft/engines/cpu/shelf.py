# SPDX-License-Identifier: MIT
"""Memory kept between calls: the system hands out fresh pages one fault at a time, which costs a short series a quarter of its time."""

import threading

import numpy as np
from jaxtyping import Float

# Numbers in a cache line.
LINE = 8
# At most this much stays with the process between calls.
MOST_BYTES = 64 * 2**20


def make_aligned(length: int) -> Float[np.ndarray, " length"]:
    """Numbers not yet written, from the start of a cache line: eight at a time then lie in one line, not in two."""
    return _from_line(np.empty(length + LINE), length)


def _from_line(owner: Float[np.ndarray, " longer"], length: int) -> Float[np.ndarray, " length"]:
    first = -(owner.ctypes.data // owner.itemsize) % LINE
    return owner[first : first + length]


class Shelf:
    """Flat arrays that were given back, for whoever next needs one as long; safe from several threads."""

    def __init__(self, most_bytes: int = MOST_BYTES):
        self.most_bytes = most_bytes
        self._lock = threading.Lock()
        self._arrays: list[np.ndarray] = []

    def take(self, length: int) -> Float[np.ndarray, " length"]:
        """An array of that length, with whatever it held before."""
        with self._lock:
            fitting = [array for array in self._arrays if len(array) >= length + LINE]
            if fitting:
                best = min(fitting, key=len)
                self._arrays = [array for array in self._arrays if array is not best]
                return _from_line(best, length)
        return make_aligned(length)

    def give_back(self, array: Float[np.ndarray, " length"]) -> None:
        """Keep the array for later, and let the oldest go where there is no room."""
        owner = array.base
        if owner is None or owner.nbytes > self.most_bytes:
            return
        with self._lock:
            self._arrays.append(owner)
            while sum(kept.nbytes for kept in self._arrays) > self.most_bytes:
                self._arrays.pop(0)
