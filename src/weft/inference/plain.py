# SPDX-License-Identifier: MIT
"""Models as plain data, and back: class names, fields, and numbers of arrays kept elsewhere.

Only weft's own classes are named, and those that an installed package registers as an entry point; only those are made again, so a file can
ask for nothing else.
"""

import dataclasses
import functools
import importlib.metadata
from typing import Any

import equinox as eqx
import numpy as np

import weft.kernels
import weft.likelihoods
import weft.model
import weft.state_space.basis
import weft.state_space.fourier
from weft.data.on_disk import FileArrays
from weft.domains import Parametrised
from weft.engines.base import Engine
from weft.model import Model, as_bases


@functools.cache
def known_classes() -> dict[str, type]:
    """Every module class of kernels, likelihoods, bases and models, by name."""
    found: dict[str, type] = {}
    for home in (
        weft.kernels,
        weft.kernels.base,
        weft.likelihoods,
        weft.model,
        weft.state_space.basis,
        weft.state_space.fourier,
    ):
        for name, value in vars(home).items():
            if isinstance(value, type) and issubclass(value, eqx.Module) and value.__module__.startswith("weft."):
                found[name] = value
    return found


# A package that brings kernels or likelihoods names them here, in its own pyproject.toml.
REGISTERED = {"weft.kernels": weft.kernels.Kernel, "weft.likelihoods": weft.likelihoods.Likelihood}


def registration_of(kind: type) -> dict[str, str] | None:
    """How a file names a class of someone else's: the entry point that leads to it; None where there is none."""
    package = kind.__module__.partition(".")[0]
    for group, base in REGISTERED.items():
        for entry in importlib.metadata.entry_points(group=group) if issubclass(kind, base) else ():
            # Entries of other packages are not even imported.
            if entry.module.partition(".")[0] == package and entry.load() is kind:
                return {"group": group, "name": entry.name, "package": entry.dist.name if entry.dist else package}
    return None


def registered_class(group: str, name: str, package: str) -> type:
    """The class that an installed package registers by this name; ValueError where none does."""
    if group not in REGISTERED:
        raise ValueError(f"it names a part of the group {group!r}, which weft does not know")
    entries = [
        entry
        for entry in importlib.metadata.entry_points(group=group, name=name)
        if entry.dist is None or entry.dist.name == package
    ]
    if not entries:
        raise ValueError(f"it needs {name!r} of the package {package!r}, which is not installed here; install it first")
    kind = entries[0].load()
    if not (isinstance(kind, type) and issubclass(kind, REGISTERED[group])):
        raise ValueError(f"{name!r} of the package {package!r} is not a {REGISTERED[group].__name__}")
    return kind


def to_plain(value: Any, arrays: FileArrays) -> Any:
    """`value` as JSON; its arrays are appended to `arrays`."""
    if isinstance(value, eqx.Module):
        name = type(value).__name__
        fields = {field.name: to_plain(getattr(value, field.name), arrays) for field in dataclasses.fields(value)}
        if known_classes().get(name) is type(value):
            return {"class": name, "fields": fields}
        registration = registration_of(type(value))
        if registration is None:
            raise TypeError(
                f"{name} is not one of weft's own classes, so a file can name it only if its package registers it: add it to the "
                "entry points weft.kernels or weft.likelihoods there, and install it"
            )
        return {"registered": registration, "fields": fields}
    if isinstance(value, Engine):
        # Numbers do not depend on its settings.
        return {"value": value.name}
    if isinstance(value, tuple):
        return {"tuple": [to_plain(item, arrays) for item in value]}
    if value is None or isinstance(value, bool | int | float | str):
        return {"value": value}
    arrays.append(np.asarray(value))
    return {"array": len(arrays) - 1}


def from_plain(plain: Any, arrays: FileArrays) -> Any:
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
        case {"registered": {"group": str(group), "name": str(name), "package": str(package)}, "fields": dict(fields)}:
            kind = registered_class(group, name, package)
            return _make(kind, {key: from_plain(item, arrays) for key, item in fields.items()})
    raise ValueError(f"it describes a part that weft does not know: {str(plain)[:80]}")


def _make(kind: type, values: dict[str, Any]) -> Any:
    """An instance with these fields, checked as its constructor would, without running the constructor's own work again."""
    if kind is Model and "pseudo_points" in values:
        # As 0.1 wrote it.
        values["basis"] = as_bases(values.pop("pseudo_points"), values["kernel"].components)
    names = {field.name for field in dataclasses.fields(kind)}
    if names != values.keys():
        raise ValueError(f"its {kind.__name__} has the fields {sorted(values)} where the class has {sorted(names)}")
    made: Any = object.__new__(kind)
    for name, value in values.items():
        object.__setattr__(made, name, value)
    if isinstance(made, Parametrised):
        made.__check_init__()
    return made
