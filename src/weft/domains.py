# SPDX-License-Identifier: MIT
"""Where a parameter may lie, said on its field, checked when it is set and obeyed when it is learned.

    class Matern32(Kernel):
        lengthscale: Float[AnyArray, "..."] = positive()

Everyone else sees constrained arrays only.
"""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import numpy as np

from weft.arrays import is_concrete


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
