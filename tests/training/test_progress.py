# SPDX-License-Identifier: MIT
"""What is said while a fit runs."""

import io
import logging
import sys
import time
import types

import pytest
from numpy.testing import assert_allclose

from weft.changing_line import duration
from weft.training.progress import Iteration, progress_report, seconds_left


def steps(count, rate=0.5, pace=2.0):
    """A climb to 0 whose gaps shrink by `rate` a step."""
    return [Iteration(0, i, -(rate**i), -(rate**i), 3 * rate**i, i + 1, pace * i) for i in range(count)]


def test_time_left_follows_the_trend():
    # The gradient 3 * 2^-i falls below 1e-3 at i = log2(3000) = 11.55; the last step is 9.
    assert_allclose(seconds_left(steps(10), 0.0, 1e-3), 2.0 * (11.55 - 9), rtol=1e-3)
    # The gain of the step to i is 2^-i, and falls below 1e-3 at 9.97.
    assert_allclose(seconds_left(steps(8), 1e-3, 0.0), 2.0 * (9.966 - 7), rtol=1e-3)
    assert seconds_left(steps(12), 1e-3, 1e-3) == 0.0
    assert seconds_left(steps(3), 1e-9, 1e-3) is None
    assert seconds_left(steps(10, rate=1.0), 0.0, 1e-3) is None


def test_durations_read_well():
    assert [duration(seconds) for seconds in (0.2, 89.0, 600.0, 7200.0)] == ["1 s", "89 s", "10 min", "2.0 h"]


def test_silent_where_there_is_no_terminal(capfd):
    with progress_report("auto", 1e-9, 1e-3) as report:
        for step in steps(8):
            report(step)
    assert capfd.readouterr() == ("", "")


def test_a_line_now_and_then_where_there_is_no_terminal(caplog, monkeypatch):
    monkeypatch.setattr("weft.changing_line.SECONDS_BETWEEN_LINES", 0.01)

    def lines_after(number: int) -> list[str]:
        while len(caplog.records) < number:
            time.sleep(0.005)
        return [record.getMessage() for record in caplog.records]

    with caplog.at_level(logging.INFO, "weft"), progress_report("auto", 1e-9, 1e-3) as report:
        assert "first evaluation  after 1 s" in lines_after(1)[0]
        for step in steps(8):
            report(step)
        assert any("step 7  log evidence -0.0078125" in said for said in lines_after(len(caplog.records) + 2))
    ended = len(caplog.records)
    time.sleep(0.03)
    assert len(caplog.records) == ended


def test_in_a_notebook_a_line_changes_in_place(monkeypatch):
    shown = []

    class Handle:
        def update(self, what):
            shown.append(what)

    class ZMQInteractiveShell:
        pass

    def display(what, display_id):
        shown.append(what)
        return Handle()

    notebook, output = types.ModuleType("IPython"), types.ModuleType("IPython.display")
    notebook.get_ipython = ZMQInteractiveShell
    output.display, output.Pretty = display, str
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    monkeypatch.setitem(sys.modules, "IPython.display", output)
    with progress_report("auto", 1e-9, 1e-3) as report:
        for step in steps(8):
            report(step)
    assert shown[0] == "fitting: first evaluation"
    assert "step 7" in shown[-2]
    assert shown[-1] == ""


def test_log_lines_on_request(caplog):
    with caplog.at_level(logging.INFO, "weft"), progress_report("log", 1e-9, 1e-3) as report:
        for step in steps(8):
            report(step)
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 8
    assert "step 7" in lines[-1]
    assert "log evidence -0.0078125" in lines[-1]
    assert "gradient 0.023" in lines[-1]
    assert "left" in lines[-1]


def test_a_bar_on_a_terminal(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "150")
    with progress_report("auto", 1e-9, 1e-3) as report:
        for step in steps(8):
            report(step)
    assert "step 7" in terminal.getvalue()
    assert "log evidence -0.0078125" in terminal.getvalue()


def test_unknown_styles_are_refused():
    with pytest.raises(ValueError, match="'auto', 'bar', 'log' or None"), progress_report("loud", 1e-9, 1e-3):
        pass
