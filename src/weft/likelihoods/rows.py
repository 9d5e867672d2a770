# SPDX-License-Identifier: MIT
"""What a row may hold: where its value may lie, and what comes with it."""

import enum

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from weft.arrays import AnyArray

PerRow = Float[AnyArray, " row"]
Probability = Float[AnyArray, "..."] | float


class Support(enum.Enum):
    """Where observations may lie."""

    REAL = "finite"
    POSITIVE = "positive"
    NON_NEGATIVE = "zero or positive"
    UNIT = "strictly between 0 and 1"
    BINARY = "0 or 1"
    COUNTS = "whole numbers, zero or more"

    def contains(self, values: Float[np.ndarray, "..."]) -> Bool[np.ndarray, "..."]:
        inside = {
            Support.REAL: values == values,
            Support.POSITIVE: values > 0,
            Support.NON_NEGATIVE: values >= 0,
            Support.UNIT: (values > 0) & (values < 1),
            Support.BINARY: (values == 0) | (values == 1),
            Support.COUNTS: (values >= 0) & (values == np.floor(values)),
        }
        return inside[self] & np.isfinite(values)


class RowExtras(eqx.Module):
    """What a row may bring besides its value: None stands for an exposure of 1, one trial, no noise of its own and no limits."""

    exposure: PerRow | None = None
    trials: PerRow | None = None
    noise_variance: PerRow | None = None
    lower: PerRow | None = None
    upper: PerRow | None = None

    def exposure_of(self, like: Float[AnyArray, "..."]) -> Float[AnyArray, "..."]:
        """Each row's exposure, shaped as `like`, whose last axis is the rows."""
        return broadcast_rows(self.exposure, 1.0, like)

    def trials_of(self, like: Float[AnyArray, "..."]) -> Float[AnyArray, "..."]:
        """Each row's trials, shaped as `like`, whose last axis is the rows."""
        return broadcast_rows(self.trials, 1.0, like)


def broadcast_rows(array: PerRow | None, default: float, like: Float[AnyArray, "..."]) -> Float[AnyArray, "..."]:
    filled = np.float64(default) if array is None else array
    broadcast_to = jnp.broadcast_to if isinstance(filled, jax.Array) else np.broadcast_to
    return broadcast_to(filled, like.shape)


NO_EXTRAS = RowExtras()
