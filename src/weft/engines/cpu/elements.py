# SPDX-License-Identifier: MIT
"""What a block of times does to whatever comes into it, so that blocks are worked on apart and joined exactly.

With x the predicted state at the block's first time and x_out the one predicted at the first time after it,

    x_out | x, rows ~ N(carried x + mean, covariance),      p(rows | x) proportional to exp(-|root x - pull|^2 / 2).

A filter started at mean zero and covariance zero tells mean and covariance; that it is linear in the mean tells the rest: the identity's
columns are carried along as so many more means, whose innovations are the rows of `root`. They are gathered by rotations, so that
nothing is squared. Once what came in is forgotten, `carried` is zero and the rest of the block has nothing more to say about it: then
only the block's beginning and its end are looked at.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.linalg import cholesky, qr, solve_triangular

from weft.data.layout import Layout
from weft.engines.cpu.blocks import Belief
from weft.engines.cpu.compiled import draw_kernels
from weft.engines.cpu.draw_sweeps import make_draws, most_rank, room_for_steps
from weft.engines.cpu.ends import Side, symmetric
from weft.engines.cpu.filter import Series, Stretch
from weft.engines.cpu.problem import Problem, forward_sweep, make_asked
from weft.engines.cpu.rows import Observed
from weft.engines.cpu.sweeps import breakdown
from weft.engines.cpu.work import make_work

__all__ = [
    "Element",
    "Information",
    "adjoint_of",
    "element_of",
    "joined",
    "nothing_known",
    "seen_from_before",
    "times_of",
]

# What came in counts as forgotten when less than this of a prior deviation is left of any.
FORGOTTEN = 1e-12
# Steps between two looks at what is left, within the bytes that their innovations take.
STEPS_AT_ONCE = 128
BYTES_AT_ONCE = 64 * 2**20


class Information(NamedTuple):
    """What rows say of a state x: exp(-|root x - pull|^2 / 2) up to a factor."""

    root: Float[np.ndarray, "state state"]
    pull: Float[np.ndarray, " state"]


class Element(NamedTuple):
    """See above."""

    carried: Float[np.ndarray, "state state"]
    out: Side
    information: Information


def nothing_known(size: int) -> Information:
    return Information(np.zeros((size, size)), np.zeros(size))


def element_of(problem: Problem, stop: int) -> Element:
    """The element of the first `stop` times. Where there is none after them, it leads to the last one given its rows."""
    at_once = _steps_at_once(problem)
    whole = _Carrier(problem)
    length = 0
    while length < stop and not whole.has_forgotten:
        whole.carry(length, min(length + at_once, stop))
        length = min(length + at_once, stop)
    if length == stop:
        return Element(whole.carried, whole.out, whole.information)
    while True:
        end_alone = _Carrier(problem)
        first = max(stop - length, 0)
        for start in range(first, stop, at_once):
            end_alone.carry(start, min(start + at_once, stop))
        if first == 0 or end_alone.has_forgotten:
            return Element(np.zeros_like(whole.carried), end_alone.out, whole.information)
        length *= 2


def joined(element: Element, before: Side) -> Side:
    """The state predicted after the block, given the one predicted before it."""
    pulled, adjoint = adjoint_of(element.information, before)
    mean = before.vector + before.matrix @ pulled
    covariance = before.matrix - before.matrix @ adjoint @ before.matrix
    carried, out = element.carried, element.out
    return Side(out.vector + carried @ mean, out.matrix + symmetric(carried @ covariance @ carried.T))


def seen_from_before(element: Element, after: Information) -> Information:
    """What the block's rows and all rows after it say of the state before the block."""
    root, pull = after
    spread = symmetric(root @ element.out.matrix @ root.T)
    factor = cholesky(np.eye(len(spread)) + spread, lower=True)
    more = solve_triangular(
        factor, np.column_stack([root @ element.carried, pull - root @ element.out.vector]), lower=True
    )
    own = np.column_stack(element.information)
    return _information(np.concatenate([own, more]))


