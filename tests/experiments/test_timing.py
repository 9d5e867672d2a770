# SPDX-License-Identifier: MIT
"""How often a call is repeated, and which of its times counts."""

import time

import pytest

from weft_experiments import timing
from weft_experiments.timing import Repeats, least_seconds


def sleeper(seconds):
    """A call that sleeps for each of these in turn and returns how often it was called."""
    naps = iter(enumerate(seconds, start=1))

    def call():
        number, nap = next(naps)
        time.sleep(nap)
        return number

    return call


def test_the_first_call_warms_up_and_the_least_counts():
    timed = least_seconds(sleeper([0.05, 0.03, 0.01, 0.02]), Repeats(3, 10.0))
    assert timed.value == 4
    assert 0.01 <= timed.seconds < 0.02
    # Sleeping takes the clock's time, not the processor's.
    assert timed.processor_seconds < 0.005


@pytest.mark.parametrize(("limit", "calls"), [(0.0, 2), (0.03, 3)])
def test_repeats_end_in_time(limit, calls):
    assert least_seconds(sleeper([0.0] + [0.02] * 9), Repeats(9, limit)).value == calls


def test_a_first_call_counts_where_nothing_compiles_or_it_is_long(monkeypatch):
    assert least_seconds(sleeper([0.01]), Repeats(1, 1.0), warm_up=False).value == 1
    monkeypatch.setattr(timing, "LONG_CALL", 0.01)
    assert least_seconds(sleeper([0.02]), Repeats(1, 1.0)).value == 1


def test_work_takes_processor_time():
    timed = least_seconds(lambda: sum(range(300_000)), Repeats(2, 1.0))
    assert 0 < timed.processor_seconds <= timed.seconds * 1.5
