# SPDX-License-Identifier: MIT
"""Numbers that were too large or too small to compute with: saved as models that could not be loaded, or a traceback."""

import pathlib

import numpy as np
import pandas as pd
import pytest

from tests.cli.conftest import Run, assert_refused, folder, run
from weft.data.clock import learn_clock
from weft.data.scaling import Scaling, TargetScaling, learn_scaling, learn_target
from weft.data.tables import numbers

__all__ = ["folder", "run"]

TIMES = pd.Series([0.0, 1.0, 2.0, 0.5])
VALUES = np.array([1.5, -0.5, 2.0, 0.25])


@pytest.mark.parametrize("value", [1e155, 1e308, -1e308, 1e76])
def test_a_model_of_huge_numbers_could_not_be_loaded(value: float) -> None:
    with pytest.raises(ValueError, match=r"too large to compute with.*row 2 .*other units"):
        numbers(pd.Series([0.0, 1.0, value]), "y")
    np.testing.assert_array_equal(numbers(pd.Series([0.0, -1e75]), "y"), [0.0, -1e75])


@pytest.mark.parametrize("factor", [1e-160, 1e-200, 1e-310])
def test_tiny_numbers_were_called_infinite(factor: float) -> None:
    with pytest.raises(ValueError, match="too little to compute with"):
        learn_target(VALUES * factor, name="y")
    with pytest.raises(ValueError, match="too little to compute with"):
        learn_target(np.abs(VALUES) * factor, name="y", standardise=False)
    with pytest.raises(ValueError, match="too little to compute with"):
        learn_clock(TIMES * factor, "t")


def test_values_that_a_transform_makes_equal_are_no_target() -> None:
    with pytest.raises(ValueError, match="too little"):
        learn_target(np.array([1e30, 1e30 * (1 + 2e-16)]), "log", name="y")


@pytest.mark.parametrize("factor", [1e-60, 1e-20, 1.0, 1e20, 1e60])
def test_units_do_not_matter_within_the_range(factor: float) -> None:
    """A column of space in very small units counted as one that never changes."""
    scaling = learn_scaling({"depth": VALUES * factor})
    np.testing.assert_allclose(
        scaling.forward({"depth": VALUES * factor})[:, 0], (VALUES - VALUES.mean()) / VALUES.std()
    )
    target = learn_target(VALUES * factor)
    np.testing.assert_allclose(target.forward(VALUES * factor), (VALUES - VALUES.mean()) / VALUES.std())
    np.testing.assert_allclose(target.moments(np.zeros(1), np.ones(1))[1], VALUES.std() * factor)


def test_a_column_that_changes_by_rounding_only_never_changes() -> None:
    scaling = learn_scaling({"depth": np.array([3e5, 3e5 * (1 + 1e-14)])})
    assert scaling.scales == {"depth": 1.0}


@pytest.mark.parametrize(("column", "factor"), [("y", 1e155), ("y", 5e148), ("y", 1e-200), ("t", 1e-160), ("x", 1e300)])
def test_fit_refuses_in_a_sentence(column: str, factor: float, run: Run, folder: pathlib.Path) -> None:
    rng = np.random.default_rng(4)
    table = pd.DataFrame(
        {"t": np.repeat(np.arange(1.0, 7.0), 2), "x": np.tile([0.5, 1.5], 6), "y": rng.normal(size=12)}
    )
    table[column] *= factor
    table.to_csv("t.csv", index=False)
    outcome = run("fit", "t.csv", "--time", "t", "--space", "x", "--target", "y", "-o", "m.weft")
    assert_refused(outcome, "to compute with", "other units")
    assert [path.name for path in folder.iterdir()] == ["t.csv"]


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ({"transform": "identity", "centre": np.nan, "scale": 1.0}, "not finite"),
        ({"transform": "identity", "centre": 0.0, "scale": 0.0}, "not positive"),
        ({"transform": "identity", "centre": 0.0, "scale": np.inf}, "not finite"),
    ],
)
def test_units_of_a_target_that_cannot_be(record: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        TargetScaling.from_json(record)


SPACE = {"columns": ["a", "lon", "lat"], "centres": {"a": 1.0}, "scales": {"a": 2.0}}
MAP = {"method": "sphere", "first": "lon", "second": "lat"}


@pytest.mark.parametrize(
    "change",
    [
        {"columns": ["a", "lon"]},
        {"columns": ["a", "lon", "lat", "b"]},
        {"scales": {}},
        {"scales": {"a": -1.0}},
        {"centres": {"a": np.inf}},
        {"geography": MAP | {"method": "cube"}},
        {"geography": MAP | {"second": "height"}},
        {"geography": MAP | {"centre_latitude": np.nan}},
        {"geography": None},
    ],
)
def test_units_of_space_that_cannot_be(change: dict[str, object]) -> None:
    record = SPACE | {"geography": MAP}
    assert Scaling.from_json(record).to_json()["columns"] == record["columns"]
    with pytest.raises(ValueError, match="its "):
        Scaling.from_json(record | change)


@pytest.mark.parametrize(
    "change",
    [
        {"unit": "x"},
        {"kind": "sundial"},
        {"origin": None},
        {"origin": "yesterday"},
        {"resolution": "fortnight"},
        {"time_zone": "Middle/Earth"},
        {"time_step": "soon"},
    ],
)
def test_clocks_that_cannot_be(change: dict[str, object]) -> None:
    """`unit="x"` loaded, and failed in `predict`."""
    clock = learn_clock(pd.Series(pd.date_range("2020-01-01", periods=3)), "t")
    record = clock.to_json()
    assert type(clock).from_json(record) == clock
    with pytest.raises(ValueError, match=r"its |parsing|time_step"):
        type(clock).from_json(record | change)
