# SPDX-License-Identifier: MIT
"""A whole series: from one end, or from both at once where the chain can be turned around in time.

Both ends meet in the middle (`ends`), so the forward and the backward sweeps each run on two threads. The value is the same. The
gradient in transition, process noise and initial covariance is then that of the stationary chain: together, along any change that
keeps the chain stationary and reversible (a kernel's parameters), it is the same too; one by one the three differ, because off
that surface the two formulas are different functions.
"""

import abc
import contextlib
import dataclasses
import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from weft.data.layout import Layout
from weft.engines.base import filter_flops
from weft.engines.cpu.adjoint import Gradient
from weft.engines.cpu.blocks import Adjoint
from weft.engines.cpu.compiled import kernels, switch_kernels
from weft.engines.cpu.ends import Meeting, Side, meet, well_conditioned
from weft.engines.cpu.filter import Asked, Series, Sweep
from weft.engines.cpu.interrupts import Brake
from weft.engines.cpu.limits import Limits
from weft.engines.cpu.problem import Component, Problem, forward_sweep, make_asked, reverse_sweep
from weft.engines.cpu.shelf import aligned
from weft.engines.cpu.sweeps import Filter
from weft.engines.cpu.switches import Met, SwitchedRows, SwitchedSeries, Switches, make_switches
from weft.engines.cpu.threads import available_threads, run_both, single_blas_thread
from weft.state_space.chain import ComponentChain, Rows

# A sum over many times has a place's variance of times without its row in it, and what the row sees is smaller by its precision times
# that variance: as many digits are lost of the difference.
MOST_TIMES_VARIANCE = 1e4


class ComponentGradient(NamedTuple):
    """The gradient in one component's chain."""

    transition: Float[np.ndarray, "step latent latent"]
    process_noise: Float[np.ndarray, "step latent latent"]
    initial: Float[np.ndarray, "latent latent"]
    readout: Float[np.ndarray, " latent"]


class SeriesGradient(NamedTuple):
    """The gradient in everything a series is given; the start's where there is one."""

    components: list[ComponentGradient]
    weights: Float[np.ndarray, "place bottleneck"]
    value: Float[np.ndarray, " row"]
    precision: Float[np.ndarray, " row"]
    start: Side | None


class End(NamedTuple):
    """One end of a series: its filter, and after the way back lam, Lam and the gradient in its own (maybe reversed) terms.

    Each row belongs to one end, so that all ends write the rows' gradients to the same two arrays.
    """

    filter: Filter
    reversed: bool
    adjoint: Side
    gradient: Gradient


def split_point(problem: Problem, limits: Limits) -> int | None:
    """The time at which two ends would meet, with equal work on both sides; None where one end is better."""
    if available_threads(limits.threads) < 2 or not problem.reversible or problem.num_times < 4:
        return None
    size = problem.size
    work = filter_flops(problem.layout.counts, size, problem.num_bottleneck)
    meeting = 20.0 * size**3
    if work.sum() < limits.seconds_for_two * limits.flops_per_second + 2 * meeting:
        return None
    if not well_conditioned([part.initial for part in problem.components]):
        return None
    split = int(np.searchsorted(np.cumsum(work), work.sum() / 2))
    return min(max(split, 1), problem.num_times - 1)


def may_switch(row_counts: Int[np.ndarray, " time"], num_bottleneck: int, limits: Limits) -> bool:
    """Whether enough of the work is rows at times that have more of them than the bottleneck is wide."""
    crowded = float(row_counts[row_counts > num_bottleneck].sum())
    return 4 * crowded * num_bottleneck**2 >= limits.seconds_for_switches * limits.flops_per_second


def load_kernels(rows: Rows, num_bottleneck: int, limits: Limits) -> None:
    """Load or compile what such rows will need."""
    kernels()
    if rows.is_by_place and may_switch(rows.layout.counts, num_bottleneck, limits):
        switch_kernels()


