# SPDX-License-Identifier: MIT
"""Compiled kernels: built once a machine, kept on disk, and found there by later processes."""

import contextlib
import functools
import hashlib
import inspect
import os
import pathlib
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numba
import numpy as np
import platformdirs
from jaxtyping import Float, Int, Int32

from weft.engines.cpu.adjoint import Gradient, run_backward
from weft.engines.cpu.blas import OPTIONS
from weft.engines.cpu.blocks import Adjoint, Belief, Frame
from weft.engines.cpu.draws import Draws, KeptDraws, run_draws_backward, run_draws_forward
from weft.engines.cpu.filter import Kept, Series, Stretch, run_forward
from weft.engines.cpu.work import Work

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


NUMBERS = Float[np.ndarray, " number"]

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
    with _loading():
        return Kernels(
            _compile(run_forward, (Frame, Series, Work, Stretch, Kept, Belief, bool, bool)),
            _compile(run_backward, (Frame, Series, Work, Stretch, Kept, Adjoint, Gradient, bool)),
        )


@functools.cache
def _draw_kernels() -> DrawKernels:
    with _loading():
        return DrawKernels(
            _compile(run_draws_forward, (Frame, Series, Work, Stretch, KeptDraws, Draws, Belief, bool)),
            _compile(run_draws_backward, (Frame, Series, Stretch, KeptDraws, Draws, NUMBERS, NUMBERS)),
        )


def _compile(function: Callable, kinds: tuple[Any, ...]) -> Callable:
    """`function` compiled for arguments of these kinds."""
    dispatcher: Any = numba.njit(cache=bool(SETTINGS.CACHE_DIR), **OPTIONS)(function)  # type: ignore[call-overload]
    dispatcher.compile(tuple(numba.typeof(_example(kind)) for kind in kinds))
    # A call with other types is a mistake here, not a wish for half a minute of compiling.
    dispatcher.disable_compile()
    return dispatcher


KERNEL_FILES = ("blas", "lanes", "blocks", "rows", "triangular", "work", "filter", "adjoint", "draws", "compiled")
DTYPES: dict[Any, Any] = {Float: np.float64, Int: np.int64, Int32: np.int32}


def _example(kind: Any) -> Any:
    """Something of this kind: a number, an array as its annotation says, or a tuple of such things by name."""
    if kind in (int, bool):
        return kind()
    if hasattr(kind, "_fields"):
        return kind(*(_example(inner) for inner in inspect.get_annotations(kind).values()))
    return np.zeros((1,) * len(kind.dim_str.split()), dtype=DTYPES[kind.dtype])


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
