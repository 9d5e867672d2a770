# SPDX-License-Identifier: MIT
"""What counts as an array here, and the checks that JAX can compute: in double precision, in a process of its own."""

import os
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import jax
import numpy as np
import numpy.typing as npt

T = TypeVar("T")

# `Given[Kernel | None]`: what a caller may give, for a static checker. When the program runs anything gets in, and whoever takes
# it says in a sentence what is wrong with it, also while the tests check every other annotation.
if TYPE_CHECKING:
    Given = Annotated[T, "checked by hand"]
else:

    class Given:
        """`Given[X]` is X to a static checker and anything to a running program."""

        def __class_getitem__(cls, kinds: Any) -> Any:
            return Annotated[Any, kinds]


# What a user may give for numbers: NumPy, JAX, lists, columns of a table.
ArrayLike = Given[npt.ArrayLike | jax.Array]
# One number, which JAX may have made.
Scalar = float | np.number[Any] | jax.Array

# Data stay NumPy until they meet a model; inside a transformation everything is a JAX array. Shapes and kinds are
# checked while the tests run; a static checker would only see that the two differ.
if TYPE_CHECKING:
    AnyArray = Any
else:
    AnyArray = jax.Array | np.ndarray
ARRAYS = (jax.Array, np.ndarray)


# The process in which weft first had JAX compute.
_process: int | None = None


def require_own_process() -> None:
    """Raise in a process forked from one that has computed: JAX's threads did not come along, and it would wait for them for ever."""
    global _process
    if _process is None:
        _process = os.getpid()
    elif _process != os.getpid():
        raise RuntimeError(
            "this process was forked from one that had used weft, and JAX does not work in it; start processes afresh, "
            "with multiprocessing.get_context('spawn') or joblib's default"
        )


def require_float64() -> None:
    """Raise unless JAX computes in double precision: single precision ruins a long filter without a sign of it."""
    require_own_process()
    if not jax.config.read("jax_enable_x64"):
        raise ValueError("float64 is off; call jax.config.update('jax_enable_x64', True) first")


def require_whole(name: str, number: object, least: int) -> None:
    """Raise unless `number` is a whole number of at least `least`."""
    if isinstance(number, bool) or not isinstance(number, int | np.integer):
        raise TypeError(f"{name} must be a whole number; it is {number!r}")
    if number < least:
        raise ValueError(f"{name} must be at least {least}; it is {number}")


def is_concrete(value: object) -> bool:
    """Whether the numbers in `value` can be looked at, which they cannot under `jit` or `grad`."""
    return not isinstance(value, jax.core.Tracer)
