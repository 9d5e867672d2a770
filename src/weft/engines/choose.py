# SPDX-License-Identifier: MIT
"""Engines by name, and which one "auto" is.

weft's own are in the table below, so that they are there without installed metadata; others come from entry points in the group
`weft.engines`, each a class (or function) that makes an `Engine` when called without arguments.
"""

import importlib.metadata
import pkgutil

import jax

from weft.engines.base import Engine, Shape

GROUP = "weft.engines"
BUILT_IN = {
    "cpu": "weft.engines.cpu:CpuEngine",
    "scan": "weft.engines.scan:ScanEngine",
    "parallel": "weft.engines.parallel:ParallelEngine",
    "dense": "weft.engines.dense:DenseEngine",
    "time_blocks": "weft.distributed.time_blocks:TimeBlocksEngine",
}
# Of which engines "auto" takes the cheapest, by where JAX runs. One joins when its numbers hold at *every* shape that it does not
# put a prohibitive cost on (`Engine.cost` may return infinite flops), and when the rate at which it works is that of the others here,
# because flops alone are compared. An engine of another package never joins by being installed: the same script gives the same numbers.
AUTOMATIC = {"cpu": ("cpu", "dense"), "accelerator": ("scan",)}


def engine_names() -> tuple[str, ...]:
    """All names that `engine=` takes."""
    found = importlib.metadata.entry_points(group=GROUP)
    return ("auto", *dict.fromkeys([*BUILT_IN, *sorted(found.names)]))


def named_engine(name: str) -> Engine:
    """The engine of that name, with its default settings; ValueError with the names there are."""
    if name in BUILT_IN:
        return pkgutil.resolve_name(BUILT_IN[name])()
    for entry in importlib.metadata.entry_points(group=GROUP, name=name):
        engine = entry.load()()
        if not isinstance(engine, Engine):
            raise TypeError(
                f"the entry point {entry.value!r} of the engine {name!r} makes no weft.Engine but {engine!r}"
            )
        return engine
    raise ValueError(_unknown(name))


def check_engine_name(name: object) -> str:
    """`name` where `engine=` takes it; ValueError with the names there are."""
    if not isinstance(name, str) or name not in engine_names():
        raise ValueError(_unknown(name))
    return name


def _unknown(name: object) -> str:
    return f"engine must be one of {', '.join(map(repr, engine_names()))}; it is {name!r}"


def choose_engine(engine: str | Engine, shape: Shape) -> Engine:
    """`engine` itself, the one of that name, or for "auto" the cheapest for the shape (see AUTOMATIC)."""
    if isinstance(engine, Engine):
        return engine
    if engine != "auto":
        return named_engine(engine)
    candidates = AUTOMATIC["cpu" if jax.default_backend() == "cpu" else "accelerator"]
    if len(candidates) == 1:
        return named_engine(candidates[0])
    return min(map(named_engine, candidates), key=lambda each: each.cost(shape).flops)


def engine_name(engine: str | Engine) -> str:
    """What to write down for it."""
    return engine if isinstance(engine, str) else engine.name
