# SPDX-License-Identifier: MIT
"""How long a model remembers: times farther apart than that know nothing of each other."""

import numpy as np

from weft.kernels.base import Kernel, Product, Scaled, Sum
from weft.kernels.stationary import EQ, Matern12, Matern32, Matern52, Matern72
from weft.model import Model

__all__ = ["forgotten_after"]

# Of a component's variance: a covariance below it is none. Rounding takes as much.
NOTHING = 1e-12
# Length scales beyond which none of the kernels that fall steadily is more than that.
FARTHEST = 32.0


def forgotten_after(model: Model) -> float:
    """The time after which every component has forgotten, endless where one never does (a season, a trend, a constant)."""
    return max(_of_kernel(part.time) for part in model.components)


def _of_kernel(kernel: Kernel) -> float:
    if isinstance(kernel, Scaled):
        return _of_kernel(kernel.kernel)
    if isinstance(kernel, Sum):
        return max(_of_kernel(kernel.first), _of_kernel(kernel.second))
    if isinstance(kernel, Product):
        # Neither factor exceeds its variance.
        return min(_of_kernel(kernel.first), _of_kernel(kernel.second))
    if not isinstance(kernel, Matern12 | Matern32 | Matern52 | Matern72 | EQ):
        return np.inf
    lags = float(np.max(np.asarray(kernel.lengthscale))) * np.linspace(0.0, FARTHEST, 129)
    left = np.asarray(kernel(np.zeros(1), lags))[0]
    return float(lags[np.argmax(left < NOTHING * left[0])])
