# SPDX-License-Identifier: MIT
"""How good a model is on rows held out, beside naive baselines."""

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast, final

from weft.comparison import compare
from weft.data.files import ENDINGS, read_table, write_table
from weft.data.outputs import check_outputs
from weft.estimator.evaluation import joined, tidy_scores
from weft.folds import KINDS
from weft.loading import load_estimator
from weft.options import HeldOutBy
from weft.project.fitting import Say, fit, silent
from weft.project.prepared import check_folds
from weft.project.settings import Settings
from weft.project.surveys import rows_of, surveyed
from weft.project.words import aligned, score_table
from weft.space_time_gp import SpaceTimeGP

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Evaluation", "check_kinds", "compare_files", "comparison_text", "evaluate", "evaluate_file"]


@final
@dataclasses.dataclass(frozen=True)
class Evaluation:
    """`scores` in a tidy table, and those of every `row`, by how rows were held out."""

    scores: "pd.DataFrame"
    rows: "dict[str, pd.DataFrame]"

    def __str__(self) -> str:
        blocks: list[str] = []
        for by, part in self.scores[self.scores["fold"] == "all"].groupby("by", sort=False):
            summaries: dict[str, dict[str, float | int]] = {}
            for line in part.to_dict("records"):
                summaries.setdefault(line["model"], {})[line["score"]] = line["value"]
            blocks.append(f"held out by {by}\n{score_table(summaries)}")
        return "\n\n".join(blocks)


def evaluate(
    gp: SpaceTimeGP, table: Any, by: Sequence[str], folds: int | None = None, *, refit: bool = False
) -> Evaluation:
    """Rows held out in each of these ways, predicted and scored; see `SpaceTimeGP.cross_validate`."""
    check_kinds(by)
    rows, scores = {}, []
    for kind in by:
        rows[kind] = gp.cross_validate(table, by=cast(HeldOutBy, kind), folds=folds, refit=refit, output="rows")
        values = rows[kind].drop_duplicates("row")["value"]
        scores.append(tidy_scores(rows[kind], float(values.std(ddof=0)), kind))
    return Evaluation(joined(scores), rows)


def evaluate_file(
    settings: Settings,
    *,
    model: pathlib.Path | None = None,
    advised: bool,
    refit: bool = False,
    output: pathlib.Path | None = None,
    rows: pathlib.Path | None = None,
    say: Say = silent,
) -> Evaluation:
    """The table that settings name held out as they say, by a model in a file or one fitted first.

    Scores go to the file `output`, and those of every row to `rows`.
    """
    check_outputs(settings.inputs() | {"model": model}, tables={"scores": output, "scored rows": rows})
    by, folds = settings.evaluate.by, settings.evaluate.folds
    check_kinds(by)
    data = rows_of(settings)
    if model is not None:
        gp = load_estimator(model)
    else:
        found = surveyed(settings, data, advised=advised)
        check_folds(found.prepared(), by, folds)
        gp, data = found.estimator() if refit else fit(found, say=say), found.table
    evaluation = evaluate(gp, data, by, folds, refit=refit)
    if output is not None:
        write_table(evaluation.scores, output)
    if rows is not None:
        write_table(joined(each.assign(by=kind) for kind, each in evaluation.rows.items()), rows)
    return evaluation


def compare_files(first: pathlib.Path, second: pathlib.Path, table: pathlib.Path | None = None) -> "pd.DataFrame":
    """`weft.compare` of what is in two files: models, scored on a table, or scored rows."""

    def opened(path: pathlib.Path) -> Any:
        is_rows = any(path.name.lower().endswith(ending) for ending in ENDINGS)
        return read_table(path) if is_rows else load_estimator(path)

    return compare(opened(first), opened(second), None if table is None else read_table(table))


def comparison_text(result: "pd.DataFrame", first: str, second: str) -> str:
    """What `compare` found of two models of these names, for people."""
    lines = [["", first, second, "difference", "standard error", "in standard errors"]]
    for line in result.to_dict("records"):
        name = line["score"].replace("_", " ")
        lines.append([name, *(f"{line[key]:.4g}" for key in ("a", "b", "difference", "standard_error", "ratio"))])
    return f"{aligned(lines)}\nAll are losses over {result['num_rows'].iloc[0]:,} rows: below 0, the first is better."


def check_kinds(kinds: Sequence[str]) -> None:
    """Refuse a way to hold rows out that there is not, or none at all, before anything is fitted."""
    if not kinds:
        raise ValueError(f"by is empty, so nothing would be held out; name one or more of {', '.join(KINDS)}")
    for kind in kinds:
        if kind not in KINDS:
            raise ValueError(f"by must be one of {', '.join(KINDS)}; it is {kind!r}")
