# SPDX-License-Identifier: MIT
"""Verbs that need no table of the user's: demo, reproduce, doctor."""

import pathlib
from typing import Annotated, TypeVar

from cyclopts import Parameter

from weft.cli.options import AsJson
from weft.cli.printing import emit, remark, score_table

__all__ = ["demo", "doctor", "reproduce"]

OutputFolder = Annotated[
    pathlib.Path, Parameter(name=["--output", "-o"], help="The folder to write to; made if need be.")
]

T = TypeVar("T")
Several = Annotated[list[T] | None, Parameter(consume_multiple=True, help="Those of the experiment if not given.")]


def demo(*, output: OutputFolder = pathlib.Path("demo-output"), json: AsJson = False) -> None:
    """Take real temperatures of the Pacific North-West to scores, a map and a report, in a minute or two."""
    from weft.demo import run_demo

    result = run_demo(output, say=remark)
    lines = [score_table(result.scores), "", *(f"{what}: {file}" for what, file in result.files.items())]
    record = {"scores": result.scores, "files": result.files, "seconds": result.seconds}
    emit(record, "\n".join([*lines, f"in {result.seconds:.0f} s"]), as_json=json)


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
        text = _left([[name, meaning] for name, meaning in EXPERIMENTS.items()])
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


def doctor(*, json: AsJson = False) -> int:
    """Say what weft runs on, and try its engines: the first thing to send with a report of a fault."""
    from weft.cli.health import examine

    record, problems = examine()
    lines = [[name.replace("_", " "), str(value)] for name, value in record.items() if not isinstance(value, dict)]
    lines += [
        [f"{group} {name}", str(value)] for group in ("versions", "engines") for name, value in record[group].items()
    ]
    text = "\n".join(
        [_left(lines), *(f"PROBLEM: {problem}" for problem in problems), *([] if problems else ["all is well"])]
    )
    emit(record | {"problems": problems}, text, as_json=json)
    return 1 if problems else 0


def _left(lines: list[list[str]]) -> str:
    width = max(len(name) for name, _ in lines)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in lines)
