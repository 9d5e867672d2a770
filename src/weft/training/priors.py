# SPDX-License-Identifier: MIT
"""Priors for parameters: functions from a parameter's value to its log density. Any such JAX function will do."""

import dataclasses

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

__all__ = ["LogNormalPrior", "NormalPrior"]


@dataclasses.dataclass(frozen=True)
class NormalPrior:
    """The value is normal with this mean and standard deviation."""

    mean: float
    deviation: float

    def __call__(self, value: Float[Array, "..."]) -> Float[Array, "..."]:
        return -0.5 * ((value - self.mean) / self.deviation) ** 2 - np.log(self.deviation * np.sqrt(2 * np.pi))


@dataclasses.dataclass(frozen=True)
class LogNormalPrior:
    """The logarithm of the value is normal; `deviation` is the logarithm's (0.7: a factor of two either way)."""

    median: float
    deviation: float

    def __call__(self, value: Float[Array, "..."]) -> Float[Array, "..."]:
        logarithm = jnp.log(value)
        return NormalPrior(float(np.log(self.median)), self.deviation)(logarithm) - logarithm
