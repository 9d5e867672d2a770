# SPDX-License-Identifier: MIT
"""What answers look like."""

import dataclasses
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float

from weft.arrays import ArrayLike
from weft.likelihoods import Likelihood, RowExtras


class Marginals(NamedTuple):
    """Mean and variance of f, or of one component of it, at each row asked about."""

    mean: Float[np.ndarray, " query"]
    variance: Float[np.ndarray, " query"]

    @property
    def latent_variance(self) -> Float[np.ndarray, " query"]:
        """The same as `variance`: no noise is in it."""
        return self.variance


@final
@dataclasses.dataclass(frozen=True)
class Emission:
    """What an observation at each row is, given f: a likelihood, and what the rows bring."""

    likelihood: Likelihood
    extra: RowExtras


class Prediction:
    """What an observation at each row would be: `mean` and `variance` are the observation's, noise included."""

    def __init__(self, latent: Marginals, emission: Emission):
        likelihood, extra = emission.likelihood, emission.extra
        self.latent_mean, self.latent_variance = latent
        mean, variance = likelihood.predict(*latent, extra)
        self.mean: Float[np.ndarray, " query"] = np.asarray(mean)
        self.variance: Float[np.ndarray, " query"] = np.asarray(variance)
        self._likelihood = likelihood
        self._extra = extra

    def quantile(self, probability: ArrayLike) -> Float[np.ndarray, "..."]:
        """The value an observation stays below with this probability; several probabilities make one more axis at the end."""
        wanted = np.asarray(probability, dtype=np.float64)
        if not np.all((wanted > 0) & (wanted < 1)):
            raise ValueError(f"a quantile's probability must lie strictly between 0 and 1; it is {wanted.tolist()}")
        columns = [
            self._likelihood.quantile(float(each), self.latent_mean, self.latent_variance, self._extra)
            for each in wanted.reshape(-1)
        ]
        return np.stack(columns, axis=-1).reshape(self.latent_mean.shape + wanted.shape)
