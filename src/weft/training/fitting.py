# SPDX-License-Identifier: MIT
"""Learning a model's parameters from data by maximising its evidence."""

import contextlib
import dataclasses
import logging
import os
import pathlib
import re
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from weft.arrays import AnyArray, Given, require_float64, require_whole
from weft.changing_line import Stopwatch, Style, duration
from weft.data.atomic import check_output
from weft.data.observations import Observations
from weft.data.places import distinct_places
from weft.distributed.clients import tasks_on
from weft.engines.base import Engine
from weft.engines.choose import choose_engine
from weft.inference.evidence import log_evidence
from weft.inference.sites import check_problem
from weft.inference.variational import SearchMemory
from weft.likelihoods import Gaussian
from weft.model import Model
from weft.notebook import facts_html
from weft.training.checkpoint import Checkpoint, Finished, fingerprint_of, read_checkpoint, write_checkpoint
from weft.training.composite import CompositeObjective, is_learned_plainly
from weft.training.estimate import refuse_too_large, shape_of
from weft.training.maximise import Ascent, FunctionValue, Outcome, Step, maximise
from weft.training.parameters import (
    Bound,
    ParameterSpace,
    Path,
    Prior,
    log_prior,
    make_space,
    prior_terms,
)
from weft.training.progress import Iteration, Report, progress_report
from weft.training.uncertainty import sandwich, standard_errors

__all__ = ["FitResult", "Outcome", "fit", "objective_for"]

logger = logging.getLogger("weft")

# What an engine raises where a trial point is too extreme to compute.
SURVIVED = (ArithmeticError, np.linalg.LinAlgError)

# Flops above which an evaluation takes seconds, beside which tracing it is nothing.
LARGE = 2e10

# A warm start need not converge: it ends where the bound with few pseudo-points stops to rise in earnest.
WARM_TOLERANCE = 1e-5


@dataclasses.dataclass(frozen=True)
class FitResult:
    """A fitted model and how it came about.

    `log_evidence` is that of `model`; `objective` has the priors' log densities added. `history` has one entry an
    iteration. `starts` has the objective each start reached, the first being the model's own. `parameters` are what was
    learned. `num_engine_calls` counts this run's; a likelihood that is not Gaussian takes several an evaluation.
    `num_blocks` and `num_rows` say what it was learned from; learned from several blocks, `standard_errors` has one number for each of
    `parameters` (see `uncertainty`), NaN where it was held.
    """

    model: Model
    log_evidence: float
    objective: float
    outcome: Outcome
    message: str
    history: tuple[Iteration, ...]
    starts: tuple[float, ...]
    num_evaluations: int
    num_engine_calls: int
    seconds: float
    parameters: dict[str, np.ndarray]
    warm_start: "FitResult | None" = None
    num_blocks: int = 1
    num_rows: int = 0
    standard_errors: dict[str, np.ndarray] | None = None

    @property
    def converged(self) -> bool:
        return self.outcome is Outcome.CONVERGED

    def _repr_html_(self) -> str:
        facts = [
            ["outcome", self.message],
            ["log evidence", f"{self.log_evidence:.6g}"],
            ["evaluations", f"{self.num_evaluations:,} in {duration(self.seconds)}"],
        ]
        learned = [
            [name, ", ".join(f"{each:.4g}" for each in np.atleast_1d(value).ravel())]
            for name, value in self.parameters.items()
        ]
        return facts_html([*facts, *learned])

    def __repr__(self) -> str:
        return (
            f"FitResult(log_evidence={self.log_evidence:.8g}, converged={self.converged}, "
            f"iterations={sum(step.iteration > 0 for step in self.history)}, seconds={self.seconds:.3g}, "
            f"message={self.message!r})"
        )


