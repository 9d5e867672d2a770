# SPDX-License-Identifier: MIT
"""Posteriors of every kind as plain data, and back: the one list of who can be stored."""

from collections.abc import Callable
from typing import Any

from weft.arrays import require_float64
from weft.data.on_disk import FileArrays
from weft.data.schema import check_numbers
from weft.inference.on_disk import PosteriorOnDisk
from weft.inference.posterior import Posterior
from weft.inference.regional import RegionalPosterior
from weft.inference.single import SinglePosterior
from weft.inference.with_habits import PosteriorWithHabits

# One posterior out of plain data and arrays.
Reader = Callable[[dict[str, Any], FileArrays], Posterior]

# By the kind that `to_plain` notes: how each is made again. A posterior around others reads them by the second argument.
KINDS: dict[str, Callable[[dict[str, Any], FileArrays, Reader], Posterior]] = {
    SinglePosterior.kind: lambda plain, arrays, read: SinglePosterior.from_plain(plain, arrays),
    PosteriorWithHabits.kind: PosteriorWithHabits.from_plain,
    RegionalPosterior.kind: lambda plain, arrays, read: RegionalPosterior.from_plain(plain, arrays),
    PosteriorOnDisk.kind: lambda plain, arrays, read: PosteriorOnDisk.from_plain(plain, arrays),
}


def read_posterior(plain: dict[str, Any], arrays: FileArrays) -> Posterior:
    """The posterior whose `to_plain` this is; ValueError where it is none that weft knows."""
    require_float64()
    # Version 0.1 knew no other kind and did not say so.
    kind = plain.get("kind", SinglePosterior.kind)
    if kind not in KINDS:
        raise ValueError(f"it holds a posterior of the kind {kind!r}, which this weft does not know")
    try:
        check_numbers(plain, arrays)
        return KINDS[kind](plain, arrays, read_posterior)
    except (KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError) as error:
        raise ValueError(f"a part of the posterior is missing or of the wrong kind ({error})") from error
