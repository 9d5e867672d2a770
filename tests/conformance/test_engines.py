# SPDX-License-Identifier: MIT
"""One suite for all engines: the same values, gradients and answers, whichever runs."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from tests.engines import chains
from tests.oracles import chain as oracle
from weft.data.layout import Layout
from weft.distributed.time_blocks import TimeBlocksEngine
from weft.engines.cpu import CpuEngine, Limits
from weft.engines.dense import DenseEngine
from weft.engines.parallel import ParallelEngine
from weft.engines.scan import ScanEngine
from weft.state_space.chain import Queries
from weft.testing import check_engine
from weft.testing.engines import check_answers

SCAN = ScanEngine()
ONE_END = CpuEngine(Limits(threads=1))
# However small the series, from both ends if it can be turned around.
BOTH_ENDS = CpuEngine(Limits(threads=2, seconds_for_two=-1e6))
# The reference comes first.
ENGINES = {
    "scan": SCAN,
    "parallel": ParallelEngine(),
    "cpu": ONE_END,
    "cpu from both ends": BOTH_ENDS,
    "dense": DenseEngine(),
    "time blocks": TimeBlocksEngine(num_blocks=3),
}


def many_rows():
    rng = np.random.default_rng(20)
    steps = np.array([0.0, 0.4, 2.0])
    parts = [chains.matern(1, 1.1, steps, 3, 0.8), chains.matern(0, 4.0, steps, 2, 1.4)]
    return chains.with_rows(rng, parts, [40, 0, 65, 2, 5], 7, step_number=np.array([0, 1, 2, 1, 2]))


def huge_and_tiny_steps():
    rng = np.random.default_rng(22)
    parts = [chains.matern(0, 2.0, np.array([0.0, 1e-9, 1e-4, 1e7]), 3)]
    return chains.with_rows(rng, parts, [2, 3, 1, 0, 4, 2], 5, step_number=np.array([0, 1, 2, 3, 1, 3]))


def with_start():
    dense = chains.ragged(23)
    rng = np.random.default_rng(23)
    factor = rng.normal(size=(10, 10))
    return dataclasses.replace(dense, start=(rng.normal(size=10), factor @ factor.T / 5 + 0.1 * np.eye(10)))


def long():
    rng = np.random.default_rng(24)
    parts = [chains.matern(1, 30.0, np.array([0.0, 1.0, 2.5]), 2)]
    numbers = rng.integers(1, 3, 20_000)
    numbers[0] = 0
    return chains.with_rows(rng, parts, rng.integers(0, 4, 20_000), 6, step_number=numbers)


CASES = {
    "ragged, not stationary": chains.ragged,
    "many rows": many_rows,
    "huge and tiny steps": huge_and_tiny_steps,
    "a start of its own": with_start,
    "long": long,
}


# On a CPU the associative scan's gradient takes minutes to compile and gigabytes to run there.
SLOW_IN_PARALLEL = ("long", "huge and tiny steps", "a start of its own")
# Nor is a matrix over 30,000 rows for a test.
NOT_FOR = {"parallel": SLOW_IN_PARALLEL, "dense": ("long",)}


def scaled(array):
    return np.abs(array).max(initial=0.0)


def symmetric(array):
    return (array + jnp.swapaxes(array, -1, -2)) / 2


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_agree(name):
    dense = CASES[name]()
    arguments = jax.tree.map(jnp.asarray, chains.for_engine(dense))
    found = {
        called: jax.value_and_grad(lambda a, engine=engine: engine.log_normaliser(*a), allow_int=True)(arguments)
        for called, engine in ENGINES.items()
        if name not in NOT_FOR.get(called, ())
    }
    expected, (of_chain, of_weights, of_rows) = found["scan"]
    for engine, (value, (chain, weights, rows)) in found.items():
        assert_allclose(value, expected, rtol=1e-9, err_msg=engine)
        pairs = {
            "weights": (weights, of_weights),
            "value": (rows.value, of_rows.value),
            "precision": (rows.precision, of_rows.precision),
        }
        for number, (part, of_part) in enumerate(zip(chain.components, of_chain.components, strict=True)):
            pairs[f"readout {number}"] = (part.readout, of_part.readout)
            # From both ends the matrices' gradients agree along stationary chains only: see the next test.
            if engine != "cpu from both ends" or dense.parts[number].reversal is None:
                # Step 0 is an identity whatever the parameters; engines differ in how often they take it.
                pairs[f"transition {number}"] = (part.transition[1:], of_part.transition[1:])
                pairs[f"noise {number}"] = (symmetric(part.process_noise[1:]), symmetric(of_part.process_noise[1:]))
                pairs[f"initial {number}"] = (symmetric(part.initial), symmetric(of_part.initial))
        for what, (one, other) in pairs.items():
            assert_allclose(one, other, rtol=1e-7, atol=1e-7 * scaled(other), err_msg=f"{engine}: {what}")


def test_both_ends_agree_along_lengthscales_of_a_long_series():
    dense = long()
    arguments = jax.tree.map(jnp.asarray, chains.for_engine(dense))
    moved = chains.matern(1, 30.0 + 1e-30j, np.array([0.0, 1.0, 2.5]), 2)
    slopes = []
    for engine in ("scan", "cpu", "cpu from both ends"):
        chain = jax.grad(lambda a, e=ENGINES[engine]: e.log_normaliser(*a), allow_int=True)(arguments)[0]
        slopes.append(
            sum(
                np.sum(np.asarray(getattr(chain.components[0], name)) * getattr(moved, name).imag / 1e-30)
                for name in ("transition", "process_noise", "initial")
            )
        )
    assert_allclose(slopes[1:], slopes[0], rtol=1e-7)


@pytest.mark.parametrize("name", ["many rows", "a start of its own"])
def test_answers_agree(name):
    dense = CASES[name]()
    chain, weights, rows = jax.tree.map(jnp.asarray, chains.for_engine(dense))
    rng = np.random.default_rng(25)
    counts = rng.integers(0, 4, chain.num_times)
    queries = Queries(
        Layout(np.concatenate([[0], np.cumsum(counts)])),
        jnp.asarray(rng.integers(0, 3, counts.sum())),
        jnp.asarray(rng.normal(size=(3, chain.num_bottleneck))),
    )
    draws = jnp.asarray(rng.normal(size=(len(dense.value), 3)))
    for engine in (
        BOTH_ENDS,
        DenseEngine(),
        ENGINES["time blocks"],
        *(() if name in SLOW_IN_PARALLEL else (ParallelEngine(),)),
    ):
        check_answers(engine, chain, weights, rows, queries, draws)


@pytest.mark.parametrize("name", ["cpu", "cpu from both ends", "time blocks"])
def test_engines_pass_the_public_check(name):
    check_engine(ENGINES[name])


@dataclasses.dataclass(frozen=True)
class OffAtTheEnd(ScanEngine):
    """An engine whose last state is a little off, and whose gradient is half of what it should be."""

    wrong: str = "state"

    def log_normaliser(self, chain, weights, rows):
        total = ScanEngine.log_normaliser(self, chain, weights, rows)
        return total if self.wrong == "state" else jax.lax.stop_gradient(total / 2) + total / 2

    def last_state(self, chain, weights, rows):
        state, total = ScanEngine.last_state(self, chain, weights, rows)
        return dataclasses.replace(state, mean=state.mean * (1 + 1e-6)), total


@pytest.mark.parametrize(("wrong", "where"), [("state", "mean of last_state"), ("gradient", "gradient of log_norm")])
def test_the_public_check_finds_what_is_wrong(wrong, where):
    with pytest.raises(AssertionError, match=where):
        check_engine(OffAtTheEnd(wrong=wrong))


@st.composite
def problems(draw):
    """Any shapes: components, latent and pseudo sizes, rows a time, places, steps from tiny to huge, precisions."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    steps = np.concatenate([[0.0], 10.0 ** np.array(draw(st.lists(st.floats(-2, 4), min_size=1, max_size=3)))])
    parts = [
        chains.matern(
            draw(st.integers(0, 2)),
            draw(st.floats(0.2, 20.0)),
            steps,
            draw(st.integers(1, 4)),
            draw(st.floats(0.1, 3.0)),
        )
        for _ in range(draw(st.integers(1, 3)))
    ]
    counts = draw(st.lists(st.sampled_from([0, 0, 1, 2, 3, 5, 9, 30]), min_size=1, max_size=7))
    numbers = rng.integers(1, len(steps), len(counts))
    numbers[0] = 0
    scale = 10.0 ** draw(st.floats(-4, 4))
    return chains.with_rows(
        rng, parts, counts, draw(st.integers(1, 6)), precision=(0.3 * scale, scale), step_number=numbers
    )


@settings(max_examples=60, deadline=None, derandomize=True)
@given(problems())
def test_any_shape_equals_dense(dense):
    """Against the dense Gaussian, which needs no compiling for each shape; the cases above tie the other engines to this one."""
    arguments = chains.for_engine(dense)
    expected = oracle.log_normaliser(dense)
    # The dense matrix loses a digit for each power of ten of precision times variance.
    tolerance = max(1e-9, 1e-13 * dense.precision.max(initial=0.0) * 10)
    for engine in (ONE_END, BOTH_ENDS, ENGINES["time blocks"]):
        assert_allclose(engine.log_normaliser(*arguments), expected, rtol=tolerance, atol=tolerance)
    mean, _ = oracle.posterior(dense)
    spread = oracle.row_weights(dense.offsets, dense.place, dense.weights, dense.weights.shape[1])
    chain, weights, rows = jax.tree.map(jnp.asarray, arguments)
    slope = jax.grad(lambda r: ONE_END.log_normaliser(chain, weights, r), allow_int=True)(rows).value
    residual = dense.precision * (dense.value - spread @ mean)
    assert_allclose(slope, -residual, rtol=1e-7, atol=100 * tolerance * scaled(dense.precision))
