# SPDX-License-Identifier: MIT
"""Where tasks run: on threads of this process unless someone says otherwise, or on other processes and machines.

A task is a pure function of a piece of the table and of the numbers that come in, so it may run anywhere, and again where a worker
is lost. Whoever has tasks asks for the `current_executor`; `running_on` says which one that is for the calls within it.
"""

import abc
import contextlib
import contextvars
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar, final

import jax

from weft.inference.at_once import at_once
from weft.inference.watching import watched

__all__ = ["Executor", "Threads", "current_executor", "names_for", "running_on"]

Answer = TypeVar("Answer")


class Executor(abc.ABC):
    """Runs tasks somewhere and gives their answers back in the tasks' order, so that sums do not depend on who was first."""

    @property
    def is_elsewhere(self) -> bool:
        """Whether tasks have processes of their own, so that large ones are better run at once than one after another."""
        return True

    @abc.abstractmethod
    def hold(self, piece: Any) -> Any:
        """What stands for `piece` in calls of `map`: sent once to where tasks run, and let go with the last reference to it."""

    @abc.abstractmethod
    def map(
        self,
        function: Callable[..., Answer],
        *columns: Sequence[Any],
        names: Sequence[str] | None = None,
        again: bool = False,
        arrived: Callable[[int, Answer], None] | None = None,
    ) -> list[Answer]:
        """`function` of the first entry of every column, of the second, and so on; columns may have what `hold` gave.

        `function` is a function of a module, or a `functools.partial` of one. `names` are what tasks are called where one fails, and
        while they run.
        `again` says that the same was done before with other numbers, so that nothing is left to compile. `arrived` is called with the
        number of each task and its answer, from any thread, once it is there.
        """


@final
class Threads(Executor):
    """Threads of this process, as many as it may use processors unless told; nothing is copied."""

    def __init__(self, count: int | None = None):
        self.count = count

    @property
    def is_elsewhere(self) -> bool:
        return False

    def hold(self, piece: Any) -> Any:
        return piece

    def map(
        self,
        function: Callable[..., Answer],
        *columns: Sequence[Any],
        names: Sequence[str] | None = None,
        again: bool = False,
        arrived: Callable[[int, Answer], None] | None = None,
    ) -> list[Answer]:
        tasks = list(zip(*columns, strict=True))
        called = names_for(names, len(tasks))
        with watched(len(tasks)) as done:

            def answer(number: int) -> Answer:
                found = jax.block_until_ready(function(*tasks[number]))
                if arrived is not None:
                    arrived(number, found)
                done(called[number])
                return found

            return at_once(answer, len(tasks), self.count, again=again)


def names_for(names: Sequence[str] | None, count: int) -> Sequence[str]:
    return [f"task {number}" for number in range(count)] if names is None else names


_HERE = Threads()
_current: contextvars.ContextVar[Executor | None] = contextvars.ContextVar("weft_executor", default=None)


def current_executor() -> Executor:
    return _current.get() or _HERE


@contextlib.contextmanager
def running_on(executor: Executor) -> Iterator[Executor]:
    """Within it tasks of this thread run there."""
    before = _current.set(executor)
    try:
        yield executor
    finally:
        _current.reset(before)
