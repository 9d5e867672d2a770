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

# numba's settings are set when it is imported, which a type checker cannot see.
SETTINGS: Any = numba.config

# Loading from disk takes a fraction of this; compiling takes many times as long.
SECONDS_BEFORE_NOTICE = 2.0


class Kernels(NamedTuple):
    """The compiled sweeps."""

    forward: Callable[..., tuple[float, int]]
    backward: Callable[..., None]


class DrawKernels(NamedTuple):
    """The compiled sweeps of many draws."""

    forward: Callable[..., int]
    backward: Callable[..., None]


SPAN, FLAG, VECTOR, PLACES = numba.int64, numba.boolean, numba.float64[::1], numba.int64[::1]

_lock = threading.RLock()


def kernels() -> Kernels:
    """The kernels, loaded or compiled at the first call in a process."""
    with _lock:
        return _kernels()


def draw_kernels() -> DrawKernels:
    """The same for many draws, which most processes never need."""
    with _lock:
        return _draw_kernels()


@functools.cache
def _kernels() -> Kernels:
    kept, asked = _type_of(Kept), _type_of(Asked)
    with _loading():
        return Kernels(
            _compile(run_forward, SPAN, SPAN, FLAG, SPAN, kept, VECTOR, VECTOR, FLAG, asked),
            _compile(run_backward, SPAN, SPAN, SPAN, kept, VECTOR, VECTOR, _type_of(Gradient), FLAG, asked),
        )


@functools.cache
def _draw_kernels() -> DrawKernels:
    kept = _type_of(KeptDraws)
    with _loading():
        return DrawKernels(
            _compile(run_draws_forward, SPAN, SPAN, FLAG, SPAN, kept, VECTOR, SPAN, VECTOR, VECTOR, VECTOR),
            _compile(run_draws_backward, SPAN, SPAN, SPAN, kept, SPAN, VECTOR, VECTOR, PLACES, VECTOR, VECTOR),
        )


def _compile(function: Callable, *own: Any) -> Callable:
    """`function` compiled for the arguments all kernels share, then its own."""
    shared = (numba.typeof(ROUTINES), *(_type_of(kind) for kind in (Structure, Sweep, Observed, Work)))
    dispatcher: Any = numba.njit(cache=bool(SETTINGS.CACHE_DIR), **OPTIONS)(function)  # type: ignore[call-overload]
    dispatcher.compile((*shared, *own))
    # A call with other types is a mistake here, not a wish for half a minute of compiling.
    dispatcher.disable_compile()
    return dispatcher


KERNEL_FILES = ("blas", "lanes", "blocks", "rows", "triangular", "filter", "adjoint", "draws", "compiled")
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


def cache_folder() -> pathlib.Path | None:
    """A folder for compiled kernels that can be written: under NUMBA_CACHE_DIR if set, else the user's cache; None if neither can."""
    root = pathlib.Path(SETTINGS.CACHE_DIR or platformdirs.user_cache_path("weft"))
    folder = root / f"kernels-{source_digest()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK) else None


@contextlib.contextmanager
def _loading() -> Iterator[None]:
    """Point numba at the cache folder meanwhile, and say so if it takes as long as only compiling does."""
    notice = threading.Timer(SECONDS_BEFORE_NOTICE, _say_compiling)
    notice.daemon = True
    before, folder = SETTINGS.CACHE_DIR, cache_folder()
    SETTINGS.CACHE_DIR = "" if folder is None else str(folder)
    notice.start()
    try:
        yield
    finally:
        notice.cancel()
        SETTINGS.CACHE_DIR = before
