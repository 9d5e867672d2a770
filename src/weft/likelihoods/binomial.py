# SPDX-License-Identifier: MIT
"""Successes among a known number of trials."""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import scipy.special
from jax.scipy.special import gammaln
from jaxtyping import Float, Int

from weft.arrays import AnyArray
from weft.likelihoods.base import Likelihood, check_extras, check_support, refuse
from weft.likelihoods.links import (
    check_link,
    expected_log_probability,
    inverse,
    log_probability,
    probability,
    probability_moments,
)
from weft.likelihoods.mixture import invert_counts, mixed
from weft.likelihoods.rows import NO_EXTRAS, PerRow, Probability, RowExtras, Support


class Binomial(Likelihood):
    """How many of the row's trials succeed, each with probability 1 / (1 + e^-f) ("logit") or Phi(f) ("probit")."""

    support: ClassVar[Support] = Support.COUNTS
    uses: ClassVar[tuple[str, ...]] = ("trials",)
    link: str = eqx.field(default="logit", static=True)

    def __check_init__(self) -> None:
        check_link(self.link)

    def log_density(self, values: PerRow, f: PerRow, extra: RowExtras = NO_EXTRAS) -> PerRow:
        failures = extra.trials_of(values) - values
        log_success, log_failure = log_probability(self.link, f), log_probability(self.link, -f)
        return log_choose(values, failures) + values * log_success + failures * log_failure

    def expected_log_density(
        self, values: PerRow, mean: PerRow, variance: PerRow, extra: RowExtras = NO_EXTRAS
    ) -> PerRow:
        failures = extra.trials_of(values) - values
        log_failure = expected_log_probability(self.link, -mean, variance)
        # Of the logit, log success - log failure is f itself.
        log_success = mean + log_failure if self.link == "logit" else expected_log_probability("probit", mean, variance)
        return log_choose(values, failures) + values * log_success + failures * log_failure

    def predict(self, mean: PerRow, variance: PerRow, extra: RowExtras = NO_EXTRAS) -> tuple[PerRow, PerRow]:
        trials = extra.trials_of(mean)
        success, spread = probability_moments(self.link, mean, variance)
        return trials * success, trials * (success * (1 - success) + (trials - 1) * spread)

    def quantile(
        self, probability: Probability, mean: PerRow, variance: PerRow, extra: RowExtras = NO_EXTRAS
    ) -> Float[np.ndarray, " row"]:
        trials = np.asarray(extra.trials_of(mean))

        def cumulative(values: np.ndarray, f: np.ndarray, rows: np.ndarray) -> np.ndarray:
            return cumulative_binomial(self.link, values, f, trials[rows])

        def bend(values: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            fraction = (values + 0.5) / (trials[rows] + 1)
            centre, slope = inverse(self.link, fraction, np)
            return np.asarray(centre), slope * np.sqrt(fraction * (1 - fraction) / (trials[rows] + 1))

        return invert_counts(mixed(cumulative, bend, mean, variance), probability, trials, largest=trials)

    def sample(
        self, seed: int | np.random.Generator, f: Float[AnyArray, "*sample row"], extra: RowExtras = NO_EXTRAS
    ) -> Float[np.ndarray, "*sample row"]:
        trials = np.asarray(extra.trials_of(f)).astype(np.int64)
        return np.random.default_rng(seed).binomial(trials, probability(self.link, f)).astype(np.float64)

    def check(self, values: PerRow, extra: RowExtras = NO_EXTRAS, rows: Int[AnyArray, " row"] | None = None) -> None:
        check_extras(self, values, extra, rows)
        check_support(self, values, rows)
        given = np.asarray(values)
        too_many = given > np.asarray(extra.trials_of(given))
        refuse(self, "values must not exceed the row's trials (1 where none are given)", given, too_many, rows)

    def initial(self, values: PerRow, extra: RowExtras = NO_EXTRAS) -> tuple[PerRow, PerRow]:
        trials = extra.trials_of(values)
        fraction = (values + 0.5) / (trials + 1)
        mean, slope = inverse(self.link, fraction, jnp)
        return mean, (trials + 1) / (slope**2 * fraction * (1 - fraction))


def log_choose(successes: PerRow, failures: PerRow) -> PerRow:
    return gammaln(successes + failures + 1) - gammaln(successes + 1) - gammaln(failures + 1)


def cumulative_binomial(link: str, values: np.ndarray, f: np.ndarray, trials: np.ndarray) -> np.ndarray:
    """The probability of at most `values` successes."""
    unfinished = values < trials
    left = np.where(unfinished, trials - values, 1.0)
    return np.where(unfinished, scipy.special.betainc(left, values + 1, probability(link, -f)), 1.0)
