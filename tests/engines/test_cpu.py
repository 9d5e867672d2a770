# SPDX-License-Identifier: MIT
"""The cpu engine against the dense joint Gaussian: values, gradients, answers."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests.engines import chains
from tests.oracles import chain as oracle
from weft.data.layout import Layout
from weft.engines.cpu import CpuEngine, Limits, ends, problem, series
from weft.state_space.chain import Queries

ONE_END = CpuEngine(Limits(threads=1))
# However small the series, from both ends if it can be turned around.
BOTH_ENDS = CpuEngine(Limits(threads=2, seconds_for_two=-1e3))
NO_MEMORY = Limits(threads=1, whole_bytes=0, segment_bytes=0)


def gradient(dense, engine):
    """The gradient in (chain, weights, rows), as NumPy."""
    arguments = jax.tree.map(jnp.asarray, chains.for_engine(dense))
    return jax.grad(lambda a: engine.log_normaliser(*a), allow_int=True)(arguments)


def symmetric(array):
    return (array + np.swapaxes(array, -1, -2)) / 2


def assert_gradient(dense, rtol=1e-8):
    of_chain, of_weights, of_rows = gradient(dense, ONE_END)
    for number, part in enumerate(of_chain.components):
        for name in ("transition", "process_noise", "initial", "readout"):
            expected = oracle.gradient_in(dense, name, number)
            if name in ("process_noise", "initial"):
                expected = symmetric(expected)
            found = np.asarray(getattr(part, name))
            assert_allclose(
                found, expected, rtol=rtol, atol=rtol * np.abs(expected).max(initial=0), err_msg=f"{name} of {number}"
            )
    for name, found in (("weights", of_weights), ("value", of_rows.value), ("precision", of_rows.precision)):
        expected = oracle.gradient_in(dense, name)
        assert_allclose(found, expected, rtol=rtol, atol=rtol * np.abs(expected).max(initial=0), err_msg=name)


def test_value_and_every_gradient_equal_dense():
    dense = chains.ragged()
    assert_allclose(CpuEngine().log_normaliser(*chains.for_engine(dense)), oracle.log_normaliser(dense), rtol=1e-10)
    assert_gradient(dense)


def test_short_segments_are_filtered_again_to_the_same_gradient():
    """With no memory to keep anything, checkpoints and recomputed segments give the very same numbers."""
    dense = chains.ragged(4)
    whole = gradient(dense, ONE_END)
    for one, other in zip(jax.tree.leaves(gradient(dense, CpuEngine(NO_MEMORY))), jax.tree.leaves(whole), strict=True):
        assert one.dtype == other.dtype
        if one.dtype != jax.dtypes.float0:
            assert_allclose(one, other, rtol=1e-14)


def test_slices_do_not_change_the_numbers():
    dense = chains.ragged(5)
    whole = gradient(dense, ONE_END)
    sliced = gradient(dense, CpuEngine(Limits(threads=1, slice_seconds=1e-9)))
    assert_allclose(sliced[1], whole[1], rtol=1e-14)


@pytest.mark.parametrize("shape", ["one place", "one pseudo-point", "no rows", "one time"])
def test_corners(shape):
    rng = np.random.default_rng(7)
    dense = {
        "one place": lambda: chains.with_rows(rng, [chains.random_part(rng, 2, 3, 2)], [5, 1, 0, 2], 1),
        "one pseudo-point": lambda: chains.with_rows(rng, [chains.random_part(rng, 4, 1, 3)], [5, 1, 0, 2], 3),
        "no rows": lambda: chains.with_rows(rng, [chains.random_part(rng, 2, 3, 2)], [0, 0, 0], 2),
        "one time": lambda: chains.with_rows(rng, [chains.random_part(rng, 2, 3, 2)], [4], 2),
    }[shape]()
    assert_allclose(
        CpuEngine().log_normaliser(*chains.for_engine(dense)), oracle.log_normaliser(dense), rtol=1e-10, atol=1e-12
    )
    assert_gradient(dense)


@pytest.mark.parametrize("precision", [1e-6, 1e2, 1e6, 1e10])
def test_many_rows_at_few_places(precision):
    """Rank-deficient rows, more of them than the bottleneck: precise ones must be rotated, not squared."""
    rng = np.random.default_rng(8)
    parts = [chains.random_part(rng, 2, 3, 2), chains.random_part(rng, 1, 4, 2)]
    dense = chains.with_rows(rng, parts, [12, 3, 22], 4, precision=(0.5 * precision, 2 * precision))
    found = CpuEngine().log_normaliser(*chains.for_engine(dense))
    # A covariance has an error of 1e-16 of the prior's, which is a share 1e-16 * precision of the noise.
    assert_allclose(found, oracle.log_normaliser_in_many_digits(dense), rtol=max(1e-11, 1e-16 * precision))


@pytest.mark.parametrize("how", ["no weights", "no precision"])
def test_many_rows_that_say_nothing(how):
    """More rows than the bottleneck is wide, and none of them with information: gradients are there all the same."""
    rng = np.random.default_rng(9)
    dense = chains.with_rows(rng, [chains.random_part(rng, 2, 3, 2)], [2, 6, 3], 4)
    silent = np.repeat(np.arange(3), [2, 6, 3]) == 1
    if how == "no precision":
        dense = dataclasses.replace(dense, precision=np.where(silent, 0.0, dense.precision))
    else:
        weights = np.vstack([dense.weights, np.zeros((1, dense.weights.shape[1]))])
        dense = dataclasses.replace(dense, weights=weights, place=np.where(silent, len(weights) - 1, dense.place))
    assert_gradient(dense)


def test_a_second_derivative_is_refused():
    chain, weights, rows = jax.tree.map(jnp.asarray, chains.for_engine(chains.stationary()))

    def value(v):
        return CpuEngine().log_normaliser(chain, weights, dataclasses.replace(rows, value=v))

    with pytest.raises(TypeError, match=r"differentiated once only.*engine='scan'"):
        jax.hessian(value)(rows.value)


def test_both_ends_give_the_same_value_and_gradient_along_parameters():
    """Matrix by matrix the gradient is that of another function; along the kernels' parameters it is the same."""
    at = np.array([2.0, 0.7, 1.3, 0.6])
    dense = chains.stationary()
    assert series.split_point(problem.make_problem(*chains.for_engine(dense)), BOTH_ENDS.limits) is not None
    assert_allclose(BOTH_ENDS.log_normaliser(*chains.for_engine(dense)), oracle.log_normaliser(dense), rtol=1e-11)
    found, alone = gradient(dense, BOTH_ENDS), gradient(dense, ONE_END)
    for direction in range(4):
        moved = at.astype(complex)
        moved[direction] += 1e-30j
        parts = chains.stationary(lengthscales=moved[:2], variances=moved[2:]).parts
        expected = oracle.log_normaliser(dataclasses.replace(dense, parts=parts)).imag / 1e-30
        total = sum(
            np.sum(np.asarray(getattr(of_part, name)) * getattr(part, name).imag / 1e-30)
            for part, of_part in zip(parts, found[0].components, strict=True)
            for name in ("transition", "process_noise", "initial", "readout")
        )
        assert_allclose(total, expected, rtol=1e-9)
    assert_allclose(found[1], alone[1], rtol=1e-9, atol=1e-12)
    assert_allclose(found[2].value, alone[2].value, rtol=1e-9, atol=1e-12)
    assert_allclose(found[2].precision, alone[2].precision, rtol=1e-9, atol=1e-12)


