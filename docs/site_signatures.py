# SPDX-License-Identifier: MIT
"""Constructors for the reference: classes whose arguments are their fields have no `__init__` in the source."""

import inspect
import pkgutil
from typing import Any

import griffe

import weft


class Signatures(griffe.Extension):
    """Gives public classes the signature that Python sees."""

    def __init__(self) -> None:
        found = (getattr(weft, name) for name in weft.__all__)
        self.public = {f"{kind.__module__}.{kind.__qualname__}" for kind in found if inspect.isclass(kind)}

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        if cls.path not in self.public or "__init__" in cls.members:
            return
        try:
            arguments = inspect.signature(pkgutil.resolve_name(cls.path)).parameters.values()
        except ValueError:
            return
        given = [
            griffe.Parameter(
                argument.name,
                kind=griffe.ParameterKind(argument.kind.description),
                default=None if argument.default is argument.empty else repr(argument.default),
            )
            for argument in arguments
        ]
        own = griffe.Parameter("self", kind=griffe.ParameterKind.positional_or_keyword)
        cls.set_member("__init__", griffe.Function("__init__", parameters=griffe.Parameters(own, *given)))
