# SPDX-License-Identifier: MIT
"""The variational bound of a model with any likelihood, as one JAX operation with its own derivative.

The search for sites runs on known numbers, outside of JAX's tracing. Its derivative is that of the bound at the sites
found, held fixed together with the moments of q: at the optimum their own change does not matter to first order.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from weft.arrays import is_concrete
from weft.data.observations import Observations
from weft.engines.base import Engine
from weft.inference.conjugate_vi import SITE_TOLERANCE, Found, search_sites
from weft.inference.fields import ChainSlopes
from weft.inference.prior import Prior
from weft.inference.row_terms import ValuedRows, likelihood_slopes
from weft.inference.sites import extras_of
from weft.likelihoods import Likelihood
from weft.model import Model

Leaves = tuple[Any, ...]

# Of sites on the way to parameters: what is left changes the bound by 1e-8 a row, and takes a quarter to a third of the engine calls.
LEARNING_TOLERANCE = 1e-4


class SearchMemory:
    """The sites of the last search, from which the next one starts, and how often engines were called in all.

    Hand the same one to evaluations at models that differ little: each then takes a few engine calls.
    """

    def __init__(self) -> None:
        self.found: Found | None = None
        self.engine_calls = 0

    def search(self, likelihood: Likelihood, data: Observations, prior: Prior, engine: Engine) -> Found:
        start = None if self.found is None else self.found.sites
        tolerance = SITE_TOLERANCE if start is None else LEARNING_TOLERANCE
        found = search_sites(likelihood, data, prior, engine, start=start, tolerance=tolerance)
        self.engine_calls += found.engine_calls
        if found.converged:
            self.found = found
        return found


class _Search:
    """Everything about a search that is not a number to differentiate."""

    def __init__(self, tree: Any, data: Observations, engine: Engine, memory: SearchMemory):
        self.tree = tree
        self.data = data
        self.engine = engine
        self.memory = memory

    def run(self, leaves: Leaves) -> tuple[Found, Prior, Likelihood]:
        prior, likelihood = jax.tree.unflatten(self.tree, leaves)
        return self.memory.search(likelihood, self.data, prior, self.engine), prior, likelihood


def variational_bound(
    model: Model, data: Observations, prior: Prior, engine: Engine, memory: SearchMemory | None = None
) -> Float[Array, ""]:
    """The bound at the best sites; differentiable once in `prior` and in the model's likelihood, outside of `jit`."""
    leaves, tree = jax.tree.flatten((prior, model.likelihood))
    return _operation(_Search(tree, data, engine, SearchMemory() if memory is None else memory), tuple(leaves))


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _operation(search: _Search, leaves: Leaves) -> Float[Array, ""]:
    check_concrete(search.data, leaves)
    return jnp.asarray(search.run(leaves)[0].bound)


def _forward(search: _Search, leaves: Leaves) -> tuple[Float[Array, ""], Leaves]:
    check_concrete(search.data, leaves)
    found, prior, likelihood = search.run(leaves)
    seen = ValuedRows(search.data.values, extras_of(search.data), np.asarray(prior.unexplained))
    unexplained, of_likelihood = likelihood_slopes(likelihood, seen, found.mean, found.explained)
    of_field: ChainSlopes = found.slopes()
    gradient = Prior(of_field.chain, of_field.weights, unexplained), of_likelihood
    # A gradient has None where its model has no floating-point array; a cotangent has a zero of no type there.
    by_leaf = search.tree.flatten_up_to(gradient)
    return jnp.asarray(found.bound), tuple(
        np.zeros(np.shape(leaf), dtype=jax.dtypes.float0) if part is None else part
        for part, leaf in zip(by_leaf, leaves, strict=True)
    )


def _backward(search: _Search, gradient: Leaves, cotangent: Float[Array, ""]) -> tuple[Leaves]:
    return (tuple(part if part.dtype == jax.dtypes.float0 else cotangent * part for part in gradient),)


_operation.defvjp(_forward, _backward)


def check_concrete(data: Observations, leaves: Leaves) -> None:
    if not all(map(is_concrete, [*leaves, *jax.tree.leaves(data)])):
        raise TypeError(
            "the evidence of a non-Gaussian likelihood is found by a search that needs known numbers; call it outside of "
            "jit and vmap, and differentiate it once (jax.grad and jax.value_and_grad work)"
        )
