# SPDX-License-Identifier: MIT
"""What the model is made of: shares of variance, reach in time and space, and parameters in units people use."""

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int

from weft.data.scaling import Scaling
from weft.estimator.building import COVARIATES
from weft.estimator.fitted import Fitted
from weft.estimator.summary import effect_words, short_number
from weft.estimator.wide import at_a_glance, regional_of
from weft.kernels import Kernel
from weft.kernels.closed_forms import covariance_at
from weft.likelihoods import Gaussian
from weft.report.content import Component, Figure, ParameterLine
from weft.report.figures import correlation_figure
from weft.report.rows import SeenRows

if TYPE_CHECKING:
    from weft.space_time_gp import SpaceTimeGP

__all__ = ["component_figures", "describe_parameters", "describe_parts", "shares_of_variance"]

_NUM_LAGS = 120
# Rows among which those of few regions are looked for, by how many are wanted.
_TRIED = 10


def shares_of_variance(fitted: Fitted, rows: SeenRows, most: int) -> dict[str, float]:
    """Variance of each component over the rows seen, in units of f, noise last where it is Gaussian.

    A component's variance is that of its expectation over rows plus what is left uncertain of it, on average.
    """
    translation, glance = fitted.translation, at_a_glance(fitted.posterior)
    regional = regional_of(glance.posterior)
    present = rows.present
    if glance.times is not None:
        # Places may date their rows otherwise than the field does.
        inside = np.isin(rows.times[present], glance.times)
        present = present[inside] if inside.any() else present
    if regional is not None and glance.most_regions is not None:
        tried = rows.take(evenly(present, _TRIED * most))
        near = regional.among_few(tried.times, translation.places(tried.measured), glance.most_regions)
        present = evenly(present, _TRIED * most)[near]
    some = rows.take(evenly(present, most))
    parts = glance.posterior.components(some.times, translation.places(some.measured))
    found = {
        name: float(np.var(part.mean) + np.mean(part.variance))
        for name, part in zip(fitted.all_names, parts, strict=True)
        if name is not None
    }
    noise = fitted.noise()
    if noise is not None:
        own = translation.extras(some.measured).get("noise_variance")
        found["noise"] = (noise / translation.target.scale) ** 2 + (0.0 if own is None else float(np.mean(own)))
    return found


def evenly(rows: Int[np.ndarray, " row"], most: int) -> Int[np.ndarray, " some"]:
    """Up to so many of them, from the first to the last."""
    return rows[np.unique(np.linspace(0, len(rows) - 1, most).astype(np.int64))]


def describe_parts(gp: "SpaceTimeGP", rows: SeenRows, most: int) -> tuple[Component, ...]:
    """Components with their share of the variance, the largest first, noise last."""
    fitted = gp.fitted_
    variances = shares_of_variance(fitted, rows, most)
    total, units = sum(variances.values()), _f_units(gp)
    described = {part["name"]: part for part in fitted.components()}
    found = []
    for name, variance in variances.items():
        part = described.get(name)
        if part is not None:
            reach = [part["time"].removeprefix("time "), *_lengths(part["space"])]
            words = "; ".join(word for word in (*reach, part["strengths"], part["alike"], part["kernel"]) if word)
        else:
            words = "effects" if name in fitted.effect_names else "what the model takes for measurement error"
        deviation = float(np.sqrt(variance)) * fitted.translation.target.scale
        found.append(Component(name, variance / total, deviation, units, words))
    return tuple(sorted(found, key=lambda part: (part.name == "noise", -part.share)))


