# SPDX-License-Identifier: MIT
"""Functions of which kernels are made: marked here, and compiled by `by_numba` where a kernel that calls them is.

A process that finds its kernels on disk compiles nothing, and imports no numba: that and what numba sets up took it a second.
"""

import functools
from collections.abc import Callable
from typing import Any, final

__all__ = ["Inlined", "Intrinsic", "called", "inlined", "intrinsic"]


@final
class Inlined:
    """A function that only kernels call, and what numba knows it by; `py_func` is as it is written."""

    def __init__(self, py_func: Callable, **options: Any):
        self.py_func = py_func
        self._options = options

    @functools.cached_property
    def _dispatcher(self) -> Any:
        from weft.engines.cpu.by_numba import make_dispatcher

        return make_dispatcher(self.py_func, **self._options)

    @property
    def _numba_type_(self) -> Any:
        return self._dispatcher._numba_type_


@final
class Intrinsic:
    """What kernels do that numba has no words for: `make` gives the signature and what writes the code, as for numba's `intrinsic`."""

    def __init__(self, make: Callable):
        self._make = make

    @functools.cached_property
    def _numba_type_(self) -> Any:
        from weft.engines.cpu.by_numba import type_of_intrinsic

        return type_of_intrinsic(self._make)


def inlined(function: Callable) -> Inlined:
    """Compiled within whatever kernel calls it, wherever it does."""
    return Inlined(function)


def called(function: Callable) -> Inlined:
    """Compiled once in a kernel that calls it from several places: written out at each it takes far longer to compile than it saves."""
    return Inlined(function, forceinline=False)


def intrinsic(make: Callable) -> Intrinsic:
    return Intrinsic(make)
