# SPDX-License-Identifier: MIT
"""What places have of their own besides the field, each found by turns with it; the one list of them."""

from weft.inference.habits.base import Finder, Habit
from weft.inference.habits.level import Level, find_level
from weft.inference.habits.neighbourhoods import NoiseOfNeighbourhoods
from weft.inference.habits.noise import Noise, find_noise
from weft.inference.habits.shift import Shift, find_shift
from weft.inference.habits.tails import TailsOfPlaces

__all__ = ["FINDERS", "HABITS", "Finder", "Habit"]

# By name: the class, and how one is found in data. In the order in which they are looked for: dates before values before noise.
HABITS: dict[str, type[Habit]] = {
    habit.name: habit for habit in (Shift, Level, Noise, NoiseOfNeighbourhoods, TailsOfPlaces)
}
FINDERS: dict[str, Finder] = {Shift.name: find_shift, Level.name: find_level, Noise.name: find_noise}
