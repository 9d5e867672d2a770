# SPDX-License-Identifier: MIT
"""The seam between models and linear algebra: what every engine offers.

Above it: kernels, likelihoods, autodiff. Below it: the chain of `state_space.chain`, which knows no kernel.
"""

from typing import Protocol, runtime_checkable

import equinox as eqx
from jaxtyping import Array, Float

from weft.arrays import AnyArray
from weft.data.layout import Layout
from weft.state_space.chain import Chain, ComponentChain, Queries, Rows, State

__all__ = ["Chain", "ComponentChain", "Engine", "Layout", "Moments", "Queries", "Rows", "State"]


class Moments(eqx.Module):
    """Posterior moments of weights . z at queries: by component, and the variance of the components' sum."""

    mean: Float[AnyArray, "query component"]
    variance: Float[AnyArray, "query component"]
    total_variance: Float[AnyArray, " query"]


@runtime_checkable
class Engine(Protocol):
    """What every engine offers; all of them give the same numbers, as far as rounding lets them.

    That is 1e-9 of a value and 1e-7 of a gradient for noise down to a millionth of the prior variance. Below, `scan` and `parallel`,
    which are differentiated by JAX step by step, lose digits of gradients, where `cpu`, whose derivative is the smoother, does not.
    """

    def log_normaliser(
        self, chain: Chain, weights: Float[AnyArray, "place bottleneck"], rows: Rows
    ) -> Float[Array, ""]:
        """Log E prod_n exp(-precision_n (value_n - f_n)^2 / 2) under the chain; differentiable in every float array.

        Its gradient is the smoother: d/dvalue_n = -precision_n (value_n - E f_n), d/dprecision_n = -E (value_n - f_n)^2 / 2 (but
        zero from `scan` and `parallel` where a precision is exactly zero). `cpu` is differentiated once, the others as often as asked.
        """

    def moments(
        self,
        chain: Chain,
        weights: Float[AnyArray, "place bottleneck"],
        rows: Rows,
        queries: Queries,
        *,
        filtered: bool = False,
    ) -> Moments:
        """Moments at the queries given all rows; with `filtered`, given the rows up to and including each query's time."""

    def means(
        self,
        chain: Chain,
        weights: Float[AnyArray, "place bottleneck"],
        rows: Rows,
        values: Float[AnyArray, "row draw"],
        queries: Queries,
    ) -> Float[AnyArray, "query draw"]:
        """Posterior means of f at the queries for several sets of values of the same rows; `rows.value` is not used."""

    def last_state(
        self, chain: Chain, weights: Float[AnyArray, "place bottleneck"], rows: Rows
    ) -> tuple[State, Float[AnyArray, ""] | float]:
        """The state at the last time given all rows, and their log normaliser."""
