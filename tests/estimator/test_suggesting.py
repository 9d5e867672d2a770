# SPDX-License-Identifier: MIT
"""The place suggested is the one that measuring everywhere in turn shows to be best."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import weft
from weft.estimator.precision import in_float64
from weft.estimator.suggesting import squared_sums


@in_float64
def brute_force(gp: weft.SpaceTimeGP, places: pd.DataFrame, day: pd.Timestamp) -> np.ndarray:
    """Mean variance of the field over the places once each of them has been measured; what is measured does not matter."""
    asked = places.assign(time=day)
    found = []
    for k in range(len(places)):
        measured = gp.fitted_.updated(gp.fitted_.read(asked.iloc[[k]].assign(value=17.0)))
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


def test_covariances_that_were_drawn_had_the_noise_of_drawing_for_a_gain() -> None:
    """Over regions covariances are those of 200 draws: at 600 places that hardly know of each other, drawing added twice the truth."""
    random = np.random.default_rng(12)
    at = np.sort(random.uniform(0.0, 100.0, 600))
    deviation = random.uniform(0.5, 2.0, 600)
    truth = np.exp(-np.abs(at[:, None] - at) / 0.3) * np.outer(deviation, deviation)
    draws = np.linalg.cholesky(truth) @ random.normal(size=(600, 200))
    drawn = np.corrcoef(draws) * np.outer(deviation, deviation)
    expected = np.sum(truth**2, axis=0)
    np.testing.assert_allclose(squared_sums(truth, None), expected)
    raw, found = np.sum(drawn**2, axis=0), squared_sums(drawn, 200)
    assert np.median(raw / expected) > 1.4
    # What is left is noise about the truth, not a share of all places.
    assert abs(np.median(found / expected) - 1) < 0.05
    assert expected[np.argmax(found)] > 0.8 * expected.max()
