# SPDX-License-Identifier: MIT
"""What an engine is given: a linear Gaussian Markov chain and the rows that observe it. No kernel in sight.

The state at a time stacks, component after component, a matrix of `latent` rows and `pseudo` columns (row-major, so latent
dimension d of all pseudo-points is one contiguous block). Its columns are independent a priori: every matrix of the chain acts on
the latent dimensions alone (Kronecker the identity over pseudo-points). The bottleneck z stacks readout . state of each component;
f of a row is the weights of its place times z.
"""

import equinox as eqx
from jaxtyping import Float, Int

from weft.arrays import AnyArray
from weft.data.layout import Layout


class ComponentChain(eqx.Module):
    """The chain of one component, or several of one shape; matrices are held once per *distinct* step between times."""

    transition: Float[AnyArray, "*several step latent latent"]
    process_noise: Float[AnyArray, "*several step latent latent"]
    initial: Float[AnyArray, "*several latent latent"]
    readout: Float[AnyArray, "*several latent"]
    num_pseudo: int = eqx.field(static=True)
    # Signs that turn the chain around in time (see StateSpace.reversal); None if it is not stationary.
    reversal: tuple[float, ...] | None = eqx.field(static=True)

    @property
    def num_latent(self) -> int:
        return self.readout.shape[0]


class State(eqx.Module):
    """A Gaussian over the whole state; several of them where there are more axes in front."""

    mean: Float[AnyArray, "*batch state"]
    covariance: Float[AnyArray, "*batch state state"]


class Chain(eqx.Module):
    """The prior over states at a series of times.

    `step_number[t]` says which distinct step leads to time t; the first always has number 0, and step 0 is always of length
    zero (identity transition, no noise). `start`, where given, replaces the prior at the first time.
    """

    components: tuple[ComponentChain, ...]
    step_number: Int[AnyArray, " time"]
    start: State | None = None

    @property
    def num_times(self) -> int:
        return self.step_number.shape[0]

    @property
    def num_bottleneck(self) -> int:
        return sum(component.num_pseudo for component in self.components)

    @property
    def num_state(self) -> int:
        return sum(component.num_pseudo * component.num_latent for component in self.components)


class Rows(eqx.Module):
    """Gaussian factors exp(-precision (value - f)^2 / 2), one a row, ordered by time.

    With `is_by_place` the precision of a row is known to be a function of its place, and of the gradient in precisions nothing
    but its sum over the rows of each place is to be looked at: an engine may tell it at any of them.
    """

    layout: Layout = eqx.field(static=True)
    place: Int[AnyArray, " row"]
    value: Float[AnyArray, " row"]
    precision: Float[AnyArray, " row"]
    is_by_place: bool = eqx.field(static=True, default=False)


class Queries(eqx.Module):
    """Rows asked about, ordered by time, with the weights of the distinct places asked about.

    Unless `by_component`, nobody will look at the variances of components, only at that of their sum: an engine may leave them out.
    """

    layout: Layout = eqx.field(static=True)
    place: Int[AnyArray, " query"]
    weights: Float[AnyArray, "query_place bottleneck"]
    by_component: bool = eqx.field(static=True, default=True)
