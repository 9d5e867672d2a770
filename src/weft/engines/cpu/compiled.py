# SPDX-License-Identifier: MIT
"""Compiled kernels: built once a machine, kept on disk, and found there by later processes."""

import contextlib
import functools
import hashlib
import inspect
import os
import pathlib
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numba
import numpy as np
import platformdirs
from jaxtyping import Float, Int, Int32
from numba.core.event import Event, Listener, install_listener

from weft.collecting import without_collecting
from weft.engines.cpu.adjoint import Gradient, run_backward
from weft.engines.cpu.blas import OPTIONS
from weft.engines.cpu.blocks import Adjoint, Belief, Frame
from weft.engines.cpu.draws import Draws, KeptDraws, run_draws_backward, run_draws_forward
from weft.engines.cpu.filter import Kept, Series, Stretch, run_forward
from weft.engines.cpu.places import AtPlaces, KeptAtPlaces, PlaceSlopes, PlaceWork, run_at_places
from weft.engines.cpu.rows import Observed
from weft.engines.cpu.switches import (
    Met,
    SwitchedSeries,
    Switches,
    find_switches,
    run_backward_by_switches,
    run_forward_by_switches,
)
from weft.engines.cpu.threads import processors_of_process
from weft.engines.cpu.work import Work
from weft.phases import timing

try:
    import fcntl
except ImportError:
    # Windows has none; there whoever comes at the same time compiles the same, and the last to end is kept.
    fcntl = None  # type: ignore[assignment]

# numba's settings are set when it is imported, which a type checker cannot see.
SETTINGS: Any = numba.config


class Kernels(NamedTuple):
    """The compiled sweeps."""

    forward: Callable[..., tuple[float, int]]
    backward: Callable[..., None]


class DrawKernels(NamedTuple):
    """The compiled sweeps of many draws."""

    forward: Callable[..., int]
    backward: Callable[..., None]


class SwitchKernels(NamedTuple):
    """The compiled sweeps of rows by switches, and what finds these."""

    find: Callable[..., int]
    sweeps: Kernels


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


def switch_kernels() -> SwitchKernels:
    """The same where rows are taken by switches, compiled apart: those who have no such rows wait for none of it."""
    with _lock:
        return _switch_kernels()


def place_kernel() -> Callable[..., tuple[float, int]]:
    """The same for components at the same places, which most models are learned by."""
    with _lock:
        return _place_kernel()


@functools.cache
def _place_kernel() -> Callable[..., tuple[float, int]]:
    # Whoever learns then answers, by the sweeps.
    with _loading() as folder, _compiled_meanwhile(folder, "run_backward"):
        return _compile(run_at_places, (AtPlaces, KeptAtPlaces, PlaceWork, PlaceSlopes))


@functools.cache
def _kernels() -> Kernels:
    with _loading() as folder:
        with _compiled_meanwhile(folder, "run_backward"):
            forward = _compile(run_forward, (Frame, Series, Work, Stretch, Kept, Belief, bool, bool))
        return Kernels(forward, _backward())


def _backward() -> Callable[..., None]:
    return _compile(run_backward, (Frame, Series, Work, Stretch, Kept, Adjoint, Gradient, bool))


def keep_backward() -> None:
    """Compile the sweep back and leave it in the folder: what the process of `_compiled_meanwhile` is started for."""
    with _loading():
        _backward()


