# SPDX-License-Identifier: MIT
"""Rows that are means over areas, beside rows at places, equal to a dense process whose covariances are averaged by hand."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import weft
from tests.estimator.tables import station_table
from tests.estimator.test_against_dense import DenseOracle
from weft.data.area_points import read_members

ARGUMENTS = {"time": "time", "space": ("x", "y"), "target": "value", "max_iterations": 4, "progress": None}
# Areas of four points and of two, unequally weighted.
POINTS = pd.DataFrame(
    {
        "county": ["east"] * 4 + ["west"] * 2,
        "x": [11.0, 11.4, 11.8, 11.9, 10.1, 10.6],
        "y": [47.2, 48.1, 47.7, 47.3, 47.9, 48.4],
        "weight": [1.0, 2.0, 0.5, 1.5, 3.0, 1.0],
    }
)
SQUARES = {
    "type": "FeatureCollection",
    "features": [
        {
            "type": "Feature",
            "properties": {"county": name},
            "geometry": {"type": "Polygon", "coordinates": [[[w, 47], [w + 1, 47], [w + 1, 48.5], [w, 48.5], [w, 47]]]},
        }
        for name, w in (("west", 10), ("east", 11))
    ],
}


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    """Four of six stations, and two counties whose means no coordinates are known of."""
    whole = station_table().rename(columns={"lon": "x", "lat": "y"})
    in_county = whole.assign(county=np.where(whole["x"] > 11.0, "east", "west"))
    means = in_county.groupby(["time", "county"], as_index=False)["value"].mean()
    return pd.concat([whole[whole["station"] < 4], means], ignore_index=True)


@pytest.fixture(scope="module")
def gp(table) -> weft.SpaceTimeGP:
    return weft.SpaceTimeGP(**ARGUMENTS, area="county", areas=POINTS, habits=None).fit(table)


class DenseWithAreas(DenseOracle):
    """Every row as its points, whose covariances are averaged by their weights."""

    def __init__(self, train: pd.DataFrame, parameters: dict):
        renamed = {name.replace("space.kernel", "space"): value for name, value in parameters.items()}
        places = train[train["county"].isna()]
        super().__init__(pd.concat([places, POINTS]), renamed, covariate=None, own_noise=None, log=False)
        self.origin = train["time"].min()
        self.train = train[train["value"].notna()]
        target = self.train["value"]
        self.target_mean, self.target_sd = target.mean(), target.std(ddof=0)
        self.z = ((target - self.target_mean) / self.target_sd).to_numpy()

    def covariance(self, a: pd.DataFrame, b: pd.DataFrame) -> np.ndarray:
        (many_a, over_a), (many_b, over_b) = self.points_of(a), self.points_of(b)
        return over_a @ super().covariance(many_a, many_b) @ over_b.T

    def points_of(self, rows: pd.DataFrame) -> tuple[pd.DataFrame, np.ndarray]:
        parts = []
        for number, (_, row) in enumerate(rows.iterrows()):
            own = POINTS[POINTS["county"] == row["county"]]
            own = pd.DataFrame({"x": [row["x"]], "y": [row["y"]], "weight": [1.0]}) if own.empty else own
            share = own["weight"] / own["weight"].sum()
            parts.append(own[["x", "y"]].assign(time=row["time"], share=share, number=number))
        many = pd.concat(parts, ignore_index=True)
        over = np.zeros((len(rows), len(many)))
        over[many["number"], np.arange(len(many))] = many["share"]
        return many, over


def test_predictions_equal_a_dense_process_of_averages(gp, table):
    oracle = DenseWithAreas(table, gp.result_.parameters)
    new = table.iloc[[0, 17, 60, 101, 148]].copy()
    new["x"] += [0.0, 0.0, 0.3, 0.0, 0.0]
    new["time"] += pd.to_timedelta([0.0, 0.0, 0.5, 0.5, 9.0], unit="D")
    assert list(new["county"].notna()) == [False, False, False, True, True]
    mean, variance = oracle.predict(new)
    answer = gp.predict(new)
    # The engine's covariances carry a relative jitter of 1e-12, which the conditioning of the problem raises.
    assert_allclose(answer["mean"], mean, rtol=1e-7)
    assert_allclose(answer["latent_sd"], np.sqrt(variance), rtol=1e-6)
    _, covariance = oracle.joint(new)
    group = gp.aggregate(new, by=(), of="field")
    assert_allclose(group["sd"], np.sqrt(covariance.mean()), rtol=1e-6)


def test_verbs_take_areas_and_places(gp, table, tmp_path):
    mpl.use("Agg")
    ahead = gp.forecast("2D")
    assert ahead["county"].isna().sum() == 8
    assert set(ahead["county"].dropna()) == {"east", "west"}
    assert_allclose(gp.predict(ahead[["time", "x", "y", "county"]])["mean"], ahead["mean"], rtol=1e-6)
    series = gp.point({"county": "east"}, ["2021-03-05"])
    again = gp.predict(pd.DataFrame({"time": ["2021-03-05"], "x": np.nan, "y": np.nan, "county": "east"}))
    assert_allclose(series["mean"], again["mean"])
    at_place = gp.predict(table[["time", "x", "y"]][:5])
    assert_allclose(at_place["mean"], gp.predict(table[:5])["mean"])
    assert gp.audit(table).empty
    for axes in (gp.plot.map(), gp.plot.series(5)):
        axes.figure.clear()
    gp.save(tmp_path / "model.weft")
    assert_allclose(weft.load(tmp_path / "model.weft").predict(table)["mean"], gp.predict(table)["mean"])


def test_polygons_are_made_of_points_inside_them():
    members = read_members(SQUARES, "county", ("lon", "lat"))
    for name, west in (("west", 10), ("east", 11)):
        own = members.area == name
        assert own.sum() >= 25
        assert np.all((members.space["lon"][own] > west) & (members.space["lon"][own] < west + 1))
        middle = np.average(members.space["lat"][own], weights=members.weight[own])
        # South of the middle, where a degree of longitude is wider.
        assert 47.7 < middle < 47.75
    with pytest.raises(
        ValueError, match=r"polygons say where by longitude and latitude alone, and the columns of space are x, y"
    ):
        read_members(SQUARES, "county", ("x", "y"))
    with pytest.raises(ValueError, match="have no property 'parish' to name them by; they have county"):
        read_members(SQUARES, "parish", ("lon", "lat"))


def test_areas_nobody_told_of_are_refused(gp, table):
    with pytest.raises(
        ValueError, match="'county' names the area 'north', of which no point is known; there are east, west"
    ):
        gp.predict(table.assign(county="north"))
    with pytest.raises(ValueError, match="give both or neither"):
        weft.SpaceTimeGP(**ARGUMENTS, area="county").fit(table)
    with pytest.raises(ValueError, match="column 'x' must hold a number in every row; row 3"):
        gp.predict(table[:5].assign(x=[10.5, 10.5, 10.5, np.nan, 10.5]))
    with pytest.raises(KeyError, match="table has no column 'county'"):
        weft.SpaceTimeGP(**ARGUMENTS, area="county", areas=POINTS).fit(table.drop(columns="county"))
    with pytest.raises(ValueError, match="weights of area 'east' must be positive"):
        weft.SpaceTimeGP(**ARGUMENTS, area="county", areas=POINTS.assign(weight=-1.0)).fit(table)
