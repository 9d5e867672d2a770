# SPDX-License-Identifier: MIT
"""The posterior of one model: at any time and place, past or future, by one pass of an engine."""

import functools
from collections.abc import Iterator
from typing import Any, ClassVar, final

import jax
import numpy as np
from jaxtyping import Float, Int

from weft.arrays import AnyArray, ArrayLike, require_float64, require_whole
from weft.data.layout import Layout
from weft.data.observations import Observations
from weft.data.on_disk import FileArrays
from weft.data.places import distinct_places
from weft.engines.base import Engine, Moments, shape_of_chain
from weft.engines.choose import choose_engine
from weft.inference import joint
from weft.inference.approximate import find_sites
from weft.inference.filtering import FilterRun, Kept, SiteSeries, run_filter, starting
from weft.inference.merge import Given, concatenate_observations, merge_given, merge_rows
from weft.inference.parts import Parts, from_plain_parts, to_plain_parts
from weft.inference.posterior import OneStepAhead, OwnOfPlaces, Posterior
from weft.inference.prediction import LikelihoodEmission, Marginals
from weft.inference.prior import (
    chain_at,
    make_prior,
    own_features,
    reductions_at,
    reductions_to_draw_from,
    sizes_of,
    time_variances_at,
)
from weft.inference.queries import Question, blocks_of_rows, checked_rows, checked_sums
from weft.inference.sites import check_power, check_problem, gaussian_sites, rows_of
from weft.likelihoods import Gaussian, RowExtras
from weft.model import Model
from weft.state_space.basis import Reduction
from weft.state_space.chain import Chain, Queries, Rows


def condition(
    model: Model, data: Observations, *, power: float = 0.0, engine: str | Engine = "auto"
) -> "SinglePosterior":
    """The posterior of `model` given `data`; `power` as in `log_evidence`."""
    require_float64()
    check_power(power)
    check_problem(model, data)
    return _condition(model, data, data.row, data.grouping.num_given, power, engine)


def _condition(
    model: Model, data: Observations, row: Int[np.ndarray, " row"], count: int, power: float, engine: str | Engine
) -> "SinglePosterior":
    """The posterior; `row` numbers the rows present, of the `count` given."""
    prior = make_prior(model, data)
    chosen = choose_engine(engine, shape_of_chain(prior.chain, prior.weights, data.grouping.layout))
    sites = find_sites(model, data, prior, power=power, engine=chosen)
    return SinglePosterior(
        model,
        data.times,
        rows_of(data, sites),
        prior.weights,
        exact_places=data.places if model.needs_places else None,
        log_constant=float(sites.log_constant),
        power=power,
        engine=engine,
        given=Given(row, np.asarray(prior.unexplained), count),
        batches=(data,),
    )


