# SPDX-License-Identifier: MIT
"""`weft info`."""

from weft.cli.options import AsJson, ModelFile
from weft.cli.printing import emit

__all__ = ["info"]


def info(model: ModelFile, *, json: AsJson = False) -> None:
    """Say what a model file holds."""
    from weft.loading import load_estimator
    from weft.project import fitted_record

    gp = load_estimator(model)
    emit(fitted_record(gp), gp.summary(), as_json=json)
