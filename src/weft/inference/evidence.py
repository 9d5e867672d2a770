# SPDX-License-Identifier: MIT
"""The evidence of a model and its approximations: exact, VFE, power EP, FITC, DTC."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from weft.arrays import require_float64
from weft.data.observations import Observations
from weft.engines.choose import choose_engine
from weft.likelihoods import Gaussian
from weft.model import Model
from weft.state_space.chain import Rows
from weft.state_space.prior import make_prior


def log_evidence(
    model: Model, data: Observations, *, power: float = 0.0, correction: bool = True, engine: str = "auto"
) -> Float[Array, ""]:
    """Approximate log evidence: the ELBO at power 0, FITC at power 1, power EP between; exact if the model has no pseudo-points.

    The ELBO is [eqn:saturated-bound-appendix]; one filter pass gives its first term. `correction=False` leaves out the term that
    charges for unexplained variance: at power 0 that is DTC. Differentiable in the model, pseudo-points included.
    """
    require_float64()
    check_power(power)
    prior = make_prior(model, data)
    noise = noise_variance(model, data)
    effective = noise + power * prior.unexplained
    rows = gaussian_rows(data, effective)
    total = choose_engine(engine).log_normaliser(prior.chain, prior.weights, rows)
    total = total - jnp.sum(jnp.log(2 * jnp.pi * effective)) / 2
    return total + charge(prior.unexplained, noise, power) if correction else total


def charge(unexplained: Float[Array, " row"], noise: Float[Array, " row"], power: float) -> Float[Array, ""]:
    """The term of the bound for what the pseudo-points leave unexplained (Bui, Yan & Turner 2017, eq. 21), and its limit at 0."""
    if power == 0:
        return -jnp.sum(unexplained / noise) / 2
    return -(1 - power) / (2 * power) * jnp.sum(jnp.log1p(power * unexplained / noise))


def gaussian_rows(data: Observations, variance: Float[Array, " row"]) -> Rows:
    grouping = data.grouping
    return Rows(
        layout=grouping.layout,
        place=np.asarray(grouping.place_of_row, dtype=np.int32),
        value=data.values,
        precision=1 / variance,
    )


def noise_variance(model: Model, data: Observations) -> Float[Array, " row"]:
    """Variance of each row's noise: the likelihood's plus the row's own."""
    if not isinstance(model.likelihood, Gaussian):
        raise TypeError(f"this needs a Gaussian likelihood; the model's is {type(model.likelihood).__name__}")
    return jnp.broadcast_to(model.likelihood.noise_variance(data.noise_variance), data.values.shape)


def check_power(power: float) -> None:
    if not 0.0 <= power <= 1.0:
        raise ValueError(f"power must be between 0 (VFE) and 1 (FITC); it is {power}")
