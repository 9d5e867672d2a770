# SPDX-License-Identifier: MIT
"""One line about work that goes on: it changes on a terminal or in a notebook, elsewhere there is a log line a minute."""

import contextlib
import logging
import math
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Literal

__all__ = ["Show", "Stopwatch", "Style", "changing_line", "check_style", "duration"]

logger = logging.getLogger("weft")

Style = Literal["auto", "bar", "log"] | None
STYLES = ("auto", "bar", "log", None)
# What is said, and how long it will take yet, if that is known.
Show = Callable[[str, str], None]
# Where nobody sees a line change, how often there is a new one.
SECONDS_BETWEEN_LINES = 60.0


def check_style(style: object) -> None:
    if style not in STYLES:
        raise ValueError(f"progress must be 'auto', 'bar', 'log' or None; it is {style!r}")


@contextlib.contextmanager
def changing_line(style: Style, at_first: str) -> Iterator[Show]:
    """A function that says something else: "bar" changes a line, "log" writes one each time, None does nothing.

    "auto" is a bar on a terminal and in a notebook, and elsewhere a log line a minute.
    """
    if style is None:
        yield lambda text, left: None
    elif style == "log":
        yield lambda text, left: logger.info("%s %s", text, left)
    elif style == "auto" and not sys.stderr.isatty():
        with _in_notebook(at_first) if _is_notebook() else _line_a_minute(at_first) as show:
            yield show
    else:
        with _on_terminal(at_first) as show:
            yield show


@contextlib.contextmanager
def _on_terminal(at_first: str) -> Iterator[Show]:
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(at_first, total=None, left="")
        yield lambda text, left: bar.update(task, description=text, left=left)


def _is_notebook() -> bool:
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


@contextlib.contextmanager
def _in_notebook(at_first: str) -> Iterator[Show]:
    """One line of output that changes in place, and is gone when the work is done."""
    from IPython.display import Pretty, display

    handle, watch = display(Pretty(at_first), display_id=True), Stopwatch()
    try:
        yield lambda text, left: handle.update(Pretty(f"{text}  {duration(watch.seconds)}  {left}"))
    finally:
        handle.update(Pretty(""))


@contextlib.contextmanager
def _line_a_minute(at_first: str) -> Iterator[Show]:
    """Log lines by a clock of their own, so that there are some while a single step takes minutes."""
    ended, watch = threading.Event(), Stopwatch()
    latest = [(at_first, "")]

    def speak() -> None:
        while not ended.wait(SECONDS_BETWEEN_LINES):
            text, left = latest[-1]
            logger.info("%s", f"{text}  after {duration(watch.seconds)} {left}".rstrip())

    def show(text: str, left: str) -> None:
        latest[-1] = (text, left)

    speaker = threading.Thread(target=speak, daemon=True, name="weft progress")
    speaker.start()
    try:
        yield show
    finally:
        ended.set()
        speaker.join()


def duration(seconds: float) -> str:
    if seconds < 90:
        return f"{math.ceil(seconds)} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


class Stopwatch:
    """Seconds since it was made, on top of those of an earlier run."""

    def __init__(self, before: float = 0.0):
        self.started = time.perf_counter() - before

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.started