def switches_of(problem: Problem, limits: Limits, sweep: Sweep) -> Switches | None:
    """Who switches when along a sweep; None where that is not exact or gains nothing.

    It is not where rows have precisions of their own, repeat a place, or are so precise that a difference of sums does not tell what
    they see; it gains nothing where there are few rows, or most of them change.
    """
    counts, num_bottleneck = sweep.row_stop - sweep.row_start, problem.num_bottleneck
    if not problem.is_by_place or not may_switch(counts, num_bottleneck, limits):
        return None
    num_places = len(problem.observed.weights) // num_bottleneck
    met = Met(np.zeros(num_places, dtype=np.int64), np.zeros(num_places))
    switches = make_switches(sweep.row_start, sweep.row_stop, num_bottleneck, num_places)
    summed = switch_kernels().find(problem.observed, num_bottleneck, met, switches)
    if np.max(met.precision * problem.prior_variances()) > MOST_TIMES_VARIANCE:
        return None
    return switches if 0 < 2 * summed <= counts[counts > num_bottleneck].sum() else None


def make_end(
    problem: Problem,
    limits: Limits,
    split: int,
    is_reversed: bool,
    queries: Layout | None,
    asked: Asked,
    brake: Brake,
    by_row: tuple[np.ndarray, np.ndarray] | None = None,
) -> End:
    """The end before `split`, or the one after it, ready to run; `by_row` is where gradients in values and precisions go."""
    if is_reversed:
        sweep, times = reverse_sweep(problem, split, queries), np.arange(problem.num_times - 1, split - 1, -1)
    else:
        sweep, times = forward_sweep(problem, split, queries), np.arange(split)
    gradient = Gradient(
        np.zeros_like(sweep.transition),
        np.zeros_like(sweep.process_noise),
        np.zeros_like(problem.observed.weights),
        *(by_row or (np.empty(0), np.empty(0))),
    )
    size = problem.size
    adjoint = Side(aligned(np.zeros(size)), aligned(np.zeros((size, size))).reshape(size, size))
    switches = switches_of(problem, limits, sweep)
    series = (
        Series(sweep, problem.observed, asked)
        if switches is None
        else SwitchedSeries(sweep, SwitchedRows(*problem.observed, switches), asked)
    )
    return End(Filter(problem, limits, series, problem.start(), brake, times), is_reversed, adjoint, gradient)


def run_ends(ends: list[End], work: Callable[[End], None], brake: Brake) -> None:
    if len(ends) == 1:
        work(ends[0])
    else:
        run_both(lambda: work(ends[0]), lambda: work(ends[1]), brake)


def blas_held(problem: Problem, limits: Limits, split: int | None) -> contextlib.AbstractContextManager:
    """BLAS threads of its own only where one end has large matrices and threads to spare.

    Held over a whole call, the meeting included: OpenBLAS's threads go on spinning for a while after their work, and would take a
    processor from one of the ends.
    """
    alone = split is None and available_threads(limits.threads) > 1
    large = problem.num_bottleneck >= limits.bottleneck_for_blas_threads
    return contextlib.nullcontext() if alone and large else single_blas_thread()


def filter_ends(
    problem: Problem,
    limits: Limits,
    split: int | None,
    work: Callable[[End], None],
    queries: Layout | None,
    asked: Asked,
) -> tuple[list[End], Meeting | None, float, Brake]:
    """Run `work` forward from both ends if they can meet at `split`, else from the start: the ends, their meeting, the log normaliser."""
    # Loaded or compiled on this thread, before two of them want it.
    kernels()
    brake = Brake()
    by_row = np.empty_like(problem.observed.value), np.empty_like(problem.observed.precision)
    if split is not None:
        ends = [make_end(problem, limits, split, late, queries, asked, brake, by_row) for late in (False, True)]
        run_ends(ends, work, brake)
        square = (problem.size, problem.size)
        left, right = (Side(end.filter.belief.mean, end.filter.belief.covariance.reshape(square)) for end in ends)
        meeting = meet(
            left,
            right,
            [part.initial for part in problem.components],
            [part.num_pseudo for part in problem.components],
        )
        if meeting is not None:
            return ends, meeting, meeting.log_factor + sum(end.filter.log_normaliser for end in ends), brake
    ends = [make_end(problem, limits, problem.num_times, False, queries, asked, brake, by_row)]
    run_ends(ends, work, brake)
    return ends, None, ends[0].filter.log_normaliser, brake