def describe_parameters(gp: "SpaceTimeGP") -> tuple[ParameterLine, ...]:
    """Every component's deviation and length scales, the noise, and slopes of covariates."""
    fitted, units = gp.fitted_, _f_units(gp)
    lines = []
    for number, part in enumerate(fitted.components()):
        path = f"kernel.components[{number}]" if part["name"] in fitted.names else ""
        lines.append(
            ParameterLine(
                part["name"], "standard deviation", short_number(part["sd"]), units, path and f"{path}.variance"
            )
        )
        if part["time"]:
            kind, value, unit = part["time"].split(" ", 2)
            meaning = "period" if kind == "period" else "length scale in time"
            lines.append(ParameterLine(part["name"], meaning, value, unit, f"{path}.time"))
        for name, (length, unit) in part["space"].items():
            lines.append(
                ParameterLine(
                    part["name"], f"length scale, {name}", short_number(length), unit, f"{path}.space.lengthscale"
                )
            )
    noise = fitted.noise()
    if noise is not None:
        lines.append(ParameterLine("noise", "standard deviation", short_number(noise), units, "likelihood.variance"))
    else:
        name = type(fitted.model.likelihood).__name__
        lines.append(ParameterLine("likelihood", "kind", name, "", "likelihood"))
    for effect in fitted.effects():
        value = f"{effect['slope']:.4g} ± {effect['sd']:.2g}"
        what, per = effect_words(effect)
        lines.append(ParameterLine(COVARIATES, f"effect of {what}", value, f"{units}{per}".strip(), ""))
    return tuple(lines)


def component_figures(gp: "SpaceTimeGP", rows: SeenRows) -> tuple[Figure, ...]:
    """Correlation of each component against lag in time and distance on the map."""
    fitted = gp.fitted_
    translation = fitted.translation
    parts = [
        (name, part)
        for name, part in zip(fitted.names, fitted.model.kernel.components, strict=True)
        if name not in fitted.effect_names
    ]
    span = float(np.ptp(rows.times))
    longest = max(
        (float(np.asarray(_lengthscale(part.time))) for _, part in parts if _has_scale(part.time)), default=span
    )
    lags = np.linspace(0.0, min(span, 3 * longest), _NUM_LAGS)
    in_time = {name: _correlation(part.time, lags[:, None]) for name, part in parts}
    # Rows of one time, or of one place, say nothing of how far it reaches.
    figures = (
        [correlation_figure("reach-time", lags, in_time, translation.clock.unit, "lag in time")] if span > 0 else []
    )
    path, unit, extent = _walk_on_map(translation.scaling, fitted, rows)
    stationary = {name: _correlation(part.space, path) for name, part in parts if _has_scale(part.space)}
    if stationary and extent > 0:
        distances = np.linspace(0.0, extent, _NUM_LAGS)
        figures.append(correlation_figure("reach-space", distances, stationary, unit, "distance on the map"))
    return tuple(figures)


def _walk_on_map(scaling: Scaling, fitted: Fitted, rows: SeenRows) -> tuple[Float[np.ndarray, "lag dim"], str, float]:
    """Points along the map's first direction from the origin of the coordinates, the unit of their distance, and how far."""
    columns = scaling.map_dimensions
    places = scaling.forward(rows.places)
    first = columns[0]
    extent = float(np.ptp(places[:, first]))
    path = np.zeros((_NUM_LAGS, fitted.translation.num_columns))
    path[:, first] = np.linspace(0.0, extent, _NUM_LAGS)
    dimension = scaling.dimensions[first]
    return path, dimension.unit, extent * dimension.scale


def _correlation(kernel: Kernel, inputs: Float[np.ndarray, "lag dim"]) -> Float[np.ndarray, " lag"]:
    covariance = covariance_at(kernel, inputs[:1], inputs)[0]
    return covariance / covariance[0]


def _lengthscale(kernel: Kernel) -> np.ndarray | None:
    return getattr(kernel.unwrapped, "lengthscale", None)


def _has_scale(kernel: Kernel) -> bool:
    return _lengthscale(kernel) is not None


def _lengths(space: dict[str, tuple[float, str]]) -> list[str]:
    return [f"{name} {short_number(length)} {unit}" for name, (length, unit) in space.items()]


def _f_units(gp: "SpaceTimeGP") -> str:
    """Units of f: the target's own, unless it is transformed or behind a link."""
    transform = gp.fitted_.translation.target.transform.name
    if transform != "identity":
        return f"on the scale of {transform}"
    return (gp.units or "") if isinstance(gp.fitted_.model.likelihood, Gaussian) else "on the scale of f"
