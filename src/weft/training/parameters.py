# SPDX-License-Identifier: MIT
"""What a model learns: its parameters by name, which of them are free, and the real line they are learned on.

A name is the path of attributes that leads to the field: `likelihood.variance`, `kernel.space.lengthscale`,
`kernel.components[0].time.lengthscale`. The fields' own domains and any bounds make each number the image of a real
one:
    no bound        scale * u                        lower bound alone     lower + exp(u)
    both bounds     lower + (upper - lower) / (1 + exp(-u))                upper bound alone     upper - exp(u)
"""

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from scipy.special import expit

from weft.arrays import AnyArray
from weft.domains import Domain, as_float64, domain_of, is_fixed, is_float
from weft.kernels import Linear, OnSphere, Separable, Wiener
from weft.model import Model
from weft.state_space.basis import PseudoPoints
from weft.training.priors import LogNormalPrior, NormalPrior, WithinReach

Path = tuple[str | int, ...]
# A pair (lower, upper), each None, a number or an array; checked where it is used.
Bound = Any
Prior = Callable[[Array], Array]

PSEUDO_POINTS = "pseudo_points"

# Where a model's parameters are; its mean is integrated out.
PARTS = ("kernel", "likelihood", "basis")

# Where a function sits, not what it is like: learned only when asked for by name.
ANCHORS = ((OnSphere, "radius"), (Wiener, "origin"), (Linear, "centre"))


@dataclasses.dataclass(frozen=True)
class Parameter:
    """One field of a model that may be learned; `held` says why it is not, unless asked for by name."""

    name: str
    path: Path
    value: np.ndarray
    domain: Domain
    held: str | None

    @property
    def are_points(self) -> bool:
        return self.path[0] == "basis" and self.path[-1] == "points"


def parameters_of(model: Model) -> tuple[Parameter, ...]:
    """Every parameter of a model, the pseudo-points last (by the name under which `Model` takes them)."""
    redundant = {path for component, path in _components(model) for path in _redundant_scales(component, path)}
    found = []
    for owner, path, domain in [each for part in PARTS for each in _walk(getattr(model, part), (part,))]:
        held, name = None, name_of(path)
        if isinstance(owner, PseudoPoints):
            held, name = "pseudo-points stay where they are", name_of((PSEUDO_POINTS, *path[1:-1]))
        elif path in redundant:
            held = "another parameter already sets the variance of its component"
        elif any(isinstance(owner, kind) and path[-1] == field for kind, field in ANCHORS):
            held = "it says where, not what"
        found.append(Parameter(name, path, _value(model, path), domain, held))
    return tuple(found)


def _walk(node: Any, path: Path) -> Iterator[tuple[Any, Path, Domain]]:
    if isinstance(node, eqx.Module):
        for field in dataclasses.fields(node):
            value = getattr(node, field.name)
            domain = domain_of(field, value)
            if domain is not None:
                yield node, (*path, field.name), domain
            elif not is_fixed(field):
                yield from _walk(value, (*path, field.name))
    elif isinstance(node, tuple):
        for i, child in enumerate(node):
            yield from _walk(child, (*path, i))
    elif any(is_float(leaf) for leaf in jax.tree.leaves(node)):
        raise TypeError(
            f"{name_of(path)} keeps numbers inside a tuple, a list or a dictionary, where they cannot be learned; make the field "
            "an array, or declare it with weft.domains.fixed()"
        )


def _components(model: Model) -> Iterator[tuple[Separable, Path]]:
    if isinstance(model.kernel, Separable):
        yield model.kernel, ("kernel",)
    else:
        for i, component in enumerate(model.kernel.components):
            yield component, ("kernel", "components", i)


def _redundant_scales(component: Separable, path: Path) -> Iterator[Path]:
    """Variances within a component that its own variance already stands for: the evidence is flat along them."""
    for name in ("space", "time"):
        for steps in getattr(component, name).overall_scales():
            yield (*path, name, *steps)


def name_of(path: Path) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")


def follow(node: Any, path: Path) -> Any:
    for step in path:
        node = node[step] if isinstance(step, int) else getattr(node, step)
    return node


def _value(node: Any, path: Path) -> np.ndarray:
    return np.asarray(follow(node, path), dtype=np.float64)


def matching(pattern: str, names: Sequence[str]) -> list[str]:
    """The names that `pattern` means: one exactly, all below a part of the model, or all that fit its * and ?."""
    if pattern in names:
        return [pattern]
    glob = re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")
    rule = re.compile(glob + r"(?:[.\[].*)?")
    return [name for name in names if rule.fullmatch(name)]