def fit(
    model: Model,
    data: Observations | Sequence[Observations],
    *,
    power: float = 0.0,
    engine: str | Engine = "auto",
    frozen: Sequence[str] = (),
    bounds: Mapping[str, Bound] | None = None,
    priors: Mapping[str, Prior] | None = None,
    learn_pseudo_points: bool = False,
    warm_start: int | None = None,
    restarts: int = 0,
    seed: int = 0,
    max_iterations: int = 1000,
    tolerance: float = 1e-9,
    gradient_tolerance: float = 1e-4,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
    progress: Given[Style] = "auto",
    callback: Callable[[Iteration], None] | None = None,
    client: Any = None,
) -> FitResult:
    """Learn the model's parameters: a maximum of `log_evidence` plus log priors, by L-BFGS on the real line.

    Parameters go by the path that leads to them (`likelihood.variance`, `kernel.components[0].space.lengthscale`);
    `frozen`, `bounds` and `priors` take exact names, the name of a part of the model, or patterns with * and ?.

        weft.fit(model, data, frozen=["*.time.lengthscale"], bounds={"likelihood.variance": (0.01, 2.0)},
                 priors={"kernel.space.lengthscale": weft.LogNormalPrior(median=1.0, deviation=0.7)})

    `data` may be several observations, such as the blocks of `choose_blocks`: they then share parameters and nothing else, and the sum
    of their log evidence is climbed, on all processors, or on the workers of a `client` (a `dask.distributed.Client`). How far the
    blocks disagree tells how well parameters are known (`standard_errors` of the result).

    Bounds are open: a parameter within two becomes a scaled logistic, within one an exponential. A prior is a function
    from the parameter's value to its log density. Held unless `bounds` or `priors` have their exact name: variances
    inside a component besides the component's own (which they would only repeat), a sphere's radius, the origin of a
    trend. A noise variance of exactly 0 stays 0. Pseudo-points stay unless `learn_pseudo_points`.

    `warm_start` learns with so many of the pseudo-points first, then goes on with all. It is off unless asked for,
    because it did not pay: on daily temperatures at 60 stations (200 days and 25 points a component; 300 and 40) a cold
    fit took 42 and 37 evaluations with all points, one after a warm start with 10 points 31 and 62, with 5 points 61
    and 76, besides some 45 with few; and the optimum reached was worse in three of the four
    (`benchmarks/warm_start.py`).

    `restarts` climbs again that many times from starts moved at random (by about a factor of e), and the best end
    counts. A climb ends when no entry of the gradient exceeds `gradient_tolerance` (log evidence per unit on the real
    line), when two iterations in a row gain less than `tolerance` relative to the objective (or the number of rows), or
    after `max_iterations`. A trial point where the evidence cannot be computed shortens the step. Ctrl-C ends the fit,
    and the best so far is returned.

    `checkpoint` names a file written after each iteration; with `resume`, a fit of the same problem goes on from there
    (or begins, where there is no file yet). `progress` is "auto" (a line on a terminal, else nothing), "bar", "log"
    (lines to the logger "weft") or None. `callback` sees each iteration and may raise StopIteration.
    """
    require_float64()
    blocks = (data,) if isinstance(data, Observations) else tuple(data)
    for block in blocks:
        check_problem(model, block)
    require_whole("restarts", restarts, 0)
    require_whole("max_iterations", max_iterations, 0)
    space = make_space(
        model, frozen=frozen, bounds=bounds, named=tuple(priors or ()), learn_pseudo_points=learn_pseudo_points
    )
    terms = prior_terms(priors or {}, space, model)
    num_rows = sum(block.num_rows for block in blocks)
    with tasks_on(client if len(blocks) > 1 else None):
        objective = objective_for(space, model, blocks, terms, power=power, engine=engine)
    run = _Run(
        objective=objective,
        space=space,
        model=model,
        settings={
            "max_iterations": max_iterations,
            "tolerance": tolerance,
            "gradient_tolerance": gradient_tolerance,
            "scale": float(num_rows),
        },
        callback=callback,
    )
    if checkpoint is not None:
        options = {
            "power": power,
            "seed": seed,
            "restarts": restarts,
            "priors": sorted(priors or {}),
            "tolerances": (tolerance, gradient_tolerance),
        }
        run.attach(checkpoint, fingerprint_of(model, blocks, space, options), resume=resume)
    warm = None
    if warm_start is not None and not run.is_resumed:
        few = _with_few_pseudo_points(model, blocks, warm_start)
        warm = fit(
            few,
            data,
            power=power,
            engine=engine,
            frozen=frozen,
            bounds=bounds,
            priors=priors,
            max_iterations=max_iterations,
            tolerance=WARM_TOLERANCE,
            gradient_tolerance=gradient_tolerance,
            progress=progress,
            client=client,
        )
        model = Model(warm.model.kernel, warm.model.likelihood, model.basis, model.mean)
    origin = space.start(model)
    with progress_report(progress, tolerance * num_rows, gradient_tolerance) as report:
        run.report = report
        for number in range(restarts + 1):
            if run.climb(number, _moved(origin, seed, number)):
                break
    result = run.result(warm)
    return dataclasses.replace(
        result,
        num_blocks=len(blocks),
        num_rows=num_rows,
        standard_errors=run.standard_errors(),
        seconds=run.stopwatch.seconds,
    )


