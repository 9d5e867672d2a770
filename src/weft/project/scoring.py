# SPDX-License-Identifier: MIT
"""Scores of a model on a table in a file, or in many: of those each by itself, by whoever has the time."""

import os
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from weft.data.files import write_pieces
from weft.data.outputs import check_outputs
from weft.data.parts import Part, PartsAlike
from weft.distributed import tasks_on
from weft.estimator.evaluation import joined
from weft.estimator.part_by_part import NumbersOfRows, OfPart, PartByPart, WholeScores
from weft.inference.executor import current_executor
from weft.inference.watching import tasks_shown, watched
from weft.loading import load_estimator
from weft.project.asked import files_to_ask, rows_for
from weft.space_time_gp import SpaceTimeGP

__all__ = ["score_file"]

# Files whose answers are waited for together: some megabytes each.
FILES_AT_ONCE = 32


def score_file(
    model: pathlib.Path,
    table: pathlib.Path,
    rows: pathlib.Path | None = None,
    *,
    places: pathlib.Path | None = None,
    client: Any = None,
) -> dict[str, dict[str, float | int]]:
    """Scores of a model and of baselines on a table's rows, which need not fit into memory; those of every row go to the file `rows`.

    Files are the tasks of `client`. Scores of rows come one file after another, and its workers then have the regions.
    """
    check_outputs({"model": model, "table": table, "places": places}, tables={"scored rows": rows})
    gp = load_estimator(model)
    views = gp.each_target()
    learned = [view.fitted_ for view in views]
    asked, whole = PartByPart(learned, [view.seed for view in views]), WholeScores(learned)
    files = files_to_ask(gp, table, places)
    with tasks_on(client), tasks_shown("auto"):
        if rows is not None or files is None:
            scored = _scored_rows(views, asked, _tables(gp, table, places, files), whole)
            if rows is None:
                for _ in scored:
                    pass
            else:
                write_pieces(scored, rows)
        else:
            for part in _sums_of_files(asked, files):
                whole.add(part)
    return _by_target(views, whole.summaries())


def _tables(
    gp: SpaceTimeGP, path: pathlib.Path, places: pathlib.Path | None, files: PartsAlike | None
) -> Iterator[Any]:
    if files is None:
        yield rows_for(gp, path, places, "rows are arranged first")
        return
    with watched(len(files.parts)) as done:
        for part in files.parts:
            yield files.read(part)
            done(os.path.basename(part.path))


def _scored_rows(
    views: Sequence[SpaceTimeGP], asked: PartByPart, tables: Iterator[Any], whole: WholeScores
) -> Iterator[Any]:
    """Scores of every row, table by table, by the numbers that rows and places have in all of them."""
    numbers = [NumbersOfRows() for _ in views]
    for table in tables:
        found = asked.rows(table)
        whole.add([each.sums() for each in found])
        frames = [number.of_whole(each, view.fitted_) for number, each, view in zip(numbers, found, views, strict=True)]
        named = zip(views, frames, strict=True)
        several = [(view, frame) for view, frame in named if frame is not None]
        if several:
            yield joined(
                frame.assign(target=view.roles_.target) if len(views) > 1 else frame for view, frame in several
            )
    # Raises where there is no value at all.
    whole.summaries()


class _Asked(NamedTuple):
    """What whoever scores files has to know."""

    scores: PartByPart
    files: PartsAlike


def _sums_of_files(asked: PartByPart, files: PartsAlike) -> Iterator[list[OfPart]]:
    """What each file tells, in their order."""
    executor = current_executor()
    held = executor.hold(_Asked(asked, files))
    # On threads one after another: each file has all processors.
    at_once = FILES_AT_ONCE if executor.is_elsewhere else 1
    with watched(len(files.parts)) as done:
        for first in range(0, len(files.parts), at_once):
            some = files.parts[first : first + at_once]
            names = [f"scoring {os.path.basename(part.path)}" for part in some]
            for name, found in zip(
                names, executor.map(_sums_of_file, [held] * len(some), some, names=names), strict=True
            ):
                yield found
                done(name)


def _sums_of_file(asked: _Asked, part: Part) -> list[OfPart]:
    return asked.scores.sums(asked.files.read(part))


def _by_target(
    views: Sequence[SpaceTimeGP], summaries: Sequence[dict[str, dict[str, float | int]]]
) -> dict[str, dict[str, float | int]]:
    """Of one target as they are; of several each by its name."""
    if len(views) == 1:
        return summaries[0]
    return {
        f"{view.roles_.target} {model}": summary
        for view, own in zip(views, summaries, strict=True)
        for model, summary in own.items()
    }
