# SPDX-License-Identifier: MIT
"""The seam between models and linear algebra: what every engine offers.

Above it: kernels, likelihoods, autodiff. Below it: the chain of `state_space.chain`, which knows no kernel.
"""

import abc
import dataclasses
from typing import NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float, Int

from weft.arrays import AnyArray
from weft.data.layout import Layout
from weft.state_space.chain import Chain, ComponentChain, Queries, Rows, State

__all__ = [
    "Chain",
    "ComponentChain",
    "Cost",
    "Engine",
    "Layout",
    "Moments",
    "Queries",
    "Rows",
    "Shape",
    "State",
    "filter_flops",
    "shape_of_chain",
]


class Moments(eqx.Module):
    """Posterior moments of weights . z at queries: by component, and the variance of the components' sum.

    Variances of components are to be looked at only where the queries asked for them (`Queries.by_component`).
    """

    mean: Float[AnyArray, "query component"]
    variance: Float[AnyArray, "query component"]
    total_variance: Float[AnyArray, " query"]


@dataclasses.dataclass(frozen=True)
class Shape:
    """The sizes that costs depend on: `num_bottleneck` pseudo-points in all, and with latent dimensions `num_state`."""

    layout: Layout
    num_places: int
    num_bottleneck: int
    num_state: int

    @property
    def num_times(self) -> int:
        return self.layout.num_times

    @property
    def num_rows(self) -> int:
        return self.layout.num_rows

    @property
    def most_rows(self) -> int:
        """Rows at the time that has most of them."""
        return int(self.layout.counts.max(initial=0))

    def first_times(self, count: int) -> "Shape":
        """The same up to a time: what a stretch of the series costs."""
        return dataclasses.replace(self, layout=Layout(self.layout.offsets[: count + 1]))


def shape_of_chain(chain: Chain, weights: Float[AnyArray, "place bottleneck"], layout: Layout) -> Shape:
    """The shape of what an engine is given."""
    return Shape(layout, weights.shape[0], chain.num_bottleneck, chain.num_state)


class Cost(NamedTuple):
    """Floating-point operations, and the peak of bytes beyond inputs and outputs.

    Only proportions of flops are of use, so what takes time without arithmetic (a call, a short loop) is counted as the arithmetic
    that would take as long.
    """

    flops: float
    bytes: int


def filter_flops(counts: Int[np.ndarray, " time"], num_state: int, num_bottleneck: int) -> Float[np.ndarray, " time"]:
    """Rough work, at times with so many rows, of a filter and its way back: moving the state, and taking in the rows.

    A filter alone takes about a third of it. The one count of work there is: what an engine of another kind takes is in its `cost`.
    """
    size, bottleneck = float(num_state), float(num_bottleneck)
    rank = np.minimum(counts, bottleneck)
    moving = (8 * size / bottleneck + 6) * size**2
    return moving + 3 * rank * size**2 + 8 * rank * bottleneck * size + 4 * counts * bottleneck**2 + 5e3


class Engine(abc.ABC):
    """What every engine offers; all of them give the same numbers, as far as rounding lets them.

    That is 1e-9 of a value and 1e-7 of a gradient for noise down to a millionth of the prior variance. Below, `scan` and `parallel`,
    which are differentiated by JAX step by step, lose digits of gradients, where `cpu`, whose derivative is the smoother, does not.

    An engine is a value: a frozen dataclass of plain settings, so that it hashes and compares (compiled functions are found again by
    it), pickles, and crosses to another process. To write one, implement the methods below and hold it to `scan` with
    `tests/conformance`. Pass it as `engine=` wherever a name may stand, or let it be found by name: an entry point in the group
    `weft.engines` whose object is called without arguments.
    """

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """What it is called where engines are named, and in files."""

    @property
    def has_state(self) -> bool:
        """Whether `last_state` is cheap, so that a series is better run on from there than told again from its beginning."""
        return True

    @abc.abstractmethod
    def cost(self, shape: Shape, *, gradient: bool = True) -> Cost:
        """What `log_normaliser` takes, with its gradient or without; never computes anything large itself."""

    @abc.abstractmethod
    def log_normaliser(
        self, chain: Chain, weights: Float[AnyArray, "place bottleneck"], rows: Rows
    ) -> Float[Array, ""]:
        """Log E prod_n exp(-precision_n (value_n - f_n)^2 / 2) under the chain; differentiable in every float array.

        Its gradient is the smoother: d/dvalue_n = -precision_n (value_n - E f_n), d/dprecision_n = -E (value_n - f_n)^2 / 2 (but
        zero from `scan` and `parallel` where a precision is exactly zero). `cpu` is differentiated once, the others as often as asked.
        """

    @abc.abstractmethod
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

    @abc.abstractmethod
    def means(
        self,
        chain: Chain,
        weights: Float[AnyArray, "place bottleneck"],
        rows: Rows,
        values: Float[AnyArray, "row draw"],
        queries: Queries,
    ) -> Float[AnyArray, "query draw"]:
        """Posterior means of f at the queries for several sets of values of the same rows; `rows.value` is not used.

        Joint draws are made of it: a draw of the prior, corrected by the mean of what it misses at the rows.
        """

    @abc.abstractmethod
    def last_state(
        self, chain: Chain, weights: Float[AnyArray, "place bottleneck"], rows: Rows
    ) -> tuple[State, Float[AnyArray, ""] | float]:
        """The state at the last time given all rows, and their log normaliser."""
