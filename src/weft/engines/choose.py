# SPDX-License-Identifier: MIT
"""Engines by name."""

import importlib
from typing import cast

import jax

from weft.engines.base import Engine

NAMES = ("auto", "cpu", "scan", "parallel")


def engine_name(name: str) -> str:
    """What `name` means here: "auto" is `cpu` where JAX runs on a CPU and `scan` on an accelerator."""
    if name not in NAMES:
        raise ValueError(f"engine must be one of {', '.join(map(repr, NAMES))}; it is {name!r}")
    if name == "auto":
        return "cpu" if jax.default_backend() == "cpu" else "scan"
    return name


def choose_engine(name: str) -> Engine:
    """The engine called `name`; see `engine_name` for "auto"."""
    # An engine is a module with the functions of the protocol.
    return cast(Engine, importlib.import_module(f"weft.engines.{engine_name(name)}"))
