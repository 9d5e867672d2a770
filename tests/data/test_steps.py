# SPDX-License-Identifier: MIT
"""Steps that times are put on where nobody names one."""

import numpy as np
import pandas as pd
import pytest

from weft.data.clock import learn_clock
from weft.data.steps import suitable_step


def made(num_places=50, num_rows=60, hours=1.0, seed=0):
    """Rows of each place about so many hours apart, each at a second of its own: the column, its clock, numbers and places."""
    rng = np.random.default_rng(seed)
    when = (np.arange(num_rows) + rng.uniform(-0.3, 0.3, (num_places, num_rows))) * hours * 3600
    place = np.repeat(np.arange(num_places), num_rows)
    order = np.argsort(when.ravel())
    column = pd.Series(pd.Timestamp("2021-03-01") + pd.to_timedelta(when.ravel()[order].round(), unit="s"))
    clock = learn_clock(column)
    return column, clock, clock.numbers(column), place[order]


def test_a_tenth_of_the_time_between_rows_of_a_place():
    column, clock, times, place = made()
    step = suitable_step(clock, times, place, np.zeros(len(times)), by_rows=True)
    assert step == "5min"
    # What it is for: ten rows of fifty places in an hour, or so, share a time.
    on_step = learn_clock(column, time_step=step).numbers(column)
    assert len(np.unique(on_step)) <= 12 * 61 + 1 < len(np.unique(times)) / 2


def test_numbers_have_steps_of_one_two_or_five():
    _, _, times, place = made(num_rows=100)
    numbers = pd.Series(times * 3.7)
    clock = learn_clock(numbers)
    step = suitable_step(clock, numbers.to_numpy(), place, np.zeros(len(times)), by_rows=True)
    apart = np.median(np.concatenate([np.diff(np.sort(numbers[place == each])) for each in range(50)]))
    assert step in {1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0}
    assert apart / 25 < step <= apart / 10


@pytest.mark.parametrize(
    ("num_places", "num_rows"),
    [
        pytest.param(5, 800, id="hardly two rows of few places would share a time"),
        pytest.param(50, 30, id="few rows are one matrix"),
    ],
)
def test_none_where_it_is_not_worth_it(num_places, num_rows):
    _, clock, times, place = made(num_places, num_rows)
    assert suitable_step(clock, times, place, np.zeros(len(times)), by_rows=True) is None


def test_none_where_times_have_a_step_already():
    column = pd.Series(np.tile(pd.date_range("2021-01-01", periods=400, freq="1h"), 5))
    clock = learn_clock(column)
    place = np.repeat(np.arange(5), 400)
    assert suitable_step(clock, clock.numbers(column), place, np.zeros(2000), by_rows=True) is None


def test_rows_that_are_modelled_by_themselves_need_none():
    """Regions of rows have matrices of rows: times that differ cost nothing."""
    _, clock, times, _ = made()
    own = np.arange(len(times))
    assert suitable_step(clock, times, own, np.zeros(len(times)), by_rows=True) is None
    # 60 hours, 3,000 rows: the next is a fourteenth of that away.
    assert suitable_step(clock, times, own, np.zeros(len(times)), by_rows=False) == "10min"


def test_the_hour_of_the_day_is_kept_where_it_matters():
    column, clock, times, place = made(num_places=400, num_rows=20, hours=120.0)
    noise = np.random.default_rng(1).normal(size=len(times))
    assert suitable_step(clock, times, place, noise, by_rows=True) == "6h"
    hour = column.dt.hour.to_numpy()
    warm = noise + np.cos(2 * np.pi * hour / 24)
    warm[::7] = np.nan
    assert suitable_step(clock, times, place, warm, by_rows=True) == "1h"
