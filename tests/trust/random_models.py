# SPDX-License-Identifier: MIT
"""Random models, each made twice: of weft's parts in double precision, and by definition in eighty digits.

A model is a number. It is one of so many structures (kernels, bases, likelihood, power), which share what has to be compiled, with
lengths, steps, noise, places and values of its own. `errors_of` says how far weft is from the definition in each quantity, in units in
which 1 would be useless.
"""

import functools
import sys
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np

import weft
from tests.oracles import extended
from tests.oracles.extended import Component, Kernel, Problem
from weft.likelihoods import Likelihood

NUM_STRUCTURES = 80
NUM_DRAWS = 400
# Rows by time and place: two rows at a time and place, a place seen twice, three rows at a time.
TIME_OF_ROW = np.array([0, 0, 1, 2, 2, 2, 3])
PLACE_OF_ROW = np.array([0, 0, 1, 2, 3, 0, 4])
SECOND_BATCH = np.array([False, True, False, False, True, False, True])

SMOOTH = ("eq", "matern12", "matern32", "matern52", "matern72")
IN_SPACE = (*SMOOTH, "rational quadratic", "periodic", "cosine")
IN_TIME = (*SMOOTH, "periodic", "cosine")
PLAIN = {
    "eq": weft.EQ,
    "matern12": weft.Matern12,
    "matern32": weft.Matern32,
    "matern52": weft.Matern52,
    "matern72": weft.Matern72,
    "rational quadratic": weft.RationalQuadratic,
    "periodic": weft.Periodic,
    "cosine": weft.Cosine,
    "constant": weft.Constant,
    "linear": weft.Linear,
    "wiener": weft.Wiener,
}


class Parameter(NamedTuple):
    """How one is drawn: a power of ten between two, in a unit; `before` is a point that much before the first time."""

    low: float
    high: float
    unit: str = "one"
    before: bool = False


class Structure(NamedTuple):
    components: tuple[Component, ...]
    parameters: tuple[Parameter, ...]
    likelihood: str
    power: float
    kind_of_space: str
    own_noise: bool

    @property
    def noise(self) -> int | None:
        return len(self.parameters) - 1 if self.likelihood == "gaussian" else None


# --- structures


class _Drafting:
    """Draws the structure: kernels, with their parameters in one list."""

    def __init__(self, rng: np.random.Generator):
        self.rng = rng
        self.parameters: list[Parameter] = []

    def new(self, low: float, high: float, unit: str = "one", before: bool = False) -> int:
        self.parameters.append(Parameter(low, high, unit, before))
        return len(self.parameters) - 1

    def leaf(self, kind: str, unit: str, num_scales: int = 1) -> Kernel:
        match kind:
            case "constant":
                return Kernel(kind, (self.new(-1, 1),))
            case "linear":
                return Kernel(kind, (self.new(-1, 1, f"{unit}^-2"), self.new(-1, 2, unit, before=True)))
            case "wiener":
                return Kernel(kind, (self.new(-1, 1, f"{unit}^-1"), self.new(0.1, 1, unit, before=True)))
            case "cosine":
                return Kernel(kind, (self.new(0, 2, unit), self.new(-1, 1)))
            case "periodic":
                return Kernel(kind, (self.new(0, 2, unit), self.new(-0.3, 0.5), self.new(-1, 1)))
            case "rational quadratic":
                return Kernel(kind, (self.new(-0.5, 1, unit), self.new(-1, 1), self.new(-1, 1)))
        scales = tuple(
            self.new(-0.5 if unit == "space" else -1.5, 1 if unit == "space" else 2.5, unit) for _ in range(num_scales)
        )
        return Kernel(kind, (*scales, self.new(-1, 1)))

    def pick(self, choices: tuple[str, ...]) -> str:
        return choices[self.rng.integers(len(choices))]

    def composed(self, leaf: Callable[[], Kernel]) -> Kernel:
        """A kernel, a sum, a product or a multiple of such."""
        how = self.rng.integers(6)
        if how == 0:
            return Kernel("sum", parts=(leaf(), leaf()))
        if how == 1:
            return Kernel("product", parts=(leaf(), leaf()))
        if how == 2:
            return Kernel("scaled", (self.new(-1, 1),), (leaf(),))
        return leaf()

    def time(self) -> Kernel:
        if self.rng.integers(4) == 0:
            trend = self.leaf(self.pick(("linear", "wiener", "constant")), "time")
            return (
                Kernel("sum", parts=(self.leaf(self.pick(IN_TIME), "time"), trend)) if self.rng.integers(2) else trend
            )
        return self.composed(lambda: self.leaf(self.pick(IN_TIME), "time"))

    def space(self, kind: str) -> Kernel:
        if kind == "graph":
            return Kernel("graph", (self.new(-0.5, 0.5), self.new(0, 0.5), self.new(-1, 1)))
        if kind == "sphere":
            return Kernel("sphere", parts=(self.composed(lambda: self.leaf(self.pick(SMOOTH), "space")),))
        if self.rng.integers(5) == 0:
            return Kernel(
                "columns", parts=(self.leaf(self.pick(SMOOTH), "space"),), columns=(int(self.rng.integers(2)),)
            )
        return self.composed(lambda: self.leaf(self.pick(IN_SPACE), "space", 1))

    def component(self, kind: str, basis: str) -> Component:
        if basis == "own":
            space = (
                self.leaf(self.pick(("linear", "constant")), "space")
                if kind == "plain"
                else self.leaf("constant", "space")
            )
        elif basis == "waves":
            space = self.leaf(self.pick(SMOOTH), "space", 2)
        else:
            space = self.space(kind)
        return Component(self.new(-1, 1), space, self.time(), basis)


