# SPDX-License-Identifier: MIT
"""A Gaussian field given Gaussian sites in place of its rows: what the search for sites asks again and again.

The log normaliser of the sites has everything in its gradient: in their values and precisions mean and variance of f at the rows, in the
rest how it moves with what the field is made of. The cpu engine is called as the plain function that it is; others know JAX alone.
"""

import abc
import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float, Int

from weft.arrays import AnyArray
from weft.engines.base import Engine
from weft.engines.cpu import CpuEngine
from weft.engines.cpu.problem import Problem, as_floats, check_numbers, make_asked, make_problem
from weft.engines.cpu.series import SeriesGradient, gradient_of, there_and_back
from weft.inference.prior import Prior
from weft.state_space.chain import Chain, Queries, Rows

__all__ = ["ChainSlopes", "Field", "GivenSites", "Natural", "field_of"]

# What is left of E (value - f)^2 when (value - m)^2 is taken off is the variance. Beyond this ratio of the two, too few digits are.
MOST_CANCELLATION = 1e5
# Rows of a smaller precision, by the field's own, are those at which it happens.
LEAST_SAID = 1e-4


class Natural(NamedTuple):
    """Sites exp(shift f - precision f^2 / 2) up to a constant."""

    shift: Float[np.ndarray, " row"]
    precision: Float[np.ndarray, " row"]

    @property
    def value(self) -> Float[np.ndarray, " row"]:
        return self.shift / self.precision

    def toward(self, target: "Natural", step: float) -> "Natural":
        return Natural(*((1 - step) * here + step * there for here, there in zip(self, target, strict=True)))


class GivenSites(NamedTuple):
    """The sites' log normaliser, mean and variance of f at the rows (without what is unexplained there), and what tells slopes of the
    normaliser in what the field is made of, as the field has them: a search needs them only where it ends.
    """

    log_normaliser: float
    mean: Float[np.ndarray, " row"]
    explained: Float[np.ndarray, " row"]
    slopes: Callable[[], Any]


class ChainSlopes(NamedTuple):
    """Slopes in the chain of a prior, and in the weights of its places."""

    chain: Chain
    weights: Float[AnyArray, "place bottleneck"]


class Field(abc.ABC):
    """A field before its rows are seen."""

    @abc.abstractmethod
    def given(self, sites: Natural) -> GivenSites:
        """The field given these sites; FloatingPointError where it cannot be computed."""


def field_of(prior: Prior, rows: Rows, engine: Engine, seen: Int[np.ndarray, " seen"] | None = None) -> Field:
    """The field of a prior, whose slopes are `ChainSlopes`. Sites are those of the rows numbered `seen`, or of all; others say nothing."""
    return _Swept(prior, rows, engine, seen) if isinstance(engine, CpuEngine) else _ByEngine(prior, rows, engine, seen)


