# SPDX-License-Identifier: MIT
"""Means, sums and differences of groups against dense covariance algebra."""

import dataclasses
import logging

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm

import weft
from tests.estimator.tables import station_table
from tests.estimator.test_against_dense import DenseOracle
from weft.data.scaling import TargetScaling
from weft.data.transforms import transform_named
from weft.estimator.aggregating import Aggregation, aggregate, as_grouped
from weft.estimator.precision import in_float64


@pytest.fixture(scope="module")
def plane() -> pd.DataFrame:
    return station_table().rename(columns={"lon": "x", "lat": "y"})


@pytest.fixture(scope="module")
def gp(plane: pd.DataFrame) -> weft.SpaceTimeGP:
    return weft.SpaceTimeGP(time="time", space=("x", "y"), target="value", max_iterations=2, progress=None).fit(plane)


@pytest.fixture(scope="module")
def oracle(plane: pd.DataFrame, gp: weft.SpaceTimeGP) -> DenseOracle:
    return DenseOracle(plane, gp.result_.parameters, covariate=None, own_noise=None, log=False)


@pytest.fixture(scope="module")
def asked(plane: pd.DataFrame) -> pd.DataFrame:
    """Rows between stations and days, three regions, two periods, one row in no region."""
    rows = plane.iloc[10:60][["time", "x", "y"]].reset_index(drop=True)
    rows["x"] += 0.1
    rows["region"] = pd.Categorical(np.array(["north", "south", "east"])[np.arange(50) % 3])
    rows["period"] = np.where(np.arange(50) < 22, "early", "late")
    rows["share"] = 0.5 + np.arange(50) % 4
    rows.loc[7, "region"] = None
    return rows


def noise_variance(gp: weft.SpaceTimeGP, oracle: DenseOracle) -> float:
    return float(gp.result_.parameters["likelihood.variance"]) * oracle.target_sd**2


@pytest.mark.parametrize(("how", "of"), [("mean", "field"), ("sum", "field"), ("mean", "observation")])
def test_groups_equal_dense_algebra(gp, oracle, asked, how, of):
    found = gp.aggregate(asked, by=["region", "period"], weights="share", how=how, of=of, quantiles=(0.1,))
    mean, covariance = oracle.joint(asked)
    if of == "observation":
        covariance = covariance + noise_variance(gp, oracle) * np.eye(len(asked))
    assert list(found.columns) == ["region", "period", "mean", "sd", "q0.1", "rows", "uncertainty"]
    assert set(found["uncertainty"]) == {"exact"}
    assert len(found) == 6
    assert found["rows"].sum() == 49
    for line in found.itertuples():
        rows = np.flatnonzero((asked["region"] == line.region) & (asked["period"] == line.period))
        weights = asked["share"].to_numpy()[rows]
        weights = weights / weights.sum() if how == "mean" else weights
        assert line.rows == len(rows)
        assert_allclose(line.mean, weights @ mean[rows], rtol=1e-7)
        assert_allclose(line.sd, np.sqrt(weights @ covariance[np.ix_(rows, rows)] @ weights), rtol=1e-6)
        assert_allclose(line[5], norm.ppf(0.1, line.mean, line.sd), rtol=1e-12)


def test_a_difference_has_the_uncertainty_of_the_difference(gp, oracle, asked, caplog):
    found = gp.aggregate(asked, by="period", compare=("late", "early"))
    mean, covariance = oracle.joint(asked)
    weights = np.where(asked["period"] == "late", 1 / 28, -1 / 22)
    assert found[["a", "b"]].to_numpy().tolist() == [["late", "early"]]
    assert_allclose(found["mean"], weights @ mean, rtol=1e-6)
    assert_allclose(found["sd"], np.sqrt(weights @ covariance @ weights), rtol=1e-6)
    assert found["rows"].item() == 50

    apart = gp.aggregate(asked, by=["region", "period"], compare=("late", "early"))
    assert apart["region"].tolist() == ["east", "north", "south"]
    one = gp.aggregate(asked, by=["region", "period"], compare=(("east", "late"), ("north", "early")))
    both = gp.aggregate(asked, by=["region", "period"])
    both = both.set_index(["region", "period"])["mean"]
    assert_allclose(one["mean"], both["east", "late"] - both["north", "early"], rtol=1e-9)
    assert_allclose(apart["mean"].iloc[0], both["east", "late"] - both["east", "early"], rtol=1e-9)

    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="weft"):
        gp.aggregate(asked[asked["x"] > asked["x"].min()], by="period", compare=("late", "early"))
        assert not caplog.records
        some = asked[(asked["period"] == "late") | (asked["x"] > asked["x"].median())]
        gp.aggregate(some, by="period", compare=("late", "early"))
    assert "different places (6 and 3, 3 in both)" in caplog.text


