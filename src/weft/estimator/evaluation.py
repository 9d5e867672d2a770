# SPDX-License-Identifier: MIT
"""Honest scores: of held-out rows, beside what anyone could predict without a model, row by row or summed up."""

import dataclasses
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np
from jaxtyping import Float, Int

from weft.baselines import Baseline, available_baselines, fit_baselines, natural_periods
from weft.data.clock import UNIT_SECONDS
from weft.data.tables import distinct_rows
from weft.estimator.columns import Measurements
from weft.estimator.defaults import median_step
from weft.estimator.translation import Translation
from weft.inference.prediction import Prediction
from weft.scores import RowScores, paired_difference, score_rows, summarise, tidy_table

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "INTERVAL",
    "MODEL",
    "FitBaselines",
    "KeptBaselines",
    "Scored",
    "Sheet",
    "compare_rows",
    "make_sheet",
    "row_scores",
    "rows_frame",
    "score_beside_baselines",
    "summaries_of",
    "tidy_scores",
]

MODEL = "weft"
# The levels of the ends of the interval that is kept with every scored row.
INTERVAL = (0.05, 0.95)
_PER_ROW = ("value", "error", "crps", "log_density", "pit")


@final
@dataclasses.dataclass(frozen=True)
class Sheet:
    """Rows as scores and baselines see them: times, places on the map, and values in the target's own units."""

    times: Float[np.ndarray, " row"]
    places: Float[np.ndarray, "row dim"]
    values: Float[np.ndarray, " row"]

    def take(self, rows: Int[np.ndarray, " some"]) -> "Sheet":
        return Sheet(self.times[rows], self.places[rows], self.values[rows])


def make_sheet(rows: Measurements, translation: Translation) -> Sheet:
    assert rows.values is not None
    scaling = translation.scaling
    places = scaling.forward(rows.space)[:, scaling.map_dimensions]
    return Sheet(translation.times(rows), places, rows.values)


def periods_in(times: Float[np.ndarray, " row"], translation: Translation) -> tuple[float, ...]:
    """The cycles that climatology may know of: year and day, where these times can show them."""
    distinct = np.unique(times)
    if translation.clock.unit not in UNIT_SECONDS or len(distinct) < 2:
        return ()
    return natural_periods(UNIT_SECONDS[translation.clock.unit], float(np.ptp(distinct)), median_step(distinct))


# `fit_baselines`, or what stands for it.
FitBaselines = Callable[..., Iterable[tuple[str, Baseline]]]


