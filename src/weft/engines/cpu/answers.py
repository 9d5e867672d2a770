# SPDX-License-Identifier: MIT
"""Posterior answers by the same kernels; these take and give NumPy arrays and are not traced."""

import numpy as np
from jaxtyping import Float

from weft.arrays import AnyArray
from weft.engines.base import Moments
from weft.engines.cpu import series
from weft.engines.cpu.draw_sweeps import smoothed_means
from weft.engines.cpu.problem import make_asked, make_problem
from weft.engines.cpu.threads import available_threads
from weft.state_space.chain import Chain, Queries, Rows, State


def moments(
    chain: Chain,
    weights: Float[AnyArray, "place bottleneck"],
    rows: Rows,
    queries: Queries,
    *,
    filtered: bool = False,
    threads: int | None = None,
) -> Moments:
    """See `Engine`. Memory beyond inputs and answers as for `log_normaliser`."""
    problem = make_problem(chain, weights, rows)
    asked = make_asked(problem, queries)
    if filtered:
        series.filter_answers(problem, queries.layout, asked)
    else:
        series.there_and_back(problem, available_threads(threads), queries.layout, asked)
    by_component = (-1, len(problem.components))
    return Moments(asked.mean.reshape(by_component), asked.variance.reshape(by_component), asked.total_variance)


def means(
    chain: Chain,
    weights: Float[AnyArray, "place bottleneck"],
    rows: Rows,
    values: Float[AnyArray, "row draw"],
    queries: Queries,
) -> Float[np.ndarray, "query draw"]:
    """See `Engine`. One filter serves all draws, so a draw costs O(state^2) a step, not O(state^3)."""
    values = np.array(values, dtype=np.float64, order="C")
    if not np.isfinite(values).all():
        raise ValueError("values must be finite")
    problem = make_problem(chain, weights, Rows(rows.layout, rows.place, np.zeros(len(values)), rows.precision))
    return smoothed_means(problem, values, queries.layout, make_asked(problem, queries))


def last_state(chain: Chain, weights: Float[AnyArray, "place bottleneck"], rows: Rows) -> tuple[State, float]:
    """The state at the last time given all rows, and the log normaliser: from there the series can be carried on."""
    state, log_normaliser = series.last_state(make_problem(chain, weights, rows))
    return State(state.vector, state.matrix), log_normaliser