def _expand(patterns: Sequence[str], parameters: Sequence[Parameter], option: str) -> dict[str, str]:
    """Which names each pattern of an option means, later patterns first in line; an error where one means nothing."""
    names = [parameter.name for parameter in parameters]
    chosen = {}
    for pattern in patterns:
        found = matching(pattern, names)
        if not found:
            raise KeyError(f"{option} names {pattern!r}, which the model does not have; it has {', '.join(names)}")
        chosen.update(dict.fromkeys(found, pattern))
    return chosen


class ParameterSpace(eqx.Module):
    """The free numbers of a model as a vector on the real line, and the way back to a model."""

    names: tuple[str, ...] = eqx.field(static=True)
    paths: tuple[Path, ...] = eqx.field(static=True)
    shapes: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    # Positions of the free numbers within the values of all the paths laid end to end.
    free: Int[AnyArray, " free"]
    lower: Float[AnyArray, " free"]
    upper: Float[AnyArray, " free"]
    scale: Float[AnyArray, " free"]

    @property
    def size(self) -> int:
        return self.free.shape[0]

    def start(self, model: Model) -> Float[np.ndarray, " free"]:
        """Where `model` is on the real line."""
        return from_interval(self.flatten(model)[self.free], self.lower, self.upper, self.scale)

    def flatten(self, model: Model) -> Float[np.ndarray, " number"]:
        return np.concatenate([_value(model, path).reshape(-1) for path in self.paths])

    def place(self, model: Model, point: Float[AnyArray, " free"]) -> Model:
        """`model` with its free numbers at `point`; differentiable."""
        parts = [jnp.reshape(jnp.asarray(follow(model, path), dtype=jnp.float64), -1) for path in self.paths]
        numbers = jnp.concatenate(parts).at[self.free].set(to_interval(point, self.lower, self.upper, self.scale))
        ends = np.cumsum([int(np.prod(shape)) for shape in self.shapes])
        values = [
            jnp.reshape(part, shape) for part, shape in zip(jnp.split(numbers, ends[:-1]), self.shapes, strict=True)
        ]
        return replace(model, self.paths, values)

    def place_numpy(self, model: Model, point: Float[np.ndarray, " free"], *, to_keep: bool = False) -> Model:
        """The same with NumPy arrays; `to_keep`, what a user gets, is to the last bit what `place` gives."""
        numbers = self.flatten(model)
        numbers[self.free] = (
            np.asarray(_numbers(jnp.asarray(point), self))
            if to_keep
            else to_interval(np.asarray(point), self.lower, self.upper, self.scale)
        )
        parts = np.split(numbers, np.cumsum([int(np.prod(shape)) for shape in self.shapes])[:-1])
        return replace(
            model, self.paths, [as_float64(part.reshape(shape)) for part, shape in zip(parts, self.shapes, strict=True)]
        )

    def steepness(self, point: Float[np.ndarray, " free"]) -> Float[np.ndarray, " free"]:
        """How fast each free number moves with its image on the real line."""
        return _steepness(np.asarray(point), self.lower, self.upper, self.scale)

    def values(self, model: Model) -> dict[str, np.ndarray]:
        return {name: _value(model, path) for name, path in zip(self.names, self.paths, strict=True)}

    def at_bounds(self, point: Float[np.ndarray, " free"]) -> list[str]:
        """Names of parameters pressed against a finite bound that leaves no more than a thousandth of its interval."""
        width = self.upper - self.lower
        boxed = np.isfinite(width)
        value = to_interval(np.asarray(point), self.lower, self.upper, self.scale)
        margin = np.minimum(value - self.lower, self.upper - value)
        pressed = self.free[boxed & (margin < 1e-3 * np.where(boxed, width, 1.0))]
        ends = np.cumsum([int(np.prod(shape)) for shape in self.shapes])
        return [self.names[i] for i in np.unique(np.searchsorted(ends, pressed, side="right"))]


@eqx.filter_jit
def _numbers(point: Float[Array, " free"], space: ParameterSpace) -> Float[Array, " free"]:
    return to_interval(point, space.lower, space.upper, space.scale)


def replace(model: Model, paths: Sequence[Path], values: Sequence[Any]) -> Model:
    """The model with other values at these paths."""
    leaves, tree = jax.tree_util.tree_flatten_with_path(model)
    new = dict(zip(paths, values, strict=True))
    found = [new.pop(tuple(map(_step_of, path)), leaf) for path, leaf in leaves]
    assert not new
    return jax.tree.unflatten(tree, found)


