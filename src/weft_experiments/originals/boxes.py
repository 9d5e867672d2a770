# SPDX-License-Identifier: MIT
"""A rectangle of latitudes and longitudes, in degrees."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

__all__ = ["Box"]


@dataclass(frozen=True)
class Box:
    """South and north in degrees of latitude, west and east in degrees of longitude."""

    south: float
    north: float
    west: float
    east: float

    def __post_init__(self) -> None:
        if not (self.south < self.north and self.west < self.east):
            raise ValueError(f"a box needs south < north and west < east; this one is {self}")

    def inside(self, lat: Float[np.ndarray, " place"], lon: Float[np.ndarray, " place"]) -> Bool[np.ndarray, " place"]:
        """Which places lie in the box, its border not counted."""
        return (self.south < lat) & (lat < self.north) & (self.west < lon) & (lon < self.east)

    def inside_half_open(
        self, lat: Float[np.ndarray, " place"], lon: Float[np.ndarray, " place"]
    ) -> Bool[np.ndarray, " place"]:
        """Which places lie in the box, its southern and western border counted."""
        return (self.south <= lat) & (lat < self.north) & (self.west <= lon) & (lon < self.east)
