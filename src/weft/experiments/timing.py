# SPDX-License-Identifier: MIT
"""Seconds of a call: the least over repeats, after one that warms up (and compiles), as the paper timed."""

import gc
import time
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["Timed", "least_seconds"]


class Timed(NamedTuple):
    """What the call returned, its least seconds, and over how many repeats that is."""

    value: Any
    seconds: float
    repeats: int


def least_seconds(call: Callable[[], Any], *, max_repeats: int, max_seconds: float) -> Timed:
    """Call once to warm up, then until there are `max_repeats` or `max_seconds` have gone, at least once more.

    A call that takes `max_seconds` the first time is not repeated, and its one time is the answer.
    """
    gc.collect()
    begun = time.perf_counter()
    value = call()
    first = time.perf_counter() - begun
    if first >= max_seconds:
        return Timed(value, first, 1)
    seconds: list[float] = []
    while not seconds or (len(seconds) < max_repeats and sum(seconds) < max_seconds):
        begun = time.perf_counter()
        value = call()
        seconds.append(time.perf_counter() - begun)
    return Timed(value, min(seconds), len(seconds))
