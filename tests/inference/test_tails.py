# SPDX-License-Identifier: MIT
"""Tails that few places tell of, against draws."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from weft.inference.tails import MOST_FREEDOM, LeftOutWays, Tails, learn_tails


@pytest.mark.parametrize("count", [4, 12, 60])
def test_one_number_more_than_few_lies_where_it_should(count):
    """The next of normal numbers, by the root mean square of the deviations of those before from their mean."""
    rng = np.random.default_rng(count)
    numbers = rng.normal(3.0, 2.0, (40_000, count + 1))
    mean, deviation = numbers[:, :-1].mean(axis=1), numbers[:, :-1].std(axis=1)
    tails = Tails(1e9).for_one_more(count)
    for level in (0.5, 0.9):
        half = tails.scale * deviation * stats.t.ppf(0.5 + level / 2, tails.freedom)
        held = np.mean(np.abs(numbers[:, -1] - mean) <= half)
        # Four standard errors of as many draws.
        assert_allclose(held, level, atol=4 * np.sqrt(level * (1 - level) / len(numbers)))


def test_many_places_change_nothing_and_few_never_lose_the_variance():
    tails = Tails(6.0, 0.8, 1.3)
    many = tails.for_one_more(100_000)
    assert_allclose([many.freedom, many.scale, many.reach], [6.0, 0.8, 1.3], rtol=1e-4)
    assert Tails(2.3).for_one_more(4).freedom > 2
    assert np.isfinite(Tails(2.3).for_one_more(4).deviation)


def test_tails_are_those_that_errors_were_drawn_from():
    """In two ways each of which every row may be meant, of which the second is never the one."""
    rng = np.random.default_rng(1)
    sd = rng.uniform(0.5, 2.0, 20_000)
    error = 0.7 * sd * rng.standard_t(4.0, len(sd))
    found = learn_tails(LeftOutWays(error[None], sd[None], np.ones((1, len(sd)))))
    # The logarithm of a scale, and of so few degrees of freedom, is known to a few parts in a hundred of as many rows.
    assert_allclose(found.scale, 0.7, rtol=0.05)
    assert_allclose(found.freedom, 4.0, rtol=0.15)
    never = np.stack([np.ones(len(sd)), np.zeros(len(sd))])
    mixed = learn_tails(LeftOutWays(np.stack([error, 9 + error]), np.stack([sd, sd]), never))
    assert_allclose([mixed.freedom, mixed.scale], [found.freedom, found.scale], rtol=1e-6)
    assert learn_tails(LeftOutWays(error[None, :50], sd[None, :50], np.ones((1, 50)))) == Tails(MOST_FREEDOM)
