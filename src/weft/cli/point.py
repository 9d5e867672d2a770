# SPDX-License-Identifier: MIT
"""`weft point`."""

from typing import Annotated

from cyclopts import Parameter

from weft.cli.options import AsJson, ModelFile, Of, Quantiles, TableOutput, names_in, numbers_in
from weft.cli.printing import emit

__all__ = ["point"]


def point(
    model: ModelFile,
    *,
    at: Annotated[str, Parameter(help="The place, by column: lat=47.6,lon=-122.3,elevation=50.")],
    output: TableOutput,
    quantiles: Quantiles = "0.05,0.95",
    of: Of = "observation",
    json: AsJson = False,
) -> None:
    """Predict the series of a virtual station: at one place, at all times seen."""
    from weft.project import point_file

    pairs = [part.partition("=") for part in names_in(at) or ()]
    if not all(sign for _, sign, _ in pairs):
        raise ValueError(f"--at must be like lat=47.6,lon=-122.3; it is {at!r}")
    place = {name.strip(): value.strip() for name, _, value in pairs}
    point_file(model, place, output, quantiles=numbers_in(quantiles, "--quantiles"), of=of)
    emit({"output": str(output), "of": of}, f"saved {output}", as_json=json)
