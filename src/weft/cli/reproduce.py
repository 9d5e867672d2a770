# SPDX-License-Identifier: MIT
"""`weft reproduce`."""

import pathlib
from typing import Annotated, TypeVar

from cyclopts import Parameter

from weft.cli.options import AsJson
from weft.cli.printing import emit, left

__all__ = ["reproduce"]

T = TypeVar("T")
Several = Annotated[list[T] | None, Parameter(consume_multiple=True, help="Those of the experiment if not given.")]


def reproduce(
    experiment: Annotated[str | None, Parameter(help="Its name.")] = None,
    *,
    quick: Annotated[bool, Parameter(help="A small version of everything, in seconds.", show_default=False)] = False,
    data: Annotated[pathlib.Path | None, Parameter(help="The folder of the original files.")] = None,
    download: Annotated[
        bool, Parameter(help="Fetch the original files into --data first.", show_default=False)
    ] = False,
    output: Annotated[
        pathlib.Path | None,
        Parameter(name=["--output", "-o"], help="The folder to write to; named after it if not given."),
    ] = None,
    variant: Annotated[
        str, Parameter(help="scripts (what the authors ran) or text (what the paper says).")
    ] = "scripts",
    seed: int = 0,
    max_iterations: Annotated[int | None, Parameter(help="The most iterations of each fit.")] = None,
    max_seconds: Annotated[float | None, Parameter(help="The most seconds of each fit or timing.")] = None,
    pseudo_points: Several[int] = None,
    sets: Several[str] = None,
    num_times: Several[int] = None,
    days: Annotated[int | None, Parameter(help="Only the last so many days of temperatures.")] = None,
    json: AsJson = False,
) -> None:
    """Repeat an experiment of the paper; without a name, list them."""
    from weft.extras import require

    require("reproduce", "weft reproduce")
    from weft_experiments import EXPERIMENTS, run

    if experiment is None:
        text = left(list(EXPERIMENTS.items()))
        emit({"experiments": dict(EXPERIMENTS)}, text, as_json=json)
        return
    page = run(
        experiment,
        quick=quick,
        data=data,
        download=download,
        output=output,
        variant=variant,
        seed=seed,
        max_iterations=max_iterations,
        max_seconds=max_seconds,
        pseudo_points=pseudo_points,
        sets=sets,
        num_times=num_times,
        days=days,
    )
    emit({"experiment": experiment, "page": str(page)}, f"saved {page}", as_json=json)
