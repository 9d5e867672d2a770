# SPDX-License-Identifier: MIT
"""What places have of their own besides the field, each found by turns with it; the one list of them."""

from weft.inference.habits.base import Finder, Habit
from weft.inference.habits.level import Level, find_level

__all__ = ["FINDERS", "HABITS", "Finder", "Habit"]

# By name: the class, and how one is found in data.
HABITS: dict[str, type[Habit]] = {Level.name: Level}
FINDERS: dict[str, Finder] = {Level.name: find_level}
