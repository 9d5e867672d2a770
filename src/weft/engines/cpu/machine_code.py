# SPDX-License-Identifier: MIT
"""Machine code of kernels: kept in a file, brought back to life by LLVM alone, and called with what kernels are given.

It takes two addresses: of its arguments in words of 64 bits, one after another (a number as it is; an array by its address and its
shape), and of where to write what it returns.
"""

import contextlib
import ctypes
import functools
import hashlib
import inspect
import os
import pathlib
import platform
import struct
import sys
from array import array
from collections.abc import Callable
from typing import Any, NamedTuple, final

import numpy as np
from jaxtyping import Float, Int, Int32

from weft.data.atomic import write_whole

__all__ = [
    "DTYPES",
    "NEVER_CALLED",
    "Kernel",
    "MachineCode",
    "is_array",
    "is_whole",
    "may_be_kept",
    "name_of_processor",
    "words_of",
]

DTYPES: dict[Any, Any] = {Float: np.float64, Int: np.int64, Int32: np.int32}
# How numba lets go of an array's memory. Arrays given to kernels are nobody's there, so that nobody does, but the code for it stands.
NEVER_CALLED = ("NRT_MemInfo_call_dtor",)


class MachineCode(NamedTuple):
    """An object file as a linker takes it, and what its function is called there."""

    symbol: str
    content: bytes

    def write(self, path: pathlib.Path, takes: str) -> None:
        body = b"\n".join([takes.encode(), self.symbol.encode(), self.content])
        write_whole(path, hashlib.sha256(body).digest() + body)

    @classmethod
    def read(cls, path: pathlib.Path, takes: str) -> "MachineCode | None":
        """None where there is none, less than all of it (running a part would end the process), or what `takes` other arguments."""
        try:
            found = path.read_bytes()
        except OSError:
            return None
        digest, body = found[:32], found[32:]
        if hashlib.sha256(body).digest() != digest:
            return None
        taken, symbol, content = body.split(b"\n", 2)
        return cls(symbol.decode(), content) if taken.decode() == takes else None


def words_of(kinds: tuple[Any, ...], returns: str) -> str:
    """In one line: what a kernel takes, word by word as `Kernel` writes them, and returns."""

    def told(kind: Any) -> str:
        if is_whole(kind):
            return "q"
        if is_array(kind):
            return f"{np.dtype(DTYPES[kind.dtype]).char}{len(kind.dim_str.split())}"
        return f"{kind.__name__}({' '.join(told(inner) for inner in inspect.get_annotations(kind).values())})"

    return f"{' '.join(told(kind) for kind in kinds)} -> {returns}"


def may_be_kept() -> bool:
    """Whether machine code is kept apart from numba's own files: where it was tried."""
    return sys.platform == "linux" and platform.machine() == "x86_64"


@functools.cache
def name_of_processor() -> str:
    """Changes with what the code of this processor may be, as numba's settings may have it too."""
    import llvmlite.binding as llvm

    features = sorted(llvm.get_host_cpu_features().items())
    settings = sorted(
        each for each in os.environ.items() if each[0].startswith("NUMBA_") and each[0] != "NUMBA_CACHE_DIR"
    )
    said = repr((llvm.get_process_triple(), llvm.get_host_cpu_name(), features, settings))
    return hashlib.sha256(said.encode()).hexdigest()[:16]


@final
class Kernel:
    """Machine code as a function of Python's, for arguments of `kinds`; `returns` says in letters of `struct` what it gives back."""

    def __init__(self, code: MachineCode, kinds: tuple[Any, ...], returns: str):
        self._engine, address = _load(code)
        self._call = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 2, *[ctypes.c_size_t] * 2)(address)
        self._writers = tuple(_writer(kind) for kind in kinds)
        self._returns = struct.Struct(returns)

    def __call__(self, *arguments: Any) -> Any:
        words: list[int] = []
        for write, argument in zip(self._writers, arguments, strict=True):
            write(argument, words)
        given, answer = array("q", words), ctypes.create_string_buffer(max(self._returns.size, 8))
        nothing, excuse = ctypes.c_void_p(), ctypes.c_void_p()
        status = self._call(
            ctypes.byref(nothing), ctypes.byref(excuse), given.buffer_info()[0], ctypes.addressof(answer)
        )
        if status:
            raise RuntimeError(f"a kernel of the cpu engine ended with status {status}, which it never should")
        found = self._returns.unpack_from(answer)
        return found if len(found) > 1 else found[0] if found else None


def is_whole(kind: Any) -> bool:
    return kind in (int, bool)


def is_array(kind: Any) -> bool:
    return hasattr(kind, "dim_str")


def _writer(kind: Any) -> Callable[[Any, list[int]], None]:
    """Adds an argument of this kind to words; one of another kind is refused, since the kernel would read what is not there."""
    if is_whole(kind):
        return lambda value, words: words.append(int(value))
    if is_array(kind):
        return _array_writer(np.dtype(DTYPES[kind.dtype]), len(kind.dim_str.split()))
    inner = tuple(_writer(each) for each in inspect.get_annotations(kind).values())

    def write(value: Any, words: list[int]) -> None:
        if type(value) is not kind:
            raise TypeError(f"a kernel takes a {kind.__name__} here; it is given a {type(value).__name__}")
        for write_one, part in zip(inner, value, strict=True):
            write_one(part, words)

    return write


def _array_writer(dtype: Any, ndim: int) -> Callable[[Any, list[int]], None]:
    def write(value: Any, words: list[int]) -> None:
        if value.dtype != dtype or value.ndim != ndim or not value.flags.c_contiguous:
            raise TypeError(
                f"a kernel takes {ndim} dimensions of {dtype}, in order; it is given {value.ndim} of {value.dtype} "
                f"with strides {value.strides}"
            )
        words.append(_address_of(value))
        words.extend(value.shape)

    return write


def _address_in_the_object(value: np.ndarray) -> int:
    """As NumPy's C interface has it: right behind what every object begins with."""
    return _number_at(id(value) + object.__basicsize__).value


def _address_as_told(value: np.ndarray) -> int:
    return value.__array_interface__["data"][0]


_number_at = ctypes.c_size_t.from_address
_SOME = np.zeros(1)
# A kernel takes some sixty arrays, and being told takes ten times as long as looking.
_address_of = _address_in_the_object if _address_in_the_object(_SOME) == _address_as_told(_SOME) else _address_as_told


def _load(code: MachineCode) -> tuple[Any, int]:
    """Where the code is now, and what keeps it there."""
    import llvmlite.binding as llvm

    # Before llvmlite 0.45 LLVM is set up by hand, and after that no more.
    with contextlib.suppress(RuntimeError):
        llvm.initialize()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    for name in NEVER_CALLED:
        # What numba knows better stays, and takes this one's place if it comes later.
        if llvm.address_of_symbol(name) is None:
            llvm.add_symbol(name, ctypes.cast(ctypes.CDLL(None).abort, ctypes.c_void_p).value)
    machine = llvm.Target.from_default_triple().create_target_machine(codemodel="jitdefault", jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code.content))
    engine.finalize_object()
    return engine, engine.get_function_address(code.symbol)
