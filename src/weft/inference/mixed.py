# SPDX-License-Identifier: MIT
"""Predictions of rows that may be meant in several ways: a mixture, one part a way.

A station never seen may date its days as most do, or a day later. What it will report is then not spread evenly between two
days' values but is one of them; the Gaussian of the same mean and deviation scored 2 % worse on daily temperatures.
"""

from collections.abc import Sequence
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float, Int
from scipy import special

from weft.data.scaling import TargetScaling
from weft.data.transforms import check_levels
from weft.inference.prediction import IDENTITY, Continuous, Distribution, Emission, Marginals, PerRow
from weft.scores import RowScores, crps_from_weighted, score_rows

__all__ = ["MixedEmission", "Way", "mixed_marginals"]

# Points of each part that stand for it in a score: the middles of so many equally likely pieces.
_LEVELS = (np.arange(100) + 0.5) / 100
_ROWS_AT_ONCE = 8_192
# Of the width of an interval that holds a quantile: to so much it is known.
_PART_OF_WIDTH = 2.0**-40


class Way(NamedTuple):
    """One way in which rows may be meant: how likely it is for each, and f there."""

    probability: Float[np.ndarray, " query"]
    latent: Marginals


def mixed_marginals(ways: Sequence[Way]) -> Marginals:
    """Mean and variance of f over all ways."""
    probability = np.stack([way.probability for way in ways])
    mean, variance = np.stack([way.latent for way in ways], axis=1)
    overall = np.sum(probability * mean, axis=0)
    return Marginals(overall, np.sum(probability * (variance + (mean - overall) ** 2), axis=0))


@final
class MixedEmission(Emission):
    """Another emission, of rows that may be meant in several ways; each way's f is Gaussian."""

    def __init__(self, inner: Emission, ways: Sequence[Way]):
        self.inner = inner
        self.ways = tuple(ways)

    @property
    def is_centred(self) -> bool:
        return self.inner.is_centred

    def observed(self, latent: Marginals) -> Distribution:
        """`latent`, the mean and variance over all ways, is what the ways add up to."""
        parts = [self.inner.observed(way.latent) for way in self.ways]
        return Mixed([way.probability for way in self.ways], [_continuous(part) for part in parts])

    def expected(self, f: Float[np.ndarray, "*draw row"]) -> Float[np.ndarray, "*draw row"]:
        return self.inner.expected(f)

    def sample(
        self, generator: np.random.Generator, f: Float[np.ndarray, "*draw row"]
    ) -> Float[np.ndarray, "*draw row"]:
        return self.inner.sample(generator, f)


def _continuous(part: Distribution) -> Continuous:
    assert isinstance(part, Continuous)
    return part


@final
class Mixed(Distribution):
    """One of several continuous distributions at each row, with these probabilities."""

    def __init__(self, probability: Sequence[PerRow], parts: Sequence[Continuous]):
        self.probability = np.stack(probability)
        self.parts = tuple(parts)

    def moments(self, target: TargetScaling) -> tuple[PerRow, PerRow]:
        mean, sd = np.stack([part.moments(target) for part in self.parts], axis=1)
        overall = np.sum(self.probability * mean, axis=0)
        return overall, np.sqrt(np.sum(self.probability * (sd**2 + (mean - overall) ** 2), axis=0))

    def quantiles(
        self, levels: Sequence[float] | Float[np.ndarray, " level"], target: TargetScaling
    ) -> Float[np.ndarray, "row level"]:
        asked = check_levels(levels)
        each = np.stack([part.quantiles(asked, IDENTITY) for part in self.parts])
        likely = np.broadcast_to((self.probability > 0)[:, :, None], each.shape)
        low = np.min(np.where(likely, each, np.inf), axis=0)
        high = np.max(np.where(likely, each, -np.inf), axis=0)
        # A mixture's quantile lies between those of its parts; of a row that is meant in one way only they are all alike.
        row, level = np.nonzero(high > low)
        if len(row):
            found = self._crossing(low[row, level], high[row, level], row, asked[level])
            low[row, level] = high[row, level] = found
        return target.inverse((low + high) / 2)

    def log_density(self, values: PerRow, target: TargetScaling) -> PerRow:
        each = np.stack([part.log_density(values, target) for part in self.parts])
        return np.asarray(special.logsumexp(each, axis=0, b=self.probability))

    def score(self, values: PerRow, target: TargetScaling, seed: int) -> RowScores:
        mean, sd = self.moments(target)
        pit = np.sum(self.probability * [part.pit(values, target, seed) for part in self.parts], axis=0)
        return score_rows(
            values, mean, sd, crps=self._crps(values, target), log_density=self.log_density(values, target), pit=pit
        )

    def _crps(self, values: PerRow, target: TargetScaling) -> PerRow:
        crps = np.empty(len(values))
        for start in range(0, len(values), _ROWS_AT_ONCE):
            rows = np.arange(start, min(start + _ROWS_AT_ONCE, len(values)))
            points = np.concatenate([part.at(rows).quantiles(_LEVELS, target) for part in self.parts], axis=1)
            weights = np.repeat(self.probability[:, rows].T / len(_LEVELS), len(_LEVELS), axis=1)
            crps[rows] = crps_from_weighted(values[rows], points, weights)
        return crps

    def _crossing(
        self,
        low: Float[np.ndarray, " pair"],
        high: Float[np.ndarray, " pair"],
        row: Int[np.ndarray, " pair"],
        level: Float[np.ndarray, " pair"],
    ) -> Float[np.ndarray, " pair"]:
        """Where between two numbers the probability of less, is this level: by nine looks or so, where halving takes forty."""
        # Whoever asks for no such quantile waits for no optimiser.
        from scipy.optimize import elementwise

        def beyond(part: Float[np.ndarray, " some"], which: Int[np.ndarray, " some"]) -> Float[np.ndarray, " some"]:
            return self._cdf(low[which] + part * (high - low)[which], row[which]) - level[which]

        ends = (np.zeros(len(low)), np.ones(len(low)))
        found = elementwise.find_root(
            beyond, ends, args=(np.arange(len(low)),), tolerances={"xatol": _PART_OF_WIDTH, "xrtol": 0.0}
        )
        # Where rounding puts the level beyond an end, it is that end.
        nearer = np.where(np.abs(found.f_bracket[0]) < np.abs(found.f_bracket[1]), *found.bracket)
        return low + np.where(found.success, found.x, nearer) * (high - low)

    def _cdf(self, f: Float[np.ndarray, " some"], rows: Int[np.ndarray, " some"]) -> Float[np.ndarray, " some"]:
        each = np.stack([part.at(rows).cdf(f[:, None])[:, 0] for part in self.parts])
        return np.sum(self.probability[:, rows] * each, axis=0)
