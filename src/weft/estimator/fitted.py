# SPDX-License-Identifier: MIT
"""What an estimator has learned and seen: a value that answers about rows of tables and is replaced, never changed."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
from jaxtyping import Float

from weft.baselines import fit_baselines
from weft.data.observations import Observations, take_rows
from weft.data.places import distinct_places
from weft.data.tables import distinct_rows
from weft.estimator.building import COVARIATES
from weft.estimator.columns import Measurements, Roles, read_measurements
from weft.estimator.evaluation import FitBaselines, Scored, Sheet, make_sheet, rows_frame, score_beside_baselines
from weft.estimator.summary import describe_components, describe_noise, summary_text
from weft.estimator.translation import Translation
from weft.inference.habits.base import asked_numbers
from weft.inference.merge import concatenate_observations
from weft.inference.posterior import AskedRows, Posterior
from weft.inference.prediction import IDENTITY, Marginals, Prediction
from weft.likelihoods import RowExtras
from weft.model import Model

__all__ = ["Fitted"]

# Of values in deviations, told apart where they are compared: both were scaled alike, but for rounding.
_DIGITS = 9


@final
@dataclasses.dataclass(frozen=True)
class Fitted:
    """A posterior, and how tables become the rows it is asked about.

    `names` are those of the kernel's components; `target_sd` is the target's deviation where it was learned, in its own
    units; rows are counted with those of updates.
    """

    roles: Roles
    translation: Translation
    names: tuple[str, ...]
    posterior: Posterior
    converged: bool
    target_sd: float
    num_rows: int
    num_missing: int
    trials: tuple[str, ...] = ()

    @property
    def model(self) -> Model:
        return self.posterior.model

    @property
    def times(self) -> Float[np.ndarray, " time"]:
        """The times seen, as rows are dated; the posterior's own are those that shifts of places make of them."""
        return self._times_and_places[0]

    @functools.cached_property
    def _times_and_places(self) -> tuple[Float[np.ndarray, " time"], Float[np.ndarray, "place dim"]]:
        """See `times` and `seen_places`; found once, since rows are then made as they were before habits were taken off."""
        batches = self.posterior.batches
        own = self._of_target(batches, np.equal)
        held = [np.asarray(batch.places) for batch in own] if own else [np.asarray(self.posterior.basis_places)]
        places = np.concatenate(held)
        return (
            np.unique(np.concatenate([batch.times for batch in batches])) if batches else self.posterior.times,
            places[np.sort(distinct_rows(list(places.T))[0])],
        )

    @property
    def batches(self) -> tuple[Observations, ...]:
        """The rows kept; of several targets, those of this one."""
        return self._of_target(self.posterior.batches, np.equal)

    def _of_others(self) -> tuple[Observations, ...]:
        """The rows kept of the other targets, where there are several."""
        return () if self.translation.output is None else self._of_target(self.posterior.batches, np.not_equal)

    def _of_target(self, batches: tuple[Observations, ...], compare: Callable[..., Any]) -> tuple[Observations, ...]:
        """Of several targets, the rows whose target compares so with this one."""
        if self.translation.output is None:
            return batches
        found = [
            (batch, np.flatnonzero(compare(np.asarray(batch.row_places)[:, -1], self.translation.output)))
            for batch in batches
        ]
        return tuple(take_rows(batch, rows) for batch, rows in found if len(rows))

    def read(self, table: Any) -> Measurements:
        """The table's rows with their values."""
        return read_measurements(self.roles.table(table, with_target=True), self.roles, with_target=True)

    def updated(self, rows: Measurements) -> "Fitted":
        """The same having seen these rows too."""
        rows.require_value(self.roles, "take in")
        return dataclasses.replace(
            self.counting(rows), posterior=self.posterior.update(self.translation.observations(rows))
        )

    def counting(self, rows: Measurements) -> "Fitted":
        """The same with these rows counted, which tell nothing where they have no value."""
        return dataclasses.replace(
            self, num_rows=self.num_rows + rows.num_rows, num_missing=self.num_missing + rows.num_missing
        )

    def num_repeated(self, rows: Measurements, *, with_value: bool = False) -> int:
        """How many of these rows have a time and place that the rows kept have a value at; or the same value too."""
        rows = rows.take(np.flatnonzero(~np.isnan(np.asarray(rows.values))))
        times, places = self.translation.times(rows), self.translation.places(rows)
        batches = self.batches
        if not batches:
            return 0
        kept_times = np.concatenate([batch.row_times for batch in batches])
        # Most of a long series is at other times.
        near = np.isin(kept_times, times)
        kept_places = np.concatenate([np.asarray(batch.row_places) for batch in batches])[near]
        known, place = distinct_places(kept_places[:, : self.translation.num_space])
        # A place that nobody was at has a number of its own, which no kept row has.
        both = [np.concatenate([place, asked_numbers(known, places)]).astype(np.float64)]
        if with_value:
            kept_values = np.concatenate([np.asarray(batch.values) for batch in batches])[near]
            both.append(np.round(np.concatenate([kept_values, self.translation.values(rows)]), _DIGITS))
        _, number = distinct_rows([np.concatenate([kept_times[near], times]), *both])
        # Rows are numbered as they first occur, and those kept come first.
        num_kept = int(number[: near.sum()].max(initial=-1)) + 1
        return int(np.count_nonzero(number[near.sum() :] < num_kept))

    def given_only(self, rows: Measurements) -> "Fitted":
        """The same parameters having seen these rows and no others; of several targets, besides those of the other ones."""
        own = self.translation.observations(rows)
        others = self._of_others()
        return dataclasses.replace(
            self,
            posterior=self.posterior.given_only(concatenate_observations((*others, own)) if others else own),
            num_rows=rows.num_rows,
            num_missing=rows.num_missing,
        )

    def prediction(self, rows: Measurements) -> Prediction:
        """Of the target at these rows, in its own units."""
        return self.predictions([rows])[0]

    def predictions(self, groups: Sequence[Measurements]) -> list[Prediction]:
        """The same of several groups of rows, by one pass over the series for all of them."""
        translation = self.translation
        asked = [
            AskedRows(translation.times(rows), translation.places(rows), translation.row_extras(rows))
            for rows in groups
        ]
        return self.posterior.predictions(asked, translation.target)

    def prediction_at(
        self, times: Float[np.ndarray, " row"], places: Float[np.ndarray, "row dim"], extras: RowExtras
    ) -> Prediction:
        """The same at times and places as the posterior has them."""
        return self.posterior.prediction(times, places, extras, self.translation.target)

    def seen_places(self) -> Float[np.ndarray, "place dim"]:
        """The distinct places of the rows kept, covariates included; of a model without rows, those its basis stands on."""
        return self._times_and_places[1]

    def draws(self, rows: Measurements, num: int, seed: int, of: str) -> Float[np.ndarray, "draw row"]:
        """Joint draws over these rows, in the target's own units."""
        translation = self.translation
        times, places = translation.times(rows), translation.places(rows)
        f = self.posterior.sample(times, places, num=num, seed=seed)
        # A stream of its own, so that the noise is not the noise behind the draws of f.
        return self.drawn(times, places, translation.row_extras(rows), f, np.random.default_rng([seed, 1]), of)

    def drawn(
        self,
        times: Float[np.ndarray, " row"],
        places: Float[np.ndarray, "row dim"],
        extras: RowExtras,
        f: Float[np.ndarray, "draw row"],
        noise: np.random.Generator,
        of: str,
    ) -> Float[np.ndarray, "draw row"]:
        """Draws of f as draws of the target, in its own units."""
        emission = self.posterior.emission(times, places, extras)
        return self.translation.target.inverse(
            emission.sample(noise, f) if of == "observation" else emission.expected(f)
        )

    def scored(self, rows: Measurements, seed: int, fit: FitBaselines = fit_baselines) -> Scored:
        """Scores of this one at rows, then of baselines given the rows seen so far, which `fit` fits."""
        rows.require_value(self.roles, "score")
        train = self._seen() if self.batches else None
        test = make_sheet(rows, self.translation)
        return score_beside_baselines(self.prediction(rows), train, test, self.translation, seed=seed, fit=fit)

    def score_rows(self, rows: Measurements, seed: int) -> Any:
        """The same as a frame with one line a model and scored row."""
        return rows_frame(self.scored(rows, seed), np.arange(rows.num_rows), make_sheet(rows, self.translation))

    def effects(self) -> list[dict[str, Any]]:
        """The slope of each covariate: its component where it is one deviation and all other covariates are zero.

        Of a category, its component at each level.
        """
        translation, scales = self.translation, self.translation.covariates.scales
        asked: list[tuple[str, str, str | None, int, float, float]] = []
        asked += [(COVARIATES, name, None, k, 1.0, scale) for k, (name, scale) in enumerate(scales.items())]
        for k, category in enumerate(translation.categories, len(scales)):
            asked += [(category.component, category.name, level, k, n, 1.0) for n, level in enumerate(category.levels)]
        if not asked:
            return []
        places = np.zeros((len(asked), translation.num_columns))
        for line, (_, _, _, column, number, _) in enumerate(asked):
            places[line, translation.num_space + column] = number
        parts = self.posterior.components(np.full(len(asked), self.posterior.times[0]), places)
        found = []
        for line, (component, name, level, _, _, scale) in enumerate(asked):
            part = parts[self.names.index(component)]
            unit = translation.target.scale / scale
            slope, sd = float(part.mean[line]) * unit, float(np.sqrt(max(part.variance[line], 0.0))) * unit
            found.append({"covariate": name, "level": level, "slope": slope, "sd": sd})
        return found

    @functools.cached_property
    def components_of_places(self) -> tuple[Float[np.ndarray, "place dim"], tuple[Marginals, ...]]:
        """The places the model stands on, and each component there at the last time: a pass over the series, made once."""
        posterior, num_space = self.posterior, self.translation.num_space
        places = np.asarray(posterior.basis_places)[:, :num_space]
        padded = np.pad(places, ((0, 0), (0, self.translation.num_columns - num_space)))
        return places, posterior.components(np.full(len(places), posterior.times[-1]), padded)

    @property
    def effect_names(self) -> tuple[str, ...]:
        """Names of the components that are told by their effects: of covariates that are numbers, and of each category."""
        return (COVARIATES, *(category.component for category in self.translation.categories))

    def components(self) -> list[dict[str, Any]]:
        """What each component of the kernel is like, in units people use; covariates are told by their slopes."""
        places = np.asarray(self.posterior.basis_places)
        if self.translation.output is not None:
            places = places[places[:, -1] == self.translation.output]
        described = describe_components(self.model, self.names, self.translation, places)
        found = [part for part in described if part["name"] not in self.effect_names]
        own = [habit for habit in self.posterior.habits() if habit.component is not None]
        scale = self.translation.target.scale
        return found + [
            {
                "name": habit.component,
                "sd": habit.spread * scale,
                "space": {},
                "time": "",
                "kernel": habit.words,
                "strengths": "",
                "alike": "",
            }
            for habit in own
        ]

    @property
    def all_names(self) -> tuple[str | None, ...]:
        """Names of all that `posterior.components` tells of: the kernel's components, None for a mean, habits that add to f."""
        of_mean = () if self.model.mean is None else (None,)
        own = (habit.component for habit in self.posterior.habits())
        return (*self.names, *of_mean, *(name for name in own if name is not None))

    def seen_values(self) -> Float[np.ndarray, " row"]:
        """Values of the rows kept, batch after batch, in the target's own units."""
        values = np.concatenate([np.asarray(batch.values) for batch in self.batches])
        return self.translation.target.inverse(values)

    def summary(self, units: str | None) -> str:
        header = (
            f"SpaceTimeGP of {self.roles.target!r}: {self.num_rows:,} rows ({self.num_missing:,} without a value), "
            f"{len(self.times):,} times; {'converged' if self.converged else 'not converged'}"
        )
        if self.translation.target.transform.name != "identity":
            # Deviations are then of the transformed target, which has no units to speak of.
            units = None
        return summary_text(header, self.components(), self.noise(), self.effects(), units)

    def noise(self) -> float | None:
        """The deviation of the noise in units of the (transformed) target, None where the likelihood is not Gaussian.

        At the median place, where each has its own.
        """
        if not any(habit.name in ("noise", "neighbourhoods") for habit in self.posterior.habits()):
            return describe_noise(self.model, self.translation)
        places = self.seen_places()
        emission = self.posterior.emission(np.full(len(places), self.times[0]), places, RowExtras())
        still = Marginals(np.zeros(len(places)), np.zeros(len(places)))
        return float(np.median(emission.observed(still).moments(IDENTITY)[1])) * self.translation.target.scale

    def _seen(self) -> Sheet:
        """The rows seen so far, in the target's own units."""
        batches, scaling = self.batches, self.translation.scaling
        return Sheet(
            np.concatenate([batch.row_times for batch in batches]),
            np.concatenate([batch.row_places for batch in batches])[:, scaling.map_dimensions],
            self.seen_values(),
        )
