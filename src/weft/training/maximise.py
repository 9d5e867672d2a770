# SPDX-License-Identifier: MIT
"""Climbing a function of a real vector by L-BFGS, through trial points where it cannot be computed.

SciPy's L-BFGS-B with 50 pairs in memory. Its first trial move has Euclidean length one, which on the real line of
`parameters` is a factor of e at most.
"""

import dataclasses
import enum
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

__all__ = ["Ascent", "FunctionValue", "Outcome", "Step", "maximise", "outcome_in"]

MEMORY = 50


class FunctionValue(NamedTuple):
    """The function at a point; `log_evidence` is the part of it that is not priors."""

    value: float
    gradient: Float[np.ndarray, " free"]
    log_evidence: float

    @property
    def is_finite(self) -> bool:
        return bool(np.isfinite(self.value) and np.all(np.isfinite(self.gradient)))


class Step(NamedTuple):
    """Where an iteration ended."""

    point: Float[np.ndarray, " free"]
    evaluation: FunctionValue
    num_evaluations: int

    @property
    def gradient_norm(self) -> float:
        """The largest entry of the gradient: gain in log evidence for a unit move on the real line."""
        return float(np.max(np.abs(self.evaluation.gradient)))


class Outcome(enum.Enum):
    """Why a climb ended; the message beside it has the details."""

    CONVERGED = "converged"
    OUT_OF_ITERATIONS = "out of iterations"
    STOPPED = "stopped by the callback"
    STUCK = "stuck"
    FAILED = "failed at the start"
    INTERRUPTED = "interrupted"


def outcome_in(record: dict[str, Any]) -> Outcome:
    """The outcome a file notes; version 0.1 noted whether a climb converged, and began the message with the rest."""
    if "outcome" in record:
        return Outcome(record["outcome"])
    if record["converged"]:
        return Outcome.CONVERGED
    return Outcome.INTERRUPTED if record["message"].startswith("interrupted") else Outcome.STOPPED


@dataclasses.dataclass(frozen=True)
class Ascent:
    """How a climb ended."""

    best: Step
    outcome: Outcome
    message: str

    @property
    def converged(self) -> bool:
        return self.outcome is Outcome.CONVERGED


Evaluate = Callable[[Float[np.ndarray, " free"]], FunctionValue]


class _Climb:
    """The function as SciPy sees it, and what has been seen of it since the last accepted point."""

    def __init__(self, evaluate: Evaluate, survives: tuple[type[Exception], ...], on_failure: Callable[[str], None]):
        self.evaluate = evaluate
        self.survives = survives
        self.on_failure = on_failure
        self.num_evaluations = 0
        self.num_failures = 0
        self.accepted: Step | None = None
        self.trials: list[tuple[np.ndarray, FunctionValue]] = []

    def begin(self, point: np.ndarray) -> Step:
        """The start; a failure here is the caller's to see."""
        self.num_evaluations += 1
        evaluation = self.evaluate(point)
        if not evaluation.is_finite:
            raise FloatingPointError(
                f"the log evidence at the start is {evaluation.value} and the largest entry of its gradient "
                f"{np.max(np.abs(evaluation.gradient))}; start from other parameters"
            )
        self.accepted = Step(point, evaluation, self.num_evaluations)
        self.trials = [(point, evaluation)]
        return self.accepted

    def __call__(self, point: np.ndarray) -> tuple[float, np.ndarray]:
        """Minus the function and its gradient; at a point where it fails, numbers that make the search come back.

        Those are of the parabola that has the value and slope of the accepted point where this search began, and its
        minimum a quarter of the way to here: any interpolation by the search then shortens the step, by four if it
        interpolates from the beginning, and no number is ever large.
        """
        assert self.accepted is not None
        for known, evaluation in self.trials:
            if np.array_equal(known, point):
                return -evaluation.value, -evaluation.gradient
        self.num_evaluations += 1
        try:
            evaluation = self.evaluate(point.copy())
            failure = None if evaluation.is_finite else f"the log evidence there is {evaluation.value}"
        except self.survives as error:
            failure = str(error)
        if failure is None:
            self.trials.append((point.copy(), evaluation))
            return -evaluation.value, -evaluation.gradient
        self.num_failures += 1
        self.on_failure(failure)
        slope = -self.accepted.evaluation.gradient
        rise = abs(float(slope @ (point - self.accepted.point)))
        return -self.accepted.evaluation.value + rise, -3.0 * slope

    def accept(self, point: np.ndarray) -> Step:
        """The search ended at `point`, which is one of its trials."""
        evaluation = next(evaluation for known, evaluation in self.trials if np.array_equal(known, point))
        self.accepted = Step(point.copy(), evaluation, self.num_evaluations)
        self.trials = [(self.accepted.point, evaluation)]
        self.num_failures = 0
        return self.accepted


