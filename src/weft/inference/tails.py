# SPDX-License-Identifier: MIT
"""Tails: how often a prediction is off by more, or less, than a Gaussian would have it, learned from rows left out.

Days differ within a station as stations do among themselves, so what is seen at a row is a mixture of Gaussians; a
scaled Student-t takes its place at the price of predicting some rows without themselves. On daily temperatures 59 % of
left-out values lay in the 50 % interval of the Gaussian and 52 % in that of the t (5.8 degrees of freedom, scale 0.79).
"""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float, Int
from scipy import special

from weft.data.scaling import TargetScaling
from weft.data.transforms import check_levels, log_density_by
from weft.inference.prediction import (
    IDENTITY,
    Continuous,
    Distribution,
    Emission,
    Marginals,
    PerRow,
    crps_by_quantiles,
)
from weft.scores import RowScores, score_rows

__all__ = ["HeavyTailed", "LearnedTails", "LeftOutWays", "ScaledT", "Tails", "count_numbers", "learn_tails"]

# More degrees of freedom than this are a Gaussian; fewer than this have no variance worth the name.
MOST_FREEDOM = 200.0
_LEAST_FREEDOM = 2.2
# Rows below which nothing is said about tails.
_FEWEST_ROWS = 50
# Prior knowledge, in rows: degrees of freedom as of a Gaussian's, a scale of 1.
_PRIOR_ROWS = 20.0
# And in groups of rows that go together: that each is worth one number, its own level.
_PRIOR_GROUPS = 8.0
_FEWEST_NUMBERS = 3.0
# What such rows have to gain before a small table answers otherwise than its model: at 39 of them, drawn from four real sets, this took
# 0.38 off the mean negative log density at places left out, and Schwarz's criterion 0.15.
_NATS_OF_GROUPS = 1.0
# Of the deviations of the rows that tails were learned from.
_REACH = 0.95


@final
@dataclasses.dataclass(frozen=True)
class Tails:
    """A prediction's error by its deviation is `scale` times a Student-t of so many degrees of freedom.

    Learned from rows whose predictions had deviations up to `reach`. Beyond, in a gap or far ahead, the field is what is not known,
    and nothing was seen of its tails: they pass into a Gaussian's as the variance grows.
    """

    freedom: float = MOST_FREEDOM
    scale: float = 1.0
    reach: float = 1.0

    @property
    def deviation(self) -> float:
        """The deviation of an error by that predicted."""
        return self.scale * float(np.sqrt(self.freedom / (self.freedom - 2)))

    def for_one_more(self, count: float) -> "Tails":
        """The same for one more number than the `count` they were learned from.

        Of normal numbers with unknown mean and variance the next is a t with count - 1 degrees of freedom, wider than their deviation by
        sqrt((count + 1) / (count - 1)) (e.g. Geisser 1993); what freedom there is besides adds up as variances of log scales do.
        """
        freedom = 1 / (1 / self.freedom + 1 / (count - 1))
        wider = float(np.sqrt((count + 1) / (count - 1)))
        return dataclasses.replace(self, freedom=max(freedom, _LEAST_FREEDOM), scale=wider * self.scale)


class LeftOutWays(NamedTuple):
    """Rows predicted without themselves, in each way they may be meant: errors, deviations, and how likely each way is."""

    error: Float[np.ndarray, "way row"]
    sd: Float[np.ndarray, "way row"]
    probability: Float[np.ndarray, "way row"]


class LearnedTails(NamedTuple):
    """Tails, and by how many nats the density of the rows that they were learned from is above that of the standard Gaussian."""

    tails: Tails
    gain: float = 0.0
    num_rows: int = 0

    def is_clear(self) -> bool:
        """Whether two numbers more are worth their while (the criterion of Schwarz 1978)."""
        return self.num_rows > 0 and self.gain > float(np.log(self.num_rows))

    def is_clear_of_groups(self, count: float) -> bool:
        """The same of rows that go together in groups and are worth `count` independent ones: few, so that a nat is much."""
        return self.gain * min(count / max(self.num_rows, 1), 1.0) > _NATS_OF_GROUPS


