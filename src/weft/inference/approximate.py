# SPDX-License-Identifier: MIT
"""Which sites stand for a model's likelihood: closed form if it is Gaussian."""

from weft.data.observations import Observations
from weft.engines.base import Engine
from weft.inference.sites import Sites, gaussian_sites
from weft.likelihoods import Gaussian
from weft.model import Model
from weft.state_space.prior import Prior


def find_sites(model: Model, data: Observations, prior: Prior, *, power: float, engine: Engine) -> Sites:
    if isinstance(model.likelihood, Gaussian):
        return gaussian_sites(model, data, prior.unexplained, power=power)
    raise TypeError(f"this needs a Gaussian likelihood; the model's is {type(model.likelihood).__name__}")
