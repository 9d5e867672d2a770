# SPDX-License-Identifier: MIT
"""What a user sees while a fit runs: a line that changes on a terminal or in a notebook, elsewhere a log line a minute."""

import contextlib
import itertools
import logging
import math
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from weft.arrays import Given

__all__ = ["Iteration", "Report", "Style", "progress_report", "seconds_left"]

logger = logging.getLogger("weft")

Style = Literal["auto", "bar", "log"] | None
STYLES = ("auto", "bar", "log", None)
# Where nobody sees a line change, how often there is a new one.
SECONDS_BETWEEN_LINES = 60.0
_NOTHING_YET = "fitting: first evaluation"


class Iteration(NamedTuple):
    """One line of a fit's history: where the iteration ended, and evaluations and seconds so far."""

    start: int
    iteration: int
    log_evidence: float
    objective: float
    gradient_norm: float
    num_evaluations: int
    seconds: float


Report = Callable[[Iteration], None]


def seconds_left(history: list[Iteration], gain_tolerance: float, gradient_tolerance: float) -> float | None:
    """A guess of the time to convergence: the gradient's and the gains' trends over the last iterations, run on.

    None before there is a trend, or where it does not fall.
    """
    recent = history[-12:]
    if len(recent) < 6:
        return None
    pace = (recent[-1].seconds - recent[0].seconds) / (len(recent) - 1)
    gains = [max(after.objective - before.objective, 1e-300) for before, after in itertools.pairwise(recent)]
    guesses = [
        _iterations_left(gains, gain_tolerance),
        _iterations_left([step.gradient_norm for step in recent], gradient_tolerance),
    ]
    known = [guess for guess in guesses if guess is not None]
    return pace * min(known) if known else None


def _iterations_left(values: list[float], target: float) -> float | None:
    """How many more until `values` reach `target`, by a straight line through their logarithms."""
    if target <= 0 or min(values) <= 0:
        return None
    logarithms = [math.log(value) for value in values]
    count = len(values)
    middle, mean = (count - 1) / 2, sum(logarithms) / count
    slope = sum((i - middle) * (y - mean) for i, y in enumerate(logarithms)) / sum(
        (i - middle) ** 2 for i in range(count)
    )
    if slope >= 0:
        return None
    end = mean + slope * (count - 1 - middle)
    return max((math.log(target) - end) / slope, 0.0)


@contextlib.contextmanager
def progress_report(style: Given[Style], gain_tolerance: float, gradient_tolerance: float) -> Iterator[Report]:
    """A function to call after each iteration: "bar", "log" a line each, None for nothing.

    "auto" is a bar on a terminal and in a notebook, and elsewhere a log line a minute.
    """
    if style not in STYLES:
        raise ValueError(f"progress must be 'auto', 'bar', 'log' or None; it is {style!r}")
    if style is None:
        yield lambda step: None
        return
    seen: list[Iteration] = []

    def left() -> str:
        guess = seconds_left(
            [step for step in seen if step.start == seen[-1].start], gain_tolerance, gradient_tolerance
        )
        return "" if guess is None else f"about {duration(guess)} left"

    if style == "log":

        def write(step: Iteration) -> None:
            seen.append(step)
            logger.info("%s %s", line(step), left())

        yield write
        return
    if style == "auto" and not sys.stderr.isatty():
        watched = _in_notebook(seen, left) if _is_notebook() else _line_a_minute(seen, left)
        with watched as told:
            yield told
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(_NOTHING_YET, total=None, left="")

        def show(step: Iteration) -> None:
            seen.append(step)
            bar.update(task, description=line(step), left=left())

        yield show


def _is_notebook() -> bool:
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


@contextlib.contextmanager
def _in_notebook(seen: list[Iteration], left: Callable[[], str]) -> Iterator[Report]:
    """One line of output that changes in place, and is gone when the fit is done."""
    from IPython.display import Pretty, display

    handle = display(Pretty(_NOTHING_YET), display_id=True)

    def show(step: Iteration) -> None:
        seen.append(step)
        handle.update(Pretty(f"{line(step)}  {duration(step.seconds)}  {left()}"))

    try:
        yield show
    finally:
        handle.update(Pretty(""))


@contextlib.contextmanager
def _line_a_minute(seen: list[Iteration], left: Callable[[], str]) -> Iterator[Report]:
    """Log lines by a clock of their own, so that there are some while a single evaluation takes minutes."""
    ended, watch = threading.Event(), Stopwatch()

    def speak() -> None:
        while not ended.wait(SECONDS_BETWEEN_LINES):
            latest = line(seen[-1]) if seen else _NOTHING_YET
            logger.info("%s", f"{latest}  after {duration(watch.seconds)} {left() if seen else ''}".rstrip())

    speaker = threading.Thread(target=speak, daemon=True, name="weft progress")
    speaker.start()
    try:
        yield seen.append
    finally:
        ended.set()
        speaker.join()


def line(step: Iteration) -> str:
    start = f"start {step.start} " if step.start else ""
    return f"{start}step {step.iteration}  log evidence {step.log_evidence:.6g}  gradient {step.gradient_norm:.2g}"


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
