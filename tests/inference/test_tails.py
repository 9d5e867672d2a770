# SPDX-License-Identifier: MIT
"""Tails that few places tell of, against draws."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from weft.inference.tails import MOST_FREEDOM, LeftOutWays, Tails, count_numbers, learn_tails


@pytest.mark.parametrize("count", [4, 12, 60])
def test_one_number_more_than_few_lies_where_it_should(count):
    """The next of normal numbers, by the root mean square of the deviations of those before from their mean."""
    rng = np.random.default_rng(count)
    numbers = rng.normal(3.0, 2.0, (40_000, count + 1))
    mean, deviation = numbers[:, :-1].mean(axis=1), numbers[:, :-1].std(axis=1)
    tails = Tails(1e9).for_one_more(float(count))
    for level in (0.5, 0.9):
        half = tails.scale * deviation * stats.t.ppf(0.5 + level / 2, tails.freedom)
        held = np.mean(np.abs(numbers[:, -1] - mean) <= half)
        # Four standard errors of as many draws.
        assert_allclose(held, level, atol=4 * np.sqrt(level * (1 - level) / len(numbers)))


def test_many_places_change_nothing_and_few_never_lose_the_variance():
    tails = Tails(6.0, 0.8, 1.3)
    many = tails.for_one_more(1e5)
    assert_allclose([many.freedom, many.scale, many.reach], [6.0, 0.8, 1.3], rtol=1e-4)
    assert Tails(2.3).for_one_more(4.0).freedom > 2
    assert np.isfinite(Tails(2.3).for_one_more(4.0).deviation)


def test_tails_are_those_that_errors_were_drawn_from():
    """In two ways each of which every row may be meant, of which the second is never the one."""
    rng = np.random.default_rng(1)
    sd = rng.uniform(0.5, 2.0, 20_000)
    error = 0.7 * sd * rng.standard_t(4.0, len(sd))
    found = learn_tails(LeftOutWays(error[None], sd[None], np.ones((1, len(sd))))).tails
    # The logarithm of a scale, and of so few degrees of freedom, is known to a few parts in a hundred of as many rows.
    assert_allclose(found.scale, 0.7, rtol=0.05)
    assert_allclose(found.freedom, 4.0, rtol=0.15)
    never = np.stack([np.ones(len(sd)), np.zeros(len(sd))])
    mixed = learn_tails(LeftOutWays(np.stack([error, 9 + error]), np.stack([sd, sd]), never)).tails
    assert_allclose([mixed.freedom, mixed.scale], [found.freedom, found.scale], rtol=1e-6)
    assert learn_tails(LeftOutWays(error[None, :40], sd[None, :40], np.ones((1, 40)))).tails == Tails(MOST_FREEDOM)


def test_rows_are_worth_as_many_numbers_as_their_groups_tell():
    """Rows of a group that are one number, or five; with tails of a t, and with a second way that is never the one."""
    rng = np.random.default_rng(2)
    group, tails = np.repeat(np.arange(4000), 5), Tails(6.0, 0.7)
    sd = rng.uniform(0.5, 2.0, len(group))
    never = np.stack([np.ones(len(sd)), np.zeros(len(sd))])

    def worth(z: np.ndarray, freedom: float) -> float:
        error = tails.scale * sd * z
        left = LeftOutWays(np.stack([error, 9 + error]), np.stack([sd, sd]), never)
        return count_numbers(left, Tails(freedom, tails.scale), group)

    # A t's scale is less well known than a normal's of as many numbers: the information in its logarithm is 2 n / (n + 3) of 2.
    for freedom, part in ((1e9, 1.0), (6.0, 6 / 9)):
        # The mean of squares of as many slopes is known to a few parts in a hundred.
        alike, apart = (rng.standard_t(freedom, size) for size in (4000, len(group)))
        assert_allclose(worth(alike[group], freedom), 4000 * part, rtol=0.1)
        assert_allclose(worth(apart, freedom), 20_000 * part, rtol=0.1)


def test_few_groups_that_are_alike_may_be_so_by_chance():
    left = LeftOutWays(np.ones((1, 400)), np.ones((1, 400)), np.ones((1, 400)))
    # Slopes of all rows are zero, so nothing is left but what is known before: with eight groups more, worth a number each.
    found = count_numbers(left, Tails(1e9), np.repeat(np.arange(12), [33] * 11 + [37]))
    assert_allclose(found, 12 * 20 / 8, rtol=1e-6)


def test_tails_are_clear_where_rows_gain_more_than_two_numbers_cost():
    """Of 800 rows of a Gaussian none is clear (one in a thousand would be), of a t with three degrees of freedom all are."""
    rng = np.random.default_rng(8)

    def learned(errors):
        return learn_tails(LeftOutWays(errors[None], np.ones((1, len(errors))), np.ones((1, len(errors)))))

    assert not any(learned(rng.normal(size=800)).is_clear() for _ in range(20))
    assert all(learned(rng.standard_t(3, size=800)).is_clear() for _ in range(20))
    # Rows that go together tell less: 800 of 20 groups each with its own level.
    levels = stats.norm.ppf((np.arange(20) + 0.5) / 20)
    wide = learned(1.5 * np.repeat(levels, 40))
    assert wide.is_clear_of_groups(20.0)
    assert not wide.is_clear_of_groups(4.0)
    assert not learned(np.repeat(levels, 40)).is_clear_of_groups(20.0)
    assert not learned(rng.normal(size=40)).is_clear()