def learn_tails(left: LeftOutWays) -> LearnedTails:
    """From rows predicted without themselves: the likeliest t, held weakly to the standard Gaussian."""
    # Whoever only predicts waits for no optimiser.
    from scipy.optimize import minimize

    known = np.all(np.isfinite(left.error), axis=0)
    error, sd, probability = left.error[:, known], left.sd[:, known], left.probability[:, known]
    if error.shape[1] < _FEWEST_ROWS:
        return LearnedTails(Tails())
    with np.errstate(divide="ignore"):
        constant = np.log(probability) - np.log(sd)

    def loss(point: np.ndarray) -> float:
        freedom, scale = _LEAST_FREEDOM + np.exp(point[0]), np.exp(point[1])
        each = _log_density_t(error / (scale * sd), freedom) - np.log(scale) + constant
        density = each[0] if len(each) == 1 else np.logaddexp.reduce(each, axis=0)
        return -float(np.sum(density)) + 0.5 * _PRIOR_ROWS * (point[1] ** 2 + (1 / freedom) ** 2)

    found = minimize(loss, np.array([np.log(8.0), 0.0]), method="Nelder-Mead", options={"xatol": 1e-3, "fatol": 1e-3})
    freedom = float(min(_LEAST_FREEDOM + np.exp(found.x[0]), MOST_FREEDOM))
    tails = Tails(freedom, float(np.exp(found.x[1])), float(np.quantile(sd, _REACH)))
    standard = np.array([np.log(MOST_FREEDOM - _LEAST_FREEDOM), 0.0])
    return LearnedTails(tails, float(loss(standard) - found.fun), error.shape[1])


def count_numbers(left: LeftOutWays, tails: Tails, group: Int[np.ndarray, " row"]) -> float:
    """As of how many independent normal numbers the scale of `tails` is known from these rows, of which those of a group go together.

    The variance of the logarithm of the scale is that of the groups' slopes by the square of the curvature (the sandwich of Huber 1967),
    where n normal numbers leave 1 / 2n. Places that differ in level alone are a number each; where weather comes and goes at each of
    them they are many. A few groups may look alike by chance, so some more come to them that are worth a number each.
    """
    known = np.all(np.isfinite(left.error), axis=0)
    error, sd, probability, group = left.error[:, known], left.sd[:, known], left.probability[:, known], group[known]
    z = error / (tails.scale * sd)
    with np.errstate(divide="ignore"):
        density = np.log(probability) - np.log(sd) + _log_density_t(z, tails.freedom)
    slope = (tails.freedom + 1) * z**2 / (tails.freedom + z**2) - 1
    slope = np.sum(special.softmax(density, axis=0) * slope, axis=0)
    _, number = np.unique(group, return_inverse=True)
    of_group = np.bincount(number, slope)
    count = len(of_group)
    curvature = len(slope) * 2 * tails.freedom / (tails.freedom + 3)
    variance = float(np.sum(of_group**2)) / curvature**2 * count / max(count - 1, 1)
    shrunk = (count * variance + _PRIOR_GROUPS / (2 * count)) / (count + _PRIOR_GROUPS)
    return max(1 / (2 * shrunk), _FEWEST_NUMBERS)


@final
class HeavyTailed(Emission):
    """Another emission whose Gaussian predictions have tails of their own, one kind a row."""

    def __init__(self, inner: Emission, freedom: PerRow, scale: PerRow, reach: PerRow):
        self.inner = inner
        self.freedom = freedom
        self.scale = scale
        self.reach = reach

    @property
    def is_centred(self) -> bool:
        return self.inner.is_centred

    def observed(self, latent: Marginals) -> Distribution:
        mean, sd = self.inner.observed(latent).moments(IDENTITY)
        within = np.minimum(1.0, (self.reach / sd) ** 2)
        freedom = np.minimum(self.freedom / within, MOST_FREEDOM)
        return ScaledT(mean, (1 + within * (self.scale - 1)) * sd, freedom)

    def expected(self, f: Float[np.ndarray, "*draw row"]) -> Float[np.ndarray, "*draw row"]:
        return self.inner.expected(f)

    def sample(
        self, generator: np.random.Generator, f: Float[np.ndarray, "*draw row"]
    ) -> Float[np.ndarray, "*draw row"]:
        """The noise has the tails: a Gaussian by the root of a chi-square is a t."""
        noise = self.scale * (self.inner.sample(generator, f) - f)
        return f + noise * np.sqrt(self.freedom / generator.chisquare(self.freedom, size=f.shape))


