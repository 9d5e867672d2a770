# SPDX-License-Identifier: MIT
"""What a worker of Dask lets go of before it comes near its limit.

Dask stops a worker at four fifths of its memory until that falls. What JAX has compiled for earlier tasks falls by nobody's doing: a
fit whose workers came so far would wait for ever.
"""

import contextlib
import ctypes
import gc
import sys

import jax

__all__ = ["keep_within_limit"]

# Of the limit: where programs are let go, by how much more memory has to grow before they are again where that did not help, and where
# they are always, since Dask would stop the worker next.
_FULL, _MORE, _BRIM = 0.6, 0.1, 0.74
_left_after_last = 0.0


def keep_within_limit() -> None:
    """Let go of compiled programs where this process is a worker that is rather full; they are compiled again when needed."""
    global _left_after_last
    limit = _limit_of_worker()
    if limit is None or _resident() < min(max(_FULL * limit, _left_after_last + _MORE * limit), _BRIM * limit):
        return
    jax.clear_caches()
    gc.collect()
    with contextlib.suppress(AttributeError, OSError):
        # Of glibc, which else keeps what was freed.
        ctypes.CDLL(None).malloc_trim(0)
    _left_after_last = _resident()


def _limit_of_worker() -> int | None:
    """In bytes; None where there is none, or this process is no worker."""
    if "distributed" not in sys.modules:
        return None
    from distributed import get_worker

    try:
        worker = get_worker()
    except ValueError:
        return None
    limit: int | None = worker.memory_manager.memory_limit
    return limit


def _resident() -> float:
    # Dask needs it too.
    import psutil

    return float(psutil.Process().memory_info().rss)
