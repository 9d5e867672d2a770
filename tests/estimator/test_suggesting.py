# SPDX-License-Identifier: MIT
"""The place suggested is the one that measuring everywhere in turn shows to be best."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import weft
from weft.estimator.precision import in_float64


@in_float64
def brute_force(
    gp: weft.SpaceTimeGP, places: pd.DataFrame, time: object, already: pd.DataFrame | None = None
) -> np.ndarray:
    """Mean variance of the field over the places once each of them has been measured, besides those that are already.

    What is measured does not matter.
    """
    asked = places.assign(**{gp.time: time})
    found = []
    for k in range(len(places)):
        seen = asked.iloc[[k]]
        if already is not None and len(already):
            seen = pd.concat([already[places.columns].assign(**{gp.time: time}), seen])
        measured = gp.fitted_.updated(gp.fitted_.read(seen.assign(value=17.0)))
        rows = measured.translation
        read = gp.fitted_.read(asked.assign(value=1.0))
        latent = measured.posterior.marginals(rows.times(read), rows.places(read))
        found.append(float(np.mean(latent.variance)) * rows.target.scale**2)
    return np.array(found)


def test_suggestions_equal_brute_force(fitted: weft.SpaceTimeGP) -> None:
    places = pd.DataFrame(
        {
            "lon": [10.1, 10.8, 11.9, 11.2, 10.5],
            "lat": [47.1, 48.4, 47.3, 47.9, 47.6],
            "elevation": [80.0, 500.0, 850.0, 300.0, 420.0],
        }
    )
    day = pd.Timestamp("2021-03-12")
    after = brute_force(fitted, places, day)
    found = fitted.suggest(places, num=2, time=day)
    best = int(np.argmin(after))
    assert list(found.columns) == ["lon", "lat", "elevation", "mean_variance_before", "mean_variance_after"]
    assert found[["lon", "lat", "elevation"]].iloc[0].tolist() == places.iloc[best].tolist()
    # An exact model is conditioned on a new place as well, so the two agree to rounding.
    assert_allclose(found["mean_variance_after"].iloc[0], after[best], rtol=1e-5)
    assert found["mean_variance_before"].iloc[1] == found["mean_variance_after"].iloc[0]
    assert found["mean_variance_after"].iloc[1] < found["mean_variance_after"].iloc[0]


def test_what_cannot_be_suggested(fitted: weft.SpaceTimeGP) -> None:
    places = pd.DataFrame({"lon": [10.1], "lat": [47.1], "elevation": [80.0]})
    with pytest.raises(ValueError, match="num is 2, and there are 1 places"):
        fitted.suggest(places, num=2)
    with pytest.raises(KeyError, match="table has no column 'elevation'"):
        fitted.suggest(places[["lon", "lat"]])


@pytest.mark.parametrize("width", [2.0, 20.0])
def test_over_regions_suggestions_equal_brute_force(width: float) -> None:
    """They had come from 200 draws: the order was chance where places tell about as much."""
    rng = np.random.default_rng(3)
    table = pd.DataFrame(
        {"x": rng.uniform(0, 30, 240), "y": rng.uniform(0, 12, 240), "t": np.repeat(np.arange(8.0), 30)}
    )
    table["value"] = np.sin(table["x"] / 3) + np.cos(table["y"] / 2 + table["t"]) + 0.3 * rng.normal(size=240)
    options = {"time": "t", "space": ("x", "y"), "target": "value", "max_iterations": 4, "progress": None}
    gp = weft.SpaceTimeGP(**options, regions=4).fit(table)
    places = pd.DataFrame({"x": 5 + width * rng.random(12), "y": 12 * rng.random(12)})
    assert gp.fitted_.posterior.is_exact_over(
        np.full(12, 5.0), gp.fitted_.translation.places(gp.fitted_.read(places.assign(t=5.0, value=0.0)))
    ) == (width == 2.0)
    found = gp.suggest(places, num=2, time=5.0)
    for number in range(2):
        after = brute_force(gp, places, 5.0, already=found.iloc[:number])
        assert found[["x", "y"]].iloc[number].tolist() == places.iloc[int(np.argmin(after))].tolist()
        assert_allclose(found["mean_variance_after"].iloc[number], np.min(after), rtol=1e-5)
    assert found["mean_variance_before"].iloc[1] == found["mean_variance_after"].iloc[0]
