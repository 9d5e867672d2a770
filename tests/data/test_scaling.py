# SPDX-License-Identifier: MIT
import json

import numpy as np
import pyproj
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.data.scaling import Scaling, TargetScaling, find_easting_northing, find_lon_lat, learn_scaling, learn_target

GEOD = pyproj.Geod(ellps="WGS84")


def spread(centre_longitude, centre_latitude, radius_km, num=60, seed=0):
    """Places within `radius_km` of a centre, by geodesics, so that no projection takes part."""
    generator = np.random.default_rng(seed)
    away = 1000 * radius_km * np.sqrt(generator.uniform(0, 1, num))
    lon, lat, _ = GEOD.fwd(
        np.full(num, centre_longitude), np.full(num, centre_latitude), generator.uniform(0, 360, num), away
    )
    return np.asarray(lon), np.asarray(lat)


def all_distances(lon, lat):
    first, second = np.triu_indices(len(lon), 1)
    return first, second, GEOD.inv(lon[first], lat[first], lon[second], lat[second])[2] / 1000


@pytest.mark.parametrize(
    ("lon", "lat", "radius", "error"),
    [
        # A distance across the rim is off by c / sin c - 1 at most, c the angle to the rim: 1e-5, 1e-3, 4e-3.
        (-122.3, 47.6, 50, 1.1e-5),
        (178.9, -17.0, 500, 1.1e-3),
        (12.0, 89.5, 500, 1.1e-3),
        (100.0, -88.0, 900, 4e-3),
    ],
)
def test_projected_distances_are_geodesics_to_the_stated_error(lon, lat, radius, error):
    longitude, latitude = spread(lon, lat, radius)
    scaling = learn_scaling({"lat": latitude, "lon": longitude})
    assert scaling.geography.method == "projected"
    places = scaling.forward({"lat": latitude, "lon": longitude})
    first, second, expected = all_distances(longitude, latitude)
    np.testing.assert_allclose(np.linalg.norm(places[first] - places[second], axis=1), expected, rtol=error)
    assert [(each.name, each.unit) for each in scaling.dimensions] == [("east", "km"), ("north", "km")]


def test_wide_data_lie_on_a_sphere_as_chords():
    longitude, latitude = spread(-100.0, 40.0, 2500)
    scaling = learn_scaling({"lon": longitude, "lat": latitude})
    assert scaling.geography.method == "sphere"
    places = scaling.forward({"lon": longitude, "lat": latitude})
    assert places.shape == (60, 3)
    first, second, geodesic = all_distances(longitude, latitude)
    radius = 6371.0088
    chord = 2 * radius * np.sin(geodesic / (2 * radius))
    # The ellipsoid is flatter than the sphere by 1 part in 298, twice over in curvature: 0.6 %.
    np.testing.assert_allclose(np.linalg.norm(places[first] - places[second], axis=1), chord, rtol=6e-3)


@pytest.mark.parametrize("radius", [300, 3000])
def test_nothing_happens_at_the_antimeridian_or_to_the_way_longitudes_are_written(radius):
    longitude, latitude = spread(179.8, 52.0, radius)
    assert longitude.min() < 0 < longitude.max()
    written = {"-180..180": longitude, "0..360": np.mod(longitude, 360.0)}
    places = {}
    for way, values in written.items():
        scaling = learn_scaling({"lon": values, "lat": latitude})
        places[way] = scaling.forward({"lon": values, "lat": latitude})
        back = scaling.inverse(places[way])
        np.testing.assert_allclose(back["lon"], values, atol=1e-9)
        np.testing.assert_allclose(back["lat"], latitude, atol=1e-9)
    # The middle of the data is the same to rounding, so are the coordinates, in km.
    np.testing.assert_allclose(places["-180..180"], places["0..360"], atol=1e-8)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.floats(-180, 179.99), st.floats(-89.9, 89.9), st.floats(-400, 9000)), min_size=1, max_size=8),
    st.permutations(["lat", "lon", "elevation"]),
)
def test_there_and_back_in_any_order_of_columns(rows, order):
    columns = dict(zip(("lon", "lat", "elevation"), np.array(rows).T, strict=True))
    values = {name: columns[name] for name in order}
    scaling = learn_scaling(values)
    back = Scaling.from_json(json.loads(json.dumps(scaling.to_json()))).inverse(scaling.forward(values))
    assert list(back) == list(order)
    np.testing.assert_allclose(back["lat"], columns["lat"], atol=1e-8)
    np.testing.assert_allclose(back["elevation"], columns["elevation"], atol=1e-8)
    turned = np.mod(back["lon"] - columns["lon"] + 180.0, 360.0) - 180.0
    # Near a pole a degree of longitude is short: 1e-8 of a degree of latitude is more of longitude.
    np.testing.assert_allclose(turned * np.cos(np.radians(columns["lat"])), 0.0, atol=1e-8)


