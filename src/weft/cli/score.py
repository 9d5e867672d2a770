# SPDX-License-Identifier: MIT
"""`weft score`."""

from weft.cli.options import AsJson, ModelFile, Places, Rows, RowsFile
from weft.cli.printing import emit

__all__ = ["score"]


def score(model: ModelFile, table: Rows, *, places: Places = None, rows: RowsFile = None, json: AsJson = False) -> None:
    """Score a model's predictions on rows it has not seen, beside naive baselines."""
    from weft.project import score_file, score_table

    summaries = score_file(model, table, rows, places=places)
    emit({"scores": summaries}, score_table(summaries), as_json=json)
