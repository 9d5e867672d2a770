# SPDX-License-Identifier: MIT
"""The engine for accelerators and long series with a small state: all times at once, by associative scans.

Depth O(log T), work O(T state^3), memory O(T state^2). Filtering follows Särkkä & García-Fernández (2021, "Temporal parallelization of
Bayesian smoothers"); smoothing composes the affine maps of the adjoint recursion instead, which solves nothing.
"""

import dataclasses
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from weft.arrays import AnyArray
from weft.engines import scan
from weft.engines.base import Cost, Engine, Moments, Shape, filter_flops
from weft.engines.scan import Slot, Update
from weft.engines.schedule import Schedule, make_schedule, slots_for
from weft.state_space.chain import Chain, Queries, Rows, State


class Leap(NamedTuple):
    """How a stretch of slots acts on the state before it: x -> N(carry x + shift, spread), and what its rows say about that x."""

    carry: Float[Array, "... state state"]
    shift: Float[Array, "... state"]
    spread: Float[Array, "... state state"]
    pull: Float[Array, "... state"]
    precision: Float[Array, "... state state"]


class AdjointMap(NamedTuple):
    """The affine map that a stretch of slots applies to the adjoint (lam, Lam), from its end to its beginning."""

    carry: Float[Array, "... state state"]
    shift: Float[Array, "... state"]
    precision: Float[Array, "... state state"]


@dataclasses.dataclass(frozen=True)
class ParallelEngine(Engine):
    """All times at once; see the module."""

    @property
    def name(self) -> str:
        return "parallel"

    def cost(self, shape: Shape, *, gradient: bool = True) -> Cost:
        """See `Engine`. Every slot is joined with others about twice; a join solves and multiplies whole states."""
        size, bottleneck = shape.num_state, shape.num_bottleneck
        num_slots, width = slots_for(shape.layout, bottleneck)
        flops = num_slots * (40.0 * size**3 + float(filter_flops(np.array([width]), size, bottleneck)[0]) / 3)
        kept = num_slots * 8 * (3 * size**2 + 3 * width * size + 2 * width**2)
        return Cost(3 * flops, 2 * kept) if gradient else Cost(flops, kept)

    @eqx.filter_jit
    def log_normaliser(
        self, chain: Chain, weights: Float[AnyArray, "place bottleneck"], rows: Rows
    ) -> Float[Array, ""]:
        """See `Engine`."""
        return self.last_state(chain, weights, rows)[1]

    @eqx.filter_jit
    def moments(
        self,
        chain: Chain,
        weights: Float[AnyArray, "place bottleneck"],
        rows: Rows,
        queries: Queries,
        *,
        filtered: bool = False,
    ) -> Moments:
        """See `Engine`."""
        schedule = make_schedule(rows.layout, queries.layout, chain.num_bottleneck, False)
        slots = read_slots(chain, weights, rows, schedule)
        predicted, after, updates = run_filter(chain, slots)
        if filtered:
            bottleneck = jax.vmap(lambda state: scan.read_bottleneck(chain, state))(after)
        else:
            adjoint = run_adjoint(chain, slots.step, updates)
            bottleneck = jax.vmap(lambda state, later: scan.smooth_bottleneck(chain, state, later))(predicted, adjoint)
        asked = queries.weights[jnp.asarray(queries.place)[schedule.queries]]
        answers = jax.vmap(lambda state, rows: scan.project(chain, state, rows))(bottleneck, asked)
        mean, variance, total_variance = (answer[None] for answer in answers)
        return scan.gather_answers(schedule, (mean, variance, total_variance))

    @eqx.filter_jit
    def means(
        self,
        chain: Chain,
        weights: Float[AnyArray, "place bottleneck"],
        rows: Rows,
        values: Float[AnyArray, "row draw"],
        queries: Queries,
    ) -> Float[Array, "query draw"]:
        """See `Engine`."""
        return scan.means_by_draw(self, chain, weights, rows, values, queries)

    @eqx.filter_jit
    def last_state(
        self, chain: Chain, weights: Float[AnyArray, "place bottleneck"], rows: Rows
    ) -> tuple[State, Float[Array, ""]]:
        """See `Engine`."""
        schedule = make_schedule(rows.layout, None, chain.num_bottleneck, False)
        _, after, updates = run_filter(chain, read_slots(chain, weights, rows, schedule))
        return jax.tree.map(lambda array: array[-1], after), jnp.sum(jax.vmap(scan.log_factor)(updates))


def read_slots(chain: Chain, weights: Array, rows: Rows, schedule: Schedule) -> Slot:
    step = jnp.where(schedule.begins, jnp.asarray(chain.step_number)[schedule.time], 0)
    return jax.vmap(lambda step, numbers: scan.read_slot(chain, weights, rows, step, numbers))(
        step, jnp.asarray(schedule.rows)
    )


