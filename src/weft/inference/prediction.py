# SPDX-License-Identifier: MIT
"""What answers look like: of f, and of an observation in its own units."""

import abc
import functools
from collections.abc import Sequence
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float, Int
from scipy import special

from weft.arrays import ArrayLike
from weft.data.scaling import TargetScaling
from weft.data.transforms import check_levels, transform_named
from weft.likelihoods import Gaussian, Likelihood, RowExtras
from weft.likelihoods.numerical import log_expected_density, take
from weft.likelihoods.rows import Support
from weft.scores import RowScores, crps_from_quantiles, crps_from_samples, score_rows

__all__ = ["IDENTITY", "OF", "Distribution", "Emission", "LikelihoodEmission", "Marginals", "Prediction", "check_of"]

PerRow = Float[np.ndarray, " row"]
OF = ("observation", "field")

# The target of a model on arrays: the values themselves.
IDENTITY = TargetScaling(transform_named(None), 0.0, 1.0)

# CRPS without a closed form is an integral over this many quantiles, or a mean over this many draws.
_LEVELS = (np.arange(200) + 0.5) / 200
_DRAWS = 400
_ROWS_AT_ONCE = 16_384
_NODES, _NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(32)
_NODE_WEIGHTS = _NODE_WEIGHTS / _NODE_WEIGHTS.sum()


def check_of(of: str) -> None:
    if of not in OF:
        raise ValueError(f"of must be 'observation' (noise included) or 'field' (without); it is {of!r}")


class Marginals(NamedTuple):
    """Mean and variance of f, or of one component of it, at each row asked about."""

    mean: Float[np.ndarray, " query"]
    variance: Float[np.ndarray, " query"]

    @property
    def latent_variance(self) -> Float[np.ndarray, " query"]:
        """The same as `variance`: no noise is in it."""
        return self.variance


class Distribution(abc.ABC):
    """What may be observed at each row, on the scale of f; every answer is in the units of a target."""

    @abc.abstractmethod
    def moments(self, target: TargetScaling) -> tuple[PerRow, PerRow]:
        """Mean and deviation."""

    @abc.abstractmethod
    def quantiles(
        self, levels: Sequence[float] | Float[np.ndarray, " level"], target: TargetScaling
    ) -> Float[np.ndarray, "row level"]: ...

    @abc.abstractmethod
    def log_density(self, values: PerRow, target: TargetScaling) -> PerRow:
        """NaN where a value is missing."""

    @abc.abstractmethod
    def score(self, values: PerRow, target: TargetScaling, seed: int) -> RowScores:
        """Scores of the rows that have a value; draws behind them, where any are needed, come from `seed`."""


class Continuous(Distribution):
    """A distribution with a density before the target's transform, of which a mixture can be made."""

    @abc.abstractmethod
    def at(self, rows: Int[np.ndarray, " some"]) -> "Continuous":
        """The same of some rows."""

    @abc.abstractmethod
    def cdf(self, f: Float[np.ndarray, "row level"]) -> Float[np.ndarray, "row level"]:
        """Probability of less than each number, on the scale of f."""

    def pit(self, values: PerRow, target: TargetScaling, seed: int) -> PerRow:
        """Probability of less than each value; NaN where it is missing."""
        known = ~np.isnan(values)
        found = np.full(len(values), np.nan)
        inside = target.forward(values[known], "the target")
        found[known] = self.at(np.flatnonzero(known)).cdf(inside[:, None])[:, 0]
        lowest = target.transform.lowest()
        if lowest is None:
            return found
        # A value with a probability of its own has any PIT up to it: draw one, so that calibrated rows stay uniform.
        return np.where(values == lowest, found * np.random.default_rng(seed).random(len(values)), found)


def crps_by_quantiles(distribution: Continuous, values: PerRow, target: TargetScaling) -> PerRow:
    """Some rows at once, for their quantiles' sake."""
    crps = np.empty(len(values))
    for start in range(0, len(values), _ROWS_AT_ONCE):
        rows = np.arange(start, min(start + _ROWS_AT_ONCE, len(values)))
        crps[rows] = crps_from_quantiles(values[rows], distribution.at(rows).quantiles(_LEVELS, target), _LEVELS)
    return crps


class Emission(abc.ABC):
    """What an observation at each row is, given f. Another kind of noise is another class of these."""

    @abc.abstractmethod
    def observed(self, latent: Marginals) -> Distribution:
        """The distribution of an observation where f is Gaussian."""

    @abc.abstractmethod
    def expected(self, f: Float[np.ndarray, "*draw row"]) -> Float[np.ndarray, "*draw row"]:
        """What an observation is expected to be where f is known."""

    @abc.abstractmethod
    def sample(
        self, generator: np.random.Generator, f: Float[np.ndarray, "*draw row"]
    ) -> Float[np.ndarray, "*draw row"]: ...

    @property
    @abc.abstractmethod
    def is_centred(self) -> bool:
        """Whether an observation is expected to be f itself."""