@final
class KeptBaselines:
    """`fit_baselines` for the parts of a table, which are all held against the same rows: what was fitted for the first is kept."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[tuple[str, ...], list[tuple[str, Baseline]]] = {}

    def __call__(self, names: Sequence[str], *rows: Any, **options: Any) -> list[tuple[str, Baseline]]:
        with self._lock:
            if tuple(names) not in self._kept:
                self._kept[tuple(names)] = list(fit_baselines(names, *rows, **options))
            return self._kept[tuple(names)]


@final
@dataclasses.dataclass(frozen=True)
class Scored:
    """Scores of rows by model, ours first, and the ends of our own interval at each row."""

    scores: dict[str, RowScores]
    interval: Float[np.ndarray, "test 2"]


def score_beside_baselines(
    prediction: Prediction,
    train: Sheet | None,
    test: Sheet,
    translation: Translation,
    *,
    seed: int,
    is_forecast: bool | None = None,
    fit: FitBaselines = fit_baselines,
) -> Scored:
    """Our scores, then those of every baseline given the rows of `train`; of none where those are not known.

    Persistence is there only where test rows come after training rows, as `is_forecast` says, or the times themselves. `fit` is who fits
    the baselines.
    """
    scores = {MODEL: prediction.score(test.values, seed)}
    if train is not None:
        if is_forecast is None:
            is_forecast = bool(len(test.times)) and float(test.times.min()) > float(train.times.max())
        periods = periods_in(train.times, translation)
        names = [name for name in available_baselines() if name != "persistence" or is_forecast]
        for name, baseline in fit(names, train.times, train.places, train.values, periods=periods, seed=seed):
            forecast = baseline.predict(test.times, test.places)
            scores[name] = score_rows(test.values, forecast.mean, forecast.sd)
    return Scored(scores, prediction.quantile(INTERVAL))


def rows_frame(
    scored: Scored, rows: Int[np.ndarray, " test"], sheet: Sheet, *, fold: int | str = "all"
) -> "pd.DataFrame":
    """One line a model and scored row; `rows` says which rows of the sheet were tested, `place` numbers its places.

    `low` and `high` are the ends of our own 90 % interval, and not given for baselines.
    """
    import pandas as pd

    place = distinct_rows(list(sheet.places.T))[1]
    frames = []
    for model, each in scored.scores.items():
        where = rows[each.rows]
        columns = {"value": each.values} | {name: getattr(each, name) for name in _PER_ROW if name != "value"}
        ends = scored.interval[each.rows] if model == MODEL else np.full((len(where), 2), np.nan)
        frames.append(
            pd.DataFrame(
                {
                    "fold": fold,
                    "model": model,
                    "row": where,
                    "time": sheet.times[where],
                    "place": place[where],
                    **columns,
                    "low": ends[:, 0],
                    "high": ends[:, 1],
                }
            )
        )
    return pd.concat(frames, ignore_index=True)


def summaries_of(frame: "pd.DataFrame", target_sd: float) -> dict[str, dict[str, float | int]]:
    """Named scores of each model in a frame of rows."""
    return {str(model): summarise(row_scores(part), target_sd) for model, part in frame.groupby("model", sort=False)}


def tidy_scores(frame: "pd.DataFrame", target_sd: float, by: str) -> "pd.DataFrame":
    """`by`, `fold` ("all", then each), `model`, `score`, `value`."""
    import pandas as pd

    parts = [tidy_table(summaries_of(frame, target_sd), by=by, fold="all")]
    for fold, part in frame.groupby("fold", sort=True):
        parts.append(tidy_table(summaries_of(part, target_sd), by=by, fold=str(fold)))
    return pd.concat(parts, ignore_index=True)


def compare_rows(a: "pd.DataFrame", b: "pd.DataFrame") -> "pd.DataFrame":
    """Scores of two models on the rows both have, their difference and its standard error.

    Rows of one time, or of one place, err together; the standard errors let them.
    """
    import pandas as pd

    first, second = _one_model(a), _one_model(b)
    both = first.merge(second, on="row", suffixes=("_a", "_b"), validate="one_to_one")
    if len(both) == 0:
        raise ValueError("the two have no row in common; score both on the same table")
    if not np.array_equal(both["value_a"], both["value_b"]):
        raise ValueError("the two were scored on different values; score both on the same table")
    groups = (both["time_a"].to_numpy(), both["place_a"].to_numpy())
    lines = []
    for name, score in _LOSSES.items():
        each_a, each_b = (score(both, end) for end in ("_a", "_b"))
        difference = paired_difference(each_a, each_b, groups)
        lines.append(
            {
                "score": name,
                "a": float(np.mean(each_a)),
                "b": float(np.mean(each_b)),
                "difference": difference.mean,
                "standard_error": difference.standard_error,
                "ratio": difference.ratio,
                "num_rows": difference.num_rows,
                "num_groups": difference.num_groups,
            }
        )
    return pd.DataFrame(lines)


_LOSSES: dict[str, Callable[["pd.DataFrame", str], np.ndarray]] = {
    "mean_crps": lambda rows, end: rows[f"crps{end}"].to_numpy(),
    "mean_negative_log_density": lambda rows, end: -rows[f"log_density{end}"].to_numpy(),
    "mean_squared_error": lambda rows, end: rows[f"error{end}"].to_numpy() ** 2,
    "mae": lambda rows, end: np.abs(rows[f"error{end}"].to_numpy()),
}


def _one_model(frame: "pd.DataFrame") -> "pd.DataFrame":
    missing = [name for name in ("row", "model", "time", "place", *_PER_ROW) if name not in frame.columns]
    if missing:
        raise ValueError(f"a frame of scored rows has a column {missing[0]!r}, and this one has {list(frame.columns)}")
    models = list(frame["model"].unique())
    if len(models) == 1:
        return frame
    if MODEL not in models:
        raise ValueError(f"the rows are of several models ({', '.join(models)}); choose those of one")
    return frame[frame["model"] == MODEL]


def row_scores(frame: "pd.DataFrame") -> RowScores:
    columns = {name: frame[name].to_numpy() for name in ("error", "crps", "log_density", "pit")}
    return RowScores(rows=frame["row"].to_numpy(), values=frame["value"].to_numpy(), num_missing=0, **columns)


def joined(frames: Iterable["pd.DataFrame"]) -> "pd.DataFrame":
    import pandas as pd

    return pd.concat(list(frames), ignore_index=True)