@final
class ScaledT(Continuous):
    """A scaled Student-t before the target's transform; its quantiles come back exactly.

    Moments of a transformed target are those of the Gaussian of the same deviation: of e^t there are none.
    """

    def __init__(self, mean: PerRow, scale: PerRow, freedom: PerRow):
        self.mean = mean
        self.scale = scale
        self.freedom = freedom

    def moments(self, target: TargetScaling) -> tuple[PerRow, PerRow]:
        return target.moments(self.mean, self.scale * np.sqrt(self.freedom / (self.freedom - 2)))

    def quantiles(
        self, levels: Sequence[float] | Float[np.ndarray, " level"], target: TargetScaling
    ) -> Float[np.ndarray, "row level"]:
        asked = check_levels(levels)
        # Many rows share a freedom, and a quantile of t takes long.
        freedom, number = np.unique(self.freedom, return_inverse=True)
        standard = special.stdtrit(freedom[:, None], asked)[number]
        return target.inverse(self.mean[:, None] + self.scale[:, None] * standard)

    def log_density(self, values: PerRow, target: TargetScaling) -> PerRow:
        def standardised(rows: np.ndarray) -> Float[np.ndarray, " some"]:
            return (target.forward(values[rows]) - self.mean[rows]) / self.scale[rows]

        return log_density_by(
            target.transform,
            values,
            lambda rows: (
                _log_density_t(standardised(rows), self.freedom[rows]) - np.log(self.scale[rows] * target.scale)
            ),
            lambda rows: np.log(special.stdtr(self.freedom[rows], standardised(rows))),
        )

    def score(self, values: PerRow, target: TargetScaling, seed: int) -> RowScores:
        mean, sd = self.moments(target)
        pit = self.pit(values, target, seed)
        return score_rows(
            values, mean, sd, crps=self._crps(values, target), log_density=self.log_density(values, target), pit=pit
        )

    def at(self, rows: Int[np.ndarray, " some"]) -> "ScaledT":
        return ScaledT(self.mean[rows], self.scale[rows], self.freedom[rows])

    def cdf(self, f: Float[np.ndarray, "row level"]) -> Float[np.ndarray, "row level"]:
        return special.stdtr(self.freedom[:, None], (f - self.mean[:, None]) / self.scale[:, None])

    def _crps(self, values: PerRow, target: TargetScaling) -> PerRow:
        if target.transform.name == "identity":
            centre, scale = target.inverse(self.mean), self.scale * target.scale
            return scale * _crps_t((values - centre) / scale, self.freedom)
        return crps_by_quantiles(self, values, target)


def _log_density_t(z: Float[np.ndarray, "..."], freedom: PerRow | float) -> Float[np.ndarray, "..."]:
    """Of a standard t. Written out: `scipy.stats` takes a third of a second to import, and longer than this to check arguments."""
    constant = np.log(special.poch(freedom / 2, 0.5)) - 0.5 * np.log(np.pi * freedom)
    return constant - (freedom + 1) / 2 * np.log1p(z**2 / freedom)


def _crps_t(z: PerRow, freedom: PerRow) -> PerRow:
    """Of a standard t: z (2 F(z) - 1) + 2 f(z) (n + z^2) / (n - 1) - 2 sqrt(n) B(1/2, n - 1/2) / ((n - 1) B(1/2, n/2)^2).

    (Jordan, Krueger & Lerch 2019, appendix A.)
    """
    density = np.exp(_log_density_t(z, freedom))
    logarithm = special.betaln(0.5, freedom - 0.5) - 2 * special.betaln(0.5, freedom / 2)
    constant = 2 * np.sqrt(freedom) / (freedom - 1) * np.exp(logarithm)
    spread = 2 * density * (freedom + z**2) / (freedom - 1)
    return z * (2 * special.stdtr(freedom, z) - 1) + spread - constant
