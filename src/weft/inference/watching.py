# SPDX-License-Identifier: MIT
"""How far tasks are, said while they run: how many of them are done, and how long the rest will take."""

import contextlib
import contextvars
import threading
from collections.abc import Callable, Iterator

from weft.changing_line import Show, Stopwatch, Style, changing_line, check_style, duration

__all__ = ["tasks_shown", "watched"]

# Tasks that are done sooner are not worth a line.
SECONDS_BEFORE = 2.0

_style: contextvars.ContextVar[Style] = contextvars.ContextVar("weft_tasks_shown", default=None)


@contextlib.contextmanager
def tasks_shown(style: Style) -> Iterator[None]:
    """Within it, tasks of this thread are shown in this style; None shows none."""
    check_style(style)
    before = _style.set(style)
    try:
        yield
    finally:
        _style.reset(before)


@contextlib.contextmanager
def watched(count: int) -> Iterator[Callable[[str], None]]:
    """A function to call with the name of each of so many tasks that is done, from any thread."""
    style, lock, watch = _style.get(), threading.Lock(), Stopwatch()
    if style is None:
        yield lambda name: None
        return
    num_done = 0
    show: Show | None = None
    # Tasks within these tasks are not shown: there is one line.
    with contextlib.ExitStack() as stack, tasks_shown(None):

        def done(name: str) -> None:
            nonlocal num_done, show
            with lock:
                num_done += 1
                seconds = watch.seconds
                if num_done == count or seconds < SECONDS_BEFORE:
                    return
                text = f"{num_done} of {count} tasks done, the last {name}"
                if show is None:
                    show = stack.enter_context(changing_line(style, text))
                show(text, f"about {duration(seconds / num_done * (count - num_done))} left")

        yield done
