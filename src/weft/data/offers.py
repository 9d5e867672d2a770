# SPDX-License-Identifier: MIT
"""Which further columns of a table could be covariates, and which only say again what the target says."""

import dataclasses
from collections.abc import Iterable
from typing import final

import numpy as np
from jaxtyping import Float

from weft.data.categories import is_category, labels_of
from weft.data.tables import Table, numbers

__all__ = ["Offers", "offer_covariates"]

# Rows looked at; the first ones, because a table may be larger than memory.
_ROWS = 100_000
_FEWEST_ROWS = 20
# A text with more levels, or with fewer rows a level, is a name rather than a kind.
_MOST_LEVELS = 30
_ROWS_PER_LEVEL = 10
# Beyond this (rank) correlation a column is the target in other units.
_SAME = 0.999


@final
@dataclasses.dataclass(frozen=True)
class Offers:
    """Columns that could be covariates: numbers, and text with few levels; `copies` are functions of the target."""

    numbers: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    copies: tuple[str, ...] = ()

    def notes(self, target: str) -> tuple[str, ...]:
        """What to say of them."""
        said = []
        if self.numbers:
            said.append(f"further columns of numbers that could be covariates: {', '.join(self.numbers)}")
        if self.categories:
            said.append(f"columns of text with few levels that could be covariates: {', '.join(self.categories)}")
        if self.copies:
            said.append(
                f"{', '.join(self.copies)} must not be a covariate: it is a function of {target!r} by its correlation, "
                "so that a model would learn nothing but to copy it"
            )
        return tuple(said)


def offer_covariates(table: Table, target: str, candidates: Iterable[str]) -> Offers:
    """What each of the candidates could be; those that are none (dates, names, constants) are in no list."""
    some = table.rows(0, min(table.num_rows, _ROWS))
    values = numbers(some.column(target), target)
    found: dict[str, list[str]] = {"numbers": [], "categories": [], "copies": []}
    for name in candidates:
        column = some.column(name)
        if is_category(column, name):
            labels = labels_of(column)
            num_levels = len(np.unique(labels))
            kind = "categories" if 2 <= num_levels <= min(_MOST_LEVELS, len(labels) / _ROWS_PER_LEVEL) else None
            same = 0.0 if kind is None else _share_between(np.unique(labels, return_inverse=True)[1], values)
        else:
            try:
                given = numbers(column, name)
            except (TypeError, ValueError):
                continue
            kind, same = "numbers", _rank_correlation(given, values)
        if kind is not None:
            found["copies" if same > _SAME else kind].append(name)
    return Offers(**{kind: tuple(names) for kind, names in found.items()})


def _rank_correlation(given: Float[np.ndarray, " row"], values: Float[np.ndarray, " row"]) -> float:
    """Whether one is a rising or falling function of the other: 1 where it is."""
    both = ~(np.isnan(given) | np.isnan(values))
    if both.sum() < _FEWEST_ROWS:
        return 0.0
    ranks = [_ranks(column[both]) for column in (given, values)]
    if min(np.ptp(ranks[0]), np.ptp(ranks[1])) == 0:
        return 0.0
    return float(np.abs(np.corrcoef(ranks[0], ranks[1])[0, 1]))


def _share_between(level: np.ndarray, values: Float[np.ndarray, " row"]) -> float:
    """The part of the variance of the values' ranks that lies between levels."""
    known = ~np.isnan(values)
    if known.sum() < _FEWEST_ROWS or np.ptp(values[known]) == 0:
        return 0.0
    ranks, level = _ranks(values[known]), level[known]
    counts = np.maximum(np.bincount(level), 1)
    means = np.bincount(level, ranks) / counts
    return float(np.var(means[level]) / np.var(ranks))


def _ranks(values: Float[np.ndarray, " row"]) -> Float[np.ndarray, " row"]:
    # Only a survey needs it, and it takes a third of a second to import.
    from scipy.stats import rankdata

    return rankdata(values)
