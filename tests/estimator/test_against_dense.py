# SPDX-License-Identifier: MIT
"""Predictions equal a Gaussian process written out in NumPy, from the raw columns on."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm

import weft
from tests.estimator.tables import station_table


def matern32(xs: np.ndarray, ys: np.ndarray, lengthscale: np.ndarray) -> np.ndarray:
    distance = np.sqrt((((xs[:, None, :] - ys[None, :, :]) / lengthscale) ** 2).sum(axis=2))
    return (1 + np.sqrt(3) * distance) * np.exp(-np.sqrt(3) * distance)


def matern12(xs: np.ndarray, ys: np.ndarray, lengthscale: float) -> np.ndarray:
    return np.exp(-np.abs(xs[:, None] - ys[None, :]) / lengthscale)


class DenseOracle:
    """The default model with given parameters, by a dense covariance over rows; everything standardised by hand."""

    def __init__(
        self, train: pd.DataFrame, parameters: dict, *, covariate: str | None, own_noise: str | None, log: bool
    ):
        self.parameters, self.covariate, self.log = parameters, covariate, log
        places = train[["x", "y"]].drop_duplicates()
        self.centre, self.scale = places.mean().to_numpy(), places.std(ddof=0).to_numpy()
        if covariate is not None:
            self.wind_centre, self.wind_scale = train[covariate].mean(), train[covariate].std(ddof=0)
        self.origin = train["time"].min()
        train = train[train["value"].notna()]
        target = np.log(train["value"]) if log else train["value"]
        self.target_mean, self.target_sd = target.mean(), target.std(ddof=0)
        self.train = train
        self.z = ((target - self.target_mean) / self.target_sd).to_numpy()
        own = 0.0 if own_noise is None else train[own_noise].to_numpy() / self.target_sd**2
        self.noise = parameters["likelihood.variance"] + own

    def covariance(self, a: pd.DataFrame, b: pd.DataFrame) -> np.ndarray:
        p = self.parameters
        times = [((frame["time"] - self.origin) / pd.Timedelta("1D")).to_numpy() for frame in (a, b)]
        places = [(frame[["x", "y"]].to_numpy() - self.centre) / self.scale for frame in (a, b)]
        columns = [time[:, None] for time in times]
        space = "space.kernel.lengthscale" if self.covariate is not None else "space.lengthscale"
        slow, fast = "kernel.components[0].", "kernel.components[1]."
        total = (
            p[f"{slow}variance"] * matern32(*places, p[slow + space]) * matern32(*columns, p[f"{slow}time.lengthscale"])
        )
        total += (
            p[f"{fast}variance"] * matern32(*places, p[fast + space]) * matern12(*times, p[f"{fast}time.lengthscale"])
        )
        if self.covariate is not None:
            winds = [(frame[self.covariate].to_numpy() - self.wind_centre) / self.wind_scale for frame in (a, b)]
            total += 10.0 * np.outer(*winds)
        return total

    def given(self, cross: np.ndarray, prior: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance, standardised, of what has this covariance with the rows seen and with itself."""
        gram = self.covariance(self.train, self.train) + np.diag(np.broadcast_to(self.noise, len(self.z)))
        return cross @ np.linalg.solve(gram, self.z), prior - cross @ np.linalg.solve(gram, cross.T)

    def joint(self, new: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance over rows."""
        mean, covariance = self.given(self.covariance(new, self.train), self.covariance(new, new))
        return mean * self.target_sd + self.target_mean, covariance * self.target_sd**2

    def predict(self, new: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        mean, covariance = self.joint(new)
        return mean, np.diag(covariance)


@pytest.mark.parametrize("everything", [False, True], ids=["plain", "covariate, own noise and log"])
def test_predictions_equal_a_dense_gaussian_process(everything):
    table = station_table().rename(columns={"lon": "x", "lat": "y"})
    options = {"covariates": ("wind",), "noise_variance": "own_noise", "transform": "log"} if everything else {}
    gp = weft.SpaceTimeGP(time="time", space=["x", "y"], target="value", max_iterations=2, progress=None, **options)
    gp.fit(table)
    oracle = DenseOracle(
        table,
        gp.result_.parameters,
        covariate="wind" if everything else None,
        own_noise="own_noise" if everything else None,
        log=everything,
    )
    new = table.iloc[[0, 17, 40, 40, 149]].copy()
    new["x"] += [0.0, 0.0, 0.3, 0.3, -0.2]
    new["time"] += pd.to_timedelta([0.0, 0.0, 0.5, 0.5, 9.0], unit="D")
    mean, variance = oracle.predict(new)
    noise = float(gp.result_.parameters["likelihood.variance"]) * oracle.target_sd**2
    noise = noise + (new["own_noise"].to_numpy() if everything else 0.0)
    back = np.exp if everything else (lambda values: values)

    answer = gp.predict(new, quantiles=(0.1, 0.5))
    # The engine's covariances carry a relative jitter of 1e-12, which the conditioning of the problem raises.
    assert_allclose(answer["q0.5"], back(mean), rtol=1e-7)
    assert_allclose(answer["q0.1"], back(norm.ppf(0.1, mean, np.sqrt(variance + noise))), rtol=1e-7)
    field = gp.predict(new, quantiles=(0.9,), of="field")
    assert_allclose(field["q0.9"], back(norm.ppf(0.9, mean, np.sqrt(variance))), rtol=1e-7)
    assert_allclose(field["sd"], answer["latent_sd"])
    if everything:
        assert_allclose(answer["mean"], np.exp(mean + (variance + noise) / 2), rtol=1e-6)
        assert_allclose(answer["sd"], answer["mean"] * np.sqrt(np.expm1(variance + noise)), rtol=1e-6)
    else:
        assert_allclose(answer["mean"], mean, rtol=1e-7)
        assert_allclose(answer["sd"], np.sqrt(variance + noise), rtol=1e-6)
        assert_allclose(answer["latent_sd"], np.sqrt(variance), rtol=1e-6)
    if everything:
        effects = gp.effects()
        slope, error = effects.loc[0, "slope"], effects.loc[0, "sd"]
        assert effects.loc[0, "covariate"] == "wind"
        ones = new.iloc[:1].assign(wind=oracle.wind_centre + oracle.wind_scale)
        zeros = new.iloc[:1].assign(wind=oracle.wind_centre)
        assert_allclose(slope * oracle.wind_scale, oracle.predict(ones)[0] - oracle.predict(zeros)[0], rtol=1e-6)
        assert 0 < error < abs(slope)
