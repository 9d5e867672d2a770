# SPDX-License-Identifier: MIT
"""Every experiment runs from end to end in its quick version, and shows what a small run can show."""

import json

import pytest

from tests.experiments.original_files import write_land_registry, write_noaa
from weft_experiments import EXPERIMENTS, apartments, run
from weft_experiments.__main__ import main
from weft_experiments.registry import experiment

pytestmark = pytest.mark.slow


def results_of(page):
    """The numbers of a run, after seeing that its page and figures are whole and small."""
    folder = page.parent
    results = json.loads((folder / "expected.json").read_text())
    text = page.read_text()
    assert text == experiment(results["experiment"]).page(results)
    figures = list(folder.glob("*.png"))
    assert figures
    for figure in figures:
        assert f"({figure.name})" in text
        assert figure.stat().st_size < 150_000
    assert results["measured"]["seconds"] > 0
    assert results["measured"]["peak_memory_bytes"] > 1e8
    return results


def shown(results, words):
    return next(check["holds"] for check in results["checks"] if words in check["claim"])


@pytest.mark.long
def test_benchmark(tmp_path):
    results = results_of(run("benchmark", quick=True, output=tmp_path, seed=3))
    assert results["command"] == "weft reproduce benchmark --quick --seed 3"
    assert shown(results, "within 1e-6 of the dense one")
    assert shown(results, "with all places is within 1e-6")
    assert shown(results, "with 20 pseudo-points the bound is tight")
    assert shown(results, "with 5 it is loose")
    assert shown(results, "within 1e-7 of dense")
    assert {row["method"] for row in results["rows"]} == {"exact dense", "state space", "pseudo-points"}
    assert all(row["gradient_seconds"] > 0 for row in results["rows"] if row.get("num_pseudo") == 20)


@pytest.mark.long
def test_emission(tmp_path, capsys):
    assert main(["emission", "--quick", "--output", str(tmp_path)]) == 0
    assert capsys.readouterr().out.strip().endswith("README.md")
    results = results_of(tmp_path / "README.md")
    assert shown(results, "all updates agree")
    assert {row["num_latent"] for row in results["rows"]} == {1, 2, 3}


def test_ghcn(tmp_path):
    write_noaa(tmp_path / "data")
    results = results_of(run("ghcn", quick=True, data=tmp_path / "data", output=tmp_path / "out", pseudo_points=(4,)))
    (described,) = results["sets"]
    assert (described["num_stations"], described["num_days"]) == (9, 90)
    assert described["map"] is None
    methods = ("pseudo-points", "subset of stations", "pseudo-points, in the subset's time")
    assert [(row["kernel"], row["method"]) for row in results["rows"]] == [
        (kernel, method) for kernel in ("separable", "sum-separable") for method in methods
    ]
    for row in results["rows"]:
        assert not row["converged"]
        if row["method"] == methods[2]:
            assert row["log_evidence"] >= row["start_log_evidence"]
            assert row["iterations"] <= 3
        else:
            assert row["log_evidence"] > row["start_log_evidence"]
            assert row["iterations"] == 3
    assert not (tmp_path / "out" / "steps.json").exists()


def test_apartments(tmp_path):
    write_land_registry(tmp_path / "data")
    chosen = {"quick": True, "data": tmp_path / "data", "output": tmp_path / "out", "pseudo_points": (6,)}

    def cut_off(*_):
        raise RuntimeError("cut off")

    # Cut off after the paper's two models, it learns neither again.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(apartments, "estimator_scores", cut_off)
        with pytest.raises(RuntimeError, match="cut off"):
            run("apartments", **chosen, max_iterations=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(apartments, "learn", cut_off)
        results = results_of(run("apartments", **chosen, max_iterations=2))
    assert not (tmp_path / "out" / "steps.json").exists()
    assert results["num_train"] == results["num_test"] or results["num_train"] + 1 == results["num_test"]
    for row in results["rows"]:
        assert row["num_pseudo"] == 6
        assert row["log_evidence"] > row["start_log_evidence"]
        assert row["mean_negative_log_density_latent_only"] > row["mean_negative_log_density"]
    # Values are standardised, so that their mean, with its deviation, would have a density of about -1.4.
    for found in results["beyond"]:
        assert 0 < found["standardised_rmse"] < 1.5
        assert found["mean_negative_log_density"] < 2.5
    assert not results["beyond"][1]["habits"]
    assert results["beyond"][2]["num_regions"] == 0
    assert "## Beyond the paper" in (tmp_path / "out" / "README.md").read_text()


def test_every_experiment_has_a_quick_run_here():
    assert {name.removeprefix("test_") for name in globals() if name.startswith("test_")} > set(EXPERIMENTS)
