# SPDX-License-Identifier: MIT
"""The engine object. Posterior answers take and give NumPy arrays and are not traced; the log normaliser is a JAX operation."""

import dataclasses

import numpy as np
from jaxtyping import Array, Float

from weft.arrays import AnyArray, require_float64
from weft.engines.base import Cost, Engine, Moments, Shape, filter_flops
from weft.engines.cpu import series
from weft.engines.cpu.draw_sweeps import smoothed_means
from weft.engines.cpu.limits import Limits
from weft.engines.cpu.operation import log_normaliser
from weft.engines.cpu.problem import make_asked, make_problem
from weft.engines.cpu.sweeps import kept_lengths, plan_segments
from weft.state_space.chain import Chain, Queries, Rows, State


@dataclasses.dataclass(frozen=True)
class CpuEngine(Engine):
    """Compiled filter and adjoint kernels over SciPy's BLAS; the fastest on a CPU."""

    limits: Limits = dataclasses.field(default_factory=Limits)

    @property
    def name(self) -> str:
        return "cpu"

    def cost(self, shape: Shape, *, gradient: bool = True) -> Cost:
        """See `Engine`. What does not fit into the limits is filtered twice."""
        size, bottleneck = shape.num_state, shape.num_bottleneck
        flops, working = (
            float(filter_flops(shape.layout.counts, size, bottleneck).sum()),
            8 * (8 * size**2 + 12 * bottleneck * size),
        )
        if not gradient:
            return Cost(flops / 3, working)
        lengths = kept_lengths(size, bottleneck, shape.most_rows)
        plan = plan_segments(shape.num_times, lengths, size, self.limits)
        return Cost(flops if plan.length >= shape.num_times else flops * 4 / 3, working + plan.bytes)

    def log_normaliser(
        self, chain: Chain, weights: Float[AnyArray, "place bottleneck"], rows: Rows
    ) -> Float[Array, ""]:
        """See `Engine`. Raises FilterFailure (inside `jit`, JAX's runtime error with its message) where the filter breaks down.

        Memory beyond the inputs is bounded by `limits.whole_bytes` or O(sqrt(T) state^2), whichever is more. With two threads (the
        default where there are two processors) a stationary chain is run from both ends: see `series` for what that means for
        gradients in the chain's matrices one by one.
        """
        require_float64()
        return log_normaliser(series.BySweeps(self.limits), chain, weights, rows)

    def moments(
        self,
        chain: Chain,
        weights: Float[AnyArray, "place bottleneck"],
        rows: Rows,
        queries: Queries,
        *,
        filtered: bool = False,
    ) -> Moments:
        """See `Engine`. Memory beyond inputs and answers as for `log_normaliser`."""
        # Nobody looks at gradients here, so nor at which row of a place they would be told.
        problem = make_problem(chain, weights, dataclasses.replace(rows, is_by_place=True))
        asked = make_asked(problem, queries)
        if filtered:
            series.filter_answers(problem, self.limits, queries.layout, asked)
        else:
            series.there_and_back(problem, self.limits, queries.layout, asked)
        by_component = (-1, len(problem.components))
        return Moments(asked.mean.reshape(by_component), asked.variance.reshape(by_component), asked.total_variance)

    def means(
        self,
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
        return smoothed_means(problem, self.limits, values, queries.layout, make_asked(problem, queries))

    def last_state(self, chain: Chain, weights: Float[AnyArray, "place bottleneck"], rows: Rows) -> tuple[State, float]:
        """See `Engine`: from there the series can be carried on."""
        state, total = series.last_state(make_problem(chain, weights, rows), self.limits)
        return State(state.vector, state.matrix), total
