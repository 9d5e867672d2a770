# SPDX-License-Identifier: MIT
"""A column of space that says of which kind a place is: a field for each kind, as alike as is learned, equal to a dense process."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import weft
from tests.estimator.tables import station_table
from tests.estimator.test_against_dense import DenseOracle

ARGUMENTS = {"time": "time", "space": ("soil", "x", "y"), "target": "value", "max_iterations": 6, "progress": None}


def table_of_soils() -> pd.DataFrame:
    """Two soils at every station but the last, and what clay does more slowly."""
    dry = station_table().rename(columns={"lon": "x", "lat": "y"}).assign(soil="sand")
    wet = dry[dry["station"] < 5].assign(soil="clay")
    slow = 3.0 * np.cos((wet["time"] - wet["time"].min()).dt.days / 8.0 + wet["x"])
    return pd.concat([dry, wet.assign(value=0.5 * wet["value"] + slow)], ignore_index=True)


class DenseWithSoils(DenseOracle):
    """The default model with a correlation between soils in each component."""

    def __init__(self, train: pd.DataFrame, parameters: dict):
        renamed = {name.replace("space.first.kernel", "space"): value for name, value in parameters.items()}
        super().__init__(train, renamed, covariate=None, own_noise=None, log=False)

    def covariance(self, a: pd.DataFrame, b: pd.DataFrame) -> np.ndarray:
        same = a["soil"].to_numpy()[:, None] == b["soil"].to_numpy()[None, :]
        whole = self.parameters
        total = np.zeros(same.shape)
        for number in (0, 1):
            other = f"kernel.components[{1 - number}].variance"
            self.parameters = whole | {other: 0.0}
            alike = float(whole[f"kernel.components[{number}].space.second.kernel.correlation"])
            total += super().covariance(a, b) * np.where(same, 1.0, alike)
        self.parameters = whole
        return total


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return table_of_soils()


@pytest.fixture(scope="module")
def gp(table) -> weft.SpaceTimeGP:
    return weft.SpaceTimeGP(**ARGUMENTS, habits=None).fit(table)


def test_predictions_equal_a_dense_process_for_soils_seen_and_not(gp, table):
    oracle = DenseWithSoils(table, gp.result_.parameters)
    new = table.iloc[[0, 17, 160, 160, 149]].copy()
    new["soil"] = ["sand", "clay", "clay", "rock", "clay"]
    new["x"] += [0.0, 0.0, 0.3, 0.3, -0.2]
    mean, variance = oracle.predict(new)
    answer = gp.predict(new)
    # The engine's covariances carry a relative jitter of 1e-12, which the conditioning of the problem raises.
    assert_allclose(answer["mean"], mean, rtol=1e-7)
    assert_allclose(answer["latent_sd"], np.sqrt(variance), rtol=1e-6)
    assert float(gp.result_.parameters["kernel.components[0].space.second.kernel.correlation"]) != 0.5
    assert "between kinds of soil" in gp.summary()


def test_every_verb_knows_the_kind_of_a_place(gp, table, tmp_path):
    mpl.use("Agg")
    ahead = gp.forecast("2D")
    assert len(ahead) == 2 * 11
    assert set(ahead["soil"]) == {"clay", "sand"}
    again = gp.predict(ahead[["time", "x", "y", "soil"]])
    assert_allclose(again["mean"], ahead["mean"], rtol=1e-6)
    place = {"x": 11.0, "y": 47.5, "soil": "clay"}
    series = gp.point(place, ["2021-03-03", "2021-03-04"])
    grid = gp.grid(0.5, ["2021-03-03"], terrain=_soils_of_a_map(table))
    mapped = gp.predict(grid)["mean"].sel(x=11.0, y=47.5).to_numpy()
    assert_allclose(mapped, series["mean"][:1], rtol=1e-9)
    assert_array_equal(gp.suggest(table[["x", "y", "soil"]], 2)["soil"].isin(["clay", "sand"]), True)
    filled = gp.fill(table)
    assert_allclose(filled["value"][17], gp.predict(table.iloc[[17]])["mean"])
    for axes in (gp.plot.map(), gp.plot.series(0), gp.plot.components(0)):
        axes.figure.clear()
    gp.save(tmp_path / "model.weft")
    assert_allclose(weft.load(tmp_path / "model.weft").predict(table[:9])["mean"], gp.predict(table[:9])["mean"])


@pytest.mark.long
def test_the_report_is_of_the_most_frequent_kind(gp, tmp_path):
    gp.report(tmp_path / "report.html")
    assert "The map is for soil sand, the most frequent." in (tmp_path / "report.html").read_text()


def _soils_of_a_map(table):
    x, y = np.arange(9.5, 13.0, 0.5), np.arange(46.5, 49.5, 0.5)
    points = pd.MultiIndex.from_product([y, x], names=["y", "x"])
    return pd.DataFrame({"soil": "clay"}, index=points).reset_index()


@pytest.mark.parametrize(
    "more", [{"pseudo_points": 7, "covariates": ("wind",)}, {"regions": 2}], ids=["points", "regions"]
)
def test_pseudo_points_regions_and_covariates_go_with_kinds(table, more):
    arguments = ARGUMENTS | {"max_iterations": 2, "habits": None}
    scores = weft.SpaceTimeGP(**arguments, **more).fit(table).score(table)
    assert scores["mean_crps"] < 0.7 * scores["mean_crps_climatology"]


def test_kinds_alone_and_numbers_gone_wrong_are_refused(table):
    with pytest.raises(
        ValueError, match=r"space has kinds alone \(soil\), which say nothing of near and far; name columns"
    ):
        weft.SpaceTimeGP(**ARGUMENTS | {"space": "soil"}).fit(table)
    wrong = table.assign(x=table["x"].astype(str))
    wrong.loc[3, "x"] = "unknown"
    with pytest.raises(ValueError, match=r"'x'.*unknown"):
        weft.SpaceTimeGP(**ARGUMENTS).fit(wrong)
    several = table.assign(other=table["value"] + 1)
    with pytest.raises(
        ValueError, match=r"several targets do not go with a column of space that holds kinds \('soil'\) yet"
    ):
        weft.SpaceTimeGP(**ARGUMENTS | {"target": ("value", "other")}).fit(several)
