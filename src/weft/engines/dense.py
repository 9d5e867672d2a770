# SPDX-License-Identifier: MIT
"""The engine for few rows at many places: one matrix over the rows, no state.

A chain costs T q^3, and q grows with the places. Where hardly any place is seen twice (floats, sales, an image), the matrix over the N
rows is far smaller: N^3 / 3 and no more. Component p has the covariance (B_p B_p') o T_p, with T_p over the times by products of
transitions. Pure JAX, and padded, so that problems of many sizes share few compilations. The only matrix factored is I + R K R with
R the roots of the precisions, never smaller than the identity.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import block_diag, solve_triangular
from jaxtyping import Array, Float, Int

from weft.arrays import AnyArray, is_concrete
from weft.data.layout import Layout
from weft.engines.base import Cost, Engine, Moments, Shape
from weft.state_space.chain import Chain, ComponentChain, Queries, Rows, State

# Sizes are padded up to so many different ones between a number and its double.
SIZES_PER_OCTAVE = 4
FEWEST_ASKED = 32
# What compiling for a new size takes, as arithmetic that takes as long.
COMPILING = 2e9


class Process(NamedTuple):
    """One component's matrices, by distinct step."""

    transition: Float[AnyArray, "step latent latent"]
    process_noise: Float[AnyArray, "step latent latent"]
    initial: Float[AnyArray, "latent latent"]
    readout: Float[AnyArray, " latent"]


class Prior(NamedTuple):
    """A chain as this engine sees it: sizes of the bottleneck are those of the weights."""

    processes: tuple[Process, ...]
    step_number: Int[AnyArray, " time"]
    start: State | None


class Points(NamedTuple):
    """Where f is asked for: the number of a time and of a place, and weights of places on each component's bottleneck."""

    time: Int[AnyArray, " point"]
    place: Int[AnyArray, " point"]
    weights: tuple[Float[AnyArray, "place _"], ...]


class Data(NamedTuple):
    """Rows in order of time, those of padding with precision zero."""

    points: Points
    value: Float[AnyArray, " row"]
    precision: Float[AnyArray, " row"]


class Along(NamedTuple):
    """One component along time: what its readout covaries with, given a state of zero before the first time if there is a start."""

    between: Float[Array, "time time"]
    # A(last <- t) P_t h, and P at the last time.
    to_last: Float[Array, "time latent"]
    last: Float[Array, "latent latent"]
    # h A(t <- first), and A(last <- first).
    from_start: Float[Array, "time latent"]
    start_to_last: Float[Array, "latent latent"]


class Conditioned(NamedTuple):
    """I + R K R = factor factor', the whitened difference of the rows' values from the prior's, and R."""

    factor: Float[Array, "row row"]
    whitened: Float[Array, "row _"]
    root: Float[Array, " row"]


def matrix_flops(shape: Shape, *, gradient: bool = True) -> float:
    """Arithmetic alone: factors of the matrix over the rows, its making from weights, and products of transitions."""
    rows, places, times = float(shape.num_rows), float(shape.num_places), float(shape.num_times)
    factors, products = rows**3 / 3, 2 * places**2 * shape.num_bottleneck
    walk = 10 * times**2 * shape.num_state / max(shape.num_bottleneck, 1)
    return 8 * factors + 4 * products + 3 * walk if gradient else factors + products + walk


