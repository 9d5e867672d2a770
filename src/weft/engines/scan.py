# SPDX-License-Identifier: MIT
"""The reference engine: a Kalman filter in pure JAX, one slot of rows after another.

Readable first; it is also the path to accelerators when the state is large. Nothing here inverts or factors a state
covariance: the only matrix factored is I + E P E', never smaller than the identity.
"""

import dataclasses
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import block_diag, solve_triangular
from jaxtyping import Array, Float, Int

from weft.arrays import AnyArray
from weft.engines.base import Cost, Engine, Moments, Shape, filter_flops
from weft.engines.schedule import Schedule, make_schedule, segment_length, slots_for
from weft.state_space.chain import Chain, Queries, Rows, State


class Slot(NamedTuple):
    """What one slot of the schedule brings: a step, and rows as weights, values and precisions (zero where padded)."""

    step: Int[Array, "..."]
    weights: Float[Array, "... row bottleneck"]
    value: Float[Array, "... row"]
    precision: Float[Array, "... row"]


class Update(NamedTuple):
    """The pieces of one update that the backward sweep needs again."""

    observe: Float[Array, "row bottleneck"]
    innovation: Float[Array, " row"]
    factor: Float[Array, "row row"]
    whitened: Float[Array, "row state"]


@dataclasses.dataclass(frozen=True)
class ScanEngine(Engine):
    """The reference engine; see the module."""

    @property
    def name(self) -> str:
        return "scan"

    def cost(self, shape: Shape, *, gradient: bool = True) -> Cost:
        """See `Engine`. Padded slots cost what full ones do; about sqrt(T) steps and as many checkpoints are kept, and run again."""
        size, bottleneck = shape.num_state, shape.num_bottleneck
        num_slots, width = slots_for(shape.layout, bottleneck)
        flops = num_slots * float(filter_flops(np.array([width]), size, bottleneck)[0])
        working = 8 * (8 * size**2 + 12 * bottleneck * size)
        if not gradient:
            return Cost(flops / 3, working)
        kept = 8 * (3 * size**2 + 3 * width * size + 2 * width**2) + 8 * size**2
        return Cost(flops * 4 / 3, working + segment_length(num_slots) * kept)

    @eqx.filter_jit
    def log_normaliser(
        self, chain: Chain, weights: Float[AnyArray, "place bottleneck"], rows: Rows
    ) -> Float[Array, ""]:
        """See `Engine`. Reverse mode recomputes each of ~sqrt(T) segments, so its memory is O(sqrt(T) state^2)."""
        return run_forward(chain, weights, rows)[1]

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
        return answer_queries(chain, weights, rows, queries, filtered)

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
        return means_by_draw(self, chain, weights, rows, values, queries)

    @eqx.filter_jit
    def last_state(
        self, chain: Chain, weights: Float[AnyArray, "place bottleneck"], rows: Rows
    ) -> tuple[State, Float[Array, ""]]:
        """See `Engine`."""
        return run_forward(chain, weights, rows)


def run_forward(
    chain: Chain, weights: Float[AnyArray, "place bottleneck"], rows: Rows
) -> tuple[State, Float[Array, ""]]:
    """The filtered state after the last slot, and the log normaliser."""
    schedule = make_schedule(rows.layout, None, chain.num_bottleneck, True)

    def one(carry: tuple[State, Array], numbers: tuple[Array, Array]) -> tuple[tuple[State, Array], None]:
        state, total = carry
        slot = read_slot(chain, weights, rows, *numbers)
        predicted = predict(chain, state, slot.step)
        filtered, update = absorb(chain, predicted, slot)
        return (filtered, total + log_factor(update)), None

    @jax.checkpoint
    def segment(carry: tuple[State, Array], numbers: tuple[Array, Array]) -> tuple[tuple[State, Array], None]:
        return jax.lax.scan(one, carry, numbers)

    start = initial_state(chain)
    (state, total), _ = jax.lax.scan(segment, (start, jnp.zeros(())), in_segments(schedule, chain)[:2])
    return state, total


