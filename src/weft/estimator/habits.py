# SPDX-License-Identifier: MIT
"""What places have of their own, as a table and in sentences."""

from typing import TYPE_CHECKING

import numpy as np

from weft.estimator.components import PLACES
from weft.estimator.fitted import Fitted
from weft.inference.posterior import OwnOfPlaces

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["habits_in_words", "habits_table"]

# Deviations from none, from which a place is said to have a level of its own.
_CLEAR = 3.0


def habits_table(fitted: Fitted) -> "pd.DataFrame":
    """One line a place and habit: where, which, its value with its deviation, and whether it is beyond doubt (`found`).

    A level is in units of the (transformed) target; a noise is the place's deviation by the usual one; a shift is in steps of time.
    """
    import pandas as pd

    frames = []
    for own in _own_of_places(fitted):
        value, sd = own.value, own.sd
        if own.name == "level":
            value, sd = value * fitted.translation.target.scale, sd * fitted.translation.target.scale
        elif own.name in ("noise", "neighbourhoods"):
            # From the logarithm of a variance to a ratio of deviations.
            value, sd = np.exp(value / 2), np.exp(value / 2) * sd / 2
        where = fitted.translation.scaling.inverse(own.places)
        frames.append(pd.DataFrame({**where, "habit": own.name, "value": value, "sd": sd, "found": own.found}))
    if frames:
        return pd.concat(frames, ignore_index=True)
    return pd.DataFrame({name: [] for name in (*fitted.roles.space, "habit", "value", "sd", "found")})


def habits_in_words(fitted: Fitted) -> list[str]:
    """A sentence for each habit that some place has beyond doubt."""
    said = []
    for own in _own_of_places(fitted):
        count, places = int(own.found.sum()), len(own.places)
        if not count:
            continue
        of_all = f"{count:,} of {places:,} places"
        if own.name == "shift":
            late, early = int(np.sum(own.value < 0)), int(np.sum(own.value > 0))
            said.append(
                f"{of_all} seem to be dated a step off their neighbours: {late:,} a step late, {early:,} a step early; they "
                "are aligned before anything is learned."
            )
        elif own.name == "noise":
            loud = int(np.sum(own.found & (own.value > 0)))
            said.append(f"{of_all} differ from the rest in their noise: {loud:,} have more, {count - loud:,} less.")
        elif own.name == "level":
            said.append(f"{of_all} read higher or lower than the field around them throughout.")
    return said


def _own_of_places(fitted: Fitted) -> list[OwnOfPlaces]:
    """Habits around the field, and the levels that are a component of it."""
    found = [own for own in fitted.posterior.habits() if own.name != "tails"]
    if PLACES not in fitted.names:
        return found
    number = fitted.names.index(PLACES)
    places, of_components = fitted.components_of_places
    mean, variance = of_components[number]
    sd = np.sqrt(np.maximum(variance, 0.0))
    spread = float(np.sqrt(fitted.model.kernel.components[number].variance))
    words = "a level of its own at each place"
    level = OwnOfPlaces("level", PLACES, words, spread, places, mean, sd, np.abs(mean) > _CLEAR * sd)
    return [*found, level]
