# SPDX-License-Identifier: MIT
"""Models and tables whose numbers were written down with version 0.1 (`numbers.json`) and are not to change.

Draws alone are those of 0.2: the root of a covariance they are made with keeps its digits now, which turns the same random numbers into
others of the same law. Each case is a function that gives named arrays. Parameters are fixed, or learned in so few steps that rounding
stays rounding.
"""

import pathlib
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np

import weft
from tests.estimator.tables import station_table
from tests.problems import PSEUDO_FIRST, ragged_rows, sum_separable

Numbers = dict[str, np.ndarray]

ASKED_TIMES = np.array([0.1, 0.35, 1.5, 4.9, 6.0, 1.1])
ASKED_PLACES = np.array([[0.2, 0.3], [1.0, 2.5], [2.9, 0.1], [1.5, 1.5], [2.0, 0.4], [1.2, 2.2]])

CASES: dict[str, Callable[[], Numbers]] = {}


def case(function: Callable[[], Numbers]) -> Callable[[], Numbers]:
    CASES[function.__name__] = function
    return function


def flat(gradient: Any) -> np.ndarray:
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(gradient)])


def everything(model: weft.Model, data: weft.Observations, *, power: float = 0.0, engine: str = "cpu") -> Numbers:
    """Evidence, its gradient in every float array, and the answers of a posterior."""
    evidence, gradient = eqx.filter_value_and_grad(
        lambda held: weft.log_evidence(held, data, power=power, engine=engine)
    )(model)
    posterior = weft.condition(model, data, power=power, engine=engine)
    mean, variance = posterior.marginals(ASKED_TIMES, ASKED_PLACES)
    filtered = posterior.filtered(ASKED_TIMES, ASKED_PLACES)
    prediction = posterior.predict(ASKED_TIMES, ASKED_PLACES)
    sums = posterior.aggregate(ASKED_TIMES, ASKED_PLACES, np.array([0.3, 0.1, 0.2, 0.15, 0.05, 0.2]))
    return {
        "evidence": np.asarray(evidence),
        "gradient": flat(gradient),
        "mean": mean,
        "variance": variance,
        "filtered": np.stack(filtered),
        "components": np.stack([np.stack(part) for part in posterior.components(ASKED_TIMES, ASKED_PLACES)]),
        "observed": np.stack([prediction.mean, prediction.variance]),
        "quantiles": prediction.quantile([0.05, 0.5, 0.9]),
        "covariance": posterior.covariance(ASKED_TIMES, ASKED_PLACES),
        "aggregate": np.array([float(sums.mean), float(sums.variance)]),
        "draws": posterior.sample(ASKED_TIMES, ASKED_PLACES, num=2, seed=4),
    }


@case
def two_components_with_pseudo_points() -> Numbers:
    twin = sum_separable()
    return everything(twin.model, twin.data)


@case
def two_components_exact() -> Numbers:
    twin = sum_separable("matern32", "matern12", exact=True, seed=2)
    return everything(twin.model, twin.data)


@case
def fitc() -> Numbers:
    twin = sum_separable("sum", "matern32", seed=1)
    return everything(twin.model, twin.data, power=1.0)


@case
def power_ep() -> Numbers:
    twin = sum_separable("matern72", "offset", seed=3)
    return everything(twin.model, twin.data, power=0.4)


@case
def not_stationary() -> Numbers:
    twin = sum_separable("wiener", "damped cosine", seed=5)
    return everything(twin.model, twin.data)


@case
def by_scan() -> Numbers:
    twin = sum_separable("matern32", "matern12", seed=6)
    return everything(twin.model, twin.data, engine="scan")


@case
def by_parallel() -> Numbers:
    twin = sum_separable("matern12", "matern32", seed=7)
    return everything(twin.model, twin.data, engine="parallel")


def one_component(space: Any, likelihood: Any, **options: Any) -> weft.Model:
    return weft.Model(
        weft.Separable(space=space, time=0.7 * weft.Matern32(1.4), variance=0.8), likelihood, PSEUDO_FIRST, **options
    )


