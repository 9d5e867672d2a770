# SPDX-License-Identifier: MIT
"""`SpaceTimeGP`: a space-time Gaussian process for people with a table."""

import contextlib
import dataclasses
import functools
import logging
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, final

import numpy as np

from weft.arrays import Given, require_whole
from weft.data.archive import write_archive
from weft.data.geographic_files import read_shapes
from weft.data.on_disk import FileArrays
from weft.data.polygons import check_polygons
from weft.data.tables import AnyTable, GridTable, Table, as_table
from weft.data.transforms import check_levels
from weft.distributed.clients import active_client, tasks_on
from weft.distributed.in_parts import TableInParts
from weft.distributed.lazy import answer_lazily, answers_of_parts, in_one_piece, is_on_dask
from weft.distributed.reading import gathered, in_parts
from weft.engines.cpu.threads import single_blas_thread
from weft.estimator.aggregating import POLYGON, Aggregation, aggregate, as_grouped
from weft.estimator.answers import answer_columns, as_answer, stack_draws
from weft.estimator.auditing import audit, first_look, learned_from
from weft.estimator.columns import Measurements, Roles, read_measurements, read_to_learn, roles_among
from weft.estimator.evaluation import MODEL, summaries_of
from weft.estimator.filling import fill
from weft.estimator.fitted import Fitted
from weft.estimator.forecasting import future_times, rows_ahead, station_columns, stations
from weft.estimator.gridding import make_grid
from weft.estimator.habits import habits_in_words, habits_table
from weft.estimator.in_parts import learn_in_parts, rows_to_hold_out
from weft.estimator.learning import learn, options_among
from weft.estimator.part_by_part import PartByPart, WholeScores
from weft.estimator.precision import in_float64
from weft.estimator.scikit_learn import Scores, regressor_tags
from weft.estimator.several import (
    check_several,
    draw_each,
    joined_scores,
    learn_several,
    predict_each,
    targets_among,
    together_in_words,
    transforms_of,
    update_each,
)
from weft.estimator.slopes import slopes_at
from weft.estimator.storage import KIND, Stored, StoredSeveral, from_plain_estimator, to_plain_estimator
from weft.estimator.suggesting import suggest
from weft.estimator.summary import learning_text
from weft.estimator.validation import cross_validate
from weft.estimator.virtual_station import rows_at
from weft.estimator.wide import regions_table, who_answers
from weft.inference.kept_answers import answers_kept, beside
from weft.inference.prediction import check_of
from weft.inference.watching import tasks_shown
from weft.likelihoods import RowExtras
from weft.notebook import facts_html
from weft.options import HeldOutBy, Of, Options
from weft.phases import Phase, Timings, recording
from weft.training.estimate import available_memory
from weft.training.progress import Iteration

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from weft.plots import Plots

__all__ = ["SpaceTimeGP"]

logger = logging.getLogger("weft")

_DEFAULTS = {field.name: field.default for field in dataclasses.fields(Options)}

# Rows predicted at a time when a table is answered piece by piece. Each piece costs a pass over the series, so pieces are as large as a
# quarter of the free memory can hold, at so many bytes a row, and never smaller than this.
_ROWS_AT_ONCE = 1_000_000
_BYTES_PER_ROW = 600

Taken = ParamSpec("Taken")
Answer = TypeVar("Answer")


def _timed(phase: Phase, *, anew: bool = False) -> Callable[[Callable[Taken, Answer]], Callable[Taken, Answer]]:
    """A method whose work is added to `timings_`, in `phase` where nothing inside says otherwise; or begins them, `anew`.

    BLAS has one thread meanwhile: pieces of work share the processors, and OpenBLAS's threads, which go on spinning after each small
    product between two pieces, took a third of a fit's processor time and a fifth of its clock.
    """

    def decorated(method: Callable[Taken, Answer]) -> Callable[Taken, Answer]:
        @functools.wraps(method)
        def timed(*args: Taken.args, **kwargs: Taken.kwargs) -> Answer:
            estimator: Any = args[0]
            with single_blas_thread(), estimator._recorded(phase, anew=anew):
                return method(*args, **kwargs)

        return timed

    return decorated


