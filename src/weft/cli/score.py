# SPDX-License-Identifier: MIT
"""`weft score`."""

from weft.cli.options import AsJson, ModelFile, Places, Rows, RowsFile, Scheduler, Workers
from weft.cli.printing import emit

__all__ = ["score"]


def score(
    model: ModelFile,
    table: Rows,
    *,
    places: Places = None,
    rows: RowsFile = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    json: AsJson = False,
) -> None:
    """Score a model's predictions on rows it has not seen, beside naive baselines; a folder file by file."""
    from weft.distributed import cluster
    from weft.project import score_file, score_table

    with cluster(workers, scheduler) as client:
        summaries = score_file(model, table, rows, places=places, client=client)
    emit({"scores": summaries}, score_table(summaries), as_json=json)