def _step_of(key: Any) -> str | int:
    """The step of a `Path` that JAX's key stands for."""
    return key.name if isinstance(key, jax.tree_util.GetAttrKey) else key.idx


def make_space(
    model: Model,
    *,
    frozen: Sequence[str] = (),
    bounds: Mapping[str, Bound] | None = None,
    named: Sequence[str] = (),
    learn_pseudo_points: bool = False,
) -> ParameterSpace:
    """The free parameters of `model`: all but the frozen, the held, and variances of exactly 0.

    `named` are further patterns the caller uses (priors). A parameter held by default is free if bounds or `named` have
    its exact name.
    """
    bounds = dict(bounds or {})
    parameters = parameters_of(model)
    is_frozen = _expand([frozen] if isinstance(frozen, str) else list(frozen), parameters, "frozen")
    bound_of = _expand(list(bounds), parameters, "bounds")
    asked = {*bounds, *named}
    chosen, free, lowers, uppers, scales = [], [], [], [], []
    offset = 0
    for parameter in parameters:
        learned_too = learn_pseudo_points and parameter.are_points
        held = parameter.held is not None and parameter.name not in asked and not learned_too
        if held or parameter.name in is_frozen:
            continue
        bound = bounds[bound_of[parameter.name]] if parameter.name in bound_of else (None, None)
        lower, upper = _limits(parameter, bound)
        value = parameter.value.reshape(-1)
        # A variance of exactly zero says that there is no such noise; there is also no way from it on the real line.
        learned = ~((value == lower) & (value == parameter.domain.lower))
        inside = (value > lower) & (value < upper)
        if np.any(learned & ~inside):
            raise ValueError(
                f"{parameter.name} starts at {parameter.value.tolist()}, outside its bounds {bound}; give "
                "bounds around the start, or start within them"
            )
        chosen.append(parameter)
        free.append(offset + np.flatnonzero(learned))
        lowers.append(lower[learned])
        uppers.append(upper[learned])
        scales.append(_scale(parameter)[learned])
        offset += value.size
    if not any(len(part) for part in free):
        raise ValueError("nothing is left to learn: every parameter of the model is frozen or held")
    return ParameterSpace(
        names=tuple(parameter.name for parameter in chosen),
        paths=tuple(parameter.path for parameter in chosen),
        shapes=tuple(parameter.value.shape for parameter in chosen),
        free=np.concatenate(free),
        lower=np.concatenate(lowers),
        upper=np.concatenate(uppers),
        scale=np.concatenate(scales),
    )


def _limits(parameter: Parameter, bound: Bound) -> tuple[np.ndarray, np.ndarray]:
    try:
        lower, upper = bound
        lower = -np.inf if lower is None else np.asarray(lower, dtype=np.float64)
        upper = np.inf if upper is None else np.asarray(upper, dtype=np.float64)
        lower = np.broadcast_to(np.maximum(lower, parameter.domain.lower), parameter.value.shape).reshape(-1)
        upper = np.broadcast_to(np.minimum(upper, parameter.domain.upper), parameter.value.shape).reshape(-1)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"bounds of {parameter.name} must be a pair (lower, upper), each None, a number, or an array of shape "
            f"{parameter.value.shape}; they are {bound!r}"
        ) from error
    if not np.all(lower < upper):
        raise ValueError(f"bounds of {parameter.name} are {bound}: the lower one must be below the upper one")
    return lower, upper


def _scale(parameter: Parameter) -> np.ndarray:
    """A move of size one where there are no bounds: for pseudo-points, about the distance between them."""
    if parameter.are_points:
        num_points, width = parameter.value.shape
        spread = np.ptp(parameter.value, axis=0)
        spacing = np.where(spread > 0, spread, 1.0) / num_points ** (1 / width)
        return np.broadcast_to(spacing, parameter.value.shape).reshape(-1)
    return np.maximum(np.abs(parameter.value.reshape(-1)), 1.0)


def to_interval(
    point: Float[AnyArray, " free"],
    lower: Float[AnyArray, " free"],
    upper: Float[AnyArray, " free"],
    scale: Float[AnyArray, " free"],
) -> Float[AnyArray, " free"]:
    """From the real line into the intervals; in NumPy where `point` is an array of it."""
    numbers: Any = np if isinstance(point, np.ndarray) else jnp
    boxed, above, below = _kinds(lower, upper, numbers)
    floor, ceiling = numbers.where(boxed | above, lower, 0.0), numbers.where(boxed | below, upper, 0.0)
    # Each branch sees a harmless 0 where it does not apply, for the gradient's sake.
    within = numbers.where(boxed, point, 0.0)
    logistic = expit(within) if numbers is np else jax.nn.sigmoid(within)
    with np.errstate(over="ignore"):
        exponential = numbers.exp(numbers.where(above | below, point, 0.0))
    return numbers.where(
        boxed,
        floor + (ceiling - floor) * logistic,
        numbers.where(above, floor + exponential, numbers.where(below, ceiling - exponential, scale * point)),
    )


