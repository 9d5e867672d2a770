# SPDX-License-Identifier: MIT
"""What a model says once it has seen data: the questions. Who answers them is in `single.py` and `with_habits.py`."""

import abc
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from weft.arrays import AnyArray, ArrayLike
from weft.data.archive import write_archive
from weft.data.observations import Observations, limits_per_row, numbers_per_row
from weft.data.on_disk import FileArrays
from weft.data.scaling import TargetScaling
from weft.inference.prediction import IDENTITY, Emission, Marginals, Prediction
from weft.likelihoods import RowExtras
from weft.likelihoods.base import check_extras
from weft.model import Model

KIND = "posterior"


class AskedRows(NamedTuple):
    """Rows to predict an observation at: times, places, and what the rows bring."""

    times: ArrayLike
    places: ArrayLike
    extra: RowExtras


class OneStepAhead(NamedTuple):
    """Each observed row as forecast from earlier times alone; `row` is its number in the data given, batch after batch."""

    row: Int[np.ndarray, " row"]
    residual: Float[np.ndarray, " row"]
    variance: Float[np.ndarray, " row"]


class OwnOfPlaces(NamedTuple):
    """One habit of places: what is each one's own besides the field, with its deviation.

    `component` is what the habit is called beside components of the kernel, None where it adds nothing to f; `spread` is the
    habit's deviation from place to place; `found` says where it is beyond doubt. Levels are in units of f.
    """

    name: str
    component: str | None
    words: str
    spread: float
    places: Float[np.ndarray, "place dim"]
    value: Float[np.ndarray, " place"]
    sd: Float[np.ndarray, " place"]
    found: Bool[np.ndarray, " place"]


class JointPart(NamedTuple):
    """What one of several posteriors says of f at some of the rows asked about.

    `weight` is that of its word at each, nothing where it only listens; `sees` marks those that it would learn from, were they measured.
    """

    rows: Int[np.ndarray, " part"]
    weight: Float[np.ndarray, " part"]
    sees: Bool[np.ndarray, " part"]
    covariance: Float[np.ndarray, "part part"]


