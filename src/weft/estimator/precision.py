# SPDX-License-Identifier: MIT
"""Double precision for the length of a call, whatever JAX is set to outside."""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import jax

from weft.arrays import require_own_process

__all__ = ["in_float64"]

Given = ParamSpec("Given")
Answer = TypeVar("Answer")


def in_float64(method: Callable[Given, Answer]) -> Callable[Given, Answer]:
    """`method` with float64 on while it runs; the global setting is left alone."""

    @functools.wraps(method)
    def scoped(*args: Given.args, **kwargs: Given.kwargs) -> Answer:
        require_own_process()
        with jax.enable_x64(True):
            return method(*args, **kwargs)

    return scoped
