# SPDX-License-Identifier: MIT
"""What the arrays in a file must be, declared where they are written and checked when they are read.

Whoever has a `to_plain` and a `from_plain` declares beside them a `Schema`: for each array its dimensions by name and where its numbers
lie. A dimension has one size wherever it is named. What is not declared may be infinite (a bound that is none), but never NaN.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, final

import numpy as np

from weft.data.on_disk import FileArrays

__all__ = ["Numbers", "Schema", "check_arrays", "check_numbers", "require_choice", "require_finite"]


@final
@dataclasses.dataclass(frozen=True)
class Numbers:
    """One array: `dims` are names, of which "time + 1" is one longer than "time"; a single number has none.

    Its numbers are finite, unless they may be `endless`, and at least `least`. Positions in a dimension are `whole` and `within` it.
    `increasing` numbers are sorted and differ; those of `sorted` may repeat. `flags` are true or false.
    """

    dims: tuple[str, ...] = ()
    least: float = -np.inf
    whole: bool = False
    within: str | None = None
    increasing: bool = False
    sorted: bool = False
    optional: bool = False
    endless: bool = False
    flags: bool = False


Schema = Mapping[str, Numbers]


def check_arrays(schema: Schema, found: Mapping[str, Any], sizes: dict[str, int]) -> dict[str, Any]:
    """`found` with its declared arrays as float64 or int64; ValueError where one is not what is declared.

    `sizes` are those of dimensions already known; those that turn up are added to it.
    """
    checked: dict[str, Any] = dict(found)
    for name, declared in schema.items():
        if name not in found:
            raise ValueError(f"it has no {name!r}")
        checked[name] = None if declared.optional and found[name] is None else _as_array(name, found[name], declared)
        if checked[name] is not None:
            _check_shape(name, checked[name], declared, sizes)
    for name, declared in schema.items():
        if checked[name] is not None and checked[name].size:
            _check_numbers(name, checked[name], declared, sizes)
    # Single numbers come back as such.
    return {
        name: value.item() if name in schema and value is not None and not schema[name].dims else value
        for name, value in checked.items()
    }


def check_numbers(plain: Any, arrays: FileArrays) -> None:
    """Raise where an array that a part of a manifest refers to holds NaN."""
    for number in _referred(plain):
        array = arrays[number] if 0 <= number < len(arrays) else None
        # Those that stay in files are looked at by whoever knows what they are.
        if isinstance(array, np.ndarray) and array.dtype.kind == "f" and np.any(np.isnan(array)):
            raise ValueError(f"its array {number} holds NaN, which is no number")


def require_finite(name: str, value: Any) -> None:
    """Raise unless all of `value` are finite numbers."""
    array = np.asarray(value)
    if array.dtype.kind not in "biuf" or not np.all(np.isfinite(array)):
        raise ValueError(f"its {name!r} holds numbers that are not finite")


def require_choice(name: str, value: Any, choices: Any) -> None:
    """Raise unless `value` is one of `choices`."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"its {name!r} is {value!r}, not one of {', '.join(choices)}")


def _referred(plain: Any) -> Iterator[int]:
    """The numbers of arrays that plain data name, wherever they stand."""
    if isinstance(plain, dict):
        if plain.keys() == {"array"} and isinstance(plain["array"], int):
            yield plain["array"]
        for part in plain.values():
            yield from _referred(part)
    elif isinstance(plain, list):
        for part in plain:
            yield from _referred(part)


def _as_array(name: str, value: Any, declared: Numbers) -> np.ndarray:
    if isinstance(value, str | bool) or value is None:
        raise ValueError(f"its {name!r} is not numbers")
    array = np.asarray(value)
    kinds, wanted = (
        ("b", "flags") if declared.flags else ("iu", "whole numbers") if declared.whole else ("iuf", "numbers")
    )
    if array.dtype.kind not in kinds:
        raise ValueError(f"its {name!r} holds {array.dtype}, not {wanted}")
    if not declared.endless:
        require_finite(name, array)
    elif np.any(np.isnan(array)):
        raise ValueError(f"its {name!r} holds NaN, which is no number")
    # A position keeps its width: engines take small ones.
    return array if declared.whole or declared.flags else array.astype(np.float64, copy=False)


def _check_shape(name: str, array: np.ndarray, declared: Numbers, sizes: dict[str, int]) -> None:
    if array.ndim != len(declared.dims):
        raise ValueError(f"its {name!r} has {array.ndim} dimensions, not {len(declared.dims)}")
    for dim, size in zip(declared.dims, array.shape, strict=True):
        base, plus, _ = dim.partition(" + 1")
        expected = sizes.setdefault(base, size - 1 if plus else size) + (1 if plus else 0)
        if size != expected:
            raise ValueError(f"its {name!r} has {size} along {dim!r} where other parts have {expected}")


def _check_numbers(name: str, array: np.ndarray, declared: Numbers, sizes: dict[str, int]) -> None:
    if array.min() < declared.least:
        raise ValueError(f"its {name!r} has {array.min():g}, below {declared.least:g}")
    if declared.within is not None and (array.min() < 0 or array.max() >= sizes[declared.within]):
        raise ValueError(f"its {name!r} points outside the {sizes[declared.within]} of {declared.within!r}")
    if (declared.increasing or declared.sorted) and array.ndim == 1:
        steps = np.diff(array)
        if np.any(steps <= 0) if declared.increasing else np.any(steps < 0):
            raise ValueError(f"its {name!r} is not in order")
