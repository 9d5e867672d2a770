# SPDX-License-Identifier: MIT
"""The same work on many pieces, on all processors."""

import concurrent.futures
from collections.abc import Callable
from typing import TypeVar

import jax

from weft.engines.cpu.threads import num_processors, single_blas_thread
from weft.phases import on_other_threads

__all__ = ["at_once"]

Answer = TypeVar("Answer")


def at_once(
    function: Callable[[int], Answer], count: int, workers: int | None = None, *, again: bool = False
) -> list[Answer]:
    """`function` of each number, in order, on as many threads; the first runs alone, for it compiles for all, unless that is done."""
    workers = num_processors() if workers is None else workers
    if count == 0:
        return []

    def ready(number: int) -> Answer:
        # JAX's switch to double precision holds for a thread, and these threads are new.
        with jax.enable_x64(True):
            return jax.block_until_ready(function(number))

    with single_blas_thread():
        alone = count if workers == 1 else 0 if again else 1
        before = [ready(number) for number in range(alone)]
        if alone >= count:
            return before
        with concurrent.futures.ThreadPoolExecutor(workers) as pool:
            return [*before, *pool.map(on_other_threads(ready), range(alone, count))]
