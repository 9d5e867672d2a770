# SPDX-License-Identifier: MIT
"""Several targets at once: one model of all of them where they go together, a model each where they do not.

A linear model of coregionalisation: component p of target o at a place is a sum of fields that all targets share, each times a loading
of o, plus a field of its own; all of the same smoothness. The number of the target is a further column of places, so that one chain
carries all targets, and rows of one tell of the others wherever these are missing. A target is measured in deviations of the noise
that its model alone has learned: one noise variance is then right for all.
"""

import dataclasses
import logging
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from weft.data.observations import Observations
from weft.data.packed import PackedTable
from weft.data.tables import Table
from weft.estimator.answers import answer_columns
from weft.estimator.building import Start
from weft.estimator.columns import EXTRAS, Measurements, PackedMeasurements, read_to_learn, roles_among
from weft.estimator.components import LOCAL, NAMED, SLOW, scales_of
from weft.estimator.fitted import Fitted
from weft.estimator.learning import (
    Learned,
    answer_with_habits,
    learn,
    learn_from_parts,
    names_of_habits,
    small_parts,
)
from weft.estimator.scikit_learn import Scores
from weft.estimator.translation import Translation
from weft.inference.merge import concatenate_observations
from weft.kernels import Categories, Columns, Kernel, Loadings, Separable, SumSeparable
from weft.likelihoods import Gaussian
from weft.model import Model
from weft.options import Options
from weft.training.composite import block_evidence
from weft.training.fitting import FitResult
from weft.training.parameters import Prior

__all__ = [
    "Together",
    "check_several",
    "draw_each",
    "joined_scores",
    "learn_several",
    "predict_each",
    "targets_among",
    "targets_written",
    "together_in_words",
    "transforms_of",
    "update_each",
]

logger = logging.getLogger("weft")

# Of a component's variance in each target: what starts as shared with others.
_SHARED = 0.5
# Variance by that of the noise at which a target starts in a component that its model alone has not.
_HARDLY = 0.1
# Of the variance of a target: what its noise is taken to be at least, where a fast component has taken its place.
_LEAST_NOISE = 1e-3
# Nats of evidence that a parameter more has to bring.
_NATS_PER_PARAMETER = 2.0


class Together(NamedTuple):
    """What was learned of each target, by name; how many fields targets share in each component, none where each has its own model."""

    learned: dict[str, Learned]
    rank: int


def targets_among(target: Any) -> tuple[str, ...]:
    """The targets of an estimator, where it has several."""
    if isinstance(target, str) or not isinstance(target, Sequence):
        return ()
    names = tuple(target)
    if len(names) < 2 or len(set(names)) < len(names) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"several targets are distinct names of columns, two at least; they are {names!r}")
    return names


def targets_written(target: Any, columns: Sequence[str]) -> tuple[str, ...]:
    """One target or several, which text separates by commas unless a column is called just that."""
    if isinstance(target, str):
        return (target,) if target in columns else tuple(name.strip() for name in target.split(","))
    return tuple(target)


def transforms_of(transform: Any, targets: Sequence[str]) -> dict[str, Any]:
    """The transform of each target: one for all of them, or one each in their order."""
    if transform is None or isinstance(transform, str):
        return dict.fromkeys(targets, transform)
    given = tuple(transform)
    if len(given) != len(targets):
        raise ValueError(
            f"transform must be one for all targets, or one each; there are {len(given)} and {len(targets)} targets"
        )
    return dict(zip(targets, given, strict=True))


def learn_several(options: Options, table: Table | PackedTable, **fit_options: Any) -> Together:
    """Each target alone, then all together with as many shared fields as the evidence asks for; `fit_options` go to `weft.fit`."""
    targets = targets_among(options.target)
    transforms = transforms_of(options.transform, targets)
    alone: dict[str, Learned] = {}
    rows: dict[str, Measurements | PackedMeasurements] = {}
    for target in targets:
        own = dataclasses.replace(options, target=target, transform=transforms[target])
        roles, rows[target] = read_to_learn(table, roles_among(vars(own)))
        if kinds := roles.kinds:
            raise ValueError(
                f"several targets do not go with a column of space that holds kinds ({kinds[0]!r}) yet; leave it out, or fit one target"
            )
        alone[target] = learn(own, roles, rows[target], **fit_options)
    if any(habit.name == "shift" for each in alone.values() for habit in each.fitted.posterior.habits()):
        logger.info("some places have dates of their own, and each target gets a model of its own")
        return Together(alone, 0)
    return _more_likely(options, alone, rows, fit_options)


