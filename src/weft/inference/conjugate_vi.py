# SPDX-License-Identifier: MIT
"""Gaussian sites in place of any likelihood, by conjugate-computation variational inference (Khan & Lin 2017).

The approximate posterior q is the prior times one Gaussian site a row ([sec:non-gaussian-likelihoods] says why it stays
a Gauss-Markov chain). At its optimum the natural parameters of the sites are

    precision = -2 dE/dv,    precision value = dE/dm + precision m,    E = E_q log p(y | f),

with m and v the mean and variance of f at the row under q. A step moves them a part of the way there, which is a
natural-gradient step on the bound; the whole way is exact at once for a Gaussian likelihood.

    bound = log normaliser of the sites + sum over rows of E + precision ((value - m)^2 + s) / 2

where s is v less what the pseudo-points leave unexplained. One call of an engine gives the normaliser and, as its
gradient, m, s and the gradient of the bound in the prior: at the optimum the bound is stationary in m and s, so nothing
else moves it.
"""

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from weft.data.observations import Observations
from weft.engines.base import Engine
from weft.inference.fields import Field, Natural, field_of
from weft.inference.prior import Prior
from weft.inference.row_terms import RowTerms, ValuedRows, initial_sites, row_terms
from weft.inference.sites import Sites, extras_of, rows_of
from weft.likelihoods import Likelihood

logger = logging.getLogger("weft")

# No site is to move further than this, in standard deviations of f under q. The bound's error is of second order in it.
SITE_TOLERANCE = 1e-6
# A fall of the bound by less than this part of the size of its terms is rounding.
ROUNDING = 1e-13
MAX_ENGINE_CALLS = 300
SHORTEST_STEP = 2.0**-20
# Evaluations from which the next sites are extrapolated, once sites would move by less than NEAR standard deviations.
MOST_REMEMBERED = 6
NEAR = 0.5
# After as many trials in a row that gain no more than rounding and come no nearer, sites that would move by less than
# this have all the digits there are.
MOST_IDLE = 8
IDLE_TOLERANCE = 1e-2

# Precisions stay positive: where a log density is not concave, -2 dE/dv may fall below zero, and is raised to this part
# of |dE/dm| / sqrt(v), so that no site pulls from more than a million standard deviations away, at the cost of digits.
# The mean of q is stationary all the same, because the value is found with the precision used.
LEAST_PRECISION = 1e-6
# And to this part of 1 / v at least, for rows that say nothing at all.
LEAST_PART = 1e-12


class BoundAtSites(NamedTuple):
    """The bound at some sites, what q says about each row, and where a whole step would lead.

    `excess` is by how much the target's precision was raised to keep it positive.
    """

    sites: Natural
    bound: float
    rounding: float
    log_normaliser: float
    mean: Float[np.ndarray, " row"]
    explained: Float[np.ndarray, " row"]
    variance: Float[np.ndarray, " row"]
    target: Natural
    excess: Float[np.ndarray, " row"]
    distance: float
    slopes: Callable[[], Any]


class Found(NamedTuple):
    """Sites found, the bound there with the slopes that its field has of it, and how the search went.

    `bounds` has the bound after each step accepted, the first at the start. `floored` counts the rows whose precision
    had to be raised to stay positive; the gradient passes over how their variances depend on the prior.
    """

    sites: Sites
    bound: float
    mean: Float[np.ndarray, " row"]
    explained: Float[np.ndarray, " row"]
    slopes: Callable[[], Any]
    converged: bool
    engine_calls: int
    bounds: tuple[float, ...]
    floored: int