@in_float64
def test_a_transformed_target_is_sampled(gp, oracle, asked):
    """Sums of log-normals: means exact, deviations by draws."""
    target = TargetScaling(transform_named("log"), 0.4, 0.7)
    translation = dataclasses.replace(gp.translation_, target=target)
    fitted = dataclasses.replace(gp.fitted_, translation=translation)
    question = Aggregation(("period",), None, "sum", "field", (0.5,), 4000, 1)
    found = aggregate(fitted, as_grouped(fitted, asked, question), question, None)
    mean, covariance = oracle.joint(asked)
    mean = (mean - oracle.target_mean) / oracle.target_sd * 0.7 + 0.4
    covariance = covariance / oracle.target_sd**2 * 0.49
    expected = np.exp(mean + np.diag(covariance) / 2)
    spread = np.outer(expected, expected) * np.expm1(covariance)
    assert set(found["uncertainty"]) == {"sampled"}
    for line, period in zip(found.itertuples(), ("early", "late"), strict=True):
        rows = np.flatnonzero(asked["period"] == period)
        assert_allclose(line.mean, expected[rows].sum(), rtol=1e-7)
        # 4000 draws know a deviation to 1.1 %; five of those.
        assert_allclose(line.sd, np.sqrt(spread[np.ix_(rows, rows)].sum()), rtol=0.06)


def test_parts_of_the_time_areas_and_grids(fitted, table):
    by_day = fitted.aggregate(table, by="day", quantiles=())
    assert by_day["day"].tolist() == sorted(table["time"].dt.day.unique())
    whole = fitted.aggregate(table, weights="area")
    weights = np.cos(np.radians(table["lat"]))
    expected = np.average(fitted.predict(table)["mean"], weights=weights)
    assert_allclose(whole["mean"], expected, rtol=1e-9)
    grid = table.set_index(["time", "station"])[["lon", "lat", "elevation"]].to_xarray()
    assert_allclose(fitted.aggregate(grid, weights="area")["mean"], expected, rtol=1e-9)


def test_what_cannot_be_put_together(gp, asked):
    with pytest.raises(KeyError, match="table has no column 'country'"):
        gp.aggregate(asked, by=["country"])
    with pytest.raises(KeyError, match="table has no column 'population'"):
        gp.aggregate(asked, weights="population")
    with pytest.raises(ValueError, match="weights must be zero or positive"):
        gp.aggregate(asked.assign(share=-1.0), weights="share")
    with pytest.raises(ValueError, match="how must be 'mean' or 'sum'"):
        gp.aggregate(asked, how="median")
    with pytest.raises(ValueError, match="there is no group 'middle' of period; there are early, late"):
        gp.aggregate(asked, by="period", compare=("middle", "late"))
    with pytest.raises(ValueError, match="compare must be two groups"):
        gp.aggregate(asked, by="period", compare=("late",))
    with pytest.raises(ValueError, match="compare needs groups"):
        gp.aggregate(asked, compare=("late", "early"))
    with pytest.raises(ValueError, match="no row has a value of region"):
        gp.aggregate(asked.assign(region=None), by="region")


def test_groups_by_polygons_are_those_of_the_places_inside(fitted, caplog):
    """Of the places west and east of 11 degrees, by name, against a column that says the same."""

    def square(west: float, east: float) -> list:
        return [[[west, 40.0], [east, 40.0], [east, 50.0], [west, 50.0], [west, 40.0]]]

    halves = {"west": square(10.0, 11.0), "east": square(11.0, 11.7)}
    features = [
        {"type": "Feature", "properties": {"name": name}, "geometry": {"type": "Polygon", "coordinates": rings}}
        for name, rings in halves.items()
    ]
    rows = station_table()[:60]
    side = np.where(rows["lon"] < 11.0, "west", np.where(rows["lon"] < 11.7, "east", None))
    expected = fitted.aggregate(rows.assign(name=side), by=["name"])
    with caplog.at_level(logging.INFO, "weft"):
        found = fitted.aggregate(rows, by=["name"], polygons={"type": "FeatureCollection", "features": features})
    pd.testing.assert_frame_equal(found, expected, check_dtype=False)
    assert len(found) == 2
    by_number = fitted.aggregate(rows, polygons={"type": "FeatureCollection", "features": features[::-1]})
    assert_allclose(by_number["mean"], found["mean"])
    # One without a row has no line, and nobody should have to count to see it.
    caplog.clear()
    nowhere = {
        "type": "Feature",
        "properties": {"name": "sea"},
        "geometry": {"type": "Polygon", "coordinates": square(0.0, 1.0)},
    }
    some = fitted.aggregate(rows, by=["name"], polygons={"type": "FeatureCollection", "features": [nowhere, *features]})
    pd.testing.assert_frame_equal(some, found)
    assert "1 of 3 polygons have no row in them, and no group (polygon 0, name sea)" in caplog.text
    # A number alone does not say which polygon it is.
    assert list(by_number.columns[:2]) == ["polygon", "name"]
    assert list(by_number["name"]) == ["east", "west"]


def test_polygons_need_degrees(gp, plane):
    features = [{"type": "Feature", "geometry": {"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 0]]]}}]
    with pytest.raises(ValueError, match="polygons are in degrees, and the model's columns of space are not"):
        gp.aggregate(plane, polygons={"type": "FeatureCollection", "features": features})
