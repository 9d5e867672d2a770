# SPDX-License-Identifier: MIT
"""Non-Gaussian inference against a dense variational Gaussian process, and what it must survive."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import weft
from tests.oracles import variational
from tests.problems import sum_separable
from weft.engines.choose import named_engine
from weft.inference import conjugate_vi
from weft.inference.conjugate_vi import search_sites
from weft.inference.prior import make_prior
from weft.inference.sites import Sites, gaussian_sites
from weft.inference.variational import SearchMemory
from weft.likelihoods import Bernoulli, Binomial, NegativeBinomial, Poisson, Rain, StudentT, Tobit

NUM_HYPER = 9  # the parameters of a twin that are neither noise nor pseudo-points

NEW_TIMES = np.array([0.1, 0.35, 2.0, 3.0, 6.0])
NEW_PLACES = np.array([[0.4, 0.5], [2.0, 1.0], [1.0, 2.5], [2.9, 0.1], [1.4, 2.1]])


class Case:
    """One likelihood on the ragged rows of a twin: as a model with data, and as a dense problem."""

    def __init__(self, name, *, separable=False, exact=False):
        twin = sum_separable("matern32", "matern12", exact=exact)
        rng = np.random.default_rng(len(name))
        present = ~np.isnan(twin.values)
        f = np.sin(twin.times) + 0.3 * twin.places[:, 0] - 0.5
        self.exposure = rng.uniform(0.2, 5.0, len(f)) if name in ("poisson", "negative_binomial") else None
        rate = np.exp(f) * (1.0 if self.exposure is None else self.exposure)
        values = {
            "poisson": lambda: rng.poisson(rate),
            "bernoulli": lambda: rng.random(len(f)) < 1 / (1 + np.exp(-f)),
            "negative_binomial": lambda: rng.negative_binomial(2, 2 / (2 + rate)),
            "student_t": lambda: f + 0.3 * rng.standard_t(4, size=len(f)),
            "tobit": lambda: f + 0.4 * rng.normal(size=len(f)),
            "rain": lambda: np.maximum(f + 0.4 * rng.normal(size=len(f)), 0.0) ** 1.7,
        }[name]()
        # Every third row below or above its limit, or between two.
        self.limits = {}
        if name == "tobit":
            kind = rng.integers(0, 6, len(f))
            self.limits["lower"] = np.select([kind == 0, kind == 2], [values + 0.3, values + 0.5], values - 1.0)
            self.limits["upper"] = np.select([kind == 1, kind == 2], [values - 0.2, values - 0.4], np.nan)
        self.values = np.where(present, values, np.nan)
        self.twin, self.name, self.separable, self.present = twin, name, separable, present
        self.likelihood_parameters = {
            "poisson": [],
            "bernoulli": [],
            "negative_binomial": [1.7],
            "student_t": [0.6, 5.0],
            "tobit": [0.3],
            "rain": [0.3, 1.6],
        }[name]

    def model(self, parameters=None, likelihood_parameters=None):
        twin = self.twin
        base = twin.model if parameters is None else twin.build_model(parameters)
        given = self.likelihood_parameters if likelihood_parameters is None else likelihood_parameters
        kinds = {
            "poisson": Poisson,
            "bernoulli": Bernoulli,
            "negative_binomial": NegativeBinomial,
            "student_t": StudentT,
            "tobit": Tobit,
            "rain": Rain,
        }
        points = base.pseudo_points
        if self.separable:
            return weft.Model(
                base.kernel.components[0], kinds[self.name](*given), None if points is None else points[0]
            )
        return weft.Model(base.kernel, kinds[self.name](*given), points)

    @property
    def data(self):
        return weft.Observations(self.twin.times, self.twin.places, self.values, exposure=self.exposure, **self.limits)

    def solve(self, parameters=None, likelihood_parameters=None, start=None):
        problem = self.twin.build_dense(self.twin.parameters if parameters is None else parameters)
        problem.values = self.values
        if self.separable:
            problem.components = problem.components[:1]
        y = self.values[self.present]
        given = list(self.likelihood_parameters if likelihood_parameters is None else likelihood_parameters)
        exposed = [] if self.exposure is None else [self.exposure[self.present]]
        limits = [limit[self.present] for limit in self.limits.values()]
        return variational.solve(problem, getattr(variational, self.name)(y, *given, *exposed, *limits), start)


NAMES = ["poisson", "bernoulli", "negative_binomial", "student_t"]
SHAPES = [{}, {"separable": True, "exact": True}]
CASES = [(name, shape) for name in NAMES for shape in SHAPES] + [
    ("poisson", {"exact": True}),
    ("poisson", {"separable": True}),
    ("tobit", {}),
    ("rain", {"separable": True, "exact": True}),
]


@pytest.mark.parametrize(("name", "shape"), CASES)
def test_bound_and_marginals_equal_a_dense_variational_process(name, shape):
    case = Case(name, **shape)
    solution = case.solve()
    model, data = case.model(), case.data
    assert_allclose(weft.log_evidence(model, data), solution.bound, atol=1e-8, rtol=0)
    posterior = weft.condition(model, data)
    assert_allclose(posterior.log_evidence, solution.bound, atol=1e-8, rtol=0)
    mean, variance = posterior.marginals(NEW_TIMES, NEW_PLACES)
    expected_mean, expected_variance = variational.marginals(solution, NEW_TIMES, NEW_PLACES)
    # Sites are found to 1e-6 of a standard deviation.
    assert_allclose(mean, expected_mean, atol=2e-6, rtol=0)
    assert_allclose(variance, expected_variance, atol=2e-6, rtol=0)


@pytest.mark.parametrize("name", ["negative_binomial", "student_t", "rain"])
def test_gradient_equals_differences_of_the_dense_bound_at_its_optimum(name):
    case = Case(name)
    count = len(case.twin.parameters)
    point = np.concatenate([case.twin.parameters, case.likelihood_parameters])

    def bound(point):
        return weft.log_evidence(case.model(point[:count], tuple(point[count:])), case.data)

    gradient = np.asarray(jax.grad(bound)(jnp.asarray(point)))
    rng = np.random.default_rng(0)
    kinds = [slice(0, NUM_HYPER), slice(NUM_HYPER + 1, count), slice(count, None)]
    start = case.solve()
    step = 1e-4
    for numbers in kinds:
        direction = np.zeros(len(point))
        direction[numbers] = rng.normal(size=len(point[numbers]))
        ends = [point + sign * step * direction for sign in (1, -1)]
        upper, lower = (case.solve(end[:count], end[count:], start).bound for end in ends)
        # The differences carry rounding of 1e-10 / step and a third derivative times step squared.
        assert_allclose(gradient @ direction, (upper - lower) / (2 * step), rtol=1e-5, atol=1e-5)


def test_one_step_is_exact_for_a_gaussian_likelihood_and_equals_the_closed_form():
    twin = sum_separable()
    model, data = twin.model, twin.data
    prior, engine = make_prior(model, data), named_engine("cpu")
    rng = np.random.default_rng(4)
    far = Sites(
        jnp.asarray(rng.normal(size=data.num_rows)), jnp.asarray(rng.uniform(0.1, 3, data.num_rows)), jnp.zeros(())
    )
    found = search_sites(model.likelihood, data, prior, engine, start=far)
    expected = gaussian_sites(model, data, prior.unexplained, power=0.0)
    assert len(found.bounds) == 2
    assert found.engine_calls == 2
    assert found.converged
    assert_allclose(found.sites.value, expected.value, atol=1e-9, rtol=0)
    assert_allclose(found.sites.precision, expected.precision, rtol=1e-9)
    assert_allclose(found.sites.log_constant, expected.log_constant, rtol=1e-9)
    assert_allclose(found.bound, weft.log_evidence(model, data), rtol=1e-9)


def test_engines_agree():
    case = Case("poisson", separable=True)
    expected = weft.log_evidence(case.model(), case.data, engine="cpu")
    assert_allclose(weft.log_evidence(case.model(), case.data, engine="scan"), expected, rtol=1e-10)


def series(draw, *, num_times=60, num_places=12, num_pseudo=8, seed=0):
    """A smooth field seen at fixed places, one draw a row."""
    rng = np.random.default_rng(seed)
    stations = rng.uniform(0, 3, (num_places, 2))
    times, places = np.repeat(np.arange(num_times) * 0.1, num_places), np.tile(stations, (num_times, 1))
    f = np.sin(times) + np.cos(2 * places[:, 0])
    kernel = 1.3 * weft.Separable(space=weft.EQ([1.0, 1.2]), time=weft.Matern32(1.5))
    return kernel, stations[:num_pseudo], times, places, draw(rng, f)


def test_the_bound_never_falls_and_few_calls_suffice():
    for likelihood, draw in (
        (Poisson(), lambda rng, f: rng.poisson(np.exp(f))),
        (Bernoulli("probit"), lambda rng, f: rng.random(len(f)) < 0.5 + 0.3 * np.tanh(f)),
    ):
        kernel, points, *columns = series(draw)
        model, data = weft.Model(kernel, likelihood, points), weft.Observations(*columns)
        found = search_sites(likelihood, data, make_prior(model, data), named_engine("cpu"))
        assert found.converged
        assert found.engine_calls <= 15
        assert np.all(np.diff(found.bounds) >= -1e-9)
        memory = SearchMemory()
        weft.log_evidence(model, data, memory=memory)
        cold = memory.engine_calls
        warm = weft.log_evidence(eqx.tree_at(lambda m: m.kernel.variance, model, np.array(1.31)), data, memory=memory)
        assert memory.engine_calls - cold < cold
        assert_allclose(warm, weft.log_evidence(weft.Model(kernel * (1.31 / 1.3), likelihood, points), data), atol=1e-8)


def test_heavy_tails_with_outliers_converge_with_positive_precisions():
    def draw(rng, f):
        values = f + 0.2 * rng.standard_t(2.0, size=len(f))
        values[::40] += 25.0
        return values

    kernel, points, *columns = series(draw)
    model, data = weft.Model(kernel, StudentT(0.2, 2.0), points), weft.Observations(*columns)
    found = search_sites(model.likelihood, data, make_prior(model, data), named_engine("cpu"))
    assert found.converged
    assert found.floored >= 10
    assert np.all(np.asarray(found.sites.precision) > 0)
    # Only what the variances of the rows with raised precisions do can lower the bound, and that is next to nothing.
    assert np.min(np.diff(found.bounds)) > -1e-2
    latent = weft.condition(model, data).marginals(*columns[:2])
    truth = np.sin(columns[0]) + np.cos(2 * columns[1][:, 0])
    assert np.sqrt(np.mean((latent.mean - truth) ** 2)) < 0.25


def test_extreme_counts_give_no_nan():
    """A day of counts up to a million, places that are all zero, a tenth zeros, exposures over six decades."""
    rng = np.random.default_rng(7)
    exposure = 10.0 ** rng.uniform(-3, 3, 720)

    def draw(rng, f):
        counts = rng.poisson(np.exp(f) * exposure).astype(float)
        counts[rng.random(len(f)) < 0.1] = 0.0
        counts[12 * 30 : 12 * 31] = np.floor(10.0 ** np.linspace(2, 6, 12))
        counts[::12] = 0.0
        return counts

    kernel, points, times, places, counts = series(draw)
    data = weft.Observations(times, places, counts, exposure=exposure)
    for likelihood in (Poisson(), NegativeBinomial(3.0)):
        model = weft.Model(kernel, likelihood, points)
        value, gradient = jax.value_and_grad(weft.log_evidence)(model, data)
        assert np.isfinite(value)
        assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(gradient))
        posterior = weft.condition(model, data)
        prediction = posterior.predict(times, places, exposure=exposure)
        for answer in (*posterior.marginals(times, places), prediction.mean, prediction.variance):
            assert np.all(np.isfinite(answer))


@pytest.mark.parametrize(
    ("likelihood", "extra", "message"),
    [
        (Poisson(), {}, r"Poisson: values must be whole numbers.*-1 in row 3"),
        (Bernoulli(), {}, r"Bernoulli: values must be 0 or 1.*-1 in row 3"),
        (Binomial(), {"trials": np.full(6, 2.0)}, r"1\.5 in row 1"),
        (NegativeBinomial(), {"noise_variance": np.full(6, 0.1)}, r"makes no use of noise_variance"),
    ],
)
def test_impossible_observations_are_named_by_their_row(likelihood, extra, message):
    values = np.array([1.0, 1.5, np.nan, -1.0, 0.0, 2.0])
    if not isinstance(likelihood, Binomial):
        values[1] = 1.0
    times = np.array([3.0, 1.0, 2.0, 0.0, 5.0, 4.0])
    data = weft.Observations(times, np.arange(12.0).reshape(6, 2), values, **extra)
    model = weft.Model(weft.Separable(space=weft.EQ(1.0), time=weft.Matern12(1.0)), likelihood)
    for ask in (weft.log_evidence, weft.condition):
        with pytest.raises(ValueError, match=message):
            ask(model, data)


def test_what_is_not_offered_is_refused():
    case = Case("poisson")
    model, data = case.model(), case.data
    with pytest.raises(ValueError, match="Poisson likelihood has the variational bound alone"):
        weft.log_evidence(model, data, power=0.5)
    with pytest.raises(ValueError, match="variational bound alone"):
        weft.log_evidence(model, data, correction=False)
    with pytest.raises(ValueError, match="variational bound alone"):
        weft.condition(model, data, power=1.0)
    with pytest.raises(TypeError, match="outside of jit"):
        jax.jit(weft.log_evidence)(model, data)


def test_answers_in_observation_space():
    case = Case("negative_binomial")
    posterior = weft.condition(case.model(), case.data)
    latent = posterior.marginals(NEW_TIMES, NEW_PLACES)
    exposure = np.array([0.5, 1.0, 2.0, 20.0, 3.0])
    prediction = posterior.predict(NEW_TIMES, NEW_PLACES, exposure=exposure)
    rng = np.random.default_rng(3)
    num = 400_000
    f = latent.mean + np.sqrt(latent.variance) * rng.standard_normal((num, 5))
    rate = exposure * np.exp(f) * rng.gamma(1.7, 1 / 1.7, size=f.shape)
    draws = rng.poisson(rate)
    # Monte Carlo: a relative error of a few thousandths.
    assert_allclose(prediction.mean, draws.mean(axis=0), rtol=0.03)
    quantiles = prediction.quantile([0.1, 0.5, 0.9])
    below, at_most = ((draws < quantiles.T[:, None]).mean(axis=1), (draws <= quantiles.T[:, None]).mean(axis=1))
    for level, low, high in zip([0.1, 0.5, 0.9], below, at_most, strict=True):
        assert np.all(low <= level + 0.004)
        assert np.all(high >= level - 0.004)


def test_joint_answers_agree_with_each_other():
    case = Case("poisson")
    posterior = weft.condition(case.model(), case.data)
    latent = posterior.marginals(NEW_TIMES, NEW_PLACES)
    covariance = posterior.covariance(NEW_TIMES, NEW_PLACES)
    assert_allclose(np.diagonal(covariance), latent.variance, rtol=1e-8)
    weights = np.array([0.2, -1.0, 0.5, 0.7, 2.0])
    total = posterior.aggregate(NEW_TIMES, NEW_PLACES, weights)
    assert_allclose([total.mean, total.variance], [weights @ latent.mean, weights @ covariance @ weights], rtol=1e-8)
    parts = posterior.components(NEW_TIMES, NEW_PLACES)
    assert_allclose(sum(part.mean for part in parts), latent.mean, rtol=1e-10)
    draws = posterior.sample(NEW_TIMES, NEW_PLACES, num=4000, seed=1)
    # Four standard errors of 4000 draws.
    assert_allclose(draws.mean(axis=0), latent.mean, atol=4 * np.sqrt(latent.variance.max() / 4000))
    assert_allclose(np.cov(draws.T), covariance, atol=0.1)


def test_an_update_is_conditioning_on_everything():
    case = Case("poisson")
    model, times = case.model(), case.twin.times

    def rows(kept):
        return weft.Observations(times[kept], case.twin.places[kept], case.values[kept], exposure=case.exposure[kept])

    early = weft.condition(model, rows(times < 1.5)).update(rows(times >= 1.5))
    whole = weft.condition(model, case.data)
    assert_allclose(early.log_evidence, whole.log_evidence, atol=1e-8)
    assert_allclose(early.marginals(NEW_TIMES, NEW_PLACES), whole.marginals(NEW_TIMES, NEW_PLACES), atol=1e-6)


def test_a_saved_posterior_gives_the_same_answers(tmp_path):
    case = Case("poisson", separable=True)
    posterior = weft.condition(case.model(), case.data)
    posterior.save(tmp_path / "posterior.weft")
    loaded = weft.load(tmp_path / "posterior.weft")
    for before, after in zip(
        posterior.marginals(NEW_TIMES, NEW_PLACES), loaded.marginals(NEW_TIMES, NEW_PLACES), strict=True
    ):
        assert_allclose(after, before, rtol=1e-12)


def test_a_fit_starts_each_search_where_the_last_ended():
    case = Case("poisson", separable=True)
    model = case.model(np.asarray(case.twin.parameters))
    result = weft.fit(model, case.data, max_iterations=4, progress=None)
    assert result.log_evidence > float(weft.log_evidence(model, case.data))
    assert_allclose(result.log_evidence, weft.log_evidence(result.model, case.data), atol=1e-7)
    assert result.num_evaluations < result.num_engine_calls < 12 * result.num_evaluations


def test_a_likelihood_of_ones_own():
    class Cauchy(weft.likelihoods.Likelihood):
        support = weft.likelihoods.Support.REAL

        def log_density(self, values, f, extra):
            return -jnp.log(jnp.pi * 0.5 * (1 + ((values - f) / 0.5) ** 2))

    case = Case("student_t")
    model = weft.Model(case.twin.model.kernel, Cauchy(), case.twin.model.pseudo_points)
    same = weft.Model(case.twin.model.kernel, StudentT(0.5, 1.0), case.twin.model.pseudo_points)
    # The default quadrature for a density of one's own is coarser than that of the Student-t.
    assert_allclose(weft.log_evidence(model, case.data), weft.log_evidence(same, case.data), rtol=1e-3)


def test_a_failing_step_is_halved(monkeypatch):
    kernel, points, *columns = series(lambda rng, f: rng.poisson(np.exp(f)))
    model, data = weft.Model(kernel, Poisson(), points), weft.Observations(*columns)
    prior, engine = make_prior(model, data), named_engine("cpu")
    expected = search_sites(Poisson(), data, prior, engine)
    original = conjugate_vi._Problem.evaluate
    calls = []

    def evaluate(self, sites):
        calls.append(sites)
        if len(calls) in (2, 3):
            raise FloatingPointError("as a filter does")
        return original(self, sites)

    monkeypatch.setattr(conjugate_vi._Problem, "evaluate", evaluate)
    found = search_sites(Poisson(), data, prior, engine)
    assert_allclose(found.bound, expected.bound, rtol=1e-10)
    first, whole, half, quarter = (calls[number].precision for number in range(4))
    assert_allclose(quarter - first, (whole - first) / 4, rtol=1e-8)
    assert_allclose(half - first, (whole - first) / 2, rtol=1e-8)
