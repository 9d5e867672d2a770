# SPDX-License-Identifier: MIT
"""The pages kept with the project are made from their numbers, to the letter, and tell no path of a machine."""

import json
import pathlib
import re

import pytest

from weft_experiments import EXPERIMENTS, results
from weft_experiments.options import RunOptions
from weft_experiments.registry import experiment
from weft_experiments.results import Steps, command, company, number, table

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "experiments"


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_pages_are_made_from_their_numbers(name):
    """The page of the experiment, and those of further runs of it in folders of their own below it."""
    pages = sorted((FOLDER / name).rglob("expected.json"))
    if not pages:
        pytest.skip(f"the page of {name} has not been made yet: weft reproduce {name} --output experiments/{name}")
    for numbers in pages:
        results, text = json.loads(numbers.read_text()), numbers.with_name("README.md").read_text()
        assert results["experiment"] == name
        assert not results["quick"]
        assert text == experiment(name).page(results)
        figures = {figure.name for figure in numbers.parent.glob("*.png")}
        assert figures == set(re.findall(r"\((\w[^()]*\.png)\)", text))
        assert all((numbers.parent / figure).stat().st_size < 150_000 for figure in figures)
        for path in ("/tmp", "/work", "/root", "/home"):
            assert path not in numbers.read_text() + text


def test_command_says_what_was_chosen():
    options = RunOptions(
        pathlib.Path("x"), quick=True, variant="text", pseudo_points=(5, 10), data=pathlib.Path("secret")
    )
    assert command("ghcn", options) == "weft reproduce ghcn --quick --variant text --pseudo-points 5 10"


def test_a_run_goes_on_where_it_was_cut_off(tmp_path):
    options, calls = RunOptions(tmp_path, seed=3), []

    def work(number):
        calls.append(number)
        return {"number": number}

    first = Steps("ghcn", options)
    assert set(first.spent.values()) == {0}
    assert first.once("a", lambda: work(1)) == {"number": 1}
    second = Steps("ghcn", options)
    assert second.once("a", lambda: work(2)) == {"number": 1}
    assert second.once("b", lambda: work(3)) == {"number": 3}
    assert min(second.spent.values()) > 0
    # Another command does not take them for its own.
    other = Steps("ghcn", RunOptions(tmp_path, seed=4))
    assert other.once("a", lambda: work(5)) == {"number": 5}
    assert calls == [1, 3, 5]


def test_a_page_names_every_commit_that_measured_some_of_it(tmp_path, monkeypatch):
    for commit, step in (("1111111", "a"), ("1111111", "b"), ("2222222", "c")):
        monkeypatch.setattr(results, "current_commit", lambda commit=commit: commit)
        Steps("ghcn", RunOptions(tmp_path)).once(step, dict)
    steps = Steps("ghcn", RunOptions(tmp_path))
    assert results.versions(steps.commits)["commit"] == "1111111 and 2222222"
    monkeypatch.setattr(results, "current_commit", lambda: None)
    # Outside of a working copy, and nothing measured before.
    assert "commit" not in results.versions(Steps("ghcn", RunOptions(tmp_path, seed=4)).commits)


def test_a_page_says_what_else_ran_on_the_machine():
    measured = {"load_before": 2.0, "load_after": 2.1, "seconds": 100.0, "processor_seconds": 98.0}
    pinned = {**measured, "machine": {"cores": 1, "all_cores": 2}}
    assert "held to 1 of 2 cores and had 98%" in company(pinned)[0]
    # A run that shared its core, had the whole machine, or was measured before this was kept.
    for shared in (
        {**pinned, "processor_seconds": 60.0},
        {**measured, "machine": {"cores": 2, "all_cores": 2}},
        {**measured, "machine": {"cores": 1}},
    ):
        assert company(shared)[0].startswith("Other work was running on it")
    assert company({**pinned, "load_before": 0.3}) == []
    assert company({**pinned, "load_before": None}) == []


def test_table_shows_numbers_for_a_reader():
    assert table(("a", "b"), [("x", None), ("y", 12345), ("z", 0.123456), ("w", True)]) == (
        "| a | b |\n|---|---:|\n| x | – |\n| y | 12,345 |\n| z | 0.1235 |\n| w | yes |"
    )
    assert number(123456.7) == "123,457"
