# SPDX-License-Identifier: MIT
import numpy as np
import pytest

from weft.folds import KINDS, NEVER_HELD_OUT, assign_folds, splits


@pytest.fixture(scope="module")
def rows():
    """Thirty places of which each reports a different number of times, in any order."""
    generator = np.random.default_rng(0)
    stations = generator.uniform(0, 100, size=(30, 2))
    place = np.repeat(np.arange(30), generator.integers(1, 40, 30))
    generator.shuffle(place)
    return generator.integers(0, 50, len(place)).astype(float), stations[place], place


@pytest.mark.parametrize("by", KINDS)
def test_every_row_is_held_out_once_and_folds_are_even_and_seeded(rows, by):
    times, places, _ = rows
    folds = assign_folds(by, times, places, num_folds=4, seed=3)
    held = folds[folds != NEVER_HELD_OUT]
    sizes = np.bincount(held, minlength=4)
    assert sizes.min() > 0.7 * sizes.max()
    if by != "time":
        assert len(held) == len(times)
        assert np.any(folds != assign_folds(by, times, places, num_folds=4, seed=4))
    np.testing.assert_array_equal(folds, assign_folds(by, times, places, num_folds=4, seed=3))
    tested = []
    for train, test in splits(folds, by):
        assert len(np.intersect1d(train, test)) == 0
        assert len(train) > 0
        tested.append(test)
        if by == "time":
            assert times[train].max() < times[test].min()
        else:
            assert len(train) + len(test) == len(times)
    np.testing.assert_array_equal(np.sort(np.concatenate(tested)), np.flatnonzero(folds != NEVER_HELD_OUT))


def test_stations_stay_together(rows):
    times, places, place = rows
    folds = assign_folds("station", times, places)
    assert all(len(set(folds[place == each])) == 1 for each in range(30))


def test_blocks_are_neighbourhoods(rows):
    """Held-out places lie farther from what is left by block than by station."""
    times, places, place = rows

    def gap(by):
        folds = assign_folds(by, times, places)
        gaps = []
        for train, test in splits(folds, by):
            gaps.append(np.linalg.norm(places[test][:, None] - places[train][None], axis=2).min(axis=1).mean())
        return np.mean(gaps)

    assert all(len(set(assign_folds("block", times, places)[place == each])) == 1 for each in range(30))
    assert gap("block") > 1.2 * gap("station")


def test_the_last_stretch_alone():
    times = np.array([0.0, 1.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0])
    folds = assign_folds("time", times, np.zeros((11, 0)), num_folds=1, held_out=0.2)
    np.testing.assert_array_equal(folds, [-1] * 9 + [0, 0])
    rolling = assign_folds("time", times[::-1], np.zeros((11, 0)), num_folds=4)
    np.testing.assert_array_equal(rolling[::-1], [-1, -1, -1, 0, 0, 1, 1, 2, 2, 3, 3])


@pytest.mark.parametrize(
    ("by", "options", "words"),
    [
        ("week", {}, "by must be one of station, block, time, random"),
        ("station", {}, "5 folds need at least 5 distinct places; there are 1"),
        ("block", {}, "distinct places"),
        ("random", {"num_folds": 9}, "9 folds need at least 9 rows"),
        ("time", {"num_folds": 8}, "9 folds need at least 9 distinct times|distinct times"),
        ("random", {"num_folds": 1}, "at least 2"),
        ("random", {"held_out": 0.5}, "by='time' only"),
        ("time", {"held_out": 1.0}, "between 0 and 1"),
    ],
)
def test_what_cannot_be_split(by, options, words):
    with pytest.raises(ValueError, match=words):
        assign_folds(by, np.arange(8.0), np.zeros((8, 2)), **options)