@dataclasses.dataclass(frozen=True)
class DenseEngine(Engine):
    """One matrix over the rows; see the module."""

    # Its matrices over the rows, some six of them, are to fit into memory.
    most_rows: int = 6000

    @property
    def name(self) -> str:
        return "dense"

    @property
    def has_state(self) -> bool:
        """The state has every place in it, which the matrix over the rows does without."""
        return False

    def cost(self, shape: Shape, *, gradient: bool = True) -> Cost:
        """See `Engine`. Infinite beyond `most_rows`. Compiling counts, so that small problems stay with an engine that need not."""
        rows, places, times = shape.num_rows, shape.num_places, shape.num_times
        matrices = 8 * (6 * rows**2 + 4 * places * shape.num_bottleneck + 4 * times**2)
        if rows > self.most_rows:
            return Cost(np.inf, matrices)
        return Cost(COMPILING + matrix_flops(shape, gradient=gradient), matrices)

    def log_normaliser(
        self, chain: Chain, weights: Float[AnyArray, "place bottleneck"], rows: Rows
    ) -> Float[Array, ""]:
        """See `Engine`. Its derivative is in closed form: another N^3."""
        return _log_normaliser(*padded(chain, weights, rows))

    def moments(
        self,
        chain: Chain,
        weights: Float[AnyArray, "place bottleneck"],
        rows: Rows,
        queries: Queries,
        *,
        filtered: bool = False,
    ) -> Moments:
        """See `Engine`. Rows are in order of time, so a leading block of the factor is the factor of all rows up to a time."""
        prior, data = padded(chain, weights, rows)
        found = _moments(prior, data, asked_points(chain, data, queries), filtered)
        return jax.tree.map(lambda array: _first(array, queries.layout.num_rows), found)

    def means(
        self,
        chain: Chain,
        weights: Float[AnyArray, "place bottleneck"],
        rows: Rows,
        values: Float[AnyArray, "row draw"],
        queries: Queries,
    ) -> Float[AnyArray, "query draw"]:
        prior, data = padded(chain, weights, rows)
        num_rows, num_draws = values.shape
        more = ((0, len(data.value) - num_rows), (0, padded_size(num_draws) - num_draws))
        found = _means(prior, data, _pad(values, more), asked_points(chain, data, queries))
        return _first(found, queries.layout.num_rows)[:, :num_draws]

    def last_state(
        self, chain: Chain, weights: Float[AnyArray, "place bottleneck"], rows: Rows
    ) -> tuple[State, Float[Array, ""]]:
        """See `Engine`. The only answer whose size is that of a state."""
        return _last_state(*padded(chain, weights, rows, keep_state=True))


@eqx.filter_jit
def _log_normaliser(prior: Prior, data: Data) -> Float[Array, ""]:
    along = walk(prior)
    root = root_of(data.precision)
    covariance = sum_of(covariances(prior, along, data.points, data.points))
    return log_gaussian(
        root[:, None] * covariance * root[None, :], root * (data.value - prior_mean(prior, along, data.points))
    )


@jax.custom_vjp
def log_gaussian(spread: Float[Array, "row row"], residual: Float[Array, " row"]) -> Float[Array, ""]:
    """-log det(I + spread) / 2 - residual' (I + spread)^-1 residual / 2."""
    factor = factor_of(spread)
    whitened = solve_triangular(factor, residual, lower=True)
    return -jnp.sum(jnp.log(jnp.diagonal(factor))) - whitened @ whitened / 2


def _forward(spread: Array, residual: Array) -> tuple[Array, tuple[Array, Array]]:
    factor = factor_of(spread)
    whitened = solve_triangular(factor, residual, lower=True)
    half = solve_triangular(factor, jnp.eye(len(residual)), lower=True)
    value = -jnp.sum(jnp.log(jnp.diagonal(factor))) - whitened @ whitened / 2
    return value, (half.T @ half, half.T @ whitened)


def _backward(kept: tuple[Array, Array], cotangent: Array) -> tuple[Array, Array]:
    inverse, solved = kept
    return cotangent * (jnp.outer(solved, solved) - inverse) / 2, -cotangent * solved


log_gaussian.defvjp(_forward, _backward)


@eqx.filter_jit
def _moments(prior: Prior, data: Data, asked: Points, filtered: bool) -> Moments:
    along = walk(prior)
    given = condition(prior, along, data, data.value[:, None])
    seen = data.points.time[:, None] <= asked.time[None, :] if filtered else jnp.ones(())
    crosses = [
        seen * solve_triangular(given.factor, given.root[:, None] * cross.T, lower=True)
        for cross in covariances(prior, along, asked, data.points)
    ]
    before = variances(prior, along, asked)
    of_start = prior_means(prior, along, asked)
    mean = [start + cross.T @ given.whitened[:, 0] for start, cross in zip(of_start, crosses, strict=True)]
    variance = [own - jnp.sum(cross**2, axis=0) for own, cross in zip(before.own, crosses, strict=True)]
    total = before.total - jnp.sum(sum_of(crosses) ** 2, axis=0)
    return Moments(jnp.stack(mean, axis=1), jnp.stack(variance, axis=1), total)


