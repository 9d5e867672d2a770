# SPDX-License-Identifier: MIT
"""Gaussian sites: what each row says about f, as a value and a precision. For a Gaussian likelihood they are the data."""

import warnings
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from weft.arrays import AnyArray, is_concrete
from weft.data.observations import ROW_EXTRAS, Observations
from weft.inference.prior import signal_variances
from weft.likelihoods import Gaussian, RowExtras
from weft.model import Model
from weft.state_space.chain import Chain, Rows

NOISE_FLOOR = 1e-10


class Sites(NamedTuple):
    """Factors exp(-precision (value - f)^2 / 2), and the number that their log normaliser lacks to be the log evidence."""

    value: Float[AnyArray, " row"]
    precision: Float[AnyArray, " row"]
    log_constant: Float[AnyArray, ""] | float


def gaussian_sites(
    model: Model,
    data: Observations,
    unexplained: Float[AnyArray, " row"],
    *,
    power: float,
    correction: bool = True,
) -> Sites:
    """The sites of power EP with a Gaussian likelihood, in closed form (Bui, Yan & Turner 2017).

    Noise is floored at 1e-10 of the prior variance, below which the last digits of the evidence are lost; a warning says so.
    Each row's floor is of its own time and place, so that rows are the same whoever comes with them.
    """
    assert isinstance(model.likelihood, Gaussian)
    grouping = data.grouping
    floor = NOISE_FLOOR * signal_variances(
        model, data.times, data.places, np.asarray(grouping.time_of_row), np.asarray(grouping.place_of_row)
    )
    check_noise(model.likelihood, data, floor)
    given = (model.likelihood, data.values, data.noise_variance, unexplained, floor, power, correction)
    return _sites(*given) if isinstance(floor, np.ndarray) and _is_numpy(data, unexplained) else _compiled_sites(*given)


def _is_numpy(data: Observations, unexplained: Float[AnyArray, " row"]) -> bool:
    own = () if data.noise_variance is None else (data.noise_variance,)
    return all(isinstance(array, np.ndarray) for array in (data.values, unexplained, *own))


def check_noise(likelihood: Gaussian, data: Observations, floor: Float[AnyArray, " row"]) -> None:
    """Refuse rows without any noise, and say so where noise is raised to the floor; nothing under `grad` or `jit`."""
    if not (is_concrete(likelihood.variance) and is_concrete(floor) and is_concrete(data.values)):
        return
    noise = np.asarray(likelihood.noise_variance(data.noise_variance))
    smallest = np.min(noise)
    if smallest == 0 or any(getattr(data, name) is not None for name in ROW_EXTRAS if name not in likelihood.uses):
        likelihood.check(data.values, extras_of(data), data.row)
    raised = noise < np.asarray(floor)
    if np.any(raised):
        warnings.warn(
            f"the smallest noise variance, {smallest:.3g}, is below 1e-10 of the prior variance of f; it is taken as "
            f"{float(np.min(np.asarray(floor)[raised])):.3g} or more, since rounding hides anything smaller",
            stacklevel=3,
        )


def _sites(
    likelihood: Gaussian,
    values: Float[AnyArray, " row"],
    own_noise: Float[AnyArray, " row"] | None,
    unexplained: Float[AnyArray, " row"],
    floor: Float[AnyArray, " row"],
    power: float,
    correction: bool,
) -> Sites:
    numbers = _numbers(floor)
    noise = numbers.maximum(numbers.broadcast_to(likelihood.noise_variance(own_noise), values.shape), floor)
    effective = noise + power * unexplained
    log_constant = -numbers.sum(numbers.log(2 * np.pi * effective)) / 2
    if correction:
        log_constant = log_constant + charge(unexplained, noise, power)
    return Sites(numbers.asarray(values), 1 / effective, log_constant)


_compiled_sites = eqx.filter_jit(_sites)


def charge(unexplained: Float[AnyArray, " row"], noise: Float[AnyArray, " row"], power: float) -> Float[AnyArray, ""]:
    """The term of the bound for what the pseudo-points leave unexplained, and its limit at power 0."""
    numbers = _numbers(noise)
    if power == 0:
        return numbers.asarray(-numbers.sum(unexplained / noise) / 2)
    logarithms = numbers.log1p(power * unexplained / noise)
    return numbers.asarray(-(1 - power) / (2 * power) * numbers.sum(logarithms))


def _numbers(array: Float[AnyArray, "..."]) -> Any:
    """Whose functions compute with it."""
    return np if isinstance(array, np.ndarray) else jnp


def rows_of(data: Observations, sites: Sites, *, is_by_place: bool = False) -> Rows:
    """The sites as an engine takes them; `is_by_place` as in `Rows`."""
    grouping = data.grouping
    place = np.asarray(grouping.place_of_row, dtype=np.int32)
    return Rows(grouping.layout, place, sites.value, sites.precision, is_by_place)


def noise_is_by_place(data: Observations, chain: Chain) -> bool:
    """Whether `gaussian_sites` have precisions by place: rows have no noise of their own, and what pseudo-points leave does not change."""
    return data.noise_variance is None and all(part.reversal is not None for part in chain.components)


def extras_of(data: Observations) -> RowExtras:
    return RowExtras(**{name: getattr(data, name) for name in ROW_EXTRAS})


def check_problem(model: object, data: object) -> None:
    """Raise unless these are a model and its data, in this order."""
    if not isinstance(model, Model):
        raise TypeError(f"model must be a weft.Model; it is a {type(model).__name__}")
    if not isinstance(data, Observations):
        raise TypeError(f"data must be weft.Observations(times, places, values); it is a {type(data).__name__}")


def check_power(power: float) -> None:
    if not isinstance(power, int | float | np.number):
        raise TypeError(f"power must be a number between 0 and 1; it is {power!r}")
    if not 0.0 <= power <= 1.0:
        raise ValueError(f"power must be between 0 (VFE) and 1 (FITC); it is {power}")