def predict_each(
    fitted: Mapping[str, Fitted], rows: Measurements, levels: Sequence[float], of: str
) -> dict[str, Float[np.ndarray, " row"]]:
    """The columns of every target's prediction, named after it: tmin_mean, tmin_sd, ..."""
    return {
        f"{target}_{name}": column
        for target, own in fitted.items()
        for name, column in answer_columns(own.prediction(rows), levels, of).items()
    }


def draw_each(
    fitted: Mapping[str, Fitted], rows: Measurements, num: int, seed: int, of: str
) -> dict[str, Float[np.ndarray, "draw row"]]:
    """Draws of every target at these rows, in its own units; joint over targets where one posterior answers for all."""
    views = list(fitted.values())
    if views[0].translation.output is None:
        return {target: own.draws(rows, num, seed + number, of) for number, (target, own) in enumerate(fitted.items())}
    times = np.concatenate([view.translation.times(rows) for view in views])
    places = np.concatenate([view.translation.places(rows) for view in views])
    f = views[0].posterior.sample(times, places, num=num, seed=seed)
    noise = np.random.default_rng([seed, 1])
    found = {}
    for number, (target, view) in enumerate(fitted.items()):
        own = slice(number * rows.num_rows, (number + 1) * rows.num_rows)
        found[target] = view.drawn(times[own], places[own], view.translation.row_extras(rows), f[:, own], noise, of)
    return found


def update_each(fitted: Mapping[str, Fitted], table: Any) -> dict[str, Fitted]:
    """The same having seen the rows of a table too, those of every target."""
    rows = {target: own.read(table) for target, own in fitted.items()}
    views = list(fitted.values())
    if views[0].translation.output is None:
        return {target: own.updated(rows[target]) for target, own in fitted.items()}
    present = [target for target in fitted if rows[target].num_missing < rows[target].num_rows]
    if not present:
        raise ValueError(f"no row has a value of {' or '.join(fitted)}, so there is nothing to take in")
    more = concatenate_observations(tuple(fitted[target].translation.observations(rows[target]) for target in present))
    posterior = views[0].posterior.update(more)
    return {
        target: dataclasses.replace(
            own,
            posterior=posterior,
            num_rows=own.num_rows + rows[target].num_rows,
            num_missing=own.num_missing + rows[target].num_missing,
        )
        for target, own in fitted.items()
    }


def joined_scores(scores: Mapping[str, Scores], fitted: Mapping[str, Fitted]) -> Scores:
    """Scores of every target, named after it; `mean_crps` is the mean over targets, each by the deviation of its values."""
    named = {f"{target}_{name}": value for target, own in scores.items() for name, value in own.items()}
    whole = float(np.mean([float(own["mean_crps"]) / fitted[target].target_sd for target, own in scores.items()]))
    return Scores({"mean_crps": whole, **named})


def together_in_words(fitted: Mapping[str, Fitted], rank: int) -> str:
    names = ", ".join(fitted)
    if rank == 0:
        return f"Targets {names} have little to do with each other: a model each"
    return f"Targets {names} go together: one model, with {rank} shared field{'s' if rank > 1 else ''} a component"


def check_several(options: Options) -> None:
    """Raise where what is asked for does not go with several targets."""
    extras = [name for name in EXTRAS if getattr(options, name) is not None]
    held = {
        "covariates": bool(options.covariates),
        "areas": options.area is not None or options.areas is not None,
        "a kernel": options.kernel is not None,
        "pseudo_points of your own": not (isinstance(options.pseudo_points, str) or options.pseudo_points is None),
        "regions=None": options.regions is None,
        "learning_rows": options.learning_rows != "auto",
        "power": options.power != 0.0,
        **dict.fromkeys(extras, True),
    }
    given = [name for name, is_given in held.items() if is_given]
    if given:
        raise ValueError(f"several targets do not go with {' or '.join(given)} yet; leave that out, or fit one target")
    if options.likelihood != "gaussian":
        raise ValueError(
            f"several targets go with a Gaussian likelihood alone; this one is {options.likelihood!r}: transform a target, or "
            "fit one"
        )


