# SPDX-License-Identifier: MIT
"""The worked examples run on real data and beat their naive forecasts, also where they are cut short."""

import importlib.util
import pathlib

import pytest

EXAMPLES = pathlib.Path(__file__).resolve().parents[1] / "examples"


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.long
def test_counts_of_italy(shared_data):
    table = load("italy_covid").run(shared_data, quick=True).set_index(["task", "method"])
    for task in ("fill", "forecast"):
        ours, naive = table.loc[(task, "weft")], table.loc[(task, "same weekday")]
        assert ours["mean negative log probability"] < naive["mean negative log probability"]
        assert ours["mean CRPS"] < naive["mean CRPS"]
    assert 0.85 <= table.loc[("fill", "weft"), "coverage of 90 % intervals"] <= 0.95


def test_exceedances_in_germany(shared_data):
    table = load("pm10_exceedance").run(shared_data, quick=True).set_index("method")
    loss = table["mean negative log probability"]
    assert loss["weft"] < loss["frequency of the month"]
