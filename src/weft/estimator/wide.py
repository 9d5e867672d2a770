# SPDX-License-Identifier: MIT
"""Who answers for a table: one exact model, one with pseudo-points, or regions where neither would do."""

import logging
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from weft.arrays import require_whole
from weft.data.observations import Observations, Outline, places_repeat, take_rows
from weft.data.places import distinct_places
from weft.engines.dense import DenseEngine
from weft.estimator.budget import PASS_WORK, Stretches, choose_stretches, work_of_model
from weft.estimator.placement import choose_pseudo_points
from weft.inference.division import Division, work_of_regions
from weft.inference.exact_work import exact_work
from weft.inference.on_disk import PosteriorOnDisk
from weft.inference.posterior import Posterior
from weft.inference.prior import own_features, signal_variances_at, time_variances_at
from weft.inference.regional import RegionalPosterior, condition_regions
from weft.inference.single import SinglePosterior, condition
from weft.inference.with_habits import PosteriorWithHabits
from weft.kernels import SumSeparable
from weft.likelihoods import Gaussian
from weft.model import Model
from weft.options import Options
from weft.phases import timing

__all__ = [
    "Glance",
    "answering",
    "at_a_glance",
    "exact_model",
    "how_regions_answer",
    "num_asked",
    "one_model",
    "regional_of",
    "regions_table",
    "rows_to_ask",
    "stretches_to_ask",
    "unexplained_variance",
    "who_answers",
    "work_of_a_point",
]

logger = logging.getLogger("weft")

# What pseudo-points may leave unexplained at the places of the data, by the noise variance, before regions take over: what they leave
# is lost like noise, so a tenth of it costs as much as a tenth of the rows.
MOST_UNEXPLAINED = 0.1
# Of the budget of a pass: what one matrix over all rows may take, since regions of rows answer as well and take a tenth of it.
MATRIX_SHARE = 0.125
# By its budget: what a question about a whole series may take before it is asked about stretches of it.
FAR_MORE = 2.0
# A pass of one model over the rows that habits are looked for in: five to ten seconds on a core.
HABITS_WORK = 1e11
# What a question may take whose answers are only summed up, a second or so on a core; regions, of which fewer would tell little.
GLANCE_WORK = 2e10
FEWEST_REGIONS = 200
# Places whose unexplained variance is looked at.
PLACES_LOOKED_AT = 2000


@timing("condition")
def answering(options: Options, model: Model, data: Observations, num_space: int) -> Posterior:
    """The posterior of `model` given `data`, by the setting `regions`.

    A number asks for so many regions. "auto" keeps to one model where it is exact within the budget of a pass, or where what its
    pseudo-points leave unexplained at the places of the data is small beside the noise; else it is regions, each exact or, where that
    takes long, without what rows could hardly tell from noise. None is one model always.
    Regions are not for a model whose pseudo-points were asked for, nor where places have covariates, whose effects all places share.
    """
    one = one_model(options, model, data, num_space)
    if one is not None:
        return condition(one, data, power=options.power, engine=options.engine)
    asked = num_asked(options)
    found = condition_regions(exact_model(model), data, num_regions=asked, engine=options.engine)
    if asked is None:
        logger.info(
            "%d regions answer, %s: the pseudo-points that one model may have would leave too much unexplained",
            found.num_regions,
            how_regions_answer(found),
        )
    return found


def one_model(options: Options, model: Model, data: Observations | Outline, num_space: int) -> Model | None:
    """The model that answers for all of `data` as `answering` says, exact or with pseudo-points; None where regions do."""
    check_regions(options.regions)
    may_have_regions = isinstance(options.pseudo_points, str) and data.places.shape[1] == num_space
    if options.regions is None or not may_have_regions:
        return model
    if not isinstance(options.regions, str):
        return None
    exact = exact_model(model)
    if _is_cheap(exact, data):
        return exact
    if places_repeat(data) or not model.is_exact:
        sparse = _with_points(options, model, data, num_space)
        if unexplained_variance(sparse, data) <= MOST_UNEXPLAINED * _noise_variance(model):
            return sparse
    return None


def exact_model(model: Model) -> Model:
    """The same without pseudo-points."""
    return Model(model.kernel, model.likelihood, None, model.mean)


def _with_points(options: Options, model: Model, data: Observations | Outline, num_space: int) -> Model:
    """The model with pseudo-points: its own, or those that its kernel as learned asks for."""
    if not model.is_exact:
        return model
    kernel = model.kernel
    assert isinstance(kernel, SumSeparable)
    points = choose_pseudo_points(options.pseudo_points, data, num_space, kernel, seed=options.seed)
    return Model(kernel, model.likelihood, points, model.mean)


