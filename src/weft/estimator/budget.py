# SPDX-License-Identifier: MIT
"""How much work a model is worth when nobody says: pseudo-points, times to learn from, folds to predict.

Work is counted, not timed, so that the same table gives the same model on every machine. It is roughly in floating-point
operations of one pass over the series (a filter and its way back); a core does one to two times 1e10 of them a second.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from weft.data.observations import Observations
from weft.engines.base import filter_flops
from weft.likelihoods import Gaussian
from weft.model import Model
from weft.training.estimate import shape_of

__all__ = [
    "EVALUATION_WORK",
    "LEARNING_WORK",
    "PASS_WORK",
    "ROWS_ENOUGH",
    "ROWS_SCORED",
    "Stretches",
    "choose_stretches",
    "num_folds_within",
    "work_of",
]

# A pass over the whole series, which conditioning, a prediction and each held-out fold take: about a minute on a core.
PASS_WORK = 6.5e11
# An evaluation while learning, of which there are some tens: five to ten seconds on a core.
LEARNING_WORK = 5e10
# All held-out folds of one kind together.
EVALUATION_WORK = 7e11
# Hidden rows whose scores are told where nobody asks for all: a mean of so many is known to a few parts in a thousand.
ROWS_SCORED = 200_000
# Rows hidden at random of which a fold more would not change the third digit of a score by much: then fewer folds tell as well. Stations
# are few, and all of their folds are wanted.
ROWS_ENOUGH = 20_000
# A step of a small state takes this at least, in calls rather than in arithmetic.
_LEAST_PER_TIME = 7e5
# Passes that the search for sites takes where the likelihood is not Gaussian.
_SEARCHES = 8
_TIMES_PER_STRETCH = 60
_MOST_STRETCHES = 12


class Stretches(NamedTuple):
    """Times to learn from, as stretches of the series: which of the distinct times, and how many stretches they form."""

    chosen: Bool[np.ndarray, " time"]
    num_stretches: int


def work_of(sizes: Sequence[tuple[int, int]], counts: Int[np.ndarray, " time"]) -> float:
    """Work of a pass over times with `counts` rows; `sizes` has pseudo-points and latent dimensions of each component."""
    bottleneck = sum(points for points, _ in sizes)
    state = sum(points * latent for points, latent in sizes)
    return float(np.sum(_work(counts, state, bottleneck)))


def work_of_model(model: Model, data: Observations) -> Float[np.ndarray, " time"]:
    """Work at each time of a pass of `model` over `data`, with all passes that its likelihood takes."""
    shape = shape_of(model, data)
    work = _work(shape.layout.counts, shape.num_state, shape.num_bottleneck)
    return work if isinstance(model.likelihood, Gaussian) else _SEARCHES * work


def choose_stretches(
    work: Float[np.ndarray, " time"], most: float, *, length: int = _TIMES_PER_STRETCH
) -> Stretches | None:
    """Times whose work is within `most`, as stretches spread evenly over the series; None where all of them are.

    Neighbouring times tell what is fast, and stretches far apart what is slow; a stretch has this `length` or more.
    """
    num_times, total = len(work), float(work.sum())
    if total <= most:
        return None
    wanted = max(int(num_times * most / total), 2)
    count = int(np.clip(wanted // length, 1, _MOST_STRETCHES))
    length = wanted // count
    starts = np.linspace(0, num_times - length, count + 1 if count == 1 else count).round().astype(np.int64)
    # One stretch lies in the middle; several reach from the first time to the last.
    starts = (starts[:-1] + starts[1:]) // 2 if count == 1 else starts
    chosen = np.zeros(num_times, dtype=bool)
    for start in starts:
        chosen[start : start + length] = True
    return Stretches(chosen, count)


def num_folds_within(work: Float[np.ndarray, " time"], num_folds: int) -> int:
    """How many of `num_folds` are predicted, one at least."""
    return int(np.clip(EVALUATION_WORK // max(float(work.sum()), 1.0), 1, num_folds))


def _work(counts: Int[np.ndarray, " time"], num_state: int, num_bottleneck: int) -> Float[np.ndarray, " time"]:
    # Of a filter, whichever engine runs: a choice of engine must not change the model.
    return filter_flops(counts, num_state, num_bottleneck) + _LEAST_PER_TIME