def log_normaliser(problem: Problem, limits: Limits) -> float:
    """The value alone."""
    split = split_point(problem, limits)
    with blas_held(problem, limits, split):
        return filter_ends(problem, limits, split, lambda end: end.filter.run(), None, make_asked(problem, None))[2]


def there_and_back(
    problem: Problem, limits: Limits, queries: Layout | None, asked: Asked
) -> tuple[list[End], Meeting | None, float]:
    """Forward and backward sweeps; queries, if any, are answered on the way back."""

    def forward(end: End) -> None:
        end.filter.run_keeping(end.filter.num_steps / problem.num_times, queries is not None)

    def backward(end: End) -> None:
        adjoint = Adjoint(end.adjoint.vector, end.adjoint.matrix.reshape(-1))
        end.filter.run_back(adjoint, end.gradient, queries is not None)

    split = split_point(problem, limits)
    with blas_held(problem, limits, split):
        ends, meeting, total, brake = filter_ends(problem, limits, split, forward, queries, asked)
        if meeting is not None:
            for end, side in zip(ends, (meeting.left, meeting.right), strict=True):
                end.adjoint.vector[:] = side.vector
                end.adjoint.matrix[:] = side.matrix
        run_ends(ends, backward, brake)
    return ends, meeting, total


def filter_answers(problem: Problem, limits: Limits, queries: Layout, asked: Asked) -> None:
    """Answer the queries by what was seen up to each."""
    end = make_end(problem, limits, problem.num_times, False, queries, asked, Brake())
    with single_blas_thread():
        end.filter.run(answer=True)


def last_state(problem: Problem, limits: Limits) -> tuple[Side, float]:
    """The state at the last time given everything, and the log normaliser."""
    end = make_end(problem, limits, problem.num_times, False, None, make_asked(problem, None), Brake())
    with single_blas_thread():
        end.filter.run()
    square = (problem.size, problem.size)
    return Side(end.filter.belief.mean, end.filter.belief.covariance.reshape(square)), end.filter.log_normaliser


def value_and_gradient(problem: Problem, limits: Limits) -> tuple[float, SeriesGradient]:
    """The log normaliser and its gradient."""
    ends, meeting, total = there_and_back(problem, limits, None, make_asked(problem, None))
    return total, gradient_of(problem, ends, meeting)


class Solver(abc.ABC):
    """Who knows the value of a problem and its gradient: a value itself, so that compiled functions are found again by it."""

    @abc.abstractmethod
    def load(self, rows: Rows, num_bottleneck: int) -> None:
        """Have the kernels ready that such rows will need."""

    @abc.abstractmethod
    def log_normaliser(self, problem: Problem) -> float: ...

    @abc.abstractmethod
    def value_and_gradient(self, problem: Problem) -> tuple[float, SeriesGradient]: ...


@dataclasses.dataclass(frozen=True)
class BySweeps(Solver):
    """Sweeps over the whole series, within limits."""

    limits: Limits

    def load(self, rows: Rows, num_bottleneck: int) -> None:
        load_kernels(rows, num_bottleneck, self.limits)

    def log_normaliser(self, problem: Problem) -> float:
        return log_normaliser(problem, self.limits)

    def value_and_gradient(self, problem: Problem) -> tuple[float, SeriesGradient]:
        return value_and_gradient(problem, self.limits)


def gradient_of(problem: Problem, ends: list[End], meeting: Meeting | None) -> SeriesGradient:
    """What the ends have gathered on their way back."""
    components = []
    for number, part in enumerate(problem.components):
        components.append(component_gradient(problem, number, part, ends, meeting))
    start = None
    if problem.start_mean is not None:
        pulled, adjoint = ends[0].adjoint
        start = Side(pulled, (np.outer(pulled, pulled) - adjoint) / 2)
    weights = functools.reduce(np.add, [end.gradient.weights for end in ends]).reshape(-1, problem.num_bottleneck)
    return SeriesGradient(components, weights, ends[0].gradient.value, ends[0].gradient.precision, start)


