# SPDX-License-Identifier: MIT
"""The same work on many pieces, on all processors."""

import concurrent.futures
from collections.abc import Callable
from typing import TypeVar

import jax

from weft.engines.cpu.threads import num_processors, single_blas_thread

__all__ = ["at_once"]

Answer = TypeVar("Answer")


def at_once(function: Callable[[int], Answer], count: int, workers: int | None = None) -> list[Answer]:
    """`function` of each number, in order, on as many threads; the first runs alone, for it compiles for all."""
    workers = num_processors() if workers is None else workers
    if count == 0:
        return []

    def ready(number: int) -> Answer:
        # JAX's switch to double precision holds for a thread, and these threads are new.
        with jax.enable_x64(True):
            return jax.block_until_ready(function(number))

    with single_blas_thread():
        first = ready(0)
        if workers == 1 or count == 1:
            return [first, *(ready(number) for number in range(1, count))]
        with concurrent.futures.ThreadPoolExecutor(workers) as pool:
            return [first, *pool.map(ready, range(1, count))]
