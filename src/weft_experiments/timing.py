# SPDX-License-Identifier: MIT
"""Seconds of a call: the least over repeats, after one that warms up (and compiles), as the paper timed.

By the clock and of processors: on a machine that does other work too, the second is what the first would be without it.
"""

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
    """What the call returned, its least seconds by the clock and the least of processor time."""

    value: Any
    seconds: float
    processor_seconds: float


def least_seconds(call: Callable[[], Any], repeats: Repeats, *, warm_up: bool = True) -> Timed:
    """Call once to warm up, then as `repeats` says, at least once more.

    Without `warm_up` (for what does not compile), and of a very long call, the first time counts.
    """
    gc.collect()
    latest = once(call)
    spent = [] if warm_up and latest.seconds < LONG_CALL else [latest[1:]]
    while not spent or (len(spent) < repeats.max_repeats and sum(clock for clock, _ in spent) < repeats.max_seconds):
        latest = once(call)
        spent.append(latest[1:])
    return Timed(latest.value, min(clock for clock, _ in spent), min(processor for _, processor in spent))


def once(call: Callable[[], Any]) -> Timed:
    begun, processor_begun = time.perf_counter(), time.process_time()
    value = call()
    return Timed(value, time.perf_counter() - begun, time.process_time() - processor_begun)
