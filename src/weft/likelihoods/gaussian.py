# SPDX-License-Identifier: MIT
"""Normal noise."""

from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float

from weft.arrays import AnyArray
from weft.domains import non_negative
from weft.likelihoods.base import NO_EXTRAS, Likelihood, RowExtras, Support


class Gaussian(Likelihood):
    """value ~ N(f, variance + the row's own noise variance); at variance 0 the rows' own noise alone."""

    support: ClassVar[Support] = Support.REAL
    variance: Float[AnyArray, ""] = non_negative(default=1.0)

    def noise_variance(self, own: Float[AnyArray, " row"] | None = None) -> Float[AnyArray, "..."]:
        """The variance of each row's noise, given the rows' own; one number for all rows if they have none."""
        return self.variance if own is None else self.variance + own

    def log_density(
        self, values: Float[AnyArray, " row"], f: Float[AnyArray, " row"], extra: RowExtras = NO_EXTRAS
    ) -> Float[Array, " row"]:
        noise = self.noise_variance(extra.noise_variance)
        return -0.5 * (jnp.log(2 * jnp.pi * noise) + (values - f) ** 2 / noise)

    def expected_log_density(
        self,
        values: Float[AnyArray, " row"],
        mean: Float[AnyArray, " row"],
        variance: Float[AnyArray, " row"],
        extra: RowExtras = NO_EXTRAS,
    ) -> Float[Array, " row"]:
        return self.log_density(values, mean, extra) - 0.5 * variance / self.noise_variance(extra.noise_variance)