def adjoint_of(information: Information, belief: Side) -> Side:
    """The pair lam, Lam at a state believed to be N(m, P): root'(I + root P root')^-1 (pull - root m), and with root at the end."""
    root, pull = information
    spread = symmetric(root @ belief.matrix @ root.T)
    factor = cholesky(np.eye(len(spread)) + spread, lower=True)
    half = solve_triangular(factor, np.column_stack([root, pull - root @ belief.vector]), lower=True)
    return Side(half[:, :-1].T @ half[:, -1], symmetric(half[:, :-1].T @ half[:, :-1]))


def times_of(problem: Problem, first: int, last: int, start: Side | None = None) -> Problem:
    """The times from `first` up to `last` with their rows, then the one after, if there is one, without: where they lead to."""
    count = min(last + 1, problem.num_times) - first
    offsets = problem.layout.offsets[first : last + 1] - problem.layout.offsets[first]
    rows = slice(problem.layout.offsets[first], problem.layout.offsets[last])
    observed = problem.observed
    return Problem(
        components=problem.components,
        # No step leads to the first time: what is known of it is given.
        step_number=np.append(0, problem.step_number[first + 1 : first + count]),
        start_mean=problem.start_mean if start is None else start.vector,
        start_covariance=problem.start_covariance if start is None else start.matrix,
        layout=Layout(np.append(offsets, offsets[-1])[: count + 1]),
        observed=Observed(observed.place[rows], observed.value[rows], observed.precision[rows], observed.weights),
        frame=problem.frame,
        is_by_place=problem.is_by_place,
    )


class _Carrier:
    """The identity and a mean of zero, carried on from a state that is known to be zero."""

    def __init__(self, problem: Problem):
        self.problem, self.size = problem, problem.size
        self.belief = Belief(np.eye(self.size, self.size + 1).reshape(-1), np.zeros(self.size**2))
        self.information = nothing_known(self.size)

    @property
    def carried(self) -> Float[np.ndarray, "state state"]:
        return self.belief.mean.reshape(self.size, -1)[:, :-1].copy()

    @property
    def out(self) -> Side:
        means = self.belief.mean.reshape(self.size, -1)
        return Side(means[:, -1].copy(), self.belief.covariance.reshape(self.size, -1).copy())

    @property
    def has_forgotten(self) -> bool:
        deviation = np.sqrt(np.diagonal(self.problem.initial_covariance().reshape(self.size, -1)))
        deviation = np.where(deviation > 0, deviation, 1.0)
        return bool(np.max(np.abs(self.carried) * deviation / deviation[:, None]) < FORGOTTEN)

    def carry(self, first: int, last: int) -> None:
        """From one time up to another."""
        problem, count = times_of(self.problem, first, last), last - first
        observed = problem.observed
        values = np.zeros((len(observed.value), self.size + 1))
        values[:, -1] = observed.value
        nowhere = observed._replace(value=np.zeros_like(observed.value))
        series = Series(forward_sweep(problem, count, None), nowhere, make_asked(problem, None))
        work = make_work(problem.frame.structure)
        draws, kept = make_draws(problem, work, values), room_for_steps(problem, count, self.size + 1)
        broken = draw_kernels().forward(
            problem.frame, series, work, Stretch(0, count, 0), kept, draws, self.belief, True
        )
        if broken >= 0:
            raise breakdown(problem, broken)
        innovations = kept.innovation.reshape(-1, self.size + 1)
        # The means' innovations are what rows miss, so those of the identity have the other sign.
        innovations[:, :-1] *= -1
        self.information = _information(np.concatenate([np.column_stack(self.information), innovations]))


def _information(stacked: Float[np.ndarray, "row state_and_pull"]) -> Information:
    """Rows of root and pull, however many, as a triangle of them; what is left of the pull is a factor and no more."""
    size = stacked.shape[1] - 1
    (triangle,) = qr(stacked, mode="r", check_finite=False)
    triangle = triangle[:size]
    return Information(np.ascontiguousarray(triangle[:, :-1]), triangle[:, -1].copy())


def _steps_at_once(problem: Problem) -> int:
    size, bottleneck, rank = problem.size, problem.num_bottleneck, most_rank(problem)
    step = 8 * (bottleneck * (2 * size + 1) + rank * (2 * size + bottleneck + 1))
    return max(1, min(STEPS_AT_ONCE, BYTES_AT_ONCE // step))
