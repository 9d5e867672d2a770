# SPDX-License-Identifier: MIT
"""scikit-learn's habits, double precision for the length of a call, updates, draws, storage and words."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import weft
from tests.estimator.tables import STATIONS


def test_clone_and_parameters(fitted):
    arguments = fitted.get_params()
    assert arguments["max_iterations"] == 4
    assert arguments["space"] == ("lon", "lat", "elevation")
    copy = clone(fitted)
    assert copy.get_params() == arguments
    assert not hasattr(copy, "posterior_")
    assert copy.set_params(seed=5, kernel=None) is copy
    assert copy.seed == 5
    with pytest.raises(ValueError, match="no argument 'sead'"):
        copy.set_params(sead=3)
    assert repr(copy).startswith("SpaceTimeGP(time='time', space=('lon', 'lat', 'elevation'), target='value', units=")


def test_a_loaded_estimator_shows_what_was_chosen_and_no_more(fitted, tmp_path):
    """Arguments read from a file equal their defaults without being the same objects."""
    fitted.save(tmp_path / "model.weft")
    assert repr(weft.load(tmp_path / "model.weft")) == repr(fitted)
    assert "likelihood" not in repr(fitted)
    other = weft.SpaceTimeGP(time="t", space=("x",), target="y", max_iterations=True, power=0.5)
    assert repr(other) == "SpaceTimeGP(time='t', space=('x',), target='y', power=0.5, max_iterations=True)"


def test_update_equals_conditioning_on_everything(fitted, table):
    start = fitted.fitted_
    early, late = table.iloc[: 20 * STATIONS], table.iloc[20 * STATIONS :]
    part = weft.SpaceTimeGP(**fitted.get_params())
    part._keep(start.given_only(start.read(early)))
    assert part.num_rows_ == len(early)
    assert part.update(late) is part
    expected, answer = fitted.predict(table), part.predict(table)
    assert_allclose(answer["mean"], expected["mean"], rtol=1e-9)
    assert_allclose(answer["sd"], expected["sd"], rtol=1e-8)
    assert (part.num_rows_, part.num_missing_) == (fitted.num_rows_, fitted.num_missing_) == (150, 1)


def test_rows_the_model_has_already_are_counted(fitted, table):
    """Row 17 has no value yet, so that one there is news; another height is another place."""
    start = fitted.fitted_
    part = start.given_only(start.read(table.iloc[: 20 * STATIONS]))
    again = table.iloc[[17, 20, 21, 22, 20 * STATIONS]].fillna({"value": 25.0})
    again.iloc[3, again.columns.get_loc("elevation")] += 100.0
    assert part.num_repeated(part.read(again)) == 2
    # Coordinates in single precision are those places all the same.
    single = again.assign(lon=again["lon"].astype(np.float32), lat=again["lat"].astype(np.float32))
    assert part.num_repeated(part.read(single)) == 2
    assert part.num_repeated(part.read(table.iloc[20 * STATIONS :])) == 0


def test_draws_have_the_predicted_distribution(fitted, table):
    few = table.iloc[[3, 3, 70, 149]]
    drawn = fitted.sample(few, num=600, seed=4)
    assert list(drawn.columns) == [*few.columns, *(f"draw_{k}" for k in range(600))]
    draws = drawn.iloc[:, len(few.columns) :].to_numpy()
    expected = fitted.predict(few)
    # Four standard errors of 600 draws.
    assert_allclose(draws.mean(axis=1), expected["mean"], atol=4 * expected["sd"].max() / np.sqrt(600))
    assert_allclose(draws.std(axis=1), expected["sd"], rtol=4 / np.sqrt(2 * 600))
    field = fitted.sample(few, num=5, seed=4, of="field").filter(like="draw_").to_numpy()
    assert_allclose(field[0], field[1], rtol=1e-9)
    assert not np.allclose(draws[0], draws[1])
    assert_array_equal(draws, fitted.sample(few, num=600, seed=4).iloc[:, len(few.columns) :])


def test_draws_on_a_grid_have_a_dimension(fitted):
    import xarray as xr

    grid = xr.Dataset(
        {"elevation": (("lat", "lon"), np.full((2, 3), 200.0))},
        coords={"time": pd.date_range("2021-03-10", periods=2), "lat": [47.0, 48.0], "lon": [10.0, 11.0, 12.0]},
    )
    draws = fitted.sample(grid, num=4, seed=1)["draws"]
    assert draws.dims == ("draw", "time", "lat", "lon")
    assert draws.attrs["of"] == "observation"


@pytest.mark.parametrize("rows", [True, False])
def test_saved_and_loaded_it_answers_the_same(fitted, table, tmp_path, rows):
    path = tmp_path / "model.weft"
    fitted.save(path, rows=rows)
    again = weft.load(path)
    assert isinstance(again, weft.SpaceTimeGP)
    assert again.get_params() == fitted.get_params()
    assert_array_equal(again.predict(table)["q0.95"], fitted.predict(table)["q0.95"])
    assert again.summary() == fitted.summary()
    assert again.result_.message == fitted.result_.message
    assert again.result_.history == fitted.result_.history
    assert ("mean_crps_climatology" in again.score(table)) is rows


def test_a_kernel_of_ones_own_is_saved_with_the_estimator(table, tmp_path):
    kernel = 0.7 * weft.Separable(space=weft.EQ([80.0, 90.0]), time=weft.Matern52(6.0))
    points = np.array([[0.0, 0.0], [40.0, -30.0], [-50.0, 20.0]])
    gp = weft.SpaceTimeGP(
        time="time",
        space=["lon", "lat"],
        target="value",
        kernel=kernel,
        pseudo_points=points,
        likelihood=weft.Gaussian(0.2),
        time_step="2D",
        max_iterations=1,
        progress=None,
    ).fit(table)
    assert gp.component_names_ == ("component 1",)
    assert_array_equal(gp.model_.pseudo_points, points)
    assert gp.binning_ is not None
    assert "25 distinct times became 13" in gp.binning_.message
    gp.save(tmp_path / "own.weft")
    again = weft.load(tmp_path / "own.weft")
    assert_array_equal(again.predict(table)["mean"], gp.predict(table)["mean"])
    assert again.binning_ == gp.binning_
    assert float(again.kernel.variance) == 0.7
    assert_array_equal(again.pseudo_points, points)


def test_the_summary_speaks_of_kilometres_and_days(fitted):
    text = fitted.summary()
    slow = fitted.components_[0]
    assert slow["name"] == "slow"
    east, unit = slow["space"]["east"]
    assert unit == "km"
    assert_allclose(east, fitted.model_.kernel.components[0].space.lengthscale[0])
    height, _ = slow["space"]["elevation"]
    scale = fitted.translation_.scaling.scales["elevation"]
    assert_allclose(height, fitted.model_.kernel.components[0].space.lengthscale[2] * scale)
    noise = np.sqrt(float(fitted.model_.likelihood.variance)) * np.nanstd(station_values(fitted))
    assert f"noise  sd {noise:.3g} degC" in text
    assert f"time {float(fitted.model_.kernel.components[0].time.lengthscale):.3g} days" in text
    assert "150 rows (1 without a value), 25 times" in text


def station_values(fitted: weft.SpaceTimeGP) -> np.ndarray:
    (batch,) = fitted.posterior_.batches
    return fitted.translation_.target.inverse(np.asarray(batch.values))


def test_a_weekly_cycle_is_found_and_carried_on(table):
    gp = weft.SpaceTimeGP(
        time="time", space=("lon", "lat"), target="value", seasonality=("weekly",), max_iterations=12, progress=None
    ).fit(table)
    assert gp.component_names_ == ("slow", "fast", "weekly")
    learned = gp.result_.parameters
    assert not any("components[2].space" in name or "period" in name for name in learned)
    ahead = gp.posterior_.components(np.arange(60.0, 74.0), np.zeros((14, 2)))[2]
    assert_allclose(ahead.mean[:7], ahead.mean[7:], atol=1e-6)
    wave = 1.5 * np.cos(2 * np.pi * np.arange(60.0, 67.0) / 7.0) / gp.translation_.target.scale
    assert np.corrcoef(ahead.mean[:7], wave)[0, 1] > 0.9


SCOPED = """
import sys, jax, numpy as np, pandas as pd
import weft
from tests.estimator.tables import station_table
table = station_table()
gp = weft.SpaceTimeGP(time="time", space=("lon", "lat", "elevation"), target="value", max_iterations=4, progress=None)
gp.fit(table)
np.save(sys.argv[1], gp.predict(table)["mean"].to_numpy())
assert not jax.config.jax_enable_x64
assert jax.numpy.ones(1).dtype == np.float32
"""


def test_double_precision_is_on_only_inside(fitted, table, tmp_path):
    """In a program that never turns it on, where compiled code calls back from threads of its own."""
    path = tmp_path / "mean.npy"
    subprocess.run([sys.executable, "-c", SCOPED, str(path)], check=True, env=_environment())
    assert_allclose(np.load(path), fitted.predict(table)["mean"], rtol=1e-9)


def _environment() -> dict[str, str]:
    import os
    import pathlib

    root = pathlib.Path(__file__).resolve().parents[2]
    return os.environ | {"PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"}
