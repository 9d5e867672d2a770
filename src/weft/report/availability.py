# SPDX-License-Identifier: MIT
"""What the model was fitted to: counts in words, and who reported when."""

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int

from weft.data.clock import UNIT_SECONDS, step_in_words
from weft.report.content import DataCard, Fact, Strip
from weft.report.rows import SeenRows, time_labels
from weft.report.size import ReportSize

if TYPE_CHECKING:
    from weft.space_time_gp import SpaceTimeGP

__all__ = ["build_card", "shares_by_place"]


def build_card(gp: "SpaceTimeGP", rows: SeenRows, size: ReportSize) -> DataCard:
    clock = gp.fitted_.translation.clock
    distinct = np.unique(rows.times)
    first, last = time_labels(clock, distinct[[0, -1]])
    values = rows.values[rows.present]
    units = f" {gp.units}" if gp.units else ""
    step = float(np.median(np.diff(distinct))) if len(distinct) > 1 else 0.0
    num_cells = len(distinct) * rows.num_places
    num_missing = len(rows.values) - len(values)
    missing = f"{num_missing:,} without a value" if num_missing else "each with a value"
    places = "stations" if rows.has_names else "distinct places"
    facts = [
        Fact("rows", f"{len(rows.values):,}", missing),
        Fact(places, f"{rows.num_places:,}", f"by {', '.join(gp.fitted_.roles.space)}"),
        Fact("times", f"{len(distinct):,}", f"{first} to {last}, mostly {_step(clock.unit, step)} apart"),
        Fact(
            gp.fitted_.roles.target,
            f"{np.median(values):.4g}{units}",
            f"median; 90 % between {np.quantile(values, 0.05):.4g} and {np.quantile(values, 0.95):.4g}",
        ),
        Fact("observed", f"{100 * len(values) / max(num_cells, 1):.0f} %", "of all pairs of place and time"),
    ]
    if gp.fitted_.roles.covariates:
        facts.append(Fact("covariates", f"{len(gp.fitted_.roles.covariates)}", ", ".join(gp.fitted_.roles.covariates)))
    return DataCard(tuple(facts), _strip(gp, rows, distinct, size))


def shares_by_place(
    rows: SeenRows, places: Int[np.ndarray, " place"], distinct: Float[np.ndarray, " time"], num_columns: int
) -> Float[np.ndarray, "place column"]:
    """For each of these places and stretches of the distinct times, the share of times with a value there."""
    number = np.full(rows.num_places, -1)
    number[places] = np.arange(len(places))
    wanted = rows.present[number[rows.place[rows.present]] >= 0]
    # Several rows at one place and time count once.
    seen = np.unique(number[rows.place[wanted]] * len(distinct) + np.searchsorted(distinct, rows.times[wanted]))
    place, time = np.divmod(seen, len(distinct))
    counts = np.bincount(place * num_columns + time * num_columns // len(distinct), minlength=len(places) * num_columns)
    width = np.bincount(np.arange(len(distinct)) * num_columns // len(distinct), minlength=num_columns)
    return counts.reshape(len(places), num_columns) / width


def _strip(gp: "SpaceTimeGP", rows: SeenRows, distinct: Float[np.ndarray, " time"], size: ReportSize) -> Strip:
    num_columns = min(size.strip_columns, len(distinct))
    counts = rows.counts()
    order = np.argsort(-counts, kind="stable")[: size.strip_rows]
    shares = shares_by_place(rows, order, distinct, num_columns)
    first, middle, last = time_labels(gp.fitted_.translation.clock, distinct[[0, len(distinct) // 2, -1]])
    shown = f"The {len(order):,} most observed of {rows.num_places:,} places. " if len(order) < rows.num_places else ""
    return Strip(
        names=tuple(rows.names[place] for place in order),
        num_rows=tuple(int(counts[place]) for place in order),
        shares=tuple(tuple(float(round(share, 3)) for share in line) for line in shares),
        first=first,
        middle=middle,
        last=last,
        note=f"{shown}Most observed first; darker is more complete.",
    )


def _step(unit: str, step: float) -> str:
    return step_in_words(step * UNIT_SECONDS[unit]) if unit in UNIT_SECONDS else f"{step:.4g} {unit}"
