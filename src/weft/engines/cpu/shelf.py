# SPDX-License-Identifier: MIT
"""Memory kept between calls: the system hands out fresh pages one fault at a time, which costs a short series a quarter of its time."""

import threading

import numpy as np
from jaxtyping import Float

# At most this much stays with the process between calls.
MOST_BYTES = 64 * 2**20


class Shelf:
    """Flat arrays that were given back, for whoever next needs one as long; safe from several threads."""

    def __init__(self, most_bytes: int = MOST_BYTES):
        self.most_bytes = most_bytes
        self._lock = threading.Lock()
        self._arrays: list[np.ndarray] = []

    def take(self, length: int) -> Float[np.ndarray, " length"]:
        """An array of that length, with whatever it held before."""
        with self._lock:
            fitting = [array for array in self._arrays if len(array) >= length]
            if fitting:
                best = min(fitting, key=len)
                self._arrays = [array for array in self._arrays if array is not best]
                return best[:length]
        return np.empty(length)

    def give_back(self, array: Float[np.ndarray, " length"]) -> None:
        """Keep the array for later, and let the oldest go where there is no room."""
        owner = array if array.base is None else array.base
        if owner.nbytes > self.most_bytes:
            return
        with self._lock:
            self._arrays.append(owner)
            while sum(kept.nbytes for kept in self._arrays) > self.most_bytes:
                self._arrays.pop(0)
