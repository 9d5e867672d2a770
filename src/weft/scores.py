# SPDX-License-Identifier: MIT
"""How good predictions are: CRPS, log density, errors, coverage and PIT, and whether one model beats another.

Row by row first (`score_rows`), then in named numbers (`summarise`), then side by side (`tidy_table`,
`paired_difference`). A row whose value is missing is counted and left out; a prediction that is missing is an error.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, final

import numpy as np
from jaxtyping import Float, Int
from scipy import special

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "COVERAGE_LEVELS",
    "MEANINGS",
    "Meaning",
    "PairedDifference",
    "PitSummary",
    "RowScores",
    "ScoresOfParts",
    "crps_from_quantiles",
    "crps_from_samples",
    "crps_from_weighted",
    "crps_gaussian",
    "log_density_gaussian",
    "paired_difference",
    "pit_gaussian",
    "score_rows",
    "summarise",
    "summarise_pit",
    "tidy_table",
]

COVERAGE_LEVELS = (0.50, 0.80, 0.90, 0.95)
_FINE_BINS = 2**16
# PIT values kept as they are: no more than twice as many numbers as there are bins.
_PITS_KEPT = 2 * _FINE_BINS
_LOG_ROOT_TWO_PI = 0.5 * np.log(2 * np.pi)
_ROWS_AT_ONCE = 65_536


@final
@dataclasses.dataclass(frozen=True)
class Meaning:
    """How a score is called, and what a good one is: "low", "high", "zero" or "level" (the coverage it names)."""

    label: str
    best: str


MEANINGS = {
    "num_rows": Meaning("rows", "high"),
    "num_missing": Meaning("rows without a value", "low"),
    "mean_crps": Meaning("mean CRPS", "low"),
    "mean_negative_log_density": Meaning("mean negative log density", "low"),
    "rmse": Meaning("root mean squared error", "low"),
    "mae": Meaning("mean absolute error", "low"),
    "bias": Meaning("bias (mean of prediction minus value)", "zero"),
    "standardised_rmse": Meaning("RMSE / deviation of the target", "low"),
    "standardised_mean_negative_log_density": Meaning("mean negative log density, standardised target", "low"),
    **{
        f"coverage_{100 * level:.0f}": Meaning(f"coverage of the {level:.0%} interval", "level")
        for level in COVERAGE_LEVELS
    },
    "pit_mean": Meaning("mean of the PIT (1/2 if unbiased)", "level"),
    "pit_dispersion": Meaning("12 x variance of the PIT (1 if calibrated)", "level"),
    "pit_max_deviation": Meaning("largest distance of the PIT from uniform", "low"),
}


@final
@dataclasses.dataclass(frozen=True)
class RowScores:
    """Scores of each row that has a value, and which rows of the table those are."""

    rows: Int[np.ndarray, " scored"]
    values: Float[np.ndarray, " scored"]
    error: Float[np.ndarray, " scored"]  # prediction minus value
    crps: Float[np.ndarray, " scored"]
    log_density: Float[np.ndarray, " scored"]
    pit: Float[np.ndarray, " scored"]
    num_missing: int


@final
@dataclasses.dataclass(frozen=True)
class PitSummary:
    """A histogram of PIT values, and how far from uniform they are.

    `dispersion` is 12 times their variance: 1 if calibrated, above if intervals are too narrow, below if too wide.
    """

    counts: Int[np.ndarray, " bin"]
    edges: Float[np.ndarray, " edge"]
    mean: float
    dispersion: float
    max_deviation: float

    @property
    def excess_in_the_middle(self) -> float:
        """The share between a quarter and three quarters, beyond the half that should be there."""
        inside = np.abs((self.edges[:-1] + self.edges[1:]) / 2 - 0.5) < 0.25
        share = float(self.counts[inside].sum() / max(self.counts.sum(), 1))
        return share - float(np.diff(self.edges)[inside].sum())

    @property
    def words(self) -> str:
        """What the shape says, for people."""
        if not np.isfinite(self.mean):
            return "no rows to judge by"
        said = []
        if abs(self.mean - 0.5) > 0.05:
            said.append("predictions are too low" if self.mean > 0.5 else "predictions are too high")
        if self.dispersion > 1.15:
            said.append("intervals are too narrow")
        elif self.dispersion < 0.85:
            said.append("intervals are too wide")
        elif abs(self.excess_in_the_middle) > 0.06:
            # Both ends and the middle full: a few values are far off, and all the others have intervals made for those.
            said.append(f"narrow intervals are too {'wide' if self.excess_in_the_middle > 0 else 'narrow'}")
        return " and ".join(said) if said else "well calibrated"


@final
@dataclasses.dataclass(frozen=True)
class PairedDifference:
    """Mean of a - b over the rows both have, and its standard error."""

    mean: float
    standard_error: float
    num_rows: int
    num_groups: int
    num_missing: int

    @property
    def ratio(self) -> float:
        """The difference in standard errors; beyond about 2 in size it is unlikely to be chance."""
        return self.mean / self.standard_error if self.standard_error > 0 else np.nan


def score_rows(
    values: Float[np.ndarray, " row"],
    mean: Float[np.ndarray, " mean_row"],
    sd: Float[np.ndarray, " sd_row"],
    *,
    crps: Float[np.ndarray, " row"] | None = None,
    log_density: Float[np.ndarray, " row"] | None = None,
    pit: Float[np.ndarray, " row"] | None = None,
) -> RowScores:
    """Scores of Gaussian predictions, or of others where their `crps`, `log_density` and `pit` are given."""
    rows = np.flatnonzero(~np.isnan(values))
    for name, prediction in (("mean", mean), ("sd", sd)):
        if len(prediction) != len(values):
            raise ValueError(f"{name} has {len(prediction)} numbers for {len(values)} values; give one each")
        missing = rows[np.isnan(prediction[rows])]
        if len(missing):
            raise ValueError(f"{name} is missing in {len(missing)} rows that have a value, first in row {missing[0]}")
    if np.any(sd[rows] < 0):
        raise ValueError(f"sd must be zero or positive; the smallest is {sd[rows].min():g}")
    num_missing = len(values) - len(rows)
    values, mean, sd = values[rows], mean[rows], sd[rows]
    return RowScores(
        rows=rows,
        values=values,
        error=mean - values,
        crps=crps_gaussian(values, mean, sd) if crps is None else crps[rows],
        log_density=log_density_gaussian(values, mean, sd) if log_density is None else log_density[rows],
        pit=pit_gaussian(values, mean, sd) if pit is None else pit[rows],
        num_missing=num_missing,
    )


def summarise(scores: RowScores, target_sd: float | int | None = None) -> dict[str, float | int]:
    """Named numbers; NaN where there are no rows.

    `target_sd` standardises: the deviation of the target where the model was fitted, or of these values if not given.
    A central interval covers a value whose PIT lies inside it.
    """
    scale = float(np.std(scores.values)) if target_sd is None and len(scores.rows) else target_sd
    return _named(_sums_of(scores), summarise_pit(scores.pit).max_deviation, scale, scores.num_missing)


@final
class ScoresOfParts:
    """Scores of rows that come part by part and are not kept: the named numbers of all of them.

    They are those of the rows together, but for the largest deviation of PIT values: of more than 131,072 rows it is known to one bin of
    65,536.
    """

    def __init__(self) -> None:
        self._sums: dict[str, float] = {}
        self._pits: list[Float[np.ndarray, " some"]] = []
        self._pit_counts: Int[np.ndarray, " bin"] | None = None
        self._num_missing = 0

    def add(self, scores: RowScores) -> None:
        self._take_in(_sums_of(scores), [scores.pit[~np.isnan(scores.pit)]], None, scores.num_missing)

    def join(self, more: "ScoresOfParts") -> None:
        """Those of further parts."""
        self._take_in(more._sums, more._pits, more._pit_counts, more._num_missing)

    def _take_in(
        self,
        sums: Mapping[str, float],
        pits: Sequence[Float[np.ndarray, " some"]],
        pit_counts: Int[np.ndarray, " bin"] | None,
        num_missing: int,
    ) -> None:
        for name, value in sums.items():
            self._sums[name] = self._sums.get(name, 0.0) + value
        self._pits += pits
        if pit_counts is not None:
            self._pit_counts = pit_counts + (0 if self._pit_counts is None else self._pit_counts)
        if self._pits and (self._pit_counts is not None or sum(map(len, self._pits)) > _PITS_KEPT):
            counts = np.histogram(np.concatenate(self._pits), bins=_FINE_BINS, range=(0.0, 1.0))[0].astype(np.int64)
            self._pit_counts = counts + (0 if self._pit_counts is None else self._pit_counts)
            self._pits = []
        self._num_missing += num_missing

    @property
    def num_rows(self) -> int:
        return int(self._sums.get("num_rows", 0))

    def summary(self, target_sd: float) -> dict[str, float | int]:
        return _named(self._sums, self._farthest(), target_sd, self._num_missing)

    def _farthest(self) -> float:
        if self._pit_counts is None:
            return summarise_pit(np.concatenate(self._pits)).max_deviation if self._pits else np.nan
        below = np.cumsum(self._pit_counts) / max(self._pit_counts.sum(), 1)
        return float(np.max(np.abs(below - np.arange(1, _FINE_BINS + 1) / _FINE_BINS)))


def _sums_of(scores: RowScores) -> dict[str, float]:
    """What adds up over rows."""
    pit = scores.pit[~np.isnan(scores.pit)]
    return {
        "num_rows": float(len(scores.rows)),
        "crps": float(np.sum(scores.crps)),
        "log_density": float(np.sum(scores.log_density)),
        "square": float(np.sum(scores.error**2)),
        "size": float(np.sum(np.abs(scores.error))),
        "error": float(np.sum(scores.error)),
        **{_covered(level): float(np.sum(np.abs(scores.pit - 0.5) <= level / 2)) for level in COVERAGE_LEVELS},
        "num_pit": float(len(pit)),
        "pit": float(np.sum(pit)),
        "pit_square": float(np.sum((pit - 0.5) ** 2)),
    }


def _covered(level: float) -> str:
    return f"coverage_{100 * level:.0f}"


def _named(
    sums: Mapping[str, float], pit_max_deviation: float, scale: float | int | None, num_missing: int
) -> dict[str, float | int]:
    num_rows = int(sums.get("num_rows", 0))
    if num_rows == 0 or scale is None:
        return dict.fromkeys(MEANINGS, np.nan) | {"num_rows": 0, "num_missing": num_missing}
    rmse = float(np.sqrt(sums["square"] / num_rows))
    negative_log_density = -sums["log_density"] / num_rows
    pit_mean = sums["pit"] / sums["num_pit"] if sums["num_pit"] else np.nan
    pit_variance = sums["pit_square"] / sums["num_pit"] - (pit_mean - 0.5) ** 2 if sums["num_pit"] else np.nan
    return {
        "num_rows": num_rows,
        "num_missing": num_missing,
        "mean_crps": sums["crps"] / num_rows,
        "mean_negative_log_density": negative_log_density,
        "rmse": rmse,
        "mae": sums["size"] / num_rows,
        "bias": sums["error"] / num_rows,
        "standardised_rmse": rmse / scale if scale > 0 else np.nan,
        # The density of y / scale is scale times that of y.
        "standardised_mean_negative_log_density": negative_log_density - float(np.log(scale)) if scale > 0 else np.nan,
        **{_covered(level): sums[_covered(level)] / num_rows for level in COVERAGE_LEVELS},
        "pit_mean": pit_mean,
        "pit_dispersion": 12 * pit_variance,
        "pit_max_deviation": pit_max_deviation,
    }


def crps_gaussian(
    values: Float[np.ndarray, " row"], mean: Float[np.ndarray, " row"], sd: Float[np.ndarray, " row"]
) -> Float[np.ndarray, " row"]:
    """Continuous ranked probability score of N(mean, sd^2), in units of the target; |value - mean| where sd is 0.

    sd (z (2 Phi(z) - 1) + 2 phi(z) - 1 / sqrt(pi)), z = (value - mean) / sd (Gneiting et al. 2005, eq. 5). Written out
    because importing scoringrules takes seconds, and most models are Gaussian.
    """
    certain = sd == 0
    scale = np.where(certain, 1.0, sd)
    z = (values - mean) / scale
    density = np.exp(-0.5 * z**2 - _LOG_ROOT_TWO_PI)
    scores = scale * (z * (2 * special.ndtr(z) - 1) + 2 * density - 1 / np.sqrt(np.pi))
    return np.where(certain, np.abs(values - mean), scores)


def crps_from_samples(
    values: Float[np.ndarray, " row"], samples: Float[np.ndarray, "row sample"]
) -> Float[np.ndarray, " row"]:
    """CRPS of the distribution that `samples` came from, unbiased in their number (by probability weighted moments)."""
    import scoringrules

    scores = np.empty(len(values))
    for start in range(0, len(values), _ROWS_AT_ONCE):
        rows = slice(start, start + _ROWS_AT_ONCE)
        scores[rows] = scoringrules.crps_ensemble(values[rows], samples[rows], estimator="pwm")
    return scores


def crps_from_quantiles(
    values: Float[np.ndarray, " row"],
    quantiles: Float[np.ndarray, "row level"],
    levels: Sequence[float] | Float[np.ndarray, " level"],
) -> Float[np.ndarray, " row"]:
    """CRPS as twice the integral of the quantile score over levels; each level stands for those nearest to it."""
    asked = np.asarray(levels, dtype=np.float64)
    if len(asked) < 1 or np.any(np.diff(asked) <= 0) or asked[0] <= 0 or asked[-1] >= 1:
        raise ValueError(f"levels must increase and lie between 0 and 1; they are {asked.tolist()}")
    edges = np.concatenate([[0.0], (asked[1:] + asked[:-1]) / 2, [1.0]])
    scores = np.zeros(len(values))
    for k, level in enumerate(asked):
        below = values - quantiles[:, k]
        scores += 2 * (edges[k + 1] - edges[k]) * np.where(below >= 0, level * below, (level - 1) * below)
    return scores


def crps_from_weighted(
    values: Float[np.ndarray, " row"], points: Float[np.ndarray, "row point"], weights: Float[np.ndarray, "row point"]
) -> Float[np.ndarray, " row"]:
    """CRPS of points with weights that sum to 1 in each row: E|X - y| - E|X - X'| / 2."""
    order = np.argsort(points, axis=1)
    x, w = np.take_along_axis(points, order, axis=1), np.take_along_axis(weights, order, axis=1)
    upto = np.cumsum(w, axis=1)
    return np.sum(w * np.abs(x - values[:, None]), axis=1) - np.sum(w * x * (2 * upto - w - 1), axis=1)