@case
def linear_mean() -> Numbers:
    times, places, values, noise = ragged_rows(8)
    data = weft.Observations(times, places, values, noise_variance=noise)
    return everything(
        one_component(weft.Matern52([0.8, 1.7]), weft.Gaussian(0.2), mean=weft.LinearMean(3.0, 2.0)), data
    )


@case
def shared_pseudo_points_and_constant_mean() -> Numbers:
    times, places, values, noise = ragged_rows(9)
    kernel = 0.6 * weft.Separable(space=weft.EQ(1.2), time=weft.Matern12(0.9)) + weft.Separable(
        space=weft.Constant(0.5) + weft.Linear(0.3), time=weft.Matern52(2.0), variance=0.4
    )
    model = weft.Model(kernel, weft.Gaussian(0.1), PSEUDO_FIRST, weft.ConstantMean(5.0))
    return everything(model, weft.Observations(times, places, values, noise_variance=noise))


@case
def covariates_and_columns() -> Numbers:
    times, places, values, _ = ragged_rows(10)
    kernel = weft.Separable(space=weft.Columns(weft.Matern32(1.1), [0]), time=weft.Matern32(1.4)) + weft.Separable(
        space=weft.Columns(weft.Linear(0.7), [1]), time=weft.Constant(), variance=0.9
    )
    return everything(weft.Model(kernel, weft.Gaussian(0.3), PSEUDO_FIRST), weft.Observations(times, places, values))


@case
def on_the_sphere() -> Numbers:
    times, places, values, noise = ragged_rows(11)
    degrees = np.array([40.0, 170.0]) + 5 * places
    kernel = weft.Separable(space=weft.OnSphere(weft.Matern32(900.0)), time=weft.Matern12(1.3), variance=1.2)
    model = weft.Model(kernel, weft.Gaussian(0.2), degrees[:5])
    data = weft.Observations(times, degrees, values, noise_variance=noise)
    posterior = weft.condition(model, data)
    asked = np.array([40.0, 170.0]) + 5 * ASKED_PLACES
    return {
        "evidence": np.asarray(weft.log_evidence(model, data)),
        "marginals": np.stack(posterior.marginals(ASKED_TIMES, asked)),
        "draws": posterior.sample(ASKED_TIMES, asked, num=2, seed=1),
    }


def other_likelihood(likelihood: weft.Likelihood, values: np.ndarray, **extras: Any) -> Numbers:
    times, places, _, _ = ragged_rows(12)
    data = weft.Observations(times, places, values, **extras)
    model = one_component(weft.Matern32(1.3), likelihood)
    posterior = weft.condition(model, data)
    prediction = posterior.predict(ASKED_TIMES, ASKED_PLACES)
    return {
        "evidence": np.asarray(weft.log_evidence(model, data)),
        "marginals": np.stack(posterior.marginals(ASKED_TIMES, ASKED_PLACES)),
        "observed": np.stack([prediction.mean, prediction.variance]),
        "quantiles": prediction.quantile([0.1, 0.8]),
    }


def made_counts() -> np.ndarray:
    return np.random.default_rng(13).poisson(3.0, len(ragged_rows(12)[0])).astype(np.float64)


@case
def poisson() -> Numbers:
    counts = made_counts()
    return other_likelihood(weft.Poisson(), counts, exposure=np.linspace(0.5, 2.0, len(counts)))


@case
def negative_binomial() -> Numbers:
    return other_likelihood(weft.NegativeBinomial(2.5), made_counts())


@case
def bernoulli() -> Numbers:
    return other_likelihood(weft.Bernoulli(), (made_counts() > 2).astype(np.float64))


@case
def student_t() -> Numbers:
    return other_likelihood(weft.StudentT(4.0, 0.5), ragged_rows(12)[2])


