# SPDX-License-Identifier: MIT
"""A task in a process other than the caller's: in double precision, on one processor, its answer as NumPy arrays."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from weft.engines.cpu.threads import one_processor
from weft.phases import add_processor_seconds
from weft.sentences import Refused, TaskError, is_for_people, sentence_of

__all__ = ["PASSED_ON", "RETRIES", "Done", "TaskError", "accepted", "failed", "run_metered", "run_task"]

# An optimiser shortens its step for the first two, and the command line has a sentence for the last: these keep their types.
PASSED_ON = (ArithmeticError, np.linalg.LinAlgError, MemoryError)
# A task whose worker died is run again so often, then it is taken to be the task's fault.
RETRIES = 3


def run_task(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a worker does: it has as many tasks at once as it may use processors, so each keeps to one."""
    with jax.enable_x64(True), one_processor():
        return jax.tree.map(_as_numpy, function(*arguments))


class Done(NamedTuple):
    """The answer of a task, and what it took of a worker's processors."""

    answer: Any
    processor_seconds: float


def run_metered(function: Callable[..., Any], *arguments: Any) -> Done:
    """The same, for a caller who keeps an account of phases. Errors that are for people come as sentences: only here is known by whom."""
    begun = time.process_time()
    try:
        answer = run_task(function, *arguments)
    except PASSED_ON:
        raise
    except Exception as error:
        if is_for_people(error):
            raise Refused(sentence_of(error)) from None
        raise
    return Done(answer, time.process_time() - begun)


def accepted(done: Done) -> Any:
    """The answer; what it took is counted here."""
    add_processor_seconds(done.processor_seconds)
    return done.answer


def _as_numpy(leaf: Any) -> Any:
    return np.asarray(leaf) if isinstance(leaf, jax.Array) else leaf


def failed(name: str, error: Exception) -> TaskError:
    """What to raise here for an error elsewhere."""
    return TaskError(f"{name} failed on a worker: {sentence_of(error)}", for_people=is_for_people(error))