@final
class LikelihoodEmission(Emission):
    """A likelihood, and what the rows bring."""

    def __init__(self, likelihood: Likelihood, extra: RowExtras):
        self.likelihood = likelihood
        self.extra = extra

    @property
    def is_centred(self) -> bool:
        return self.likelihood.support is Support.REAL

    def observed(self, latent: Marginals) -> Distribution:
        if not isinstance(self.likelihood, Gaussian):
            return _Mixture(self.likelihood, latent, self.extra)
        noise = np.broadcast_to(
            np.asarray(self.likelihood.noise_variance(self.extra.noise_variance)), latent.mean.shape
        )
        return _Normal(latent.mean, np.sqrt(np.maximum(latent.variance, 0.0) + noise))

    def expected(self, f: Float[np.ndarray, "*draw row"]) -> Float[np.ndarray, "*draw row"]:
        if self.is_centred:
            return f
        draws = f.reshape(-1, f.shape[-1])
        known = [np.asarray(self.likelihood.predict(draw, np.zeros_like(draw), self.extra)[0]) for draw in draws]
        return np.reshape(known, f.shape)

    def sample(
        self, generator: np.random.Generator, f: Float[np.ndarray, "*draw row"]
    ) -> Float[np.ndarray, "*draw row"]:
        return np.asarray(self.likelihood.sample(generator, f, self.extra))


@final
class Prediction:
    """What is predicted for each row: an observation, noise included, and the field behind it, in a target's own units.

    The field is what an observation would be without noise, or its expectation: for counts the rate.
    """

    def __init__(self, latent: Marginals, emission: Emission, target: TargetScaling = IDENTITY):
        self.latent = latent
        self.emission = emission
        self.target = target

    @property
    def latent_mean(self) -> PerRow:
        """Of f, on its own scale."""
        return self.latent.mean

    @property
    def latent_variance(self) -> PerRow:
        """Of f, on its own scale."""
        return self.latent.variance

    @property
    def mean(self) -> PerRow:
        return self._moments[0]

    @property
    def sd(self) -> PerRow:
        return self._moments[1]

    @property
    def variance(self) -> PerRow:
        return self.sd**2

    def field(self) -> tuple[PerRow, PerRow]:
        """Mean and deviation of the field."""
        if self.emission.is_centred:
            return self._field.moments(self.target)
        # The deviation of e^f of a vague f is beyond quadrature, but nobody reads it there; the mean is exact.
        nodes = self.emission.expected(self._field.mean + _NODES[:, None] * self._field.sd)
        middle = _NODE_WEIGHTS @ nodes
        spread = np.sqrt(_NODE_WEIGHTS @ (nodes - middle) ** 2)
        return self.target.inverse(middle), spread * self.target.scale

    def quantile(self, probability: ArrayLike, *, of: str = "observation") -> Float[np.ndarray, "..."]:
        """The value that is not exceeded with this probability; several probabilities make one more axis at the end."""
        check_of(of)
        wanted = check_levels(np.asarray(probability, dtype=np.float64))
        levels = wanted.reshape(-1)
        if of == "observation":
            found = self._observed.quantiles(levels, self.target)
        elif self.emission.is_centred:
            found = self._field.quantiles(levels, self.target)
        else:
            # What is expected grows with f, so its quantiles are those of f.
            f = self._field.mean + special.ndtri(levels)[:, None] * self._field.sd
            found = self.target.inverse(self.emission.expected(f).T)
        return found.reshape(self.latent.mean.shape + wanted.shape)

    def log_density(self, values: ArrayLike) -> PerRow:
        """Log density (of counts, probability) of each value; NaN where one is missing."""
        return self._observed.log_density(np.asarray(values, dtype=np.float64), self.target)

    def crps(self, values: ArrayLike, *, seed: int = 0) -> PerRow:
        """Continuous ranked probability score of each value; NaN where one is missing."""
        scores = self.score(np.asarray(values, dtype=np.float64), seed)
        found = np.full(len(self.latent.mean), np.nan)
        found[scores.rows] = scores.crps
        return found

    def sample(self, *, num: int = 1, seed: int = 0) -> Float[np.ndarray, "draw row"]:
        """Draws of observations, each row by itself; `Posterior.sample` draws rows together."""
        generator = np.random.default_rng(seed)
        return self.target.inverse(self.emission.sample(generator, self._field.draws(num, generator)))

    def score(self, values: PerRow, seed: int = 0) -> RowScores:
        """Scores of the rows that have a value; draws behind them, where any are needed, come from `seed`."""
        return self._observed.score(values, self.target, seed)

    @functools.cached_property
    def _field(self) -> "_Normal":
        return _Normal(self.latent.mean, np.sqrt(np.maximum(self.latent.variance, 0.0)))

    @functools.cached_property
    def _observed(self) -> Distribution:
        return self.emission.observed(self.latent)

    @functools.cached_property
    def _moments(self) -> tuple[PerRow, PerRow]:
        return self._observed.moments(self.target)


