# SPDX-License-Identifier: MIT
"""The distribution of a target at rows, in the target's own units: of an observation, or of the field behind it."""

import abc
from collections.abc import Sequence
from typing import final

import numpy as np
from jaxtyping import Float
from scipy import special

from weft.data.scaling import TargetScaling
from weft.estimator.defaults import is_standardised
from weft.inference.prediction import Marginals
from weft.likelihoods import Gaussian, Likelihood, RowExtras
from weft.scores import RowScores, crps_from_quantiles, crps_from_samples, score_rows

__all__ = ["Predictive", "make_predictive"]

# CRPS without a closed form is an integral over this many quantiles, or a mean over this many draws.
_LEVELS = (np.arange(200) + 0.5) / 200
_DRAWS = 400
_ROWS_AT_ONCE = 16_384
_NODES, _NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(32)
_NODE_WEIGHTS = _NODE_WEIGHTS / _NODE_WEIGHTS.sum()


class Predictive(abc.ABC):
    """What is predicted for each row."""

    @abc.abstractmethod
    def observation(self) -> tuple[Float[np.ndarray, " row"], Float[np.ndarray, " row"]]:
        """Mean and deviation of an observation, noise included."""

    @abc.abstractmethod
    def field(self) -> tuple[Float[np.ndarray, " row"], Float[np.ndarray, " row"]]:
        """Mean and deviation of the field: what an observation would be without noise, or its expectation."""

    @abc.abstractmethod
    def quantiles(self, levels: Sequence[float], of: str) -> Float[np.ndarray, "row level"]: ...

    @abc.abstractmethod
    def score(self, values: Float[np.ndarray, " row"], seed: int) -> RowScores:
        """Scores of observations; draws behind them, where any are needed, come from `seed`."""


def make_predictive(likelihood: Likelihood, latent: Marginals, extra: RowExtras, target: TargetScaling) -> Predictive:
    if isinstance(likelihood, Gaussian):
        noise = np.broadcast_to(np.asarray(likelihood.noise_variance(extra.noise_variance)), latent.mean.shape)
        return GaussianPredictive(latent, noise, target)
    return MixedPredictive(likelihood, latent, extra, target)


@final
class GaussianPredictive(Predictive):
    """A Gaussian in the standardised, transformed target; quantiles come back exactly."""

    def __init__(self, latent: Marginals, noise: Float[np.ndarray, " row"], target: TargetScaling):
        self.mean = latent.mean
        self.latent_sd = np.sqrt(np.maximum(latent.variance, 0.0))
        self.sd = np.sqrt(np.maximum(latent.variance, 0.0) + noise)
        self.target = target

    def observation(self) -> tuple[Float[np.ndarray, " row"], Float[np.ndarray, " row"]]:
        return self.target.moments(self.mean, self.sd)

    def field(self) -> tuple[Float[np.ndarray, " row"], Float[np.ndarray, " row"]]:
        return self.target.moments(self.mean, self.latent_sd)

    def quantiles(self, levels: Sequence[float], of: str) -> Float[np.ndarray, "row level"]:
        return self.target.quantiles(self.mean, self.sd if of == "observation" else self.latent_sd, levels)

    def score(self, values: Float[np.ndarray, " row"], seed: int) -> RowScores:
        mean, sd = self.observation()
        if self.target.transform.name == "identity":
            return score_rows(values, mean, sd)
        crps = np.empty(len(values))
        for start in range(0, len(values), _ROWS_AT_ONCE):
            rows = slice(start, start + _ROWS_AT_ONCE)
            quantiles = self.target.quantiles(self.mean[rows], self.sd[rows], _LEVELS)
            crps[rows] = crps_from_quantiles(values[rows], quantiles, _LEVELS)
        return score_rows(
            values,
            mean,
            sd,
            crps=crps,
            log_density=self.target.log_density(values, self.mean, self.sd),
            pit=self._pit(values, seed),
        )

    def _pit(self, values: Float[np.ndarray, " row"], seed: int) -> Float[np.ndarray, " row"]:
        pit = special.ndtr((self.target.forward(values, "the target") - self.mean) / self.sd)
        lowest = self.target.transform.lowest()
        if lowest is None:
            return pit
        # A value with a probability of its own has any PIT up to it: draw one, so that calibrated rows stay uniform.
        return np.where(values == lowest, pit * np.random.default_rng(seed).random(len(values)), pit)


