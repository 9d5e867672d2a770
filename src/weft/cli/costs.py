# SPDX-License-Identifier: MIT
"""What fitting an estimator to a table will take, found out without fitting it."""

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from weft.estimator import SpaceTimeGP

__all__ = ["Cost", "cost_of"]

# What an estimator's fit took on the real sets this was tried on: 8 to 25.
EVALUATIONS = 20


class Cost(NamedTuple):
    """Peak memory, seconds of an evaluation with all rows and of a whole fit, rows learned from, pseudo-points in all."""

    memory_bytes: int
    available_bytes: int
    evaluation_seconds: float
    fit_seconds: float
    num_learning_rows: int
    num_pseudo_points: int


def cost_of(gp: "SpaceTimeGP", table: Any) -> Cost:
    """By a short trial on a stretch of the series; a table that cannot be fitted raises as `fit` does."""
    import numpy as np

    from weft.estimator.budget import work_of_model
    from weft.estimator.building import build_start
    from weft.estimator.defaults import likelihood_from
    from weft.estimator.learning import chosen_stretches
    from weft.estimator.precision import in_float64
    from weft.estimator.rehearsal import prepare
    from weft.training.estimate import estimate

    def measured() -> Cost:
        settings, _, _, rows, translation = prepare(gp, table)
        data = translation.observations(rows)
        start = build_start(
            data,
            num_space=translation.num_space,
            clock=translation.clock,
            kernel=settings.kernel,
            likelihood=likelihood_from(settings.likelihood),
            likelihood_setting=settings.likelihood,
            seasonality=settings.seasonality,
            pseudo_points=settings.pseudo_points,
            seed=settings.seed,
        )
        found = estimate(start.model, data, engine=settings.engine)
        work = work_of_model(start.model, data)
        chosen = chosen_stretches(settings, work, data)
        used = np.ones(len(work), dtype=bool) if chosen is None else chosen.chosen
        seconds = found.seconds_per_evaluation
        return Cost(
            memory_bytes=found.memory_bytes,
            available_bytes=found.available_bytes,
            evaluation_seconds=seconds,
            fit_seconds=EVALUATIONS * seconds * float(work[used].sum() / work.sum()),
            num_learning_rows=int(np.asarray(data.grouping.layout.counts)[used].sum()),
            num_pseudo_points=found.shape.num_bottleneck,
        )

    return in_float64(measured)()
