# SPDX-License-Identifier: MIT
"""Fitted estimators as plain data, and back: their arguments, units and posterior in one archive."""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from weft.data.clock import Binning
from weft.data.on_disk import FileArrays
from weft.data.schema import require_finite
from weft.estimator.columns import LINEAR, Roles
from weft.estimator.fitted import Fitted
from weft.estimator.translation import Translation
from weft.inference.plain import from_plain, to_plain
from weft.inference.posterior import Posterior
from weft.inference.storage import read_posterior
from weft.model import Model
from weft.training.fitting import FitResult
from weft.training.maximise import outcome_in
from weft.training.progress import Iteration

__all__ = ["KIND", "Stored", "StoredSeveral", "from_plain_estimator", "to_plain_estimator"]

KIND = "estimator"


class Stored(NamedTuple):
    """What an estimator is made of: the arguments it was given, and what it learned."""

    arguments: dict[str, Any]
    fitted: Fitted
    result: FitResult
    binning: Binning | None


class StoredSeveral(NamedTuple):
    """The same of several targets: what each learned, and how many fields they share; one posterior is behind all if any."""

    arguments: dict[str, Any]
    rank: int
    targets: dict[str, Stored]


def to_plain_estimator(stored: Stored | StoredSeveral, arrays: FileArrays, *, with_rows: bool) -> dict[str, Any]:
    """JSON of an estimator; its arrays are appended to `arrays`."""
    if isinstance(stored, Stored):
        return _to_plain(stored, arrays) | {"posterior": stored.fitted.posterior.to_plain(arrays, with_rows=with_rows)}
    posteriors = [each.fitted.posterior for each in stored.targets.values()]
    written = posteriors[:1] if stored.rank else posteriors
    return {
        "arguments": _plain_arguments(stored.arguments, arrays),
        "rank": stored.rank,
        "targets": [_to_plain(each, arrays) for each in stored.targets.values()],
        "posteriors": [posterior.to_plain(arrays, with_rows=with_rows) for posterior in written],
    }


def _plain_arguments(arguments: Mapping[str, Any], arrays: FileArrays) -> dict[str, Any]:
    """What was given; a table of the points of areas is not kept, as the units of the columns of space have them."""
    given = arguments["areas"]
    kept = dict(arguments) | {
        "areas": None if given is None or not isinstance(given, str | os.PathLike) else os.fspath(given)
    }
    return {name: to_plain(_as_tuples(value), arrays) for name, value in kept.items()}


def _to_plain(stored: Stored, arrays: FileArrays) -> dict[str, Any]:
    """All but the posterior."""
    fitted = stored.fitted
    return {
        "arguments": _plain_arguments(stored.arguments, arrays),
        "roles": dataclasses.asdict(fitted.roles),
        "translation": fitted.translation.to_json(),
        "names": list(fitted.names),
        "converged": fitted.converged,
        "target_sd": fitted.target_sd,
        "num_rows": fitted.num_rows,
        "num_missing": fitted.num_missing,
        "trials": list(fitted.trials),
        "binning": None if stored.binning is None else dataclasses.asdict(stored.binning),
        "result": _plain_result(stored.result, arrays),
    }


def from_plain_estimator(plain: dict[str, Any], arrays: FileArrays) -> Stored | StoredSeveral:
    """What `to_plain_estimator` was given; ValueError where it is not there. Needs float64."""
    if "targets" not in plain:
        return _from_plain(plain, arrays)
    try:
        rank, posteriors = int(plain["rank"]), [read_posterior(each, arrays) for each in plain["posteriors"]]
        # Of a model for all targets there is one posterior.
        of_target = posteriors * len(plain["targets"]) if rank else posteriors
        stored = [
            _from_plain(each, arrays, posterior) for each, posterior in zip(plain["targets"], of_target, strict=True)
        ]
        arguments = {name: from_plain(value, arrays) for name, value in plain["arguments"].items()}
    except (KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError) as error:
        raise ValueError(f"a part of the estimator is missing or of the wrong kind ({error})") from error
    return StoredSeveral(arguments, rank, {each.fitted.roles.target: each for each in stored})


