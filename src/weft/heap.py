# SPDX-License-Identifier: MIT
"""Memory that was freed and that the C library keeps for later."""

import contextlib
import ctypes

__all__ = ["return_memory"]

# Bytes at each end of the heap that may stay.
_MAY_STAY = 64 * 2**20


def return_memory() -> None:
    """Hand back to the system what is free, where the C library can: glibc keeps freed arrays of up to 32 MB, a heap for each thread.

    After work that takes much in many arrays, such as a pass over regions: on 6.7 million rows a third of what the process held was free.
    """
    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(_MAY_STAY)
