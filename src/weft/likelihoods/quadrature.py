# SPDX-License-Identifier: MIT
"""Expectations of a function of a Gaussian variable, one a row."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from weft.arrays import AnyArray

NUM_HERMITE = 32
# Added to a variance before its root is taken: at variance 0 the root has no derivative, and below this the nodes could not be
# told apart from the mean.
VARIANCE_FLOOR = 1e-16


def gauss_hermite(
    function: Callable[[Array], Array], mean: Float[AnyArray, " row"], variance: Float[AnyArray, " row"]
) -> Float[Array, " row"]:
    """E function(f) under f ~ N(mean, variance), by Gauss-Hermite quadrature with `NUM_HERMITE` nodes."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(NUM_HERMITE)
    deviation = jnp.sqrt(variance + VARIANCE_FLOOR)
    at_nodes = jax.vmap(lambda node: function(mean + deviation * node))(nodes)
    return jnp.tensordot(weights / np.sqrt(2 * np.pi), at_nodes, axes=1)
