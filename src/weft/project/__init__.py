# SPDX-License-Identifier: MIT
"""From a table to a report in steps: survey, settings, prepared, fitted, evaluated, reported.

What the command line can do is done by these calls, so that Python does the same by the same means.
"""

from weft.project.answers import (
    aggregate_file,
    audit_file,
    fill_file,
    forecast_file,
    grid_file,
    point_file,
    predict_file,
    report_file,
    sample_file,
    suggest_file,
    update_file,
)
from weft.project.cost import Cost, cost_of
from weft.project.evaluation import Evaluation, compare_files, comparison_text, evaluate, evaluate_file
from weft.project.fitting import fit, fit_file, fitted_record, was_interrupted
from weft.project.pictures import plot_file
from weft.project.prepared import Prepared, prepare
from weft.project.runs import Run, run
from weft.project.scoring import score_file
from weft.project.settings import Settings, read_settings
from weft.project.starting_file import start
from weft.project.surveys import Survey, survey, survey_file
from weft.project.words import score_table

__all__ = [
    "Cost",
    "Evaluation",
    "Prepared",
    "Run",
    "Settings",
    "Survey",
    "aggregate_file",
    "audit_file",
    "compare_files",
    "comparison_text",
    "cost_of",
    "evaluate",
    "evaluate_file",
    "fill_file",
    "fit",
    "fit_file",
    "fitted_record",
    "forecast_file",
    "grid_file",
    "plot_file",
    "point_file",
    "predict_file",
    "prepare",
    "read_settings",
    "report_file",
    "run",
    "sample_file",
    "score_file",
    "score_table",
    "start",
    "suggest_file",
    "survey",
    "survey_file",
    "update_file",
    "was_interrupted",
]