def _noise_variance(model: Model) -> float:
    """Of the likelihood; where it is not Gaussian, a tenth of the field's stands for it."""
    if isinstance(model.likelihood, Gaussian):
        return float(model.likelihood.variance)
    return 0.1 * sum(float(part.variance) for part in model.components)


def num_asked(options: Options) -> int | None:
    """How many regions were asked for; None where nobody said."""
    return None if isinstance(options.regions, str) or options.regions is None else int(options.regions)


def check_regions(setting: Any) -> None:
    if setting is None or (isinstance(setting, str) and setting == "auto"):
        return
    if isinstance(setting, str):
        raise ValueError(f"regions must be 'auto', a number, or None for one model; it is {setting!r}")
    require_whole("regions", setting, 1)


def _is_cheap(exact: Model, data: Observations | Outline) -> bool:
    """Whether a pass with every place a pseudo-point keeps to the budget."""
    work = exact_work(exact, len(data.places), data.layout)
    by_matrix = work.by_matrix / MATRIX_SHARE if data.num_rows <= DenseEngine().most_rows else np.inf
    searches = 1 if isinstance(exact.likelihood, Gaussian) else 8
    return searches * min(work.by_chain, by_matrix) <= PASS_WORK


def unexplained_variance(model: Model, data: Observations | Outline) -> float:
    """Variance of f that the model's basis leaves unexplained, on average over (some of) the places of the data."""
    every = max(1, len(data.places) // PLACES_LOOKED_AT)
    by_component = np.asarray(own_features(model, data.places[::every]).unexplained)
    in_time = time_variances_at(model, data.times[:1])[0]
    return float(np.mean(np.sum(by_component * in_time, axis=1)))


def field_of(posterior: Posterior) -> Posterior:
    """What is behind whatever habits places have."""
    while isinstance(posterior, PosteriorWithHabits):
        posterior = posterior.field
    return posterior


def regional_of(posterior: Posterior) -> RegionalPosterior | None:
    """The regions that answer from rows in memory; None where one model does, or rows are elsewhere."""
    field = field_of(posterior)
    return field if isinstance(field, RegionalPosterior) else None


def work_of_a_point(posterior: Posterior) -> float:
    """Operations that a region of rows takes for each point asked about, which is solved for with a matrix of all it sees; elsewhere next
    to none, since a pass over the series answers for however many.
    """
    regional = regional_of(posterior)
    if regional is None or not regional.division.nearness.with_times:
        return 0.0
    return float(np.mean([float(len(region.rows)) ** 2 for region in regional.division.regions]))


class Glance(NamedTuple):
    """Who is asked about what is only summed up over rows: a posterior, of which so many regions, and at which of the times of rows."""

    posterior: Posterior
    most_regions: int | None = None
    times: Float[np.ndarray, " time"] | None = None


def at_a_glance(posterior: Posterior) -> Glance:
    """All of it where a question does not take long; else some of many regions, or what is given stretches of a series."""
    field = field_of(posterior)
    regional = regional_of(posterior)
    if regional is not None:
        rows, has_series = regional.rows, not regional.division.nearness.with_times
        # No region takes more than all places do.
        most = exact_work(regional.model, len(rows.places), rows.layout).by_chain if has_series else np.inf
        each = min(work_of_regions(regional.model, rows) / regional.num_regions, most)
        few = int(GLANCE_WORK // each)
        if few >= regional.num_regions:
            return Glance(posterior)
        if regional.num_regions >= FAR_MORE * FEWEST_REGIONS or not has_series:
            return Glance(posterior, max(few, FEWEST_REGIONS))
        work = np.full(len(rows.times), each * regional.num_regions / len(rows.times))
    elif (
        isinstance(field, SinglePosterior) and len(field.batches) == 1 and isinstance(field.model.likelihood, Gaussian)
    ):
        (rows,) = field.batches
        work = work_of_model(field.model, rows)
    else:
        return Glance(posterior)
    stretches = choose_stretches(work, GLANCE_WORK) if work.sum() > FAR_MORE * GLANCE_WORK else None
    if stretches is None:
        return Glance(posterior)
    in_stretches = stretches.chosen[np.asarray(rows.grouping.time_of_row)]
    if regional is not None and not all(in_stretches[region.rows].any() for region in regional.division.regions):
        return Glance(posterior)
    kept = np.flatnonzero(in_stretches)
    brief = field.given_only(take_rows(rows, kept)) if regional is None else regional.given_rows(kept)
    return Glance(_around(posterior, brief), times=rows.times[stretches.chosen])


def _around(posterior: Posterior, field: Posterior) -> Posterior:
    """Another field with the habits that one has."""
    if not isinstance(posterior, PosteriorWithHabits):
        return field
    return posterior.with_field(_around(posterior.field, field))


def stretches_to_ask(posterior: Posterior, times: Float[np.ndarray, " row"], most: float) -> Stretches | None:
    """Which of the distinct `times` of rows to ask regions about, where a question about all rows takes far more work than `most`.

    None where it does not, or one model answers, which was made to keep to its budget. A region of a long series goes through all of it
    whatever it is asked; what is looked for in some stretches is found as well.
    """
    regional = regional_of(posterior)
    if regional is None or regional.division.nearness.with_times:
        return None
    num_times = len(np.unique(times))
    work = work_of_regions(regional.model, regional.rows) * num_times / len(regional.times)
    return choose_stretches(np.full(num_times, work / num_times), most) if work > FAR_MORE * most else None


def rows_to_ask(posterior: Posterior, data: Observations) -> Observations:
    """Those of `data` that habits are looked for in, since they are found as well in stretches of a long series."""
    one, counts = field_of(posterior), np.asarray(data.layout.counts)
    if isinstance(one, SinglePosterior):
        # Times none of whose rows has a value are among those of the data, and of no row.
        work = work_of_model(one.model, data)[counts > 0]
        stretches = choose_stretches(work, HABITS_WORK) if work.sum() > FAR_MORE * HABITS_WORK else None
    else:
        stretches = stretches_to_ask(posterior, data.row_times, PASS_WORK)
    if stretches is None:
        return data
    rows = np.flatnonzero(np.repeat(stretches.chosen, counts[counts > 0]))
    logger.info(
        "habits of places are looked for in %s of the series, %s of %s rows",
        "one stretch" if stretches.num_stretches == 1 else f"{stretches.num_stretches} stretches",
        f"{len(rows):,}",
        f"{data.num_rows:,}",
    )
    return take_rows(data, rows)


def who_answers(posterior: Posterior) -> list[str]:
    """A line on the regions that answer, or on what the pseudo-points of one model leave unexplained; none where it is exact."""
    field = field_of(posterior)
    if isinstance(field, PosteriorOnDisk):
        most = max(len(region.rows) for region in field.division.regions)
        return [
            f"{field.num_regions:,} regions answer from up to {most:,} places each, whose rows are in files, {how_regions_answer(field)}"
        ]
    regional = regional_of(posterior)
    if regional is not None:
        most = max(len(region.rows) for region in regional.division.regions)
        return [
            f"{regional.num_regions:,} regions answer from up to {most:,} rows each, {how_regions_answer(regional)}"
        ]
    batches, model = posterior.batches, posterior.model
    if model.is_exact or not batches:
        return []
    left = unexplained_variance(model, batches[0])
    whole = float(np.mean(signal_variances_at(model, batches[0])))
    beside = ""
    if isinstance(model.likelihood, Gaussian) and _noise_variance(model) > 0:
        beside = f", {100 * left / _noise_variance(model):.2g} % as much as there is noise"
    return [f"pseudo-points leave {100 * left / whole:.2g} % of the field's variance unexplained{beside}"]


def how_regions_answer(regions: RegionalPosterior | PosteriorOnDisk) -> str:
    """In words: what they leave unexplained."""
    share = regions.division.share
    if share == 0:
        return "exactly: nothing is left unexplained"
    return f"leaving less unexplained than {100 * share:.2g} % of the noise"


def regions_table(posterior: Posterior, columns_of: Callable[[np.ndarray], Mapping[str, np.ndarray]]) -> Any:
    """One line a region: where its core's middle is, in the columns people know, and how many rows and places it has."""
    import pandas as pd

    regional = regional_of(posterior)
    if regional is None:
        return pd.DataFrame({"region": [], "places": [], "rows": [], "rows_around": [], "reach": []})
    division: Division = regional.division
    data = regional.rows
    lines = []
    for number, region in enumerate(division.regions):
        own = region.rows[region.is_core]
        places = data.row_places[own]
        middle = places.mean(axis=0)[None, :] if len(own) else np.full((1, data.places.shape[1]), np.nan)
        lines.append(
            {
                "region": number,
                **{name: float(column[0]) for name, column in columns_of(middle).items()},
                "places": len(distinct_places(places)[0]),
                "rows": len(own),
                "rows_around": len(region.rows) - len(own),
                "reach": division.reach[number],
            }
        )
    return pd.DataFrame(lines)
