# SPDX-License-Identifier: MIT
"""Which sites stand for a model's likelihood: closed form if it is Gaussian, else those of a variational search."""

from weft.data.observations import Observations
from weft.engines.base import Engine
from weft.inference.conjugate_vi import search_sites
from weft.inference.prior import Prior
from weft.inference.sites import Sites, gaussian_sites
from weft.likelihoods import Gaussian
from weft.model import Model

# Nats a row that another step towards better sites has to bring where rows with heavy tails come to rest slowly.
_ENOUGH = 1e-7


def find_sites(model: Model, data: Observations, prior: Prior, *, power: float, engine: Engine) -> Sites:
    if isinstance(model.likelihood, Gaussian):
        return gaussian_sites(model, data, prior.unexplained, power=power)
    require_variational(model, power)
    return search_sites(model.likelihood, data, prior, engine, enough=_ENOUGH).sites


def require_variational(model: Model, power: float, correction: bool = True) -> None:
    """Raise unless the variational bound is asked for, all there is for a likelihood that is not Gaussian."""
    if power != 0 or not correction:
        raise ValueError(
            f"a {type(model.likelihood).__name__} likelihood has the variational bound alone: power=0 with correction; "
            f"power is {power} and correction is {correction}"
        )
