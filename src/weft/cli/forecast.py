# SPDX-License-Identifier: MIT
"""`weft forecast`."""

import pathlib
from typing import Annotated

from cyclopts import Parameter

from weft.cli.options import AsJson, ModelFile, Of, Quantiles, TableOutput, numbers_in
from weft.cli.printing import emit

__all__ = ["forecast"]


def forecast(
    model: ModelFile,
    horizon: Annotated[str, Parameter(help="How far beyond the last time: 30D, 12h, 2W; a number where times are.")],
    *,
    output: TableOutput,
    at: Annotated[pathlib.Path | None, Parameter(help="A table of places, or a grid; left out: the stations.")] = None,
    quantiles: Quantiles = "0.05,0.95",
    of: Of = "observation",
    json: AsJson = False,
) -> None:
    """Predict beyond the last time seen, at the stations or at places of your own."""
    from weft.project import forecast_file

    forecast_file(model, horizon, output, at=at, quantiles=numbers_in(quantiles, "--quantiles"), of=of)
    emit({"output": str(output), "horizon": horizon, "of": of}, f"saved {output}", as_json=json)
