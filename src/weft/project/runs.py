# SPDX-License-Identifier: MIT
"""All that a weft.toml says: check, fit, evaluate, predict and report."""

import dataclasses
import pathlib
from collections.abc import Iterable
from typing import Any, cast, final

from weft.data.files import read_table, tables_to_answer, write_pieces, write_table
from weft.data.outputs import check_outputs
from weft.inference.kept_answers import answers_kept, beside
from weft.options import Of
from weft.phases import Recording, Timings, recording, timing
from weft.project.answers import predicted_pieces
from weft.project.evaluation import Evaluation, check_kinds, evaluate
from weft.project.fitting import (
    Say,
    checkpoint_of,
    files_meanwhile,
    fit_to,
    fitted_record,
    forget,
    refuse_copies,
    silent,
    was_interrupted,
)
from weft.project.prepared import check_folds, check_question, check_station, check_terrain
from weft.project.settings import Settings
from weft.project.surveys import Survey, survey_file
from weft.project.words import aligned
from weft.report.build import KINDS_OF_CHECK, build_report, check_threshold
from weft.report.content import ReportContent
from weft.space_time_gp import SpaceTimeGP

__all__ = ["Run", "run"]


@final
@dataclasses.dataclass(frozen=True)
class Run:
    """What a run found, and the files it wrote; without an evaluation and a report it was interrupted."""

    survey: Survey
    gp: SpaceTimeGP
    files: dict[str, pathlib.Path]
    timings: Timings
    evaluation: Evaluation | None = None
    report: ReportContent | None = None

    @property
    def seconds(self) -> float:
        """On the clock."""
        return self.timings.total.clock_seconds

    def to_json(self) -> dict[str, Any]:
        assert self.evaluation is not None
        assert self.report is not None
        return {
            "check": self.survey.to_json(),
            "fit": fitted_record(self.gp),
            "scores": self.evaluation.scores.to_dict("records"),
            "verdict": self.report.verdict.headline,
            "files": {name: str(file) for name, file in self.files.items()},
            "seconds": self.seconds,
        }

    def __str__(self) -> str:
        assert self.report is not None
        saved = ", ".join(str(file) for file in self.files.values())
        return f"{self.evaluation}\n\n{self.report.verdict.headline}\nsaved {saved} in {self.seconds:.0f} s"


def run(settings: Settings, *, resume: bool = False, say: Say = silent, command: str | None = None) -> Run:
    """Do what the settings say; `command` is what the report names as its origin.

    What could be refused only after the fit, which is long, is refused before it.
    """
    with recording() as account:
        return _run(settings, account, resume=resume, say=say, command=command)


def _run(settings: Settings, account: Recording, *, resume: bool, say: Say, command: str | None) -> Run:
    files = _files(settings)
    check_kinds(settings.evaluate.by, settings.evaluate.horizon)
    check_threshold(settings.report.threshold)
    found = survey_file(settings, advised=False)
    settings = found.settings
    asked: Iterable[Any] | None = None
    if settings.predict.table is not None:
        asked = tables_to_answer(settings.predict.table, files["predictions"])
    heights = None if settings.report.terrain is None else read_table(settings.report.terrain)
    refuse_copies(found)
    rows = found.rows_here()
    _rehearse(found, rows, asked, heights)
    remarks = [f"fitting these rows\n{aligned(found.lines())}"]
    with answers_kept(beside(checkpoint_of(files["model"])), go_on=resume):
        gp = fit_to(files["model"], found, remarks, resume=resume, say=say)
        if was_interrupted(gp):
            return Run(found, gp, files, account.so_far())
        say(gp.summary())
        held_out = settings.evaluate
        evaluation = evaluate(gp, rows, held_out.by, held_out.folds, horizon=held_out.horizon)
    write_table(evaluation.scores, files["scores"])
    if asked is not None:
        pieces = predicted_pieces(gp, asked, settings.predict.quantiles, cast(Of, settings.predict.of))
        write_pieces(pieces, files["predictions"])
    report = build_report(
        gp,
        rows,
        path=files["report"],
        evaluated={by: rows for by, rows in evaluation.rows.items() if by in KINDS_OF_CHECK},
        station=settings.report.station,
        terrain=heights,
        threshold=settings.report.threshold,
        title=settings.report.title,
        command=command,
        timings=account.so_far(),
    )
    forget(files["model"])
    return Run(found, gp, files, account.so_far(), evaluation, report)


def _files(settings: Settings) -> dict[str, pathlib.Path]:
    """What will be written, refused where it cannot be."""
    folder = pathlib.Path(settings.output.folder)
    files = {name: folder / getattr(settings.output, name) for name in ("model", "scores", "report")}
    if settings.predict.table is not None:
        files["predictions"] = folder / settings.predict.output
    tables = {name: file for name, file in files.items() if name in ("scores", "predictions")}
    others = {name: file for name, file in files.items() if name not in tables}
    check_outputs(settings.inputs(), files=others | files_meanwhile(files["model"]), tables=tables)
    return files


@timing("survey")
def _rehearse(found: Survey, rows: Any, asked: Iterable[Any] | None, heights: Any) -> None:
    settings, prepared = found.settings, found.prepared(rows)
    check_station(prepared, settings.report.station)
    check_terrain(prepared, heights)
    check_folds(prepared, settings.evaluate.by, settings.evaluate.folds, settings.evaluate.horizon)
    if asked is not None:
        check_question(prepared, next(iter(asked)), settings.predict.quantiles, settings.predict.of)
