# SPDX-License-Identifier: MIT
"""Predictions on a grid as a Dataset that other programs understand: CF-1.11 attributes and a grid mapping.

The conventions: https://cfconventions.org/Data/cf-conventions/cf-conventions-1.11/cf-conventions.html
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.estimator.columns import Roles

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["describe_grid"]

_CRS = "crs"


def describe_grid(
    dataset: "xr.Dataset",
    columns: Mapping[str, np.ndarray],
    roles: Roles,
    *,
    of: str,
    units: str | None,
    degrees: tuple[str, str] | None,
) -> "xr.Dataset":
    """`dataset` with its dimensions in the order time, (height), latitude, longitude, and its variables described.

    `degrees` are the names of the longitude and the latitude, where there are any.
    """
    order = [roles.time, *(name for name in roles.space if name not in (degrees or ()))]
    if degrees is not None:
        order += [degrees[1], degrees[0]]
    first = [name for name in order if name in dataset.dims]
    dataset = dataset.transpose(*first, ..., missing_dims="ignore")
    # Dimensions without a role come before those on the map, after time.
    for name in columns:
        rest = [dim for dim in dataset[name].dims if dim not in first]
        leading = [dim for dim in first if dim == roles.time]
        trailing = [dim for dim in first if dim != roles.time]
        dataset[name] = dataset[name].transpose(*leading, *rest, *trailing)
        dataset[name].attrs = _variable_attributes(name, roles.target, of, units)
        if degrees is not None:
            dataset[name].attrs["grid_mapping"] = _CRS
    if roles.time in dataset.variables:
        dataset[roles.time].attrs = {"standard_name": "time", "axis": "T"} | dataset[roles.time].attrs
    if degrees is not None:
        dataset = _with_map(dataset, *degrees)
    dataset.attrs = {
        "Conventions": "CF-1.11",
        "title": f"{roles.target}: predictions of the {of}",
        "of": of,
        "source": "weft, a Gaussian process of space and time",
    }
    return dataset


def _with_map(dataset: "xr.Dataset", longitude: str, latitude: str) -> "xr.Dataset":
    import pyproj

    for name, standard, unit, axis in (
        (latitude, "latitude", "degrees_north", "Y"),
        (longitude, "longitude", "degrees_east", "X"),
    ):
        if name in dataset.variables:
            described: dict[str, Any] = {"standard_name": standard, "units": unit}
            if name in dataset.dims:
                described["axis"] = axis
            dataset[name].attrs = described | dataset[name].attrs
    wgs84 = pyproj.CRS.from_epsg(4326)
    return dataset.assign({_CRS: ((), np.int32(0), wgs84.to_cf())})


def _variable_attributes(name: str, target: str, of: str, units: str | None) -> dict[str, str]:
    what = {
        "mean": f"mean of {target}",
        "sd": f"standard deviation of {target}",
        "latent_sd": f"standard deviation of the field of {target}, without noise",
    }
    if name in what:
        words = what[name]
    elif name.startswith("q"):
        words = f"{name[1:]} quantile of {target}"
    else:
        words = f"draws of {target}"
    attributes = {"long_name": words, "of": "field" if name == "latent_sd" else of}
    if units is not None:
        attributes["units"] = units
    if name == "mean":
        attributes["ancillary_variables"] = "sd latent_sd"
    return attributes
