# SPDX-License-Identifier: MIT
"""Every way to reduce space, held to the dense definition of what it explains: add a basis to `CASES`, the suite does the rest."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import weft
from tests.oracles import dense
from tests.problems import PSEUDO_FIRST, PSEUDO_SECOND, ragged_rows
from weft.state_space.basis import AllPlaces, Features, Leading, PseudoPoints, as_basis, reduce_space

TIMES, PLACES, VALUES, NOISE = ragged_rows(4)
LOWER, UPPER = (-0.1, 0.0), (3.0, 3.2)
EXTENT = np.array([3.1, 3.2])
NEW_TIMES = np.array([0.35, -1.0, 1.5, 6.0, 1.5])
NEW_PLACES = np.random.default_rng(8).uniform(0, 3, (5, 2))
EQ_ORDER, MATERN_ORDER = (5, 4), (6, 8)


@dataclass
class Case:
    """A space kernel of three numbers, how its space is reduced, and the same in dense terms (None: all is explained)."""

    kernel: Callable[[Any], weft.kernels.Kernel]
    pseudo_points: Any
    space: Callable[[np.ndarray], dense.Covariance]
    explained: Callable[[np.ndarray], dense.Covariance] | None
    size: int | None


def pseudo_explained(p):
    def explained(x, y):
        k_zz = dense.eq(PSEUDO_FIRST, PSEUDO_FIRST, p[:2])
        return p[2] * dense.eq(x, PSEUDO_FIRST, p[:2]) @ np.linalg.solve(k_zz, dense.eq(PSEUDO_FIRST, y, p[:2]))

    return explained


LEADING = Leading(4, np.random.default_rng(9).uniform(0, 3, (7, 2)), np.array([1.0, 0.3, 0.8, 0.5, 1.0, 0.7, 0.2]))


def leading_explained(p):
    def explained(x, y):
        z, weight = np.asarray(LEADING.points), np.diag(np.sqrt(LEADING.importance))
        # Not `eigh`: the gradient is by complex steps, and the matrix stays symmetric then, not Hermitian.
        values, vectors = np.linalg.eig(weight @ dense.eq(z, z, p[:2]) @ weight)
        largest = np.argsort(-values.real)[:4]
        functions = weight @ (vectors / np.sqrt(np.sum(vectors**2, axis=0)))[:, largest]
        inner = functions @ np.diag(1 / values[largest]) @ functions.T
        return p[2] * dense.eq(x, z, p[:2]) @ inner @ dense.eq(z, y, p[:2])

    return explained


def plane(p):
    return lambda x, y: p[0] * dense.linear(x, y) + p[2] * dense.constant(x, y)


CASES = {
    "all places": Case(
        lambda p: p[2] * weft.EQ(p[:2]), None, lambda p: lambda x, y: p[2] * dense.eq(x, y, p[:2]), None, None
    ),
    "pseudo-points": Case(
        lambda p: p[2] * weft.EQ(p[:2]),
        PSEUDO_FIRST,
        lambda p: lambda x, y: p[2] * dense.eq(x, y, p[:2]),
        pseudo_explained,
        4,
    ),
    "leading functions": Case(
        lambda p: p[2] * weft.EQ(p[:2]),
        LEADING,
        lambda p: lambda x, y: p[2] * dense.eq(x, y, p[:2]),
        leading_explained,
        4,
    ),
    "features of the kernel's own": Case(
        lambda p: weft.Linear(p[0]) + weft.Constant(p[2]), PSEUDO_FIRST, plane, plane, 3
    ),
    "waves of EQ": Case(
        lambda p: p[2] * weft.EQ(p[:2]),
        weft.FourierFeatures(LOWER, UPPER, EQ_ORDER),
        lambda p: lambda x, y: p[2] * dense.eq(x, y, p[:2]),
        lambda p: lambda x, y: p[2] * dense.waves(x, y, dense.eq_density, p[:2], EXTENT, 8.6, EQ_ORDER),
        None,
    ),
    "waves of Matern32": Case(
        lambda p: weft.Matern32(p[:2], variance=p[2]),
        weft.FourierFeatures(LOWER, UPPER, MATERN_ORDER),
        lambda p: lambda x, y: p[2] * dense.matern32(x, y, p[:2]),
        lambda p: lambda x, y: p[2] * dense.waves(x, y, dense.matern32_density, p[:2], EXTENT, 23.5, MATERN_ORDER),
        None,
    ),
}
# Length scales and variance of the component under test; variance of the other one, and of the noise.
START = np.array([0.9, 1.4, 0.7, 0.45, 0.06])


@pytest.fixture(params=CASES)
def case(request) -> Case:
    return CASES[request.param]


def model_of(case: Case, parameters) -> weft.Model:
    """The case beside a component with pseudo-points: bases of several kinds in one model."""
    kernel = weft.Separable(space=case.kernel(parameters[:3]), time=weft.Matern32(1.3)) + parameters[
        3
    ] * weft.Separable(space=weft.Matern12(1.1), time=weft.Matern12(0.6))
    return weft.Model(kernel, weft.Gaussian(parameters[4]), (case.pseudo_points, PSEUDO_SECOND))


def dense_of(case: Case, p) -> dense.Problem:
    explained = None if case.explained is None else case.explained(p[:3])
    components = [
        dense.Component(1.0, case.space(p[:3]), lambda t, s: dense.matern32(t, s, 1.3), None, explained),
        dense.Component(
            p[3],
            lambda x, y: dense.matern12(x, y, 1.1),
            lambda t, s: dense.matern12(t, s, 0.6),
            PSEUDO_SECOND,
        ),
    ]
    return dense.Problem(components, p[4] + NOISE, TIMES, PLACES, VALUES)


def data() -> weft.Observations:
    return weft.Observations(TIMES, PLACES, VALUES, noise_variance=NOISE)


def test_the_rest_is_a_covariance_whose_variance_is_unexplained(case):
    kernel, places = case.kernel(START[:3]), data().places
    reduction = reduce_space(kernel, as_basis(case.pseudo_points), places)
    asked = np.concatenate([places, NEW_PLACES])
    weights, unexplained = np.asarray(reduction.weights(asked)), np.asarray(reduction.unexplained(asked))
    assert weights.shape == (len(asked), reduction.size)
    assert case.size is None or reduction.size == case.size
    rest = np.asarray(kernel(asked)) - weights @ weights.T
    assert np.linalg.eigvalsh(rest).min() > -1e-12
    assert np.all(unexplained >= 0)
    assert_allclose(unexplained, np.diagonal(rest), atol=1e-11)
    if case.explained is not None:
        assert_allclose(weights @ weights.T, case.explained(START[:3])(asked, asked), rtol=1e-9, atol=1e-12)
    at_data, rest_at_data = reduction.at_data(places)
    assert_allclose(at_data, weights[: len(places)], atol=1e-6)
    assert_allclose(rest_at_data, unexplained[: len(places)], atol=1e-11)


def test_all_places_are_explained_to_the_bit():
    places = data().places
    kernel = CASES["all places"].kernel(START[:3])
    weights, unexplained = reduce_space(kernel, AllPlaces(), places).at_data(places)
    assert_array_equal(unexplained, 0.0)
    assert_allclose(weights @ weights.T, kernel(places), rtol=0, atol=1e-11)


@pytest.mark.parametrize("power", [0.0, 0.6])
def test_evidence_equals_dense(case, power):
    value = weft.log_evidence(model_of(case, START), data(), power=power)
    assert_allclose(value, dense.power_ep(dense_of(case, START), power), rtol=1e-8)


def test_gradient_equals_dense(case):
    gradient = jax.grad(lambda p: weft.log_evidence(model_of(case, p), data()))(jnp.asarray(START))
    expected = dense.gradient(lambda p: dense.power_ep(dense_of(case, p), 0.0), START)
    assert_allclose(gradient, expected, rtol=1e-6, atol=1e-7)


def test_answers_equal_dense_and_survive_a_file(case, tmp_path):
    posterior = weft.condition(model_of(case, START), data())
    mean, covariance = dense.posterior(dense_of(case, START), NEW_TIMES, NEW_PLACES)
    marginals = posterior.marginals(NEW_TIMES, NEW_PLACES)
    assert_allclose(marginals.mean, mean, rtol=1e-6, atol=1e-8)
    assert_allclose(marginals.variance, np.diagonal(covariance), rtol=1e-6)
    assert_allclose(posterior.covariance(NEW_TIMES, NEW_PLACES), covariance, rtol=1e-6, atol=1e-8)
    posterior.save(tmp_path / "model.weft")
    again = weft.load(tmp_path / "model.weft")
    assert again.basis_places.shape == posterior.basis_places.shape
    assert_array_equal(again.marginals(NEW_TIMES, NEW_PLACES).mean, marginals.mean)
    assert_array_equal(again.marginals(NEW_TIMES, NEW_PLACES).variance, marginals.variance)


def test_an_update_equals_all_rows_at_once(case):
    model, late = model_of(case, START), TIMES > 1.5
    # Late rows at places known before, so that an exact component keeps its basis, then at new ones.
    places = np.where(late[:, None], PLACES[~late][np.arange(len(TIMES)) % np.count_nonzero(~late)], PLACES)
    for where in (places, PLACES):
        first, second, whole = (
            weft.Observations(TIMES[rows], where[rows], VALUES[rows], noise_variance=NOISE[rows])
            for rows in (~late, late, slice(None))
        )
        updated, expected = weft.condition(model, first).update(second), weft.condition(model, whole)
        assert_allclose(updated.log_evidence, expected.log_evidence, rtol=1e-9)
        for got, wanted in zip(
            updated.marginals(NEW_TIMES, NEW_PLACES), expected.marginals(NEW_TIMES, NEW_PLACES), strict=True
        ):
            assert_allclose(got, wanted, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(
    ("given", "kind"),
    [(None, AllPlaces), (PSEUDO_FIRST, PseudoPoints), (weft.FourierFeatures(0.0, 1.0, 3), Features)],
    ids=["none", "matrix", "map"],
)
def test_the_users_word_becomes_a_basis_and_can_be_read_back(given, kind):
    basis = as_basis(given)
    assert isinstance(basis, kind)
    assert as_basis(basis) is basis
    assert as_basis(basis.given).given is basis.given


# --- waves -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kernel", [weft.EQ(0.8), weft.Matern12(0.8), weft.Matern32(0.8), weft.Matern52(0.8), weft.Matern72(0.8)]
)
def test_enough_waves_leave_what_lies_beyond_their_frequencies(kernel):
    """In one column, where tails fall as frequency^-2 (Matern12) or faster: 16 times the waves, at most an eighth of the rest."""
    places = np.linspace(0.0, 2.0, 9)[:, None]
    rests = []
    for order in (16, 256):
        reduction = reduce_space(kernel, as_basis(weft.FourierFeatures(0.0, 2.0, order)), places)
        assert reduction.size == 2 * order + 1
        weights, rest = np.asarray(reduction.weights(places)), np.asarray(reduction.unexplained(places))
        remainder = np.asarray(kernel(places)) - weights @ weights.T
        assert np.linalg.eigvalsh(remainder).min() > -1e-13
        assert_allclose(rest, np.diagonal(remainder), atol=1e-14)
        rests.append(rest[0])
    assert rests[1] <= max(rests[0] / 8, 1e-14)
    assert rests[1] < 0.06


def test_a_bound_by_waves_is_learned_and_stays_a_bound():
    kernel = 0.7 * weft.Separable(space=weft.EQ([0.9, 1.4]), time=weft.Matern32(1.3))
    waves = weft.FourierFeatures(LOWER, UPPER, 4)
    result = weft.fit(weft.Model(kernel, weft.Gaussian(0.3), waves), data(), max_iterations=4, progress=None)
    assert "pseudo_points" not in " ".join(result.parameters)
    assert result.model.pseudo_points == waves
    exact = weft.log_evidence(weft.Model(result.model.kernel, result.model.likelihood), data())
    assert result.log_evidence > weft.log_evidence(weft.Model(kernel, weft.Gaussian(0.3), waves), data())
    assert result.log_evidence < exact


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (lambda: weft.FourierFeatures(1.0, 1.0, 3), ValueError, "lower must be below upper"),
        (lambda: weft.FourierFeatures((0.0, 0.0), (1.0,), 3), ValueError, "one finite number a column"),
        (lambda: weft.FourierFeatures((0.0, 0.0), (1.0, 1.0), (3, 3, 3)), ValueError, "one for each of the 2 columns"),
        (lambda: weft.FourierFeatures(0.0, 1.0, 0), ValueError, "order must be at least 1"),
        (
            lambda: weft.Model(
                weft.Separable(space=weft.RationalQuadratic(1.0), time=weft.Matern12(1.0)),
                weft.Gaussian(0.1),
                weft.FourierFeatures(LOWER, UPPER, 3),
            ),
            TypeError,
            "not of RationalQuadratic",
        ),
        (
            lambda: weft.log_evidence(
                weft.Model(
                    weft.Separable(space=weft.EQ(1.0), time=weft.Matern12(1.0)),
                    weft.Gaussian(0.1),
                    weft.FourierFeatures((0.0, 0.0), (1.0, 1.0), 3),
                ),
                data(),
            ),
            ValueError,
            "outside the box of FourierFeatures",
        ),
        (
            lambda: weft.Model(
                2 * weft.Separable(space=weft.EQ(1.0), time=weft.Matern12(1.0))
                + weft.Separable(space=weft.EQ(1.0), time=weft.Matern12(1.0)),
                weft.Gaussian(0.1),
                (weft.FourierFeatures(0.0, 1.0, 3), PSEUDO_FIRST),
            ),
            ValueError,
            "equally many columns",
        ),
    ],
)
def test_what_waves_refuse(wrong, error, message):
    with pytest.raises(error, match=message):
        wrong()
