# SPDX-License-Identifier: MIT
"""Kernels compiled by numba. Imported where something is compiled, or where nothing compiled before can be used without numba.

numba optimises a function together with all that it calls and makes machine code of it, before whoever calls it is optimised with it once
more. The functions of the kernels are inlined wherever they are called and are never called otherwise, so that most of what compiling
took went into code that nobody runs.

Where numba keeps its code is no part of what it promises, so this is done with versions it was tried with alone; with others, kernels
are compiled as numba does it: the same code, in twice the time, and kept on disk by numba.
"""

import contextlib
import inspect
import sys
from collections.abc import Callable, Iterator
from typing import Any, no_type_check

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.event import Event, Listener, install_listener
from numba.core.registry import cpu_target
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

from weft.engines.cpu.machine_code import DTYPES, NEVER_CALLED, MachineCode, is_array, is_whole

__all__ = ["compile_alone", "compile_by_numba", "inlined_options", "make_dispatcher", "type_of_intrinsic"]

# The lowest is that of pyproject.toml, which `make lowest` tries.
_FIRST_TRIED, _LAST_TRIED = (0, 61), (0, 68)
# numba's settings are set when it is imported, which a type checker cannot see.
SETTINGS: Any = numba.config
# What a kernel may ask of the process it runs in: functions of the C library, which every process has, and what is never called.
_MAY_ASK_FOR = {"log", "exp", "sqrt", "fma", "memset", "memcpy", "memmove", *NEVER_CALLED}
_WORD = ir.IntType(64)


class _WithoutEnvironments:
    """A code generator to which a function tells where its Python objects are: of one that is nowhere in memory, to nobody."""

    def __init__(self, codegen: Any):
        self._codegen = codegen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codegen, name)

    def set_env(self, name: str, environment: Any) -> None: ...


class _InlinedLibrary(JITCodeLibrary):
    """Code to be linked into that of others, as it was written: they optimise it, and make machine code of it."""

    @property
    def codegen(self) -> Any:
        return _WithoutEnvironments(self._codegen)

    def get_pointer_to_function(self, name: str) -> int:
        """None: there is no machine code."""
        self._ensure_finalized()
        return 0

    def _optimize_final_module(self) -> None: ...

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


class _Inlined(Compiler):
    """numba's own compiler, with another place for what comes out of it."""

    def define_pipelines(self) -> list[Any]:
        self.state.library = _InlinedLibrary(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        return super().define_pipelines()


class _Alone(Compiler):
    """numba's own compiler, which keeps the machine code it makes at hand."""

    def define_pipelines(self) -> list[Any]:
        self.state.library = self.state.targetctx.codegen().create_library(self.state.func_id.func_qualname)
        self.state.library.enable_object_caching()
        return super().define_pipelines()


def inlined_options(version: str) -> dict[str, Any]:
    """Options of `numba.njit` that do this; none where numba is of a version it was not tried with."""
    return {"pipeline_class": _Inlined} if _was_tried(version) else {}


def _was_tried(version: str) -> bool:
    major, minor = version.split(".")[:2]
    return _FIRST_TRIED <= (int(major), int(minor)) <= _LAST_TRIED


# No unsafe assumption about NaN or infinity: failures are found by looking for them. Only kernels call these functions: wrappers by which
# Python could are a fifth of what there is to compile.
OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "fastmath": {"reassoc", "contract", "nsz"},
    "forceinline": True,
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    **inlined_options(numba.__version__),
}


def make_dispatcher(function: Callable, **options: Any) -> Any:
    """What numba knows a function by that only kernels call."""
    return numba.njit(**(OPTIONS | options))(function)


def type_of_intrinsic(make: Callable) -> Any:
    made = intrinsic(make)
    context = cpu_target.typing_context
    # It was made known to numba just now, who looks for such things before it compiles and not while it does.
    context.refresh()
    cpu_target.target_context.refresh()
    return context.resolve_value_type(made)