def _kinds(
    lower: Float[AnyArray, " free"], upper: Float[AnyArray, " free"], numbers: Any = np
) -> tuple[Bool[AnyArray, " free"], Bool[AnyArray, " free"], Bool[AnyArray, " free"]]:
    """Which numbers have both bounds, the lower one alone, the upper one alone."""
    has_lower, has_upper = numbers.isfinite(lower), numbers.isfinite(upper)
    return has_lower & has_upper, has_lower & ~has_upper, has_upper & ~has_lower


def _steepness(
    point: Float[np.ndarray, " free"],
    lower: Float[np.ndarray, " free"],
    upper: Float[np.ndarray, " free"],
    scale: Float[np.ndarray, " free"],
) -> Float[np.ndarray, " free"]:
    """The derivative of `to_interval`."""
    boxed, above, below = _kinds(lower, upper)
    logistic = expit(np.where(boxed, point, 0.0))
    with np.errstate(over="ignore"):
        exponential = np.exp(np.where(above | below, point, 0.0))
    width = np.where(boxed, upper, 0.0) - np.where(boxed, lower, 0.0)
    return np.where(
        boxed,
        width * logistic * (1 - logistic),
        np.where(above, exponential, np.where(below, -exponential, scale)),
    )


def from_interval(
    value: Float[np.ndarray, " free"],
    lower: Float[AnyArray, " free"],
    upper: Float[AnyArray, " free"],
    scale: Float[AnyArray, " free"],
) -> Float[np.ndarray, " free"]:
    """The inverse of `to_interval`."""
    boxed, above, below = _kinds(lower, upper)
    point = value / scale
    point[boxed] = np.log(value[boxed] - lower[boxed]) - np.log(upper[boxed] - value[boxed])
    point[above] = np.log(value[above] - lower[above])
    point[below] = np.log(upper[below] - value[below])
    return point


def log_prior(model: Model, priors: Sequence[tuple[Path, Prior]]) -> Float[Array, ""]:
    """Sum of the priors' log densities at the parameters' own values (not at their images on the real line)."""
    total = jnp.zeros(())
    for path, prior in priors:
        total = total + jnp.sum(prior(jnp.asarray(follow(model, path))))
    return total


def log_prior_and_slopes(
    space: ParameterSpace, model: Model, priors: Sequence[tuple[Path, Prior]]
) -> tuple[float, Float[np.ndarray, " free"]]:
    """The same with its slopes in the free numbers; a prior of a user's own is compiled by itself, so that models share it."""
    total, slopes = 0.0, {path: np.zeros(np.shape(follow(model, path))) for path in space.paths}
    for path, prior in priors:
        where = follow(model, path)
        value, slope = (
            (np.sum(prior(np.asarray(where))), prior.slope(np.asarray(where)))
            if isinstance(prior, NormalPrior | LogNormalPrior | WithinReach)
            else _prior_and_slope(prior, jnp.asarray(where))
        )
        total += float(value)
        slopes[path] = slopes[path] + np.asarray(slope)
    return total, np.concatenate([slopes[path].reshape(-1) for path in space.paths])[space.free]


@eqx.filter_jit
def _prior_and_slope(prior: Prior, value: Float[Array, "..."]) -> tuple[Float[Array, ""], Float[Array, "..."]]:
    return jax.value_and_grad(lambda value: jnp.sum(prior(value)))(value)


def prior_terms(priors: Mapping[str, Prior], space: ParameterSpace, model: Model) -> tuple[tuple[Path, Prior], ...]:
    """Each prior with the path of the parameter it is for; an error where that is not learned."""
    all_parameters = parameters_of(model)
    pattern_of = _expand(list(priors), all_parameters, "priors")
    path_of = dict(zip(space.names, space.paths, strict=True))
    for pattern in priors:
        if not any(name in path_of for name, owner in pattern_of.items() if owner == pattern):
            raise ValueError(f"priors names {pattern!r}, which is not learned; what is: {', '.join(space.names)}")
    return tuple((path_of[name], priors[pattern]) for name, pattern in pattern_of.items() if name in path_of)
