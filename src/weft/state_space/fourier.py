# SPDX-License-Identifier: MIT
"""Waves over a box of space: explicit features of stationary kernels, whose unexplained variance is known.

Repeat a stationary kernel k of spectral density S with period P_i in each column. By Poisson's summation
    sum_n k(x + n P) = sum_j c_j cos(2 pi sum_i j_i x_i / P_i),    c_j = S(2 pi j / P) / prod_i P_i > 0,
over all vectors n and j of whole numbers. Let P exceed the box by the distance at which k has fallen to rounding: then
between any two places of the box the left side is k itself. Any choice of waves j on the right is a covariance and so
is the sum of the others, which leaves the variance k(0) - sum of the c_j chosen, the same everywhere.
(Regular Fourier features; Hensman, Durrande & Solin 2018 and Solin & Sarkka 2020 have relatives of it.)
"""

import functools
import itertools
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from scipy.special import gammaln

from weft.arrays import AnyArray, require_whole
from weft.kernels import EQ, Kernel, Matern12, Matern32, Matern52, Matern72
from weft.kernels.base import Scaled
from weft.kernels.distances import per_column
from weft.state_space.basis import FeatureMap, Reduced


class Spectrum(NamedTuple):
    """Twice the smoothness of a correlation (infinite for EQ), its length scales, and how many of them away it is below 1e-16."""

    twice_smoothness: float
    lengthscale: Float[AnyArray, "..."]
    reach: float


@functools.singledispatch
def spectrum_of(kernel: Kernel) -> Spectrum:
    """The spectrum of a stationary kernel, its variance aside; register a function for a kernel of your own."""
    raise TypeError(
        f"FourierFeatures know the spectra of EQ, Matern12, Matern32, Matern52, Matern72 and multiples of them, not of "
        f"{type(kernel).__name__}; in a tuple with an entry for each component, give this one pseudo-points or None"
    )


spectrum_of.register(EQ, lambda kernel: Spectrum(np.inf, kernel.lengthscale, 8.6))
spectrum_of.register(Matern12, lambda kernel: Spectrum(1.0, kernel.lengthscale, 36.9))
spectrum_of.register(Matern32, lambda kernel: Spectrum(3.0, kernel.lengthscale, 23.5))
spectrum_of.register(Matern52, lambda kernel: Spectrum(5.0, kernel.lengthscale, 19.4))
spectrum_of.register(Matern72, lambda kernel: Spectrum(7.0, kernel.lengthscale, 17.3))
spectrum_of.register(Scaled, lambda kernel: spectrum_of(kernel.kernel))