def _from_plain(plain: dict[str, Any], arrays: FileArrays, posterior: Posterior | None = None) -> Stored:
    """What a file, or the part of one target, says; the posterior is in it where it is not given."""
    try:
        if posterior is None:
            posterior = read_posterior(_plain_posterior(plain), arrays)
        roles = plain["roles"]
        fitted = Fitted(
            roles=Roles(
                time=str(roles["time"]),
                space=tuple(roles["space"]),
                target=str(roles["target"]),
                covariates=tuple(roles["covariates"]),
                extras=dict(roles["extras"]),
                categories=tuple(roles.get("categories", ())),
                local=tuple(roles.get("local", ())),
                # Version 0.1 took no value for missing.
                missing=tuple(float(value) for value in roles.get("missing", ())),
                kinds=tuple(roles.get("kinds", ())),
                area=None if roles.get("area") is None else str(roles["area"]),
            ),
            translation=Translation.from_json(plain["translation"]),
            names=tuple(plain["names"]),
            posterior=posterior,
            converged=bool(plain["converged"]),
            target_sd=float(plain["target_sd"]),
            num_rows=int(plain["num_rows"]),
            num_missing=int(plain["num_missing"]),
            # Version 0.1 tried nothing.
            trials=tuple(plain.get("trials", ())),
        )
        _check_fitted(fitted)
        return Stored(
            arguments={name: from_plain(value, arrays) for name, value in plain["arguments"].items()},
            fitted=fitted,
            result=_read_result(plain["result"], posterior.model, arrays),
            binning=None if plain["binning"] is None else Binning(**plain["binning"]),
        )
    except (KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError) as error:
        raise ValueError(f"a part of the estimator is missing or of the wrong kind ({error})") from error


def _check_fitted(fitted: Fitted) -> None:
    """Raise unless the parts of an estimator are of one table and one model."""
    roles, translation = fitted.roles, fitted.translation
    numbers = tuple(name for name in roles.covariates if name not in roles.categories)
    said = (
        roles.time,
        roles.target,
        tuple(roles.space),
        numbers,
        tuple(roles.categories),
        tuple(roles.kinds),
        roles.area,
    )
    learned = (
        translation.time_name,
        translation.target_name,
        tuple(translation.scaling.columns),
        tuple(translation.covariates.columns),
        tuple(category.name for category in translation.categories),
        tuple(kind.name for kind in translation.scaling.kinds),
        None if translation.scaling.areas is None else translation.scaling.areas.column,
    )
    if said != learned:
        raise ValueError(f"its units are of the columns {learned}, and its columns are {said}")
    if translation.num_columns != fitted.posterior.num_columns:
        raise ValueError(
            f"its places have {translation.num_columns} columns, and its model takes {fitted.posterior.num_columns}"
        )
    require_finite("target_sd", fitted.target_sd)
    if fitted.target_sd <= 0 or not 0 <= fitted.num_missing <= fitted.num_rows:
        raise ValueError("its counts of rows, or the deviation of its target, cannot be")


def _plain_posterior(plain: dict[str, Any]) -> dict[str, Any]:
    """The posterior's part; version 0.1 kept the levels of places beside it."""
    levels = plain.get("offsets")
    if levels is None:
        return plain["posterior"]
    return {"kind": "with habits", "field": plain["posterior"], "habits": [{"name": "level", "parts": levels}]}


def _as_tuples(value: Any) -> Any:
    """Lists as tuples, NumPy's numbers as Python's: what an argument may be without meaning anything else."""
    if isinstance(value, Mapping):
        # Covariates with slopes that vary in space, as text writes them.
        return tuple(name if kind == LINEAR else f"{name}:{kind}" for name, kind in value.items())
    if isinstance(value, list | tuple):
        return tuple(_as_tuples(item) for item in value)
    return value.item() if isinstance(value, np.generic) else value


def _plain_result(result: FitResult, arrays: FileArrays) -> dict[str, Any]:
    """Every field of the result but the model, which is the posterior's."""
    plain = {field.name: getattr(result, field.name) for field in dataclasses.fields(result) if field.name != "model"}
    return plain | {
        "outcome": result.outcome.value,
        "history": [list(step) for step in result.history],
        "starts": list(result.starts),
        "parameters": _plain_numbers(result.parameters, arrays),
        "standard_errors": _plain_numbers(result.standard_errors, arrays),
    }


def _read_result(plain: dict[str, Any], model: Model, arrays: FileArrays) -> FitResult:
    special = {
        "history": tuple(Iteration(*map(_number, step)) for step in plain["history"]),
        "starts": tuple(_number(start) for start in plain["starts"]),
        "parameters": _read_numbers(plain["parameters"], arrays),
        "standard_errors": _read_numbers(plain.get("standard_errors"), arrays),
    }
    kept = {name: value for name, value in plain.items() if name != "converged"}
    return FitResult(**{**kept, **special, "outcome": outcome_in(plain), "model": model})


def _number(plain: float | int | None) -> Any:
    """A number of how a fit went; JSON has null for what is none."""
    return np.nan if plain is None else plain


def _plain_numbers(named: dict[str, np.ndarray] | None, arrays: FileArrays) -> dict[str, Any] | None:
    return None if named is None else {name: to_plain(value, arrays) for name, value in named.items()}


def _read_numbers(plain: dict[str, Any] | None, arrays: FileArrays) -> Any:
    return None if plain is None else {name: from_plain(value, arrays) for name, value in plain.items()}
