# SPDX-License-Identifier: MIT
"""What likelihoods have to say about rows side by side, in NumPy's numbers; compiled once for many numbers of rows, by padding."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from weft.arrays import AnyArray
from weft.inference.prior import next_power_of_two
from weft.likelihoods import Likelihood, RowExtras

__all__ = ["RowTerms", "ValuedRows", "initial_sites", "likelihood_slopes", "row_terms"]

# Sizes that rows are filled up to begin here: below it, a compilation takes longer than all that is computed.
_FEWEST = 256


class ValuedRows(NamedTuple):
    """Values of rows and what came with them, and the variance of f there that no field explains."""

    values: Float[AnyArray, " row"]
    extra: RowExtras
    unexplained: Float[np.ndarray, " row"]


class RowTerms(NamedTuple):
    """E log p(y | f) of each row and its derivatives in the mean and the variance of f."""

    value: Float[AnyArray, " row"]
    in_mean: Float[AnyArray, " row"]
    in_variance: Float[AnyArray, " row"]


def row_terms(
    likelihood: Likelihood, seen: ValuedRows, mean: Float[np.ndarray, " row"], variance: Float[np.ndarray, " row"]
) -> RowTerms:
    return RowTerms(*_by_row(_row_terms, likelihood, seen, mean, variance))


def initial_sites(
    likelihood: Likelihood, seen: ValuedRows
) -> tuple[Float[np.ndarray, " row"], Float[np.ndarray, " row"]]:
    """Value and precision of sites to start from."""
    value, precision = _by_row(_initial, likelihood, seen)
    return value, precision


def likelihood_slopes(
    likelihood: Likelihood, seen: ValuedRows, mean: Float[np.ndarray, " row"], explained: Float[np.ndarray, " row"]
) -> tuple[Float[np.ndarray, " row"], Likelihood]:
    """Slopes of the sum of E log p(y | f) in each row's unexplained variance, and in the likelihood's own parameters."""
    count = len(mean)
    padded = _padded((seen, mean, explained), count)
    with_rows = (*padded, np.arange(len(padded[1])) < count)
    unexplained, own = _likelihood_slopes((jnp.asarray(padded[0].unexplained), likelihood), *with_rows)
    return np.asarray(unexplained)[:count], jax.tree.map(np.asarray, own)


def _by_row(
    function: Callable[..., Any], likelihood: Likelihood, seen: ValuedRows, *by_row: np.ndarray
) -> list[np.ndarray]:
    count = np.shape(seen.values)[0]
    return [np.asarray(each)[:count] for each in function(likelihood, *_padded((seen, *by_row), count))]


def _padded(by_row: Any, count: int) -> Any:
    """The same with the last row again and again."""
    more = max(next_power_of_two(count), _FEWEST) - count if count else 0
    return jax.tree.map(lambda array: np.pad(np.asarray(array), (0, more), mode="edge") if more else array, by_row)


@eqx.filter_jit
def _row_terms(
    likelihood: Likelihood, seen: ValuedRows, mean: Float[AnyArray, " row"], variance: Float[AnyArray, " row"]
) -> RowTerms:
    def total(moments: tuple[Array, Array]) -> tuple[Array, Array]:
        terms = jnp.asarray(likelihood.expected_log_density(seen.values, *moments, seen.extra))
        return jnp.sum(terms), terms

    (_, terms), gradient = jax.value_and_grad(total, has_aux=True)((jnp.asarray(mean), jnp.asarray(variance)))
    return RowTerms(terms, *gradient)


@eqx.filter_jit
def _initial(likelihood: Likelihood, seen: ValuedRows) -> tuple[Float[Array, " row"], Float[Array, " row"]]:
    value, precision = likelihood.initial(jnp.asarray(seen.values), seen.extra)
    return jnp.asarray(value), jnp.asarray(precision)


@eqx.filter_jit
@eqx.filter_grad
def _likelihood_slopes(
    given: tuple[Float[Array, " row"], Likelihood],
    seen: ValuedRows,
    mean: Float[AnyArray, " row"],
    explained: Float[AnyArray, " row"],
    counts: Bool[AnyArray, " row"],
) -> Float[Array, ""]:
    unexplained, likelihood = given
    terms = likelihood.expected_log_density(seen.values, jnp.asarray(mean), explained + unexplained, seen.extra)
    return jnp.sum(jnp.where(counts, terms, 0.0))
