# SPDX-License-Identifier: MIT
"""The HTML report: what a model says about itself and its data, in one file."""

from weft.report.build import build_report, write_report
from weft.report.content import ReportContent
from weft.report.size import ReportSize

__all__ = ["ReportContent", "ReportSize", "build_report", "write_report"]
