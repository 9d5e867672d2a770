# SPDX-License-Identifier: MIT
"""A task in a process other than the caller's: in double precision, on one processor, its answer as NumPy arrays."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from weft.engines.cpu.threads import one_processor

__all__ = ["PASSED_ON", "RETRIES", "TaskError", "failed", "names_for", "run_task"]

# An optimiser shortens its step for the first two, and the command line has a sentence for the last: these keep their types.
PASSED_ON = (ArithmeticError, np.linalg.LinAlgError, MemoryError)
# A task whose worker died is run again so often, then it is taken to be the task's fault.
RETRIES = 3


class TaskError(RuntimeError):
    """A task failed on a worker; the sentence says which one and why."""


def run_task(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a worker does: it has as many tasks at once as it may use processors, so each keeps to one."""
    with jax.enable_x64(True), one_processor():
        return jax.tree.map(_as_numpy, function(*arguments))


def _as_numpy(leaf: Any) -> Any:
    return np.asarray(leaf) if isinstance(leaf, jax.Array) else leaf


def failed(name: str, error: Exception) -> TaskError:
    """What to raise here for an error elsewhere."""
    return TaskError(f"{name} failed on a worker: {error}")


def names_for(names: Sequence[str] | None, count: int) -> Sequence[str]:
    return [f"task {number}" for number in range(count)] if names is None else names
