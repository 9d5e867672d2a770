# SPDX-License-Identifier: MIT
"""Compiled kernels: built once a machine, kept on disk, and found there by later processes, which need no numba to run them."""

import contextlib
import functools
import hashlib
import importlib.metadata
import os
import pathlib
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import platformdirs
from jaxtyping import Float

from weft.collecting import without_collecting
from weft.engines.cpu.adjoint import Gradient, run_backward
from weft.engines.cpu.blocks import Adjoint, Belief, Frame
from weft.engines.cpu.draws import Draws, KeptDraws, run_draws_backward, run_draws_forward
from weft.engines.cpu.filter import Kept, Series, Stretch, run_forward
from weft.engines.cpu.machine_code import Kernel, MachineCode, may_be_kept, name_of_processor, words_of
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
        return _compile(folder, run_at_places, (AtPlaces, KeptAtPlaces, PlaceWork, PlaceSlopes), "dq")


@functools.cache
def _kernels() -> Kernels:
    with _loading() as folder:
        with _compiled_meanwhile(folder, "run_backward"):
            kinds = (Frame, Series, Work, Stretch, Kept, Belief, bool, bool)
            forward = _compile(folder, run_forward, kinds, "dq")
        return Kernels(forward, _backward(folder))


def _backward(folder: pathlib.Path | None) -> Callable[..., None]:
    return _compile(folder, run_backward, (Frame, Series, Work, Stretch, Kept, Adjoint, Gradient, bool), "")


def keep_backward() -> None:
    """Compile the sweep back and leave it in the folder: what the process of `_compiled_meanwhile` is started for."""
    with _loading() as folder:
        _backward(folder)


@functools.cache
def _switch_kernels() -> SwitchKernels:
    with _loading() as folder:
        forward = (Frame, SwitchedSeries, Work, Stretch, Kept, Belief, bool, bool)
        backward = (Frame, SwitchedSeries, Work, Stretch, Kept, Adjoint, Gradient, bool)
        return SwitchKernels(
            _compile(folder, find_switches, (Observed, int, Met, Switches), "q"),
            Kernels(
                _compile(folder, run_forward_by_switches, forward, "dq"),
                _compile(folder, run_backward_by_switches, backward, ""),
            ),
        )


@functools.cache
def _draw_kernels() -> DrawKernels:
    with _loading() as folder:
        forward = (Frame, Series, Work, Stretch, KeptDraws, Draws, Belief, bool)
        backward = (Frame, Series, Stretch, KeptDraws, Draws, NUMBERS, NUMBERS)
        return DrawKernels(
            _compile(folder, run_draws_forward, forward, "q"),
            _compile(folder, run_draws_backward, backward, ""),
        )


def _compile(folder: pathlib.Path | None, function: Callable, kinds: tuple[Any, ...], returns: str) -> Callable:
    """`function` for arguments of these kinds, which returns numbers of these kinds (see `Kernel`): as it is kept, else compiled."""
    with _alone(folder, function.__name__):
        code = _machine_code(folder, function, kinds, returns) if may_be_kept() else None
        if code is not None:
            return Kernel(code, kinds, returns)
        from weft.engines.cpu.by_numba import compile_by_numba

        return compile_by_numba(function, kinds, "" if folder is None else str(folder))


def _machine_code(
    folder: pathlib.Path | None, function: Callable, kinds: tuple[Any, ...], returns: str
) -> MachineCode | None:
    """None where numba has to keep it (see `compile_alone`)."""
    takes = words_of(kinds, returns)
    if folder is not None and (code := MachineCode.read(_path(folder, function.__name__), takes)) is not None:
        return code
    from weft.engines.cpu.by_numba import compile_alone

    code = compile_alone(function, kinds)
    if code is not None and folder is not None:
        with contextlib.suppress(OSError):
            code.write(_path(folder, function.__name__), takes)
    return code


def _path(folder: pathlib.Path, name: str) -> pathlib.Path:
    return folder / f"{name}-{name_of_processor()}.code"


def _is_kept(folder: pathlib.Path, name: str) -> bool:
    """Whether the kernel of this name is there, as machine code or as numba keeps it."""
    return (may_be_kept() and _path(folder, name).exists()) or any(folder.rglob(f"*.{name}-*.nbi"))


@contextlib.contextmanager
def _alone(folder: pathlib.Path | None, name: str) -> Iterator[None]:
    """One process at a time has the kernel of this name: those that come meanwhile wait, and then find it in the folder.

    A process that ends, however it does, lets go. Where files cannot be locked nobody waits.
    """
    with contextlib.ExitStack() as stack:
        if fcntl is not None and folder is not None:
            with contextlib.suppress(OSError):
                file = stack.enter_context((folder / f"{name}.lock").open("w"))
                fcntl.flock(file, fcntl.LOCK_EX)
        yield


KERNEL_FILES = (
    "inlined",
    "by_numba",
    "machine_code",
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


def source_digest() -> str:
    """Changes with any line of a kernel: numba alone would miss a change in a function called from another file.

    And with numba's version: of two environments on one machine each would throw away what the other has compiled.
    """
    sources = (pathlib.Path(__file__).with_name(f"{name}.py").read_bytes() for name in KERNEL_FILES)
    return hashlib.sha256(b"".join([importlib.metadata.version("numba").encode(), *sources])).hexdigest()[:16]


def cache_folder() -> pathlib.Path | None:
    """A folder for compiled kernels that can be written: under NUMBA_CACHE_DIR if set, else the user's cache; None if neither can."""
    root = pathlib.Path(os.environ.get("NUMBA_CACHE_DIR") or platformdirs.user_cache_path("weft"))
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
    if folder is None or is_frozen or processors_of_process() < 2 or _is_kept(folder, name):
        yield
        return
    # Not from the folder somebody works in: a random.py of theirs would be run in place of Python's.
    command = [sys.executable, "-P", "-c", f"from {__name__} import keep_backward; keep_backward()"]
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
    """The folder that kernels are kept in."""
    with timing("compile"), without_collecting():
        yield cache_folder()
