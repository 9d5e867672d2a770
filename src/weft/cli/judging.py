# SPDX-License-Identifier: MIT
"""Verbs that judge: score, evaluate, compare."""

import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from weft.cli.options import (
    DEFAULT_COLUMNS,
    DEFAULT_MODEL,
    AsJson,
    ColumnOptions,
    Config,
    ModelFile,
    ModelOptions,
    Rows,
    TableOfConfig,
    completed_settings,
    names_in,
    settings_from,
)
from weft.cli.printing import aligned, emit, score_table

if TYPE_CHECKING:
    import pandas as pd

    from weft.estimator import SpaceTimeGP

__all__ = ["check_kinds", "compare", "cross_validated", "evaluate", "evaluation_text", "score"]

RowsFile = Annotated[
    pathlib.Path | None, Parameter(help="Also write the scores of every row here, for `weft compare`.")
]


Scored = Annotated[
    pathlib.Path, Parameter(help="A model, or a file of scored rows (`weft score --rows`, `weft evaluate --rows`).")
]


def score(model: ModelFile, table: Rows, *, rows: RowsFile = None, json: AsJson = False) -> None:
    """Score a model's predictions on rows it has not seen, beside naive baselines."""
    from weft.cli.modelling import load_estimator
    from weft.data.files import check_table_output, read_table, write_table
    from weft.estimator.evaluation import summaries_of

    if rows is not None:
        check_table_output(rows)
    gp = load_estimator(model)
    scored = gp.score_rows(read_table(table))
    if rows is not None:
        write_table(scored, rows)
    summaries = summaries_of(scored, gp.target_sd_)
    emit({"scores": summaries}, score_table(summaries), as_json=json)


def evaluate(
    table: TableOfConfig = None,
    *,
    model: Annotated[
        pathlib.Path | None, Parameter(help="A fitted model whose parameters are used; without it one is fitted first.")
    ] = None,
    by: Annotated[str | None, Parameter(help="random, station, block, time; several separated by commas.")] = None,
    folds: Annotated[int | None, Parameter(help="5 if not given, of which a very large model predicts fewer.")] = None,
    refit: Annotated[bool, Parameter(help="Learn anew for every fold: as many fits.", show_default=False)] = False,
    output: Annotated[
        pathlib.Path | None, Parameter(name=["--output", "-o"], help="Also write the table of scores here.")
    ] = None,
    rows: RowsFile = None,
    config: Config = None,
    columns: ColumnOptions = DEFAULT_COLUMNS,
    options: ModelOptions = DEFAULT_MODEL,
    json: AsJson = False,
) -> None:
    """Cross-validate: hold rows out, predict them, and score that beside naive baselines."""
    from weft.cli.modelling import fit_estimator, load_estimator, read_rows
    from weft.config import estimator_arguments
    from weft.data.files import check_table_output, write_table
    from weft.estimator import SpaceTimeGP
    from weft.estimator.evaluation import joined
    from weft.estimator.rehearsal import check_folds, prepare

    for file in (output, rows):
        if file is not None:
            check_table_output(file)
    settings = settings_from(config, table, columns, options)
    kinds = names_in(by) or settings.evaluate.by
    check_kinds(kinds)
    count = settings.evaluate.folds if folds is None else folds
    data = read_rows(settings)
    if model is not None:
        gp = load_estimator(model)
    else:
        settings, remarks = completed_settings(settings, data, advised=config is None)
        gp = SpaceTimeGP(**estimator_arguments(settings))
        check_folds(prepare(gp, data), kinds, count)
        gp = gp if refit else fit_estimator(settings, data, remarks)
    scored = {kind: cross_validated(gp, data, kind, count, refit=refit) for kind in kinds}
    tidy = joined(tidy for tidy, _ in scored.values())
    if output is not None:
        write_table(tidy, output)
    if rows is not None:
        write_table(joined(each.assign(by=kind) for kind, (_, each) in scored.items()), rows)
    emit({"scores": tidy.to_dict("records")}, evaluation_text(tidy), as_json=json)


def compare(
    first: Scored,
    second: Scored,
    table: Annotated[pathlib.Path | None, Parameter(help="Rows to score models on, which neither has seen.")] = None,
    *,
    json: AsJson = False,
) -> None:
    """Whether one model beats another on the same rows, beyond chance."""
    from weft.cli.modelling import load_estimator
    from weft.data.files import ENDINGS, read_table
    from weft.estimator import compare as compared

    def opened(path: pathlib.Path) -> Any:
        is_rows = any(path.name.lower().endswith(ending) for ending in ENDINGS)
        return read_table(path) if is_rows else load_estimator(path)

    result = compared(opened(first), opened(second), None if table is None else read_table(table))
    lines = [["", str(first), str(second), "difference", "standard error", "in standard errors"]]
    for line in result.to_dict("records"):
        name = line["score"].replace("_", " ")
        lines.append([name, *(f"{line[key]:.4g}" for key in ("a", "b", "difference", "standard_error", "ratio"))])
    text = f"{aligned(lines)}\nAll are losses over {result['num_rows'].iloc[0]:,} rows: below 0, the first is better."
    emit({"first": str(first), "second": str(second), "scores": result.to_dict("records")}, text, as_json=json)


def check_kinds(kinds: Sequence[str]) -> None:
    """Refuse a way to hold rows out that there is not, or none at all, before anything is fitted."""
    from weft.folds import KINDS

    if not kinds:
        raise ValueError(f"by is empty, so nothing would be held out; name one or more of {', '.join(KINDS)}")
    for kind in kinds:
        if kind not in KINDS:
            raise ValueError(f"by must be one of {', '.join(KINDS)}; it is {kind!r}")


def cross_validated(
    gp: "SpaceTimeGP", rows: Any, by: str, folds: int | None, *, refit: bool = False
) -> "tuple[pd.DataFrame, pd.DataFrame]":
    """Scores in a tidy table, and those of every row."""
    from weft.estimator.evaluation import tidy_scores

    scored = gp.cross_validate(rows, by=by, folds=folds, refit=refit, output="rows")
    values = scored.drop_duplicates("row")["value"]
    return tidy_scores(scored, float(values.std(ddof=0)), by), scored


def evaluation_text(tidy: "pd.DataFrame") -> str:
    """One table of scores for each way rows were held out."""
    blocks: list[str] = []
    for by, part in tidy[tidy["fold"] == "all"].groupby("by", sort=False):
        summaries: dict[str, dict[str, float | int]] = {}
        for line in part.to_dict("records"):
            summaries.setdefault(line["model"], {})[line["score"]] = line["value"]
        blocks.append(f"held out by {by}\n{score_table(summaries)}")
    return "\n\n".join(blocks)
