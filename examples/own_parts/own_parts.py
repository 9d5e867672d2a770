# SPDX-License-Identifier: MIT
"""A kernel and a likelihood that weft does not have; with the entry points beside it, they are learned and saved as weft's own are."""

import jax
import jax.numpy as jnp

import weft
from weft.domains import positive
from weft.likelihoods import Support


class Spherical(weft.Kernel):
    """The geostatisticians' spherical covariance, zero from `reach` on; for places in one to three dimensions."""

    reach: jax.Array = positive()
    variance: jax.Array = positive(default=1.0)

    def covariance(self, xs, ys):
        squares = jnp.sum((xs[:, None, :] - ys[None, :, :]) ** 2, axis=-1)
        # The square root has no slope at zero, where the distance's slope is not wanted either.
        apart = squares > 0
        ratio = jnp.where(apart, jnp.sqrt(jnp.where(apart, squares, 1.0)), 0.0) / self.reach
        return self.variance * jnp.where(ratio < 1, 1 - 1.5 * ratio + 0.5 * ratio**3, 0.0)

    def variances(self, xs):
        return jnp.broadcast_to(jnp.asarray(self.variance), xs.shape[:1])

    def check_width(self, width):
        if width > 3:
            raise ValueError(f"Spherical is a covariance in one to three dimensions; there are {width} columns")


class Logistic(weft.Likelihood):
    """Noise with tails between the normal's and Student's."""

    support = Support.REAL
    scale: jax.Array = positive(default=1.0)

    def log_density(self, values, f, extra):
        score = jnp.abs(values - f) / self.scale
        return -score - 2 * jnp.log1p(jnp.exp(-score)) - jnp.log(self.scale)
