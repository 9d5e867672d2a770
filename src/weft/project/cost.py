# SPDX-License-Identifier: MIT
"""What fitting will take, found out without it."""

import dataclasses
from typing import NamedTuple

import numpy as np

from weft.estimator.budget import work_of_model
from weft.estimator.building import with_pseudo_points
from weft.estimator.components import AUTO, NAMED
from weft.estimator.learning import chosen_stretches, learns_small, small_parts, start_for
from weft.estimator.precision import in_float64
from weft.inference.exact_work import exact_work
from weft.project.prepared import Prepared
from weft.project.words import duration, megabytes
from weft.training.estimate import estimate

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

    def lines(self) -> list[list[str]]:
        """The same in words."""
        return [
            ["memory to fit, about", megabytes(self.memory_bytes)],
            ["memory there is", megabytes(self.available_bytes)],
            ["time to fit, about", duration(self.fit_seconds)],
            ["pseudo-points in all", f"{self.num_pseudo_points:,}"],
            ["rows to learn from", f"{self.num_learning_rows:,}"],
        ]


@in_float64
def cost_of(prepared: Prepared) -> Cost:
    """By a short trial on a stretch of the series."""
    options, translation = prepared.options, prepared.translation
    data = translation.observations(prepared.rows)
    # Nothing is tried: with all that may be tried a fit takes longest.
    components = (*NAMED,) if options.kernel is None and options.components == AUTO else options.components
    start = start_for(dataclasses.replace(options, components=components), translation, data)
    exact = start.model
    start = with_pseudo_points(start, options.pseudo_points, data, translation.num_space, seed=options.seed)
    found = estimate(start.model, data, engine=options.engine)
    work = work_of_model(start.model, data)
    seconds = found.seconds_per_evaluation
    if learns_small(options, start.model, data, translation.num_space):
        parts = small_parts(options, exact, data)
        rows = sum(part.num_rows for part in parts)
        part_work = sum(min(exact_work(exact, len(part.places), part.grouping.layout)) for part in parts)
    else:
        chosen = chosen_stretches(options, work, data)
        used = np.ones(len(work), dtype=bool) if chosen is None else chosen.chosen
        rows, part_work = int(np.asarray(data.grouping.layout.counts)[used].sum()), float(work[used].sum())
    return Cost(
        memory_bytes=found.memory_bytes,
        available_bytes=found.available_bytes,
        evaluation_seconds=seconds,
        fit_seconds=EVALUATIONS * seconds * part_work / float(work.sum()),
        num_learning_rows=rows,
        num_pseudo_points=found.shape.num_bottleneck,
    )