@eqx.filter_jit
def _means(prior: Prior, data: Data, values: Float[Array, "row draw"], asked: Points) -> Float[Array, "query draw"]:
    along = walk(prior)
    given = condition(prior, along, data, values)
    solved = solve_triangular(given.factor, given.whitened, lower=True, trans=1)
    cross = sum_of(covariances(prior, along, asked, data.points))
    return prior_mean(prior, along, asked)[:, None] + cross @ (given.root[:, None] * solved)


@eqx.filter_jit
def _last_state(prior: Prior, data: Data) -> tuple[State, Float[Array, ""]]:
    along = walk(prior)
    given = condition(prior, along, data, data.value[:, None])
    before, cross = last_given_nothing(prior, along, data.points)
    whitened = solve_triangular(given.factor, given.root[:, None] * cross, lower=True)
    covariance = before.covariance - whitened.T @ whitened
    total = -jnp.sum(jnp.log(jnp.diagonal(given.factor))) - jnp.sum(given.whitened**2) / 2
    return State(before.mean + whitened.T @ given.whitened[:, 0], (covariance + covariance.T) / 2), total


# --- the prior over points
# ---------------------------------------------------------------------------------------------------


def walk(prior: Prior) -> tuple[Along, ...]:
    return tuple(walk_component(prior, part) for part in prior.processes)


def walk_component(prior: Prior, part: Process) -> Along:
    """O(T^2 latent^2): Cov(x_t, x_s) = A(t <- s) P_s for s <= t, all s carried on together."""
    num_times, size = len(prior.step_number), len(part.readout)

    def step(carry: tuple[Array, Array, Array], given: tuple[Array, Array]) -> tuple[tuple[Array, Array, Array], tuple]:
        columns, covariance, passage = carry
        time, number = given
        transition = part.transition[number]
        covariance = transition @ covariance @ transition.T + part.process_noise[number]
        columns = (columns @ transition.T).at[time].set(covariance @ part.readout)
        passage = transition @ passage
        return (columns, covariance, passage), (columns @ part.readout, part.readout @ passage)

    initial = part.initial if prior.start is None else jnp.zeros((size, size))
    begin = (jnp.zeros((num_times, size)), initial, jnp.eye(size))
    numbers = (jnp.arange(num_times), prior.step_number)
    (to_last, last, passage), (earlier, from_start) = jax.lax.scan(step, begin, numbers)
    between = earlier + earlier.T - jnp.diag(jnp.diagonal(earlier))
    return Along(between, to_last, last, from_start, passage)


def covariances(
    prior: Prior, along: tuple[Along, ...], first: Points, second: Points
) -> list[Float[Array, "first second"]]:
    """Prior covariance of each component of f at the first points with f at the second; a start couples components."""
    found = [
        each.between[first.time][:, second.time] * (mine @ other.T)[first.place][:, second.place]
        for each, mine, other in zip(along, first.weights, second.weights, strict=True)
    ]
    if prior.start is None:
        return found
    covariance = prior.start.covariance
    loadings = start_loadings(along, first), start_loadings(along, second)
    of_second = jnp.concatenate(loadings[1], axis=1)
    ends = np.cumsum([loading.shape[1] for loading in loadings[0]])[:-1]
    return [
        noise + loading @ block @ of_second.T
        for noise, loading, block in zip(found, loadings[0], jnp.split(covariance, ends), strict=True)
    ]


class Variances(NamedTuple):
    own: list[Float[Array, " point"]]
    total: Float[Array, " point"]


