# SPDX-License-Identifier: MIT
"""Joint answers over rows: covariances of weighted sums, and exact draws (Matheron's rule).

Both come from posterior means alone: a prior covariance, or a prior draw, less what the rows would have made of it.
"""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float

from weft.arrays import AnyArray
from weft.engines.base import Engine
from weft.inference.paths import Seen, covariance_with_sums, draw_prior, seen_queries, seen_rows, square_root
from weft.inference.queries import Question
from weft.model import Model
from weft.state_space.chain import Chain, ComponentChain, State

# Numbers held at once for the rows of the data, over all draws or sums of a block.
VALUES_BUDGET = 256 * 2**20


def blocks_of_columns(num_rows: int, num_columns: int) -> Iterator[slice]:
    """Columns in blocks, such that a matrix of `num_rows` rows and a block's columns keeps to the budget."""
    width = max(1, VALUES_BUDGET // (8 * max(num_rows, 1)))
    for start in range(0, num_columns, width):
        yield slice(start, min(start + width, num_columns))


def sums_covariance(
    engine: Engine,
    weights: Float[AnyArray, "place bottleneck"],
    asked: Question,
    residual: "Residual",
    sums: Float[np.ndarray, "query sum"],
) -> Float[np.ndarray, "sum sum"]:
    """Posterior covariance of weighted sums of f over the rows asked about (rows and weights in the order of the queries)."""
    rows, queries = seen_rows(asked.rows, weights), seen_queries(asked.queries)
    covariance = np.empty((sums.shape[1], sums.shape[1]))
    for block in blocks_of_columns(len(rows.place), sums.shape[1]):
        at_rows, at_queries = covariance_with_sums(asked.chain, queries, sums[:, block], (rows, queries))
        explained = np.asarray(engine.means(asked.chain, weights, asked.rows, at_rows, asked.queries))
        covariance[:, block] = sums.T @ (at_queries - explained + residual.covariance_with(sums[:, block]))
    return (covariance + covariance.T) / 2


def draws(
    engine: Engine,
    weights: Float[AnyArray, "place bottleneck"],
    asked: Question,
    residual: "Residual",
    num: int,
    rng: np.random.Generator,
) -> Float[np.ndarray, "query draw"]:
    """Exact joint draws of f at the rows asked about, in the order of the queries."""
    rows, queries = seen_rows(asked.rows, weights), seen_queries(asked.queries)
    value = np.asarray(asked.rows.value)[:, None]
    deviation = np.asarray(asked.rows.precision)[:, None] ** -0.5
    output = np.empty((len(queries.place), num))
    for block in blocks_of_columns(len(rows.place), num):
        count = block.stop - block.start
        at_rows, at_queries = draw_prior(asked.chain, (rows, queries), count, rng)
        simulated = at_rows + deviation * rng.standard_normal(at_rows.shape)
        corrected = engine.means(centred(asked.chain), weights, asked.rows, value - simulated, asked.queries)
        output[:, block] = at_queries + np.asarray(corrected) + residual.draw(count, rng)
    return output


def centred(chain: Chain) -> Chain:
    """The chain without the mean of its start: what turns a difference of values into a difference of means."""
    if chain.start is None:
        return chain
    start = State(np.zeros(chain.num_state), chain.start.covariance)
    return Chain(chain.components, chain.step_number, start)


class Residual:
    """What pseudo-points leave unexplained, as a process of its own, independent of the data.

    Its spatial covariance k(r, r') - B_r . B_r' over the distinct places asked about is factored once: O(places^3).
    """

    MOST_PLACES = 5000

    def __init__(self, model: Model, asked: Question, places: Float[np.ndarray, "place dim"]):
        self._seen: Seen | None = None
        if not np.any(asked.unexplained):
            return
        if len(places) > self.MOST_PLACES:
            raise ValueError(
                f"a joint answer over {len(places)} distinct places would need a covariance of that size; ask for at most "
                f"{self.MOST_PLACES} places at once"
            )
        factors, components, first = [], [], 0
        weights = np.asarray(asked.queries.weights)
        for separable, component in zip(model.components, asked.chain.components, strict=True):
            mine = weights[:, first : first + component.num_pseudo]
            first += component.num_pseudo
            spatial = np.asarray(separable.variance * separable.space.covariance(places, places))
            factors.append(square_root(spatial - mine @ mine.T))
            components.append(
                ComponentChain(
                    component.transition,
                    component.process_noise,
                    component.initial,
                    component.readout,
                    len(places),
                    component.reversal,
                )
            )
        self._chain = Chain(tuple(components), asked.chain.step_number)
        self._seen = Seen(
            asked.queries.layout.offsets, np.asarray(asked.queries.place), np.concatenate(factors, axis=1)
        )

    def covariance_with(self, sums: Float[np.ndarray, "query sum"]) -> Float[np.ndarray, "query sum"] | float:
        if self._seen is None:
            return 0.0
        return covariance_with_sums(self._chain, self._seen, sums, (self._seen,))[0]

    def draw(self, num: int, rng: np.random.Generator) -> Float[np.ndarray, "query draw"] | float:
        return 0.0 if self._seen is None else draw_prior(self._chain, (self._seen,), num, rng)[0]