def answer_queries(
    chain: Chain,
    weights: Float[AnyArray, "place bottleneck"],
    rows: Rows,
    queries: Queries,
    filtered: bool,
) -> Moments:
    """A filter keeps the state before each segment; a backward sweep runs through each segment again."""
    schedule = make_schedule(rows.layout, queries.layout, chain.num_bottleneck, True)
    step, row, query = in_segments(schedule, chain)

    def forward(state: State, numbers: tuple[Array, Array]) -> tuple[State, tuple[State, State, Update]]:
        slot = read_slot(chain, weights, rows, *numbers)
        predicted = predict(chain, state, slot.step)
        after, update = absorb(chain, predicted, slot)
        return after, (predicted, after, update)

    def ask(state: State, query: Int[Array, " query"]) -> tuple[Array, Array, Array]:
        return project(chain, state, queries.weights[queries.place[query]])

    if filtered:

        def answer(state: State, numbers: tuple[Array, Array, Array]) -> tuple[State, tuple[Array, Array, Array]]:
            state, (_, after, _) = forward(state, numbers[:2])
            return state, ask(read_bottleneck(chain, after), numbers[2])

        _, answers = jax.lax.scan(
            lambda state, numbers: jax.lax.scan(answer, state, numbers), initial_state(chain), (step, row, query)
        )
        return gather_answers(schedule, answers)

    def keep_start(state: State, numbers: tuple[Array, Array]) -> tuple[State, State]:
        return jax.lax.scan(lambda s, n: (forward(s, n)[0], None), state, numbers)[0], state

    _, starts = jax.lax.scan(keep_start, initial_state(chain), (step, row))

    def backward(adjoint: State, kept: tuple) -> tuple[State, tuple[Array, Array, Array]]:
        predicted, update, number, query = kept
        adjoint = adjoint_update(chain, adjoint, update)
        answer = ask(smooth_bottleneck(chain, predicted, adjoint), query)
        return adjoint_predict(chain, adjoint, number), answer

    def segment(adjoint: State, kept: tuple) -> tuple[State, tuple[Array, Array, Array]]:
        start, step, row, query = kept
        _, (predicted, _, update) = jax.lax.scan(forward, start, (step, row))
        return jax.lax.scan(backward, adjoint, (predicted, update, step, query), reverse=True)

    nothing = State(jnp.zeros(chain.num_state), jnp.zeros((chain.num_state, chain.num_state)))
    _, answers = jax.lax.scan(segment, nothing, (starts, step, row, query), reverse=True)
    return gather_answers(schedule, answers)


def means_by_draw(
    engine: Engine, chain: Chain, weights: Array, rows: Rows, values: AnyArray, queries: Queries
) -> Float[Array, "query draw"]:
    """Means draw by draw; covariances do not depend on values, so vmap runs them once."""

    def of_draw(draw: Float[Array, " row"]) -> Float[Array, " query"]:
        return jnp.sum(
            engine.moments(chain, weights, Rows(rows.layout, rows.place, draw, rows.precision), queries).mean, axis=1
        )

    return jax.vmap(of_draw, in_axes=1, out_axes=1)(jnp.asarray(values))


def in_segments(schedule: Schedule, chain: Chain) -> tuple[Array, Array, Array]:
    """Step, rows and queries of each slot, as [segment, slot, ...]."""
    length = segment_length(schedule.num_slots)
    step = jnp.where(schedule.begins, jnp.asarray(chain.step_number)[schedule.time], 0)
    return tuple(
        jnp.reshape(jnp.asarray(array), (-1, length, *array.shape[1:]))
        for array in (step, schedule.rows, schedule.queries)
    )  # type: ignore[return-value]


def gather_answers(schedule: Schedule, answers: tuple[Array, Array, Array]) -> Moments:
    """Answers by slot back into the order of the queries."""
    mean, variance, total = (
        jnp.reshape(array, (-1, *array.shape[3:]))[np.asarray(schedule.query_slots)] for array in answers
    )
    return Moments(mean, variance, total)


def read_slot(chain: Chain, weights: Array, rows: Rows, step: Int[Array, ""], numbers: Int[Array, " row"]) -> Slot:
    present = numbers >= 0
    if rows.layout.num_rows == 0:
        nothing = jnp.zeros(len(numbers))
        return Slot(step, jnp.zeros((len(numbers), chain.num_bottleneck)), nothing, nothing)
    return Slot(
        step=step,
        weights=jnp.where(present[:, None], weights[jnp.asarray(rows.place)[numbers]], 0.0),
        value=jnp.where(present, jnp.asarray(rows.value)[numbers], 0.0),
        precision=jnp.where(present, jnp.asarray(rows.precision)[numbers], 0.0),
    )


def initial_state(chain: Chain) -> State:
    if chain.start is not None:
        return State(jnp.asarray(chain.start.mean), jnp.asarray(chain.start.covariance))
    covariance = block_diag(*(jnp.kron(part.initial, jnp.eye(part.num_pseudo)) for part in chain.components))
    return State(jnp.zeros(chain.num_state), covariance)


def apply_by_component(chain: Chain, matrices: list[Array], columns: Float[Array, "state column"]) -> Array:
    """Each component's latent matrix times its block of `columns`: O(latent) a number, the identity over pseudo-points for free."""
    blocks, first = [], 0
    for part, matrix in zip(chain.components, matrices, strict=True):
        size = part.num_latent * part.num_pseudo
        block = jnp.reshape(columns[first : first + size], (part.num_latent, part.num_pseudo, columns.shape[1]))
        blocks.append(jnp.reshape(jnp.einsum("ed,dmc->emc", matrix, block), (-1, columns.shape[1])))
        first += size
    return jnp.concatenate(blocks)


def transitions(chain: Chain, step: Int[Array, ""]) -> list[Array]:
    return [part.transition[step] for part in chain.components]


