# SPDX-License-Identifier: MIT
"""What is drawn is what the model says; every picture goes where it is told to."""

from collections.abc import Iterator

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

import weft
from tests.estimator.tables import station_table
from weft.plots import _draw_cities
from weft.report.cities import cities_in_box


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return station_table()


@pytest.fixture(scope="module")
def fitted(table: pd.DataFrame) -> weft.SpaceTimeGP:
    space = ("lon", "lat", "elevation")
    gp = weft.SpaceTimeGP(time="time", space=space, target="value", max_iterations=4, progress=None, units="degC")
    return gp.fit(table)


@pytest.fixture
def ax() -> Iterator[object]:
    with matplotlib.rc_context({"backend": "agg"}):
        yield Figure().add_subplot()


def test_map_shows_the_field_and_what_was_measured(fitted: weft.SpaceTimeGP, table: pd.DataFrame, ax) -> None:
    assert fitted.plot.map("2021-03-09", step=0.5, ax=ax) is ax
    mesh, circles = ax.collections[0], ax.collections[-1]
    today = table[table["time"] == "2021-03-09"]
    np.testing.assert_allclose(np.sort(circles.get_array()), np.sort(today["value"]), rtol=1e-9)
    assert mesh.norm is circles.norm
    # Colours fit the time shown: no wider than what is on the map.
    shown = np.concatenate([mesh.get_array().ravel(), circles.get_array()])
    assert mesh.get_clim() == (shown.min(), shown.max())
    assert ax.get_title() == "2021-03-09"
    with pytest.raises(ValueError, match="what must be 'mean' or 'sd'"):
        fitted.plot.map(what="median", ax=ax)


def test_series_is_the_point_and_the_measurements(fitted: weft.SpaceTimeGP, table: pd.DataFrame, ax) -> None:
    assert fitted.plot.series("3", table=table, ax=ax) is ax
    own = table[table["station"] == 3]
    expected = fitted.point(own[["lon", "lat", "elevation"]].iloc[0].to_dict())
    line, dots = ax.lines
    np.testing.assert_allclose(line.get_ydata(), expected["mean"], rtol=1e-9)
    np.testing.assert_array_equal(dots.get_ydata(), own["value"].dropna())
    place = own[["lon", "lat", "elevation"]].iloc[0].tolist()
    np.testing.assert_allclose(fitted.plot.series(place).lines[0].get_ydata(), expected["mean"], rtol=1e-9)
    # A row of the table is a place too, called after what says where.
    by_row = fitted.plot.series(own.iloc[0])
    np.testing.assert_allclose(by_row.lines[0].get_ydata(), expected["mean"], rtol=1e-9)
    assert by_row.get_title() == ", ".join(
        f"{name} {number:g}" for name, number in own[["lon", "lat", "elevation"]].iloc[0].items()
    )
    with pytest.raises(ValueError, match="a point needs lon, lat, elevation"):
        fitted.plot.series(place[:2])
    with pytest.raises(ValueError, match="does not know stations by name"):
        fitted.plot.series("3", ax=ax)
    with pytest.raises(ValueError, match="numbered from 0 to 5"):
        fitted.plot.series(9, ax=ax)


def test_one_model_has_no_regions_to_draw(fitted: weft.SpaceTimeGP) -> None:
    with pytest.raises(ValueError, match="one model answers for all places"):
        fitted.plot.regions()


def test_notebooks_show_what_was_learned(fitted: weft.SpaceTimeGP, table: pd.DataFrame) -> None:
    page = fitted._repr_html_()
    assert "<th>SpaceTimeGP of &#x27;value&#x27;</th>" in page
    assert "<th>noise</th>" in page
    assert "not fitted yet" in weft.SpaceTimeGP(time="t", space=("x",), target="y")._repr_html_()
    assert "<th>log evidence</th>" in fitted.result_._repr_html_()
    scores = fitted.score(table)
    assert f"<td>{scores['mean_crps']:.4g}</td>" in scores._repr_html_()


def test_components_add_up(fitted: weft.SpaceTimeGP, ax) -> None:
    assert fitted.plot.components(1, ax=ax) is ax
    names = [line.get_label() for line in ax.lines if not line.get_label().startswith("_")]
    assert names == list(fitted.fitted_.all_names)


def test_calibration_counts_what_intervals_hold(fitted: weft.SpaceTimeGP, table: pd.DataFrame, ax) -> None:
    assert fitted.plot.calibration(table, ax=ax) is ax
    _, curve = ax.lines
    answer = fitted.predict(table, quantiles=(0.25, 0.75))
    held = table["value"].between(answer["q0.25"], answer["q0.75"])[table["value"].notna()].mean()
    at_half = curve.get_ydata()[np.argmin(np.abs(curve.get_xdata() - 0.5))]
    assert at_half == pytest.approx(held, abs=1e-9)


def test_a_map_far_from_any_coast_has_names_to_orient_by(ax) -> None:
    box = (9.0, 45.5, 13.0, 49.0)
    found = cities_in_box(box, 6)
    assert [city.name for city in found[:2]] == ["Munich", "Stuttgart"]
    for number, city in enumerate(found):
        assert box[0] < city.longitude < box[2]
        assert box[1] < city.latitude < box[3]
        for other in found[:number]:
            assert abs(city.longitude - other.longitude) > 1.0 or abs(city.latitude - other.latitude) > 0.28
    # Where longitudes are counted to 360, and where there is nothing.
    assert cities_in_box((230.0, 42.0, 246.0, 50.0), 1)[0].name == "Seattle"
    assert 237 < cities_in_box((230.0, 42.0, 246.0, 50.0), 1)[0].longitude < 238
    assert cities_in_box((-150.0, -50.0, -130.0, -40.0), 6) == ()
    # Seattle lies near the rim of the demo's box, which had no name at all.
    assert [city.name for city in cities_in_box((-124.6, 47.1, -122.1, 49.0), 6)] == ["Seattle"]
    ax.set_xlim(9.0, 13.0)
    ax.set_ylim(45.5, 49.0)
    _draw_cities(ax)
    assert {text.get_text() for text in ax.texts} == {city.name for city in found}
    assert all(text.get_ha() == ("right" if text.get_position()[0] > 12.2 else "left") for text in ax.texts)
    assert (ax.get_xlim(), ax.get_ylim()) == ((9.0, 13.0), (45.5, 49.0))
