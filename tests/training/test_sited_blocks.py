# SPDX-License-Identifier: MIT
"""Blocks of rows whose noise is not Gaussian: bounds and slopes against JAX's and against a dense variational process."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import weft
from tests.inference.test_conjugate_vi import Case
from weft.data.observations import take_rows
from weft.engines.choose import named_engine
from weft.engines.dense import DenseEngine
from weft.inference.conjugate_vi import search_sites
from weft.inference.fields import Natural
from weft.inference.prior import make_prior
from weft.training import one_block
from weft.training.composite import CompositeObjective, block_sites
from weft.training.padding import pad_blocks
from weft.training.parameters import make_space
from weft.training.pieces import make_batches, sited_slopes_of
from weft.training.stand_ins import stand_ins

SLOW = weft.Separable(space=weft.Matern32([1.5, 0.8]), time=weft.Matern32(6.0), variance=0.7)
FAST = weft.Separable(space=weft.Matern12([0.5, 0.6]), time=weft.Matern12(1.5), variance=0.4)


class Bump(weft.likelihoods.Likelihood):
    """A user's likelihood, known to JAX alone."""

    support = weft.likelihoods.Support.REAL
    width: float = weft.domains.positive(default=0.8)

    def log_density(self, values, f, extra):
        distance = (values - f) / self.width
        return -jnp.log(jnp.cosh(distance)) - jnp.log(np.pi * self.width)


def draw(name, rng, count):
    """Values that differ, and what comes with them."""
    f = rng.normal(size=count)
    rate = np.exp(f)
    exposure = rng.uniform(0.3, 4.0, count)
    made = {
        "poisson": lambda: (rng.poisson(exposure * rate), {"exposure": exposure}),
        "negative_binomial": lambda: (rng.negative_binomial(2, 2 / (2 + rate)), {}),
        "bernoulli": lambda: (rng.random(count) < 1 / (1 + 1 / rate), {}),
        "student_t": lambda: (f + 0.3 * rng.standard_t(4, size=count), {}),
        "tobit": lambda: (f, {"lower": np.where(rng.random(count) < 0.3, f + 0.2, -3.0), "noise_variance": 0.1 * rate}),
        "bump": lambda: (f, {}),
    }
    values, extra = made[name]()
    return values.astype(np.float64), extra


LIKELIHOODS = {
    "poisson": weft.likelihoods.Poisson(),
    "negative_binomial": weft.likelihoods.NegativeBinomial(1.7),
    "bernoulli": weft.likelihoods.Bernoulli(),
    "student_t": weft.likelihoods.StudentT(0.6, 5.0),
    "tobit": weft.likelihoods.Tobit(0.3),
    "bump": Bump(0.8),
}


def blocks(name):
    """Ragged: places that come and go, a repeated time and place, an empty stretch."""
    rng = np.random.default_rng(3)
    places = rng.normal(size=(6, 2))
    found = []
    for number, count in enumerate((30, 19, 26, 17, 21)):
        some = places[rng.permutation(6)[: 4 + number % 3]]
        times = np.sort(rng.choice(np.arange(14.0), count)) + (rng.uniform(0, 0.5) if number % 2 else 0.0)
        values, extra = draw(name, rng, count)
        found.append(weft.Observations(times, some[rng.integers(0, len(some), count)], values, **extra))
    return found


def model_of(name):
    mean = weft.ConstantMean(4.0) if name in ("poisson", "negative_binomial", "bernoulli") else None
    return weft.Model(SLOW + FAST, LIKELIHOODS[name], None, mean)


# The first, and the last, beside which its batch is filled up.
CHECKED = (0, 4)


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_blocks_have_the_bound_and_gradient_that_jax_finds(name):
    model, rows = model_of(name), blocks(name)
    space = make_space(model)
    point = space.start(model)
    for engine in (named_engine("cpu"), DenseEngine(), *([named_engine("scan")] if name == "poisson" else [])):
        batches = make_batches(pad_blocks(rows, by_row=isinstance(engine, DenseEngine)))
        found = [
            sited_slopes_of(model, batch, engine, starts=[None] * batch.num_blocks, tolerance=1e-8) for batch in batches
        ]
        bounds = np.concatenate([each.bounds for each in found])
        slopes = np.concatenate(
            [np.concatenate([each.slopes.at(path) for path in space.paths], axis=1)[:, space.free] for each in found]
        )
        for number in CHECKED:
            value, slope = jax.value_and_grad(
                lambda free, block=rows[number]: weft.log_evidence(space.place(model, free), block, engine="cpu")
            )(jnp.asarray(point))
            # Rows with raised precisions, which heavy tails have, come to rest slowly.
            assert_allclose(bounds[number], value, rtol=1e-7 if name == "student_t" else 1e-9)
            # JAX's sites are found to 1e-6 of a deviation, to which the gradient is of first order.
            assert_allclose(slopes[number] * space.steepness(point), slope, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["poisson", "negative_binomial", "bernoulli", "student_t", "tobit", "rain"])
@pytest.mark.parametrize("engine", ["cpu", "dense"])
def test_a_block_has_the_bound_of_a_dense_variational_process(name, engine):
    case = Case(name, separable=True, exact=True)
    model = case.model()
    objective = CompositeObjective(make_space(model), model, [case.data], (), power=0.0, engine=engine)
    # While learning sites are found to 1e-4 of a deviation, in which the bound is of second order.
    found = objective.scores(make_space(model).start(model))
    assert_allclose(found.value[0], case.solve().bound, atol=1e-6, rtol=0)


