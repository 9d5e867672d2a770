# SPDX-License-Identifier: MIT
"""Where a parameter may lie, said on its field, checked when it is set and obeyed when it is learned.

    class Matern32(Kernel):
        lengthscale: Float[AnyArray, "..."] = positive()

A float field of a kernel or a likelihood that says nothing is learned too: as a positive number if it starts positive, as any number
otherwise. `fixed()` is for numbers that are given and never learned. Everyone else sees constrained arrays only.
"""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import numpy as np

from weft.arrays import ARRAYS, is_concrete


@dataclasses.dataclass(frozen=True)
class Domain:
    """An open interval, closed at `lower` where `allows_lower`."""

    lower: float = -np.inf
    upper: float = np.inf
    allows_lower: bool = False

    def contains(self, value: np.ndarray) -> bool:
        above = value >= self.lower if self.allows_lower else value > self.lower
        return bool(np.all(above & (value < self.upper)))

    def __str__(self) -> str:
        if self == NON_NEGATIVE:
            return "zero or positive"
        if self == POSITIVE:
            return "positive"
        if self == REAL:
            return "finite"
        return f"between {self.lower:g} and {self.upper:g}"


REAL = Domain()
POSITIVE = Domain(lower=0.0)
NON_NEGATIVE = Domain(lower=0.0, allows_lower=True)


def as_float64(value: Any) -> Any:
    """`value` as a float64 array; a NumPy one (so that no JAX setting matters yet) unless JAX made it."""
    if isinstance(value, jax.Array):
        return value
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"a parameter must be a number or an array of numbers; it is {value!r}") from error


def parameter(domain: Domain, **kwargs: Any) -> Any:
    """A field for a number, or an array of numbers, in `domain`."""
    return eqx.field(converter=as_float64, metadata={"domain": domain}, **kwargs)


def positive(**kwargs: Any) -> Any:
    return parameter(POSITIVE, **kwargs)


def non_negative(**kwargs: Any) -> Any:
    return parameter(NON_NEGATIVE, **kwargs)


def real(**kwargs: Any) -> Any:
    return parameter(REAL, **kwargs)


def between(lower: float, upper: float, **kwargs: Any) -> Any:
    return parameter(Domain(lower, upper), **kwargs)


def fixed(**kwargs: Any) -> Any:
    """A field for numbers that are given, such as a table; they are never learned."""
    return eqx.field(converter=as_float64, metadata={"fixed": True}, **kwargs)


def domain_of(field: dataclasses.Field[Any], value: Any) -> Domain | None:
    """Where the numbers of a kernel's or a likelihood's field may be learned; None where there are none to learn."""
    declared = field.metadata.get("domain")
    if declared is not None:
        return None if value is None else declared
    if is_fixed(field) or not is_float(value):
        return None
    return POSITIVE if POSITIVE.contains(np.asarray(value)) else REAL


def is_fixed(field: dataclasses.Field[Any]) -> bool:
    return bool(field.metadata.get("fixed") or field.metadata.get("static"))


def is_float(value: Any) -> bool:
    return isinstance(value, float) or (isinstance(value, ARRAYS) and np.issubdtype(value.dtype, np.floating))


class Parametrised(eqx.Module):
    """Anything with parameters in domains; refuses values outside them, and NaN, when it is made."""

    def __check_init__(self) -> None:
        for field in dataclasses.fields(self):
            domain = field.metadata.get("domain")
            value = getattr(self, field.name)
            if domain is None or value is None or not is_concrete(value):
                continue
            array = np.asarray(value)
            if not np.all(np.isfinite(array)) or not domain.contains(array):
                raise ValueError(f"{type(self).__name__}: {field.name} must be {domain}; it is {array.tolist()}")
