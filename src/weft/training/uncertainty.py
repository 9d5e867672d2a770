# SPDX-License-Identifier: MIT
"""How well parameters learned from blocks are known: the sandwich of a composite likelihood (Godambe 1960).

With H the curvature of the objective and J the variance of its slope, which independent blocks show, the covariance of the estimate is
H^-1 J H^-1. It does not take the blocks' model to be right, as H^-1 alone would.
"""

import numpy as np
from jaxtyping import Float

from weft.training.composite import CompositeObjective
from weft.training.parameters import ParameterSpace

__all__ = ["sandwich", "standard_errors"]

# On the real line of the parameters, where a move of one is about a factor of e. Slopes have some nine digits.
STEP = 1e-3
# What is not known at all is known to this: a factor of twenty either way. A direction that is hardly curved, or curved the wrong way
# where a climb has ended early, would else make nothing of what is known about the others.
UNKNOWN = 3.0


def sandwich(objective: CompositeObjective, point: Float[np.ndarray, " free"]) -> Float[np.ndarray, "free free"]:
    """Covariance of the estimate `point` on the real line.

    One evaluation, and one of a few of the blocks for each free number and one more: curvature differs far less from block to block
    than slopes do.
    """
    scores = objective.scores(point).gradient
    # At an optimum the scores and the priors' slope sum to zero; about their own mean they are the blocks' alone.
    centred = scores - scores.mean(axis=0)
    num_blocks = len(scores)
    slope_variance = centred.T @ centred * num_blocks / (num_blocks - 1)
    here, *moved = objective.slopes_by_some([point, *(point + STEP * unit for unit in np.eye(len(point)))])
    curvature = (here - np.stack(moved)) / STEP
    values, vectors = np.linalg.eigh((curvature + curvature.T) / 2)
    along = vectors.T @ slope_variance @ vectors
    inverse = vectors / np.maximum(values, np.sqrt(np.diagonal(along)) / UNKNOWN)
    return inverse @ along @ inverse.T


def standard_errors(
    space: ParameterSpace, point: Float[np.ndarray, " free"], covariance: Float[np.ndarray, "free free"]
) -> dict[str, np.ndarray]:
    """Of each parameter on its own scale, by the slope of the map from the real line; NaN where a number is not free."""
    sizes = [int(np.prod(shape)) for shape in space.shapes]
    whole = np.full(sum(sizes), np.nan)
    whole[np.asarray(space.free)] = np.abs(space.steepness(point)) * np.sqrt(np.diagonal(covariance))
    parts = np.split(whole, np.cumsum(sizes)[:-1])
    return {name: part.reshape(shape) for name, part, shape in zip(space.names, parts, space.shapes, strict=True)}