def maximise(
    evaluate: Evaluate,
    start: Float[np.ndarray, " free"],
    *,
    max_iterations: int,
    tolerance: float,
    gradient_tolerance: float,
    scale: float = 1.0,
    survives: tuple[type[Exception], ...] = (ArithmeticError, np.linalg.LinAlgError),
    on_step: Callable[[Step], None] = lambda step: None,
    on_failure: Callable[[str], None] = lambda reason: None,
) -> Ascent:
    """Climb from `start` until the gradient is small, two iterations in a row gain next to nothing, or they run out.

    `tolerance` is the gain of an iteration relative to the value, or to `scale` if that is larger: the size of the
    terms that add up to the value, which may itself be near zero by chance. `gradient_tolerance` bounds the largest
    entry of the gradient. An error among `survives`, or a value that is not finite, sends the line search back towards
    where it came from; at the start it is raised. `on_step` may raise StopIteration, or KeyboardInterrupt, to end the
    climb where it is.
    """
    # Whoever only loads a model and predicts waits for no optimiser.
    from scipy.optimize import OptimizeResult, minimize

    climb = _Climb(evaluate, survives, on_failure)
    best = climb.begin(np.array(start, dtype=np.float64))
    num_iterations = 0
    num_small = 0
    ending: tuple[Outcome, str] | None = None

    def callback(intermediate_result: OptimizeResult) -> None:
        nonlocal best, num_iterations, num_small, ending
        before = best
        best = climb.accept(intermediate_result.x)
        num_iterations += 1
        gain = best.evaluation.value - before.evaluation.value
        num_small = num_small + 1 if gain <= tolerance * max(scale, abs(best.evaluation.value)) else 0
        try:
            on_step(best)
        except StopIteration as stop:
            ending = (Outcome.STOPPED, str(stop) or "stopped by the callback")
            raise
        if best.gradient_norm <= gradient_tolerance:
            ending = (Outcome.CONVERGED, f"converged: no entry of the gradient exceeds {gradient_tolerance:g}")
        elif num_small == 2:
            ending = (Outcome.CONVERGED, f"converged: two iterations gained less than {tolerance:g} of the value each")
        elif num_iterations >= max_iterations:
            ending = (
                Outcome.OUT_OF_ITERATIONS,
                f"stopped after {max_iterations} iterations, the most allowed, before it converged",
            )
        if ending is not None:
            raise StopIteration

    try:
        on_step(best)
        if best.gradient_norm <= gradient_tolerance:
            return Ascent(
                best,
                Outcome.CONVERGED,
                f"converged at the start: no entry of the gradient exceeds {gradient_tolerance:g}",
            )
        if max_iterations < 1:
            return Ascent(best, Outcome.OUT_OF_ITERATIONS, "stopped at the start: no iteration is allowed")
        while ending is None:
            before = best
            minimize(
                climb,
                best.point,
                jac=True,
                method="L-BFGS-B",
                callback=callback,
                options={
                    "maxcor": MEMORY,
                    "ftol": 0.0,
                    "gtol": 0.0,
                    "maxiter": max_iterations + 1,
                    "maxfun": np.iinfo(np.int32).max,
                },
            )
            if ending is None and best is before:
                # Not even straight uphill from here with an empty memory.
                ending = _stuck(climb, scale)
    except StopIteration as stop:
        ending = (Outcome.STOPPED, str(stop) or "stopped by the callback")
    except KeyboardInterrupt:
        ending = (Outcome.INTERRUPTED, "interrupted: this is the best point so far")
    return Ascent(best, *ending)


def _stuck(climb: _Climb, scale: float) -> tuple[Outcome, str]:
    """No step straight uphill was accepted: an optimum up to rounding, or a place from which all is lost."""
    assert climb.accepted is not None
    norm, value = climb.accepted.gradient_norm, climb.accepted.evaluation.value
    if climb.num_failures:
        return Outcome.STUCK, "stopped: steps uphill, however short, lead where the evidence cannot be computed"
    if norm <= 1e-4 * max(scale, abs(value)):
        return Outcome.CONVERGED, "converged: no step uphill gains anything beyond rounding"
    return Outcome.STUCK, f"stopped: no step along the gradient gains anything, though its largest entry is {norm:.3g}"
