# SPDX-License-Identifier: MIT
"""Rows with Gaussian noise in place of rows with any likelihood: the sites of a model that has learned from them.

What is tried one after another on small blocks, which components a kernel has, is tried on these, at what a Gaussian fit takes; what is
kept is then learned with the likelihood itself.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from weft.data.observations import Observations
from weft.likelihoods import Gaussian
from weft.model import Model
from weft.training.composite import block_sites
from weft.training.parameters import parameters_of

__all__ = ["StandIns", "stand_ins"]

# A row's precision, by the variance of the field, below which it has none to speak of.
_LEAST_SAID = 1e-5


class StandIns(NamedTuple):
    """A model with Gaussian noise, and several sets of blocks of rows that have it."""

    model: Model
    blocks: list[list[Observations]]


def stand_ins(model: Model, sets: Sequence[Sequence[Observations]]) -> StandIns | None:
    """Each block with the values of its sites, and as noise of the rows' own what their variances exceed the smallest by.

    The smallest of all is the model's: where the likelihood has parameters that are learned, noise may become signal. Where it has
    none, all noise is the rows' own and stays. None where some rows have sites of next to no precision, far out in heavy tails: these
    pull from far away, and no Gaussian row is like them.
    """
    sites = [block_sites(model, blocks) for blocks in sets]
    precision = np.concatenate([each.precision for found in sites for each in found])
    if np.min(precision) * sum(float(part.variance) for part in model.kernel.components) < _LEAST_SAID:
        return None
    has_parameters = any(parameter.path[0] == "likelihood" for parameter in parameters_of(model))
    shared = float(1 / np.max(precision)) if has_parameters else 0.0
    rows = [
        [
            Observations(block.row_times, block.row_places, each.value, np.maximum(1 / each.precision - shared, 0.0))
            for block, each in zip(blocks, found, strict=True)
        ]
        for blocks, found in zip(sets, sites, strict=True)
    ]
    return StandIns(Model(model.kernel, Gaussian(np.asarray(shared)), model.pseudo_points, model.mean), rows)
