# SPDX-License-Identifier: MIT
"""What is asked of an engine: the numbers of `scan`, values, gradients and answers, within rounding."""

import copy
import dataclasses
import pickle
import sys
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.testing import assert_allclose

from weft.arrays import AnyArray
from weft.data.layout import Layout
from weft.engines.base import Engine, shape_of_chain
from weft.engines.scan import ScanEngine
from weft.inference.prior import TimeGrid, make_chain
from weft.kernels import Constant, Kernel, Matern12, Matern32, Matern52, Separable, Wiener
from weft.state_space.chain import Chain, Queries, Rows

REFERENCE = ScanEngine()
# Components with everything unequal, and how many pseudo-points each has; stationary, and not.
SERIES: dict[str, Sequence[tuple[Kernel, int]]] = {
    "stationary": ((Matern52(2.0, 1.3), 2), (Matern32(0.7, 0.6), 3)),
    "with a trend": ((Wiener(0.8, -1.0), 2), (Matern12(1.5, 1.1), 1), (Constant(0.4), 2)),
}
STEPS = np.array([0.0, 1e-4, 0.3, 1.0, 50.0])
# Fewer rows than the bottleneck, more, and none.
COUNTS = np.array([2, 0, 7, 1, 40, 0, 5, 12, 3, 1])
STEP_NUMBERS = np.array([0, 1, 3, 2, 1, 4, 2, 3, 2, 1])


def check_engine(engine: Engine) -> None:
    """Raise AssertionError where `engine` gives other numbers than `scan`, or is not the plain value an engine must be."""
    assert copy.deepcopy(engine) == engine, "an engine must be equal to its copy"
    assert hash(copy.deepcopy(engine)) == hash(engine), "an engine must hash by its settings"
    kind = type(engine)
    # A class made in a notebook or on a page is in no module, and pickle goes by modules.
    if getattr(sys.modules.get(kind.__module__), kind.__qualname__, None) is kind:
        assert pickle.loads(pickle.dumps(engine)) == engine, "an engine must come back equal from pickle"
    for components in SERIES.values():
        weights, rows, queries, draws = _made(sum(num_pseudo for _, num_pseudo in components))
        check_gradients(engine, components, weights, rows)
        chain = _chain(components, [kernel for kernel, _ in components])
        check_answers(engine, chain, weights, rows, queries, draws)
        cost = engine.cost(shape_of_chain(chain, weights, rows.layout))
        assert cost.flops > 0, "an engine's cost must be positive"


def check_gradients(
    engine: Engine,
    components: Sequence[tuple[Kernel, int]],
    weights: Float[AnyArray, "place bottleneck"],
    rows: Rows,
) -> None:
    """The log normaliser and its gradient in kernels, weights, values and precisions."""

    def total(chosen: Engine) -> tuple[Array, list[Array]]:
        def value(kernels: list[Kernel], weights: Array, value: Array, precision: Array) -> Array:
            given = Rows(rows.layout, rows.place, value, precision)
            return chosen.log_normaliser(_chain(components, kernels), weights, given)

        kernels = [kernel for kernel, _ in components]
        found, gradient = jax.value_and_grad(value, argnums=(0, 1, 2, 3))(kernels, weights, rows.value, rows.precision)
        return found, jax.tree.leaves(gradient)

    (expected, slopes), (found, own) = total(REFERENCE), total(engine)
    assert_allclose(found, expected, rtol=1e-9, err_msg="log_normaliser")
    for one, other in zip(own, slopes, strict=True):
        assert_allclose(one, other, rtol=1e-7, atol=1e-7 * np.abs(other).max(), err_msg="gradient of log_normaliser")


def check_answers(
    engine: Engine,
    chain: Chain,
    weights: Float[AnyArray, "place bottleneck"],
    rows: Rows,
    queries: Queries,
    draws: Float[AnyArray, "row draw"],
) -> None:
    """Smoothed and filtered moments, means of many draws, and the last state."""
    for filtered in (False, True):
        expected = REFERENCE.moments(chain, weights, rows, queries, filtered=filtered)
        found = engine.moments(chain, weights, rows, queries, filtered=filtered)
        for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            assert_allclose(one, other, rtol=1e-8, atol=1e-10, err_msg=f"moments, filtered={filtered}")
        summed = engine.moments(
            chain, weights, rows, dataclasses.replace(queries, by_component=False), filtered=filtered
        )
        for name in ("mean", "total_variance"):
            own, other = getattr(summed, name), getattr(expected, name)
            assert_allclose(own, other, rtol=1e-8, atol=1e-10, err_msg=f"{name} alone, filtered={filtered}")
    means = engine.means(chain, weights, rows, draws, queries)
    assert_allclose(
        means, REFERENCE.means(chain, weights, rows, draws, queries), rtol=1e-8, atol=1e-10, err_msg="means"
    )
    state, total = REFERENCE.last_state(chain, weights, rows)
    own, share = engine.last_state(chain, weights, rows)
    assert_allclose(share, total, rtol=1e-9, err_msg="log normaliser of last_state")
    assert_allclose(own.mean, state.mean, rtol=1e-8, atol=1e-10, err_msg="mean of last_state")
    assert_allclose(own.covariance, state.covariance, rtol=1e-8, atol=1e-10, err_msg="covariance of last_state")


def _chain(components: Sequence[tuple[Kernel, int]], kernels: Sequence[Kernel]) -> Chain:
    parts = tuple(Separable(space=Constant(), time=kernel) for kernel in kernels)
    times = np.cumsum(STEPS[STEP_NUMBERS])
    return make_chain(parts, tuple(num_pseudo for _, num_pseudo in components), TimeGrid(times, STEPS, STEP_NUMBERS))


def _made(num_bottleneck: int) -> tuple[Array, Rows, Queries, Array]:
    """Weights, rows, queries and draws; places repeat, also within a time."""
    rng = np.random.default_rng(1)
    total = int(COUNTS.sum())
    weights = jnp.asarray(0.7 * rng.normal(size=(9, num_bottleneck)))
    rows = Rows(
        Layout(np.concatenate([[0], np.cumsum(COUNTS)])),
        rng.integers(0, 9, total),
        jnp.asarray(rng.normal(size=total)),
        jnp.asarray(rng.uniform(0.5, 20.0, total)),
    )
    asked = rng.integers(0, 4, len(COUNTS))
    queries = Queries(
        Layout(np.concatenate([[0], np.cumsum(asked)])),
        rng.integers(0, 3, asked.sum()),
        jnp.asarray(rng.normal(size=(3, num_bottleneck))),
    )
    return weights, rows, queries, jnp.asarray(rng.normal(size=(total, 3)))