def objective_for(
    space: ParameterSpace,
    model: Model,
    blocks: Sequence[Observations],
    terms: tuple[tuple[Path, Prior], ...],
    *,
    power: float = 0.0,
    engine: str | Engine = "auto",
) -> "_Objective | CompositeObjective":
    """What `fit` climbs; MemoryError where an evaluation would not fit into memory."""
    if len(blocks) > 1:
        return CompositeObjective(space, model, blocks, terms, power=power, engine=engine)
    shape = shape_of(model, blocks[0])
    chosen = choose_engine(engine, shape)
    refuse_too_large(shape, chosen)
    if is_learned_plainly(model, blocks[0], chosen):
        return CompositeObjective(space, model, blocks, terms, power=power, engine=chosen)
    is_large = chosen.cost(shape).flops > LARGE
    return _Objective(space, model, blocks[0], terms, power, chosen, is_large=is_large)


def _with_few_pseudo_points(model: Model, blocks: tuple[Observations, ...], count: int) -> Model:
    """The model with at most `count` of its pseudo-points (or places, if it has none) a component, far apart."""
    if count < 1:
        raise ValueError(f"warm_start must be a number of pseudo-points, at least 1; it is {count}")
    places = distinct_places(np.concatenate([block.places for block in blocks]))[0]
    bases = model.bases[: len(model.kernel.components)]
    few = tuple(basis.thinned(places, lambda points: _far_apart(points, count)) for basis in bases)
    return Model(model.kernel, model.likelihood, few, model.mean)


