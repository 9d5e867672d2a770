# SPDX-License-Identifier: MIT
"""What a summary says, in units that a person would use."""

import numpy as np
import pandas as pd
import pytest

import weft
from weft.estimator.summary import _lasting
from weft.report.build import _unexplained_by_noise


@pytest.mark.parametrize(
    ("amount", "unit", "expected"),
    [
        (73_700.0, "minutes", "51.2 days"),
        (4_610_000.0, "minutes", "8.77 years"),
        (90.0, "seconds", "90 seconds"),
        (7_200.0, "seconds", "2 hours"),
        (30.0, "hours", "30 hours"),
        (400.0, "days", "400 days"),
        (2_000.0, "days", "5.48 years"),
        (520.0, "weeks", "9.97 years"),
        (1e6, "years", "1,000,000 years"),
        # A clock that counts something of its own has no other unit.
        (1e6, "time", "1,000,000 time"),
    ],
)
def test_a_time_is_told_in_a_fitting_unit(amount, unit, expected):
    assert _lasting(amount, unit) == expected


def rough_field(num_places=30, num_times=12):
    """Each place for itself: what a few pseudo-points between them hold of it is little."""
    rng = np.random.default_rng(4)
    places = pd.DataFrame({"x": rng.uniform(0, 9, num_places), "y": rng.uniform(0, 9, num_places)})
    table = places.merge(pd.DataFrame({"time": pd.date_range("2020-01-01", periods=num_times)}), how="cross")
    table["value"] = np.repeat(rng.normal(size=num_places), num_times) + 0.3 * rng.normal(size=len(table))
    return table


def test_what_pseudo_points_leave_unexplained_is_told():
    arguments = {"time": "time", "space": ("x", "y"), "target": "value", "components": ("slow", "fast"), "habits": None}
    arguments |= {"max_iterations": 0, "progress": None}
    table = rough_field()
    gp = weft.SpaceTimeGP(**arguments, pseudo_points=3).fit(table)
    places, points = np.asarray(gp.posterior_.batches[0].places), np.asarray(gp.model_.pseudo_points)
    left = whole = 0.0
    for part in gp.model_.components:
        cross, own = (np.asarray(part.space.covariance(each, points)) for each in (places, points))
        held = np.mean(np.einsum("ij,jk,ik->i", cross, np.linalg.inv(own), cross))
        left, whole = left + float(part.variance) * (1 - held), whole + float(part.variance)
    noise = float(gp.model_.likelihood.variance)
    assert 0.05 < left / whole < 0.95
    said = f"pseudo-points leave {100 * left / whole:.2g} % of the field's variance unexplained, {100 * left / noise:.2g} % as much"
    assert said in gp.summary()
    assert _unexplained_by_noise(gp.fitted_) == pytest.approx(left / noise, rel=1e-5)
    assert "unexplained" not in weft.SpaceTimeGP(**arguments, pseudo_points=None).fit(table).summary()
    several = weft.SpaceTimeGP(**arguments, regions=2).fit(table)
    assert "2 regions answer from up to 360 rows each, exactly: nothing is left unexplained" in several.summary()
