# SPDX-License-Identifier: MIT
"""What a model says once it has seen data: at any time and place, past or future."""

import functools
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.stats import norm

from weft.arrays import ArrayLike, require_float64
from weft.data.observations import Observations
from weft.engines.choose import choose_engine
from weft.inference.evidence import check_power, gaussian_rows, noise_variance
from weft.inference.queries import Question, blocks_of_rows, checked_rows
from weft.model import Model
from weft.state_space.chain import Rows
from weft.state_space.features import Basis
from weft.state_space.prior import Prior, bases_of, make_prior


class Marginals(NamedTuple):
    """Mean and variance of f, or of one component of it, at each row asked about."""

    mean: Float[np.ndarray, " query"]
    variance: Float[np.ndarray, " query"]

    @property
    def latent_variance(self) -> Float[np.ndarray, " query"]:
        return self.variance


class Prediction(NamedTuple):
    """What an observation at each row would be: `variance` has the noise in it, `latent_variance` has not."""

    mean: Float[np.ndarray, " query"]
    latent_variance: Float[np.ndarray, " query"]
    variance: Float[np.ndarray, " query"]

    def quantile(self, probability: ArrayLike) -> Float[np.ndarray, "..."]:
        """The value an observation stays below with this probability; one more axis at the end for several probabilities."""
        probability = np.asarray(probability, dtype=np.float64)
        if not np.all((probability > 0) & (probability < 1)):
            raise ValueError(f"a quantile's probability must lie strictly between 0 and 1; it is {probability.tolist()}")
        deviations = np.multiply.outer(np.sqrt(self.variance), norm.ppf(probability))
        return np.reshape(self.mean, self.mean.shape + (1,) * probability.ndim) + deviations


def condition(model: Model, data: Observations, *, power: float = 0.0, engine: str = "auto") -> "Posterior":
    """The posterior of `model` given `data`; `power` as in `log_evidence`."""
    require_float64()
    check_power(power)
    return Posterior(model, data, power=power, engine=engine)


class Posterior:
    """Answers about f given data. Rows asked about may come in any order, repeat, and lie at any time and place."""

    def __init__(self, model: Model, data: Observations, *, power: float, engine: str):
        self.model = model
        self.data = data
        self.power = power
        self.engine = choose_engine(engine)

    @functools.cached_property
    def _prior(self) -> Prior:
        return make_prior(self.model, self.data)

    @functools.cached_property
    def _rows(self) -> Rows:
        noise = noise_variance(self.model, self.data)
        return gaussian_rows(self.data, noise + self.power * self._prior.unexplained)

    @functools.cached_property
    def _bases(self) -> tuple[Basis, ...]:
        return bases_of(self.model, self.data.places)

    def marginals(self, times: ArrayLike, places: ArrayLike) -> Marginals:
        """Mean and variance of f at paired rows of times and places."""
        mean, _, total_variance = self._moments(times, places)
        return Marginals(mean.sum(axis=1), total_variance)

    def components(self, times: ArrayLike, places: ArrayLike) -> tuple[Marginals, ...]:
        """Mean and variance of each component of the kernel, then of the mean function if the model has one."""
        means, variances, _ = self._moments(times, places)
        return tuple(Marginals(mean, variance) for mean, variance in zip(means.T, variances.T, strict=True))

    def predict(self, times: ArrayLike, places: ArrayLike, *, noise_variance: ArrayLike = 0.0) -> Prediction:
        """What would be observed; `noise_variance` is the rows' own, on top of the likelihood's."""
        mean, variance = self.marginals(times, places)
        noise = np.asarray(self.model.likelihood.variance) + np.asarray(noise_variance, dtype=np.float64)
        return Prediction(mean, variance, variance + noise)

    def _moments(
        self, times: ArrayLike, places: ArrayLike
    ) -> tuple[Float[np.ndarray, "query component"], Float[np.ndarray, "query component"], Float[np.ndarray, " query"]]:
        times, places = checked_rows(times, places, self.data.places.shape[1])
        mean = np.empty((len(times), len(self.model.components)))
        variance = np.empty_like(mean)
        total_variance = np.empty(len(times))
        for block in blocks_of_rows(places, self._prior.weights.shape[1]):
            asked = Question(self.model, self._bases, self.data.times, self._rows, times[block], places[block])
            moments = self.engine.moments(asked.chain, self._prior.weights, asked.rows, asked.queries)
            mean[block] = asked.in_order(np.asarray(moments.mean))
            variance[block] = asked.in_order(np.asarray(moments.variance)) + asked.unexplained
            total_variance[block] = asked.in_order(np.asarray(moments.total_variance)) + asked.unexplained.sum(axis=1)
        return mean, variance, total_variance
