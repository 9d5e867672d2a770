# SPDX-License-Identifier: MIT
"""How functions are compiled that only kernels call: within these, and nowhere else.

numba optimises a function together with all that it calls and makes machine code of it, before whoever calls it is optimised with it once
more. The functions of the kernels are inlined wherever they are called and are never called otherwise, so that most of what compiling
took went into code that nobody runs.

Where numba keeps its code is no part of what it promises, so this is done with versions it was tried with alone; with others, kernels
are compiled as numba does it: the same code, in twice the time.
"""

from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler

__all__ = ["inlined_options"]

# The lowest is that of pyproject.toml, which `make lowest` tries.
_FIRST_TRIED, _LAST_TRIED = (0, 61), (0, 68)


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


def inlined_options(version: str) -> dict[str, Any]:
    """Options of `numba.njit` that do this; none where numba is of a version it was not tried with."""
    major, minor = version.split(".")[:2]
    return {"pipeline_class": _Inlined} if _FIRST_TRIED <= (int(major), int(minor)) <= _LAST_TRIED else {}
