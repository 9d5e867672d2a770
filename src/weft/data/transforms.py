# SPDX-License-Identifier: MIT
"""Transforms of a target: a Gaussian is fitted to z = forward(y), and its answers come back for y.

Every inverse is monotone, so quantiles of y are the inverses of quantiles of z, exactly. Means and variances are not:
they have closed forms for all but the logit, which takes quadrature.
"""

import abc
import dataclasses
from collections.abc import Callable, Sequence
from typing import Literal, final

import numpy as np
from jaxtyping import Float
from scipy import special

from weft.data.tables import name_rows

__all__ = [
    "TRANSFORMS",
    "Identity",
    "Log",
    "Log1p",
    "Logit",
    "Root",
    "Transform",
    "check_levels",
    "log_density",
    "log_density_by",
    "quantiles",
    "transform_named",
]

_LOG_ROOT_TWO_PI = 0.5 * np.log(2 * np.pi)
# Evenly spaced points in a range that holds all but 1e-16 of the mass. For the logistic function this rule beats
# Gauss-Hermite once sd passes 2: its error is exp(-2 pi^2 / (step sd)), from the poles at distance pi.
_QUADRATURE_POINTS = np.linspace(-8.5, 8.5, 137)
_ROWS_AT_ONCE = 65_536


class Transform(abc.ABC):
    """A monotone map from the values of a target to the whole line."""

    @property
    @abc.abstractmethod
    def name(self) -> str: ...

    @property
    @abc.abstractmethod
    def domain(self) -> str:
        """What values may be, in words."""

    @abc.abstractmethod
    def allows(self, values: Float[np.ndarray, " row"]) -> np.ndarray:
        """Where a value is in the domain."""

    @abc.abstractmethod
    def forward(self, values: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]: ...

    @abc.abstractmethod
    def inverse(self, transformed: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]: ...

    @abc.abstractmethod
    def log_jacobian(self, values: Float[np.ndarray, " row"]) -> Float[np.ndarray, " row"]:
        """Log of |d forward / d value|: add it to a log density of z to get one of y."""

    @abc.abstractmethod
    def moments(
        self, mean: Float[np.ndarray, " row"], sd: Float[np.ndarray, " row"]
    ) -> tuple[Float[np.ndarray, " row"], Float[np.ndarray, " row"]]:
        """Mean and variance of inverse(z) for z ~ N(mean, sd^2)."""

    def lowest(self) -> float | None:
        """A value that has a probability of its own, because the inverse is flat there; None where there is none."""
        return None

    def check(self, values: Float[np.ndarray, " row"], name: str) -> None:
        """Raise ValueError naming the rows outside the domain; NaN is missing, not outside."""
        bad = ~self.allows(values) & ~np.isnan(values)
        if bad.any():
            raise ValueError(
                f"transform {self.name!r} needs values of {name!r} that are {self.domain}; {name_rows(bad, values)}"
            )


