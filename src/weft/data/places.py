# SPDX-License-Identifier: MIT
"""Distinct places among rows."""

import numpy as np
from jaxtyping import Float, Int

from weft.data.tables import distinct_rows

__all__ = ["distinct_places"]


def distinct_places(
    places: Float[np.ndarray, "row dim"],
) -> tuple[Float[np.ndarray, "place dim"], Int[np.ndarray, " row"]]:
    """Distinct rows of `places` in lexicographic order, and for each row which of them it is."""
    first, number = distinct_rows(list(places.T))
    order = np.lexsort(places[first].T[::-1])
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return places[first[order]], rank[number]
