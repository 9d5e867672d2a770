# SPDX-License-Identifier: MIT
"""How large a report may become."""

import dataclasses
from typing import final

__all__ = ["ReportSize"]


@final
@dataclasses.dataclass(frozen=True)
class ReportSize:
    """Limits on what is shown. With the defaults a report stays below 3 MB whatever the data.

    `map_points` counts cells times frames, at 4 bytes each; `series_points` stations times times, at 16 bytes each. `map_work` is what the
    points of a map may take in operations where each takes many: there are fewer frames then, of `fewest_cells` or more.
    """

    max_frames: int = 60
    map_points: int = 240_000
    most_cells: int = 10_000
    map_work: float = 5e10
    fewest_cells: int = 2_500
    max_stations: int = 80
    max_markers: int = 300
    series_points: int = 40_000
    max_held_out: int = 6_000
    strip_columns: int = 180
    strip_rows: int = 100
    residual_rows: int = 20_000
    component_rows: int = 2_000
