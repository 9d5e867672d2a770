# SPDX-License-Identifier: MIT
"""Slopes that vary in space, against a dense Gaussian process whose slopes are a field."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import weft
from tests.estimator.tables import station_table
from tests.estimator.test_against_dense import DenseOracle, matern32


def table_of_slopes() -> pd.DataFrame:
    table = station_table().rename(columns={"lon": "x", "lat": "y"})
    table["value"] += 1.5 * (table["x"] - 11.0) * table["wind"]
    return table


@pytest.fixture(scope="module")
def fitted() -> weft.SpaceTimeGP:
    gp = weft.SpaceTimeGP(
        time="time",
        space=("x", "y"),
        target="value",
        covariates={"wind": "local"},
        habits=None,
        max_iterations=6,
        progress=None,
    )
    return gp.fit(table_of_slopes())


class DenseWithSlopes(DenseOracle):
    """The default model with a slope of wind that is a constant plus a field."""

    def __init__(self, train: pd.DataFrame, parameters: dict):
        super().__init__(train, parameters, covariate="wind", own_noise=None, log=False)

    def wind(self, rows: pd.DataFrame) -> np.ndarray:
        return (rows["wind"].to_numpy() - self.wind_centre) / self.wind_scale

    def beside_the_constant(self, a: pd.DataFrame, b: pd.DataFrame) -> np.ndarray:
        places = [(rows[["x", "y"]].to_numpy() - self.centre) / self.scale for rows in (a, b)]
        length = self.parameters["kernel.components[3].space.first.kernel.lengthscale"]
        return float(self.parameters["kernel.components[3].variance"]) * matern32(*places, length)

    def of_slopes(self, a: pd.DataFrame, b: pd.DataFrame) -> np.ndarray:
        return 10.0 + self.beside_the_constant(a, b)

    def covariance(self, a: pd.DataFrame, b: pd.DataFrame) -> np.ndarray:
        return super().covariance(a, b) + np.outer(self.wind(a), self.wind(b)) * self.beside_the_constant(a, b)


def test_predictions_and_slopes_equal_a_dense_process(fitted, tmp_path):
    table = table_of_slopes()
    oracle = DenseWithSlopes(table, fitted.result_.parameters)
    new = table.iloc[[0, 17, 40, 149]].copy()
    new["x"] += [0.0, 0.0, 0.3, -0.2]
    mean, variance = oracle.predict(new)
    answer = fitted.predict(new, of="field")
    # The engine's covariances carry a relative jitter of 1e-12, which the conditioning of the problem raises.
    assert_allclose(answer["mean"], mean, rtol=1e-7)
    assert_allclose(answer["latent_sd"], np.sqrt(variance), rtol=1e-6)

    cross = oracle.of_slopes(new, oracle.train) * oracle.wind(oracle.train)[None, :]
    slope, covariance = oracle.given(cross, oracle.of_slopes(new, new))
    unit = oracle.target_sd / oracle.wind_scale
    found = fitted.slopes(new[["x", "y"]])
    assert_allclose(found["wind_slope"], slope * unit, rtol=1e-6)
    assert_allclose(found["wind_slope_sd"], np.sqrt(np.diag(covariance)) * unit, rtol=1e-5)
    fitted.save(tmp_path / "slopes.weft")
    assert_allclose(weft.load(tmp_path / "slopes.weft").predict(new)["mean"], fitted.predict(new)["mean"], rtol=1e-12)


def test_the_slope_at_a_place_is_found(fitted):
    places = table_of_slopes()[["x", "y"]].drop_duplicates()
    found = fitted.slopes(places)
    truth = 0.6 + 1.5 * (places["x"] - 11.0)
    assert np.all(np.abs(found["wind_slope"] - truth) < 4 * found["wind_slope_sd"])
    assert np.corrcoef(found["wind_slope"], truth)[0, 1] > 0.95
    assert "slope of wind" in fitted.summary()


def test_text_says_the_same_and_kinds_have_no_slope():
    table = table_of_slopes().assign(kind="a")
    options = {"time": "time", "space": ("x", "y"), "target": "value", "progress": None}
    with pytest.raises(TypeError, match="'kind' holds kinds, which have no slope to vary in space"):
        weft.SpaceTimeGP(covariates=("kind:local",), **options).fit(table)
    with pytest.raises(ValueError, match="a covariate is 'linear' or 'local'; one of them is 'curved'"):
        weft.SpaceTimeGP(covariates={"wind": "curved"}, **options).fit(table)
