# SPDX-License-Identifier: MIT
"""`weft predict`."""

from weft.cli.options import (
    AsJson,
    ModelFile,
    Of,
    Places,
    Quantiles,
    RowsOrGrid,
    Scheduler,
    TableOutput,
    Workers,
    numbers_in,
)
from weft.cli.printing import emit

__all__ = ["predict"]


def predict(
    model: ModelFile,
    table: RowsOrGrid,
    *,
    output: TableOutput,
    quantiles: Quantiles = "0.05,0.95",
    of: Of = "observation",
    places: Places = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    json: AsJson = False,
) -> None:
    """Predict at the rows of a table or the points of a grid: mean, sd, latent_sd and quantiles."""
    from weft.distributed import cluster
    from weft.project import predict_file

    with cluster(workers, scheduler) as client:
        predict_file(model, table, output, numbers_in(quantiles, "--quantiles"), of, places=places, client=client)
    emit({"output": str(output), "of": of}, f"saved {output}", as_json=json)
