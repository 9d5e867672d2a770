# SPDX-License-Identifier: MIT
"""`SpaceTimeGP`: a space-time Gaussian process for people with a table."""

import inspect
import logging
import os
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
from jaxtyping import Float

from weft.data.tables import Table
from weft.estimator.answers import answer_columns, as_answer, check_of
from weft.estimator.building import Start, build_start
from weft.estimator.columns import EXTRAS, Measurements, Roles, make_roles, read_measurements
from weft.estimator.defaults import is_standardised, likelihood_from
from weft.estimator.precision import in_float64
from weft.estimator.predictive import Predictive, make_predictive
from weft.estimator.translation import learn_translation
from weft.inference.posterior import Posterior, condition
from weft.likelihoods import Gaussian
from weft.training.fitting import FitResult, fit

__all__ = ["SpaceTimeGP"]

logger = logging.getLogger("weft")

# A climb ends when no entry of the gradient exceeds this many nats a row: what is left to gain no score would show.
_GRADIENT_PER_ROW = 2e-4
_TOLERANCE = 1e-7


@final
class SpaceTimeGP:
    """A Gaussian process of space and time, fitted to a table and answering with tables.

    `time`, `space`, `target` and `covariates` name columns. Columns of longitude and latitude (or easting and northing)
    are measured in kilometres, others of space in their standard deviations; `covariates` have linear effects. The
    target is transformed (`transform`: "log", "log1p", "sqrt", "logit"), then standardised where the likelihood allows,
    and answers come back in its own units.

    `kernel`: None for a slow plus a fast component scaled to the data, or a `weft.Separable` or a sum of them to start
    from, in these units: kilometres and deviations, the times' unit (days for daily data), a target of variance 1.
    `likelihood`: "gaussian", "student_t", "poisson", "negative_binomial", ... or an object.
    `pseudo_points`: "auto" (every place up to 80 distinct ones, which is exact; else 50 by k-means), a count, None for
    exact, or a matrix in the scaled coordinates.
    `seasonality`: "yearly", "weekly", "daily", lengths such as "12h", numbers of time units; each is one more component.
    `time_step` ("1D", "6h") puts times on a regular step. `noise_variance`, `exposure` and `trials` name columns; noise
    variances are of the transformed target. A table to predict may lack these: its rows then have no noise of their
    own, exposure 1 and one trial. `units` of the target are written to gridded output.

    Rows without a value are kept, counted (`num_missing_`) and predicted; rows without a time or place are refused.
    Covariates that vary in time make every row a place of its own, with weights of rows x pseudo-points x 8 bytes.
    """

    def __init__(
        self,
        *,
        time: str,
        space: Sequence[str],
        target: str,
        covariates: Sequence[str] = (),
        kernel: Any = None,
        likelihood: Any = "gaussian",
        pseudo_points: Any = "auto",
        transform: str | None = None,
        seasonality: Any = (),
        time_step: str | float | int | None = None,
        noise_variance: str | None = None,
        exposure: str | None = None,
        trials: str | None = None,
        units: str | None = None,
        power: float = 0.0,
        engine: str = "auto",
        seed: int = 0,
        max_iterations: int = 100,
        progress: str | None = "auto",
    ):
        self.time = time
        self.space = space
        self.target = target
        self.covariates = covariates
        self.kernel = kernel
        self.likelihood = likelihood
        self.pseudo_points = pseudo_points
        self.transform = transform
        self.seasonality = seasonality
        self.time_step = time_step
        self.noise_variance = noise_variance
        self.exposure = exposure
        self.trials = trials
        self.units = units
        self.power = power
        self.engine = engine
        self.seed = seed
        self.max_iterations = max_iterations
        self.progress = progress

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments of the constructor, as given."""
        return {name: getattr(self, name) for name in _argument_names()}

    def set_params(self, **params: Any) -> "SpaceTimeGP":
        """Change arguments; what was learned stays until the next fit."""
        for name, value in params.items():
            if name not in _argument_names():
                raise ValueError(f"SpaceTimeGP has no argument {name!r}; it has {', '.join(_argument_names())}")
            setattr(self, name, value)
        return self

    @in_float64
    def fit(
        self,
        table: Any,
        y: None = None,
        *,
        checkpoint: str | os.PathLike | None = None,
        resume: bool = False,
        callback: Callable | None = None,
    ) -> "SpaceTimeGP":
        """Learn from a pandas, polars, pyarrow or xarray table. The target is one of its columns, so `y` stays None.

        `checkpoint` names a file to go on from, with `resume`, after an interruption; `callback` sees each iteration.
        """
        if y is not None:
            raise ValueError("the target is a column of the table, named when the estimator was made; leave y out")
        roles = self._roles()
        rows = read_measurements(roles.table(table, with_target=True), roles, with_target=True)
        self._learn(roles, rows, checkpoint=checkpoint, resume=resume, callback=callback)
        return self

    @in_float64
    def predict(self, table: Any, quantiles: Sequence[float] = (0.05, 0.95), *, of: str = "observation") -> Any:
        """The table with columns mean, sd, latent_sd and q0.05, ... added: same kind, index and order.

        `of="observation"` predicts what would be measured, noise included; `of="field"` what is behind it: for counts
        the rate, for a transformed target its inverse without noise. `latent_sd` is the field's deviation either way.
        An xarray Dataset gives the Dataset of its grid with CF-1.11 attributes.
        """
        check_of(of)
        roles = self._fitted_roles()
        rows_table = roles.table(table, with_target=False)
        columns = answer_columns(self._predictive_at(rows_table), quantiles, of)
        return self._as_answer(rows_table, columns, of)

    @in_float64
    def sample(self, table: Any, num: int = 10, seed: int = 0, *, of: str = "observation") -> Any:
        """Joint draws over the table's rows, across places and times: columns draw_0, draw_1, ... added.

        An xarray Dataset gets one variable `draw` with a dimension of that name in front.
        """
        check_of(of)
        roles = self._fitted_roles()
        rows_table = roles.table(table, with_target=False)
        rows = read_measurements(rows_table, roles, with_target=False)
        draws = self._draws(rows, num, seed, of)
        columns = {f"draw_{number}": draw for number, draw in enumerate(draws)}
        answer = self._as_answer(rows_table, columns, of)
        return answer if rows_table.kind != "xarray" else _stacked(answer, num, self.target)

    @in_float64
    def update(self, table: Any) -> "SpaceTimeGP":
        """Take in more rows without learning again: scales and parameters stay, answers use all rows from here on."""
        roles = self._fitted_roles()
        rows = read_measurements(roles.table(table, with_target=True), roles, with_target=True)
        self._count(rows)
        self.posterior_ = self.posterior_.update(self.translation_.observations(rows))
        return self

    def _roles(self) -> Roles:
        return make_roles(
            self.time, self.space, self.target, self.covariates, **{name: getattr(self, name) for name in EXTRAS}
        )

    def _fitted_roles(self) -> Roles:
        if not hasattr(self, "posterior_"):
            raise ValueError("this SpaceTimeGP has not learned anything yet; call fit(table) first")
        return self.roles_

    def _count(self, rows: Measurements) -> None:
        assert rows.values is not None
        self.num_rows_ = getattr(self, "num_rows_", 0) + rows.num_rows
        self.num_missing_ = getattr(self, "num_missing_", 0) + int(np.isnan(rows.values).sum())

    def _learn(self, roles: Roles, rows: Measurements, **options: Any) -> None:
        likelihood = likelihood_from(self.likelihood)
        if self.transform is not None and not isinstance(likelihood, Gaussian):
            raise ValueError(
                f"transform={self.transform!r} goes with a Gaussian likelihood; this one is "
                f"{type(likelihood).__name__}: leave one of them out"
            )
        translation = learn_translation(
            rows,
            time_name=roles.time,
            target_name=roles.target,
            transform=self.transform,
            standardise=is_standardised(likelihood),
            time_step=self.time_step,
        )
        binning = translation.clock.binning(rows.time, roles.time)
        if binning is not None:
            logger.info("%s", binning.message)
        data = translation.observations(rows)
        start: Start = build_start(
            data,
            num_space=translation.num_space,
            clock=translation.clock,
            kernel=self.kernel,
            likelihood=likelihood,
            likelihood_setting=self.likelihood,
            seasonality=self.seasonality,
            pseudo_points=self.pseudo_points,
            seed=self.seed,
        )
        result: FitResult = fit(
            start.model,
            data,
            frozen=start.frozen,
            power=self.power,
            engine=self.engine,
            seed=self.seed,
            max_iterations=self.max_iterations,
            tolerance=_TOLERANCE,
            gradient_tolerance=max(_GRADIENT_PER_ROW * data.num_rows, 1e-4),
            progress=self.progress,
            **options,
        )
        self.roles_ = roles
        self.translation_ = translation
        self.binning_ = binning
        self.component_names_ = start.names
        self.result_ = result
        self.model_ = result.model
        self.posterior_: Posterior = condition(result.model, data, power=self.power, engine=self.engine)
        self.num_rows_ = self.num_missing_ = 0
        self._count(rows)

    def _predictive_at(self, table: Table) -> Predictive:
        rows = read_measurements(table, self.roles_, with_target=False)
        return self._predictive(rows, self.posterior_)

    def _predictive(self, rows: Measurements, posterior: Posterior) -> Predictive:
        translation = self.translation_
        latent = posterior.marginals(translation.times(rows), translation.places(rows))
        return make_predictive(posterior.model.likelihood, latent, translation.row_extras(rows), translation.target)

    def _draws(self, rows: Measurements, num: int, seed: int, of: str) -> Float[np.ndarray, "draw row"]:
        translation, likelihood = self.translation_, self.posterior_.model.likelihood
        f = self.posterior_.sample(translation.times(rows), translation.places(rows), num=num, seed=seed)
        extra = translation.row_extras(rows)
        if of == "observation":
            f = np.asarray(likelihood.sample(np.random.default_rng([seed, 1]), f, extra))
        elif not is_standardised(likelihood):
            f = np.stack([np.asarray(likelihood.predict(draw, np.zeros_like(draw), extra)[0]) for draw in f])
        return translation.target.inverse(f)

    def _as_answer(self, table: Table, columns: dict[str, np.ndarray], of: str) -> Any:
        geography = self.translation_.scaling.geography
        degrees = None if geography is None or geography.method == "plane" else (geography.first, geography.second)
        return as_answer(table, columns, self.roles_, of=of, units=self.units, degrees=degrees)


def _argument_names() -> tuple[str, ...]:
    return tuple(name for name in inspect.signature(SpaceTimeGP.__init__).parameters if name != "self")


def _stacked(dataset: Any, num: int, target: str) -> Any:
    """Draws that are variables each as one variable with a dimension for them."""
    import xarray as xr

    names = [f"draw_{number}" for number in range(num)]
    joined = xr.concat([dataset[name] for name in names], dim="draw")
    joined.attrs = dict(dataset[names[0]].attrs)
    return dataset.drop_vars(names).assign(draw_of=joined).rename(draw_of=f"{target}_draw")
