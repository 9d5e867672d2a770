# SPDX-License-Identifier: MIT
"""What one model's posterior is made from, as plain data, and back.

A saved posterior holds its model and one Gaussian site a row (a value, a precision, the number of its place's weights): what answering
needs. The rows themselves (coordinates, exposures, noise, and counts where the likelihood is not Gaussian) are inside only if asked for;
an update that has to start again needs them.
"""

from typing import Any, TypedDict

import numpy as np
from jaxtyping import Float

from weft.arrays import AnyArray
from weft.data.layout import Layout
from weft.data.observations import Observations
from weft.engines.base import Engine
from weft.engines.choose import engine_name
from weft.inference.merge import Given, concatenate_observations
from weft.inference.plain import from_plain, to_plain
from weft.model import Model
from weft.state_space.chain import Rows

ROW_COLUMNS = ("values", "noise_variance", "exposure", "trials")


class Parts(TypedDict):
    """What the posterior of one model is made from."""

    model: Model
    times: Float[np.ndarray, " time"]
    rows: Rows
    weights: Float[AnyArray, "place bottleneck"]
    exact_places: Float[np.ndarray, "exact dim"] | None
    log_constant: float
    power: float
    engine: str | Engine
    given: Given
    batches: tuple[Observations, ...]


def to_plain_parts(parts: Parts, arrays: list[np.ndarray], *, with_rows: bool) -> dict[str, Any]:
    """JSON of the parts; their arrays are appended to `arrays`."""

    def keep(array: Any) -> Any:
        return to_plain(None if array is None else np.asarray(array), arrays)

    sites = parts["rows"]
    plain = {
        "model": to_plain(parts["model"], arrays),
        "times": keep(parts["times"]),
        "offsets": keep(sites.layout.offsets),
        "place": keep(sites.place),
        "value": keep(sites.value),
        "precision": keep(sites.precision),
        "weights": keep(parts["weights"]),
        "exact_places": keep(parts["exact_places"]),
        "log_constant": parts["log_constant"],
        "power": parts["power"],
        "engine": engine_name(parts["engine"]),
        "row_numbers": keep(parts["given"].row),
        "unexplained": keep(parts["given"].unexplained if np.any(parts["given"].unexplained) else None),
        "num_given": parts["given"].num_rows,
        "rows": None,
    }
    if with_rows and parts["batches"]:
        plain["rows"] = plain_rows(concatenate_observations(parts["batches"]), arrays)
    return plain


def plain_rows(data: Observations, arrays: list[np.ndarray]) -> dict[str, Any]:
    """JSON of the rows themselves."""
    columns = {
        "times": data.row_times,
        "places": data.row_places,
        "empty_times": np.setdiff1d(data.times, data.row_times),
        **{name: getattr(data, name) for name in ROW_COLUMNS},
    }
    return {name: to_plain(None if column is None else np.asarray(column), arrays) for name, column in columns.items()}


def from_plain_parts(plain: dict[str, Any], arrays: list[np.ndarray]) -> Parts:
    """The parts that `to_plain_parts` was given; KeyError, TypeError or ValueError where they are not there."""
    model = from_plain(plain["model"], arrays)
    if not isinstance(model, Model):
        raise ValueError("it has no model")
    place, value, precision = (from_plain(plain[name], arrays) for name in ("place", "value", "precision"))
    numbers, unexplained = (from_plain(plain[name], arrays) for name in ("row_numbers", "unexplained"))
    given = Given(numbers, np.zeros(len(value)) if unexplained is None else unexplained, int(plain["num_given"]))
    return Parts(
        model=model,
        times=from_plain(plain["times"], arrays),
        rows=Rows(Layout(from_plain(plain["offsets"], arrays)), place, value, precision),
        weights=from_plain(plain["weights"], arrays),
        exact_places=from_plain(plain["exact_places"], arrays),
        log_constant=float(plain["log_constant"]),
        power=float(plain["power"]),
        engine=str(plain["engine"]),
        given=given,
        batches=() if plain["rows"] is None else (rows_from_plain(plain["rows"], arrays),),
    )


def rows_from_plain(plain: dict[str, Any], arrays: list[np.ndarray]) -> Observations:
    """The rows that `plain_rows` was given."""
    part = {name: from_plain(item, arrays) for name, item in plain.items()}
    empty = part["empty_times"]

    def padded(name: str, filler: float) -> Any:
        return None if part[name] is None else np.concatenate([part[name], np.full(len(empty), filler)])

    return Observations(
        np.concatenate([part["times"], empty]),
        np.concatenate([part["places"], np.repeat(part["places"][:1], len(empty), axis=0)]),
        padded("values", np.nan),
        noise_variance=padded("noise_variance", 1.0),
        exposure=padded("exposure", 1.0),
        trials=padded("trials", 1.0),
    )
