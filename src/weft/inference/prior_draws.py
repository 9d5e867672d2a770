# SPDX-License-Identifier: MIT
"""Joint draws of a prior over any number of places: waves of random frequency in space, each times a series of its own in time.

Over many sets of waves the covariance is the kernel's; of one set it is off by about one over the root of their number.
"""

import numpy as np
from jaxtyping import Float

from weft.data.places import distinct_places
from weft.inference.paths import Seen, draw_prior
from weft.inference.prior import chain_to_draw_from
from weft.model import Model

__all__ = ["Points", "draw_field"]

NUM_WAVES = 400
# Numbers held at once for the waves at all places.
WAVES_BUDGET = 256 * 2**20

# Times and places, paired.
Points = tuple[Float[np.ndarray, " _"], Float[np.ndarray, "_ _"]]


def draw_field(
    model: Model, asked: tuple[Points, ...], num: int, rng: np.random.Generator
) -> tuple[Float[np.ndarray, "_ _"], ...]:
    """`num` draws of f at all points asked about together; one array for each set of them.

    The waves come in groups, each a field of its own, so that few are held at a time; the fields add up.
    """
    times, time = np.unique(np.concatenate([when for when, _ in asked]), return_inverse=True)
    places, place = distinct_places(np.concatenate([where for _, where in asked]))
    ends = np.cumsum([len(when) for when, _ in asked])[:-1]
    orders = [np.argsort(part, kind="stable") for part in np.split(time, ends)]
    readings = [
        (np.searchsorted(when[order], np.arange(len(times) + 1)), where[order])
        for order, when, where in zip(orders, np.split(time, ends), np.split(place, ends), strict=True)
    ]
    at_once = int(np.clip(WAVES_BUDGET // (8 * len(places) * len(model.components)), 20, NUM_WAVES))
    num_groups = -(-NUM_WAVES // at_once)
    totals = [np.zeros((len(order), num)) for order in orders]
    for _ in range(num_groups):
        blocks = [
            np.sqrt(float(part.variance) / num_groups) * part.space.random_features(places, at_once, rng)
            for part in model.components
        ]
        chain = chain_to_draw_from(model, tuple(block.shape[1] for block in blocks), times)
        weights = np.concatenate(blocks, axis=1)
        seen = tuple(Seen(offsets, where, weights) for offsets, where in readings)
        for total, part in zip(totals, draw_prior(chain, seen, num, rng), strict=True):
            total += part
    back = []
    for order, total in zip(orders, totals, strict=True):
        whole = np.empty_like(total)
        whole[order] = total
        back.append(whole)
    return tuple(back)