def read_out(chain: Chain, columns: Float[Array, "state column"]) -> Float[Array, "bottleneck column"]:
    """H times `columns`."""
    return apply_by_component(chain, [part.readout[None, :] for part in chain.components], columns)


def read_in(chain: Chain, columns: Float[Array, "bottleneck column"]) -> Float[Array, "state column"]:
    """H' times `columns`."""
    blocks, first = [], 0
    for part in chain.components:
        block = columns[first : first + part.num_pseudo]
        blocks.append(jnp.reshape(part.readout[:, None, None] * block[None], (-1, columns.shape[1])))
        first += part.num_pseudo
    return jnp.concatenate(blocks)


def symmetric(matrix: Float[Array, "state state"]) -> Float[Array, "state state"]:
    # Without this an antisymmetric rounding error grows without bound in the backward sweep.
    return (matrix + matrix.T) / 2


def predict(chain: Chain, state: State, step: Int[Array, ""]) -> State:
    matrices = transitions(chain, step)
    noise = block_diag(*(jnp.kron(part.process_noise[step], jnp.eye(part.num_pseudo)) for part in chain.components))
    carried = apply_by_component(chain, matrices, apply_by_component(chain, matrices, state.covariance).T)
    return State(apply_by_component(chain, matrices, state.mean[:, None])[:, 0], symmetric(carried) + noise)


def absorb(chain: Chain, state: State, slot: Slot) -> tuple[State, Update]:
    """Condition on a slot's rows. With E = precision^1/2 weights, only W = I + E P_z E' >= I is factored."""
    positive = slot.precision > 0
    root = jnp.where(positive, jnp.sqrt(jnp.where(positive, slot.precision, 1.0)), 0.0)
    observe = root[:, None] * slot.weights
    gain = observe @ read_out(chain, state.covariance)
    spread = read_out(chain, gain.T).T @ observe.T
    factor = jnp.linalg.cholesky(jnp.eye(len(root)) + symmetric(spread))
    expected = slot.weights @ read_out(chain, state.mean[:, None])[:, 0]
    innovation = solve_triangular(factor, root * (slot.value - expected), lower=True)
    whitened = solve_triangular(factor, gain, lower=True)
    after = State(state.mean + whitened.T @ innovation, symmetric(state.covariance - whitened.T @ whitened))
    return after, Update(observe, innovation, factor, whitened)


def log_factor(update: Update) -> Float[Array, ""]:
    return -jnp.sum(jnp.log(jnp.diagonal(update.factor))) - update.innovation @ update.innovation / 2


def adjoint_update(chain: Chain, adjoint: State, update: Update) -> State:
    """The pair lam, Lam before the update from that after it (de Jong 1989): the adjoint of `absorb`."""
    observe = solve_triangular(update.factor, update.observe, lower=True)
    back = read_in(chain, observe.T)
    mean = adjoint.mean + back @ (update.innovation - update.whitened @ adjoint.mean)
    cross = adjoint.covariance @ update.whitened.T
    inner = jnp.eye(len(update.innovation)) + update.whitened @ cross
    covariance = adjoint.covariance - cross @ back.T - back @ cross.T + back @ inner @ back.T
    return State(mean, symmetric(covariance))


def adjoint_predict(chain: Chain, adjoint: State, step: Int[Array, ""]) -> State:
    matrices = [matrix.T for matrix in transitions(chain, step)]
    carried = apply_by_component(chain, matrices, apply_by_component(chain, matrices, adjoint.covariance).T)
    return State(apply_by_component(chain, matrices, adjoint.mean[:, None])[:, 0], symmetric(carried))


def read_bottleneck(chain: Chain, state: State) -> State:
    half = read_out(chain, state.covariance)
    return State(read_out(chain, state.mean[:, None])[:, 0], symmetric(read_out(chain, half.T)))


def smooth_bottleneck(chain: Chain, predicted: State, adjoint: State) -> State:
    """The bottleneck z given all rows: mean H m + H P lam, covariance H (P - P Lam P) H'."""
    half = read_out(chain, predicted.covariance)
    before = read_bottleneck(chain, predicted)
    return State(before.mean + half @ adjoint.mean, symmetric(before.covariance - half @ adjoint.covariance @ half.T))


def project(
    chain: Chain, bottleneck: State, weights: Float[Array, "query bottleneck"]
) -> tuple[Float[Array, "query component"], Float[Array, "query component"], Float[Array, " query"]]:
    means, variances, first = [], [], 0
    for part in chain.components:
        mine = slice(first, first + part.num_pseudo)
        means.append(weights[:, mine] @ bottleneck.mean[mine])
        variances.append(jnp.sum((weights[:, mine] @ bottleneck.covariance[mine, mine]) * weights[:, mine], axis=1))
        first += part.num_pseudo
    total = jnp.sum((weights @ bottleneck.covariance) * weights, axis=1)
    return jnp.stack(means, axis=1), jnp.stack(variances, axis=1), total
