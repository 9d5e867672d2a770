# SPDX-License-Identifier: MIT
"""A series at one place is what `predict` says there."""

import pandas as pd
import pytest

import weft

PLACE = {"lon": 10.9, "lat": 47.9, "elevation": 420.0}


def test_series_at_a_place(fitted: weft.SpaceTimeGP, table: pd.DataFrame) -> None:
    days = table["time"].drop_duplicates().reset_index(drop=True)
    expected = fitted.predict(pd.DataFrame({"time": days, **PLACE}))
    pd.testing.assert_frame_equal(fitted.point(PLACE), expected)
    # In the order of the columns of space.
    pd.testing.assert_frame_equal(fitted.point((10.9, 47.9, 420.0)), expected)
    # A row of a frame has names, whatever their order.
    by_name = pd.Series({"elevation": 420.0, "lat": 47.9, "lon": 10.9})
    pd.testing.assert_frame_equal(fitted.point(by_name), expected)
    # So has one of measurements, which says more than where.
    pd.testing.assert_frame_equal(fitted.point(table.assign(**PLACE).iloc[0]), expected)
    some = fitted.point(PLACE, times=["2021-03-03", "2021-05-01"], quantiles=(), of="field")
    assert some["time"].tolist() == [pd.Timestamp("2021-03-03"), pd.Timestamp("2021-05-01")]
    assert some["sd"].iloc[1] > some["sd"].iloc[0]


def test_what_is_no_place(fitted: weft.SpaceTimeGP) -> None:
    with pytest.raises(ValueError, match="a point needs lon, lat, elevation; elevation is missing"):
        fitted.point({"lon": 10.9, "lat": 47.9})
    with pytest.raises(ValueError, match="a point needs lon, lat, elevation, by name or in this order"):
        fitted.point((10.9, 47.9))
    with pytest.raises(ValueError, match="knows no 'height'"):
        fitted.point({**PLACE, "height": 3.0})
    with pytest.raises(ValueError, match="lat of a point must be a number; it is 'north'"):
        fitted.point({**PLACE, "lat": "north"})