def _more_likely(
    options: Options,
    alone: dict[str, Learned],
    rows: Mapping[str, Measurements | PackedMeasurements],
    fit_options: dict[str, Any],
) -> Together:
    """Of one model for all targets and one for each, what parts of the table find more likely."""
    translations = {target: _in_noise(learned, number) for number, (target, learned) in enumerate(alone.items())}
    data = concatenate_observations(tuple(translations[target].observations(rows[target]) for target in alone))
    num_parameters = sum(_num_learned(learned.result) for learned in alone.values())
    kept: tuple[int, Start, FitResult, Sequence[Observations]] | None = None
    best = None
    for rank in _ranks(len(alone)):
        start = _start(alone, translations, data, rank)
        parts = small_parts(options, start.model, data)
        if best is None:
            best = sum(_evidence_alone(learned, parts, number) for number, learned in enumerate(alone.values()))
        result = learn_from_parts(options, start, parts, data.num_rows, fit_options)
        needed = _NATS_PER_PARAMETER * max(_num_learned(result) - num_parameters, 0)
        logger.info(
            "%d shared fields a component: log evidence %.1f, without them or with fewer %.1f",
            rank,
            result.log_evidence,
            best,
        )
        if result.log_evidence - best <= needed:
            break
        kept, best, num_parameters = (rank, start, result, parts), result.log_evidence, _num_learned(result)
    if kept is None:
        logger.info("the targets have little to do with each other: a model each")
        return Together(alone, 0)
    found, start, learned_together, parts_kept = kept
    habits = tuple(name for name in names_of_habits(options) if name != "shift")
    result, posterior = answer_with_habits(
        options,
        start,
        learned_together,
        parts_kept,
        data,
        dated=(),
        names=habits,
        num_space=data.places.shape[1],
        num_map=data.places.shape[1] - 1,
    )
    return Together(
        {
            target: Learned(
                dataclasses.replace(
                    learned.fitted,
                    translation=translations[target],
                    names=start.names,
                    posterior=posterior,
                    converged=result.converged,
                ),
                result,
                learned.binning,
            )
            for target, learned in alone.items()
        },
        found,
    )


def _ranks(num_targets: int) -> range:
    """How many fields may be shared: with one, and one of its own for each, up to three targets are as free as can be."""
    return range(1, 2 if num_targets <= 3 else 3)


def _num_learned(result: FitResult) -> int:
    return sum(int(np.size(value)) for value in result.parameters.values())


def _noise_variance(learned: Learned) -> float:
    """That of the model alone, which is of a target of variance 1."""
    likelihood = learned.result.model.likelihood
    assert isinstance(likelihood, Gaussian)
    return max(float(likelihood.variance), _LEAST_NOISE)


def _in_noise(learned: Learned, number: int) -> Translation:
    """The target in deviations of its noise, and its number for a further column of places."""
    target = learned.fitted.translation.target
    scaled = dataclasses.replace(target, scale=target.scale * float(np.sqrt(_noise_variance(learned))))
    return dataclasses.replace(learned.fitted.translation, target=scaled, output=number)


def _evidence_alone(learned: Learned, parts: Sequence[Observations], number: int) -> float:
    """Log evidence of a target's rows in parts of the table by its model alone, in deviations of its noise."""
    root = float(np.sqrt(_noise_variance(learned)))
    own = []
    for part in parts:
        chosen = np.asarray(part.row_places)[:, -1] == number
        if chosen.any():
            values = np.asarray(part.values)[chosen] * root
            own.append(Observations(part.row_times[chosen], part.row_places[chosen, :-1], values))
    model = learned.result.model
    exact = Model(model.kernel, model.likelihood, None, model.mean)
    num_rows = sum(each.num_rows for each in own)
    return float(np.sum(block_evidence(exact, own))) + num_rows * float(np.log(root)) if own else 0.0


