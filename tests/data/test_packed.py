# SPDX-License-Identifier: MIT
"""Repeated tables: every row as it was, whatever the parts are like."""

import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

import weft
from weft.data.observations import ROW_EXTRAS, take_rows
from weft.data.packed import Repeated, join_packed, pack


def rows() -> pd.DataFrame:
    """Times and places repeat, each in another order; a zone, a kind of place, and a number that is missing."""
    rng = np.random.default_rng(1)
    station, day = rng.integers(0, 4, 40), rng.integers(0, 9, 40)
    return pd.DataFrame(
        {
            "day": (pd.Timestamp("2020-03-26") + pd.to_timedelta(day, "D")).tz_localize("Europe/Zagreb"),
            "x": np.array([3.0, -1.0, 2.5, 3.0])[station],
            "kind": np.array(["city", "field", None, "field"], dtype=object)[station],
            "value": np.where(day == 4, np.nan, rng.normal(size=40)),
            "noise": rng.uniform(1, 2, 40),
        }
    )


def unpacked(packed: Repeated) -> pd.DataFrame:
    return packed.each.iloc[packed.number].reset_index(drop=True)


def test_parts_packed_and_joined_are_the_rows_one_after_another():
    table = rows()
    parts = [table.iloc[:13], table.iloc[:0].astype(object), table.iloc[13:14], table.iloc[14:].assign(more=2)]
    found = join_packed([pack(part, "day", ("x", "kind"), ("value", "noise")) for part in parts])
    pd.testing.assert_frame_equal(unpacked(found.times), table[["day"]])
    pd.testing.assert_frame_equal(unpacked(found.places), table[["x", "kind"]])
    assert len(found.places.each) == 4
    assert len(found.times.each) == table["day"].nunique()
    assert_array_equal(found.numbers["value"], table["value"])
    assert found.times.number.itemsize + found.places.number.itemsize == 8


@pytest.mark.parametrize("times", [np.array([1.0, 1.0, 2.5, 4.0]), np.array([4.0, 1.0, 2.5, 1.0])])
def test_observations_that_travel_are_small_and_the_same(times):
    places = np.array([[1.0, 2.0], [0.5, 7.0], [1.0, 2.0], [3.0, 7.0]])
    data = weft.Observations(times, places, np.array([0.3, -1.0, np.nan, 2.0]))
    found = pickle.loads(pickle.dumps(data))
    for name in ("times", "places", "row", "row_times", "row_places", "values"):
        assert_array_equal(getattr(found, name), getattr(data, name), err_msg=name)
        assert getattr(found, name).dtype == getattr(data, name).dtype
    assert not found.row.flags.writeable
    assert found.num_missing == 1
    many = weft.Observations(np.repeat(np.arange(500.0), 4), np.tile(places, (500, 1)), np.ones(2000))
    assert len(pickle.dumps(many)) < 2000 * (8 + 1) + 500 * 16 + 2000


def test_times_in_several_columns_are_packed_together():
    table = pd.DataFrame({"year": [2020, 2021, 2020], "month": [5, 5, 5], "x": [1.0, 2.0, 1.0], "value": [1, 2, 3]})
    found = pack(table, "year,month", ("x",), ("value",))
    pd.testing.assert_frame_equal(unpacked(found.times), table[["year", "month"]])
    assert len(found.times.each) == 2


def test_what_is_wrong_with_a_part_is_told_by_its_row():
    table = rows()
    table.loc[7, "day"] = pd.NaT
    with pytest.raises(ValueError, match=r"column 'day' has 1 missing time; row 7 \(counting from 0\)"):
        pack(table, "day", ("x",), ("value",))
    wet = rows().astype({"value": object})
    wet.loc[2, "value"] = "wet"
    with pytest.raises(ValueError, match=r"column 'value' must hold numbers; row 2 \(counting from 0\) has 'wet'"):
        pack(wet, "day", ("x",), ("value",))


def test_observations_of_packed_rows_are_those_of_rows():
    """Times that were packed apart may be one, and a place may have no row with a value."""
    rng = np.random.default_rng(2)
    times, places = np.array([4.0, 1.0, 1.0, 3.0]), np.array([[1.0, 2.0], [0.5, 7.0], [1.0, 1.5], [1.0, 2.0]])
    time, place = rng.integers(0, 4, 30), rng.integers(0, 4, 30)
    values = np.where(place == 1, np.nan, rng.normal(size=30))
    noise = rng.uniform(1, 2, 30)
    expected = weft.Observations(times[time], places[place], values, noise)
    found = weft.Observations(Repeated(times, time), Repeated(places, place), values, noise)
    for name in ("times", "places", "row", "row_times", "row_places", "values", "noise_variance"):
        assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)
    assert_array_equal(found.grouping.layout.offsets, expected.grouping.layout.offsets)
    assert found.num_missing == expected.num_missing > 0
    some = np.array([1, 4, 9])
    for name in ("row_times", "row_places", "values", *ROW_EXTRAS):
        whole, part = getattr(expected, name), getattr(take_rows(found, some), name)
        assert part is None if whole is None else (part == whole[some]).all()
    with pytest.raises(ValueError, match="they have 29, 30 and 30 rows"):
        weft.Observations(Repeated(times, time[1:]), Repeated(places, place), values)
