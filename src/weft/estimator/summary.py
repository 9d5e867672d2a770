# SPDX-License-Identifier: MIT
"""What was learned, in units people use: kilometres, days, the target's own."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from weft.arrays import AnyArray
from weft.data.clock import UNIT_SECONDS
from weft.data.scaling import Scaling
from weft.estimator.translation import Translation
from weft.kernels import Alike, Averages, Columns, Cosine, Kernel, Periodic, Product, Separable, Uneven
from weft.kernels.closed_forms import variances_at
from weft.likelihoods import Gaussian
from weft.model import Model
from weft.training.fitting import FitResult

__all__ = ["describe_components", "describe_noise", "effect_words", "learning_text", "short_number", "summary_text"]

# From so many on, a longer unit says it better.
_MANY = {"seconds": 120.0, "minutes": 120.0, "hours": 96.0, "days": 1000.0, "weeks": 104.0, "years": np.inf}


def describe_components(
    model: Model, names: tuple[str, ...], translation: Translation, places: Float[AnyArray, "place dim"]
) -> list[dict[str, Any]]:
    """Each component of the kernel: its deviation in target units, length scales with their units, kernels by name.

    The deviation is the prior's, averaged over `places`; with a transform or a link it is on the scale of f.
    """
    return [
        {
            "name": name,
            "sd": float(np.sqrt(_mean_variance(component, places))) * translation.target.scale,
            "space": _lengths(_over_space(component, translation), translation.scaling),
            "time": _time_scale(component.time, translation.clock.unit),
            "kernel": f"{_name(_over_space(component, translation))} in space, {_name(component.time)} in time",
            "strengths": _strengths(component.space, places),
            "alike": _how_alike(component.space, translation),
        }
        for name, component in zip(names, model.kernel.components, strict=True)
    ]


def _strengths(space: Kernel, places: Float[AnyArray, "place dim"]) -> str:
    """How much stronger it is here than there, in words; nothing where it is the same everywhere."""
    if not isinstance(space, Uneven):
        return ""
    found = np.ones(len(places))
    while isinstance(space, Uneven):
        found, space = found * np.asarray(space.strengths(places)), space.kernel
    return f"{found.max() / found.min():.2g} times as strong here as there"


def _how_alike(space: Kernel, translation: Translation) -> str:
    """What kinds of places have in common of it, in words."""
    found, space = [], _of_places(space)
    for kind in reversed(translation.scaling.kinds):
        if not isinstance(space, Product):
            break
        alike, space = space.second.unwrapped, space.first
        if isinstance(alike, Alike):
            found.append(f"correlation {float(alike.correlation):.2f} between kinds of {kind.name}")
    return ", ".join(found)


def describe_noise(model: Model, translation: Translation) -> float | None:
    """The deviation of the noise in target units; None where the likelihood is not Gaussian."""
    if not isinstance(model.likelihood, Gaussian):
        return None
    return float(np.sqrt(model.likelihood.variance)) * translation.target.scale


def summary_text(
    header: str, components: list[dict[str, Any]], noise: float | None, effects: list[dict[str, Any]], unit: str | None
) -> str:
    """Lines to print: the header, a line a component, the noise, and the slopes of covariates."""
    of = "" if unit is None else f" {unit}"
    width = max(len(name) for name in ["noise", *(part["name"] for part in components)])
    lines = [header]
    for part in components:
        space = ", ".join(
            f"{name} {short_number(length)} {length_unit}" for name, (length, length_unit) in part["space"].items()
        )
        words = [
            f"sd {short_number(part['sd'])}{of}",
            part["time"],
            space,
            part["strengths"],
            part["alike"],
            f"({part['kernel']})",
        ]
        lines.append(f"  {part['name']:<{width}}  {'; '.join(word for word in words if word)}")
    if noise is not None:
        lines.append(f"  {'noise':<{width}}  sd {short_number(noise)}{of}")
    for effect in effects:
        what, per = effect_words(effect)
        lines.append(f"  effect of {what}: {effect['slope']:.4g} +- {effect['sd']:.2g}{of}{per}")
    return "\n".join(lines)


def effect_words(effect: dict[str, Any]) -> tuple[str, str]:
    """What has the effect, and per what it is."""
    if effect["level"] is None:
        return effect["covariate"], " per unit"
    return f"{effect['covariate']} {effect['level']}", ""


def learning_text(result: FitResult, names: Sequence[str]) -> list[str]:
    """What parameters were learned from, and how well they are known where blocks could tell: deviations by the values themselves."""
    if result.num_blocks < 2 or result.standard_errors is None:
        return []
    lines = [
        f"  learned from {result.num_blocks} small parts of the table, {result.num_rows:,} rows, in {result.seconds:.3g} s"
    ]
    for number, name in enumerate(names):
        found = []
        for part, words, power in (
            ("variance", "sd", 0.5),
            ("time.lengthscale", "time", 1.0),
            ("space.lengthscale", "space", 1.0),
            ("space.kernel.lengthscale", "space", 1.0),
        ):
            path = f"kernel.components[{number}].{part}"
            if path in result.standard_errors:
                error = power * np.atleast_1d(result.standard_errors[path] / np.abs(result.parameters[path]))
                # What the blocks say nothing of, such as a time scale of one image, they cannot disagree about.
                known = error[np.isfinite(error) & (error > 1e-6)]
                if len(known):
                    found.append(f"{words} {_share(known.max())}")
        if found:
            lines.append(f"  {name} is known to: {', '.join(found)}")
    return lines


def _share(error: float) -> str:
    """A deviation by the value itself; beyond the value it says no more than that the blocks cannot tell."""
    return f"{100 * error:.2g} %" if error < 1 else "no more than its order of magnitude"


def short_number(value: float) -> str:
    """Three digits that count, and no exponent where people would write none."""
    return f"{float(f'{value:.3g}'):,.0f}" if 1e3 <= abs(value) < 1e7 else f"{value:.3g}"


def _mean_variance(component: Separable, places: Float[AnyArray, "place dim"]) -> float:
    in_time = float(variances_at(component.time, np.zeros((1, 1)))[0])
    return float(component.variance) * in_time * float(np.mean(variances_at(component.space, np.asarray(places))))


def _over_space(component: Separable, translation: Translation) -> Kernel:
    """The kernel of where; it stands before those that say how several targets, or kinds of places, go together."""
    space = component.space
    space = _of_places(space)
    for _ in range(len(translation.scaling.kinds) + (translation.output is not None)):
        space = space.first if isinstance(space, Product) else space
    return space


def _of_places(space: Kernel) -> Kernel:
    """The kernel of places within one of averages over areas."""
    if isinstance(space, Averages):
        return space.kernel
    return space.kernel.kernel if isinstance(space, Columns) and isinstance(space.kernel, Averages) else space


def _name(kernel: Kernel) -> str:
    return type(kernel.unwrapped).__name__


def _lengths(kernel: Kernel, scaling: Scaling) -> dict[str, tuple[float, str]]:
    """Length scales by dimension, where the kernel has them for all of space."""
    lengthscale = getattr(kernel.unwrapped, "lengthscale", None)
    if lengthscale is None or np.shape(lengthscale) not in ((), (len(scaling.ordered),)):
        return {}
    return scaling.lengths(np.asarray(lengthscale))


def _time_scale(kernel: Kernel, unit: str) -> str:
    inner = kernel.unwrapped
    if isinstance(inner, Periodic | Cosine):
        return f"period {float(inner.period):.4g} {unit}"
    lengthscale = getattr(inner, "lengthscale", None)
    return "" if lengthscale is None else f"time {_lasting(float(lengthscale), unit)}"


def _lasting(amount: float, unit: str) -> str:
    """A length of time in units a person would use: 51 days where the clock counts 73,700 minutes."""
    while unit in UNIT_SECONDS and amount >= _MANY[unit]:
        further = next(name for name in _MANY if name != "weeks" and UNIT_SECONDS[name] > UNIT_SECONDS[unit])
        amount, unit = amount * UNIT_SECONDS[unit] / UNIT_SECONDS[further], further
    return f"{short_number(amount)} {unit}"