@final
class _Normal(Continuous):
    """A Gaussian before the target's transform; its quantiles come back exactly."""

    def __init__(self, mean: PerRow, sd: PerRow):
        self.mean = mean
        self.sd = sd

    def moments(self, target: TargetScaling) -> tuple[PerRow, PerRow]:
        return target.moments(self.mean, self.sd)

    def quantiles(
        self, levels: Sequence[float] | Float[np.ndarray, " level"], target: TargetScaling
    ) -> Float[np.ndarray, "row level"]:
        return target.quantiles(self.mean, self.sd, levels)

    def log_density(self, values: PerRow, target: TargetScaling) -> PerRow:
        return target.log_density(values, self.mean, self.sd)

    def draws(self, num: int, generator: np.random.Generator) -> Float[np.ndarray, "draw row"]:
        return self.mean + self.sd * generator.standard_normal((num, len(self.mean)))

    def score(self, values: PerRow, target: TargetScaling, seed: int) -> RowScores:
        mean, sd = self.moments(target)
        if target.transform.name == "identity":
            return score_rows(values, mean, sd)
        return score_rows(
            values,
            mean,
            sd,
            crps=crps_by_quantiles(self, values, target),
            log_density=self.log_density(values, target),
            pit=self.pit(values, target, seed),
        )

    def at(self, rows: Int[np.ndarray, " some"]) -> "_Normal":
        return _Normal(self.mean[rows], self.sd[rows])

    def cdf(self, f: Float[np.ndarray, "row level"]) -> Float[np.ndarray, "row level"]:
        return special.ndtr((f - self.mean[:, None]) / self.sd[:, None])


@final
class _Mixture(Distribution):
    """Any likelihood over a Gaussian f: moments and quantiles by the likelihood, scores by quadrature and draws.

    Its target is at most shifted and scaled: a transform goes with a Gaussian likelihood alone.
    """

    def __init__(self, likelihood: Likelihood, latent: Marginals, extra: RowExtras):
        self.likelihood = likelihood
        self.mean = latent.mean
        self.variance = np.maximum(latent.variance, 0.0)
        self.extra = extra

    def moments(self, target: TargetScaling) -> tuple[PerRow, PerRow]:
        mean, variance = (np.asarray(each) for each in self.likelihood.predict(self.mean, self.variance, self.extra))
        return target.inverse(mean), np.sqrt(variance) * target.scale

    def quantiles(
        self, levels: Sequence[float] | Float[np.ndarray, " level"], target: TargetScaling
    ) -> Float[np.ndarray, "row level"]:
        found = np.empty((len(self.mean), len(levels)))
        for number, level in enumerate(levels):
            found[:, number] = self.likelihood.quantile(float(level), self.mean, self.variance, self.extra)
        return target.inverse(found)

    def log_density(self, values: PerRow, target: TargetScaling) -> PerRow:
        found = np.full(len(values), np.nan)
        for rows in self._blocks(values):
            found[rows] = self._log_density_of(rows, values, target)
        return found

    def score(self, values: PerRow, target: TargetScaling, seed: int) -> RowScores:
        generator = np.random.default_rng(seed)
        mean, sd = self.moments(target)
        crps, pit, log_density = (np.full(len(values), np.nan) for _ in range(3))
        for rows in self._blocks(values):
            f = self.mean[rows] + np.sqrt(self.variance[rows]) * generator.standard_normal((_DRAWS, len(rows)))
            drawn = np.asarray(self.likelihood.sample(generator, f, take(self.extra, rows)))
            draws = target.inverse(drawn).T
            crps[rows] = crps_from_samples(values[rows], draws)
            below = np.mean(draws < values[rows, None], axis=1)
            equal = np.mean(draws == values[rows, None], axis=1)
            pit[rows] = below + equal * generator.random(len(rows))
            log_density[rows] = self._log_density_of(rows, values, target)
        return score_rows(values, mean, sd, crps=crps, log_density=log_density, pit=pit)

    def _log_density_of(
        self, rows: Int[np.ndarray, " some"], values: PerRow, target: TargetScaling
    ) -> Float[np.ndarray, " some"]:
        found = log_expected_density(
            self.likelihood,
            target.forward(values[rows]),
            self.mean[rows],
            self.variance[rows],
            take(self.extra, rows),
        )
        return found - np.log(target.scale)

    def _blocks(self, values: PerRow) -> list[Int[np.ndarray, " some"]]:
        """Rows that have a value, so many at once."""
        known = np.flatnonzero(~np.isnan(values))
        return [known[start : start + _ROWS_AT_ONCE] for start in range(0, len(known), _ROWS_AT_ONCE)]
