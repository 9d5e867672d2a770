# SPDX-License-Identifier: MIT
"""Models as plain data, and back: class names, fields, and numbers of arrays kept elsewhere.

Only weft's own classes are named and only those are made again, so a file can ask for nothing else.
"""

import dataclasses
import functools
from typing import Any

import equinox as eqx
import numpy as np

import weft.kernels
import weft.likelihoods
import weft.model
from weft.domains import Parametrised


@functools.cache
def known_classes() -> dict[str, type]:
    """Every module class of kernels, likelihoods and models, by name."""
    found: dict[str, type] = {}
    for home in (weft.kernels, weft.kernels.base, weft.likelihoods, weft.model):
        for name, value in vars(home).items():
            if isinstance(value, type) and issubclass(value, eqx.Module) and value.__module__.startswith("weft."):
                found[name] = value
    return found


def to_plain(value: Any, arrays: list[np.ndarray]) -> Any:
    """`value` as JSON; its arrays are appended to `arrays`."""
    if isinstance(value, eqx.Module):
        name = type(value).__name__
        if known_classes().get(name) is not type(value):
            raise TypeError(
                f"{name} is not one of weft's own classes, so it cannot be saved; keep its code and its numbers yourself"
            )
        fields = {field.name: to_plain(getattr(value, field.name), arrays) for field in dataclasses.fields(value)}
        return {"class": name, "fields": fields}
    if isinstance(value, tuple):
        return {"tuple": [to_plain(item, arrays) for item in value]}
    if value is None or isinstance(value, bool | int | float | str):
        return {"value": value}
    arrays.append(np.asarray(value))
    return {"array": len(arrays) - 1}


def from_plain(plain: Any, arrays: list[np.ndarray]) -> Any:
    """What `to_plain` was given; ValueError where `plain` does not describe such a thing."""
    match plain:
        case {"value": None | bool() | int() | float() | str() as value}:
            return value
        case {"array": int(number)} if 0 <= number < len(arrays):
            return arrays[number]
        case {"tuple": list(items)}:
            return tuple(from_plain(item, arrays) for item in items)
        case {"class": str(name), "fields": dict(fields)} if name in known_classes():
            return _make(known_classes()[name], {key: from_plain(item, arrays) for key, item in fields.items()})
    raise ValueError(f"it describes a part that weft does not know: {str(plain)[:80]}")


def _make(kind: type, values: dict[str, Any]) -> Any:
    """An instance with these fields, checked as its constructor would, without running the constructor's own work again."""
    names = {field.name for field in dataclasses.fields(kind)}
    if names != values.keys():
        raise ValueError(f"its {kind.__name__} has the fields {sorted(values)} where weft's has {sorted(names)}")
    made: Any = object.__new__(kind)
    for name, value in values.items():
        object.__setattr__(made, name, value)
    if isinstance(made, Parametrised):
        made.__check_init__()
    return made