class _Swept(Field):
    def __init__(self, prior: Prior, rows: Rows, engine: CpuEngine, seen: Int[np.ndarray, " seen"] | None):
        self.prior, self.rows, self.engine, self.seen = prior, rows, engine, seen
        self.problem: Problem = make_problem(prior.chain, prior.weights, rows)
        self.queries = Queries(rows.layout, rows.place, np.asarray(prior.weights))
        self.largest = float(np.max(self.problem.prior_variances(), initial=0.0))

    def given(self, sites: Natural) -> GivenSites:
        rows = _with_sites(self.rows, self.seen, sites)
        observed = self.problem.observed._replace(value=as_floats(rows.value), precision=as_floats(rows.precision))
        problem = dataclasses.replace(self.problem, observed=observed)
        check_numbers(problem.components, problem.step_number, problem.layout, observed)
        # The gradient has too few digits of the moments of rows that say next to nothing; the smoother tells them in a pass of its own.
        if np.min(sites.precision, initial=np.inf) * self.largest < LEAST_SAID:
            asked = make_asked(problem, self.queries)
            _, _, total = there_and_back(problem, self.engine.limits, self.queries.layout, asked)
            mean = asked.mean.reshape(-1, len(problem.components)).sum(axis=1)
            moments = _of_seen(self.seen, mean, asked.total_variance)
            return GivenSites(total, *moments, lambda: self.slopes(self.gradient(problem)[1]))
        total, slope = self.gradient(problem)
        moments = _moments(self, rows, sites, slope.value, slope.precision)
        return GivenSites(total, *moments, lambda: self.slopes(slope))

    def gradient(self, problem: Problem) -> tuple[float, SeriesGradient]:
        ends, meeting, total = there_and_back(problem, self.engine.limits, None, make_asked(problem, None))
        return total, gradient_of(problem, ends, meeting)

    def slopes(self, slope: SeriesGradient) -> ChainSlopes:
        parts = tuple(
            dataclasses.replace(part, **own._asdict())
            for part, own in zip(self.prior.chain.components, slope.components, strict=True)
        )
        # As JAX has it: nothing where there is nothing to differentiate.
        return ChainSlopes(eqx.filter(Chain(parts, self.prior.chain.step_number), eqx.is_inexact_array), slope.weights)


class _ByEngine(Field):
    def __init__(self, prior: Prior, rows: Rows, engine: Engine, seen: Int[np.ndarray, " seen"] | None):
        self.prior, self.rows, self.engine, self.seen = prior, rows, engine, seen

    def given(self, sites: Natural) -> GivenSites:
        rows = _with_sites(self.rows, self.seen, sites)
        chain, weights = self.prior.chain, self.prior.weights
        total, (of_chain, of_weights, of_rows) = _normaliser_and_gradient((chain, weights, rows), self.engine)
        moments = _moments(self, rows, sites, np.asarray(of_rows.value), np.asarray(of_rows.precision))
        return GivenSites(float(total), *moments, lambda: ChainSlopes(of_chain, of_weights))


def _with_sites(rows: Rows, seen: Int[np.ndarray, " seen"] | None, sites: Natural) -> Rows:
    if seen is None:
        return dataclasses.replace(rows, value=sites.value, precision=sites.precision)
    value, precision = np.zeros((2, rows.layout.num_rows))
    value[seen], precision[seen] = sites.value, sites.precision
    return dataclasses.replace(rows, value=value, precision=precision)


def _moments(
    field: _Swept | _ByEngine,
    rows: Rows,
    sites: Natural,
    of_value: Float[np.ndarray, " row"],
    of_precision: Float[np.ndarray, " row"],
) -> tuple[Float[np.ndarray, " seen"], Float[np.ndarray, " seen"]]:
    """Mean and variance in the gradient of the normaliser; by the smoother itself where that has too few digits of them."""
    seen = slice(None) if field.seen is None else field.seen
    offset = -of_value[seen] / sites.precision
    explained = -2 * of_precision[seen] - offset**2
    if not np.any(offset**2 > MOST_CANCELLATION * explained):
        return sites.value - offset, explained
    weights = field.prior.weights
    asked = field.engine.moments(field.prior.chain, weights, rows, Queries(rows.layout, rows.place, weights))
    return _of_seen(field.seen, np.asarray(asked.mean).sum(axis=1), np.asarray(asked.total_variance))


def _of_seen(
    seen: Int[np.ndarray, " seen"] | None, *by_row: Float[np.ndarray, " row"]
) -> tuple[Float[np.ndarray, " seen"], Float[np.ndarray, " seen"]]:
    mean, variance = by_row if seen is None else (each[seen] for each in by_row)
    return mean, variance


def _log_normaliser(given: tuple[Chain, Float[Array, "place bottleneck"], Rows], engine: Engine) -> Float[Array, ""]:
    return engine.log_normaliser(*given)


_normaliser_and_gradient: Callable[..., Any] = eqx.filter_value_and_grad(_log_normaliser)