def log_density_gaussian(
    values: Float[np.ndarray, " row"], mean: Float[np.ndarray, " row"], sd: Float[np.ndarray, " row"]
) -> Float[np.ndarray, " row"]:
    """Log density of N(mean, sd^2); without deviation it is infinite, above at the mean and below elsewhere."""
    certain = sd == 0
    scale = np.where(certain, 1.0, sd)
    regular = -0.5 * ((values - mean) / scale) ** 2 - np.log(scale) - _LOG_ROOT_TWO_PI
    return np.where(certain, np.where(values == mean, np.inf, np.where(np.isnan(values), np.nan, -np.inf)), regular)


def pit_gaussian(
    values: Float[np.ndarray, " row"], mean: Float[np.ndarray, " row"], sd: Float[np.ndarray, " row"]
) -> Float[np.ndarray, " row"]:
    """Probability integral transform: the chance the prediction gave to values below this one."""
    certain = sd == 0
    standardised = special.ndtr((values - mean) / np.where(certain, 1.0, sd))
    return np.where(certain, (1 + np.sign(values - mean)) / 2, standardised)


def summarise_pit(pit: Float[np.ndarray, " row"], num_bins: int = 20) -> PitSummary:
    """The histogram of PIT values and its distances from uniform (the largest is Kolmogorov's)."""
    present = np.sort(pit[~np.isnan(pit)])
    counts, edges = np.histogram(present, bins=num_bins, range=(0.0, 1.0))
    if len(present) == 0:
        return PitSummary(counts, edges, np.nan, np.nan, np.nan)
    steps = np.arange(len(present) + 1) / len(present)
    farthest = max(np.max(steps[1:] - present), np.max(present - steps[:-1]))
    return PitSummary(counts, edges, float(present.mean()), 12 * float(present.var()), float(farthest))


