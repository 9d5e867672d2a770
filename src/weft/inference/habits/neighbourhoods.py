# SPDX-License-Identifier: MIT
"""A noise variance that differs over the map, where hardly any place is seen twice and none can have a noise of its own."""

import dataclasses
from collections.abc import Callable
from types import MappingProxyType
from typing import ClassVar, final

import equinox as eqx
import numpy as np
from jaxtyping import Float

from weft.data.observations import Observations
from weft.data.schema import Numbers, Schema
from weft.inference.habits.base import AskedPlaces, Habit, Places, Times
from weft.inference.posterior import OwnOfPlaces, Posterior
from weft.kernels import EQ, Uneven
from weft.likelihoods import Gaussian
from weft.model import Model

__all__ = ["NoiseOfNeighbourhoods"]


@final
@dataclasses.dataclass(frozen=True)
class NoiseOfNeighbourhoods(Habit):
    """The logarithm of the noise variance at each of some `centres`, between which it is averaged as `weft.Uneven` averages.

    `log_sd` is how well each is known.
    """

    name: ClassVar[str] = "neighbourhoods"
    schema: ClassVar[Schema] = MappingProxyType(
        {
            "centres": Numbers(("centre", "dim")),
            "width": Numbers(("dim",), least=0.0, endless=True),
            "logarithms": Numbers(("centre",)),
            "log_sd": Numbers(("centre",), least=0.0),
        }
    )

    centres: Float[np.ndarray, "centre dim"]
    width: Float[np.ndarray, " dim"]
    logarithms: Float[np.ndarray, " centre"]
    log_sd: Float[np.ndarray, " centre"]

    @property
    def base(self) -> float:
        """The model's own: that of the quietest neighbourhood, to which the others add."""
        return float(np.exp(self.logarithms.min()))

    def field_model(self, model: Model) -> Model:
        assert isinstance(model.likelihood, Gaussian)
        return eqx.tree_at(lambda each: each.likelihood.variance, model, np.asarray(self.base))

    def told(self, data: Observations) -> Observations:
        return self._with_noise(data, self._given(data) + self._at(data.row_places))

    def untold(self, data: Observations) -> Observations:
        return self._with_noise(data, np.maximum(self._given(data) - self._at(data.row_places), 0.0))

    def noise_variance(self, times: Times, places: AskedPlaces) -> Float[np.ndarray, " query"]:
        return places.each(self._at)

    def again(self, field: Callable[[], Posterior], data: Observations) -> "NoiseOfNeighbourhoods":
        """What was learned of the map stays."""
        return self

    def only_at(self, places: Float[np.ndarray, "place dim"]) -> "NoiseOfNeighbourhoods":
        """A map knows every place."""
        return self

    def describe(self) -> OwnOfPlaces:
        ratio = self.logarithms - np.median(self.logarithms)
        return OwnOfPlaces(
            name=self.name,
            component=None,
            words="a noise that differs over the map: value is the logarithm of its variance by the usual one",
            spread=float(np.std(self.logarithms)),
            places=self.centres,
            value=ratio,
            sd=self.log_sd,
            found=np.zeros(len(ratio), dtype=bool),
        )

    def _at(self, places: Places) -> Float[np.ndarray, " query"]:
        """What comes to the model's noise variance."""
        map_of_noise = Uneven(EQ(1.0), self.logarithms, self.centres, self.width)
        return np.maximum(np.asarray(map_of_noise.strengths(places)) - self.base, 0.0)

    @staticmethod
    def _given(data: Observations) -> Float[np.ndarray, " row"]:
        return np.zeros(data.num_rows) if data.noise_variance is None else np.asarray(data.noise_variance)

    @staticmethod
    def _with_noise(data: Observations, noise: Float[np.ndarray, " row"]) -> Observations:
        return eqx.tree_at(lambda held: held.noise_variance, data, noise, is_leaf=lambda leaf: leaf is None)
