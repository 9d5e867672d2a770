# SPDX-License-Identifier: MIT
"""The rows of a station that is not there."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.data.categories import MISSING
from weft.estimator.fitted import Fitted
from weft.estimator.gridding import read_times

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["rows_at"]


def rows_at(fitted: Fitted, place: Any, times: Any) -> "pd.DataFrame":
    """A row for each of these times, all that the model has seen unless given, at one place or of one area."""
    import pandas as pd

    roles, clock = fitted.roles, fitted.translation.clock
    place = _by_name(place, (*roles.space, *roles.covariates), roles.where)
    # An area is where its points are, and says nothing else of where.
    area = roles.area if roles.area is not None and place.get(roles.area, MISSING) != MISSING else None
    wanted = (*(roles.space if area is None else (area,)), *roles.covariates)
    for name in wanted:
        if name not in place:
            raise ValueError(f"a point needs {', '.join(wanted)}; {name} is missing")
    unknown = [name for name in place if name not in (*wanted, *roles.where)]
    if unknown:
        raise ValueError(f"a point needs {', '.join(wanted)}, and knows no {unknown[0]!r}")
    when = fitted.times if times is None else read_times(clock, times, roles.time)
    text = (*roles.categories, *(roles.kinds if area is None else (area,)))
    known: dict[str, Any] = {} if area is None else dict.fromkeys(roles.space, np.nan)
    known |= {name: place[name] for name in text}
    for name in wanted:
        if name in known:
            continue
        try:
            known[name] = float(place[name])
        except (TypeError, ValueError):
            raise ValueError(f"{name} of a point must be a number; it is {place[name]!r}") from None
    columns = {name: np.full(len(when), number) for name, number in known.items()}
    return pd.DataFrame({roles.time: clock.restore(when), **columns})


def _by_name(place: Any, wanted: Sequence[str], where: Sequence[str]) -> Mapping[str, Any]:
    """A place by its columns; bare numbers are those of space, then of covariates, in the model's order.

    A row of a frame has names, which may stand in another order, among others such as a date that say nothing of where.
    """
    import pandas as pd

    if isinstance(place, Mapping):
        return place
    if isinstance(place, pd.Series) and all(isinstance(name, str) for name in place.index):
        return {str(name): value for name, value in place.items() if name in (*wanted, *where)}
    numbers = list(place) if np.iterable(place) and not isinstance(place, str) else [place]
    if len(numbers) != len(wanted):
        raise ValueError(f"a point needs {', '.join(wanted)}, by name or in this order; it is {place!r}")
    return dict(zip(wanted, numbers, strict=True))
