# SPDX-License-Identifier: MIT
"""Scores of a table that comes part by part: each part tells what adds up, and no more than one of them is held."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from weft.data.tables import distinct_rows
from weft.engines.cpu.threads import single_blas_thread
from weft.estimator.columns import Measurements
from weft.estimator.evaluation import KeptBaselines, Scored, make_sheet, rows_frame
from weft.estimator.fitted import Fitted
from weft.estimator.precision import in_float64
from weft.scores import ScoresOfParts

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["NumbersOfRows", "OfPart", "PartByPart", "RowsOfPart", "WholeScores"]


class OfPart(NamedTuple):
    """What a part tells of one target: scores of each model, of none where no row has a value, and how many rows have none."""

    models: tuple[tuple[str, ScoresOfParts], ...]
    num_missing: int


@final
class PartByPart:
    """Whoever is asked for the scores of part after part: of each target what was learned, and the baselines beside it.

    Baselines are fitted where a part is scored, for the first of them there, and do not travel.
    """

    def __init__(self, views: Sequence[Fitted], seeds: Sequence[int]):
        self._views, self._seeds = tuple(views), tuple(seeds)
        self._baselines = [KeptBaselines() for _ in views]

    def __reduce__(self) -> tuple[Any, ...]:
        return PartByPart, (self._views, self._seeds)

    def sums(self, table: Any) -> list[OfPart]:
        """What adds up, of each target."""
        return [each.sums() for each in self.rows(table)]

    @in_float64
    def rows(self, table: Any) -> "list[RowsOfPart]":
        """Scores of every row, of each target."""
        return [self._rows_of(number, view.read(table)) for number, view in enumerate(self._views)]

    def _rows_of(self, number: int, rows: Measurements) -> "RowsOfPart":
        # A part need not have a value; all of them have to have one.
        if rows.num_missing == rows.num_rows:
            return RowsOfPart(rows, None)
        with single_blas_thread():
            return RowsOfPart(rows, self._views[number].scored(rows, self._seeds[number], self._baselines[number]))


class RowsOfPart(NamedTuple):
    """The rows of a part, and the scores of each that has a value."""

    rows: Measurements
    scored: Scored | None

    def sums(self) -> OfPart:
        models = {} if self.scored is None else self.scored.scores
        found = []
        for model, of_rows in models.items():
            scores = ScoresOfParts()
            scores.add(of_rows)
            found.append((model, scores))
        return OfPart(tuple(found), self.rows.num_missing)


@final
class WholeScores:
    """Named scores of each model over all parts, of each target; parts come in their order."""

    def __init__(self, views: Sequence[Fitted]):
        self._views = tuple(views)
        self._models: list[dict[str, ScoresOfParts]] = [{} for _ in views]
        self._num_missing = [0 for _ in views]

    def add(self, part: Sequence[OfPart]) -> None:
        for number, (models, num_missing) in enumerate(part):
            self._num_missing[number] += num_missing
            for model, scores in models:
                self._models[number].setdefault(model, ScoresOfParts()).join(scores)

    def summaries(self) -> list[dict[str, dict[str, float | int]]]:
        return [self._summaries(number, view) for number, view in enumerate(self._views)]

    def _summaries(self, number: int, view: Fitted) -> dict[str, dict[str, float | int]]:
        found = self._models[number]
        if not found:
            raise ValueError(f"no row has a value of {view.roles.target!r}, so there is nothing to score")
        # What is there for some parts only, as persistence is for those that come after all that was learned from, is of other rows.
        most = max(scores.num_rows for scores in found.values())
        # Rows without a value are those of all parts, also of such as have none at all.
        return {
            model: scores.summary(view.target_sd) | {"num_missing": self._num_missing[number]}
            for model, scores in found.items()
            if scores.num_rows == most
        }


@final
class NumbersOfRows:
    """Rows and places of scored parts numbered as those of the whole table."""

    def __init__(self) -> None:
        self._num_rows = 0
        self._places: np.ndarray | None = None

    def of_whole(self, part: RowsOfPart, view: Fitted) -> "pd.DataFrame | None":
        """The scores of one part's rows, with numbers of the whole; parts come in their order."""
        sheet = make_sheet(part.rows, view.translation)
        known = sheet.places if self._places is None else np.concatenate([self._places, sheet.places])
        first, number = distinct_rows(list(known.T))
        start, self._num_rows, self._places = self._num_rows, self._num_rows + part.rows.num_rows, known[first]
        if part.scored is None:
            return None
        own = np.arange(part.rows.num_rows)
        frame = rows_frame(part.scored, own, sheet)
        row = frame["row"].to_numpy()
        return frame.assign(row=start + row, place=number[len(known) - len(own) + row])