def _start(
    alone: Mapping[str, Learned], translations: Mapping[str, Translation], data: Observations, rank: int
) -> Start:
    """Components that some target alone has, each as long as it is on average over those, with `rank` shared fields."""
    num_space = data.places.shape[1] - 1
    first = next(iter(translations.values()))
    scales = scales_of(_one_target(data), num_space, first.scaling.alike, first.scaling.marks)
    loadings = _start_loadings(data, len(alone), rank)
    components: list[Separable] = []
    names: list[str] = []
    frozen: list[str] = []
    priors: dict[str, Prior] = {}
    for name in dict.fromkeys(name for learned in alone.values() for name in learned.fitted.names):
        path = f"kernel.components[{len(components)}]"
        parts = [
            (learned.result.model.kernel.components[learned.fitted.names.index(name)], _noise_variance(learned))
            if name in learned.fitted.names
            else None
            for learned in alone.values()
        ]
        variance = np.array([_HARDLY if part is None else float(part[0].variance) / part[1] for part in parts])
        variance = np.maximum(variance, 1e-3)
        largest = max((part for part in parts if part is not None), key=lambda part: float(part[0].variance) / part[1])
        like = [part[0] for part in parts if part is not None and _same_kind(part[0], largest[0])]
        in_space, in_time = (_average(name, [getattr(part, side) for part in like]) for side in ("space", "time"))
        shared: Kernel = Categories(len(alone), (1 - _SHARED) * variance)
        for column in loadings.T:
            shared = Loadings(column * np.sqrt(_SHARED * variance)) + shared
        space = Columns(in_space, range(num_space)) * Columns(shared, (num_space,))
        components.append(Separable(space=space, time=in_time))
        names.append(name)
        # The loadings say how large it is.
        frozen.append(f"{path}.variance")
        if name in NAMED:
            priors[f"{path}.space.first.kernel.lengthscale"] = scales.reach
            priors[f"{path}.time.lengthscale"] = scales.duration
        else:
            frozen += [f"{path}.space.first", f"{path}.time"]
    return Start(Model(SumSeparable(components), Gaussian(1.0)), tuple(frozen), priors, tuple(names))


def _one_target(data: Observations) -> Observations:
    """The rows of the target that has most."""
    number = np.asarray(data.row_places)[:, -1].astype(np.int64)
    chosen = number == np.argmax(np.bincount(number))
    return Observations(data.row_times[chosen], data.row_places[chosen, :-1], np.asarray(data.values)[chosen])


def _same_kind(part: Separable, other: Separable) -> bool:
    return type(part.space) is type(other.space) and type(part.time) is type(other.time)


def _average(name: str, kernels: Sequence[Kernel]) -> Kernel:
    """A kernel as long as these are on average; where a component's lengths are not learned, the first of them."""
    if name not in (SLOW, LOCAL, *NAMED):
        return kernels[0]
    lengths = np.mean([np.log(np.asarray(kernel.unwrapped.lengthscale)) for kernel in kernels], axis=0)  # type: ignore[attr-defined]
    kind: Any = type(kernels[0])
    return kind(np.exp(lengths))


def _start_loadings(data: Observations, num_targets: int, rank: int) -> Float[np.ndarray, "target field"]:
    """Of unit length a target: the main directions in which targets vary together where all were measured, by sign and size."""
    import pandas as pd

    width = data.places.shape[1]
    frame = pd.DataFrame(np.asarray(data.row_places)).assign(time=data.row_times, value=np.asarray(data.values))
    wide = frame.pivot_table(index=["time", *range(width - 1)], columns=width - 1, values="value")
    found = wide.corr().reindex(index=range(num_targets), columns=range(num_targets)).fillna(0.0).to_numpy(copy=True)
    np.fill_diagonal(found, 1.0)
    values, vectors = np.linalg.eigh(found)
    main = vectors[:, ::-1][:, :rank] * np.sqrt(np.maximum(values[::-1][:rank], 0.0))
    # A loading of exactly nothing would never learn which sign it has.
    main = np.where(np.abs(main) < 0.1, 0.1, main)
    return main / np.sqrt(np.sum(main**2, axis=1, keepdims=True))
