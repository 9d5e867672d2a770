# SPDX-License-Identifier: MIT
"""Numbers and tables of them as people read them."""

from collections.abc import Mapping, Sequence

from weft.scores import MEANINGS

__all__ = ["aligned", "duration", "megabytes", "score_cells", "score_table"]

# Scores shown to people, in this order; --json has them all.
SHOWN_SCORES = (
    "num_rows",
    "mean_crps",
    "rmse",
    "mae",
    "bias",
    "mean_negative_log_density",
    "coverage_50",
    "coverage_90",
    "standardised_rmse",
    "standardised_mean_negative_log_density",
)


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Columns of text, the first to the left, the others to the right."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        ).rstrip()
        for row in rows
    )


def score_table(summaries: Mapping[str, Mapping[str, float | int]]) -> str:
    """Scores down, models across."""
    return aligned(score_cells(summaries))


def score_cells(summaries: Mapping[str, Mapping[str, float | int]]) -> list[list[str]]:
    """The same cell by cell, models' names first."""
    rows = [["", *(name.replace("_", " ") for name in summaries)]]
    for score in SHOWN_SCORES:
        if any(score in summary for summary in summaries.values()):
            cells = [_score(score, summary.get(score)) for summary in summaries.values()]
            rows.append([MEANINGS[score].label, *cells])
    return rows


def megabytes(size: float | int) -> str:
    return f"{size / 1e6:,.0f} MB" if size < 2e9 else f"{size / 1e9:,.1f} GB"


def duration(seconds: float | int) -> str:
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _score(score: str, value: float | int | None) -> str:
    if value is None or value != value:
        return "-"
    if score.startswith("num_"):
        return f"{int(value):,}"
    return f"{value:.1%}" if score.startswith("coverage") else f"{value:.4g}"