def component_gradient(
    problem: Problem, number: int, part: Component, ends: list[End], meeting: Meeting | None
) -> ComponentGradient:
    """The ends' gradients in one component's chain, put together and turned back in time where needed.

    The readout's follows from the others: a change of basis K of the latent dimensions changes nothing, so that
    readout (x) d readout = sum over steps of (dA A' - A' dA + 2 dQ Q) + 2 dPi Pi, whatever the data.
    """
    latent, count = len(part.readout), part.num_pseudo
    state, matrix = problem.frame.structure.state[number], problem.frame.structure.matrix[number]
    span = slice(state, state + latent * count)
    block = slice(matrix, matrix + latent * latent)

    transition, process_noise = np.zeros_like(part.transition), np.zeros_like(part.process_noise)
    initial, basis = np.zeros((latent, latent)), np.zeros((latent, latent))
    for end in ends:
        a, q = (
            getattr(end.filter.series.sweep, name)[:, block].reshape(-1, latent, latent)
            for name in ("transition", "process_noise")
        )
        da, dq = (
            getattr(end.gradient, name)[:, block].reshape(-1, latent, latent)
            for name in ("transition", "process_noise")
        )
        basis += np.einsum("sde,sfe->df", da, a) - np.einsum("sed,sef->df", a, da) + 2 * np.einsum("sde,sef->df", dq, q)
        signs = part.signs if end.reversed else 1.0
        transition += da * signs
        process_noise += dq * signs

        pulled = end.adjoint.vector[span].reshape(latent, count)
        adjoint = end.adjoint.matrix[span]
        of_start = adjoint.reshape(latent, count, -1)[:, :, span].reshape(latent, count, latent, count)
        information = pulled @ pulled.T - np.einsum("dmem->de", of_start)
        if problem.start_mean is None:
            carried = information @ part.initial
            initial += information / 2
        else:
            mean, covariance = end.filter.start.mean, end.filter.start.covariance.reshape(problem.size, -1)
            moved = (end.adjoint.vector @ covariance[:, span] + mean[span]).reshape(latent, count)
            columns = covariance[:, span].reshape(-1, latent, count)
            rows = adjoint.reshape(latent, count, -1)
            carried = pulled @ moved.T - np.einsum("dmj,jem->de", rows, columns, optimize=True)
        basis += carried
        if not end.reversed:
            # The step to the first time has length zero: an identity and no noise, but with a gradient like any other.
            transition[problem.step_number[0]] += carried
            process_noise[problem.step_number[0]] += information / 2
    if meeting is not None:
        initial += meeting.initial[number]
        basis += 2 * meeting.initial[number] @ part.initial
    return ComponentGradient(transition, process_noise, initial, _from_basis(part, basis))


def readout_slopes(
    part: Component | ComponentChain,
    transition: Float[np.ndarray, "step latent latent"],
    process_noise: Float[np.ndarray, "step latent latent"],
    initial: Float[np.ndarray, "latent latent"],
) -> Float[np.ndarray, " latent"]:
    """The gradient in a readout from those in the matrices of a chain that begins at its first time."""
    a, q = np.asarray(part.transition), np.asarray(part.process_noise)
    basis = np.einsum("sde,sfe->df", transition, a) - np.einsum("sed,sef->df", a, transition)
    basis += 2 * np.einsum("sde,sef->df", process_noise, q) + 2 * initial @ np.asarray(part.initial)
    return _from_basis(part, basis)


def _from_basis(
    part: Component | ComponentChain, basis: Float[np.ndarray, "latent latent"]
) -> Float[np.ndarray, " latent"]:
    """The gradient in the readout from that in a change of basis."""
    readout, initial = np.asarray(part.readout), np.asarray(part.initial)
    scale = np.square(readout) * np.maximum(np.diagonal(initial), np.finfo(np.float64).tiny)
    if not scale.any():
        # The sign of a component does not matter, so where its readout is zero so is the gradient.
        return np.zeros(len(readout))
    return np.divide(scale, readout, out=np.zeros(len(readout)), where=readout != 0) / scale.sum() @ basis
