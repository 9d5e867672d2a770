# SPDX-License-Identifier: MIT
"""Seconds of a call: the least over repeats, after one that warms up (and compiles), as the paper timed."""

import gc
import time
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["Timed", "least_seconds"]

# In a call this long the first one's compilation is lost, and nobody wants to wait for another.
LONG_CALL = 20.0


class Timed(NamedTuple):
    """What the call returned, its least seconds, and over how many repeats that is."""

    value: Any
    seconds: float
    repeats: int


def least_seconds(call: Callable[[], Any], *, max_repeats: int, max_seconds: float, warm_up: bool = True) -> Timed:
    """Call once to warm up, then until there are `max_repeats` or `max_seconds` have gone, at least once more.

    Without `warm_up` (for what does not compile), and of a very long call, the first time counts.
    """
    gc.collect()
    begun = time.perf_counter()
    value = call()
    seconds = [time.perf_counter() - begun]
    if warm_up and seconds[0] < LONG_CALL:
        seconds = []
    while not seconds or (len(seconds) < max_repeats and sum(seconds) < max_seconds):
        begun = time.perf_counter()
        value = call()
        seconds.append(time.perf_counter() - begun)
    return Timed(value, min(seconds), len(seconds))