@final
class SinglePosterior(Posterior):
    """One model's answers.

    It holds what answering needs and no more: the model, the times, a Gaussian site for each row, the weights of the distinct places,
    and, of an exact model, the places themselves, which are its pseudo-points. Values only, so that it can be copied and sent.
    """

    kind: ClassVar[str] = "single"

    def __init__(
        self,
        model: Model,
        times: Float[np.ndarray, " time"],
        rows: Rows,
        weights: Float[AnyArray, "place bottleneck"],
        *,
        exact_places: Float[np.ndarray, "exact dim"] | None,
        log_constant: float,
        power: float,
        engine: str | Engine,
        given: Given,
        batches: tuple[Observations, ...] = (),
        kept: tuple[Kept, ...] = (),
    ):
        self._model = model
        self._times = times
        self._batches = batches
        self.rows = rows
        self.weights = weights
        self.exact_places = exact_places
        self.log_constant = log_constant
        self.power = power
        self.engine = engine
        self.given = given
        self._kept = kept

    @property
    def model(self) -> Model:
        return self._model

    @property
    def times(self) -> Float[np.ndarray, " time"]:
        return self._times

    @property
    def batches(self) -> tuple[Observations, ...]:
        return self._batches

    @property
    def num_columns(self) -> int:
        return self.basis_places.shape[1]

    @property
    def basis_places(self) -> Float[AnyArray, "place dim"]:
        return self.model.bases[0].landmarks if self.exact_places is None else self.exact_places

    @property
    def log_evidence(self) -> float:
        if not self._engine.has_state:
            chain = chain_at(self.model, self._num_pseudo, self.times)
            return float(self._engine.log_normaliser(chain, self.weights, self.rows)) + self.log_constant
        return self._run.last.log_normaliser + self.log_constant

    @property
    def steps_run(self) -> int:
        """How many times of the series the filter walked over to make this posterior from the one before it."""
        return self._run.steps_run

    def __getstate__(self) -> dict[str, Any]:
        """Arrays as NumPy's: one of JAX's, sent to where double precision is off, would arrive in single."""
        derived = ("_reductions", "_engine", "_at_rows")
        kept = {name: value for name, value in vars(self).items() if name not in derived}
        return jax.tree.map(lambda leaf: np.asarray(leaf) if isinstance(leaf, jax.Array) else leaf, kept)

    def habits(self) -> tuple[OwnOfPlaces, ...]:
        return ()

    @functools.cached_property
    def _engine(self) -> Engine:
        chain = chain_at(self.model, self._num_pseudo, self.times)
        return choose_engine(self.engine, shape_of_chain(chain, self.weights, self.rows.layout))

    @functools.cached_property
    def _run(self) -> FilterRun:
        series = SiteSeries(self.model, self._num_pseudo, self.times, self.weights, self.rows)
        return run_filter(self._engine, series, self._kept)

    @functools.cached_property
    def _reductions(self) -> tuple[Reduction, ...]:
        return reductions_at(self.model, self.basis_places)

    @property
    def _num_pseudo(self) -> tuple[int, ...]:
        return sizes_of(self._reductions)

    def marginals(self, times: ArrayLike, places: ArrayLike) -> Marginals:
        return self._totals(times, places, filtered=False)

    def fitted_values(self) -> Float[np.ndarray, " row"]:
        return self._at_rows.mean

    def fitted_marginals(self, rows: Observations) -> Marginals:
        return self._at_rows

    @functools.cached_property
    def _at_rows(self) -> Marginals:
        """At the rows seen, in the order they are held: a pass over the series, for which one habit after another asks."""
        chain = chain_at(self.model, self._num_pseudo, self.times)
        asked = Queries(self.rows.layout, self.rows.place, self.weights, by_component=False)
        moments = self._engine.moments(chain, self.weights, self.rows, asked)
        variance = np.asarray(moments.total_variance) + self.given.unexplained
        return Marginals(np.asarray(moments.mean).sum(axis=1), variance)

    def filtered(self, times: ArrayLike, places: ArrayLike) -> Marginals:
        return self._totals(times, places, filtered=True)

    def components(self, times: ArrayLike, places: ArrayLike) -> tuple[Marginals, ...]:
        times, places = checked_rows(times, places, self.num_columns)
        mean, variance = np.empty((2, len(self.model.components), len(times)))
        for block, asked, moments in self._moments(times, places, filtered=False, by_component=True):
            mean[:, block] = asked.in_order(np.asarray(moments.mean)).T
            variance[:, block] = (asked.in_order(np.asarray(moments.variance)) + asked.unexplained).T
        return tuple(Marginals(*each) for each in zip(mean, variance, strict=True))

    def covariance(self, times: ArrayLike, places: ArrayLike) -> Float[np.ndarray, "query query"]:
        times, places = checked_rows(times, places, self.num_columns)
        return self._sums(times, places, np.eye(len(times)))[1]

    def aggregate(self, times: ArrayLike, places: ArrayLike, weights: ArrayLike) -> Marginals:
        times, places = checked_rows(times, places, self.num_columns)
        weights = checked_sums(weights, len(times))
        mean, covariance = self._sums(times, places, np.atleast_2d(weights).T)
        variance = np.diagonal(covariance).copy()
        return Marginals(mean, variance) if weights.ndim == 2 else Marginals(*np.stack([mean, variance])[:, 0])

    def sample(
        self, times: ArrayLike, places: ArrayLike, *, num: int = 1, seed: int = 0
    ) -> Float[np.ndarray, "draw query"]:
        """Exact draws, by Matheron's rule."""
        times, places = checked_rows(times, places, self.num_columns)
        require_whole("num", num, 1)
        require_whole("seed", seed, 0)
        if len(times) == 0:
            return np.empty((num, 0))
        asked = self._ask(times, places, to_draw=True)
        residual = joint.Residual(self.model, asked, distinct_places(places)[0])
        draws = joint.draws(self._engine, self.weights, asked, residual, num, np.random.default_rng(seed))
        return np.ascontiguousarray(asked.in_order(draws).T)

    def one_step_ahead(self) -> OneStepAhead:
        if not isinstance(self.model.likelihood, Gaussian):
            raise TypeError(
                f"one-step-ahead residuals need a Gaussian likelihood; the model's is {type(self.model.likelihood).__name__}"
            )
        # Each time stands twice: first asked about, without its rows, then, a step of length zero later, with them.
        chain = chain_at(self.model, self._num_pseudo, self.times)
        steps = np.zeros(2 * len(self.times), dtype=np.int32)
        steps[::2] = chain.step_number
        offsets = self.rows.layout.offsets
        twice = Chain(chain.components, steps)
        asked = Queries(Layout(np.repeat(offsets, 2)[1:]), self.rows.place, self.weights, by_component=False)
        rows = Rows(Layout(np.repeat(offsets, 2)[:-1]), self.rows.place, self.rows.value, self.rows.precision)
        moments = self._engine.moments(twice, self.weights, rows, asked, filtered=True)
        residual = np.asarray(self.rows.value) - np.asarray(moments.mean).sum(axis=1)
        # A site's variance holds the share `power` of what pseudo-points leave unexplained; the difference has all of it.
        rest = (1 - self.power) * self.given.unexplained
        variance = np.asarray(moments.total_variance) + 1 / np.asarray(self.rows.precision) + rest
        return OneStepAhead(self.given.row, residual, variance)

    def emission(self, times: ArrayLike, places: ArrayLike, extra: RowExtras) -> LikelihoodEmission:
        return LikelihoodEmission(self.model.likelihood, extra)

    def means_given(
        self,
        values: Float[np.ndarray, "row draw"],
        times: Float[np.ndarray, " query"],
        places: Float[np.ndarray, "query dim"],
    ) -> Float[np.ndarray, "query draw"]:
        """Posterior means of f for several sets of values of the rows' sites, in the order rows are held."""
        asked = Question(self.model, self._reductions, self.times, self.rows, times, places)
        return asked.in_order(
            np.asarray(self._engine.means(asked.chain, self.weights, asked.rows, values, asked.queries))
        )

    def update(self, more: Observations) -> "SinglePosterior":
        check_problem(self.model, more)
        row_times = np.repeat(self.times, self.rows.layout.counts)
        if self._needs_all_rows(more):
            if not self.batches:
                raise ValueError(
                    "this update needs the rows seen before, and the posterior was saved without them; save it with rows=True"
                )
            added = Given(more.row, np.zeros(more.num_rows), more.grouping.num_given)
            given = merge_given(row_times, self.given, more.row_times, added)
            everything = concatenate_observations((*self.batches, more))
            return _condition(self.model, everything, given.row, given.num_rows, self.power, self.engine)
        new_weights, unexplained = self._weights_of(more)
        sites = gaussian_sites(self.model, more, unexplained, power=self.power)
        added = Given(more.row, np.asarray(unexplained), more.grouping.num_given)
        times, rows, weights, first_touched = merge_rows(
            (self.times, self.rows, self.weights), (more.times, rows_of(more, sites), new_weights)
        )
        before = self._run.kept if self._engine.has_state else ()
        untouched = tuple(kept for kept in before if kept.time < first_touched)
        return SinglePosterior(
            self.model,
            times,
            rows,
            weights,
            exact_places=self.exact_places,
            log_constant=self.log_constant + float(sites.log_constant),
            power=self.power,
            engine=self.engine,
            given=merge_given(row_times, self.given, more.row_times, added),
            batches=(*self.batches, more) if self.batches else (),
            kept=untouched,
        )

    def given_only(self, data: Observations) -> "SinglePosterior":
        return condition(self.model, data, power=self.power, engine=self.engine)

    def to_plain(self, arrays: FileArrays, *, with_rows: bool) -> dict[str, Any]:
        parts = Parts(
            model=self.model,
            times=self.times,
            rows=self.rows,
            weights=self.weights,
            exact_places=self.exact_places,
            log_constant=self.log_constant,
            power=self.power,
            engine=self.engine,
            given=self.given,
            batches=self.batches,
        )
        return {"kind": self.kind, **to_plain_parts(parts, arrays, with_rows=with_rows)}

    @classmethod
    def from_plain(cls, plain: dict[str, Any], arrays: FileArrays) -> "SinglePosterior":
        return cls(**from_plain_parts(plain, arrays))

    def _needs_all_rows(self, more: Observations) -> bool:
        if not isinstance(self.model.likelihood, Gaussian):
            return True
        if self.exact_places is None:
            return False
        together, _ = distinct_places(np.concatenate([self.exact_places, more.places]))
        return len(together) > len(self.exact_places)

    def _weights_of(self, more: Observations) -> tuple[Float[AnyArray, "place bottleneck"], Float[AnyArray, " row"]]:
        """Weights of the places of `more`, and the variance unexplained at its rows."""
        if self.exact_places is None:
            prior = make_prior(self.model, more)
            return prior.weights, prior.unexplained
        # The places are all known, each found again by sorting both sets together; the first weights are theirs.
        _, number = distinct_places(np.concatenate([self.exact_places, more.places]))
        own = np.empty(len(self.exact_places), dtype=np.int64)
        own[number[: len(own)]] = np.arange(len(own))
        place = own[number[len(own) :]]
        spatial = np.asarray(own_features(self.model, self.exact_places).unexplained)[place[more.grouping.place_of_row]]
        by_time = time_variances_at(self.model, more.times)[more.grouping.time_of_row]
        return np.asarray(self.weights)[place], np.sum(by_time * spatial, axis=1)

    def _ask(
        self,
        times: Float[np.ndarray, " query"],
        places: Float[np.ndarray, "query dim"],
        *,
        to_draw: bool = False,
        by_component: bool = True,
    ) -> Question:
        """The rows asked about as a question; from the last state on where all lie in the future."""
        reductions = reductions_to_draw_from(self.model, self.basis_places) if to_draw else self._reductions
        if times.min() > self.times[-1] and self._engine.has_state:
            nothing = Rows(Layout(np.zeros(2)), np.zeros(0, dtype=np.int32), np.zeros(0), np.zeros(0))
            question = Question(
                self.model,
                reductions,
                self.times[-1:],
                nothing,
                times,
                places,
                to_draw=to_draw,
                by_component=by_component,
            )
            question.chain = starting(question.chain, self._run.last.state)
            return question
        return Question(
            self.model, reductions, self.times, self.rows, times, places, to_draw=to_draw, by_component=by_component
        )

    def _totals(self, times: ArrayLike, places: ArrayLike, *, filtered: bool) -> Marginals:
        times, places = checked_rows(times, places, self.num_columns)
        mean, variance = np.empty((2, len(times)))
        for block, asked, moments in self._moments(times, places, filtered=filtered, by_component=False):
            mean[block] = asked.in_order(np.asarray(moments.mean).sum(axis=1))
            variance[block] = asked.in_order(np.asarray(moments.total_variance)) + asked.unexplained.sum(axis=1)
        return Marginals(mean, variance)

    def _moments(
        self,
        times: Float[np.ndarray, " query"],
        places: Float[np.ndarray, "query dim"],
        *,
        filtered: bool,
        by_component: bool,
    ) -> Iterator[tuple[Int[np.ndarray, " block"], Question, Moments]]:
        """Row numbers, question and answer of each block of the rows asked about."""
        for block in blocks_of_rows(places, self.weights.shape[1]):
            asked = self._ask(times[block], places[block], by_component=by_component)
            yield (
                block,
                asked,
                self._engine.moments(asked.chain, self.weights, asked.rows, asked.queries, filtered=filtered),
            )

    def _sums(
        self,
        times: Float[np.ndarray, " query"],
        places: Float[np.ndarray, "query dim"],
        sums: Float[np.ndarray, "query sum"],
    ) -> tuple[Float[np.ndarray, " sum"], Float[np.ndarray, "sum sum"]]:
        if len(times) == 0:
            return np.zeros(sums.shape[1]), np.zeros((sums.shape[1], sums.shape[1]))
        # Not from the last state on: the covariance walks need the stationary prior.
        asked = Question(self.model, self._reductions, self.times, self.rows, times, places)
        residual = joint.Residual(self.model, asked, distinct_places(places)[0])
        mean = sums.T @ self.marginals(times, places).mean
        return mean, joint.sums_covariance(self._engine, self.weights, asked, residual, asked.by_query(sums))
