# SPDX-License-Identifier: MIT
"""Where tasks run: on threads of this process unless someone says otherwise, or on other processes and machines.

A task is a pure function of a piece of the table and of the numbers that come in, so it may run anywhere, and again where a worker
is lost. Whoever has tasks asks for the `current_executor`; `running_on` says which one that is for the calls within it.
"""

import abc
import contextlib
import contextvars
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar, final

import jax

from weft.inference.at_once import at_once
from weft.inference.watching import watched

__all__ = ["Arrivals", "Executor", "Threads", "awaited", "current_executor", "running_on"]

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
        with awaited(len(tasks), names, arrived) as arrivals:
            at_once(
                lambda number: arrivals.add(number, jax.block_until_ready(function(*tasks[number]))),
                len(tasks),
                self.count,
                again=again,
            )
            return arrivals.in_order


@final
class Arrivals(Generic[Answer]):
    """Answers of tasks of these names, in whatever order they come, from any thread: each is told on, and then counted as done."""

    def __init__(
        self, names: Sequence[str], arrived: Callable[[int, Answer], None] | None, done: Callable[[str], None]
    ):
        self.names = names
        self._arrived, self._done = arrived, done
        self._answers: dict[int, Answer] = {}

    def add(self, number: int, answer: Answer) -> None:
        self._answers[number] = answer
        if self._arrived is not None:
            self._arrived(number, answer)
        self._done(self.names[number])

    @property
    def missing(self) -> list[int]:
        return [number for number in range(len(self.names)) if number not in self._answers]

    @property
    def in_order(self) -> list[Answer]:
        return [self._answers[number] for number in range(len(self.names))]


@contextlib.contextmanager
def awaited(
    count: int, names: Sequence[str] | None, arrived: Callable[[int, Answer], None] | None
) -> Iterator[Arrivals[Answer]]:
    """What an executor gathers the answers of so many tasks in; `names` and `arrived` as for `Executor.map`."""
    with watched(count) as done:
        yield Arrivals([f"task {number}" for number in range(count)] if names is None else names, arrived, done)


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