def compile_alone(function: Callable, kinds: tuple[Any, ...]) -> MachineCode | None:
    """`function` for arguments of these kinds as machine code that needs no numba; None with a numba this was not tried with."""
    if not _was_tried(numba.__version__):
        return None
    take, give, inner = _taking(kinds), _giving(), make_dispatcher(function)

    @no_type_check
    def entry(words, answer):
        give(answer, inner(*take(words)))

    dispatcher: Any = numba.njit(**(OPTIONS | {"forceinline": False, "pipeline_class": _Alone}))(entry)
    with _said():
        dispatcher.compile((types.uintp, types.uintp))
    (overload,) = dispatcher.overloads.values()
    library = overload.library
    asked = {found.name for found in library._final_module.functions if found.is_declaration}
    if any(name not in _MAY_ASK_FOR and not name.startswith("llvm.") for name in asked):
        return None
    return MachineCode(overload.fndesc.llvm_func_name, bytes(library._get_compiled_object()))


def compile_by_numba(function: Callable, kinds: tuple[Any, ...], folder: str) -> Callable:
    """`function` compiled for arguments of these kinds, or found in `folder`, unless that is empty, as numba keeps it."""
    options = OPTIONS | {
        "no_cpython_wrapper": False,
        "cache": bool(folder),
        # numba's own: what is inlined in this one becomes machine code here.
        "pipeline_class": None,
    }
    before, SETTINGS.CACHE_DIR = SETTINGS.CACHE_DIR, folder
    try:
        dispatcher: Any = numba.njit(**options)(function)
        with _said():
            dispatcher.compile(tuple(_type_of(kind) for kind in kinds))
    finally:
        SETTINGS.CACHE_DIR = before
    # A call with other types is a mistake here, not a wish for half a minute of compiling.
    dispatcher.disable_compile()
    return dispatcher


def _type_of(kind: Any) -> Any:
    return numba.typeof(_example(kind))


def _example(kind: Any) -> Any:
    """Something of this kind: a number, an array as its annotation says, or a tuple of such things by name."""
    if is_whole(kind):
        return kind()
    if is_array(kind):
        return np.zeros((1,) * len(kind.dim_str.split()), dtype=DTYPES[kind.dtype])
    return kind(*(_example(inner) for inner in inspect.get_annotations(kind).values()))


def _taking(kinds: tuple[Any, ...]) -> Any:
    """Makes arguments of these kinds of the words at an address, in the order `machine_code.Kernel` writes them."""
    of_kinds = types.Tuple([_type_of(kind) for kind in kinds])

    @intrinsic
    @no_type_check
    def take(typing_context, words):
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            address = builder.inttoptr(values[0], _WORD.as_pointer())
            position = iter(range(sys.maxsize))

            def word() -> Any:
                return builder.load(builder.gep(address, [ir.Constant(_WORD, next(position))]))

            def made(kind: Any) -> Any:
                if isinstance(kind, types.BaseTuple):
                    return context.make_tuple(builder, kind, [made(inner) for inner in kind.types])
                if isinstance(kind, types.Array):
                    return array(kind)
                return context.cast(builder, word(), types.int64, kind)

            def array(kind: Any) -> Any:
                numbers, shape = word(), [word() for _ in range(kind.ndim)]
                itemsize = ir.Constant(_WORD, context.get_abi_sizeof(context.get_data_type(kind.dtype)))
                strides = [itemsize]
                for length in reversed(shape[1:]):
                    strides.insert(0, builder.mul(strides[0], length))
                found = context.make_array(kind)(context, builder)
                # Nobody's: whoever calls keeps it alive.
                pointer = builder.inttoptr(numbers, found.data.type)
                populate_array(found, data=pointer, shape=shape, strides=strides, itemsize=itemsize, meminfo=None)
                return found._getvalue()

            return made(of_kinds)

        return of_kinds(words), generate

    return take


def _giving() -> Any:
    """Writes a number, or several, in words to an address."""

    @intrinsic
    @no_type_check
    def give(typing_context, answer, numbers):
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            kind = signature.args[1]
            several = isinstance(kind, types.BaseTuple)
            kinds = kind.types if several else [] if kind == types.none else [kind]
            for position, each in enumerate(kinds):
                value = builder.extract_value(values[1], position) if several else values[1]
                wanted = types.float64 if isinstance(each, types.Float) else types.int64
                value = context.cast(builder, value, each, wanted)
                address = builder.inttoptr(values[0], value.type.as_pointer())
                builder.store(value, builder.gep(address, [ir.Constant(_WORD, position)]))
            return context.get_dummy_value()

        return types.void(answer, numbers), generate

    return give


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


_notice = _Notice()


@contextlib.contextmanager
def _said() -> Iterator[None]:
    with install_listener("numba:compile", _notice):
        yield
