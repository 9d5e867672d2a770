# SPDX-License-Identifier: MIT
"""Gaussian sites: what each row says about f, as a value and a precision. For a Gaussian likelihood they are the data."""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from weft.arrays import AnyArray
from weft.data.observations import Observations
from weft.likelihoods import Gaussian
from weft.model import Model
from weft.state_space.chain import Rows


class Sites(NamedTuple):
    """Factors exp(-precision (value - f)^2 / 2), and the number that their log normaliser lacks to be the log evidence."""

    value: Float[Array, " row"]
    precision: Float[Array, " row"]
    log_constant: Float[Array, ""]


def gaussian_sites(
    model: Model,
    data: Observations,
    unexplained: Float[AnyArray, " row"],
    *,
    power: float,
    correction: bool = True,
) -> Sites:
    """The sites of power EP with a Gaussian likelihood, in closed form (Bui, Yan & Turner 2017)."""
    assert isinstance(model.likelihood, Gaussian)
    return _gaussian_sites(model.likelihood, data.values, data.noise_variance, unexplained, power, correction)


@eqx.filter_jit
def _gaussian_sites(
    likelihood: Gaussian,
    values: Float[AnyArray, " row"],
    own_noise: Float[AnyArray, " row"] | None,
    unexplained: Float[AnyArray, " row"],
    power: float,
    correction: bool,
) -> Sites:
    noise = jnp.broadcast_to(likelihood.noise_variance(own_noise), values.shape)
    effective = noise + power * unexplained
    log_constant = -jnp.sum(jnp.log(2 * jnp.pi * effective)) / 2
    if correction:
        log_constant = log_constant + charge(unexplained, noise, power)
    return Sites(jnp.asarray(values), 1 / effective, log_constant)


def charge(unexplained: Float[Array, " row"], noise: Float[Array, " row"], power: float) -> Float[Array, ""]:
    """The term of the bound for what the pseudo-points leave unexplained, and its limit at power 0."""
    if power == 0:
        return -jnp.sum(unexplained / noise) / 2
    return -(1 - power) / (2 * power) * jnp.sum(jnp.log1p(power * unexplained / noise))


def rows_of(data: Observations, sites: Sites) -> Rows:
    """The sites as an engine takes them."""
    grouping = data.grouping
    return Rows(grouping.layout, np.asarray(grouping.place_of_row, dtype=np.int32), sites.value, sites.precision)


def check_power(power: float) -> None:
    if not 0.0 <= power <= 1.0:
        raise ValueError(f"power must be between 0 (VFE) and 1 (FITC); it is {power}")
