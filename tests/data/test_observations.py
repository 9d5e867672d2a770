# SPDX-License-Identifier: MIT
"""Grouping of rows, and what is refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from weft.data.places import distinct_places

SMALL = st.integers(-3, 3).map(float)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(SMALL, SMALL, SMALL, st.one_of(SMALL, st.just(np.nan))), min_size=1, max_size=30))
def test_rows_come_back_by_time_with_their_places(rows):
    table = np.array(rows)
    if np.isnan(table[:, 3]).all():
        table[0, 3] = 1.0
    data = weft.Observations(table[:, 0], table[:, 1:3], table[:, 3], noise_variance=np.arange(len(table)) + 1.0)
    present = np.flatnonzero(~np.isnan(table[:, 3]))
    expected = present[np.argsort(table[present, 0], kind="stable")]
    assert data.row.tolist() == expected.tolist()
    assert data.times.tolist() == np.unique(table[:, 0]).tolist()
    np.testing.assert_array_equal(data.row_times, table[expected, 0])
    np.testing.assert_array_equal(data.row_places, table[expected, 1:3])
    np.testing.assert_array_equal(data.values, table[expected, 3])
    np.testing.assert_array_equal(data.noise_variance, expected + 1.0)
    assert data.num_missing == len(table) - len(present)
    for time, start, stop in zip(
        data.times, data.grouping.layout.offsets[:-1], data.grouping.layout.offsets[1:], strict=True
    ):
        assert np.all(data.row_times[start:stop] == time)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(SMALL, SMALL, SMALL), min_size=1, max_size=40))
def test_distinct_places_are_those_of_numpy(rows):
    matrix = np.array(rows)
    expected, inverse = np.unique(matrix, axis=0, return_inverse=True)
    distinct, number = distinct_places(matrix)
    np.testing.assert_array_equal(distinct, expected)
    np.testing.assert_array_equal(number, inverse.ravel())


def test_many_columns_of_many_values_do_not_overflow():
    matrix = np.random.default_rng(0).normal(size=(2000, 12))
    distinct, number = distinct_places(np.concatenate([matrix, matrix]))
    assert len(distinct) == 2000
    np.testing.assert_array_equal(distinct[number], np.concatenate([matrix, matrix]))


T, X, Y = np.zeros(3), np.zeros((3, 2)), np.ones(3)


@pytest.mark.parametrize(
    ("args", "kwargs", "error", "message"),
    [
        ((T, X, np.ones(2)), {}, ValueError, "3, 3 and 2 rows"),
        ((T, np.zeros(3), Y), {}, ValueError, r"places must be a matrix.*\(3,\)"),
        ((T[:, None], X, Y), {}, ValueError, r"times must be a vector.*\(3, 1\)"),
        ((T, np.zeros((3, 0)), Y), {}, ValueError, "no column"),
        ((np.array([0, np.inf, 1]), X, Y), {}, ValueError, "times must be finite; row 1 is inf"),
        ((T, np.full((3, 2), np.nan), Y), {}, ValueError, "places must be finite; row 0"),
        ((T, X, np.array([1, -np.inf, 1])), {}, ValueError, "values must be finite, or NaN where missing; row 1"),
        ((T, X, np.full(3, np.nan)), {}, ValueError, "no value is observed: all 3 values are missing"),
        ((T, X, Y), {"noise_variance": [1.0, -0.1, 1.0]}, ValueError, "noise_variance must be .*row 1 is -0.1"),
        ((T, X, Y), {"noise_variance": [1.0, 1.0]}, ValueError, r"one per row \(3\); its shape is \(2,\)"),
        ((T, X, Y), {"exposure": [1.0, 0.0, 1.0]}, ValueError, "exposure must be finite and positive; row 1"),
        ((T, X, ["a", "b", "c"]), {}, TypeError, "values must be numbers"),
        ((T, X, Y + 1j), {}, TypeError, "values must be real numbers; they are complex128"),
        ((T.astype("M8[D]"), X, Y), {}, TypeError, r"they are datetime64\[D\], so say in which unit"),
        ((T, X, Y), {"noise_variance": "much"}, TypeError, "noise_variance must be numbers"),
    ],
)
def test_wrong_rows_are_refused(args, kwargs, error, message):
    with pytest.raises(error, match=message):
        weft.Observations(*args, **kwargs)
