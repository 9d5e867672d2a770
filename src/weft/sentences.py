# SPDX-License-Identifier: MIT
"""Which errors say in a sentence what was wrong with the input, wherever they were raised."""

from types import TracebackType

__all__ = ["Refused", "TaskError", "is_for_people", "sentence_of"]


class TaskError(RuntimeError):
    """A task failed on a worker; the sentence says which one and why, and with `for_people` that is all there is to know."""

    def __init__(self, sentence: str, *, for_people: bool = False):
        super().__init__(sentence)
        self.for_people = for_people


class Refused(Exception):
    """The sentence of such an error on a worker, where the type and the trace stay."""


def is_for_people(error: BaseException) -> bool:
    """Whether the error says in a sentence what was wrong with the input: the system's do, and those weft wrote.

    A ValueError out of a library's depths, or a KeyError that is only a key, tells a user nothing: a fault of ours.
    """
    if isinstance(error, TaskError):
        return error.for_people
    if isinstance(error, OSError | Refused):
        return True
    if not isinstance(error, ValueError | TypeError | KeyError | ImportError) or " " not in sentence_of(error):
        return False
    return _innermost_module(error.__traceback__).partition(".")[0] in ("weft", "weft_experiments")


def sentence_of(error: BaseException) -> str:
    """What it says, in one line."""
    # str() of a KeyError is the repr of its text.
    text = error.args[0] if isinstance(error, KeyError) and error.args else error
    return " ".join(str(text).split())


def _innermost_module(trace: TracebackType | None) -> str:
    name = ""
    while trace is not None:
        name = str(trace.tb_frame.f_globals.get("__name__", ""))
        trace = trace.tb_next
    return name