def search_sites(
    likelihood: Likelihood,
    data: Observations,
    prior: Prior,
    engine: Engine,
    *,
    start: Sites | None = None,
    tolerance: float = SITE_TOLERANCE,
    enough: float = 0.0,
) -> Found:
    """The best sites of the rows of `data`; slopes are those in the chain and in the weights of `prior`."""
    likelihood.check(np.asarray(data.values), extras_of(data), data.row)
    nothing = np.zeros(data.num_rows)
    field = field_of(prior, rows_of(data, Sites(nothing, nothing, 0.0)), engine)
    seen = ValuedRows(data.values, extras_of(data), np.asarray(prior.unexplained))
    natural = None if start is None else as_natural(start)
    return best_sites(likelihood, seen, field, start=natural, tolerance=tolerance, enough=enough)


def best_sites(
    likelihood: Likelihood,
    seen: ValuedRows,
    field: Field,
    *,
    start: Natural | None = None,
    tolerance: float = SITE_TOLERANCE,
    enough: float = 0.0,
) -> Found:
    """The sites at which the bound is largest to within `tolerance`, from `start` or, where that does not do, the likelihood's own guess.

    The bound never falls by more than rounding (but see `gain` for rows with raised precisions): an extrapolation that
    would lower it is dropped for a plain step, a plain step that would is halved, and grows again once steps succeed.
    Where some rows have raised precisions, the search also ends once a step gains no more than `enough` nats a row: such rows move
    ever more slowly, long after the bound stands still.
    """
    problem = _Problem(likelihood, seen, field)
    here = problem.begin(start)
    if not np.isfinite(here.bound):
        raise FloatingPointError(
            f"the bound at the first sites is {here.bound}; are the scale of the values and the variance of the kernel "
            "sensible?"
        )
    bounds = [here.bound]
    path: list[BoundAtSites] = []
    step, num_idle, is_enough, nearest = 1.0, 0, False, here.distance
    while (
        here.distance > tolerance and not is_enough and num_idle < MOST_IDLE and problem.engine_calls < MAX_ENGINE_CALLS
    ):
        # From afar the last steps say nothing about the next.
        path = [*(seen for seen in path if seen is not here), here][-MOST_REMEMBERED:] if here.distance < NEAR else []
        leap = extrapolate(path)
        try:
            there = problem.evaluate(here.sites.toward(here.target, step) if leap is None else leap)
            gained = gain(here, there)
        except FloatingPointError as error:
            logger.debug("a step failed: %s", error)
            gained = -np.inf
        if gained >= -here.rounding:
            is_idle = gained <= here.rounding and there.distance > 0.9 * nearest
            is_enough = abs(gained) <= enough * len(here.mean) and bool(np.any(there.excess > 0))
            here = there
            bounds.append(here.bound)
            step = min(1.0, 2 * step)
        elif leap is not None:
            is_idle = gained >= -10 * here.rounding
            path = []
        else:
            is_idle = gained >= -10 * here.rounding or step < SHORTEST_STEP
            step /= 2
        num_idle = num_idle + 1 if is_idle else 0
        nearest = min(nearest, here.distance)
    is_still = num_idle == MOST_IDLE and here.distance <= IDLE_TOLERANCE
    converged = here.distance <= tolerance or is_still or is_enough
    if not converged:
        logger.warning(
            "the search for sites ended after %d engine calls with a bound of %.8g, and sites would still move by %.2g "
            "standard deviations",
            problem.engine_calls,
            here.bound,
            here.distance,
        )
    return problem.found(here, converged, bounds)


def extrapolate(path: list[BoundAtSites]) -> Natural | None:
    """Anderson acceleration: where the last sites and their targets say that sites and target would meet.

    Taken linear in the sites, the way left to the target vanishes at some combination of those seen, found by least
    squares in standard deviations of f. Plain steps go ever more slowly where rows share what they say, and may go back
    and forth. None if there is too little to go by, or if a precision would not be positive.
    """
    if len(path) < 2:
        return None
    here = path[-1]
    unit = np.concatenate([np.sqrt(here.variance), here.variance])
    sites = np.stack([np.concatenate(seen.sites) for seen in path], axis=1)
    left = np.stack([np.concatenate(seen.target) for seen in path], axis=1) - sites
    moves, changes = np.diff(sites, axis=1), np.diff(left, axis=1)
    share = np.linalg.lstsq(unit[:, None] * changes, unit * left[:, -1], rcond=1e-10)[0]
    shift, precision = np.split(sites[:, -1] + left[:, -1] - (moves + changes) @ share, 2)
    return Natural(shift, precision) if np.all(precision > 0) else None


