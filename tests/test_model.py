# SPDX-License-Identifier: MIT
"""What a model refuses."""

import subprocess
import sys

import numpy as np
import pytest

import weft

KERNEL = weft.Separable(space=weft.EQ([1.0, 2.0]), time=weft.Matern32(3.0))
NOISE = weft.Gaussian(0.1)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: weft.EQ(-1.0), ValueError, "EQ: lengthscale must be positive; it is -1.0"),
        (lambda: weft.Matern32([1.0, np.nan]), ValueError, "lengthscale must be positive"),
        (lambda: weft.Gaussian(-0.1), ValueError, "variance must be zero or positive"),
        (lambda: -1.0 * KERNEL, ValueError, "variance must be positive"),
        (lambda: weft.Model(weft.EQ(1.0), NOISE), TypeError, "kernel must be a Separable.*EQ"),
        (lambda: weft.Model(KERNEL, 0.1), TypeError, "likelihood must be one such as"),
        (lambda: weft.Model(KERNEL, NOISE, np.zeros(4)), ValueError, r"must be a matrix.*\(4,\)"),
        (lambda: weft.Model(KERNEL, NOISE, np.zeros((4, 3))), ValueError, "3"),
        (lambda: weft.Model(KERNEL, NOISE, np.full((4, 2), np.inf)), ValueError, "pseudo_points must be finite"),
        (lambda: weft.Model(KERNEL, NOISE, (np.zeros((4, 2)),) * 2), ValueError, "2 matrices and 1 components"),
        (lambda: weft.Separable(space=weft.EQ(1.0), time=weft.RationalQuadratic(1.0)), TypeError, "state-space"),
        (lambda: weft.Separable(space=1.0, time=weft.EQ(1.0)), TypeError, "space= takes a kernel"),
        (lambda: weft.Model(KERNEL, NOISE, mean=3.0), TypeError, "mean must be None"),
    ],
)
def test_wrong_models_are_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_data_of_another_width_are_refused():
    data = weft.Observations(np.zeros(3), np.zeros((3, 1)), np.ones(3))
    with pytest.raises(ValueError, match=r"columns"):
        weft.log_evidence(weft.Model(weft.Separable(weft.EQ(1.0), weft.Matern12(1.0)), NOISE, np.zeros((2, 2))), data)
    with pytest.raises(ValueError, match=r"lengthscale"):
        weft.log_evidence(weft.Model(KERNEL, NOISE), data)


def test_a_row_without_any_noise_is_refused():
    data = weft.Observations(np.zeros(3), np.zeros((3, 2)), np.ones(3), noise_variance=[0.1, 0.0, 0.1])
    with pytest.raises(ValueError, match=r"every row needs a positive noise_variance.*row 1"):
        weft.log_evidence(weft.Model(KERNEL, weft.Gaussian(0.0)), data)


def test_noise_too_small_to_matter_is_raised_with_a_warning():
    data = weft.Observations([0.0, 1.0, 2.0], np.zeros((3, 2)), np.ones(3))
    with pytest.warns(UserWarning, match="below 1e-10 of the prior variance"):
        tiny = weft.log_evidence(weft.Model(KERNEL, weft.Gaussian(1e-14)), data)
    assert np.isfinite(tiny)


@pytest.mark.parametrize("power", [-0.1, 1.1, np.nan])
def test_power_outside_its_range_is_refused(power):
    data = weft.Observations(np.zeros(3), np.zeros((3, 2)), np.ones(3))
    with pytest.raises(ValueError, match="power must be between 0"):
        weft.log_evidence(weft.Model(KERNEL, NOISE), data, power=power)


def test_an_unknown_engine_is_refused():
    data = weft.Observations(np.zeros(3), np.zeros((3, 2)), np.ones(3))
    with pytest.raises(
        ValueError, match="engine must be one of 'auto', 'cpu', 'scan', 'parallel', 'dense', 'time_blocks'; it is 'gpu'"
    ):
        weft.log_evidence(weft.Model(KERNEL, NOISE), data, engine="gpu")


def test_single_precision_is_refused():
    code = (
        "import weft\n"
        "kernel = weft.Separable(space=weft.EQ(1.0), time=weft.Matern32(3.0))\n"
        "for make in (lambda: weft.Model(kernel, weft.Gaussian(0.1)), lambda: weft.Observations([0.0], [[0.0]], [1.0])):\n"
        "    try:\n"
        "        make()\n"
        "    except ValueError as error:\n"
        "        print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["float64 is off; call jax.config.update('jax_enable_x64', True) first"] * 2


def test_importing_weft_imports_no_jax():
    code = "import sys, weft; print('jax' in sys.modules, 'numba' in sys.modules, 'pandas' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False", "False"]


def test_whoever_loads_a_model_waits_for_no_optimiser_and_no_statistics() -> None:
    slow = ("scipy.stats", "scipy.optimize", "scipy.integrate", "scipy.interpolate", "matplotlib", "xarray")
    code = f"import sys, weft.loading; print([name for name in {slow!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
