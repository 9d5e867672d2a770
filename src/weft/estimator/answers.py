# SPDX-License-Identifier: MIT
"""Predictions as columns of the kind of table they were asked for in, with a note of what they are of."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from weft.data.clock import Clock
from weft.data.files import as_dataset
from weft.data.scaling import Scaling
from weft.data.tables import GridTable, Table
from weft.estimator.fitted import Fitted
from weft.estimator.gridded import describe_grid
from weft.inference.prediction import Prediction

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["answer_columns", "as_answer", "quantile_name", "stack_draws"]


def quantile_name(level: float) -> str:
    """`q0.05`, with as many digits as tell the level from every other."""
    short = f"{level:g}"
    return f"q{short if float(short) == level else repr(float(level))}"


def answer_columns(prediction: Prediction, levels: Sequence[float], of: str) -> dict[str, Float[np.ndarray, " row"]]:
    """mean, sd, latent_sd and a column a quantile."""
    field_mean, latent_sd = prediction.field()
    mean, sd = (field_mean, latent_sd) if of == "field" else (prediction.mean, prediction.sd)
    columns = {"mean": mean, "sd": sd, "latent_sd": latent_sd}
    if len(levels):
        asked = prediction.quantile(levels, of=of)
        columns |= {quantile_name(level): asked[:, k] for k, level in enumerate(levels)}
    return columns


def as_answer(table: Table, columns: Mapping[str, np.ndarray], fitted: Fitted, *, of: str, units: str | None) -> Any:
    """The table with `columns` added; what they are of is noted where a table can: attrs, metadata or attributes."""
    if isinstance(table, GridTable):
        return _as_dataset_answer(table, columns, fitted, of=of, units=units)
    native = table.with_columns(columns)
    if table.kind == "pandas":
        native.attrs["of"] = of
    elif table.kind == "pyarrow":
        native = native.replace_schema_metadata({**(native.schema.metadata or {}), b"of": of.encode()})
    return native


def _as_dataset_answer(
    table: GridTable, columns: Mapping[str, np.ndarray], fitted: Fitted, *, of: str, units: str | None
) -> "xr.Dataset":
    """Of a grid its coordinates and the answers; of rows along one dimension every variable, as of a frame."""
    roles = fitted.roles
    are_rows = len(table.dims) == 1 and table.dims[0] not in roles.coordinates
    # Earlier answers bear the attribute `of`, and are replaced; anything else of that name is not.
    earlier = [name for name in columns if name in table.names and "of" in table.dataset[name].attrs]
    kept = [name for name in (table.names if are_rows else roles.coordinates) if name not in earlier]
    added = table.with_columns(columns, keep=kept)
    added = _with_datetimes(added, roles.time, fitted.translation.clock)
    if are_rows:
        added = added.set_coords([roles.time, *roles.space])
    described = describe_grid(added, columns, roles, of=of, units=units, degrees=_degrees(fitted.translation.scaling))
    return described.assign_attrs(featureType="point") if are_rows else described


def _with_datetimes(dataset: "xr.Dataset", time: str, clock: Clock) -> "xr.Dataset":
    """Times that are text as datetimes, which other programs know for times."""
    import pandas as pd

    variable = dataset[time]
    if variable.dtype.kind not in "OTU":
        return dataset
    text = pd.Series(variable.to_numpy().ravel().astype(object))
    read = as_dataset(pd.DataFrame({time: clock.datetimes(text, time)}))[time]
    values = read.to_numpy().reshape(variable.shape)
    return dataset.assign({time: (variable.dims, values, variable.attrs | read.attrs)})


def stack_draws(dataset: "xr.Dataset", names: Sequence[str], name: str) -> "xr.Dataset":
    """Variables of one draw each as one variable called `name` with a first dimension for them."""
    import xarray as xr

    draws = xr.concat([dataset[name] for name in names], dim="draw")
    draws.attrs = dict(dataset[names[0]].attrs)
    return dataset.drop_vars(names).assign({name: draws})


def _degrees(scaling: Scaling) -> tuple[str, str] | None:
    """The columns of longitude and latitude, where there are any."""
    geography = scaling.geography
    return None if geography is None or geography.method == "plane" else (geography.first, geography.second)
