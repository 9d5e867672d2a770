# SPDX-License-Identifier: MIT
"""Reports of data without longitudes, names or dates, and of counts."""

import dataclasses
import pathlib

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from weft import SpaceTimeGP
from weft.estimator.wide import work_of_a_point
from weft.report import ReportSize, build_report
from weft.report.build import gather
from weft.report.canvas_map import MapAxes, map_axes, plan_map
from weft.report.packing import unpack
from weft.report.rows import SeenRows, rows_of_table

from .conftest import Written

SIZE = ReportSize(max_frames=3, map_points=90, series_points=60, max_stations=4, max_markers=6, component_rows=30)


@pytest.fixture(scope="module")
def counts() -> SpaceTimeGP:
    """Counts at plain coordinates and times, with a covariate and an exposure that change from row to row."""
    rng = np.random.default_rng(8)
    table = pd.DataFrame({"hour": np.repeat(np.arange(14.0), 9), "u": np.tile(rng.random(9), 14)})
    table["v"] = np.tile(3 * rng.random(9), 14)
    table["wet"] = rng.normal(size=len(table))
    table["area"] = 1 + 4 * rng.random(len(table))
    rate = np.exp(0.6 + np.sin(table["hour"] / 3) * table["u"] + 0.3 * table["wet"])
    table["cases"] = rng.poisson(rate * table["area"]).astype(float)
    gp = SpaceTimeGP(
        time="hour",
        space=("u", "v"),
        target="cases",
        covariates=("wet",),
        likelihood="poisson",
        exposure="area",
        max_iterations=1,
        progress=None,
    )
    return gp.fit(table)


@pytest.mark.slow
def test_counts_at_plain_coordinates_without_a_table(counts: SpaceTimeGP, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "report.html"
    content = build_report(counts, path=path, size=SIZE, checks=())
    assert "nothing was held out" in path.read_text(encoding="utf-8")
    assert content.map is not None
    assert not content.map.is_geographic
    assert content.map.coast == ()
    assert content.map.axes == ("u", "v")
    assert content.map.times == ("0", "6", "13")
    assert any("exposure of 1" in note for note in content.map.notes)
    assert any("wet is guessed" in note for note in content.map.notes)
    assert not content.series.has_dates
    assert len(content.series.stations) == 4
    assert content.series.stations[0].name.startswith("u ")
    assert {part.name for part in content.components} == {"slow", "fast", "covariates"}
    assert "on the scale of f" in {part.units for part in content.components}
    # A rate where it was measured: the series is for the row's own exposure and covariate.
    station = content.series.stations[1]
    batch = counts.posterior_.batches[0]
    u, v = (float(part.split()[1]) for part in station.name.split(", "))
    places = batch.row_places * np.array([1.0, 1.0, 1.0])
    coordinates = counts.fitted_.translation.scaling.inverse(places[:, :2])
    own = np.flatnonzero((abs(coordinates["u"] - u) < 1e-4) & (abs(coordinates["v"] - v) < 1e-4))
    asked = pd.DataFrame(
        {
            "hour": batch.row_times[own],
            "u": coordinates["u"][own],
            "v": coordinates["v"][own],
            "wet": counts.fitted_.translation.covariates.inverse(places[own, 2:])["wet"],
            "area": np.asarray(batch.exposure)[own],
        }
    )
    expected = counts.predict(asked)["mean"].to_numpy()
    assert_allclose(unpack(station.mean), expected[-len(content.series.times) :], atol=station.mean.step)


def test_a_model_that_has_learned_nothing_is_refused() -> None:
    gp = SpaceTimeGP(time="t", space=("x",), target="y")
    with pytest.raises(ValueError, match="has not learned anything yet"):
        gather(gp, size=SIZE)


def test_data_across_the_antimeridian_stay_in_one_piece(written: Written) -> None:
    rows = rows_of_table(written.gp, written.table)

    def axes(longitudes: list[float]) -> tuple[MapAxes, np.ndarray]:
        places = {"lon": np.array(longitudes), "lat": np.zeros(len(longitudes))}
        moved = SeenRows(rows.measured, rows.times, rows.values, rows.place, places, rows.names, rows.has_names)
        found = map_axes(written.gp, moved)
        assert found is not None
        return found, found.coordinates(places)[:, 0]

    found, x = axes([178.0, -179.0, 179.5])
    assert_allclose(np.sort(x) - np.min(x), [0.0, 1.5, 3.0])
    assert_allclose(np.sort(found.columns(np.stack([x, x], axis=1))["lon"]), [-179.0, 178.0, 179.5])
    assert_allclose(axes([-123.0, -122.0])[1], [-123.0, -122.0])
    assert_allclose(axes([5.0, 359.0])[1], [5.0, -1.0])


def test_a_map_of_regions_of_rows_has_as_many_points_as_its_work_allows(tmp_path: pathlib.Path) -> None:
    """Of 4,110 sales the map's 230,000 points took half of the time from file to report: each is solved for with a thousand rows."""
    rng = np.random.default_rng(5)
    table = pd.DataFrame({"hour": rng.integers(0, 9, 240).astype(float), "u": rng.random(240), "v": rng.random(240)})
    table["x"] = np.sin(5 * table["u"] + table["hour"] / 4) + 0.1 * rng.normal(size=240)
    gp = SpaceTimeGP(
        time="hour", space=("u", "v"), target="x", habits=None, regions=3, max_iterations=1, progress=None
    ).fit(table)
    rows = rows_of_table(gp, table, None)
    axes = map_axes(gp, rows)
    assert axes is not None
    size = dataclasses.replace(SIZE, map_points=900, max_frames=6, fewest_cells=40)
    each = work_of_a_point(gp.posterior_)
    assert 80**2 < each <= 240**2
    free = plan_map(gp, rows, axes, terrain=None, size=dataclasses.replace(size, map_work=900 * each))
    held = plan_map(gp, rows, axes, terrain=None, size=dataclasses.replace(size, map_work=170 * each))
    few = plan_map(gp, rows, axes, terrain=None, size=dataclasses.replace(size, map_work=10 * each))
    assert (len(free.frames), len(held.frames), len(few.frames)) == (6, 4, 1)
    assert 700 < free.asked.num_rows <= 900
    assert 4 * 30 < held.asked.num_rows <= 170
    assert 30 < few.asked.num_rows <= 40
