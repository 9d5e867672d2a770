# SPDX-License-Identifier: MIT
"""Regions that answer for a wide table: where they are, how many, and how well they agree where two have a say."""

from typing import TYPE_CHECKING

import numpy as np

from weft.data.tables import distinct_rows
from weft.estimator.fitted import Fitted
from weft.estimator.gridding import map_columns
from weft.estimator.wide import at_a_glance, how_regions_answer, regional_of
from weft.report.content import Figure
from weft.report.figures import regions_figure

if TYPE_CHECKING:
    from weft.space_time_gp import SpaceTimeGP

__all__ = ["region_figures", "region_words"]

# Places drawn: more would make the page heavy and the picture no clearer.
_MOST_DRAWN = 2_000
# Deviations by which regions may differ at a border before a map shows it.
_SEEN = 0.5


def region_words(fitted: Fitted) -> list[str]:
    """Sentences; none where one model answers."""
    regional = regional_of(fitted.posterior)
    if regional is None:
        return []
    seen = [len(region.rows) for region in regional.division.regions]
    glance = at_a_glance(regional)
    looked_at = regional_of(glance.posterior)
    assert looked_at is not None
    seam = looked_at.seam(most_regions=glance.most_regions)
    lines = [
        f"{regional.num_regions:,} regions answer, each by a model of up to {max(seen):,} rows, those around it "
        f"included, {how_regions_answer(regional)}; the parameters are the same in all."
    ]
    if seam.num_points:
        lines.append(
            f"Where two of them have a say, they differ by less than {seam.usual:.2g} deviations at 95 % of {seam.num_points:,} rows, by "
            f"{seam.largest:.2g} at most; what is shown is blended."
            + (" Borders may show on a map: ask for fewer regions." if seam.usual > _SEEN else "")
        )
    return lines


def region_figures(gp: "SpaceTimeGP") -> tuple[Figure, ...]:
    """A map of them, where there are some and a map can be drawn."""
    fitted = gp.fitted_
    regional, columns = regional_of(fitted.posterior), map_columns(fitted)
    if regional is None or len(columns) < 2:
        return ()
    number = np.empty(regional.rows.num_rows, dtype=np.int64)
    for which, region in enumerate(regional.division.regions):
        number[region.rows[region.is_core]] = which
    row_places = regional.rows.row_places[:, : fitted.translation.num_space]
    first, _ = distinct_rows(list(row_places.T))
    first = first[np.lexsort(row_places[first].T[::-1])]
    places = row_places[first]
    chosen = np.unique(np.linspace(0, len(places) - 1, _MOST_DRAWN).astype(np.int64))
    at = fitted.translation.scaling.inverse(places[chosen])
    across, up = columns
    return (regions_figure("regions", at[across], at[up], number[first[chosen]], (across, up)),)
