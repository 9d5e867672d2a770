# SPDX-License-Identifier: MIT
import datetime
import fractions
import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.data.clock import Clock, learn_clock, read_time_step, step_in_words
from weft.data.tables import as_table

SECONDS = {"seconds": 1, "minutes": 60, "hours": 3600, "days": 86400, "weeks": 604800}
ZONES = (None, "UTC", "America/New_York", "Asia/Kolkata")

moments = st.lists(
    st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2040, 1, 1)).map(lambda t: t.replace(fold=0)),
    min_size=1,
    max_size=6,
)


def at_resolution(instants, resolution, zone):
    column = pd.Series(pd.DatetimeIndex(np.array(instants, dtype=f"datetime64[{resolution}]")))
    return column if zone is None else column.dt.tz_localize("UTC").dt.tz_convert(zone)


@settings(max_examples=60, deadline=None)
@given(moments, st.sampled_from(ZONES), st.sampled_from(sorted(SECONDS)))
def test_numbers_are_elapsed_time_with_the_same_bits_at_any_resolution(instants, zone, unit):
    columns = [at_resolution(instants, resolution, zone) for resolution in ("us", "ns")]
    clocks = [learn_clock(column, unit=unit) for column in columns]
    micro, nano = (clock.numbers(column) for clock, column in zip(clocks, columns, strict=True))
    assert micro.tobytes() == nano.tobytes()
    origin = datetime.datetime.combine(min(instants).date(), datetime.time())
    for number, instant in zip(micro, instants, strict=True):
        elapsed = instant - origin
        exact = fractions.Fraction(elapsed // datetime.timedelta(microseconds=1), 10**6 * SECONDS[unit])
        # Two roundings: of the part after the point and of the sum.
        assert abs(fractions.Fraction(float(number)) - exact) <= fractions.Fraction(np.spacing(max(number, 1.0)))
    for clock, column in zip(clocks, columns, strict=True):
        pd.testing.assert_series_equal(
            clock.restore(clock.numbers(column)), column, check_names=False, check_freq=False
        )


@pytest.mark.parametrize("resolution", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", ZONES)
def test_resolution_and_zone_come_back(resolution, zone):
    column = at_resolution(["2020-03-08T06:59:59", "2020-03-08T07:00:01", "1971-05-06T00:00:00"], resolution, zone)
    clock = learn_clock(column)
    restored = clock.restore(clock.numbers(column))
    assert restored.dtype == column.dtype
    assert list(restored) == list(column)
    assert Clock.from_json(json.loads(json.dumps(clock.to_json()))) == clock


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_every_kind_of_frame_gives_the_same_numbers(kind):
    frame = pd.DataFrame(
        {"t": at_resolution(["2020-11-01T05:30", "2020-11-01T06:30", "2020-11-02T00:00"], "us", "America/New_York")}
    )
    native = {"pandas": frame, "polars": pl.from_pandas(frame), "pyarrow": pa.Table.from_pandas(frame)}[kind]
    column = as_table(native).column("t")
    np.testing.assert_array_equal(learn_clock(column).numbers(column), [5.5, 6.5, 24.0])


@pytest.mark.parametrize(
    ("step", "unit"),
    [
        ("10s", "seconds"),
        ("1min", "minutes"),
        ("15min", "minutes"),
        ("1h", "hours"),
        ("6h", "hours"),
        ("1D", "days"),
        ("7D", "days"),
        ("366D", "years"),
    ],
)
def test_the_unit_suits_the_step(step, unit):
    assert learn_clock(pd.Series(pd.date_range("2020-01-01", periods=5, freq=step))).unit == unit


@pytest.mark.parametrize(
    ("texts", "days", "written"),
    [
        (["2020-01-02", "2020-01-01"], [1.0, 0.0], None),
        (["2020-01-01 06:00", "2020-01-02 12:00"], [0.25, 1.5], None),
        (["2020-01-01T06:00:00.500000", "2020-01-02T12:00:00.000000"], [(6 * 3600 + 0.5) / 86400, 1.5], None),
        (
            ["2020-01-01T06:00:00Z", "2020-01-02T14:00:00+02:00"],
            [0.25, 1.5],
            ["2020-01-01T06:00:00+00:00", "2020-01-02T12:00:00+00:00"],
        ),
        (["31.01.2020", "02.02.2020"], [0.0, 2.0], None),
        (["03/27/2020", "03/01/2020"], [26.0, 0.0], None),
        (["27/03/2020 18:00", "01/03/2020 00:00"], [26.75, 0.0], None),
        (["20200101", "20200103"], [0.0, 2.0], None),
        (["3 Jan 2020", "11 Jan 2020"], [0.0, 8.0], ["03 Jan 2020", "11 Jan 2020"]),
    ],
)
def test_text_is_read_and_written_in_its_own_way(texts, days, written):
    column = pd.Series(texts)
    clock = learn_clock(column, unit="days")
    np.testing.assert_allclose(clock.numbers(column), days, rtol=1e-15)
    assert list(clock.restore(clock.numbers(column))) == (texts if written is None else written)
    assert clock.numbers(column.astype("category")).tolist() == clock.numbers(column).tolist()


def test_dates_numbers_and_spelled_dates():
    dates = pd.Series([datetime.date(2020, 2, 28), datetime.date(2020, 3, 1)])
    clock = learn_clock(dates)
    assert clock.numbers(dates).tolist() == [0.0, 2.0]
    assert list(clock.restore(np.array([0.0, 1.0]))) == [datetime.date(2020, 2, 28), datetime.date(2020, 2, 29)]
    spelled = pd.Series([20200228, 20200301])
    clock = learn_clock(spelled)
    assert (clock.kind, clock.numbers(spelled).tolist()) == ("yyyymmdd", [0.0, 2.0])
    assert clock.restore(np.array([1.0])).tolist() == [20200229]
    plain = pd.Series([1990.5, -3.0])
    clock = learn_clock(plain, "year")
    assert (clock.unit, clock.numbers(plain).tolist()) == ("units of year", [1990.5, -3.0])
    # Not a date: there is no thirteenth month.
    assert learn_clock(pd.Series([20201301, 20200101])).kind == "number"


def test_steps_merge_times_and_count_what_moved():
    column = pd.Series(pd.to_datetime(["2020-01-01 00:00", "2020-01-01 15:00", "2020-01-01 15:00", "2020-01-03 23:59"]))
    clock = learn_clock(column, time_step="1D")
    assert clock.numbers(column).tolist() == [0.0, 0.0, 0.0, 2.0]
    binning = clock.binning(column)
    assert (binning.num_rows, binning.num_moved, binning.num_times_before, binning.num_times_after) == (4, 3, 3, 2)
    assert binning.num_times_before - binning.num_times_after == 1
    assert "3 distinct times became 2; 3 of 4 rows moved" in binning.message
    assert learn_clock(column).binning(column) is None
    numbers = pd.Series([0.0, 0.9, -0.1])
    assert learn_clock(numbers, time_step=0.5).numbers(numbers).tolist() == [0.0, 0.5, -0.5]


@pytest.mark.parametrize("step", ["1D", "2D", "1W", "1h", "15min"])
@pytest.mark.parametrize("zone", [None, "America/New_York", "Asia/Kolkata"])
def test_a_step_starts_at_or_before_its_times_on_local_midnight(step, zone):
    # Through both changes of the clocks in New York.
    column = at_resolution(np.arange("2020-03-06T00:17", "2020-11-03T00:00", 613, dtype="datetime64[m]"), "us", zone)
    clock = learn_clock(column, time_step=step)
    started = clock.restore(clock.numbers(column))
    behind = (column - started).dt.total_seconds()
    count, unit = read_time_step(step)
    # A day of 25 hours may hold a time 25 hours after its start.
    assert behind.min() >= 0
    assert behind.max() <= count * SECONDS[unit] + (3600 if unit in ("days", "weeks") else 0)
    if unit in ("days", "weeks"):
        assert (started.dt.hour == 0).all()
    if unit == "weeks":
        assert (started.dt.day_of_week == 0).all()


@pytest.mark.parametrize(
    ("column", "options", "error", "words"),
    [
        (["2020-01-01", "oops", "2020-02-30"], {}, ValueError, r"row 1 \(counting from 0\) has 'oops', and 1 more"),
        (["13/14/2020", "01/14/2020"], {}, ValueError, "row 0 .* has '13/14/2020'"),
        (["03/04/2020", "05/06/2020"], {}, ValueError, "can be read as '%d/%m/%Y' and as '%m/%d/%Y'"),
        (["03/04/2020", "05/06/2020"], {}, ValueError, "say which with time_format"),
        (["03/04/2020"], {"text_format": "%Y-%m-%d"}, ValueError, "times like '%Y-%m-%d'; row 0 .* has '03/04/2020'"),
        (["03/04/2020"], {"text_format": "%Q"}, ValueError, "time_format must be as strptime takes it"),
        (["2020-01-01", None], {}, ValueError, "1 missing time; row 1"),
        (["2020-01-01T00:00Z", "2020-01-01T00:00"], {}, ValueError, "with and without an offset"),
        ([True, False], {}, TypeError, "not a time"),
        ([], {}, ValueError, "empty"),
        (["a", 3], {}, ValueError, "must hold times; row 0"),
        (["2020-01-01"], {"time_step": "1M"}, ValueError, "'1D', '6h'"),
        (["2020-01-01"], {"time_step": "0D"}, ValueError, "'1D', '6h'"),
        ([1.0, 2.0], {"time_step": "1D"}, ValueError, "positive number"),
        ([1.0, 2.0], {"unit": "days"}, ValueError, "plain numbers"),
        (["2020-01-01"], {"unit": "fortnights"}, ValueError, "must be one of"),
    ],
)
def test_what_is_no_time_is_refused_in_one_sentence(column, options, error, words):
    with pytest.raises(error, match=words):
        learn_clock(pd.Series(column, dtype=object if column else "datetime64[us]").infer_objects(), **options)


def test_objects_of_several_zones_are_instants_and_of_one_zone_stay_in_it():
    first, second = (pd.Timestamp("2020-01-01 12:00", tz=zone) for zone in ("Europe/Rome", "Asia/Tokyo"))
    summer = pd.Timestamp("2020-07-01 12:00", tz="Europe/Rome")
    clock = learn_clock(pd.Series([first, second], dtype=object), unit="hours")
    assert (clock.time_zone, clock.origin) == ("UTC", "2020-01-01")
    assert clock.numbers(pd.Series([first, second], dtype=object)).tolist() == [11.0, 3.0]
    assert learn_clock(pd.Series([first, summer], dtype=object)).time_zone == "Europe/Rome"


def test_objects_with_and_without_a_zone_are_refused():
    mixed = pd.Series([pd.Timestamp("2020-01-01", tz="UTC"), pd.Timestamp("2020-01-02")], dtype=object)
    with pytest.raises(ValueError, match=r"with and without a time zone \(row 1, .* has 2020-01-02 00:00:00"):
        learn_clock(mixed)


def test_a_format_that_only_starts_like_iso_is_kept():
    column = pd.Series(["2020-03-01_06", "2020-03-02_18"])
    clock = learn_clock(column, text_format="%Y-%m-%d_%H", unit="hours")
    assert clock.numbers(column).tolist() == [6.0, 42.0]
    assert list(clock.restore(clock.numbers(column))) == list(column)


def test_whole_numbers_may_spell_times_in_a_format():
    column = pd.Series([2020060, 2020061])
    for way in (None, "%Y%j"):
        clock = learn_clock(column, text_format=way)
        assert (clock.kind, clock.origin, clock.numbers(column).tolist()) == ("digits", "2020-02-29", [0.0, 1.0])
    short = pd.Series([200229, 200301])
    assert learn_clock(short).kind == "number"
    clock = learn_clock(short, text_format="%y%m%d")
    assert (clock.origin, clock.numbers(short).tolist()) == ("2020-02-29", [0.0, 1.0])


def test_text_format_settles_what_is_ambiguous():
    column = pd.Series(["03/04/2020", "05/06/2020"])
    clock = learn_clock(column, text_format="%d/%m/%Y")
    assert clock.numbers(column).tolist() == [0.0, 63.0]  # 3 April to 5 June
    assert list(clock.restore(clock.numbers(column))) == list(column)


def test_predicting_with_other_times_than_those_fitted():
    naive = pd.Series(pd.to_datetime(["2020-01-01", "2020-01-02"]))
    clock = learn_clock(naive)
    assert clock.numbers(pd.Series(["2020-01-04T12:00"])).tolist() == [3.5]
    assert clock.numbers(naive.iloc[:0]).shape == (0,)
    dates = learn_clock(pd.Series(["2020-01-01", "2020-01-02"]))
    assert dates.numbers(pd.Series(["2020-01-04T12:00", "2020-01-05"])).tolist() == [3.5, 4.0]
    assert dates.numbers(naive).tolist() == [0.0, 1.0]
    american = learn_clock(pd.Series(["01/31/2020", "01/01/2020"]))
    assert american.numbers(pd.Series(["02/01/2020"])).tolist() == [31.0]  # by itself it could be 2 January
    with pytest.raises(ValueError, match="have time zone UTC and those the model was fitted to have no time zone"):
        clock.numbers(naive.dt.tz_localize("UTC"))
    with pytest.raises(TypeError, match="plain numbers"):
        clock.numbers(pd.Series([1.0]))
    with pytest.raises(TypeError, match="holds dates"):
        learn_clock(pd.Series([1.0])).numbers(naive)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (1, "1 second"),
        (90, "1.5 minutes"),
        (86400, "1 day"),
        (518400, "6 days"),
        (2 * 604800, "2 weeks"),
        (864000, "10 days"),
    ],
)
def test_steps_in_words(seconds, words):
    assert step_in_words(seconds) == words