@case
def updated_posterior() -> Numbers:
    twin = sum_separable(seed=14)
    early = twin.times < 3.0
    first = weft.Observations(*(part[early] for part in (twin.times, twin.places, twin.values)))
    rest = weft.Observations(*(part[~early] for part in (twin.times, twin.places, twin.values)))
    posterior = weft.condition(twin.model, first).update(rest)
    ahead = posterior.one_step_ahead()
    return {
        "evidence": np.asarray(posterior.log_evidence),
        "marginals": np.stack(posterior.marginals(ASKED_TIMES, ASKED_PLACES)),
        "ahead": np.stack([ahead.residual, ahead.variance]),
    }


@case
def a_few_steps_of_a_fit() -> Numbers:
    twin = sum_separable(seed=15)
    model = jax.tree.map(np.asarray, twin.model)
    result = weft.fit(model, twin.data, max_iterations=3, progress=None, frozen=["*.time.*"])
    return {"evidence": np.asarray(result.log_evidence), **result.parameters}


def kernel_of_tables() -> Any:
    """In kilometres and deviations, days, and deviations of the target."""
    return 0.7 * weft.Separable(space=weft.Matern32([60.0, 80.0, 1.5]), time=weft.Matern32(9.0)) + 0.3 * weft.Separable(
        space=weft.Matern32([40.0, 30.0, 0.8]), time=weft.Matern12(2.0)
    )


def estimator(**settings: Any) -> weft.SpaceTimeGP:
    """An estimator that leaves nothing to defaults which a later version may choose otherwise."""
    given: dict[str, Any] = {
        "time": "time",
        "space": ("lon", "lat", "elevation"),
        "target": "value",
        "kernel": kernel_of_tables(),
        "learning_rows": None,
        "place_offsets": False,
        "habits": None,
        "max_iterations": 2,
        "progress": None,
    }
    return weft.SpaceTimeGP(**(given | settings))


def answers(gp: weft.SpaceTimeGP, table: Any) -> Numbers:
    predicted = gp.predict(table, quantiles=(0.1, 0.9))
    field = gp.predict(table, of="field")
    scores = gp.score(table.iloc[::5])
    own = ("mean_crps", "mean_negative_log_density", "rmse", "coverage_90", "pit_mean")
    return {
        "predicted": predicted[["mean", "sd", "latent_sd", "q0.1", "q0.9"]].to_numpy()[::7],
        "field": field[["mean", "sd"]].to_numpy()[::7],
        "draws": gp.sample(table.iloc[:4], num=2, seed=3)[["draw_0", "draw_1"]].to_numpy(),
        "scores": np.array([float(scores[name]) for name in own if name in scores]),
        "evidence": np.asarray(gp.posterior_.log_evidence),
    }


@case
def table_with_pseudo_points() -> Numbers:
    table = station_table()
    return answers(estimator(pseudo_points=4).fit(table), table)


@case
def table_exact_with_covariate_and_season() -> Numbers:
    table = station_table(5)
    return answers(estimator(pseudo_points=None, covariates=("wind",), seasonality="weekly").fit(table), table)


@case
def table_with_transform_and_own_noise() -> Numbers:
    table = station_table(6)
    gp = estimator(pseudo_points=5, transform="log", noise_variance="own_noise", power=0.5).fit(table)
    return answers(gp, table)


@case
def table_cross_validated() -> Numbers:
    table = station_table(7)
    rows = estimator(pseudo_points=4).fit(table).cross_validate(table, by="station", folds=2, output="rows")
    own = rows[rows["model"] == "weft"]
    return {"crps": own["crps"].to_numpy()[::9], "fold": own["fold"].to_numpy()[::9]}


FILES = pathlib.Path(__file__).parent / "files"


def kept_posterior() -> Any:
    twin = sum_separable(seed=16)
    return weft.condition(twin.model, twin.data)


def kept_estimator() -> weft.SpaceTimeGP:
    return estimator(pseudo_points=4, covariates=("wind",)).fit(station_table(8))


def estimator_with_levels() -> weft.SpaceTimeGP:
    table = station_table(9)
    table["value"] += 3.0 * (table["station"] % 3)
    return estimator(pseudo_points=2, place_offsets=True, habits=("level",)).fit(table)


@case
def table_with_levels() -> Numbers:
    return answers(estimator_with_levels(), station_table(9))