LIKELIHOODS: dict[str, Callable[[], Likelihood]] = {
    "poisson": weft.Poisson,
    "bernoulli": weft.Bernoulli,
    "binomial": weft.Binomial,
    "exponential": weft.Exponential,
    "gamma": lambda: weft.Gamma(2.5),
    "beta": lambda: weft.Beta(3.5),
    "laplace": lambda: weft.Laplace(0.7),
    "student t": lambda: weft.StudentT(4.0, 0.6),
    "log-normal": lambda: weft.LogNormal(0.4),
    "negative binomial": lambda: weft.NegativeBinomial(1.5),
    "zero-inflated poisson": lambda: weft.ZeroInflatedPoisson(0.2),
    "tobit": lambda: weft.Tobit(0.3),
    "rain": lambda: weft.Rain(0.6, 1.7),
}


@functools.cache
def structure(number: int) -> Structure:
    drafting = _Drafting(np.random.default_rng([number, 17]))
    kind = ("plain", "plain", "plain", "sphere", "graph")[number % 5]
    bases = ("pseudo", "all", "pseudo", "waves" if kind == "plain" else "pseudo", "own")
    # Every fourth has another likelihood, one after the other.
    likelihood = "gaussian" if number % 4 else list(LIKELIHOODS)[number // 4 % len(LIKELIHOODS)]
    num = 1 + int(drafting.rng.integers(2))
    components = [drafting.component(kind, drafting.pick(bases[:4] if place == 0 else bases)) for place in range(num)]
    if likelihood == "gaussian":
        drafting.new(-12, 6)
    # Sites are found at power 0 only.
    power = float(drafting.rng.choice([0.0, 0.0, 0.5, 1.0])) if likelihood == "gaussian" else 0.0
    return Structure(
        tuple(components), tuple(drafting.parameters), likelihood, power, kind, bool(drafting.rng.integers(2))
    )


# --- numbers


class Case(NamedTuple):
    structure: Structure
    problem: Problem
    theta: np.ndarray
    time_unit: float
    space_unit: float
    sums: np.ndarray


def case(number: int) -> Case:
    """The model of that number."""
    chosen = structure(number % NUM_STRUCTURES)
    rng = np.random.default_rng([number, 23])
    time_unit = 10.0 ** rng.uniform(-9, 9)
    space_unit = {"plain": 10.0 ** rng.uniform(-3, 3), "sphere": 1000.0, "graph": 1.0}[chosen.kind_of_space]
    if any(part.basis == "waves" for part in chosen.components):
        # The box of waves is part of what is compiled: few of them.
        space_unit = float(rng.choice([0.003, 700.0]))
    # Steps of one model differ up to a million times; some begin far from zero, as dates do.
    start = float(rng.choice([0.0, 1e3, -1e6])) * time_unit
    times = start + np.cumsum(time_unit * 10 ** rng.uniform(-3, 3, 4))
    places, asked_places, points = (_places(chosen.kind_of_space, count, space_unit, rng) for count in (5, 2, 3))
    if rng.integers(3) == 0:
        points[:2] = places[1:3]
    between = times[2] + rng.uniform(0.1, 0.9) * (times[3] - times[2])
    asked_times = np.array(
        [times[0] - 0.5 * time_unit, times[1], between, times[3] + time_unit * 10 ** rng.uniform(-3, 3)]
    )
    units = {"one": 1.0, "time": time_unit, "space": space_unit}
    units |= {f"{name}^-{power}": units[name] ** -power for name in ("time", "space") for power in (1, 2)}
    first = {"time": times[0], "space": 0.0}
    theta = np.array([_drawn(parameter, units, first, rng) for parameter in chosen.parameters])
    if chosen.noise is None:
        # A search for sites is no matter of digits: where f goes through a link, it varies by about one.
        theta[[part.variance for part in chosen.components]] /= _largest_variance(chosen, times, places, theta)
    components = tuple(
        part._replace(basis=extended.exact(points if place else points[:2])) if part.basis == "pseudo" else part
        for place, part in enumerate(chosen.components)
    )
    rows = len(TIME_OF_ROW)
    problem = Problem(
        components=components,
        noise=chosen.noise,
        times=times[TIME_OF_ROW],
        places=places[PLACE_OF_ROW],
        values=np.zeros(rows),
        own_noise=theta[-1] * rng.uniform(0.0, 2.0, rows)
        if chosen.own_noise and chosen.noise is not None
        else np.zeros(rows),
        asked_times=asked_times,
        asked_places=np.stack([places[2], asked_places[0], asked_places[1], places[0]]),
        power=chosen.power,
        box=(np.full(2, -4.0 * space_unit), np.full(2, 4.0 * space_unit)),
        waves=2,
    )
    return Case(chosen, problem, theta, time_unit, space_unit, rng.normal(size=4))._replace(
        problem=problem._replace(values=_values(chosen, problem, theta, rng))
    )


def _largest_variance(chosen: Structure, times: np.ndarray, places: np.ndarray, theta: np.ndarray) -> float:
    with mp.workdps(extended.DIGITS):
        rows = times[TIME_OF_ROW], places[PLACE_OF_ROW]
        return float(max(extended.prior_variance(chosen.components, extended.exact(theta), *rows)))


def _places(kind: str, count: int, unit: float, rng: np.random.Generator) -> np.ndarray:
    if kind == "graph":
        return rng.choice(8, count, replace=False)[:, None].astype(float)
    if kind == "sphere":
        return np.stack([rng.uniform(-60, 80, count), rng.uniform(-170, 170, count)], axis=1)
    return unit * rng.uniform(-3, 3, (count, 2))


def _drawn(parameter: Parameter, units: dict[str, float], first: dict[str, float], rng: np.random.Generator) -> float:
    size = units[parameter.unit] * 10 ** rng.uniform(parameter.low, parameter.high)
    return first[parameter.unit] - size if parameter.before else size


def _values(chosen: Structure, problem: Problem, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    count = len(problem.times)
    match chosen.likelihood:
        case "gaussian":
            with mp.workdps(extended.DIGITS):
                rows = problem.times, problem.places
                signal = extended.prior_variance(problem.components, extended.exact(theta), *rows).astype(float)
            return rng.normal(size=count) * np.sqrt(signal + theta[-1])
        case "poisson" | "negative binomial" | "zero-inflated poisson":
            return rng.poisson(2.5, count).astype(float)
        case "bernoulli":
            return rng.integers(0, 2, count).astype(float)
        case "binomial":
            return rng.integers(0, 5, count).astype(float)
        case "exponential" | "gamma" | "log-normal":
            return rng.gamma(2.0, 0.7, count)
        case "beta":
            return rng.uniform(0.05, 0.95, count)
        case "rain":
            return np.maximum(rng.normal(size=count), 0.0)
    return rng.normal(size=count)


# --- weft's side


def as_kernel(kernel: Kernel, theta: Any) -> weft.Kernel:
    own = [theta[number] for number in kernel.numbers]
    parts = [as_kernel(part, theta) for part in kernel.parts]
    match kernel.kind:
        case "sum":
            return parts[0] + parts[1]
        case "product":
            return parts[0] * parts[1]
        case "scaled":
            return own[0] * parts[0]
        case "columns":
            return weft.Columns(parts[0], kernel.columns)
        case "sphere":
            return weft.OnSphere(parts[0])
        case "graph":
            return weft.Graph(extended.laplacian(), *own)
    if kernel.kind in SMOOTH and len(own) > 2:
        return PLAIN[kernel.kind](jnp.stack(own[:-1]), own[-1])
    return PLAIN[kernel.kind](*own)


def as_model(one: Case, theta: Any, points: list[Any]) -> weft.Model:
    """The model with these parameters and, in turn, these pseudo-points."""
    remaining = iter(points)
    kernels, bases = [], []
    for component in one.problem.components:
        space, time = (as_kernel(kernel, theta) for kernel in (component.space, component.time))
        kernels.append(weft.Separable(space=space, time=time, variance=theta[component.variance]))
        if not isinstance(component.basis, str):
            bases.append(next(remaining))
        else:
            waves = weft.FourierFeatures(*one.problem.box, order=one.problem.waves)
            bases.append(waves if component.basis == "waves" else None)
    name = one.structure.likelihood
    likelihood = weft.Gaussian(theta[-1]) if name == "gaussian" else LIKELIHOODS[name]()
    kernel = kernels[0] if len(kernels) == 1 else kernels[0] + kernels[1]
    return weft.Model(kernel, likelihood, tuple(bases) if len(bases) > 1 else bases[0])


def observations(one: Case, chosen: np.ndarray | slice = slice(None)) -> weft.Observations:
    problem = one.problem
    own = problem.own_noise[chosen] if one.structure.own_noise and problem.noise is not None else None
    rows = problem.times[chosen], problem.places[chosen], problem.values[chosen]
    match one.structure.likelihood:
        case "binomial":
            return weft.Observations(*rows, trials=np.full(len(rows[0]), 6.0))
        case "tobit":
            return weft.Observations(*rows, lower=np.full(len(rows[0]), -0.4), upper=np.full(len(rows[0]), 0.9))
    return weft.Observations(*rows, noise_variance=own)


# --- both


class Errors(NamedTuple):
    """How far weft is off, by quantity, how large noise is beside the variance of f, and the condition number of the problem."""

    noise_share: float
    condition: float
    by_quantity: dict[str, float]


def errors_of(number: int) -> Errors:
    """Of the model of that number: means in prior deviations (in their own size where they are larger), variances and covariances in
    prior variances, evidence and gradients beside the size of what they are sums of, draws in standard errors of a sample covariance.
    """
    one = case(number)
    with warnings.catch_warnings(), mp.workdps(extended.DIGITS):
        warnings.filterwarnings("ignore", "the smallest noise variance")
        return _gaussian_errors(one) if one.problem.noise is not None else _other_errors(one)


def _gaussian_errors(one: Case) -> Errors:
    problem, theta = one.problem, extended.exact(one.theta)
    expected = extended.answer(problem, theta)
    points = [part.basis.astype(float) for part in problem.components if not isinstance(part.basis, str)]
    data, asked = observations(one), (problem.asked_times, problem.asked_places)
    evidence, (by_theta, by_points) = jax.value_and_grad(
        lambda theta, points: weft.log_evidence(as_model(one, theta, points), data, power=problem.power), argnums=(0, 1)
    )(jnp.asarray(one.theta), points)
    posterior = weft.condition(as_model(one, one.theta, points), data, power=problem.power)
    found = {"evidence": _off([evidence], [expected.evidence], 1 + expected.terms)}
    found["gradient"] = _gradient_error(one, theta, expected, by_theta, by_points)
    found |= _moment_errors(one, posterior, expected)
    begun = weft.condition(as_model(one, one.theta, points), observations(one, ~SECOND_BATCH), power=problem.power)
    updated = begun.update(observations(one, SECOND_BATCH)).marginals(*asked)
    found["update"] = max(
        _off(updated.mean, expected.mean, _sizes(expected)),
        _off(updated.variance, np.diagonal(expected.covariance), expected.prior_variance),
    )
    signal = extended.prior_variance(problem.components, theta, problem.times, problem.places)
    smallest = min((theta[-1] + own) / size for own, size in zip(problem.own_noise, signal, strict=True))
    return Errors(float(smallest), float(extended.condition_number(problem, theta, expected)), found)


def _other_errors(one: Case) -> Errors:
    points = [part.basis.astype(float) for part in one.problem.components if not isinstance(part.basis, str)]
    posterior = weft.condition(as_model(one, one.theta, points), observations(one))
    values, precisions = np.asarray(posterior.rows.value), np.asarray(posterior.rows.precision)
    theta = extended.exact(one.theta)
    expected = extended.answer(one.problem, theta, sites=(values, precisions))
    normaliser = posterior.log_evidence - posterior.log_constant
    found = {"evidence": _off([normaliser], [expected.evidence], 1 + expected.terms)}
    found |= _moment_errors(one, posterior, expected)
    signal = extended.prior_variance(one.problem.components, theta, one.problem.times, one.problem.places).astype(float)
    condition = float(extended.condition_number(one.problem, theta, expected))
    return Errors(float(np.min(1 / (precisions * signal))), condition, found)


def _has_cusp(one: Case) -> bool:
    """Whether a pseudo-point lies where the covariance with a place has no derivative: on it, by an exponential kernel."""
    rows = {tuple(place) for place in one.problem.places}
    return any(
        "matern12" in kinds_of(part.space) and any(tuple(point) in rows for point in part.basis.astype(float))
        for part in one.problem.components
        if not isinstance(part.basis, str)
    )


def kinds_of(kernel: Kernel) -> set[str]:
    """Of a kernel and of all that it is made of."""
    return {kernel.kind}.union(*(kinds_of(part) for part in kernel.parts))


def _moment_errors(one: Case, posterior: weft.Posterior, expected: extended.Answer) -> dict[str, float]:
    asked = one.problem.asked_times, one.problem.asked_places
    marginals, covariance = posterior.marginals(*asked), posterior.covariance(*asked)
    scale = _roots(expected.prior_variance)
    total = posterior.aggregate(*asked, one.sums)
    sums = extended.exact(one.sums)
    size = abs(sums) @ _sizes(expected)
    draws = posterior.sample(*asked, num=NUM_DRAWS, seed=3)
    by_definition = expected.covariance.astype(float)
    deviation = np.sqrt(np.diagonal(by_definition))
    prior = expected.prior_variance.astype(float)
    # Of a sample covariance of normal draws; where next to nothing is left, rounding beside the prior variance.
    error = np.sqrt((by_definition**2 + np.outer(deviation, deviation) ** 2) / NUM_DRAWS) + 1e-8 * np.sqrt(
        np.outer(prior, prior)
    )
    off_centre = np.abs(draws.mean(axis=0) - marginals.mean) / (deviation / np.sqrt(NUM_DRAWS) + 1e-8 * np.sqrt(prior))
    return {
        "mean": _off(marginals.mean, expected.mean, _sizes(expected)),
        "variance": _off(marginals.variance, np.diagonal(expected.covariance), expected.prior_variance),
        "covariance": _off(covariance, expected.covariance, np.outer(scale, scale)),
        "aggregate": max(
            _off([total.mean], [sums @ expected.mean], size),
            _off([total.variance], [sums @ expected.covariance @ sums], (abs(sums) @ scale) ** 2),
        ),
        "draws": max(float(np.max(np.abs(np.cov(draws.T) - by_definition) / error)), float(np.max(off_centre))),
    }


def _gradient_error(
    one: Case, theta: np.ndarray, expected: extended.Answer, by_theta: Any, by_points: list[Any]
) -> float:
    """In logarithms of parameters, in units for points in time, and along one direction for all pseudo-points."""
    rng = np.random.default_rng(5)
    units = [
        one.time_unit
        if parameter.before and parameter.unit == "time"
        else one.space_unit
        if parameter.before
        else value
        for parameter, value in zip(one.structure.parameters, one.theta, strict=True)
    ]
    directions: list[Any] = [
        functools.partial(_along_parameter, number=number, unit=unit) for number, unit in enumerate(units)
    ]
    found = [float(slope) * unit for slope, unit in zip(by_theta, units, strict=True)]
    if by_points and one.structure.kind_of_space != "graph" and not _has_cusp(one):
        unit = one.space_unit if one.structure.kind_of_space == "plain" else 10.0
        moves = [unit * rng.normal(size=np.shape(points)) for points in by_points]
        directions.append(functools.partial(_along_points, moves=moves))
        found.append(sum(float(np.sum(np.asarray(slope) * move)) for slope, move in zip(by_points, moves, strict=True)))
    exact = extended.gradient(one.problem, theta, directions)
    return _off(found, exact, 1 + expected.terms + max(abs(slope) for slope in exact))


def _along_parameter(
    problem: Problem, theta: np.ndarray, step: Any, *, number: int, unit: float
) -> tuple[Problem, np.ndarray]:
    moved = theta.copy()
    moved[number] = moved[number] + step * mp.mpf(unit)
    return problem, moved


def _along_points(
    problem: Problem, theta: np.ndarray, step: Any, *, moves: list[np.ndarray]
) -> tuple[Problem, np.ndarray]:
    remaining = iter(moves)
    return problem._replace(
        components=tuple(
            part
            if isinstance(part.basis, str)
            else part._replace(basis=part.basis + step * extended.exact(next(remaining)))
            for part in problem.components
        )
    ), theta


def _roots(values: np.ndarray) -> np.ndarray:
    return np.array([mp.sqrt(value) for value in values], dtype=object)


def _sizes(expected: extended.Answer) -> np.ndarray:
    """What means are held against: the prior deviation, or the mean itself where it lies many of them away."""
    return np.maximum(_roots(expected.prior_variance), abs(expected.mean))


def _off(found: Any, expected: Any, scale: Any) -> float:
    """The largest difference, in units of `scale`; infinite where something is no number."""
    found = np.asarray(found, dtype=float)
    if not np.all(np.isfinite(found)):
        return np.inf
    return float(np.max(np.abs((extended.exact(found) - np.asarray(expected, dtype=object)) / scale)))


# --- many


# Errors grow as rounding times the condition number: by about as much as sums here have terms, and the gradient, which divides by noise
# once more, by so much more.
TIMES_ROUNDING, TIMES_ROUNDING_OF_GRADIENTS = 64, 2048
# Draws are the same in every run.
DRAWS_OFF = 6.5


def bound(quantity: str, condition: float) -> float:
    """How far weft may be off where a problem has this condition number; see `errors_of` for the units."""
    if quantity == "draws":
        return DRAWS_OFF
    times = TIMES_ROUNDING_OF_GRADIENTS if quantity == "gradient" else TIMES_ROUNDING
    return times * 2.0**-53 * condition


class Worst(NamedTuple):
    """The error of a quantity that comes nearest to its bound, or farthest beyond it, and the model that has it."""

    error: float
    bound: float
    condition: float
    model: int

    @property
    def share(self) -> float:
        return self.error / self.bound


def kind_of_noise(share: float) -> str:
    """Whether noise beside the variance of f is ordinary, small, or raised to the floor of 1e-10."""
    return "ordinary" if share >= 1e-6 else "small" if share >= 1e-10 else "floored"


class Found(NamedTuple):
    """Of many models: the largest error by kind of noise and quantity, and by quantity the one nearest to its bound."""

    largest: dict[str, dict[str, float]]
    nearest: dict[str, Worst]


def worst_of(numbers: list[int]) -> Found:
    found = Found({}, {})
    for number in numbers:
        errors = errors_of(number)
        largest = found.largest.setdefault(kind_of_noise(errors.noise_share), {})
        for quantity, error in errors.by_quantity.items():
            largest[quantity] = max(error, largest.get(quantity, 0.0))
            one = Worst(error, bound(quantity, errors.condition), errors.condition, number)
            if quantity not in found.nearest or not one.share <= found.nearest[quantity].share:
                found.nearest[quantity] = one
    return found


def main() -> None:
    """`python -m tests.trust.random_models [2000] [--resume]`: the worst errors of so many models, in benchmarks/results.

    Structure after structure, and written down after each; --resume goes on after the last.
    """
    from benchmarks.results import read_results, write_results

    jax.config.update("jax_enable_x64", True)
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    done: Any = read_results("random_models") if "--resume" in sys.argv else None
    record: dict[str, Any] = done or {"models": 0, "structures": 0, "largest": {}, "nearest to its bound": {}}
    for first in range(record["structures"], min(NUM_STRUCTURES, count)):
        numbers = list(range(first, count, NUM_STRUCTURES))
        found = worst_of(numbers)
        for kind, by_quantity in found.largest.items():
            largest = record["largest"].setdefault(kind, {})
            for quantity, error in by_quantity.items():
                largest[quantity] = max(error, largest.get(quantity, 0.0))
        nearest, beyond = record["nearest to its bound"], []
        for quantity, one in found.nearest.items():
            if not one.share <= 1:
                beyond.append(f"{quantity} of model {one.model}: {one.error:.1e}, bound {one.bound:.1e}")
            if quantity not in nearest or not one.share <= nearest[quantity]["error"] / nearest[quantity]["bound"]:
                nearest[quantity] = one._asdict()
        record["models"] += len(numbers)
        record["structures"] += 1
        write_results("random_models", record)
        # Each structure is compiled anew; what is left of the last one only fills memory.
        jax.clear_caches()
        print("\n".join([f"{record['models']} models, the last of structure {first}", *beyond]), flush=True)


if __name__ == "__main__":
    main()
