# SPDX-License-Identifier: MIT
import numpy as np
from numpy.testing import assert_array_equal

from weft_experiments.originals.rejected import ReadReport, Rejected, Sieve, left_out, refused


def test_reports_add_up_and_show_the_first_examples_of_each_reason():
    one = refused("a.csv", "short line", np.array([3, 9]), lambda row: f"text {row}")
    two = refused("b.csv", "short line", np.arange(10, 15)) + refused("b.csv", "bad flag", np.array([2]))
    both = one + two + left_out("missing", 4) + left_out("nothing", 0) + ReadReport(sources=("a.csv", "b.csv"))
    assert both.rejected == {"short line": 7, "bad flag": 1}
    assert both.left_out == {"missing": 4}
    assert (both.num_rejected, both.num_left_out) == (8, 4)
    assert [(example.source, example.line) for example in both.examples if example.reason == "short line"] == [
        ("a.csv", 3),
        ("a.csv", 9),
        ("b.csv", 10),
    ]
    assert str(both.keeping(12).examples[0]) == "a.csv line 3: short line: 'text 0'"


def test_report_reads_well():
    report = refused("a.csv", "short line", np.array([1234]), lambda row: "x,y") + left_out("missing", 4321)
    text = str((report + ReadReport(sources=("a.csv",), notes=("no inventory",))).keeping(1000000))
    assert text.splitlines() == [
        "kept 1,000,000 from 1 file; refused 1; left out 4,321",
        "  refused 1: short line",
        "    a.csv line 1234: x,y",
        "  left out 4,321: missing",
        "  note: no inventory",
    ]


def test_refused_without_lines_is_empty():
    assert refused("a.csv", "short line", np.zeros(0, dtype=int)) == ReadReport()
    assert str(Rejected("a.gz", None, "damaged")) == "a.gz: damaged"


def test_a_row_is_refused_once_for_the_first_reason():
    sieve = Sieve("a.csv", np.array([5, 6, 7, 8, 9]), lambda row: f"row {row}")
    sieve.pass_over(np.array([False, False, False, False, True]))
    sieve.refuse(np.array([True, False, False, True, True]), "bad")
    sieve.leave_out(np.array([True, True, False, False, True]), "missing")
    assert sieve.report.rejected == {"bad": 2}
    assert sieve.report.left_out == {"missing": 1}
    assert [(example.line, example.text) for example in sieve.report.examples] == [(5, "row 0"), (8, "row 3")]
    assert_array_equal(sieve.passed, [False, False, True, False, False])
