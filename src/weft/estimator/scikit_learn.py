# SPDX-License-Identifier: MIT
"""What scikit-learn's tools ask of an estimator, without needing scikit-learn: tags, and one number for a score."""

import dataclasses
from collections.abc import Mapping
from typing import Any, final

from weft.notebook import facts_html
from weft.scores import MEANINGS

__all__ = ["Scorer", "Scores", "regressor_tags", "scorer"]


@final
class Scores(dict[str, float | int]):
    """Named scores of a prediction, and under "score" the one that scikit-learn's tools go by where they are told no other.

    That is mean CRPS with its sign turned, as higher is better there. `GridSearchCV` looks it up by this name (and keeps the
    others in its results); `cross_val_score` asks for the `item` of whatever is no number.
    """

    def __init__(self, named: Mapping[str, float | int]):
        dict.__init__(self, named, score=-float(named["mean_crps"]))

    def item(self) -> float:
        return float(self["score"])

    def _repr_html_(self) -> str:
        labels = {name: MEANINGS[name].label if name in MEANINGS else name.replace("_", " ") for name in self}
        return facts_html([[labels[name], f"{value:.4g}"] for name, value in self.items()])


@final
@dataclasses.dataclass(frozen=True)
class Scorer:
    """One of an estimator's scores as scikit-learn's `scoring=` takes it; the higher the better."""

    name: str
    sign: float

    def __call__(self, estimator: Any, table: Any, y: Any = None) -> float:
        return self.sign * float(estimator.score(table)[self.name])


def scorer(name: str = "mean_crps") -> Scorer:
    """`scoring=weft.scorer("rmse")` for scikit-learn's `GridSearchCV`, `cross_val_score` and others; scores that are losses change sign."""
    signs = {"low": -1.0, "high": 1.0}
    known = {score: signs[meaning.best] for score, meaning in MEANINGS.items() if meaning.best in signs}
    known["crps_skill"] = 1.0
    if name not in known:
        raise ValueError(f"scorer takes one of {', '.join(known)}; it was given {name!r}")
    return Scorer(name, known[name])


def regressor_tags() -> Any:
    """The tags of a regressor whose target is a column of the table it is given, gaps and text allowed; asked for by scikit-learn alone."""
    from sklearn.utils import InputTags, RegressorTags, Tags, TargetTags

    return Tags(
        estimator_type="regressor",
        target_tags=TargetTags(required=False),
        regressor_tags=RegressorTags(),
        input_tags=InputTags(allow_nan=True, string=True),
    )