def variances(prior: Prior, along: tuple[Along, ...], points: Points) -> Variances:
    own = [
        jnp.diagonal(each.between)[points.time] * jnp.sum(weights**2, axis=1)[points.place]
        for each, weights in zip(along, points.weights, strict=True)
    ]
    total = sum_of(own)
    if prior.start is None:
        return Variances(own, total)
    covariance = prior.start.covariance
    loadings = start_loadings(along, points)
    whole = jnp.concatenate(loadings, axis=1)
    first, of_start = 0, []
    for loading in loadings:
        mine = slice(first, first + loading.shape[1])
        of_start.append(jnp.sum((loading @ covariance[mine, mine]) * loading, axis=1))
        first = mine.stop
    return Variances(
        [noise + start for noise, start in zip(own, of_start, strict=True)],
        total + jnp.sum((whole @ covariance) * whole, axis=1),
    )


def start_loadings(along: tuple[Along, ...], points: Points) -> list[Float[Array, "point state"]]:
    """What each component's part of the state at the first time does at the points."""
    return [
        jnp.reshape(
            each.from_start[points.time][:, :, None] * weights[points.place][:, None, :], (len(points.time), -1)
        )
        for each, weights in zip(along, points.weights, strict=True)
    ]


def prior_means(prior: Prior, along: tuple[Along, ...], points: Points) -> list[Float[Array, " point"]]:
    if prior.start is None:
        return [jnp.zeros(len(points.time)) for _ in along]
    loadings = start_loadings(along, points)
    ends = np.cumsum([loading.shape[1] for loading in loadings])[:-1]
    parts = jnp.split(prior.start.mean, ends)
    return [loading @ part for loading, part in zip(loadings, parts, strict=True)]


def prior_mean(prior: Prior, along: tuple[Along, ...], points: Points) -> Float[Array, " point"]:
    return sum_of(prior_means(prior, along, points))


def last_given_nothing(
    prior: Prior, along: tuple[Along, ...], points: Points
) -> tuple[State, Float[Array, "point state"]]:
    """The prior of the state at the last time, and its covariance with f at the points."""
    sizes = [weights.shape[1] for weights in points.weights]
    crosses = [
        jnp.reshape(each.to_last[points.time][:, :, None] * weights[points.place][:, None, :], (len(points.time), -1))
        for each, weights in zip(along, points.weights, strict=True)
    ]
    covariance = block_diag(*(jnp.kron(each.last, jnp.eye(size)) for each, size in zip(along, sizes, strict=True)))
    cross = jnp.concatenate(crosses, axis=1)
    if prior.start is None:
        return State(jnp.zeros(cross.shape[1]), covariance), cross
    passage = block_diag(
        *(jnp.kron(each.start_to_last, jnp.eye(size)) for each, size in zip(along, sizes, strict=True))
    )
    start, loading = prior.start, jnp.concatenate(start_loadings(along, points), axis=1)
    carried = passage @ start.covariance
    return State(passage @ start.mean, covariance + carried @ passage.T), cross + loading @ carried.T


# --- conditioning
# ------------------------------------------------------------------------------------------------------------


def condition(prior: Prior, along: tuple[Along, ...], data: Data, values: Float[Array, "row draw"]) -> Conditioned:
    root = root_of(data.precision)
    covariance = sum_of(covariances(prior, along, data.points, data.points))
    factor = factor_of(root[:, None] * covariance * root[None, :])
    residual = root[:, None] * (values - prior_mean(prior, along, data.points)[:, None])
    return Conditioned(factor, solve_triangular(factor, residual, lower=True), root)


def factor_of(spread: Float[Array, "row row"]) -> Float[Array, "row row"]:
    return jnp.linalg.cholesky(jnp.eye(len(spread)) + (spread + spread.T) / 2)


def root_of(precision: Float[Array, " row"]) -> Float[Array, " row"]:
    positive = precision > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, precision, 1.0)), 0.0)


def sum_of(arrays: list[Array]) -> Array:
    total = arrays[0]
    for array in arrays[1:]:
        total = total + array
    return total


# --- padding
# -----------------------------------------------------------------------------------------------------------------


