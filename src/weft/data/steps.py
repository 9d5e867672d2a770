# SPDX-License-Identifier: MIT
"""The step that times are put on where nobody names one: each row its own second, and times, not rows, decide what a model takes.

What a place does between two of its rows no model of these rows knows better than from place to place, and times a tenth of that apart are
as good as one: of a field that forgets as fast as can be seen, a row then has a thirtieth of what changes from one row of its place to
the next for a further noise.
"""

import numpy as np
from jaxtyping import Float, Int

from weft.data.clock import UNIT_SECONDS, Clock

__all__ = ["MOST_ROWS_A_TIME", "suitable_step"]

# One matrix of fewer rows is no trouble, whatever their times.
FEWEST_ROWS = 2_000
# Of the usual time between two rows of a place.
PART = 0.1
# Times that are to become one on average, or it is not worth it; and the most rows a time that there may be before.
FEWEST_MERGED = 2.0
MOST_ROWS_A_TIME = 10.0
# Steps of dates, in seconds, none of which moves a day; of numbers, by powers of ten.
STEPS = {
    **{"1s": 1, "2s": 2, "5s": 5, "10s": 10, "30s": 30},
    **{"1min": 60, "2min": 120, "5min": 300, "10min": 600, "30min": 1800},
    **{"1h": 3600, "2h": 7200, "3h": 10800, "6h": 21600, "12h": 43200, "1D": 86400},
}
DIGITS = (5.0, 2.0, 1.0)
# A step of more than an hour hides the hour of the day: of the variance within steps, what that may explain before an hour it is.
DAY, HOUR = 86400.0, 3600
MOST_DAILY = 0.01


def suitable_step(
    clock: Clock,
    times: Float[np.ndarray, " row"],
    place: Int[np.ndarray, " row"],
    values: Float[np.ndarray, " row"],
    *,
    by_rows: bool,
) -> str | float | None:
    """The step to put these times of `clock` on, rows being at places of these numbers; None where it is not worth it.

    `by_rows` says that rows of which hardly two are at one place are modelled row by row, where times cost nothing. Else, of such rows
    spread evenly over a map and time, the next is a step of the cube root of their number away.
    """
    # Observations load JAX, which nobody who only looks at a table waits for.
    from weft.data.observations import REPEATS

    num_rows, distinct = len(times), np.unique(times)
    if num_rows < FEWEST_ROWS or num_rows > MOST_ROWS_A_TIME * len(distinct):
        return None
    repeats = num_rows >= REPEATS * (int(place.max()) + 1)
    if not repeats and by_rows:
        return None
    apart = _between_rows(times, place) if repeats else float(np.ptp(distinct)) / num_rows ** (1 / 3)
    step, width = _at_most(clock, PART * apart)
    hides_hours = clock.unit in UNIT_SECONDS and width * UNIT_SECONDS[clock.unit] > HOUR
    if hides_hours and _daily_share(clock, times, values, width) > MOST_DAILY:
        step, width = _at_most(clock, HOUR / UNIT_SECONDS[clock.unit])
    if step is None or FEWEST_MERGED * len(np.unique(np.floor(distinct / width))) > len(distinct):
        return None
    return step


def _between_rows(times: Float[np.ndarray, " row"], place: Int[np.ndarray, " row"]) -> float:
    """The usual time from one row of a place to its next."""
    order = np.lexsort((times, place))
    later = np.diff(times[order])[(np.diff(place[order]) == 0) & (np.diff(times[order]) > 0)]
    return float(np.median(later)) if len(later) else 0.0


def _at_most(clock: Clock, most: float) -> tuple[str | float | None, float]:
    """The longest step that is not longer, as it is written and in the clock's unit."""
    if not most > 0:
        return None, 0.0
    if clock.kind == "number":
        power = 10.0 ** np.floor(np.log10(most))
        found = float(f"{next(digit for digit in DIGITS if digit * power <= most) * power:.1g}")
        return found, found
    unit = UNIT_SECONDS[clock.unit]
    within = [words for words, seconds in STEPS.items() if seconds <= most * unit * (1 + 1e-9)]
    return (within[-1], STEPS[within[-1]] / unit) if within else (None, 0.0)


def _daily_share(
    clock: Clock, times: Float[np.ndarray, " row"], values: Float[np.ndarray, " row"], width: float
) -> float:
    """Of the variance within steps so wide, the share that a wave of a day explains."""
    present = ~np.isnan(values)
    _, step = np.unique(np.floor(times[present] / width), return_inverse=True)
    turns = 2 * np.pi * times[present] * UNIT_SECONDS[clock.unit] / DAY
    counts = np.bincount(step)
    within = [
        column - (np.bincount(step, weights=column) / counts)[step]
        for column in (values[present], np.sin(turns), np.cos(turns))
    ]
    total = float(np.sum(within[0] ** 2))
    waves = np.stack(within[1:], axis=1)
    left = within[0] - waves @ np.linalg.lstsq(waves, within[0])[0]
    return 1.0 - float(np.sum(left**2)) / total if total > 0 else 0.0