def run_filter(chain: Chain, slots: Slot) -> tuple[State, State, Update]:
    """Predicted and filtered states of every slot, and its update."""
    start = scan.initial_state(chain)
    first, _ = scan.absorb(chain, start, jax.tree.map(lambda array: array[0], slots))
    leaps = jax.vmap(lambda slot: make_leap(chain, slot))(slots)
    nothing = jnp.zeros_like(first.covariance)
    begin = Leap(nothing, first.mean, first.covariance, jnp.zeros_like(first.mean), nothing)
    leaps = jax.tree.map(lambda array, value: array.at[0].set(value), leaps, begin)
    total = jax.lax.associative_scan(jax.vmap(join), leaps)
    before = State(
        jnp.concatenate([start.mean[None], total.shift[:-1]]),
        jnp.concatenate([start.covariance[None], total.spread[:-1]]),
    )
    # The first slot's step has length zero, so predicting through it changes nothing.
    predicted = jax.vmap(lambda state, step: scan.predict(chain, state, step))(before, slots.step)
    after, updates = jax.vmap(lambda state, slot: scan.absorb(chain, state, slot))(predicted, slots)
    return predicted, after, updates


def make_leap(chain: Chain, slot: Slot) -> Leap:
    """One step and its rows, seen from the state before the step."""
    still = State(jnp.zeros(chain.num_state), jnp.zeros((chain.num_state, chain.num_state)))
    noise = scan.predict(chain, still, slot.step)
    after, update = scan.absorb(chain, noise, slot)
    matrices = scan.transitions(chain, slot.step)
    transition = scan.apply_by_component(chain, matrices, jnp.eye(chain.num_state))
    observe = jax.scipy.linalg.solve_triangular(update.factor, update.observe, lower=True)
    back = scan.apply_by_component(chain, [matrix.T for matrix in matrices], scan.read_in(chain, observe.T))
    seen = scan.read_in(chain, observe.T).T @ transition
    return Leap(
        carry=transition - update.whitened.T @ seen,
        shift=after.mean,
        spread=after.covariance,
        pull=back @ update.innovation,
        precision=back @ back.T,
    )


def join(first: Leap, second: Leap) -> Leap:
    """Two stretches as one."""
    size = first.shift.shape[0]
    mixed = jnp.eye(size) + first.spread @ second.precision
    factor = jax.scipy.linalg.lu_factor(mixed)
    columns = jnp.concatenate([first.carry, first.spread, (first.shift + first.spread @ second.pull)[:, None]], axis=1)
    solved = jax.scipy.linalg.lu_solve(factor, columns)
    carried, spread, shift = solved[:, :size], solved[:, size : 2 * size], solved[:, -1]
    # (I + J C)^-1 (eta - J b) and (I + J C)^-1 J, by the transpose of the same factor.
    informed = jax.scipy.linalg.lu_solve(
        factor,
        jnp.concatenate([(second.pull - second.precision @ first.shift)[:, None], second.precision], axis=1),
        trans=1,
    )
    return Leap(
        carry=second.carry @ carried,
        shift=second.carry @ shift + second.shift,
        spread=scan.symmetric(second.carry @ spread @ second.carry.T + second.spread),
        pull=first.carry.T @ informed[:, 0] + first.pull,
        precision=scan.symmetric(first.carry.T @ informed[:, 1:] @ first.carry + first.precision),
    )


def run_adjoint(chain: Chain, step: Int[Array, " slot"], updates: Update) -> State:
    """The pair lam, Lam of every slot, before its update."""
    size = chain.num_state
    before_update = jax.vmap(lambda update: update_map(chain, update))(updates)
    maps = jax.vmap(lambda each, number: then_predict(chain, each, number))(before_update, step)
    total = jax.lax.associative_scan(jax.vmap(compose), maps, reverse=True)
    # What reaches a slot from after it is the map of all later slots, applied to nothing.
    later = State(
        jnp.concatenate([total.shift[1:], jnp.zeros((1, size))]),
        jnp.concatenate([total.precision[1:], jnp.zeros((1, size, size))]),
    )
    return jax.vmap(lambda adjoint, update: scan.adjoint_update(chain, adjoint, update))(later, updates)


def update_map(chain: Chain, update: Update) -> AdjointMap:
    observe = jax.scipy.linalg.solve_triangular(update.factor, update.observe, lower=True)
    back = scan.read_in(chain, observe.T)
    return AdjointMap(jnp.eye(chain.num_state) - back @ update.whitened, back @ update.innovation, back @ back.T)


def then_predict(chain: Chain, inner: AdjointMap, step: Int[Array, ""]) -> AdjointMap:
    matrices = [matrix.T for matrix in scan.transitions(chain, step)]
    moved = scan.adjoint_predict(chain, State(inner.shift, inner.precision), step)
    return AdjointMap(scan.apply_by_component(chain, matrices, inner.carry), moved.mean, moved.covariance)


def compose(later: AdjointMap, earlier: AdjointMap) -> AdjointMap:
    """First the map of the later slots, then that of the earlier ones."""
    return AdjointMap(
        carry=earlier.carry @ later.carry,
        shift=earlier.carry @ later.shift + earlier.shift,
        precision=scan.symmetric(earlier.carry @ later.precision @ earlier.carry.T + earlier.precision),
    )
