# SPDX-License-Identifier: MIT
"""What a habit of places has to say: about rows that come in, and about answers that go out."""

import abc
from typing import Any, ClassVar, Protocol

import numpy as np
from jaxtyping import Float

from weft.data.observations import Observations
from weft.inference.posterior import OwnOfPlaces, Posterior
from weft.inference.prediction import Marginals

Times = Float[np.ndarray, " query"]
Places = Float[np.ndarray, "query dim"]


class Habit(abc.ABC):
    """Something of each place's own besides the field. A habit says what it changes; what it leaves alone it need not mention.

    Rows go to the field as `told` makes them and come back as `untold`. The field is asked at `asked` times; to its answers come
    `effect` and, to an observation's noise, `noise_variance`.
    """

    name: ClassVar[str]
    # Whether it adds anything to f; only then are the questions about its effect asked.
    adds_to_f: ClassVar[bool] = False

    def told(self, data: Observations) -> Observations:
        """What the field learns of these rows."""
        return data

    def untold(self, data: Observations) -> Observations:
        """The rows that `told` was given."""
        return data

    def asked(self, times: Times, places: Places) -> Times:
        """The times at which the field holds what is asked about."""
        return times

    def effect(self, times: Times, places: Places) -> Marginals:
        """What is added to f at each row, independent of the field."""
        raise NotImplementedError

    def effect_on_sums(
        self, times: Times, places: Places, sums: Float[np.ndarray, "query sum"]
    ) -> tuple[Float[np.ndarray, " sum"], Float[np.ndarray, "sum sum"]]:
        """Mean and covariance of what is added to weighted sums of f over the rows."""
        raise NotImplementedError

    def effect_draws(
        self, times: Times, places: Places, num: int, generator: np.random.Generator
    ) -> Float[np.ndarray, "draw query"]:
        """Joint draws of what is added to f at the rows."""
        raise NotImplementedError

    def noise_variance(self, times: Times, places: Places) -> Float[np.ndarray, " query"] | None:
        """What is added to the variance of each row's noise; None where nothing is."""
        return None

    @abc.abstractmethod
    def again(self, field: Posterior, data: Observations) -> "Habit":
        """The habit as these rows show it, given the field; what was learned about places in general stays."""

    @abc.abstractmethod
    def describe(self) -> OwnOfPlaces: ...

    @abc.abstractmethod
    def to_plain(self) -> dict[str, Any]:
        """Numbers and arrays by name, from which `from_plain` makes it again."""

    @classmethod
    @abc.abstractmethod
    def from_plain(cls, plain: dict[str, Any]) -> "Habit": ...


class Finder(Protocol):
    """Looks for a habit in rows, given a field; None where there is none worth keeping.

    The first `num_space` columns of a place say where it is; the rest are covariates.
    """

    def __call__(self, field: Posterior, data: Observations, num_space: int) -> Habit | None: ...
