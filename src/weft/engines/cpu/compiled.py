# SPDX-License-Identifier: MIT
"""Compiled kernels: built once a machine, kept on disk, and found there by later processes."""

import contextlib
import functools
import hashlib
import os
import pathlib
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numba
import numpy as np
import platformdirs

from weft.engines.cpu.adjoint import Gradient, run_backward
from weft.engines.cpu.blas import OPTIONS, ROUTINES
from weft.engines.cpu.blocks import Structure
from weft.engines.cpu.draws import KeptDraws, run_draws_backward, run_draws_forward
from weft.engines.cpu.filter import Asked, Kept, Sweep, Work, run_forward
from weft.engines.cpu.rows import Observed

# Loading from disk takes a fraction of this; compiling takes many times as long.
SECONDS_BEFORE_NOTICE = 2.0


class Kernels(NamedTuple):
    """The compiled sweeps."""

    forward: Callable[..., tuple[float, int]]
    backward: Callable[..., None]
    draws_forward: Callable[..., int]
    draws_backward: Callable[..., None]


_lock = threading.Lock()


def kernels() -> Kernels:
    """The kernels, loaded or compiled at the first call in a process."""
    with _lock:
        return _load()


@functools.cache
def _load() -> Kernels:
    notice = threading.Timer(SECONDS_BEFORE_NOTICE, _say_compiling)
    notice.daemon = True
    notice.start()
    try:
        with _cache_directory() as cache:
            common = (numba.typeof(ROUTINES), *(_type_of(kind) for kind in (Structure, Sweep, Observed, Work)))
            span, boolean, vector, kept, asked = (
                numba.int64,
                numba.boolean,
                numba.float64[::1],
                _type_of(Kept),
                _type_of(Asked),
            )
            places, kept_draws = numba.int64[::1], _type_of(KeptDraws)
            arguments = {
                run_forward: (span, span, boolean, span, kept, vector, vector, boolean, asked),
                run_backward: (span, span, span, kept, vector, vector, _type_of(Gradient), boolean, asked),
                run_draws_forward: (span, span, boolean, span, kept_draws, vector, span, vector, vector, vector),
                run_draws_backward: (span, span, span, kept_draws, span, vector, vector, places, vector, vector),
            }
            return Kernels(*(_compile(kernel, common + own, cache) for kernel, own in arguments.items()))
    finally:
        notice.cancel()


def _compile(function: Callable, signature: tuple, cache: bool) -> Callable:
    dispatcher = numba.njit(cache=cache, **OPTIONS)(function)
    dispatcher.compile(signature)
    # A call with other types is a mistake here, not a wish for half a minute of compiling.
    dispatcher.disable_compile()
    return dispatcher


KERNEL_FILES = ("blas", "blocks", "rows", "triangular", "filter", "adjoint", "draws", "compiled")
MATRICES = {"transition", "turned", "process_noise"}
INTEGERS = {"step", "row_start", "row_stop", "query_start", "query_stop", "place", "rank"}


def _type_of(kind: type) -> Any:
    """Numba's type of a tuple of arrays: flat floats, except for the names above."""
    if kind is Structure:
        return numba.typeof(Structure(*(np.zeros(1, dtype=np.int64) for _ in Structure._fields)))

    def example(name: str) -> np.ndarray:
        if name == "info":
            return np.zeros(1, dtype=np.int32)
        if name in INTEGERS:
            return np.zeros(1, dtype=np.int64)
        return np.zeros((1, 1) if name in MATRICES else 1)

    return numba.typeof(kind(*(example(name) for name in kind._fields)))  # type: ignore[attr-defined]


def _say_compiling() -> None:
    print("weft: compiling the cpu engine, once on this machine (about half a minute)", file=sys.stderr, flush=True)


def source_digest() -> str:
    """Changes with any line of a kernel: numba alone would miss a change in a function called from another file."""
    sources = (pathlib.Path(__file__).with_name(f"{name}.py").read_bytes() for name in KERNEL_FILES)
    return hashlib.sha256(b"".join(sources)).hexdigest()[:16]


@contextlib.contextmanager
def _cache_directory() -> Iterator[bool]:
    """Point numba at a folder that the user can write, and back again; whether there is one."""
    before = numba.config.CACHE_DIR
    root = pathlib.Path(before or platformdirs.user_cache_path("weft"))
    folder = root / f"kernels-{source_digest()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        writable = os.access(folder, os.W_OK)
    except OSError:
        writable = False
    numba.config.CACHE_DIR = str(folder) if writable else before
    try:
        yield writable
    finally:
        numba.config.CACHE_DIR = before
