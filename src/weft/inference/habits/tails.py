# SPDX-License-Identifier: MIT
"""Tails of predictions at places seen before and at places never seen, where level, noise and dates are anybody's guess."""

import dataclasses
from collections.abc import Callable
from types import MappingProxyType
from typing import Any, ClassVar, final

import numpy as np
from jaxtyping import Float

from weft.data.observations import Observations
from weft.data.places import distinct_places
from weft.data.schema import Numbers, Schema
from weft.inference.habits.base import AskedPlaces, Habit, Times, asked_numbers, place_numbers
from weft.inference.posterior import OwnOfPlaces, Posterior
from weft.inference.prediction import Emission
from weft.inference.tails import HeavyTailed, Tails

__all__ = ["TailsOfPlaces"]

_NAMES = ("freedom", "scale", "reach")


@final
@dataclasses.dataclass(frozen=True)
class TailsOfPlaces(Habit):
    """Tails at the places seen, and at all others."""

    name: ClassVar[str] = "tails"
    schema: ClassVar[Schema] = MappingProxyType(
        {
            "places": Numbers(("place", "dim")),
            **{f"{where}_{name}": Numbers(least=0.0) for where in ("seen", "unseen") for name in _NAMES},
        }
    )

    places: Float[np.ndarray, "place dim"]
    seen: Tails
    unseen: Tails

    def emitted(self, emission: Emission, times: Times, places: AskedPlaces) -> Emission:
        is_seen = places.each(lambda distinct: asked_numbers(self.places, distinct) >= 0)
        freedom, scale, reach = (
            np.where(is_seen, getattr(self.seen, name), getattr(self.unseen, name)) for name in _NAMES
        )
        return HeavyTailed(emission, freedom, scale, reach)

    def again(self, field: Callable[[], Posterior], data: Observations) -> "TailsOfPlaces":
        """The same tails, at the places of these rows."""
        return dataclasses.replace(self, places=distinct_places(data.places[:, : self.places.shape[1]])[0])

    def only_at(self, places: Float[np.ndarray, "place dim"]) -> "TailsOfPlaces":
        return dataclasses.replace(self, places=self.places[place_numbers(places, self.places) >= 0])

    def describe(self) -> OwnOfPlaces:
        count = len(self.places)
        return OwnOfPlaces(
            name=self.name,
            component=None,
            words=(
                f"predictions have the tails of a Student-t of {self.seen.freedom:.3g} degrees of freedom, by "
                f"{self.seen.scale:.2f}; at places never seen {self.unseen.freedom:.3g}, by {self.unseen.scale:.2f}"
            ),
            spread=self.seen.deviation,
            places=self.places,
            value=np.full(count, self.seen.deviation),
            sd=np.zeros(count),
            found=np.zeros(count, dtype=bool),
        )

    def to_plain(self) -> dict[str, Any]:
        numbers = {
            f"{where}_{name}": getattr(getattr(self, where), name) for where in ("seen", "unseen") for name in _NAMES
        }
        return {"places": self.places, **numbers}

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> "TailsOfPlaces":
        seen, unseen = (Tails(*(plain[f"{where}_{name}"] for name in _NAMES)) for where in ("seen", "unseen"))
        return cls(plain["places"], seen, unseen)
