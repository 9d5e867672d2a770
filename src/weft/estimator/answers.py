# SPDX-License-Identifier: MIT
"""Predictions as columns of the kind of table they were asked for in, with a note of what they are of."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from weft.data.tables import GridTable, Table
from weft.estimator.columns import Roles
from weft.estimator.gridded import describe_grid
from weft.estimator.predictive import Predictive

__all__ = ["OF", "answer_columns", "as_answer", "check_of"]

OF = ("observation", "field")


def check_of(of: str) -> None:
    if of not in OF:
        raise ValueError(f"of must be 'observation' (noise included) or 'field' (without); it is {of!r}")


def quantile_name(level: float) -> str:
    return f"q{level:g}"


def answer_columns(predictive: Predictive, levels: Sequence[float], of: str) -> dict[str, Float[np.ndarray, " row"]]:
    """mean, sd, latent_sd and a column a quantile."""
    field_mean, latent_sd = predictive.field()
    mean, sd = (field_mean, latent_sd) if of == "field" else predictive.observation()
    columns = {"mean": mean, "sd": sd, "latent_sd": latent_sd}
    if len(levels):
        asked = predictive.quantiles(levels, of)
        columns |= {quantile_name(level): asked[:, k] for k, level in enumerate(levels)}
    return columns


def as_answer(
    table: Table,
    columns: Mapping[str, np.ndarray],
    roles: Roles,
    *,
    of: str,
    units: str | None,
    degrees: tuple[str, str] | None,
) -> Any:
    """The table with `columns` added. `of` is noted where a table can: pandas' attrs, pyarrow's metadata, xarray's attributes."""
    if isinstance(table, GridTable):
        kept = [name for name in roles.coordinates if name in table.dataset.variables]
        added = table.with_columns(columns, keep=kept)
        return describe_grid(added, columns, roles, of=of, units=units, degrees=degrees)
    native = table.with_columns(columns)
    if table.kind == "pandas":
        native.attrs["of"] = of
    elif table.kind == "pyarrow":
        native = native.replace_schema_metadata({**(native.schema.metadata or {}), b"of": of.encode()})
    return native