def test_other_columns_are_standardised_over_places_and_lengths_come_back_in_their_units():
    # Place 0 reports three times and must not count three times.
    values = {
        "elevation": np.array([100.0, 100.0, 100.0, 300.0]),
        "lat": np.array([47.0, 47.0, 47.0, 48.0]),
        "lon": np.array([8.0, 8.0, 8.0, 8.5]),
        "slope": np.full(4, 7.0),
    }
    scaling = learn_scaling(values)
    places = scaling.forward(values)
    np.testing.assert_allclose(places[:, 0], [-1.0, -1.0, -1.0, 1.0])
    np.testing.assert_array_equal(places[:, 3], 0.0)
    lengths = scaling.lengths(np.array([0.5, 80.0, 90.0, 2.0]))
    assert lengths == {
        "elevation": (50.0, "m"),
        "east": (80.0, "km"),
        "north": (90.0, "km"),
        "slope": (2.0, "units of slope"),
    }
    assert scaling.map_dimensions == [1, 2]
    assert [each.group for each in scaling.dimensions] == ["elevation", "map", "map", "slope"]


def test_metres_on_a_map_become_kilometres_and_nameless_coordinates_are_standardised():
    metres = {"Easting": np.array([530_000.0, 531_500.0]), "Northing": np.array([180_000.0, 182_000.0])}
    scaling = learn_scaling(metres)
    np.testing.assert_allclose(np.diff(scaling.forward(metres), axis=0), [[1.5, 2.0]])
    np.testing.assert_allclose(scaling.inverse(scaling.forward(metres))["Northing"], metres["Northing"])
    plain = learn_scaling({"x": np.array([0.0, 1.0, 5.0]), "y": np.array([2.0, 4.0, 9.0])})
    assert plain.geography is None
    np.testing.assert_allclose(plain.forward({"x": np.array([2.0]), "y": np.array([5.0])}), 0.0, atol=1e-15)
    assert plain.map_dimensions == [0, 1]


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["lat", "lon"], ("lon", "lat")),
        (["LATITUDE", "LONGITUDE"], ("LONGITUDE", "LATITUDE")),
        (["station_lat", "station_lng"], ("station_lng", "station_lat")),
        (["long", "lat_deg"], ("long", "lat_deg")),
        (["latency", "lonely"], None),
        (["lat"], None),
        (["lat", "lon", "lon_end"], None),
    ],
)
def test_degrees_are_known_by_name(names, found):
    assert find_lon_lat(names) == found
    assert find_easting_northing(names) is None


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("lat", 95.0, r"'lat' must hold degrees between -90 and 90; row 1 \(counting from 0\) has 95.0"),
        ("lon", 400.0, r"'lon' must hold degrees between -180 and 360; row 1 \(counting from 0\) has 400.0"),
        ("lat", np.nan, "'lat' must hold a number in every row; row 1 .* has nan: fill it in"),
        ("elevation", np.inf, "'elevation' must hold a number in every row"),
    ],
)
def test_impossible_places_are_refused_by_row_when_learned_and_when_used(column, value, words):
    good = {"lon": np.array([1.0, 2.0]), "lat": np.array([3.0, 4.0]), "elevation": np.array([5.0, 6.0])}
    bad = {name: values.copy() for name, values in good.items()}
    bad[column][1] = value
    with pytest.raises(ValueError, match=words):
        learn_scaling(bad)
    with pytest.raises(ValueError, match=words):
        learn_scaling(good).forward(bad)


def test_targets_are_standardised_after_their_transform_and_come_back():
    values = np.array([1.0, np.nan, 20.0, 4.0])
    target = learn_target(values, "log", name="pm10")
    standardised = target.forward(values)
    present = standardised[[0, 2, 3]]
    np.testing.assert_allclose([present.mean(), present.std()], [0.0, 1.0], atol=1e-15)
    assert np.isnan(standardised[1])
    np.testing.assert_allclose(target.inverse(standardised), values)
    assert TargetScaling.from_json(json.loads(json.dumps(target.to_json()))) == target
    # A log-normal, from its textbook formulas.
    logs = np.log(values[[0, 2, 3]])
    mean, deviation = logs.mean() + 0.3 * logs.std(), 0.4 * logs.std()
    got_mean, got_sd = target.moments(np.array([0.3]), np.array([0.4]))
    np.testing.assert_allclose(got_mean, np.exp(mean + deviation**2 / 2))
    np.testing.assert_allclose(got_sd, got_mean * np.sqrt(np.exp(deviation**2) - 1))
    np.testing.assert_allclose(target.quantiles(np.array([0.3]), np.array([0.4]), [0.5]), [[np.exp(mean)]])
    unscaled = learn_target(values, standardise=False)
    assert (unscaled.centre, unscaled.scale) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("values", "transform", "words"),
    [
        ([np.nan, np.nan], None, "no values: all 2 are missing"),
        ([3.0, 3.0, np.nan], None, "never changes: all its 2 values are 3"),
        ([3.0], None, "its only value is 3"),
        ([1.0, 0.0], "log", r"that are positive; row 1 \(counting from 0\) has 0.0"),
        ([1.0, -2.0], "sqrt", "zero or positive; row 1"),
        ([0.5, 1.0], "logit", "between 0 and 1, neither included; row 1"),
        ([1.0, 2.0], "cube", "must be one of identity, log, sqrt, fourth_root, logit, log1p; it is 'cube'"),
    ],
)
def test_targets_that_cannot_be_learned(values, transform, words):
    with pytest.raises(ValueError, match=words):
        learn_target(np.array(values), transform, name="tmax")
