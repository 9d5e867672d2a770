# SPDX-License-Identifier: MIT
"""The pages kept with the project are made from their numbers, to the letter, and tell no path of a machine."""

import json
import pathlib

import pytest

from weft.experiments import EXPERIMENTS
from weft.experiments.registry import experiment
from weft.experiments.results import command, number, table
from weft.experiments.settings import Settings

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "experiments"


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if (FOLDER / name).is_dir()])
def test_page_is_made_from_its_numbers(name):
    text, numbers = (FOLDER / name / file for file in ("README.md", "expected.json"))
    if not numbers.exists():
        pytest.skip(f"the page of {name} has not been made yet: weft reproduce {name} --output experiments/{name}")
    results = json.loads(numbers.read_text())
    assert results["experiment"] == name
    assert not results["quick"]
    assert text.read_text() == experiment(name).page(results)
    for figure in (FOLDER / name).glob("*.png"):
        assert f"({figure.name})" in text.read_text()
        assert figure.stat().st_size < 150_000
    assert "/tmp" not in numbers.read_text()


def test_command_says_what_was_chosen():
    settings = Settings(
        pathlib.Path("x"), quick=True, variant="text", pseudo_points=(5, 10), data=pathlib.Path("secret")
    )
    assert command("ghcn", settings) == "weft reproduce ghcn --quick --variant text --pseudo-points 5 10"


def test_table_shows_numbers_for_a_reader():
    assert table(("a", "b"), [("x", None), ("y", 12345), ("z", 0.123456), ("w", True)]) == (
        "| a | b |\n|---|---:|\n| x | – |\n| y | 12,345 |\n| z | 0.1235 |\n| w | yes |"
    )
    assert number(123456.7) == "123,457"
