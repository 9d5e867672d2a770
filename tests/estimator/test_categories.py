# SPDX-License-Identifier: MIT
"""Categories as covariates: each level's effect, shrunk by how far levels differ, equal to a dense Gaussian process."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import weft
from tests.estimator.tables import station_table
from tests.estimator.test_against_dense import DenseOracle
from weft.data.categories import MISSING, MOST_LEVELS

KINDS = ("flat", "house", "barn")
EFFECTS = {"flat": 0.0, "house": 2.5, "barn": -1.5}


def table_of_kinds() -> pd.DataFrame:
    """Kinds of which one is rare, a yes and no, a number; one row has no kind."""
    rng = np.random.default_rng(11)
    table = station_table().rename(columns={"lon": "x", "lat": "y"})
    table["kind"] = rng.choice(KINDS, size=len(table), p=[0.55, 0.42, 0.03])
    table["new"] = rng.random(len(table)) < 0.3
    table["value"] += table["kind"].map(EFFECTS) + 0.7 * table["new"]
    table.loc[40, "kind"] = None
    return table


@pytest.fixture(scope="module")
def fitted() -> weft.SpaceTimeGP:
    gp = weft.SpaceTimeGP(
        time="time",
        space=("x", "y"),
        target="value",
        covariates=("kind", "wind", "new"),
        habits=None,
        max_iterations=8,
        progress=None,
    )
    return gp.fit(table_of_kinds())


class DenseWithKinds(DenseOracle):
    """The default model with a slope of wind, and an effect of each level."""

    def __init__(self, train: pd.DataFrame, parameters: dict):
        super().__init__(train, parameters, covariate="wind", own_noise=None, log=False)

    def covariance(self, a: pd.DataFrame, b: pd.DataFrame) -> np.ndarray:
        return super().covariance(a, b) + self.of_levels(a, b, ("kind", "new"))

    def of_levels(self, a: pd.DataFrame, b: pd.DataFrame, kinds: tuple[str, ...]) -> np.ndarray:
        total = np.zeros((len(a), len(b)))
        for number, name in ((3, "kind"), (4, "new")):
            if name in kinds:
                levels = [each[name].astype(object).where(each[name].notna(), "none").to_numpy() for each in (a, b)]
                same = levels[0][:, None] == levels[1][None, :]
                total += float(self.parameters[f"kernel.components[{number}].variance"]) * same
        return total


def test_predictions_equal_a_dense_process_with_an_effect_a_level(fitted):
    table = table_of_kinds()
    oracle = DenseWithKinds(table, fitted.result_.parameters)
    new = table.iloc[[0, 17, 40, 90, 149]].copy()
    # A kind nobody has seen, next to one without any.
    new["kind"] = ["barn", "castle", None, "house", "castle"]
    new["new"] = [True, True, False, False, True]
    new["x"] += 0.1
    mean, variance = oracle.predict(new)
    answer = fitted.predict(new, of="field")
    # The engine's covariances carry a relative jitter of 1e-12, which the conditioning of the problem raises.
    assert_allclose(answer["mean"], mean, rtol=1e-7)
    assert_allclose(answer["latent_sd"], np.sqrt(variance), rtol=1e-6)
    known = new.assign(kind="house")
    assert np.all(answer["latent_sd"].to_numpy()[[1, 4]] > fitted.predict(known)["latent_sd"].to_numpy()[[1, 4]])


def test_effects_are_the_posterior_of_each_level(fitted):
    oracle = DenseWithKinds(table_of_kinds(), fitted.result_.parameters)
    effects = fitted.effects().fillna({"level": ""}).set_index(["covariate", "level"])
    assert list(effects.index) == [
        ("wind", ""),
        *(("kind", level) for level in (MISSING, "barn", "flat", "house")),
        ("new", "False"),
        ("new", "True"),
    ]
    levels = pd.DataFrame({"kind": ["barn", "flat", "house"], "new": False})
    cross = oracle.of_levels(levels, oracle.train, ("kind",))
    mean, covariance = oracle.given(cross, oracle.of_levels(levels, levels, ("kind",)))
    found = effects.loc["kind"].loc[["barn", "flat", "house"]]
    assert_allclose(found["slope"], mean * oracle.target_sd, rtol=1e-6)
    assert_allclose(found["sd"], np.sqrt(np.diag(covariance)) * oracle.target_sd, rtol=1e-6)
    assert "effect of kind house" in fitted.summary()


def test_levels_are_known_whatever_the_type_of_their_column(fitted, tmp_path):
    table = table_of_kinds().iloc[30:60]
    expected = fitted.predict(table)["mean"].to_numpy()
    as_category = table.assign(kind=table["kind"].astype("category"), new=table["new"].astype(str))
    assert_allclose(fitted.predict(as_category)["mean"], expected, rtol=1e-12)
    # As databases and R write yes and no; they had been levels never seen.
    for written in (table["new"].astype(int), table["new"].map({True: "TRUE", False: "FALSE"})):
        assert_allclose(fitted.predict(table.assign(new=written))["mean"], expected, rtol=1e-12)
    fitted.save(tmp_path / "kinds.weft")
    assert_allclose(weft.load(tmp_path / "kinds.weft").predict(table)["mean"], expected, rtol=1e-12)
    place = {"x": 11.0, "y": 47.5, "kind": "barn", "wind": 3.0, "new": True}
    row = pd.DataFrame([place | {"time": table["time"].iloc[0]}])
    assert_allclose(fitted.point(place, table["time"].iloc[:1])["mean"], fitted.predict(row)["mean"], rtol=1e-12)


def test_a_column_of_names_is_refused():
    table = table_of_kinds().iloc[np.tile(np.arange(150), 2)].reset_index(drop=True)
    table["owner"] = [f"owner {number}" for number in range(len(table))]
    gp = weft.SpaceTimeGP(time="time", space=("x", "y"), target="value", covariates="owner", progress=None)
    with pytest.raises(ValueError, match=f"'owner' has 298 levels, and {MOST_LEVELS} can be told apart at most"):
        gp.fit(table)


@pytest.mark.long
def test_rare_levels_are_predicted_better_than_by_indicator_columns():
    """Forty levels, half of them seen once: what the others are like tells more of these than their one row."""
    rng = np.random.default_rng(5)
    levels = [f"level {number:02d}" for number in range(40)]
    effects = dict(zip(levels, rng.normal(0.0, 1.0, 40), strict=True))
    shares = np.where(np.arange(40) < 20, 9.0, 1.0)
    names = np.concatenate([np.repeat(levels, shares.astype(int)), np.repeat(levels, 5)])
    places = rng.uniform(0.0, 10.0, (8, 2))
    which = rng.integers(0, 8, len(names))
    table = pd.DataFrame(
        {"time": rng.integers(0, 20, len(names)).astype(float), "x": places[which, 0], "y": places[which, 1]}
    )
    table["level"] = names
    field = np.sin(table["time"] / 4.0) + 0.2 * table["x"]
    table["value"] = field + table["level"].map(effects) + rng.normal(0.0, 0.8, len(names))
    is_test = np.arange(len(table)) >= 200
    indicators = pd.get_dummies(table["level"]).astype(float)
    both = pd.concat([table, indicators], axis=1)
    scores = {}
    for name, covariates in {"categories": ("level",), "indicators": tuple(levels[1:])}.items():
        gp = weft.SpaceTimeGP(
            time="time", space=("x", "y"), target="value", covariates=covariates, max_iterations=25, progress=None
        )
        gp.fit(both[~is_test])
        rows = gp.predict(both[is_test])
        error = (rows["mean"] - both.loc[is_test, "value"]) ** 2
        scores[name] = error.groupby(both.loc[is_test, "level"]).mean()
    common, rare = levels[:20], levels[20:]
    assert scores["categories"][common].mean() < 1.02 * scores["indicators"][common].mean()
    assert scores["categories"][rare].mean() < 0.9 * scores["indicators"][rare].mean()
