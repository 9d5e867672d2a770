# SPDX-License-Identifier: MIT
"""Points and rasters of geographic programs: GeoJSON, and GeoPackage and GeoTIFF by optional readers."""

import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from weft.data.special import refuse_special
from weft.extras import require

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

__all__ = ["Shapes", "read_points", "read_raster", "read_shapes"]


class Shapes(NamedTuple):
    """Geometries as GeoJSON writes them, in degrees of longitude and latitude, and what is said of each, by name."""

    geometries: list[Mapping[str, Any]]
    properties: dict[str, list[Any]]


def read_shapes(source: Any) -> Shapes:
    """The features of a GeoJSON file (or of one that was read, a dict), or of the first layer of a GeoPackage."""
    if isinstance(source, Mapping):
        return _features(source, "polygons")
    path = pathlib.Path(source)
    refuse_special(path, f"cannot read {str(path)!r}")
    if not path.exists():
        raise FileNotFoundError(f"there is no file {str(path)!r}")
    return _read_geopackage(path) if path.name.lower().endswith(".gpkg") else _read_geojson(path)


def read_points(path: pathlib.Path) -> "pd.DataFrame":
    """Points with what is said of them, as a table with the columns `lon` and `lat`."""
    import pandas as pd

    shapes = read_shapes(path)
    kinds = sorted({str(geometry.get("type")) for geometry in shapes.geometries})
    if kinds != ["Point"]:
        raise ValueError(
            f"{str(path)!r} holds {' and '.join(kinds) or 'nothing'}, not points, so it is no table of places; polygons are for "
            "`weft aggregate --polygons`"
        )
    coordinates = np.array([geometry["coordinates"][:2] for geometry in shapes.geometries], dtype=np.float64)
    return pd.DataFrame({"lon": coordinates[:, 0], "lat": coordinates[:, 1]} | shapes.properties)


def read_raster(path: pathlib.Path) -> "xr.Dataset":
    """A GeoTIFF as a Dataset over `lat` and `lon`, or `northing` and `easting` where it is in metres.

    A band is a variable, named by its description, or by the file where there is one band.
    """
    require("geo", "reading GeoTIFF")
    import rasterio
    import xarray as xr

    try:
        with rasterio.open(path) as raster:
            values = raster.read(masked=True).astype(np.float64).filled(np.nan)
            transform, crs = raster.transform, raster.crs
            described = [text or "" for text in raster.descriptions]
    except rasterio.errors.RasterioIOError as error:
        raise ValueError(f"{str(path)!r} is not a GeoTIFF, or it is damaged; write it again") from error
    if transform.b or transform.d:
        raise ValueError(f"{str(path)!r} is a rotated raster; warp it to a grid along its coordinates first (gdalwarp)")
    up, across = ("northing", "easting") if crs is not None and crs.is_projected else ("lat", "lon")
    stem = path.name.partition(".")[0]
    names = [text or (stem if len(values) == 1 else f"{stem}_{k + 1}") for k, text in enumerate(described)]
    return xr.Dataset(
        {name: ((up, across), band) for name, band in zip(names, values, strict=True)},
        coords={
            up: transform.f + transform.e * (np.arange(values.shape[1]) + 0.5),
            across: transform.c + transform.a * (np.arange(values.shape[2]) + 0.5),
        },
    )


def _read_geojson(path: pathlib.Path) -> Shapes:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{str(path)!r} is not GeoJSON; write it again") from error
    return _features(content, repr(str(path)))


def _features(content: Any, name: str) -> Shapes:
    try:
        features = content["features"] if content["type"] == "FeatureCollection" else [content]
        geometries = [feature["geometry"] for feature in features]
        said = [feature.get("properties") or {} for feature in features]
        assert all(isinstance(geometry, dict) for geometry in geometries)
    except (KeyError, TypeError, AttributeError, AssertionError) as error:
        raise ValueError(f"{name} is not GeoJSON with features that have a geometry; write it again") from error
    return Shapes(geometries, _columns(said))


def _read_geopackage(path: pathlib.Path) -> Shapes:
    require("geo", "reading GeoPackage")
    import pyogrio
    import shapely

    try:
        meta, _, shapes, fields = pyogrio.raw.read(path)
    except pyogrio.errors.DataSourceError as error:
        raise ValueError(f"{str(path)!r} is not a GeoPackage, or it is damaged; write it again") from error
    if shapes is None:
        raise ValueError(f"{str(path)!r} has no geometries in its first layer; export the table as csv")
    parsed = shapely.from_wkb(shapes)
    if meta["crs"]:
        parsed = shapely.transform(parsed, _to_degrees(meta["crs"]))
    names = [str(name) for name in meta["fields"]]
    properties = {name: list(column) for name, column in zip(names, fields, strict=True)}
    return Shapes([shapely.geometry.mapping(shape) for shape in parsed], properties)


def _to_degrees(crs: str) -> Any:
    import pyproj

    change = pyproj.Transformer.from_crs(crs, "EPSG:4326", always_xy=True)
    return lambda coordinates: np.stack(change.transform(coordinates[:, 0], coordinates[:, 1]), axis=1)


def _columns(said: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    names = list(dict.fromkeys(str(name) for each in said for name in each))
    return {name: [each.get(name) for each in said] for name in names}