def gain(here: BoundAtSites, there: BoundAtSites) -> float:
    """By how much the bound rises, apart from what the variances of rows with raised precisions do to it.

    A step with a raised precision climbs the bound in which the row's E has lost a linear function of its variance, such
    that dE/dv is -1/2 of that precision. Elsewhere this is the bound itself.
    """
    return there.bound - here.bound - float(here.excess @ (there.explained - here.explained)) / 2


def as_natural(sites: Sites) -> Natural:
    precision = np.asarray(sites.precision)
    return Natural(np.asarray(sites.value) * precision, precision)


class _Problem:
    """One search while it runs: what stays the same, and how often the field was asked."""

    def __init__(self, likelihood: Likelihood, seen: ValuedRows, field: Field):
        self.likelihood, self.seen, self.field = likelihood, seen, field
        self.engine_calls = 0

    def begin(self, start: Natural | None) -> BoundAtSites:
        if start is not None:
            try:
                here = self.evaluate(start)
                if np.isfinite(here.bound):
                    return here
            except FloatingPointError as error:
                logger.debug("the sites given are no start for this search: %s", error)
        value, precision = initial_sites(self.likelihood, self.seen)
        return self.evaluate(Natural(value * precision, precision))

    def evaluate(self, sites: Natural) -> BoundAtSites:
        self.engine_calls += 1
        given = self.field.given(sites)
        variance = given.explained + self.seen.unexplained
        terms = row_terms(self.likelihood, self.seen, given.mean, variance)
        offset = sites.value - given.mean
        per_row = terms.value + sites.precision * (offset**2 + given.explained) / 2
        target = natural_target(terms, given.mean, variance)
        return BoundAtSites(
            sites=sites,
            bound=given.log_normaliser + float(np.sum(per_row)),
            rounding=ROUNDING * (abs(given.log_normaliser) + float(np.sum(np.abs(per_row)))),
            log_normaliser=given.log_normaliser,
            mean=given.mean,
            explained=given.explained,
            variance=variance,
            target=target,
            excess=target.precision + 2 * terms.in_variance,
            distance=distance_between(sites, target, variance),
            slopes=given.slopes,
        )

    def found(self, end: BoundAtSites, converged: bool, bounds: list[float]) -> Found:
        return Found(
            sites=Sites(end.sites.value, end.sites.precision, end.bound - end.log_normaliser),
            bound=end.bound,
            mean=end.mean,
            explained=end.explained,
            slopes=end.slopes,
            converged=converged,
            engine_calls=self.engine_calls,
            bounds=tuple(bounds),
            floored=int(np.sum(end.excess > 0)),
        )


def natural_target(terms: RowTerms, mean: Float[np.ndarray, " row"], variance: Float[np.ndarray, " row"]) -> Natural:
    slope = np.asarray(terms.in_mean)
    least = np.maximum(LEAST_PRECISION * np.abs(slope) / np.sqrt(variance), LEAST_PART / variance)
    precision = np.maximum(-2 * np.asarray(terms.in_variance), least)
    return Natural(slope + precision * mean, precision)


def distance_between(here: Natural, there: Natural, variance: Float[np.ndarray, " row"]) -> float:
    """How far apart sites are: by the largest change of any row, in standard deviations of f."""
    shift, precision = there.shift - here.shift, there.precision - here.precision
    return float(np.max(np.maximum(np.abs(shift) * np.sqrt(variance), np.abs(precision) * variance), initial=0.0))
