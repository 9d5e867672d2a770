# SPDX-License-Identifier: MIT
"""How the benchmark goes through its lengths: what it leaves out, what it lets go, and where it goes on."""

import jax
import jax.numpy as jnp
import pytest

from weft_experiments import benchmark
from weft_experiments.options import RunOptions

ROW = {"layout": "grid", "kernel": "separable", "method": "pseudo-points", "num_pseudo": 5}


def test_a_timing_is_expected_by_the_longest_of_the_same_method():
    before = [
        {**ROW, "num_times": 10, "processor_seconds": 2.0, "gradient_processor_seconds": 3.0},
        {**ROW, "num_times": 100, "processor_seconds": 5.0},
        {**ROW, "num_times": 100, "num_pseudo": 10, "processor_seconds": 50.0},
    ]
    asked = {**ROW, "num_times": 1000}
    assert benchmark.expected_seconds(before, asked, "processor_seconds") == 50.0
    assert benchmark.expected_seconds(before, asked, "gradient_processor_seconds") == 300.0
    assert benchmark.expected_seconds(before, {**asked, "layout": "arbitrary"}, "processor_seconds") == 0.0


def test_what_would_take_too_long_is_left_out_and_named(monkeypatch):
    monkeypatch.setattr(benchmark, "TOO_LONG", 1.0)
    before = [
        {**ROW, "num_times": 1, "processor_seconds": 0.01, "gradient_processor_seconds": 1.0},
        {**ROW, "num_times": 1, "num_pseudo": None, "method": "state space", "processor_seconds": 1.0},
    ]
    plan = benchmark.Plan((2,), (None, 5), (5,), 0, 1, 0.0, 2)
    with jax.enable_x64(True):
        found = benchmark.measure_problem(
            plan, benchmark.VARIANTS["text"], ("grid", "separable", 2), seed=0, before=before
        )
    (row,) = found["rows"]
    assert row["num_pseudo"] == 5
    assert "gradient_seconds" not in row
    assert found["left_out"] == [
        "grid, separable, state space, 2 times (about 2 s)",
        "grid, separable, 5 pseudo-points with gradient, 2 times (about 2 s)",
    ]


def test_programs_of_a_length_are_let_go_and_a_run_goes_on(monkeypatch, tmp_path):
    program, held = jax.jit(lambda x: 2 * x), []

    def measure_problem(plan, variant, where, seed, before):
        program(jnp.zeros(where[-1]))
        held.append(program._cache_size())
        if len(held) == 3:
            raise RuntimeError("cut off")
        return {"rows": [{"num_times": where[-1]}], "left_out": []}

    monkeypatch.setattr(benchmark, "measure_problem", measure_problem)
    monkeypatch.setattr(benchmark.pictures, "draw_posteriors", lambda *_: [])
    monkeypatch.setattr(benchmark.benchmark_page, "draw", lambda *_: [])
    monkeypatch.setattr(benchmark, "checks", lambda *_: [])
    options = RunOptions(tmp_path, num_times=(2, 3))
    with pytest.raises(RuntimeError, match="cut off"):
        benchmark.measure(options)
    results = benchmark.measure(options)
    assert [row["num_times"] for row in results["rows"]] == [2, 3] * 4
    # Eight problems, one of them tried twice; never a program of another length beside its own.
    assert held == [1] * 9
