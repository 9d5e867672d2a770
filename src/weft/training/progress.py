# SPDX-License-Identifier: MIT
"""What a user sees while a fit runs."""

import contextlib
import itertools
import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

from weft.arrays import Given
from weft.changing_line import Style, changing_line, check_style, duration
from weft.inference.watching import tasks_shown

__all__ = ["Iteration", "Report", "progress_report", "seconds_left"]


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
    """A function to call after each iteration, for a `changing_line`."""
    check_style(style)
    seen: list[Iteration] = []
    with changing_line(style, "fitting: first evaluation") as show:

        def report(step: Iteration) -> None:
            seen.append(step)
            climb = [each for each in seen if each.start == step.start]
            guess = seconds_left(climb, gain_tolerance, gradient_tolerance)
            show(line(step), "" if guess is None else f"about {duration(guess)} left")

        # The tasks of an evaluation would be shown in the same line.
        with tasks_shown(None):
            yield report


def line(step: Iteration) -> str:
    start = f"start {step.start} " if step.start else ""
    return f"{start}step {step.iteration}  log evidence {step.log_evidence:.6g}  gradient {step.gradient_norm:.2g}"
