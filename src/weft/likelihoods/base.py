# SPDX-License-Identifier: MIT
"""What a likelihood is: the distribution of an observation given the field f at its row.

A likelihood of your own is a class with `log_density`; everything else here has a default that works from it:

    class Cauchy(Likelihood):
        support = Support.REAL
        scale: Float[AnyArray, ""] = positive(default=1.0)

        def log_density(self, values, f, extra):
            return -jnp.log(jnp.pi * self.scale * (1 + ((values - f) / self.scale) ** 2))

Every function acts on rows side by side. `log_density`, `expected_log_density`, `predict` and `initial` are pure JAX and may be
transformed; `check`, `quantile` and `sample` work on concrete numbers and give NumPy arrays. Rows whose value is NaN are missing:
`check` passes over them, and every other function gives NaN for them, so leave them out first.
"""

import abc
import enum
from typing import ClassVar

import equinox as eqx
import numpy as np
from jaxtyping import Array, Bool, Float

from weft.arrays import AnyArray
from weft.domains import Parametrised
from weft.likelihoods.quadrature import gauss_hermite


class Support(enum.Enum):
    """Where observations may lie."""

    REAL = "real"
    POSITIVE = "positive"
    UNIT = "between zero and one"
    COUNTS = "whole numbers from zero"


class RowExtras(eqx.Module):
    """What a row may bring besides its value: None stands for an exposure of 1, one trial and no noise of its own."""

    exposure: Float[AnyArray, " row"] | None = None
    trials: Float[AnyArray, " row"] | None = None
    noise_variance: Float[AnyArray, " row"] | None = None


NO_EXTRAS = RowExtras()


class Likelihood(Parametrised):
    """The distribution of an observation given f, its moments and quantiles once f is uncertain."""

    support: ClassVar[Support | None] = None

    @abc.abstractmethod
    def log_density(
        self, values: Float[AnyArray, " row"], f: Float[AnyArray, " row"], extra: RowExtras = NO_EXTRAS
    ) -> Float[Array, " row"]:
        """log p(value | f), of the density or, for counts, the probability."""

    def expected_log_density(
        self,
        values: Float[AnyArray, " row"],
        mean: Float[AnyArray, " row"],
        variance: Float[AnyArray, " row"],
        extra: RowExtras = NO_EXTRAS,
    ) -> Float[Array, " row"]:
        """E log p(value | f) under f ~ N(mean, variance); its gradient in both is exact for the number computed."""
        return gauss_hermite(lambda f: self.log_density(values, f, extra), mean, variance)


def refuse(likelihood: object, wanted: str, values: Float[AnyArray, " row"], bad: Bool[AnyArray, " row"]) -> None:
    """Raise ValueError naming the first rows where `bad` holds, if any."""
    (rows,) = np.nonzero(bad)
    if len(rows) == 0:
        return
    first = rows[:5]
    shown = ", ".join(f"{values[row]:g} in row {row}" for row in first)
    more = f" and {len(rows) - len(first)} more" if len(rows) > len(first) else ""
    raise ValueError(f"{type(likelihood).__name__}: {wanted}; there is {shown}{more}")
