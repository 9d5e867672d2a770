# SPDX-License-Identifier: MIT
import numpy as np
import pytest
import shapely

from weft.data.polygons import check_polygons, which_polygon

SQUARE = [
    [[0.0, 0.0], [4.0, 0.0], [4.0, 4.0], [0.0, 4.0], [0.0, 0.0]],
    [[1.0, 1.0], [1.0, 3.0], [3.0, 3.0], [3.0, 1.0], [1.0, 1.0]],
]


def test_places_in_polygons_with_holes_and_of_several_parts():
    star = np.array([[6.0, 0.0], [7.0, 2.5], [9.5, 2.7], [7.5, 4.0], [8.3, 6.5], [6.0, 5.0], [5.0, 6.0]]).tolist()
    geometries = [
        {"type": "Polygon", "coordinates": SQUARE},
        {"type": "MultiPolygon", "coordinates": [[star], [[[-2.0, -2.0], [-1.0, -2.0], [-1.5, -0.5]]]]},
    ]
    rng = np.random.default_rng(0)
    x, y = rng.uniform(-3, 10, 800), rng.uniform(-3, 7, 800)
    shapes = [
        shapely.Polygon(SQUARE[0], [SQUARE[1]]),
        shapely.MultiPolygon([shapely.Polygon(star), shapely.Polygon([(-2, -2), (-1, -2), (-1.5, -0.5)])]),
    ]
    expected = np.where(shapely.contains_xy(shapes[0], x, y), 0, np.where(shapely.contains_xy(shapes[1], x, y), 1, -1))
    np.testing.assert_array_equal(which_polygon(geometries, x, y), expected)
    # The same places, their longitudes written beyond 180.
    np.testing.assert_array_equal(which_polygon(geometries, x + 360.0, y), expected)
    assert set(expected) == {-1, 0, 1}


def test_what_is_no_polygon_is_refused():
    with pytest.raises(ValueError, match="polygons holds LineString; give Polygon and MultiPolygon features"):
        check_polygons([{"type": "LineString"}, {"type": "Polygon"}], "polygons")