def padded_size(size: int) -> int:
    """The next of a few sizes: 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, ..."""
    unit = max(1, (1 << max(size - 1, 1).bit_length() - 1) // SIZES_PER_OCTAVE)
    return max(1, -(-size // unit) * unit)


def coarsely_padded_size(size: int) -> int:
    """The next power of two: for times and what is asked, which differ more from piece to piece than rows and cost less than a factor."""
    return 1 << max(size - 1, 0).bit_length()


def padded(
    chain: Chain, weights: Float[AnyArray, "place bottleneck"], rows: Rows, *, keep_state: bool = False
) -> tuple[Prior, Data]:
    """The same problem with more rows (of precision zero), times (a step of length zero apart), places and pseudo-points (of weight zero).

    With `keep_state`, or a start, which has the size of the state, there are no more pseudo-points.
    """
    keep_state = keep_state or chain.start is not None
    more_times = coarsely_padded_size(chain.num_times) - chain.num_times
    more_rows = padded_size(rows.layout.num_rows) - rows.layout.num_rows
    prior = Prior(
        tuple(pad_steps(part) for part in chain.components),
        _pad(chain.step_number, (0, more_times)).astype(jnp.int32),
        None if chain.start is None else jax.tree.map(jnp.asarray, chain.start),
    )
    time = np.pad(times_of(rows.layout), (0, more_rows), constant_values=chain.num_times - 1)
    points = Points(
        jnp.asarray(time),
        _pad(rows.place, (0, more_rows)).astype(jnp.int32),
        split_weights(chain, weights, None if keep_state else padded_size),
    )
    return prior, Data(points, _pad(rows.value, (0, more_rows)), _pad(rows.precision, (0, more_rows)))


def asked_points(chain: Chain, data: Data, queries: Queries) -> Points:
    count = queries.layout.num_rows
    more = coarsely_padded_size(max(count, FEWEST_ASKED)) - count
    sizes = iter(weights.shape[1] for weights in data.points.weights)
    return Points(
        _pad(times_of(queries.layout), (0, more)),
        _pad(queries.place, (0, more)).astype(jnp.int32),
        split_weights(chain, queries.weights, lambda _: next(sizes), coarsely_padded_size),
    )


def times_of(layout: Layout) -> Int[np.ndarray, " row"]:
    return np.repeat(np.arange(layout.num_times, dtype=np.int32), layout.counts)


def pad_steps(part: ComponentChain) -> Process:
    """Distinct steps up to one of a few numbers of them; nothing points at those added."""
    num_steps = part.transition.shape[0]
    more = ((0, coarsely_padded_size(num_steps) - num_steps), (0, 0), (0, 0))
    return Process(
        _pad(part.transition, more),
        _pad(part.process_noise, more),
        jnp.asarray(part.initial),
        jnp.asarray(part.readout),
    )


def split_weights(
    chain: Chain,
    weights: Float[AnyArray, "place bottleneck"],
    size_of: Callable[[int], int] | None,
    places_of: Callable[[int], int] = padded_size,
) -> tuple[Float[AnyArray, "more_places _"], ...]:
    """Weights by component, with zeros for more places, and for pseudo-points up to `size_of` their number."""
    sizes = [part.num_pseudo for part in chain.components]
    more_places = places_of(weights.shape[0]) - weights.shape[0]
    ends = np.cumsum(sizes)[:-1]
    parts: list[Any] = (np.split if isinstance(weights, np.ndarray) else jnp.split)(weights, ends, axis=1)
    wanted = sizes if size_of is None else [size_of(size) for size in sizes]
    return tuple(
        _pad(part, ((0, more_places), (0, size - part.shape[1]))) for part, size in zip(parts, wanted, strict=True)
    )


def _pad(array: AnyArray, more: Any) -> Any:
    """By NumPy where it can be: JAX would compile one for every size that comes along."""
    return np.pad(np.asarray(array), more) if is_concrete(array) else jnp.pad(array, more)


def _first(array: Array, count: int) -> Any:
    """The first entries, likewise."""
    return np.asarray(array)[:count] if is_concrete(array) else array[:count]
