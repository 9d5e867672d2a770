# SPDX-License-Identifier: MIT
"""Rows with Gaussian noise in place of rows with any likelihood: the sites of a model that has learned from them.

What is tried one after another on small blocks, which components a kernel has, is tried on these, at what a Gaussian fit takes; what is
kept is then learned with the likelihood itself.
"""

from collections.abc import Sequence

import numpy as np

from weft.data.observations import Observations
from weft.likelihoods import Gaussian
from weft.model import Model
from weft.training.composite import block_sites

__all__ = ["model_of_stand_ins", "stand_ins"]


def stand_ins(model: Model, blocks: Sequence[Observations]) -> list[Observations]:
    """Each block with the values of its sites, and their variances as noise of the rows' own."""
    return [
        Observations(block.row_times, block.row_places, sites.value, 1 / sites.precision)
        for block, sites in zip(blocks, block_sites(model, blocks), strict=True)
    ]


def model_of_stand_ins(model: Model) -> Model:
    """The same with no noise but the rows' own."""
    return Model(model.kernel, Gaussian(np.asarray(0.0)), model.pseudo_points, model.mean)
