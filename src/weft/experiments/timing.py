# SPDX-License-Identifier: MIT
"""Seconds of a call: the least over repeats, after one that warms up (and compiles), as the paper timed."""

import gc
import time
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["Repeats", "Timed", "least_seconds"]

# In a call this long the first one's compilation is lost, and nobody wants to wait for another.
LONG_CALL = 20.0


class Repeats(NamedTuple):
    """When to stop repeating a call: after so many, or so many seconds."""

    max_repeats: int
    max_seconds: float


class Timed(NamedTuple):
    """What the call returned, and its least seconds."""

    value: Any
    seconds: float


def least_seconds(call: Callable[[], Any], repeats: Repeats, *, warm_up: bool = True) -> Timed:
    """Call once to warm up, then as `repeats` says, at least once more.

    Without `warm_up` (for what does not compile), and of a very long call, the first time counts.
    """
    gc.collect()
    begun = time.perf_counter()
    value = call()
    seconds = [time.perf_counter() - begun]
    if warm_up and seconds[0] < LONG_CALL:
        seconds = []
    while not seconds or (len(seconds) < repeats.max_repeats and sum(seconds) < repeats.max_seconds):
        begun = time.perf_counter()
        value = call()
        seconds.append(time.perf_counter() - begun)
    return Timed(value, min(seconds))