def test_rows_that_say_next_to_nothing_keep_their_variance():
    """A site of almost no precision: the inverse of the matrix over the rows has no digit of what its row changes."""
    model, (rows, *_) = model_of("student_t"), blocks("student_t")
    far = weft.Observations(
        rows.row_times, rows.row_places, np.where(np.arange(rows.num_rows) % 5 == 0, 1e6, rows.values)
    )
    by_chain = search_sites(model.likelihood, far, make_prior(model, far), named_engine("cpu"), tolerance=1e-8)
    (batch,) = make_batches(pad_blocks([far], by_row=True))
    by_matrix = sited_slopes_of(model, batch, DenseEngine(), starts=[None], tolerance=1e-8)
    assert by_chain.floored > 0
    assert_allclose(by_matrix.bounds[0], by_chain.bound, rtol=1e-7)


def without_repeats(block):
    _, first = np.unique(np.column_stack([block.row_times, block.row_places]), axis=0, return_index=True)
    return take_rows(block, np.sort(first))


@pytest.mark.parametrize("far", [False, True])
def test_sites_are_the_same_in_the_coordinates_of_places(far, monkeypatch):
    """Where every place has one row a time at most; rows far out in heavy tails say next to nothing."""
    model, (rows, *_) = model_of("student_t"), blocks("student_t")
    values = np.where(np.arange(rows.num_rows) % 5 == 0, 1e6, rows.values) if far else rows.values
    rows = without_repeats(weft.Observations(rows.row_times, rows.row_places, values))
    calls = []
    called = one_block.value_and_slopes_at_places
    monkeypatch.setattr(one_block, "value_and_slopes_at_places", lambda *given: calls.append(1) or called(*given))
    found = {}
    for engine in (named_engine("cpu"), DenseEngine()):
        (batch,) = make_batches(pad_blocks([rows], by_row=isinstance(engine, DenseEngine)))
        found[engine.name] = sited_slopes_of(model, batch, engine, starts=[None], tolerance=1e-8)
    assert calls
    assert_allclose(found["cpu"].bounds, found["dense"].bounds, rtol=1e-7 if far else 1e-9)
    by_chain, by_matrix = (
        np.concatenate([each.slopes.at(path) for path in make_space(model).paths], axis=1) for each in found.values()
    )
    assert_allclose(by_chain, by_matrix, atol=1e-5 * np.abs(by_matrix).max())


def test_the_next_search_starts_where_the_last_ended():
    model, rows = model_of("poisson"), blocks("poisson")
    space = make_space(model)
    objective = CompositeObjective(space, model, rows, (), power=0.0, engine="auto")
    first = objective.scores(space.start(model))
    cold = objective.num_engine_calls
    again = objective.scores(space.start(model))
    # One look at each block tells that nothing is left to do.
    assert objective.num_engine_calls - cold == len(rows)
    assert_allclose(again.value, first.value, rtol=1e-9)
    # Those of the first batch stand for all.
    num_first = make_batches(pad_blocks(rows, by_row=False))[0].num_blocks
    assert num_first < len(rows)
    (some,) = objective.slopes_by_some([space.start(model)])
    assert_allclose(some, again.gradient[:num_first].sum(axis=0) * len(rows) / num_first, rtol=1e-9)


def test_impossible_values_are_named_by_their_row():
    model, rows = model_of("poisson"), blocks("poisson")
    values = np.asarray(rows[0].values).copy()
    values[7] = -1.0
    wrong = weft.Observations(rows[0].row_times, rows[0].row_places, values)
    with pytest.raises(ValueError, match="-1 in row 7"):
        weft.fit(model, [wrong, rows[1]], progress=None)
    with pytest.raises(ValueError, match="variational bound alone"):
        weft.fit(model, rows, power=0.5, progress=None)


@pytest.mark.parametrize("name", ["poisson", "negative_binomial"])
def test_stand_ins_have_the_posterior_that_their_rows_have(name):
    model, rows = model_of(name), blocks(name)
    stand_in = stand_ins(model, (rows[:2], rows[2:3]))
    assert [len(each) for each in stand_in.blocks] == [2, 1]
    shared = float(stand_in.model.likelihood.variance)
    assert (shared > 0) == (name == "negative_binomial")
    for block, other in zip(rows[:3], [*stand_in.blocks[0], *stand_in.blocks[1]], strict=True):
        expected = weft.condition(model, block).marginals(block.row_times, block.row_places)
        found = weft.condition(stand_in.model, other).marginals(block.row_times, block.row_places)
        # Sites are found to 1e-4 of a deviation.
        assert_allclose(found.mean, expected.mean, atol=1e-3)
        assert_allclose(found.variance, expected.variance, rtol=1e-3)


def test_nothing_stands_in_for_rows_far_out_in_heavy_tails():
    rows = blocks("student_t")
    values = np.where(np.arange(rows[0].num_rows) == 3, 1e4, rows[0].values)
    far = weft.Observations(rows[0].row_times, rows[0].row_places, values)
    assert stand_ins(model_of("student_t"), ([far], rows[1:2])) is None


def test_sites_of_blocks_are_those_of_the_search():
    model, rows = model_of("negative_binomial"), blocks("negative_binomial")
    found = block_sites(model, rows[:2])
    for sites, block in zip(found, rows, strict=False):
        assert isinstance(sites, Natural)
        expected = search_sites(model.likelihood, block, make_prior(model, block), named_engine("cpu")).sites
        assert_allclose(sites.precision, expected.precision, rtol=1e-3)
        assert_allclose(sites.value, expected.value, atol=1e-3)
