# SPDX-License-Identifier: MIT
"""What a summary says, in units that a person would use."""

import pytest

from weft.estimator.summary import _lasting


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
