# SPDX-License-Identifier: MIT
"""Values that a gridded file itself calls no measurements: outside its valid range, or a filler that readers do not mask."""

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["without_invalid"]

# What the NetCDF library writes where nothing was written, unless told otherwise (NC_FILL_FLOAT, NC_FILL_DOUBLE).
_DEFAULT_FILLER = 9.969209968386869e36
# A filler written as double and kept as single precision differs by that much.
_SAME = 1e-6


def without_invalid(dataset: "xr.Dataset", name: str) -> "xr.Dataset":
    """The decoded Dataset with NaN for what its attributes rule out, as the CF conventions have it; a warning counts them."""
    changed = {}
    for key, variable in dataset.variables.items():
        if variable.dtype.kind not in "iuf":
            continue
        values = np.asarray(variable.values, dtype=np.float64)
        with np.errstate(invalid="ignore"):
            invalid = _outside(values, variable) | _filled(values, variable)
        if not invalid.any():
            continue
        if key in dataset.dims:
            raise ValueError(
                f"{name!r} has {int(invalid.sum())} values of the coordinate {str(key)!r} outside its valid range"
            )
        warnings.warn(
            f"{int(invalid.sum()):,} of {invalid.size:,} values of {str(key)!r} in {name!r} are outside its valid range, or "
            "fillers; they are taken as missing",
            stacklevel=2,
        )
        changed[key] = variable.copy(data=np.where(invalid, np.nan, values))
    return dataset.assign(changed) if changed else dataset


def _outside(values: np.ndarray, variable: Any) -> np.ndarray:
    """Where values are outside valid_range, valid_min or valid_max, which are in the units of the packed numbers."""
    attributes = variable.attrs
    lowest, highest = (_numbers(attributes.get(name)) for name in ("valid_min", "valid_max"))
    both = _numbers(attributes.get("valid_range"))
    if len(both) == 2:
        lowest, highest = both[:1], both[1:]
    factor = float(variable.encoding.get("scale_factor", 1.0))
    offset = float(variable.encoding.get("add_offset", 0.0))
    ends = np.concatenate([lowest[:1] if len(lowest) else [-np.inf], highest[:1] if len(highest) else [np.inf]])
    low, high = sorted(ends * factor + offset)
    # Unpacking rounds; a value at the very end of the range is inside.
    slack = _SAME * np.where(np.isfinite([low, high]), np.abs([low, high]), 0.0)
    return np.asarray((values < low - slack[0]) | (values > high + slack[1]))


def _filled(values: np.ndarray, variable: Any) -> np.ndarray:
    encoding = variable.encoding
    if "scale_factor" in encoding or "add_offset" in encoding or variable.dtype.kind != "f":
        return np.zeros(values.shape, dtype=bool)
    fillers = [_numbers((variable.attrs | encoding).get(name)) for name in ("missing_value", "_FillValue")]
    found = np.zeros(values.shape, dtype=bool)
    for filler in (*np.concatenate(fillers), _DEFAULT_FILLER):
        if np.isfinite(filler):
            found |= np.abs(values - filler) <= _SAME * abs(filler)
    return found


def _numbers(attribute: Any) -> np.ndarray:
    """An attribute as numbers; none where it is absent or text."""
    try:
        return np.atleast_1d(np.asarray([] if attribute is None else attribute, dtype=np.float64)).ravel()
    except (TypeError, ValueError):
        return np.empty(0)
