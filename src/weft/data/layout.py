# SPDX-License-Identifier: MIT
"""Which rows belong to which time."""

import hashlib

import numpy as np


class Layout:
    """Ragged groups of rows: time t has the rows offsets[t] up to offsets[t + 1].

    Equal layouts are equal by content, so that a compiled function is found again.
    """

    def __init__(self, offsets: np.ndarray):
        self.offsets = np.array(offsets, dtype=np.int64)
        self.offsets.setflags(write=False)
        self._digest = hashlib.sha256(self.offsets.tobytes()).digest()

    @property
    def num_times(self) -> int:
        return len(self.offsets) - 1

    @property
    def num_rows(self) -> int:
        return int(self.offsets[-1])

    @property
    def counts(self) -> np.ndarray:
        """Rows at each time."""
        return np.diff(self.offsets)

    def __hash__(self) -> int:
        return hash(self._digest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and self._digest == other._digest