class FourierFeatures(FeatureMap):
    """Waves over the box from `lower` to `upper` (one number a column): up to `order` of them along each column.

    Kept are the vectors j of whole numbers with sum_i (j_i / order_i)^2 <= 1, so about 2 order features in one column,
    3.1 order^2 in two, 4.2 order^3 in three. Waves pay where the kernel is smooth and the box a few of its length scales
    wide: the period exceeds the box by 9 length scales for EQ, by 37 for Matern12. Places outside the box are refused.

        weft.Model(kernel, weft.Gaussian(0.1), pseudo_points=weft.FourierFeatures((0.0, 0.0), (10.0, 5.0), order=(9, 6)))
    """

    lower: tuple[float, ...] = eqx.field(static=True)
    upper: tuple[float, ...] = eqx.field(static=True)
    order: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, lower: Any, upper: Any, order: Any):
        corners = [np.atleast_1d(np.asarray(corner, dtype=np.float64)) for corner in (lower, upper)]
        if corners[0].ndim != 1 or corners[0].shape != corners[1].shape or not np.all(np.isfinite(corners)):
            raise ValueError(
                f"FourierFeatures: lower and upper must have one finite number a column; they are {lower!r}, {upper!r}"
            )
        if not np.all(corners[0] < corners[1]):
            raise ValueError(
                f"FourierFeatures: lower must be below upper in every column; they are {lower!r}, {upper!r}"
            )
        width = len(corners[0])
        orders = tuple(order) if np.ndim(order) else (order,) * width
        if len(orders) != width:
            raise ValueError(
                f"FourierFeatures: order must be one number, or one for each of the {width} columns; it is {order!r}"
            )
        for number in orders:
            require_whole("FourierFeatures: order", number, 1)
        self.lower, self.upper = (tuple(corner.tolist()) for corner in corners)
        self.order = tuple(int(number) for number in orders)

    @property
    def size(self) -> int:
        return 2 * len(half_of_waves(self.order)) + 1

    @property
    def middle(self) -> Float[np.ndarray, " dim"]:
        return (np.array(self.lower) + np.array(self.upper)) / 2

    def at(self, kernel: Kernel, places: Float[AnyArray, "place dim"]) -> Reduced:
        width, (twice_smoothness, lengthscales, reach) = len(self.order), spectrum_of(kernel)
        lengthscale = per_column(lengthscales, width)
        period = np.array(self.upper) - np.array(self.lower) + reach * lengthscale
        waves = half_of_waves(self.order)
        frequency = 2 * np.pi * jnp.asarray(waves, dtype=jnp.float64) / period[None, :]
        density = spectral_density(twice_smoothness, jnp.sum((frequency * lengthscale[None, :]) ** 2, axis=1), width)
        still = spectral_density(twice_smoothness, jnp.zeros(1), width)
        # Of the correlation, as shares of 1; each wave but the still one stands for two, j and -j.
        cell = jnp.prod(lengthscale / period)
        shares = jnp.concatenate([still, 2 * density]) * cell
        variances = kernel.variances(places)
        angle = (places - self.middle[None, :]) @ frequency.T
        moving = jnp.sqrt(shares[None, 1:])
        features = jnp.concatenate(
            [
                jnp.sqrt(jnp.broadcast_to(shares[:1], (places.shape[0], 1))),
                moving * jnp.cos(angle),
                moving * jnp.sin(angle),
            ],
            axis=1,
        )
        # Rounding can push the rest below zero by some 1e-16 where the waves are enough.
        rest = jnp.maximum(1.0 - jnp.sum(shares), 0.0)
        return jnp.sqrt(variances)[:, None] * features, variances * rest

    def check_kernel(self, kernel: Kernel) -> None:
        spectrum_of(kernel)
        kernel.check_width(len(self.order))

    def check_places(self, places: Float[AnyArray, "place dim"]) -> None:
        width = len(self.order)
        if places.shape[1] != width:
            raise ValueError(
                f"the box of FourierFeatures has {width} columns and the places {places.shape[1]}; give it as many"
            )
        outside = np.any((np.asarray(places) < self.lower) | (np.asarray(places) > self.upper), axis=1)
        if np.any(outside):
            raise ValueError(
                f"{np.count_nonzero(outside)} places lie outside the box of FourierFeatures, the first at "
                f"{np.asarray(places)[outside][0].tolist()}; give a box around every place that will be asked about"
            )


@functools.cache
def half_of_waves(order: tuple[int, ...]) -> Int[np.ndarray, "wave dim"]:
    """Vectors of whole numbers within the ellipsoid, one of each pair j and -j, without 0."""
    ranges = [range(-number, number + 1) for number in order]
    waves = np.array(list(itertools.product(*ranges)))
    # In lexicographic order -j stands as far from the end as j from the beginning, and 0 in the middle.
    later = waves[len(waves) // 2 + 1 :]
    return later[np.sum((later / np.array(order)) ** 2, axis=1) <= 1 + 1e-9]


def spectral_density(twice_smoothness: float, squared: Float[Array, " wave"], width: int) -> Float[Array, " wave"]:
    """Of a kernel of unit variance and length scale at squared frequencies; over (2 pi)^width it integrates to 1."""
    if np.isinf(twice_smoothness):
        return (2 * np.pi) ** (width / 2) * jnp.exp(-squared / 2)
    nu, power = twice_smoothness / 2, (twice_smoothness + width) / 2
    log_constant = (
        width * np.log(2) + width / 2 * np.log(np.pi) + gammaln(power) - gammaln(nu) - width / 2 * np.log(2 * nu)
    )
    return jnp.exp(log_constant - power * jnp.log1p(squared / (2 * nu)))