def test_ends_that_would_lose_digits_do_not_meet(monkeypatch):
    """A component that never changes, seen very often from both sides: one end takes over, and the value stays right."""
    rng = np.random.default_rng(9)
    steps = np.array([0.0, 1.0])
    constant = chains.matern(0, 1e9, steps, 2)
    dense = chains.with_rows(rng, [constant], [6] * 12, 5, precision=(1e4, 1e5), step_number=np.array([0] + [1] * 11))
    meetings = []
    monkeypatch.setattr(series, "meet", lambda *sides: meetings.append(ends.meet(*sides)))
    found = BOTH_ENDS.log_normaliser(*chains.for_engine(dense))
    monkeypatch.undo()
    assert meetings == [None]
    assert_allclose(found, oracle.log_normaliser(dense), rtol=1e-9)


@pytest.mark.parametrize("engine", [ONE_END, BOTH_ENDS])
@pytest.mark.parametrize("filtered", [False, True])
def test_moments_equal_dense(engine, filtered):
    rng = np.random.default_rng(3)
    dense = chains.stationary()
    counts = [1, 0, 2, 0, 9, 3, 0, 1, 0, 2]
    offsets, place, weights = np.concatenate([[0], np.cumsum(counts)]), rng.integers(0, 4, 18), rng.normal(size=(4, 5))
    found = engine.moments(*chains.for_engine(dense), Queries(Layout(offsets), place, weights), filtered=filtered)
    mean, variance, total = oracle.answers(dense, offsets, place, weights, filtered)
    assert_allclose(found.mean, mean, rtol=1e-9, atol=1e-12)
    assert_allclose(found.variance, variance, rtol=1e-9)
    assert_allclose(found.total_variance, total, rtol=1e-9)


