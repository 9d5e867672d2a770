# SPDX-License-Identifier: MIT
"""An exact model of a region on fewer functions of place than the region has places: those that rows can tell from noise.

A component that is smooth over a region takes a few functions there however many places see it; one that is rough takes one a place.
What functions leave out counts like noise, so they may leave a small share of it, and of all sets of them that do the one with the
smallest state is taken.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from weft.inference.closed_prior import closed_covariance
from weft.inference.prior import time_variances_at
from weft.kernels.base import Kernel
from weft.kernels.closed_forms import has_closed_form
from weft.likelihoods import Gaussian
from weft.model import Model
from weft.state_space.basis import AllPlaces, Leading, has_own_features

__all__ = ["MOST_UNEXPLAINED", "Share", "can_be_reduced", "components_worth", "noise_beside", "reduced", "sizes_within"]

# What functions may leave unexplained, on average over places, by the noise variance. On 813 stations of the United States half of it
# changes no score of rows or of new stations by a thousandth; twice as much costs a thousandth of both.
MOST_UNEXPLAINED = 0.05
# Beside a likelihood that is not Gaussian this part of the field's variance stands for the noise.
NOISE_OF_OTHERS = 0.1


class Share(NamedTuple):
    """What a region may leave unexplained: a variance, on average over its places by their importance; and what components are worth."""

    most: float
    importance: Float[np.ndarray, " place"]
    worth: Float[np.ndarray, " component"]


def can_be_reduced(model: Model, width: int) -> bool:
    """Whether its kernels are known in closed form: each region has sizes of its own, and others would be compiled for all of them."""
    return all(has_own_features(part.space, width) or has_closed_form(part.space) for part in model.kernel.components)


def components_worth(model: Model, times: Float[np.ndarray, " time"]) -> Float[np.ndarray, " component"]:
    """Each component's variance by the root of how many of these times it remembers.

    What a slow component leaves out at a place is told by many rows there, and missed in every mean over them: noise that is as large
    falls as the root of their number.
    """
    middle = times[len(times) // 2 : len(times) // 2 + 1, None]
    found = []
    for part in model.components:
        around, own = (np.asarray(part.time.variances(at)) for at in (times[:, None], middle))
        scale = np.sqrt(around * own)
        covariance = np.asarray(part.time.covariance(middle, times[:, None]))[0]
        remembered = np.sum(np.divide(covariance, scale, out=np.zeros(len(times)), where=scale > 0) ** 2)
        found.append(float(part.variance) * np.sqrt(max(float(remembered), 1.0)))
    return np.array(found) * np.mean(time_variances_at(model, times[:: max(1, len(times) // 100)]), axis=0)


def noise_beside(model: Model, noise_of_places: Float[np.ndarray, " place"] | None) -> float:
    """The noise variance of a row of a usual place, where rows of places bring so much of their own.

    By places, because the rows may be in many files: each tells the means of its own.
    """
    if isinstance(model.likelihood, Gaussian):
        own = 0.0 if noise_of_places is None else noise_of_places
        return float(np.median(float(model.likelihood.variance) + own))
    return NOISE_OF_OTHERS * sum(float(part.variance) for part in model.components)


def reduced(model: Model, places: Float[np.ndarray, "place dim"], share: Share) -> Model:
    """The model on as few leading functions of these places as leave no more than the share."""
    sizes = sizes_within(model, places, share)[: len(model.kernel.components)]
    bases = tuple(
        AllPlaces() if size >= len(places) else Leading(int(size), places, share.importance) for size in sizes
    )
    return Model(model.kernel, model.likelihood, bases, model.mean)


def sizes_within(model: Model, places: Float[np.ndarray, "place dim"], share: Share) -> Int[np.ndarray, " component"]:
    """How many functions each component takes; those that hold least, for a dimension of the state, are done without first."""
    width = places.shape[1]
    has_own = [has_own_features(part.space, width) for part in model.components]
    held = [
        np.empty(0) if own else worth * _variance_held(part.space, places, share.importance)
        for part, own, worth in zip(model.components, has_own, share.worth, strict=True)
    ]
    latent = np.array([part.time.state_space().size for part in model.components])
    number = np.repeat(np.arange(len(held)), [len(each) for each in held])
    together = np.concatenate(held)
    order = np.argsort(together / latent[number], kind="stable")
    most = share.most * float(np.sum(share.importance))
    left = order[: np.searchsorted(np.cumsum(together[order]), most, side="right")]
    kept = np.array([len(each) for each in held]) - np.bincount(number[left], minlength=len(held))
    own_sizes = [
        int(part.space.num_features(width)) if own else 1 for part, own in zip(model.components, has_own, strict=True)
    ]
    return np.maximum(kept, own_sizes)


def _variance_held(
    kernel: Kernel, places: Float[np.ndarray, "place dim"], importance: Float[np.ndarray, " place"]
) -> Float[np.ndarray, " place"]:
    """By each leading function, summed over places by importance."""
    root = np.sqrt(importance)
    return np.maximum(np.linalg.eigvalsh(root[:, None] * closed_covariance(kernel, places) * root[None, :]), 0.0)
