# SPDX-License-Identifier: MIT
"""What a verb says: results on standard output, for people or as JSON; remarks on standard error."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["aligned", "emit", "in_words", "megabytes", "remark", "score_table"]

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


def emit(record: Mapping[str, Any], text: str, *, as_json: bool) -> None:
    """One result: `record` as one line of JSON (NaN is null), or `text`."""
    if as_json:
        import msgspec

        print(msgspec.json.encode(record, enc_hook=_plain).decode())
    else:
        print(text)


def remark(text: str) -> None:
    """Something said on the way, which is not the result."""
    print(text, file=sys.stderr)


def aligned(rows: Sequence[Sequence[str]], *, indent: str = "") -> str:
    """Columns of text, the first to the left, the others to the right."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    return "\n".join(
        (
            indent
            + row[0].ljust(widths[0])
            + "".join(f"  {cell.rjust(width)}" for cell, width in zip(row[1:], widths[1:], strict=True))
        ).rstrip()
        for row in rows
    )


def score_table(summaries: Mapping[str, Mapping[str, float | int]]) -> str:
    """Scores down, models across."""
    from weft.scores import MEANINGS

    rows = [["", *(name.replace("_", " ") for name in summaries)]]
    for score in SHOWN_SCORES:
        if any(score in summary for summary in summaries.values()):
            cells = [in_words(score, summary.get(score)) for summary in summaries.values()]
            rows.append([MEANINGS[score].label, *cells])
    return aligned(rows)


def in_words(score: str, value: float | int | None) -> str:
    if value is None or value != value:
        return "-"
    if score.startswith("num_"):
        return f"{int(value):,}"
    return f"{value:.1%}" if score.startswith("coverage") else f"{value:.4g}"


def megabytes(size: float | int) -> str:
    return f"{size / 1e6:,.0f} MB" if size < 2e9 else f"{size / 1e9:,.1f} GB"


def _plain(value: Any) -> Any:
    """NumPy's numbers and arrays, and paths, for JSON."""
    import numpy as np

    return value.tolist() if isinstance(value, np.generic | np.ndarray) else str(value)