@pytest.mark.parametrize("engine", [ONE_END, BOTH_ENDS, CpuEngine(NO_MEMORY)])
@pytest.mark.parametrize("filtered", [False, True])
@pytest.mark.parametrize("counts", [[1, 0, 2, 0, 9, 3, 0, 1, 0, 2], [0] * 7 + [2, 0, 7], [0] * 10])
def test_sums_of_components_alone_equal_dense(engine, filtered, counts):
    """Few and many queries at a time, none before the last times, none at all: the way back ends where nobody asks."""
    rng = np.random.default_rng(4)
    dense, total_asked = chains.stationary(), sum(counts)
    offsets, place = np.concatenate([[0], np.cumsum(counts)]), rng.integers(0, 4, total_asked)
    weights = rng.normal(size=(4, 5))
    asked = Queries(Layout(offsets), place, weights, by_component=False)
    found = engine.moments(*chains.for_engine(dense), asked, filtered=filtered)
    mean, _, total = oracle.answers(dense, offsets, place, weights, filtered)
    assert_allclose(found.mean, np.reshape(mean, (total_asked, 2)), rtol=1e-9, atol=1e-12)
    assert_allclose(found.total_variance, total, rtol=1e-9)
    assert np.isnan(found.variance).all()


def test_means_of_many_draws_equal_one_by_one():
    """Fewer rows than bottleneck, more, none; precise repeated rows; in pieces of memory and of draws."""
    rng = np.random.default_rng(12)
    dense = chains.ragged(6)
    precise = np.where(np.arange(len(dense.value)) % 5 == 0, 1e6, dense.precision)
    start = (rng.normal(size=10), np.eye(10) + 0.3)
    dense = dataclasses.replace(dense, precision=precise, start=start)
    offsets = np.array([0, 1, 1, 4, 4, 5, 5, 6, 8, 9])
    place, weights = rng.integers(0, 4, 9), rng.normal(size=(4, 6))
    values = rng.normal(size=(len(dense.value), 5))
    chain, of_places, rows = chains.for_engine(dense)
    queries = Queries(Layout(offsets), place, weights)
    expected = [
        oracle.answers(dataclasses.replace(dense, value=draw), offsets, place, weights)[0].sum(axis=1)
        for draw in values.T
    ]
    found = CpuEngine().means(chain, of_places, rows, values, queries)
    # As above: a precision of 1e6 costs six digits of the covariance.
    assert_allclose(found, np.transpose(expected), rtol=1e-8, atol=1e-8)
    in_pieces = CpuEngine(dataclasses.replace(NO_MEMORY, draws_at_once=2, slice_seconds=1e-9))
    # BLAS adds up two draws in another order than five on some processors, and a precision of 1e6 makes 1e-10 of a rounding of 1e-16.
    assert_allclose(in_pieces.means(chain, of_places, rows, values, queries), found, rtol=1e-10, atol=1e-10)


def test_a_series_goes_on_from_its_last_state():
    """Filter the first part, carry its last state over the next step, start the second part there: the shares add up."""
    dense = chains.ragged(11)
    cut = 5
    row = dense.offsets[cut]
    first = dataclasses.replace(
        dense,
        step_number=dense.step_number[:cut],
        offsets=dense.offsets[: cut + 1],
        place=dense.place[:row],
        value=dense.value[:row],
        precision=dense.precision[:row],
    )
    state, share = CpuEngine().last_state(*chains.for_engine(first))
    move, noise = (
        oracle.block_diagonal(
            [np.kron(getattr(part, name)[dense.step_number[cut]], np.eye(part.num_pseudo)) for part in dense.parts]
        )
        for name in ("transition", "process_noise")
    )
    start = (move @ state.mean, move @ state.covariance @ move.T + noise)
    second = dataclasses.replace(
        dense,
        step_number=np.concatenate([[0], dense.step_number[cut + 1 :]]),
        offsets=dense.offsets[cut:] - row,
        place=dense.place[row:],
        value=dense.value[row:],
        precision=dense.precision[row:],
        start=start,
    )
    rest = CpuEngine().log_normaliser(*chains.for_engine(second))
    assert_allclose(share + rest, oracle.log_normaliser(dense), rtol=1e-11)
    assert_allclose(rest, oracle.log_normaliser(second), rtol=1e-10)
    assert_gradient(second)