@final
class SpaceTimeGP(Options):
    """A Gaussian process of space and time: it is fitted to a table, and predicts tables.

    Columns, by name:

    - `time`: one column, or several such as `("year", "month", "day")`. `time_format` ("%d/%m/%Y", as in `strptime`) says how times
      are written, where that is not clear. `time_step` ("1D", "6h") rounds times to a regular step. With "auto" they are rounded
      where nearly every row has a different time and distinct times decide the cost: to a tenth of the usual time between two rows
      of a place (`binning_`). With None they never are.
    - `space`: longitude and latitude, or easting and northing, are measured in kilometres, other columns in their standard
      deviations. One column may be a category (text, categories, yes and no): each kind of place then has its own field, and how
      similar the fields are is learned.
    - `target`: one column, or several such as `("tmin", "tmax")`, which help to predict each other (`only` gives one of them).
      Values listed in `missing`, such as -9999, count as missing. `units` are written to gridded output.
    - `covariates` have linear effects. Categories have an effect for each level, drawn towards each other as far as levels are
      alike. With `{"ndvi": "local"}` a slope varies in space (`slopes`). Covariates that vary in time make every row a place of its
      own, which takes rows x pseudo-points x 8 bytes of memory.
    - `noise_variance` (of the transformed target), `exposure`, `trials`, `lower` and `upper` are columns with a value for each row.
      A table to predict may lack them: its rows then have no extra noise, exposure 1, one trial and no limits.
    - `area`: the column that names the area that a row is the mean of; empty for rows at a place. `areas` says what the areas are:
      a file of polygons that have this property, or a table of points, or its file.

    The model:

    - `likelihood`: "gaussian", "student_t", "poisson", "negative_binomial", ... or an object. `transform` of the target: "log",
      "log1p", "sqrt", "fourth_root", "logit". The target is then standardised where the likelihood allows; predictions are in its
      own units.
    - `components`: some of "slow", "fast", "local", "yearly", "weekly", "daily"; or "auto", which starts from a slow and a fast
      one, tries others (a local one, rougher ones, seasons, levels of places) on small blocks of the table, and keeps those that
      improve the prediction of left-out rows and places. `seasonality` adds seasons: "yearly", "weekly", "daily", a length such as
      "12h", or a number of time units.
    - `kernel` replaces components: a `weft.Separable`, or a sum of them, where learning starts. Its units are kilometres (standard
      deviations for other columns), the unit of time (days for daily data), and a target of variance 1.
    - `habits`: how single places differ from the field for good: some of "level", "noise" and "shift" (dates off by whole steps),
      None, or "auto", which keeps those that improve the prediction of left-out rows (`habits_`). With habits, the tails of
      predictions are learned from hidden rows too. `place_offsets` gives each place a constant level where there are fewer
      pseudo-points than places and it makes a difference.
    - `pseudo_points`: a count (placed by k-means), None for an exact model, a matrix or `weft.FourierFeatures` in the scaled
      coordinates, or "auto": every place if there are at most 150, which is exact, else up to 100 for each component, placed
      greedily, and fewer where the series is very long. `power`: 0 is the variational bound, 1 FITC.
    - `regions`: a number, None for a single model, or "auto", which cuts a wide map into regions where the pseudo-points of one
      model would leave out too much compared with the noise (`regions_` lists them). Each is exact or, where that takes long,
      leaves out up to a twentieth of the noise variance; predictions change smoothly from one to the next.

    The work:

    - `learning_rows`: about how many rows parameters are learned from, None for all, or "auto": small parts of the table, each
      modelled exactly, where all of it would take long (with covariates, stretches of the series). Predictions always use all rows.
    - `max_iterations` of the search for parameters, the `engine` for linear algebra, and the `seed` of random numbers.
    - `progress`: "bar", "log", None, or "auto": a line that changes on a terminal, else one a minute in the log.

    `timings_` says how long the fit and every call since have taken, by phase: processor time, time on the clock, memory.

    Rows without a value are kept, counted (`num_missing_`) and predicted; rows without a time or place are refused.
    """

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments of the constructor, as given."""
        return {name: getattr(self, name) for name in _DEFAULTS}

    def set_params(self, **params: Any) -> "SpaceTimeGP":
        """Change arguments; what was learned stays until the next fit."""
        for name, value in params.items():
            if name not in _DEFAULTS:
                raise ValueError(f"SpaceTimeGP has no argument {name!r}; it has {', '.join(_DEFAULTS)}")
            setattr(self, name, value)
        return self

    @in_float64
    @_timed("learn", anew=True)
    def fit(
        self,
        table: Given[AnyTable | str | os.PathLike[str]],
        y: Given[None] = None,
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        resume: bool = False,
        callback: Callable[[Iteration], None] | None = None,
        client: Any = None,
    ) -> "SpaceTimeGP":
        """Learn from a pandas, polars, pyarrow or xarray table. The target is one of its columns, so `y` stays None.

        The table may also be a dask DataFrame, a Dataset on Dask, or the path of a file or of a folder of parquet files: workers then
        read it, and only the columns needed come here.

        `checkpoint` names a file to go on from, with `resume`, after an interruption; `callback` sees each iteration. Where regions answer,
        what they have said is beside it until the fit ends, in a file whose name ends in `.regions`: none is asked twice.
        With a `client` (a `dask.distributed.Client`, or `weft.distributed.Processes`) parts to learn from and regions to answer are
        its workers' work; what is learned is the same, and so is this object.
        """
        _refuse_apart(y)
        options = options_among(self.get_params())
        if client is None and is_on_dask(table):
            client = active_client()
        if targets_among(self.target):
            if resume:
                raise ValueError("a fit of several targets cannot be resumed; start it again without resume")
            return self._fit_several(options, table, client, callback)
        named = self._roles()
        answers = None if checkpoint is None else beside(checkpoint)
        with tasks_on(client), tasks_shown(self.progress), answers_kept(answers, go_on=resume):
            seen = in_parts(table, *self._columns_of((named,)))
            how: dict[str, Any] = {
                "checkpoint": checkpoint,
                "resume": resume,
                "callback": callback,
                "progress": self.progress,
            }
            learned = (
                learn_in_parts(options, named, seen, **how)
                if isinstance(seen, TableInParts)
                else learn(options, *read_to_learn(seen, named), **how)
            )
        self.binning_ = learned.binning
        if learned.binning is not None:
            logger.info("%s", learned.binning.message)
        self.result_ = learned.result
        self._keep(learned.fitted)
        return self

    @in_float64
    def predict(
        self, table: Given[AnyTable], quantiles: Sequence[float] = (0.05, 0.95), *, of: Given[Of] = "observation"
    ) -> Given[AnyTable]:
        """The table with columns mean, sd, latent_sd and q0.05, ... added: same kind, index and order.

        `of="observation"` predicts what would be measured, noise included; `of="field"` what is behind it: for counts
        the rate, for a transformed target its inverse without noise. `latent_sd` is the field's deviation either way.
        An xarray Dataset gives the Dataset of its grid with CF-1.11 attributes. A dask DataFrame, or a Dataset on Dask, gives one of
        its kind: lazy, and answered partition by partition when it is computed or written. Of several targets, columns are named
        after each: `tmin_mean`, `tmin_sd`, ...
        """
        if is_on_dask(table):
            return answer_lazily(self._ready(), "predict", table, quantiles=tuple(np.atleast_1d(quantiles)), of=of)
        return self._predict(self._any_learned().roles.table(table, with_target=False), quantiles, of)

    def predict_pieces(
        self, table: Given[AnyTable], quantiles: Sequence[float] = (0.05, 0.95), *, of: Given[Of] = "observation"
    ) -> Iterator[Given[AnyTable]]:
        """The same piece by piece, for tables whose answer would not fit into memory; `write_pieces` takes them.

        A piece holds a million rows, or more if a quarter of the free memory holds more: rows of a frame, slices of a grid along its
        first dimension.
        """
        whole = self._any_learned().roles.table(table, with_target=False)
        for piece in _pieces(whole):
            yield in_float64(self._predict)(piece, quantiles, of)

    @in_float64
    @_timed("predict")
    def sample(
        self, table: Given[AnyTable], num: int = 10, seed: int = 0, *, of: Given[Of] = "observation"
    ) -> Given[AnyTable]:
        """Joint draws over the table's rows, across places and times: columns draw_0, draw_1, ... added.

        An xarray Dataset gets one variable `draws` whose first dimension is `draw`. A table on Dask gives a lazy one of its kind, in
        one partition, because its draws are joint over all rows. Of several targets they are joint over these too: `tmin_draw_0`, ...
        """
        check_of(of)
        require_whole("num", num, 1)
        require_whole("seed", seed, 0)
        if is_on_dask(table):
            return answer_lazily(self._ready(), "sample", in_one_piece(table), num=num, seed=seed, of=of)
        fitted = self._any_learned()
        asked = fitted.roles.table(table, with_target=False)
        rows = read_measurements(asked, fitted.roles, with_target=False)
        if self._several:
            drawn = {f"{name}_draw": draws for name, draws in draw_each(self._views, rows, num, seed, of).items()}
        else:
            drawn = {"draw": fitted.draws(rows, num, seed, of)}
        columns = {f"{name}_{number}": draw for name, draws in drawn.items() for number, draw in enumerate(draws)}
        answer: Any = as_answer(asked, columns, fitted, of=of, units=self.units)
        if isinstance(asked, GridTable):
            for name in drawn:
                answer = stack_draws(answer, [f"{name}_{number}" for number in range(num)], f"{name}s")
        return answer

    @in_float64
    @_timed("predict")
    def fill(self, table: Given[AnyTable], *, of: Given[Of] = "observation") -> Given[AnyTable]:
        """The same table with the target's gaps filled under its own name: same kind, index and order.

        Two columns come last: `filled`, true where a gap was, and `sd`, the deviation of what was filled in, 0 where a
        value was there. Gaps are filled from all that the model has seen; `update` first to let it see the table. A table on Dask
        gives a lazy one of its kind. Of several targets each is filled, also from the others: `tmin_filled`, `tmin_sd`, ...
        """
        check_of(of)
        if is_on_dask(table):
            replaced = tuple(each.fitted_.roles.target for each in self.each_target())
            return answer_lazily(self._ready(), "fill", table, replaced=replaced, of=of)
        if self._several:
            for name, view in self._views.items():
                table = fill(view, view.roles.table(table, with_target=True), of, f"{name}_")
            return table
        fitted = self._learned()
        return fill(fitted, fitted.roles.table(table, with_target=True), of)

    @in_float64
    @_timed("predict")
    def forecast(
        self,
        horizon: Any,
        at: Given[AnyTable | None] = None,
        quantiles: Sequence[float] = (0.05, 0.95),
        *,
        of: Given[Of] = "observation",
    ) -> Given[AnyTable]:
        """Predictions beyond the last time seen, up to a `horizon` such as "30D", at the usual step between times.

        `at` is a table of places or a grid; its kind comes back, with the columns of `predict`. Left out, it is every
        station seen. Where times are plain numbers, so is the horizon.
        """
        check_of(of)
        levels = check_levels(np.atleast_1d(quantiles)).tolist()
        fitted = self._any_learned()
        roles = fitted.roles
        times = future_times(fitted.translation.clock, fitted.times, horizon)
        if self._several and at is None:
            at = _frame(station_columns(fitted, stations(fitted)))
        if at is not None:
            return self._predict(roles.table(rows_ahead(fitted, at, times), with_target=False), quantiles, of)
        # Asked at the very places the posterior knows: those made again from columns differ in the last digits.
        places = stations(fitted)
        prediction = fitted.prediction_at(np.repeat(times, len(places)), np.tile(places, (len(times), 1)), RowExtras())
        table = rows_ahead(fitted, _frame(station_columns(fitted, places)), times)
        asked = roles.table(table, with_target=False)
        return as_answer(asked, answer_columns(prediction, levels, of), fitted, of=of, units=self.units)

    @in_float64
    def grid(self, step: Any, times: Any = None, terrain: Any = None, *, land_only: bool = False) -> "xr.Dataset":
        """A grid over the places seen, ready for `predict`: a Dataset with the columns' own names as coordinates.

        `step` is "10km", or a number in the columns' units (degrees); points are multiples of it. `times` are one or
        several, the last seen unless given. Further columns, such as an elevation, come from `terrain`, a Dataset over
        the same coordinates at any resolution. `land_only` leaves out points whose terrain is missing or not above 0;
        those left lie along one dimension `point`.
        """
        return make_grid(self._any_learned(), step, times, terrain, land_only=land_only)

    @in_float64
    def point(
        self,
        place: Given[Mapping[str, float | str] | Sequence[float]],
        times: Any = None,
        quantiles: Sequence[float] = (0.05, 0.95),
        *,
        of: Given[Of] = "observation",
    ) -> "pd.DataFrame":
        """A virtual station: the series at one place, `{"lat": 47.6, "lon": -122.3, "elevation": 50}`, as `predict` gives it.

        Bare numbers are in the order of `space`. `times` are those seen unless given.
        """
        fitted = self._any_learned()
        rows: Any = self._predict(fitted.roles.table(rows_at(fitted, place, times), with_target=False), quantiles, of)
        return rows

    @in_float64
    @_timed("predict")
    def aggregate(
        self,
        table: Given[AnyTable],
        by: str | Sequence[str] = (),
        weights: str | None = None,
        *,
        how: str = "mean",
        of: Given[Of] = "field",
        compare: Sequence[Any] | None = None,
        polygons: Any = None,
        quantiles: Sequence[float] = (0.05, 0.95),
        num_draws: int = 500,
        seed: int = 0,
    ) -> Given[AnyTable]:
        """Means (or sums) over groups of the rows of a table or the points of a grid: one row a group.

        `by` names columns, or "year", "month", "day", "hour" of the time; without it all rows are one group. `weights`
        is "area" (of the cells of a grid) or a column. The answer has the groups' columns, `mean`, `sd`, quantiles,
        `rows`, and `uncertainty`: "exact", or "sampled" by `num_draws` joint draws where the target is transformed or
        its likelihood not Gaussian.

        `compare=("a", "b")` gives the first group less the second as one row, with the uncertainty of the *difference*:
        errors that both share cancel. Groups are told by their value of the last column of `by`, or by tuples of all.

        `polygons` is a GeoJSON file or dict (or a GeoPackage): `by` may then name what is said of them, or "polygon", their number.
        Rows in none are left out, and said; those in several are in the first.
        """
        check_of(of)
        require_whole("num_draws", num_draws, 2)
        require_whole("seed", seed, 0)
        levels = tuple(check_levels(np.atleast_1d(quantiles)).tolist())
        names = (by,) if isinstance(by, str) else tuple(by)
        fitted = self._learned()
        shapes = None if polygons is None else read_shapes(polygons)
        if shapes is not None:
            check_polygons(shapes.geometries, "polygons")
            names = names or (POLYGON,)
        asked = Aggregation(names, weights, how, of, levels, num_draws, seed, shapes)
        return aggregate(fitted, as_grouped(fitted, table, asked), asked, compare)

    @in_float64
    @_timed("evaluate")
    def audit(self, table: Given[AnyTable], *, rate: float = 0.01) -> "pd.DataFrame":
        """Rows that disagree with their neighbours, most suspicious first: a pandas frame with the table's own index.

        `value`, `expected` and `sd` without the row (or without its station, where that says more), the `probability` of a value
        so far off where nothing is wrong, the likely `cause`, and `row`, its number. Causes: a code for a missing value, a sign, a
        unit or a decimal point, a stuck sensor, a copied station, shifted dates, swapped coordinates, a time and place observed
        twice, a level that jumps. Rows not listed are not
        suspicious; about a share `rate` of those listed will be right after all. Nothing is changed.

        A model that has learned from faults is no judge of them. Rows that differ from their neighbours are therefore found first without
        any model, and where the model has learned from them, and they are many or far off, the others are fitted again, for the audit
        alone; and once more where it then finds many wrong that it has learned from.
        """
        fitted = self._learned()
        asked = fitted.roles.table(table, with_target=True)
        rows = read_measurements(asked, fitted.roles, with_target=True)

        def relearned(kept: Measurements, why: str, number: int) -> Fitted:
            logger.info("the model learned from %d %s; fitting again without, to audit", number, why)
            return learn(options_among(self.get_params()), fitted.roles, kept, progress=self.progress).fitted

        rows.require_value(fitted.roles, "audit")
        judge, look = fitted, first_look(fitted, rows)
        if learned_from(fitted, rows, look.doubtful, look.share):
            judge = relearned(rows.take(look.sound), "rows that differ from their neighbours", len(look.doubtful))
        found = audit(judge, asked, rate)
        suspects = found["row"].to_numpy()
        if learned_from(judge, rows, suspects, share=0.0):
            judge = relearned(rows.take(np.setdiff1d(look.sound, suspects)), "rows that it finds wrong", len(suspects))
            found = audit(judge, asked, rate)
        return found

    @in_float64
    @_timed("predict")
    def suggest(self, at: Given[AnyTable], num: int = 1, *, time: Any = None) -> "pd.DataFrame":
        """Where to put one more station: the places of a table or grid at which one would lower the mean variance of the field most.

        `num` of them are chosen one after another, each with those before in place. The answer has the mean variance over the places of
        `at` without and with each, at one `time`, the last of the table unless given.
        """
        require_whole("num", num, 1)
        return suggest(self._learned(), at, num, time)

    @in_float64
    @_timed("condition")
    def update(self, table: Given[AnyTable]) -> "SpaceTimeGP":
        """Take in more rows without learning again: scales and parameters stay, answers use all rows from here on."""
        if self._several:
            for name, view in update_each(self._views, table).items():
                self._several[name]._keep(view)
            return self
        fitted = self._learned()
        self._keep(fitted.updated(fitted.read(table)))
        return self

    @in_float64
    @_timed("condition")
    def update_pieces(self, tables: Given[Iterable[AnyTable]]) -> "SpaceTimeGP":
        """The same of a table that comes piece by piece, of which some may have no value.

        A model whose rows stay on disk holds one piece at a time. Nothing has changed where a piece cannot be taken in.
        """
        before = fitted = self._learned()
        for table in tables:
            rows = fitted.read(table)
            is_empty = rows.num_missing == rows.num_rows
            fitted = fitted.counting(rows) if is_empty else fitted.updated(rows)
        if fitted.posterior is before.posterior:
            raise ValueError(f"no row has a value of {before.roles.target!r}, so there is nothing to take in")
        self._keep(fitted)
        return self

    @in_float64
    @_timed("evaluate")
    def score(self, table: Given[AnyTable], y: Given[None] = None) -> Scores:
        """Named scores of predictions for the table's rows, which the model should not have seen: a dict.

        CRPS, log density, errors, coverage and PIT; then `mean_crps_<baseline>` of what anyone could predict from the
        training rows without a model, and `crps_skill`: 1 less the ratio to the best of those. Rows without a value are
        counted in `num_missing`. `score` is mean CRPS with its sign turned, by which scikit-learn's tools choose. Of a table on
        Dask every partition is scored where it is. Of several targets each is scored: `tmin_mean_crps`, ...; `mean_crps` itself is
        then their mean, each by its deviation.
        """
        _refuse_apart(y)
        if self._several:
            return joined_scores({name: gp.score(table) for name, gp in self._several.items()}, self._views)
        fitted = self._learned()
        if is_on_dask(table):
            whole = WholeScores([fitted])
            for part in answers_of_parts(PartByPart([fitted], [self.seed]), "sums", table):
                whole.add(part)
            (summaries,) = whole.summaries()
            found = summaries[MODEL]
        else:
            rows = fitted.read(table)
            summaries = summaries_of(fitted.score_rows(rows, self.seed), fitted.target_sd)
            found = summaries[MODEL] | {"num_missing": rows.num_missing}
        baselines = {name: float(summary["mean_crps"]) for name, summary in summaries.items() if name != MODEL}
        if baselines:
            found |= {f"mean_crps_{name}": value for name, value in baselines.items()}
            found["crps_skill"] = 1 - float(found["mean_crps"]) / min(baselines.values())
        return Scores(found)

    @in_float64
    @_timed("evaluate")
    def score_rows(self, table: Given[AnyTable]) -> "pd.DataFrame":
        """The scores behind `score`, as a pandas frame with one line a model and row; `weft.compare` takes two."""
        fitted = self._learned()
        return fitted.score_rows(fitted.read(table), self.seed)

    @in_float64
    @_timed("evaluate")
    def cross_validate(
        self,
        table: Given[AnyTable],
        by: Given[HeldOutBy] = "station",
        folds: int | None = None,
        *,
        refit: bool = False,
        horizon: Any = None,
        output: Given[Literal["scores", "rows"]] = "scores",
        seed: int | None = None,
    ) -> "pd.DataFrame":
        """Scores of held-out rows, beside those of naive baselines given the same rows: a tidy pandas frame.

        `by`: "station" holds out whole places, "block" whole neighbourhoods, "random" rows, and "time" predicts each
        stretch from what came before it. Parameters learned by `fit` are used again and only the rows are held out, so
        scores are a little flattering where parameters are many and rows few; `refit=True` learns anew for every fold,
        which takes as many fits. `folds` is 5 unless given; of those, a model so large that each takes minutes predicts
        fewer, and says so, unless the number is given. Of a table on Dask, or the path of one in many files, with more rows than are
        learned from at once, stretches of the series are used. `by="time", horizon="90D"` forecasts so far from as many origins, and the
        frame also has scores by lead time (`fold` "up to 1 day", "up to 2 days", "up to 4 days", ...). `output="rows"` gives the
        scores of every row instead, for `weft.compare`.
        """
        fitted = None if refit else self._learned()
        parts = in_parts(table, *self._columns_of((self._roles(),)))
        if isinstance(parts, TableInParts):
            parts = rows_to_hold_out(options_among(self.get_params()), self._roles(), parts)
        seen = self._roles().table(parts, with_target=True)
        roles = self._roles().seen_in(seen) if fitted is None else fitted.roles
        rows = read_measurements(seen, roles, with_target=True)
        with tasks_shown(self.progress):
            return cross_validate(
                options_among(self.get_params()),
                roles,
                rows,
                fitted,
                by=by,
                num_folds=folds,
                output=output,
                seed=self.seed if seed is None else seed,
                horizon=horizon,
            )

    @in_float64
    def effects(self) -> "pd.DataFrame":
        """Slopes of the covariates, per unit of each and in the target's units (transformed, if it is), as a frame.

        A category has a line for each `level`: what it adds, next to nothing where it was hardly seen.
        """
        import pandas as pd

        return pd.DataFrame(self._learned().effects(), columns=["covariate", "level", "slope", "sd"])

    @in_float64
    def slopes(self, places: Given[AnyTable]) -> Given[AnyTable]:
        """The slope of each covariate that is a number at each of these places, with its deviation: `ndvi_slope`, `ndvi_slope_sd`, ...

        Per unit of the covariate, in the target's units (transformed, if it is); a covariate without a slope that varies in space has
        the same everywhere. `places` is a table with the columns of space.
        """
        fitted = self._learned()
        table = as_table(places, fitted.roles.space)
        return table.with_columns(slopes_at(fitted, table))

    @property
    def components_(self) -> list[dict[str, Any]]:
        """What each component of the kernel was learned to be: deviation, length scales with units, kernels' names."""
        return in_float64(self._learned().components)()

    @property
    def regions_(self) -> Any:
        """A pandas table of the regions that answer: the middle of each, its places and rows; empty where one model does."""
        fitted = self._learned()
        return regions_table(fitted.posterior, fitted.translation.scaling.inverse)

    @in_float64
    def summary(self) -> str:
        """What was learned, in kilometres, time units and units of the target; print it."""
        if self._several:
            return "\n".join(
                [together_in_words(self._views, self.rank_), *(gp.summary() for gp in self._several.values())]
            )
        fitted = self._learned()
        tried = [f"  tried: {line}" for line in fitted.trials]
        learned = learning_text(self.result_, fitted.names)
        habits = [f"  {line}" for line in habits_in_words(fitted)]
        stepped = [] if self.binning_ is None else [f"  {self.binning_.message}"]
        answering = [f"  {line}" for line in who_answers(fitted.posterior)]
        return "\n".join([fitted.summary(self.units), *learned, *answering, *stepped, *tried, *habits])

    @in_float64
    @_timed("write")
    def save(self, path: str | os.PathLike[str], *, rows: bool = True) -> None:
        """Write the estimator with all it learned to one file, whole or not at all; `weft.load` reads it.

        Without `rows` the file is smaller and holds no measurement: it predicts the same, but has no baselines to score
        beside, and cannot take in rows at new places of an exact model.
        """
        arrays: FileArrays = []
        plain = to_plain_estimator(self._stored(), arrays, with_rows=rows)
        write_archive(pathlib.Path(path), KIND, plain, arrays, read=from_plain_estimator)

    def _stored(self) -> Stored | StoredSeveral:
        if self._several:
            return StoredSeveral(
                self.get_params(), self.rank_, {name: gp._alone() for name, gp in self._several.items()}
            )
        return self._alone()

    def _alone(self) -> Stored:
        return Stored(self.get_params(), self._learned(), self.result_, self.binning_)

    @classmethod
    def from_stored(cls, stored: Stored | StoredSeveral) -> "SpaceTimeGP":
        """The estimator that was stored."""
        made = cls(**stored.arguments)
        made.timings_ = Timings()
        if isinstance(stored, StoredSeveral):
            made.rank_ = stored.rank
            made.targets_ = {name: cls.from_stored(each) for name, each in stored.targets.items()}
            return made
        made.result_ = stored.result
        made.binning_ = stored.binning
        made._keep(stored.fitted)
        return made

    @_timed("report")
    def report(self, path: str | os.PathLike[str], **options: Any) -> None:
        """Write one self-contained HTML page about the model; options are those of `weft.report.write_report`."""
        from weft.report import write_report

        write_report(self, path, **options)

    @property
    def plot(self) -> "Plots":
        """Pictures by matplotlib: `gp.plot.map(time)`, `.series(station)`, `.components()`, `.calibration(table)`, `.regions()`."""
        from weft.plots import Plots

        self._learned()
        return Plots(self)

    def __repr__(self) -> str:
        changed = [
            f"{name}={value!r}" for name, value in self.get_params().items() if not _is_same(value, _DEFAULTS[name])
        ]
        return f"SpaceTimeGP({', '.join(changed)})"

    def _repr_html_(self) -> str:
        if getattr(self, "fitted_", None) is None and not self._several:
            return facts_html([["not fitted yet", repr(self)]])
        header, *lines = self.summary().splitlines()
        what, _, counts = header.partition(": ")
        return facts_html([[what, counts], *(line.strip().partition("  ")[::2] for line in lines)])

    def __sklearn_tags__(self) -> Any:
        return regressor_tags()

    def _roles(self, target: str | None = None) -> Roles:
        return roles_among(self.get_params() | ({} if target is None else {"target": target}))

    @contextlib.contextmanager
    def _recorded(self, phase: Phase, *, anew: bool) -> Iterator[None]:
        """Add what is spent within it to `timings_`, unless it fails; what questions asked on the way add is part of that."""
        earlier = Timings() if anew else getattr(self, "timings_", Timings())
        with recording(phase) as account:
            begun = account.so_far()
            yield
            self.timings_ = earlier + (account.so_far() - begun)
        if anew:
            for each in self._several.values():
                each.timings_ = self.timings_

    def _keep(self, fitted: Fitted) -> None:
        self.fitted_ = fitted
        self.posterior_ = fitted.posterior
        self.model_ = fitted.model
        self.component_names_ = fitted.names
        self.roles_ = fitted.roles
        self.translation_ = fitted.translation
        self.target_sd_ = fitted.target_sd
        self.num_rows_ = fitted.num_rows
        self.num_missing_ = fitted.num_missing

    @property
    def habits_(self) -> Any:
        """How single places differ from the field for good, as a pandas frame: where, `habit`, `value`, `sd`, and `found` if beyond doubt.

        A level is in the units of the (transformed) target. A noise is the standard deviation of the place's noise divided by the usual
        one. A shift is in steps of time: a row dated t there belongs to t + shift.
        """
        return in_float64(habits_table)(self._learned())

    def only(self, target: str) -> "SpaceTimeGP":
        """Of several targets this one, as an estimator that answers every question; what it says rests on the rows of all."""
        if target not in self._several:
            raise ValueError(
                f"there is no target {target!r} among several; there are {', '.join(self._several) or 'none'}"
            )
        return self._several[target]

    def each_target(self) -> "tuple[SpaceTimeGP, ...]":
        """An estimator for each of several targets, as `only` gives it; of one target, this one."""
        return tuple(self._several.values()) or (self._ready(),)

    def require_one_target(self) -> None:
        """Raise unless it has learned, of one target."""
        self._learned()

    @property
    def _several(self) -> dict[str, "SpaceTimeGP"]:
        """Estimators by target, where there are several."""
        return getattr(self, "targets_", {})

    @property
    def _views(self) -> dict[str, Fitted]:
        return {name: gp.fitted_ for name, gp in self._several.items()}

    def _fit_several(self, options: Options, table: Any, client: Any, callback: Any) -> "SpaceTimeGP":
        targets = targets_among(self.target)
        check_several(options)
        transforms = transforms_of(self.transform, targets)
        with tasks_on(client), tasks_shown(self.progress):
            seen = gathered(table, *self._columns_of([self._roles(target) for target in targets]))
            together = learn_several(options, seen, progress=self.progress, callback=callback)
        self.rank_ = together.rank
        self.targets_ = {}
        for name, learned in together.learned.items():
            own = SpaceTimeGP(**{**self.get_params(), "target": name, "transform": transforms[name]})
            own.result_, own.binning_ = learned.result, learned.binning
            own._keep(learned.fitted)
            self.targets_[name] = own
        return self

    def _columns_of(self, named: Sequence[Roles]) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
        """Columns of a table that these roles need: of time, of places, and those that are numbers."""
        one = named[0]
        return one.time, one.of_places, tuple(dict.fromkeys(name for roles in named for name in roles.numeric))

    def _ready(self) -> "SpaceTimeGP":
        """Raise unless it has learned."""
        self._any_learned()
        return self

    def _any_learned(self) -> Fitted:
        """What was learned, of the first target where there are several: all have the same columns otherwise."""
        return next(iter(self._views.values())) if self._several else self._learned()

    def _learned(self) -> Fitted:
        if self._several:
            names = tuple(self._several)
            raise ValueError(
                f"the model has several targets, {', '.join(names)}; ask about one of them: gp.only({names[0]!r}), or --target "
                f"{names[0]} on the command line"
            )
        fitted = getattr(self, "fitted_", None)
        if fitted is None:
            raise ValueError("this SpaceTimeGP has not learned anything yet; call fit(table) first")
        return fitted

    @_timed("predict")
    def _predict(self, table: Table, quantiles: Sequence[float], of: str) -> Any:
        check_of(of)
        levels = check_levels(np.atleast_1d(quantiles)).tolist()
        fitted = self._any_learned()
        rows = read_measurements(table, fitted.roles, with_target=False)
        several = self._views
        columns = (
            predict_each(several, rows, levels, of) if several else answer_columns(fitted.prediction(rows), levels, of)
        )
        return as_answer(table, columns, fitted, of=of, units=self.units)


def _frame(columns: Mapping[str, np.ndarray]) -> "pd.DataFrame":
    import pandas as pd

    return pd.DataFrame(columns)


def _refuse_apart(y: Any) -> None:
    if y is not None:
        raise ValueError("the target is a column of the table, named when the estimator was made; leave y out")


def _is_same(value: Any, default: Any) -> bool:
    """Whether an argument is its default: one read from a file is equal, and not the same object."""
    return type(value) is type(default) and (
        value is default or (isinstance(value, str | int | float | tuple) and value == default)
    )


def _pieces(table: Table) -> Iterator[Table]:
    at_once = max(_ROWS_AT_ONCE, available_memory() // 4 // _BYTES_PER_ROW)
    if isinstance(table, GridTable) and table.dims:
        first, rest = table.dims[0], int(np.prod(table.shape[1:]))
        count = max(1, at_once // max(rest, 1))
        for start in range(0, table.shape[0], count):
            part = table.dataset.isel({first: slice(start, start + count)})
            yield GridTable(part, table.dims, 0, part.sizes[first] * rest)
        return
    for start in range(0, max(table.num_rows, 1), at_once):
        yield table.rows(start, start + at_once)
