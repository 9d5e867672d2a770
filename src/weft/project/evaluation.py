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
from weft.estimator.lead_times import LEAD, scores_by_lead
from weft.folds import KINDS
from weft.loading import load_estimator
from weft.notebook import table_html
from weft.options import HeldOutBy
from weft.project.fitting import Say, fit, silent
from weft.project.prepared import check_folds
from weft.project.settings import Settings
from weft.project.surveys import survey_file, table_of
from weft.project.words import aligned, score_cells, score_table
from weft.space_time_gp import SpaceTimeGP

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Evaluation", "check_kinds", "compare_files", "comparison_text", "evaluate", "evaluate_file"]


_BY_LEAD = "CRPS by lead time"


@final
@dataclasses.dataclass(frozen=True)
class Evaluation:
    """`scores` in a tidy table, and those of every `row`, by how rows were held out."""

    scores: "pd.DataFrame"
    rows: "dict[str, pd.DataFrame]"

    def __str__(self) -> str:
        blocks = [f"held out by {by}\n{score_table(found)}" for by, found in self._summaries().items()]
        ahead = self._by_lead()
        return "\n\n".join([*blocks, *([f"{_BY_LEAD}\n{aligned(ahead)}"] if ahead else [])])

    def _repr_html_(self) -> str:
        blocks = []
        for by, found in self._summaries().items():
            header, *lines = score_cells(found)
            blocks.append(table_html(f"held out by {by}", header, lines))
        ahead = self._by_lead()
        return "".join([*blocks, *([table_html(_BY_LEAD, ahead[0], ahead[1:])] if ahead else [])])

    def _by_lead(self) -> list[list[str]]:
        """Leads down, models across; nothing where no forecast was scored."""
        chosen = self.scores["fold"].astype(str).str.startswith(LEAD) & (self.scores["score"] == "mean_crps")
        lines = self.scores[chosen]
        if not len(lines):
            return []
        table = lines.pivot_table(index="fold", columns="model", values="value", sort=False)
        header = ["", *(str(name).replace("_", " ") for name in table.columns)]
        return [
            header,
            *(
                [str(fold), *(f"{value:.4g}" for value in row)]
                for fold, row in zip(table.index, table.to_numpy(), strict=True)
            ),
        ]

    def _summaries(self) -> dict[str, dict[str, dict[str, float | int]]]:
        """Scores over all folds, by how rows were held out and by model."""
        found: dict[str, dict[str, dict[str, float | int]]] = {}
        for line in self.scores[self.scores["fold"] == "all"].to_dict("records"):
            found.setdefault(line["by"], {}).setdefault(line["model"], {})[line["score"]] = line["value"]
        return found


def evaluate(
    gp: SpaceTimeGP,
    table: Any,
    by: Sequence[str],
    folds: int | None = None,
    *,
    refit: bool = False,
    horizon: str | float | None = None,
) -> Evaluation:
    """Rows held out in each of these ways, predicted and scored; see `SpaceTimeGP.cross_validate`.

    The `horizon` is of those held out by time.
    """
    check_kinds(by, horizon)
    rows, scores = {}, []
    for kind in by:
        ahead = horizon if kind == "time" else None
        rows[kind] = gp.cross_validate(
            table, by=cast(HeldOutBy, kind), folds=folds, refit=refit, output="rows", horizon=ahead
        )
        values = rows[kind].drop_duplicates("row")["value"]
        scores.append(tidy_scores(rows[kind], float(values.std(ddof=0)), kind))
        scores.append(scores_by_lead(rows[kind], float(values.std(ddof=0)), kind))
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
    by, folds, horizon = settings.evaluate.by, settings.evaluate.folds, settings.evaluate.horizon
    check_kinds(by, horizon)
    if model is not None:
        gp, table = load_estimator(model), table_of(settings)
    else:
        found = survey_file(settings, advised=advised)
        table = found.rows_here()
        check_folds(found.prepared(table), by, folds, horizon)
        gp = found.estimator() if refit else fit(found, say=say)
    evaluation = evaluate(gp, table, by, folds, refit=refit, horizon=horizon)
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


def check_kinds(kinds: Sequence[str], horizon: Any = None) -> None:
    """Refuse a way to hold rows out that there is not, or none at all, before anything is fitted."""
    if horizon is not None and "time" not in kinds:
        raise ValueError(f"a horizon is for rows held out by time; they are held out by {', '.join(kinds)}; add time")
    if not kinds:
        raise ValueError(f"by is empty, so nothing would be held out; name one or more of {', '.join(KINDS)}")
    for kind in kinds:
        if kind not in KINDS:
            raise ValueError(f"by must be one of {', '.join(KINDS)}; it is {kind!r}")
