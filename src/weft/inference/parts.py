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
from weft.data.observations import ROW_EXTRAS, Observations
from weft.data.on_disk import FileArrays
from weft.data.schema import Numbers, Schema, check_arrays, require_finite
from weft.engines.base import Engine
from weft.engines.choose import check_engine_name, engine_name
from weft.inference.merge import Given, concatenate_observations
from weft.inference.plain import from_plain, to_plain
from weft.inference.prior import sizes_at
from weft.model import Model
from weft.state_space.chain import Rows

ROW_COLUMNS = ("values", *ROW_EXTRAS)
SCHEMA: Schema = {
    "times": Numbers(("time",), increasing=True),
    "offsets": Numbers(("time + 1",), whole=True, least=0.0, sorted=True),
    "place": Numbers(("row",), whole=True, within="place"),
    "value": Numbers(("row",)),
    "precision": Numbers(("row",), least=0.0),
    "weights": Numbers(("place", "bottleneck")),
    "exact_places": Numbers(("exact", "column"), optional=True),
    "row_numbers": Numbers(("row",), whole=True, within="given"),
    "unexplained": Numbers(("row",), optional=True),
    "log_constant": Numbers(),
    "power": Numbers(least=0.0),
}
ROWS_SCHEMA: Schema = {
    "times": Numbers(("row",)),
    "places": Numbers(("row", "column")),
    "empty_times": Numbers(("empty",)),
    "values": Numbers(("row",)),
    "noise_variance": Numbers(("row",), least=0.0, optional=True),
    "exposure": Numbers(("row",), least=0.0, optional=True),
    "trials": Numbers(("row",), least=0.0, optional=True),
    "lower": Numbers(("row",), optional=True, endless=True),
    "upper": Numbers(("row",), optional=True, endless=True),
}


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


def to_plain_parts(parts: Parts, arrays: FileArrays, *, with_rows: bool) -> dict[str, Any]:
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


def plain_rows(data: Observations, arrays: FileArrays) -> dict[str, Any]:
    """JSON of the rows themselves."""
    columns = {
        "times": data.row_times,
        "places": data.row_places,
        "empty_times": np.setdiff1d(data.times, data.row_times),
        **{name: getattr(data, name) for name in ROW_COLUMNS},
    }
    return {name: to_plain(None if column is None else np.asarray(column), arrays) for name, column in columns.items()}


def from_plain_parts(plain: dict[str, Any], arrays: FileArrays) -> Parts:
    """The parts that `to_plain_parts` was given; KeyError, TypeError or ValueError where they are not there."""
    model = from_plain(plain["model"], arrays)
    if not isinstance(model, Model):
        raise ValueError("it has no model")
    for basis in model.bases:
        require_finite("pseudo_points", basis.landmarks)
    named = {name for name, declared in SCHEMA.items() if declared.dims}
    found = {name: from_plain(plain[name], arrays) if name in named else plain[name] for name in SCHEMA}
    sizes = {"given": int(plain["num_given"])}
    part = check_arrays(SCHEMA, found, sizes)
    if len(part["offsets"]) < 2 or part["offsets"][0] != 0 or part["offsets"][-1] != sizes["row"]:
        raise ValueError("its rows are not those of its times")
    if part["power"] > 1:
        raise ValueError(f"its 'power' is {part['power']}, not between 0 and 1")
    if model.needs_places and part["exact_places"] is None:
        raise ValueError("it has no places, and its model has no other pseudo-points")
    reduced_to = part["exact_places"] if model.needs_places else model.bases[0].landmarks
    if sum(sizes_at(model, reduced_to)) != sizes["bottleneck"]:
        raise ValueError(f"its weights are of {sizes['bottleneck']} pseudo-points, and its model has others")
    unexplained = np.zeros(sizes["row"]) if part["unexplained"] is None else part["unexplained"]
    return Parts(
        model=model,
        times=part["times"],
        rows=Rows(Layout(part["offsets"]), part["place"], part["value"], part["precision"]),
        weights=part["weights"],
        exact_places=part["exact_places"],
        log_constant=part["log_constant"],
        power=part["power"],
        engine=check_engine_name(plain["engine"]),
        given=Given(part["row_numbers"], unexplained, sizes["given"]),
        batches=() if plain["rows"] is None else (rows_from_plain(plain["rows"], arrays),),
    )


def rows_from_plain(plain: dict[str, Any], arrays: FileArrays) -> Observations:
    """The rows that `plain_rows` was given."""
    # Version 0.1 knew no limits.
    written = {name: {"value": None} for name in ROW_EXTRAS} | plain
    part = check_arrays(ROWS_SCHEMA, {name: from_plain(item, arrays) for name, item in written.items()}, {})
    empty = part["empty_times"]

    def padded(name: str, filler: float) -> Any:
        return None if part[name] is None else np.concatenate([part[name], np.full(len(empty), filler)])

    return Observations(
        np.concatenate([part["times"], empty]),
        np.concatenate([part["places"], np.repeat(part["places"][:1], len(empty), axis=0)]),
        padded("values", np.nan),
        **{name: padded(name, filler) for name, filler in ROW_EXTRAS.items()},
    )
