# SPDX-License-Identifier: MIT
"""A survey's model fitted, and kept in a file together with where an interrupted fit goes on."""

import pathlib
from collections.abc import Callable, Sequence
from typing import Any

from weft.data.outputs import check_outputs
from weft.distributed import tasks_on
from weft.estimator.precision import in_float64
from weft.inference.kept_answers import beside
from weft.project.settings import Settings
from weft.project.surveys import Survey, survey_file
from weft.space_time_gp import SpaceTimeGP
from weft.training.fitting import Outcome

__all__ = [
    "Say",
    "checkpoint_of",
    "files_meanwhile",
    "fit",
    "fit_file",
    "fit_to",
    "fitted_record",
    "forget",
    "refuse_copies",
    "silent",
    "was_interrupted",
]

Say = Callable[[str], Any]


def silent(text: str) -> None:
    """Say nothing."""


def fit(found: Survey, remarks: Sequence[str] = (), *, say: Say = silent, **options: Any) -> SpaceTimeGP:
    """The survey's estimator fitted to its table; `options` go to `SpaceTimeGP.fit`.

    What was chosen, `remarks` and what is odd about the rows are said once it is clear that the rows can be used.
    """
    unsaid = [*found.remarks, *remarks, *(f"note: {note}" for note in found.require_columns().notes)]

    def tell(step: Any = None) -> None:
        while unsaid:
            say(f"weft: {unsaid.pop(0)}")

    rows: Any = found.table if found.whole is None else found.whole
    gp = found.estimator().fit(rows, callback=tell, **options)
    tell()
    return gp


def fit_file(
    settings: Settings,
    output: pathlib.Path,
    *,
    advised: bool,
    resume: bool = False,
    say: Say = silent,
    client: Any = None,
) -> SpaceTimeGP:
    """The table that settings name fitted, and the model in `output`; `client` as for `SpaceTimeGP.fit`."""
    check_outputs(settings.inputs(), files={"model": output, **files_meanwhile(output)})
    with tasks_on(client):
        found = survey_file(settings, advised=advised)
        refuse_copies(found)
        gp = fit_to(output, found, resume=resume, say=say)
    if not was_interrupted(gp):
        forget(output)
    return gp


def fit_to(
    output: pathlib.Path, found: Survey, remarks: Sequence[str] = (), *, resume: bool = False, say: Say = silent
) -> SpaceTimeGP:
    """A fit whose model goes to `output`, the best so far if it was interrupted; its checkpoint stays beside it."""
    gp = fit(found, remarks, say=say, checkpoint=checkpoint_of(output), resume=resume)
    gp.save(output)
    if was_interrupted(gp):
        say(f"weft: interrupted; the best so far is in {output}, and --resume goes on from it")
    return gp


def forget(output: pathlib.Path) -> None:
    """Remove the checkpoint of a fit that needs it no more."""
    checkpoint_of(output).unlink(missing_ok=True)


def refuse_copies(found: Survey) -> None:
    """Raise where rows repeat another in every column and cannot be measurements."""
    found.require_columns()
    if found.objection is not None:
        raise ValueError(found.objection)


def was_interrupted(gp: SpaceTimeGP) -> bool:
    return any(each.result_.outcome is Outcome.INTERRUPTED for each in gp.each_target())


@in_float64
def fitted_record(gp: SpaceTimeGP) -> dict[str, Any]:
    """A fitted model in numbers; of several targets, each by name."""
    if isinstance(gp.target, tuple | list):
        return {"rank": gp.rank_, "targets": {name: fitted_record(gp.only(name)) for name in gp.target}}
    result = gp.result_
    return {
        "time": gp.time,
        "space": list(gp.space),
        "target": gp.target,
        "num_rows": gp.num_rows_,
        "num_missing": gp.num_missing_,
        "num_times": len(gp.fitted_.times),
        "log_evidence": result.log_evidence,
        "converged": result.converged,
        "message": result.message,
        "seconds": result.seconds,
        "parameters": {name: value.tolist() for name, value in result.parameters.items()},
    }


def checkpoint_of(output: pathlib.Path) -> pathlib.Path:
    """Where a fit whose model goes to `output` keeps what it has done so far."""
    return output.parent / f"{output.name}.checkpoint"


def files_meanwhile(output: pathlib.Path) -> dict[str, pathlib.Path]:
    """What is beside `output` until it is there."""
    return {"checkpoint": checkpoint_of(output), "answers of regions": beside(checkpoint_of(output))}