def _far_apart(points: Float[AnyArray, "point dim"], count: int) -> Float[np.ndarray, "few dim"]:
    """The point nearest to the middle, then one by one the furthest from those chosen; columns by their spread."""
    points = np.asarray(points)
    spread = np.ptp(points, axis=0)
    scaled = (points - points.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    chosen = [int(np.argmin(np.sum(scaled**2, axis=1)))]
    distance = np.full(len(points), np.inf)
    while len(chosen) < min(count, len(points)):
        distance = np.minimum(distance, np.sum((scaled - scaled[chosen[-1]]) ** 2, axis=1))
        chosen.append(int(np.argmax(distance)))
    return points[chosen]


def _moved(origin: Float[np.ndarray, " free"], seed: int, number: int) -> Float[np.ndarray, " free"]:
    """The start of this number: the model itself first, then random moves around it, each from its own stream."""
    if number == 0:
        return origin
    return origin + np.random.default_rng([seed, number]).normal(size=origin.shape)


class _Objective:
    """Log evidence plus log priors as a function of the free numbers; one call of the engine if the noise is Gaussian.

    A small problem is compiled as a whole, because the time to trace it would exceed the engine's. A large one is not:
    the engine then runs on the caller's own thread, where Ctrl-C reaches it and its errors keep their names.
    """

    def __init__(
        self,
        space: ParameterSpace,
        model: Model,
        data: Observations,
        terms: tuple[tuple[Path, Prior], ...],
        power: float,
        engine: Engine,
        *,
        is_large: bool,
    ):
        # The search for the sites of a likelihood that is not Gaussian starts where the last one ended.
        self.memory = None if isinstance(model.likelihood, Gaussian) else SearchMemory()
        self.arguments = (space, model, data, terms, power, engine)
        self.is_compiled = self.memory is None and not is_large
        self.num_calls = 0

    @property
    def num_engine_calls(self) -> int:
        return self.num_calls if self.memory is None else self.memory.engine_calls

    def __call__(self, point: Float[np.ndarray, " free"]) -> FunctionValue:
        self.num_calls += 1
        function = _compiled_value_and_gradient if self.is_compiled else _value_and_gradient
        try:
            value, gradient, evidence = function(jnp.asarray(point), *self.arguments, self.memory)
        except (jax.errors.JaxRuntimeError, ValueError) as error:
            raise _unwrapped(error) from error
        return FunctionValue(float(value), np.asarray(gradient), float(evidence))


def _value_and_gradient(
    point: Float[Array, " free"],
    space: ParameterSpace,
    model: Model,
    data: Observations,
    terms: tuple[tuple[Path, Prior], ...],
    power: float,
    engine: Engine,
    memory: SearchMemory | None,
) -> tuple[Array, Array, Array]:
    def objective(point: Array) -> tuple[Array, Array]:
        placed = space.place(model, point)
        evidence = log_evidence(placed, data, power=power, engine=engine, memory=memory)
        return evidence + log_prior(placed, terms), evidence

    (value, evidence), gradient = jax.value_and_grad(objective, has_aux=True)(point)
    return value, gradient, evidence


def _unwrapped(error: Exception) -> Exception:
    """What was raised inside compiled code, which JAX wraps in an error of its own with the traceback as its text."""
    text = str(error)
    if "RESOURCE_EXHAUSTED" in text:
        return MemoryError("an evaluation of the evidence ran out of memory; use fewer pseudo-points or fewer times")
    failure = re.search(
        r"^[\w.]*(?:FilterFailure|FloatingPointError|LinAlgError|OverflowError): (.*)", text, re.MULTILINE
    )
    return error if failure is None else FloatingPointError(failure.group(1).strip())


_compiled_value_and_gradient = eqx.filter_jit(_value_and_gradient)


class _Interrupt:
    """Ctrl-C while a fit runs; noted for later inside compiled code, where it would look like a failed trial point."""

    def __init__(self, is_deferred: bool) -> None:
        self.is_deferred = is_deferred
        self.noted = False

    def check(self) -> None:
        if self.noted:
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        # Only the main thread may set handlers, and a handler of the caller's own is left alone.
        handler = signal.getsignal(signal.SIGINT)
        if threading.current_thread() is not threading.main_thread() or handler is not signal.default_int_handler:
            yield
            return

        def note(number: int, frame: Any) -> None:
            is_second, self.noted = self.noted, True
            if is_second or not self.is_deferred:
                raise KeyboardInterrupt

        signal.signal(signal.SIGINT, note)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, handler)


