# SPDX-License-Identifier: MIT
"""Evidence of blocks kernel by kernel, and its gradient, against the evidence of each block differentiated by JAX as a whole."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import weft
from weft.data.observations import take_rows
from weft.kernels.stationary import Periodic
from weft.training import one_block
from weft.training.composite import CompositeObjective, block_evidence
from weft.training.parameters import make_space


class Own(weft.kernels.base.Kernel):
    """A user's kernel of space, known to JAX alone."""

    steepness: float = 0.7

    def covariance(self, xs, ys):
        return jnp.exp(-self.steepness * jnp.sum((xs[:, None, :] - ys[None, :, :]) ** 2, axis=2))

    def variances(self, xs):
        return jnp.ones(xs.shape[0])

    def check_width(self, width):
        pass


def uneven(kernel):
    return weft.Uneven(kernel, [0.3, -0.2, 0.1], [[0.5, 0.1], [-1.0, 0.5], [0.3, -0.9]], [0.9, 1.4])


SLOW = weft.Separable(space=weft.Matern32([1.5, 0.8]), time=weft.Matern32(6.0), variance=0.7)
FAST = weft.Separable(space=weft.Matern12([0.5, 0.6]), time=weft.Matern12(1.5), variance=0.4)
SEASON = weft.Separable(
    space=weft.Constant(0.7) + weft.Columns(weft.Linear([0.3, 0.2], [0.1, -0.4]), (0, 1)),
    time=Periodic(3.3, 1.9, order=8),
    variance=0.2,
)
LEVELS = weft.Separable(space=weft.Matern12([1e-3, 2e-3]), time=weft.Constant(), variance=0.1)
MODELS = {
    "slow and fast": SLOW + FAST,
    "with a season": SLOW + FAST + SEASON,
    "with levels": SLOW + FAST + LEVELS,
    "uneven, and smoother": weft.Separable(space=uneven(weft.Matern52(0.9)), time=weft.Matern52(2.0), variance=0.8)
    + weft.Separable(space=weft.EQ([0.5, 0.6]), time=weft.Matern72(1.5), variance=0.4),
    "a walk, and a quotient": SLOW
    + weft.Separable(space=weft.RationalQuadratic(0.8, 1.3), time=weft.Wiener(0.1, -2.0), variance=0.4),
    "kernels without a closed form": weft.Separable(space=Own(), time=weft.Matern12(1.0) + weft.Matern32(2.0)) + FAST,
}


def blocks():
    """Ragged: places that come and go, a repeated time and place, an empty stretch, noise of its own in one."""
    rng = np.random.default_rng(0)
    places = rng.normal(size=(6, 2))
    found = []
    for number, count in enumerate((40, 23, 31, 17, 28)):
        some = places[rng.permutation(6)[: 4 + number % 3]]
        times = np.sort(rng.choice(np.arange(14.0), count)) + (rng.uniform(0, 0.5) if number % 2 else 0.0)
        found.append(
            weft.Observations(
                times,
                some[rng.integers(0, len(some), count)],
                rng.normal(size=count),
                noise_variance=rng.uniform(0.1, 0.4, count) if number == 3 else None,
            )
        )
    return found


# The first, one with noise of its own, and the last, beside which its batch is filled up.
CHECKED = (0, 3, 4)


def assert_as_jax_finds(model, rows, engines, tolerance):
    space = make_space(model)
    point = space.start(model)
    values, slopes = [], []
    for number in CHECKED:

        def whole(free, block=rows[number]):
            return weft.log_evidence(space.place(model, free), block, engine="cpu")

        value, slope = jax.jit(jax.value_and_grad(whole))(jnp.asarray(point))
        values.append(float(value))
        slopes.append(np.asarray(slope))
    chosen = list(CHECKED)
    for engine in engines:
        scores = CompositeObjective(space, model, rows, (), power=0.0, engine=engine).scores(point)
        assert_allclose(scores.value[chosen], values, rtol=tolerance, err_msg=engine)
        assert_allclose(
            scores.gradient[chosen], slopes, rtol=tolerance, atol=tolerance * np.abs(slopes).max(), err_msg=engine
        )
        assert_allclose(block_evidence(model, rows, engine=engine)[chosen], values, rtol=tolerance, err_msg=engine)


@pytest.mark.parametrize("name", MODELS)
def test_blocks_have_the_evidence_and_gradient_that_jax_finds(name):
    engines = ("cpu", "dense", "scan") if name == "kernels without a closed form" else ("cpu", "dense")
    assert_as_jax_finds(weft.Model(MODELS[name], weft.Gaussian(0.3)), blocks(), engines, 1e-10)


def test_the_floor_of_the_noise_moves_with_the_signal():
    """Noise so small that the signal sets its floor: rows have to differ, and nine digits of a gradient are lost to its size."""
    model = weft.Model(MODELS["slow and fast"], weft.Gaussian(1e-16))
    assert_as_jax_finds(model, [without_repeats(block) for block in blocks()], ("cpu", "dense"), 1e-6)


def without_repeats(block):
    _, first = np.unique(np.column_stack([block.row_times, block.row_places]), axis=0, return_index=True)
    return take_rows(block, np.sort(first))


def many_places():
    """Beyond one block of a factor (36 places), with few rows at some times, none at others, and noise of their own in one."""
    rng = np.random.default_rng(1)
    found = []
    for number, share in enumerate((0.9, 0.3)):
        places = rng.normal(size=(36, 2))
        times = np.repeat(np.array([0.0, 1.0, 2.0, 4.5, 5.0]), 36)
        rows = np.flatnonzero((rng.uniform(size=len(times)) < share) & ((times != 2.0) | (number == 0)))
        noise = rng.uniform(0.1, 0.4, len(rows)) if number else None
        seen = np.tile(places, (5, 1))[rows]
        found.append(weft.Observations(times[rows], seen, rng.normal(size=len(rows)), noise_variance=noise))
    return found


@pytest.mark.parametrize("name", ["slow and fast", "with levels", "uneven, and smoother", "a walk, and a quotient"])
@pytest.mark.parametrize("make", [blocks, many_places])
def test_a_chain_in_the_coordinates_of_places_has_the_evidence_of_the_matrix_over_rows(name, make, monkeypatch):
    model, rows = weft.Model(MODELS[name], weft.Gaussian(0.3)), [without_repeats(block) for block in make()]
    space = make_space(model)
    point = space.start(model)
    calls = []
    called = one_block.value_and_slopes_at_places
    monkeypatch.setattr(one_block, "value_and_slopes_at_places", lambda *given: calls.append(1) or called(*given))
    by_chain, by_matrix = (
        CompositeObjective(space, model, rows, (), power=0.0, engine=engine).scores(point)
        for engine in ("cpu", "dense")
    )
    assert len(calls) == len(rows)
    assert_allclose(by_chain.value, by_matrix.value, rtol=1e-10)
    largest = np.abs(by_matrix.gradient).max()
    assert_allclose(by_chain.gradient, by_matrix.gradient, rtol=1e-9, atol=1e-9 * largest)


def test_a_place_with_two_rows_at_one_time_goes_by_the_whitened_chain(monkeypatch):
    """The coordinates of places have room for one row each."""
    monkeypatch.setattr(one_block, "value_and_slopes_at_places", None)
    model = weft.Model(MODELS["slow and fast"], weft.Gaussian(0.3))
    space = make_space(model)
    scores = CompositeObjective(space, model, blocks(), (), power=0.0, engine="cpu").scores(space.start(model))
    assert_allclose(scores.value, block_evidence(model, blocks(), engine="dense"), rtol=1e-10)