class Posterior(abc.ABC):
    """Answers about f given data. Rows asked about may come in any order, repeat, and lie at any time and place."""

    @property
    @abc.abstractmethod
    def model(self) -> Model: ...

    @property
    @abc.abstractmethod
    def times(self) -> Float[np.ndarray, " time"]:
        """The distinct times of everything seen, sorted."""

    @property
    @abc.abstractmethod
    def num_columns(self) -> int:
        """How many coordinates a place has."""

    @property
    @abc.abstractmethod
    def basis_places(self) -> Float[AnyArray, "place dim"]:
        """Places that stand for where the model is: all of an exact one's, else pseudo-points."""

    @property
    @abc.abstractmethod
    def log_evidence(self) -> float:
        """The (approximate) log evidence of everything seen so far."""

    @property
    @abc.abstractmethod
    def batches(self) -> tuple[Observations, ...]:
        """The rows seen, as given; none where the posterior was saved without them."""

    @property
    def rows_are_on_disk(self) -> bool:
        """Whether the rows seen stay in files, and `update` puts more of them there."""
        return False

    @abc.abstractmethod
    def habits(self) -> tuple[OwnOfPlaces, ...]:
        """What places have of their own besides the field; nothing, unless somebody looked for it."""

    @abc.abstractmethod
    def marginals(self, times: ArrayLike, places: ArrayLike) -> Marginals:
        """Mean and variance of f at paired rows of times and places."""

    @abc.abstractmethod
    def filtered(self, times: ArrayLike, places: ArrayLike) -> Marginals:
        """Mean and variance of f at each row given only what was seen up to and including its time."""

    @abc.abstractmethod
    def components(self, times: ArrayLike, places: ArrayLike) -> tuple[Marginals, ...]:
        """Mean and variance of each component of the kernel, of the mean function if there is one, and of habits that add to f."""

    @abc.abstractmethod
    def fitted_values(self) -> Float[np.ndarray, " row"]:
        """Mean of f at the rows seen, in the order they are held: sorted by time."""

    def fitted_marginals(self, rows: Observations) -> Marginals:
        """Mean and variance of f at `rows`, which are those seen."""
        return self.marginals(rows.row_times, rows.row_places)

    @abc.abstractmethod
    def covariance(self, times: ArrayLike, places: ArrayLike) -> Float[np.ndarray, "query query"]:
        """Joint covariance of f over rows, across places and times."""

    def joint_parts(self, times: ArrayLike, places: ArrayLike) -> Iterator[JointPart]:
        """F at rows by posteriors that need no draws: the deviation at a row is the sum of theirs, each by its weight."""
        covariance = np.asarray(self.covariance(times, places))
        every = np.arange(len(covariance))
        yield JointPart(every, np.ones(len(every)), np.ones(len(every), dtype=bool), covariance)

    @abc.abstractmethod
    def aggregate(self, times: ArrayLike, places: ArrayLike, weights: ArrayLike) -> Marginals:
        """Mean and variance of a weighted sum of f over rows; of several sums where `weights` has a row each.

        No covariance over the rows is built, so a regional mean over years of days costs one pass.
        """

    def is_exact_over(self, times: ArrayLike, places: ArrayLike) -> bool:
        """Whether a joint answer over these rows needs no draws."""
        return True

    @abc.abstractmethod
    def sample(
        self, times: ArrayLike, places: ArrayLike, *, num: int = 1, seed: int = 0
    ) -> Float[np.ndarray, "draw query"]:
        """`num` joint draws of f over rows, across places and times, forecasts included; one draw a row of the answer."""

    @abc.abstractmethod
    def one_step_ahead(self) -> OneStepAhead:
        """Every observed value less its forecast from earlier times alone, and the variance of that difference.

        Rows at one time do not see each other. Gaussian likelihoods only.
        """

    @abc.abstractmethod
    def emission(self, times: ArrayLike, places: ArrayLike, extra: RowExtras) -> Emission:
        """What an observation at each row is, given f there; `extra` is what the rows bring."""

    @abc.abstractmethod
    def update(self, more: Observations) -> "Posterior":
        """The posterior given `more` rows as well. Rows after the last time cost what they add; late rows re-run from where they fall.

        An exact model with rows at new places, and any non-Gaussian likelihood, is conditioned again on everything.
        """

    @abc.abstractmethod
    def given_only(self, data: Observations) -> "Posterior":
        """The same parameters given these rows and no others."""

    @abc.abstractmethod
    def to_plain(self, arrays: FileArrays, *, with_rows: bool) -> dict[str, Any]:
        """JSON that `storage.read_posterior` makes this again from, under the name of its kind; arrays are appended to `arrays`."""

    def predict(
        self,
        times: ArrayLike,
        places: ArrayLike,
        *,
        noise_variance: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
        trials: ArrayLike | None = None,
        lower: ArrayLike | None = None,
        upper: ArrayLike | None = None,
    ) -> Prediction:
        """What would be observed; `noise_variance` (the rows' own), `exposure`, `trials` and limits as in Observations.

        Limits matter to the density of a value, which may be one of them; what is predicted lies on either side.
        """
        count = len(np.asarray(times))
        extra = RowExtras(
            noise_variance=numbers_per_row(noise_variance, "noise_variance", count, allows_zero=True),
            exposure=numbers_per_row(exposure, "exposure", count, allows_zero=False),
            trials=numbers_per_row(trials, "trials", count, allows_zero=False),
            lower=limits_per_row(lower, "lower", count),
            upper=limits_per_row(upper, "upper", count),
        )
        check_extras(self.model.likelihood, np.zeros(count), extra, None)
        return self.prediction(times, places, extra)

    def prediction(
        self, times: ArrayLike, places: ArrayLike, extra: RowExtras, target: TargetScaling = IDENTITY
    ) -> Prediction:
        """What would be observed at rows that bring `extra`, in the units of a target."""
        return self.predictions([AskedRows(times, places, extra)], target)[0]

    def predictions(self, asked: Sequence[AskedRows], target: TargetScaling = IDENTITY) -> list[Prediction]:
        """`prediction` of several groups of rows: f is asked for once, since a pass over the series answers for all."""
        latent = marginals_of_groups(self.marginals, [(each.times, each.places) for each in asked])
        return [
            Prediction(of_group, self.emission(*each), target) for of_group, each in zip(latent, asked, strict=True)
        ]

    def save(self, path: str | pathlib.Path, *, rows: bool = False) -> None:
        """Write everything answering needs to one file, whole or not at all; `weft.load` reads it.

        With `rows`, the observations themselves go in too: an update that has to start again needs them.
        """
        arrays: FileArrays = []
        # Down here, because that is the list of all kinds, of which this is the interface.
        from weft.inference.storage import read_posterior

        write_archive(path, KIND, self.to_plain(arrays, with_rows=rows), arrays, read=read_posterior)


def marginals_of_groups(
    answer: Callable[[ArrayLike, ArrayLike], Marginals], groups: Sequence[tuple[ArrayLike, ArrayLike]]
) -> list[Marginals]:
    """What `answer` says of the times and places of each group, asked about all of them at once."""
    if len(groups) == 1:
        return [answer(*groups[0])]
    ends = np.cumsum([len(np.asarray(times)) for times, _ in groups])[:-1]
    mean, variance = answer(*(np.concatenate(each) for each in zip(*groups, strict=True)))
    return [Marginals(*each) for each in zip(np.split(mean, ends), np.split(variance, ends), strict=True)]