class _Run:
    """One fit while it runs: the climbs so far, and the file that remembers them."""

    def __init__(
        self,
        objective: _Objective | CompositeObjective,
        space: ParameterSpace,
        model: Model,
        settings: dict[str, Any],
        callback: Callable[[Iteration], None] | None,
    ):
        self.objective = objective
        self.space = space
        self.model = model
        self.settings = settings
        self.callback = callback
        self.report: Report = lambda step: None
        self.file: pathlib.Path | None = None
        self.fingerprint = ""
        self.finished: list[Finished] = []
        self.resumed_point: np.ndarray | None = None
        self.history: list[Iteration] = []
        self.num_before = 0
        self.stopwatch = Stopwatch()
        self.is_resumed = False

    def attach(self, path: str | os.PathLike[str], fingerprint: str, *, resume: bool) -> None:
        self.file = check_output(path)
        self.fingerprint = fingerprint
        if not (resume and self.file.exists()):
            return
        state = read_checkpoint(self.file, fingerprint)
        self.finished = list(state.finished)
        self.resumed_point = state.point
        self.is_resumed = True
        self.history = list(state.history)
        if self._ended_early():
            if self.history[-1].iteration >= self.settings["max_iterations"]:
                self.resumed_point = None
            else:
                self.finished.pop()
        self.num_before = state.num_evaluations
        self.stopwatch = Stopwatch(self.history[-1].seconds if self.history else 0.0)

    def _ended_early(self) -> bool:
        """Whether the climb that the file ends with had all the iterations it was allowed: with more allowed, it goes on."""
        if not self.finished or not self.history or self.resumed_point is None:
            return False
        is_last = self.history[-1].start == len(self.finished) - 1
        return is_last and self.finished[-1].outcome is Outcome.OUT_OF_ITERATIONS

    def climb(self, number: int, start: Float[np.ndarray, " free"]) -> bool:
        """Climb from start number `number`; whether the fit is to end with it."""
        if number < len(self.finished):
            return False
        resumed, self.resumed_point = self.resumed_point, None
        first = self.history[-1].iteration if resumed is not None and self.history else 0
        interrupt = _Interrupt(self.objective.is_compiled)
        iteration = first - 1 if resumed is not None else -1

        def evaluate(point: Float[np.ndarray, " free"]) -> FunctionValue:
            try:
                return self.objective(point)
            finally:
                interrupt.check()

        def on_step(step: Step) -> None:
            nonlocal iteration
            iteration += 1
            if resumed is not None and iteration == first:
                return
            self.record(number, iteration, step)

        def on_failure(reason: str) -> None:
            logger.info("start %d: a trial point failed and the step is shortened: %s", number, reason)

        try:
            with interrupt.watched():
                ascent = maximise(
                    evaluate,
                    start if resumed is None else resumed,
                    survives=SURVIVED,
                    on_step=on_step,
                    on_failure=on_failure,
                    **self.settings,
                )
        except SURVIVED as error:
            if number == 0:
                raise
            logger.warning("start %d begins where the evidence cannot be computed and is left out: %s", number, error)
            ascent = None
        self.finish(number, start, ascent)
        return interrupt.noted

    def record(self, number: int, iteration: int, step: Step) -> None:
        evaluation = step.evaluation
        entry = Iteration(
            start=number,
            iteration=iteration,
            log_evidence=evaluation.log_evidence,
            objective=evaluation.value,
            gradient_norm=step.gradient_norm,
            num_evaluations=self.num_before + step.num_evaluations,
            seconds=self.stopwatch.seconds,
        )
        self.history.append(entry)
        self.save(step.point, entry.num_evaluations)
        self.report(entry)
        if self.callback is not None:
            self.callback(entry)

    def finish(self, number: int, start: Float[np.ndarray, " free"], ascent: Ascent | None) -> None:
        if ascent is None:
            end = Finished(start, -np.inf, -np.inf, Outcome.FAILED, "the evidence cannot be computed at this start")
        else:
            best = ascent.best
            end = Finished(
                best.point, best.evaluation.value, best.evaluation.log_evidence, ascent.outcome, ascent.message
            )
            self.num_before += best.num_evaluations
        self.finished.append(end)
        if end.outcome is Outcome.CONVERGED:
            self.save(None, self.num_before)
        elif end.outcome is Outcome.OUT_OF_ITERATIONS:
            # With the point too, from which a fit that is allowed more iterations goes on.
            self.save(end.point, self.num_before)

    def save(self, point: Float[np.ndarray, " free"] | None, num_evaluations: int) -> None:
        if self.file is not None:
            write_checkpoint(
                self.file,
                Checkpoint(
                    self.fingerprint,
                    self.space.names,
                    tuple(self.finished),
                    point,
                    tuple(self.history),
                    num_evaluations,
                ),
            )

    @property
    def best(self) -> Finished:
        return max(self.finished, key=lambda end: end.objective)

    def standard_errors(self) -> dict[str, np.ndarray] | None:
        """Of the best point, where blocks tell them; None where it cannot be said, or the fit was cut short."""
        if not isinstance(self.objective, CompositeObjective) or self.objective.num_blocks == 1:
            return None
        if self.best.outcome is not Outcome.CONVERGED:
            return None
        try:
            covariance = sandwich(self.objective, self.best.point)
        except SURVIVED as error:
            logger.info("standard errors cannot be computed: %s", error)
            return None
        return standard_errors(self.space, self.best.point, covariance)

    def result(self, warm: FitResult | None) -> FitResult:
        best = self.best
        model = self.space.place_numpy(self.model, best.point, to_keep=True)
        pressed = self.space.at_bounds(best.point)
        at_bounds = f"; at its bound: {', '.join(pressed)}" if pressed else ""
        return FitResult(
            model=model,
            log_evidence=best.log_evidence,
            objective=best.objective,
            outcome=best.outcome,
            message=best.message + at_bounds,
            history=tuple(self.history),
            starts=tuple(end.objective for end in self.finished),
            num_evaluations=self.num_before,
            num_engine_calls=self.objective.num_engine_calls,
            seconds=self.stopwatch.seconds,
            parameters=self.space.values(model),
            warm_start=warm,
        )