@final
class MixedPredictive(Predictive):
    """Any likelihood over a Gaussian f: moments and quantiles by the likelihood, scores by quadrature and draws."""

    def __init__(self, likelihood: Likelihood, latent: Marginals, extra: RowExtras, target: TargetScaling):
        self.likelihood = likelihood
        self.mean = latent.mean
        self.variance = np.maximum(latent.variance, 0.0)
        self.extra = extra
        self.target = target

    def observation(self) -> tuple[Float[np.ndarray, " row"], Float[np.ndarray, " row"]]:
        mean, variance = (np.asarray(each) for each in self.likelihood.predict(self.mean, self.variance, self.extra))
        return self._unscaled(mean), np.sqrt(variance) * self.target.scale

    def field(self) -> tuple[Float[np.ndarray, " row"], Float[np.ndarray, " row"]]:
        deviation = np.sqrt(self.variance)
        # The deviation of e^f of a vague f is beyond quadrature, but nobody reads it there; the mean is exact.
        nodes = np.stack([self._expected(self.mean + deviation * node) for node in _NODES])
        middle = _NODE_WEIGHTS @ nodes
        spread = np.sqrt(_NODE_WEIGHTS @ (nodes - middle) ** 2)
        return self._unscaled(middle), spread * self.target.scale

    def quantiles(self, levels: Sequence[float], of: str) -> Float[np.ndarray, "row level"]:
        if of == "field":
            # What is expected grows with f, so its quantiles are those of f.
            deviation = np.sqrt(self.variance)
            columns = [self._expected(self.mean + deviation * special.ndtri(level)) for level in levels]
        else:
            columns = [
                np.asarray(self.likelihood.quantile(float(level), self.mean, self.variance, self.extra))
                for level in levels
            ]
        return self._unscaled(np.stack(columns, axis=1)) if columns else np.empty((len(self.mean), 0))

    def score(self, values: Float[np.ndarray, " row"], seed: int) -> RowScores:
        rng = np.random.default_rng(seed)
        mean, sd = self.observation()
        crps, pit, log_density = (np.full(len(values), np.nan) for _ in range(3))
        known = np.flatnonzero(~np.isnan(values))
        for start in range(0, len(known), _ROWS_AT_ONCE):
            rows = known[start : start + _ROWS_AT_ONCE]
            extra = _take(self.extra, rows)
            deviation = np.sqrt(self.variance[rows])
            f = self.mean[rows] + deviation * rng.standard_normal((_DRAWS, len(rows)))
            draws = self._unscaled(np.asarray(self.likelihood.sample(rng, f, extra))).T
            crps[rows] = crps_from_samples(values[rows], draws)
            below = np.mean(draws < values[rows, None], axis=1)
            equal = np.mean(draws == values[rows, None], axis=1)
            pit[rows] = below + equal * rng.random(len(rows))
            log_density[rows] = self._log_density(values[rows], rows, extra)
        return score_rows(values, mean, sd, crps=crps, log_density=log_density, pit=pit)

    def _unscaled(self, standardised: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        return standardised * self.target.scale + self.target.centre

    def _expected(self, f: Float[np.ndarray, " row"]) -> Float[np.ndarray, " row"]:
        """What an observation is expected to be where f is known."""
        if is_standardised(self.likelihood):
            return f
        return np.asarray(self.likelihood.predict(f, np.zeros_like(f), self.extra)[0])

    def _log_density(
        self, values: Float[np.ndarray, " some"], rows: np.ndarray, extra: RowExtras
    ) -> Float[np.ndarray, " some"]:
        """Log E p(value | f), by a trapezoid rule over points spread by f's deviation and, where p is narrow, by p's."""
        standardised = (values - self.target.centre) / self.target.scale
        mean, deviation = self.mean[rows], np.sqrt(self.variance[rows] + 1e-12)

        def joint(f: np.ndarray) -> np.ndarray:
            prior = -0.5 * ((f - mean) / deviation) ** 2 - np.log(deviation) - 0.5 * np.log(2 * np.pi)
            return np.asarray(self.likelihood.log_density(standardised, f, extra)) + prior

        wide = np.linspace(-8.0, 8.0, 65)
        peak, width = mean, deviation
        # Each turn looks at 65 points and moves to the best of them, eight times closer.
        for _ in range(6):
            f = peak + width * wide[:, None]
            heights = np.stack([joint(each) for each in f])
            best = np.argmax(heights, axis=0)
            peak = np.take_along_axis(f, best[None], axis=0)[0]
            # Narrow only as long as the peak is narrower than the points are apart.
            second = np.sort(heights, axis=0)[-3]
            width = np.where(heights.max(axis=0) - second > 0.5, width / 8, width)
        points = np.sort(np.concatenate([mean + deviation * wide[:, None], peak + width * wide[:, None]]), axis=0)
        heights = np.stack([joint(each) for each in points])
        highest = heights.max(axis=0)
        area = np.trapezoid(np.exp(heights - highest), points, axis=0)
        return highest + np.log(area) - np.log(self.target.scale)


def _take(extra: RowExtras, rows: np.ndarray) -> RowExtras:
    def chosen(column: object) -> np.ndarray | None:
        return None if column is None else np.asarray(column)[rows]

    return RowExtras(chosen(extra.exposure), chosen(extra.trials), chosen(extra.noise_variance))