def tidy_table(summaries: Mapping[str, Mapping[str, float | int]], **columns: object) -> "pd.DataFrame":
    """One row a model and score: `model`, `score`, `value`, after any constant `columns` (fold="all", ...)."""
    import pandas as pd

    rows = [
        {**columns, "model": model, "score": score, "value": float(value)}
        for model, summary in summaries.items()
        for score, value in summary.items()
    ]
    return pd.DataFrame(rows, columns=[*columns, "model", "score", "value"])


def paired_difference(
    scores_a: Float[np.ndarray, " row"],
    scores_b: Float[np.ndarray, " row_b"],
    groups: np.ndarray | tuple[np.ndarray, np.ndarray] | None = None,
) -> PairedDifference:
    """Mean of a - b and its standard error, over rows where neither is NaN.

    Rows of one day, or of one station, err together; `groups` (one label a row) lets them, by the cluster-robust
    variance G / (G - 1) sum_g (sum of deviations in g)^2 / n^2. A pair of labelings, days and stations, lets both
    (Cameron, Gelbach & Miller 2011: the two variances less that of their intersection).
    """
    if len(scores_a) != len(scores_b):
        raise ValueError(f"scores must be of the same rows; there are {len(scores_a)} and {len(scores_b)}")
    present = ~(np.isnan(scores_a) | np.isnan(scores_b))
    difference = (scores_a - scores_b)[present]
    num_missing = int(np.count_nonzero(~present))
    if len(difference) == 0:
        return PairedDifference(np.nan, np.nan, 0, 0, num_missing)
    labelings = [np.asarray(labels)[present] for labels in _labelings(groups, len(scores_a))]
    deviations = difference - difference.mean()
    variances = [_clustered_variance(deviations, [labels]) for labels in labelings]
    num_groups = min(count for _, count in variances)
    variance = sum(value for value, _ in variances)
    if len(labelings) == 2:
        # The difference may come out negative in small samples; the larger one-way variance is then the safe answer.
        both = variance - _clustered_variance(deviations, labelings)[0]
        variance = max(both, *(value for value, _ in variances))
    return PairedDifference(
        float(difference.mean()), float(np.sqrt(variance)), len(difference), num_groups, num_missing
    )


def _labelings(groups: np.ndarray | tuple[np.ndarray, np.ndarray] | None, num_rows: int) -> list[np.ndarray]:
    if groups is None:
        return [np.arange(num_rows)]
    labelings = [np.asarray(labels) for labels in groups] if isinstance(groups, tuple) else [np.asarray(groups)]
    if len(labelings) > 2 or any(len(labels) != num_rows for labels in labelings):
        raise ValueError(f"groups must be one label a row for {num_rows} rows, or a pair of such labelings")
    return labelings


def _clustered_variance(deviations: Float[np.ndarray, " row"], labelings: Sequence[np.ndarray]) -> tuple[float, int]:
    """Variance of the mean with rows of a group allowed to err together, and how many groups there are."""
    from weft.data.tables import distinct_rows

    _, group = distinct_rows(labelings)
    sums = np.bincount(group, weights=deviations)
    if len(sums) < 2:
        return np.nan, len(sums)
    return float(len(sums) / (len(sums) - 1) * np.sum(sums**2) / len(deviations) ** 2), len(sums)
