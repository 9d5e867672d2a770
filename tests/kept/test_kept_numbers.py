# SPDX-License-Identifier: MIT
"""Numbers and files of version 0.1, held through every change of how the code is laid out."""

import json
import os
import pathlib
from collections.abc import Callable

import numpy as np
import pytest

import weft
from tests.conftest import QUICKLY
from tests.estimator.tables import station_table
from tests.kept import cases

NUMBERS = json.loads((pathlib.Path(__file__).parent / "numbers.json").read_text())
# Quantiles of counts and bounds of a search for sites are found to a tolerance, and steps of a fit magnify rounding.
LOOSER = {
    "poisson": 1e-6,
    "negative_binomial": 1e-6,
    "bernoulli": 1e-6,
    "student_t": 1e-6,
    "a_few_steps_of_a_fit": 1e-7,
    "table": 1e-7,
}

# Where features explain all of a component, what is left is rounding, and 0.1 added draws of its square root: 1.5e-8 of a deviation each.
WITH_ROOT_OF_ROUNDING = ("covariates_and_columns", "linear_mean", "shared_pseudo_points_and_constant_mean")
ROOT_OF_ROUNDING = 4 * 2.0**-26


def close(found: np.ndarray, kept: list, name: str, part: str) -> None:
    expected = np.asarray(kept, dtype=np.float64)
    found = np.asarray(found, dtype=np.float64)
    tolerance = LOOSER.get("table" if name.startswith("table") else name, 1e-10)
    if part == "draws" and name in WITH_ROOT_OF_ROUNDING:
        tolerance = ROOT_OF_ROUNDING
    size = max(float(np.max(np.abs(expected))), 1e-300)
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * size, err_msg=f"{name}: {part}")


# These engines compile for a minute, and the conformance tests hold them to the others in every run.
TAKES_LONG = {"by_parallel", "by_scan"}


@pytest.mark.skipif(QUICKLY in os.environ.get("XLA_FLAGS", ""), reason="compiled as users do: pytest tests/kept")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] * (name in TAKES_LONG)) for name in sorted(cases.CASES)]
)
def test_numbers_are_those_of_0_1(name: str) -> None:
    found = cases.CASES[name]()
    assert sorted(found) == sorted(NUMBERS[name])
    for part, kept in NUMBERS[name].items():
        close(found[part], kept, name, part)


def test_a_posterior_saved_by_0_1_answers_the_same() -> None:
    loaded, made = weft.load(cases.FILES / "posterior.weft"), cases.kept_posterior()
    asked = cases.ASKED_TIMES, cases.ASKED_PLACES
    np.testing.assert_allclose(loaded.marginals(*asked), made.marginals(*asked), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("file", "make", "seed"),
    [("estimator", cases.kept_estimator, 8), ("levels", cases.estimator_with_levels, 9)],
)
def test_an_estimator_saved_by_0_1_predicts_the_same(file: str, make: Callable, seed: int) -> None:
    table = station_table(seed)
    loaded, made = weft.load(cases.FILES / f"{file}.weft"), make()
    columns = ["mean", "sd", "latent_sd"]
    # What was learned then and what is learned now differ by rounding magnified in two steps of a fit.
    np.testing.assert_allclose(
        loaded.predict(table)[columns].to_numpy(), made.predict(table)[columns].to_numpy(), rtol=1e-7, atol=1e-8
    )