@final
@dataclasses.dataclass(frozen=True)
class Identity(Transform):
    """y itself."""

    name = "identity"
    domain = "finite"

    def allows(self, values: Float[np.ndarray, " row"]) -> np.ndarray:
        return np.isfinite(values)

    def forward(self, values: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        return np.asarray(values, dtype=np.float64)

    def inverse(self, transformed: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        return np.asarray(transformed, dtype=np.float64)

    def log_jacobian(self, values: Float[np.ndarray, " row"]) -> Float[np.ndarray, " row"]:
        return np.zeros_like(values)

    def moments(
        self, mean: Float[np.ndarray, " row"], sd: Float[np.ndarray, " row"]
    ) -> tuple[Float[np.ndarray, " row"], Float[np.ndarray, " row"]]:
        return mean, sd**2


@final
@dataclasses.dataclass(frozen=True)
class Log(Transform):
    """log y: y is log-normal."""

    name = "log"
    domain = "positive"

    def allows(self, values: Float[np.ndarray, " row"]) -> np.ndarray:
        return np.isfinite(values) & (values > 0)

    def forward(self, values: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        return np.log(values)

    def inverse(self, transformed: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        return np.exp(transformed)

    def log_jacobian(self, values: Float[np.ndarray, " row"]) -> Float[np.ndarray, " row"]:
        return -np.log(values)

    def moments(
        self, mean: Float[np.ndarray, " row"], sd: Float[np.ndarray, " row"]
    ) -> tuple[Float[np.ndarray, " row"], Float[np.ndarray, " row"]]:
        expected = np.exp(mean + sd**2 / 2)
        return expected, np.expm1(sd**2) * expected**2


@final
@dataclasses.dataclass(frozen=True)
class Log1p(Transform):
    """log(1 + y) of what has zeros, such as rain; y = max(e^z - 1, 0), and zero has the probability of z <= 0."""

    name = "log1p"
    domain = "zero or positive"

    def allows(self, values: Float[np.ndarray, " row"]) -> np.ndarray:
        return np.isfinite(values) & (values >= 0)

    def forward(self, values: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        return np.log1p(values)

    def inverse(self, transformed: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        return np.expm1(np.maximum(transformed, 0.0))

    def log_jacobian(self, values: Float[np.ndarray, " row"]) -> Float[np.ndarray, " row"]:
        return -np.log1p(values)

    def moments(
        self, mean: Float[np.ndarray, " row"], sd: Float[np.ndarray, " row"]
    ) -> tuple[Float[np.ndarray, " row"], Float[np.ndarray, " row"]]:
        """By E[e^kz; z > 0] = e^(k mean + (k sd)^2 / 2) Phi(mean / sd + k sd)."""
        certain = sd == 0
        scale = np.where(certain, 1.0, sd)
        none, one, two = (
            np.exp(k * mean + (k * scale) ** 2 / 2 + special.log_ndtr(mean / scale + k * scale)) for k in (0, 1, 2)
        )
        # Far below zero both are differences of nearly equal terms; what is left there is rounding.
        expected = np.maximum(one - none, 0.0)
        variance = np.maximum(two - 2 * one + none - expected**2, 0.0)
        return np.where(certain, self.inverse(mean), expected), np.where(certain, 0.0, variance)

    def lowest(self) -> float | None:
        return 0.0


@final
@dataclasses.dataclass(frozen=True)
class Root(Transform):
    """y = max(z, 0)^power, a power of two: a plain square is not monotone. Zero has the probability of z <= 0.

    The fourth root lies between the square root and the logarithm.
    """

    power: Literal[2, 4]
    domain = "zero or positive"

    @property
    def name(self) -> str:
        return {2: "sqrt", 4: "fourth_root"}[self.power]

    def allows(self, values: Float[np.ndarray, " row"]) -> np.ndarray:
        return np.isfinite(values) & (values >= 0)

    def forward(self, values: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        return np.sqrt(values) if self.power == 2 else np.sqrt(np.sqrt(values))

    def inverse(self, transformed: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        return np.maximum(transformed, 0.0) ** self.power

    def log_jacobian(self, values: Float[np.ndarray, " row"]) -> Float[np.ndarray, " row"]:
        with np.errstate(divide="ignore"):
            return -np.log(self.power) - (1 - 1 / self.power) * np.log(values)

    def moments(
        self, mean: Float[np.ndarray, " row"], sd: Float[np.ndarray, " row"]
    ) -> tuple[Float[np.ndarray, " row"], Float[np.ndarray, " row"]]:
        """By moments of a rectified Gaussian: M_k = mean M_(k-1) + (k - 1) sd^2 M_(k-2) from M_2 on."""
        power, certain = self.power, sd == 0
        scale = np.where(certain, 1.0, sd)
        above = special.ndtr(mean / scale)
        density_at_zero = np.exp(-0.5 * (mean / scale) ** 2 - _LOG_ROOT_TWO_PI)
        found = [above, mean * above + scale * density_at_zero]
        for order in range(2, 2 * power + 1):
            found.append(mean * found[-1] + (order - 1) * scale**2 * found[-2])
        # Far below zero all are differences of nearly equal terms; what is left there is rounding.
        expected = np.where(certain, self.inverse(mean), np.maximum(found[power], 0.0))
        return expected, np.where(certain, 0.0, np.maximum(found[2 * power] - found[power] ** 2, 0.0))

    def lowest(self) -> float | None:
        return 0.0


@final
@dataclasses.dataclass(frozen=True)
class Logit(Transform):
    """log(y / (1 - y)) for fractions.

    The moments are good to 1e-12 for sd up to 4, 1e-5 for sd up to 10.
    """

    name = "logit"
    domain = "between 0 and 1, neither included"

    def allows(self, values: Float[np.ndarray, " row"]) -> np.ndarray:
        return (values > 0) & (values < 1)

    def forward(self, values: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        return special.logit(values)

    def inverse(self, transformed: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        return special.expit(transformed)

    def log_jacobian(self, values: Float[np.ndarray, " row"]) -> Float[np.ndarray, " row"]:
        return -np.log(values) - np.log1p(-values)

    def moments(
        self, mean: Float[np.ndarray, " row"], sd: Float[np.ndarray, " row"]
    ) -> tuple[Float[np.ndarray, " row"], Float[np.ndarray, " row"]]:
        weights = np.exp(-0.5 * _QUADRATURE_POINTS**2)
        weights = weights / weights.sum()
        expected, variance = np.empty_like(mean), np.empty_like(mean)
        for start in range(0, len(mean), _ROWS_AT_ONCE):
            rows = slice(start, start + _ROWS_AT_ONCE)
            values = self.inverse(mean[rows, None] + sd[rows, None] * _QUADRATURE_POINTS)
            expected[rows] = values @ weights
            variance[rows] = (values - expected[rows, None]) ** 2 @ weights
        return expected, variance


TRANSFORMS: dict[str, Transform] = {
    transform.name: transform for transform in (Identity(), Log(), Root(2), Root(4), Logit(), Log1p())
}


def transform_named(name: str | None) -> Transform:
    """The transform of that name; None is the identity."""
    if name is None:
        return TRANSFORMS["identity"]
    if name not in TRANSFORMS:
        raise ValueError(f"transform must be one of {', '.join(TRANSFORMS)}; it is {name!r}")
    return TRANSFORMS[name]


def check_levels(levels: Sequence[float] | Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """The levels of quantiles, between 0 and 1."""
    asked = np.asarray(levels, dtype=np.float64)
    if not np.all((asked > 0) & (asked < 1)):
        raise ValueError(f"quantile levels must lie between 0 and 1, neither included; they are {asked.tolist()}")
    return asked


def quantiles(
    transform: Transform,
    mean: Float[np.ndarray, " row"],
    sd: Float[np.ndarray, " row"],
    levels: Sequence[float] | Float[np.ndarray, " level"],
) -> Float[np.ndarray, "row level"]:
    """Quantiles of y = inverse(z) for z ~ N(mean, sd^2), exact."""
    return transform.inverse(mean[:, None] + sd[:, None] * special.ndtri(check_levels(levels)))


def log_density(
    transform: Transform,
    values: Float[np.ndarray, " row"],
    mean: Float[np.ndarray, " row"],
    sd: Float[np.ndarray, " row"],
) -> Float[np.ndarray, " row"]:
    """Log density of y at `values` for z ~ N(mean, sd^2)."""

    def standardised(rows: np.ndarray) -> Float[np.ndarray, " some"]:
        return (transform.forward(values[rows]) - mean[rows]) / sd[rows]

    return log_density_by(
        transform,
        values,
        lambda rows: -0.5 * standardised(rows) ** 2 - _LOG_ROOT_TWO_PI - np.log(sd[rows]),
        lambda rows: special.log_ndtr(standardised(rows)),
    )


def log_density_by(
    transform: Transform,
    values: Float[np.ndarray, " row"],
    log_density_of_z: Callable[[np.ndarray], Float[np.ndarray, " some"]],
    log_cdf_of_z: Callable[[np.ndarray], Float[np.ndarray, " some"]],
) -> Float[np.ndarray, " row"]:
    """Log density of y at `values`, by that of z at some of them; NaN where a value is missing, -inf outside the domain.

    Where one value has a probability of its own (0 for the square root), that value gets its log probability.
    """
    inside = transform.allows(values)
    lowest = transform.lowest()
    at_lowest = inside & (values == lowest) if lowest is not None else np.zeros_like(inside)
    regular = inside & ~at_lowest
    out = np.where(np.isnan(values), np.nan, -np.inf)
    out[regular] = log_density_of_z(regular) + transform.log_jacobian(values[regular])
    out[at_lowest] = log_cdf_of_z(at_lowest)
    return out