@functools.cache
def _switch_kernels() -> SwitchKernels:
    with _loading():
        return SwitchKernels(
            _compile(find_switches, (Observed, int, Met, Switches)),
            Kernels(
                _compile(run_forward_by_switches, (Frame, SwitchedSeries, Work, Stretch, Kept, Belief, bool, bool)),
                _compile(
                    run_backward_by_switches, (Frame, SwitchedSeries, Work, Stretch, Kept, Adjoint, Gradient, bool)
                ),
            ),
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
    options: Any = OPTIONS | {
        "no_cpython_wrapper": False,
        "cache": bool(SETTINGS.CACHE_DIR),
        # numba's own: what is inlined in this one becomes machine code here.
        "pipeline_class": None,
    }
    dispatcher: Any = numba.njit(**options)(function)
    with _alone(SETTINGS.CACHE_DIR, function.__name__):
        dispatcher.compile(tuple(numba.typeof(_example(kind)) for kind in kinds))
    # A call with other types is a mistake here, not a wish for half a minute of compiling.
    dispatcher.disable_compile()
    return dispatcher


@contextlib.contextmanager
def _alone(folder: str, name: str) -> Iterator[None]:
    """One process at a time has the kernel of this name: those that come meanwhile wait, and then find it in the folder.

    A process that ends, however it does, lets go. Where files cannot be locked nobody waits.
    """
    with contextlib.ExitStack() as stack:
        if fcntl is not None and folder:
            with contextlib.suppress(OSError):
                file = stack.enter_context((pathlib.Path(folder) / f"{name}.lock").open("w"))
                fcntl.flock(file, fcntl.LOCK_EX)
        yield


KERNEL_FILES = (
    "inlined",
    "blas",
    "lanes",
    "blocks",
    "rows",
    "triangular",
    "work",
    "filter",
    "adjoint",
    "places",
    "switches",
    "draws",
    "compiled",
)
DTYPES: dict[Any, Any] = {Float: np.float64, Int: np.int64, Int32: np.int32}


def _example(kind: Any) -> Any:
    """Something of this kind: a number, an array as its annotation says, or a tuple of such things by name."""
    if kind in (int, bool):
        return kind()
    if hasattr(kind, "_fields"):
        return kind(*(_example(inner) for inner in inspect.get_annotations(kind).values()))
    return np.zeros((1,) * len(kind.dim_str.split()), dtype=DTYPES[kind.dtype])


class _Notice(Listener):
    """Says once that something is compiled, when numba begins to; what is loaded from disk is not."""

    def __init__(self) -> None:
        self.said = False

    def on_start(self, event: Event) -> None:
        if not self.said:
            print(
                "weft: compiling the cpu engine, once on this machine (up to half a minute)",
                file=sys.stderr,
                flush=True,
            )
        self.said = True

    def on_end(self, event: Event) -> None: ...


def source_digest() -> str:
    """Changes with any line of a kernel: numba alone would miss a change in a function called from another file.

    And with numba's version: of two environments on one machine each would throw away what the other has compiled.
    """
    sources = (pathlib.Path(__file__).with_name(f"{name}.py").read_bytes() for name in KERNEL_FILES)
    return hashlib.sha256(b"".join([numba.__version__.encode(), *sources])).hexdigest()[:16]


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
def _compiled_meanwhile(folder: pathlib.Path | None, name: str) -> Iterator[None]:
    """Another process compiles the kernel of this name where there is none in `folder` yet: numba compiles one at a time in a process.

    What that process cannot do, for whatever reason, is not in the folder afterwards, and is done here.
    """
    is_frozen = getattr(sys, "frozen", False)
    if folder is None or is_frozen or processors_of_process() < 2 or any(folder.rglob(f"*.{name}-*.nbi")):
        yield
        return
    command = [sys.executable, "-c", f"from {__name__} import keep_backward; keep_backward()"]
    quiet = subprocess.DEVNULL
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder.parent)}
            process = subprocess.Popen(command, env=environment, stdin=quiet, stdout=quiet, stderr=quiet)
            stack.callback(process.wait)
            # First on the way out, and only where something went wrong here: nobody waits for its work then.
            stack.push(lambda kind, error, trace: process.kill() if kind is not None else None)
        yield


@contextlib.contextmanager
def _loading() -> Iterator[pathlib.Path | None]:
    """Point numba at the cache folder meanwhile, which is handed out, and say so if anything is compiled."""
    before, folder = SETTINGS.CACHE_DIR, cache_folder()
    SETTINGS.CACHE_DIR = "" if folder is None else str(folder)
    try:
        with timing("compile"), without_collecting(), install_listener("numba:compile", _Notice()):
            yield folder
    finally:
        SETTINGS.CACHE_DIR = before
