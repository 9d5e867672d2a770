# SPDX-License-Identifier: MIT
"""Dense Gaussian processes in eighty digits, straight from their definitions: what double precision is held against.

Kernels are trees (`Kernel`) of kinds and of positions in one flat list of parameters. A matrix of pseudo-points has the project's jitter,
which is part of the definition here: without it many of these models have none. The noise has its floor for the same reason.
"""

import functools
from typing import Any, NamedTuple

import mpmath as mp
import numpy as np

from tests.kernels.high_precision import damped_chain
from weft.kernels.eq_in_time import CHAINS

DIGITS = 80
# A forward difference over so little is right to twenty digits.
STEP = mp.mpf(10) ** -32

EARTH_RADIUS = 6371.0088
RELATIVE_JITTER, ROUNDING = mp.mpf(1e-12), mp.mpf(2) ** -52
NOISE_FLOOR = mp.mpf(1e-10)
MATERNS = {"matern12": 0, "matern32": 1, "matern52": 2, "matern72": 3}
# How many length scales wider than its box the period of waves is, by kernel.
REACH = {"eq": 8.6, "matern12": 36.9, "matern32": 23.5, "matern52": 19.4, "matern72": 17.3}


class Kernel(NamedTuple):
    """A kernel: its kind, where its parameters stand in the list of all, kernels it is made of, and columns that it looks at."""

    kind: str
    numbers: tuple[int, ...] = ()
    parts: tuple["Kernel", ...] = ()
    columns: tuple[int, ...] = ()


class Component(NamedTuple):
    """One separable component; `basis` is "all", "own", "waves" or the places of its pseudo-points."""

    variance: int
    space: Kernel
    time: Kernel
    basis: Any


class Problem(NamedTuple):
    """Rows, what is asked of them, and the model: `noise` is the position of the likelihood's variance among the parameters."""

    components: tuple[Component, ...]
    noise: int | None
    times: np.ndarray
    places: np.ndarray
    values: np.ndarray
    own_noise: np.ndarray
    asked_times: np.ndarray
    asked_places: np.ndarray
    power: float
    box: tuple[np.ndarray, np.ndarray] | None = None
    waves: int = 0


class Answer(NamedTuple):
    """By definition; `terms` is the sum of the sizes of what the evidence is made of, `ratio` as in `condition_number`."""

    evidence: Any
    terms: Any
    mean: np.ndarray
    covariance: np.ndarray
    prior_variance: np.ndarray
    ratio: Any


def exact(values: Any) -> np.ndarray:
    """Doubles as they are, in many digits."""
    array = np.asarray(values, dtype=float)
    return np.array([mp.mpf(float(value)) for value in array.ravel()], dtype=object).reshape(array.shape)


# --- kernels


def covariance(kernel: Kernel, theta: Any, x: Any, y: Any, *, in_time: bool = False) -> Any:
    """k(x, y) of two points; in time, of the state-space form where that is an approximation by design."""
    own = [theta[number] for number in kernel.numbers]
    match kernel.kind:
        case "sum" | "product":
            first, second = (covariance(part, theta, x, y, in_time=in_time) for part in kernel.parts)
            return first + second if kernel.kind == "sum" else first * second
        case "scaled":
            return own[0] * covariance(kernel.parts[0], theta, x, y, in_time=in_time)
        case "columns":
            chosen = [[point[column] for column in kernel.columns] for point in (x, y)]
            return covariance(kernel.parts[0], theta, *chosen)
        case "sphere":
            return covariance(kernel.parts[0], theta, on_sphere(x), on_sphere(y))
        case "graph":
            return on_graph(int(x[0]), int(y[0]), *own)
        case "constant":
            return own[0]
        case "linear":
            return sum(own[0] * (a - own[1]) * (b - own[1]) for a, b in zip(x, y, strict=True))
        case "wiener":
            return own[0] * (min(x[0], y[0]) - own[1])
        case "cosine":
            return own[1] * mp.cos(2 * mp.pi * sum(a - b for a, b in zip(x, y, strict=True)) / own[0])
        case "periodic":
            lags = [a - b for a, b in zip(x, y, strict=True)]
            if in_time:
                return own[2] * few_harmonics(lags[0] / own[0], own[1])
            return own[2] * mp.exp(-2 * sum((mp.sin(mp.pi * lag / own[0]) / own[1]) ** 2 for lag in lags))
    *scales, variance = own
    if kernel.kind == "rational quadratic":
        *scales, shape = scales
    scales = scales * len(x) if len(scales) == 1 else scales
    squared = sum(((a - b) / scale) ** 2 for a, b, scale in zip(x, y, scales, strict=True))
    if kernel.kind == "rational quadratic":
        return variance * (1 + squared / (2 * shape)) ** -shape
    if kernel.kind == "eq":
        return variance * (damped(mp.sqrt(squared)) if in_time else mp.exp(-squared / 2))
    return variance * matern(MATERNS[kernel.kind], mp.sqrt(squared))


def matern(order: int, distance: Any) -> Any:
    """Rasmussen & Williams (2006), equation 4.16."""
    u = mp.sqrt(2 * order + 1) * distance
    total = sum(
        mp.factorial(order + i) / (mp.factorial(i) * mp.factorial(order - i)) * (2 * u) ** (order - i)
        for i in range(order + 1)
    )
    return mp.exp(-u) * mp.factorial(order) / mp.factorial(2 * order) * total


@functools.cache
def modes(order: int = 6) -> list[tuple[Any, Any]]:
    """Rates and shares of the exponentials that the covariance of EQ's chain in time is the sum of, by eigenvectors."""
    with mp.workdps(DIGITS):
        *rates, damping = CHAINS[order]
        values, left, right = mp.eig(damped_chain(rates, damping), left=True, right=True)
        return [(values[k], right[0, k] * left[k, 0] / (left[k, :] * right[:, k])[0]) for k in range(len(values))]


def damped(distance: Any) -> Any:
    return mp.re(sum(share * mp.exp(rate * distance) for rate, share in modes()))


def few_harmonics(turns: Any, lengthscale: Any, order: int = 6) -> Any:
    """The harmonics of the periodic kernel up to `order`, scaled to variance 1."""
    sizes = [mp.besseli(j, 1 / lengthscale**2) * (1 if j == 0 else 2) for j in range(order + 1)]
    return sum(size * mp.cos(2 * mp.pi * j * turns) for j, size in enumerate(sizes)) / sum(sizes)


def on_sphere(point: Any) -> list[Any]:
    latitude, longitude = (mp.radians(degrees) for degrees in point)
    radius = mp.mpf(EARTH_RADIUS)
    return [
        radius * mp.cos(latitude) * mp.cos(longitude),
        radius * mp.cos(latitude) * mp.sin(longitude),
        radius * mp.sin(latitude),
    ]


# A ring of eight with a chord, its edges of unequal weight.
EDGES = [(k, (k + 1) % 8, 0.5 + 0.25 * k) for k in range(8)] + [(1, 5, 2.0)]


def laplacian() -> np.ndarray:
    matrix = np.zeros((8, 8))
    for first, second, weight in EDGES:
        matrix[[first, second], [second, first]] -= weight
        matrix[[first, second], [first, second]] += weight
    return matrix


@functools.cache
def eigenpairs() -> tuple[Any, Any]:
    with mp.workdps(DIGITS):
        return mp.eigsy(mp.matrix(laplacian().tolist()))


def on_graph(first: int, second: int, lengthscale: Any, smoothness: Any, variance: Any) -> Any:
    values, vectors = eigenpairs()
    weights = [(1 + lengthscale**2 * abs(value) / (2 * smoothness)) ** -smoothness for value in values]
    mean = sum(weights) / len(weights)
    return variance * sum(w * vectors[first, k] * vectors[second, k] for k, w in enumerate(weights)) / mean


def matrix(kernel: Kernel, theta: Any, xs: np.ndarray, ys: np.ndarray, *, in_time: bool = False) -> np.ndarray:
    own = tuple((number, theta[number]) for number in sorted(numbers_of(kernel)))
    return _matrix(kernel, own, tuple(map(tuple, xs)), tuple(map(tuple, ys)), in_time)


def numbers_of(kernel: Kernel) -> set[int]:
    return set(kernel.numbers).union(*(numbers_of(part) for part in kernel.parts))


# A derivative changes one parameter, and most matrices are as they were.
@functools.lru_cache(maxsize=64)
def _matrix(
    kernel: Kernel, own: tuple[Any, ...], xs: tuple[Any, ...], ys: tuple[Any, ...], in_time: bool
) -> np.ndarray:
    theta = dict(own)
    entries = [covariance(kernel, theta, x, y, in_time=in_time) for x in xs for y in ys]
    return np.array(entries, dtype=object).reshape(len(xs), len(ys))


def explained_by_waves(kernel: Kernel, theta: Any, xs: np.ndarray, ys: np.ndarray, problem: Problem) -> np.ndarray:
    """What waves over the box explain of a stationary kernel, wave by wave (Rasmussen & Williams 2006, section 4.2.1)."""
    *scales, variance = (theta[number] for number in kernel.numbers)
    width, (lower, upper) = xs.shape[1], problem.box
    scales = scales * width if len(scales) == 1 else scales
    periods = [b - a + mp.mpf(REACH[kernel.kind]) * scale for a, b, scale in zip(lower, upper, scales, strict=True)]
    total = np.full((len(xs), len(ys)), mp.mpf(0), dtype=object)
    order = problem.waves
    for wave in np.ndindex(*(2 * order + 1,) * width):
        numbers = [number - order for number in wave]
        if sum(number**2 for number in numbers) > order**2:
            continue
        frequencies = [2 * mp.pi * number / period for number, period in zip(numbers, periods, strict=True)]
        squared = sum((frequency * scale) ** 2 for frequency, scale in zip(frequencies, scales, strict=True))
        share = density(kernel.kind, squared, width) * mp.fprod(
            scale / period for scale, period in zip(scales, periods, strict=True)
        )
        for i, x in enumerate(xs):
            for j, y in enumerate(ys):
                angle = sum(frequency * (a - b) for frequency, a, b in zip(frequencies, x, y, strict=True))
                total[i, j] += variance * share * mp.cos(angle)
    return total


def density(kind: str, squared: Any, width: int) -> Any:
    if kind == "eq":
        return (2 * mp.pi) ** (mp.mpf(width) / 2) * mp.exp(-squared / 2)
    nu = mp.mpf(2 * MATERNS[kind] + 1) / 2
    power = nu + mp.mpf(width) / 2
    constant = 2**width * mp.pi ** (mp.mpf(width) / 2) * mp.gamma(power) * (2 * nu) ** nu / mp.gamma(nu)
    return constant * (2 * nu + squared) ** -power


# --- linear algebra


def factor(gram: np.ndarray) -> tuple[np.ndarray, list[Any]]:
    """Unit lower triangle and pivots: gram = L diag(pivots) L'."""
    size = len(gram)
    lower, pivots = np.array(gram, dtype=object), []
    for k in range(size):
        pivots.append(lower[k, k])
        lower[k + 1 :, k] = lower[k + 1 :, k] / pivots[k]
        for j in range(k + 1, size):
            lower[j:, j] = lower[j:, j] - lower[j:, k] * (lower[j, k] * pivots[k])
    return lower, pivots


def solve(factored: tuple[np.ndarray, list[Any]], right: np.ndarray) -> np.ndarray:
    lower, pivots = factored
    found = np.array(right, dtype=object)
    for k in range(len(pivots)):
        for i in range(k + 1, len(pivots)):
            found[i] = found[i] - lower[i, k] * found[k]
    for k in range(len(pivots)):
        found[k] = found[k] / pivots[k]
    for k in reversed(range(len(pivots))):
        for i in range(k):
            found[i] = found[i] - lower[k, i] * found[k]
    return found


# --- the process


class Spatial(NamedTuple):
    """Of one component: explained covariances of data with data, and of those asked about with data; what is left at the data."""

    explained: np.ndarray
    cross: np.ndarray
    rest: np.ndarray
    variance: np.ndarray


def spatial(component: Component, theta: Any, data: np.ndarray, asked: np.ndarray, problem: Problem) -> Spatial:
    kernel, basis = component.space, component.basis
    variance = np.array([covariance(kernel, theta, x, x) for x in data], dtype=object)
    nothing = variance * 0
    if isinstance(basis, str) and basis == "own":
        return Spatial(matrix(kernel, theta, data, data), matrix(kernel, theta, asked, data), nothing, variance)
    if isinstance(basis, str) and basis == "waves":
        within = explained_by_waves(kernel, theta, data, data, problem)
        across = explained_by_waves(kernel, theta, asked, data, problem)
        return Spatial(within, across, positive(variance - np.diagonal(within)), variance)
    points = data if isinstance(basis, str) else basis
    gram = with_jitter(kernel, theta, points)
    if isinstance(basis, str):
        return Spatial(gram, matrix(kernel, theta, asked, data), nothing, variance)
    known = matrix(kernel, theta, points, data)
    solved = solve(factor(gram), known)
    within = known.T @ solved
    across = matrix(kernel, theta, asked, points) @ solved
    return Spatial(within, across, positive(variance - np.diagonal(within)), variance)


def with_jitter(kernel: Kernel, theta: Any, points: np.ndarray) -> np.ndarray:
    gram = matrix(kernel, theta, points, points)
    jitter = (RELATIVE_JITTER + 4 * len(points) * ROUNDING) * max(np.diagonal(gram))
    return gram + jitter * np.eye(len(points), dtype=int).astype(object)


def condition_number(problem: Problem, theta: Any, found: Answer) -> Any:
    """(1 + turns) (1 + (1 + reach)^2 ratio), ratio the largest prior variance beside the smallest noise variance (`found.ratio`).

    A covariance of rows is known to the rounding of the largest prior variance, and by pseudo-points to (1 + reach)^2 times that: reach is
    the largest sum of the sizes of what they are weighted with at a place, 1 where they surround it. Noise is what tells such
    covariances apart, so digits are lost by the ratio of the two, whatever the algorithm. And after so many turns of a period the phase
    is known to so many roundings.
    """
    reach = mp.mpf(1)
    places = exact(np.concatenate([problem.places, problem.asked_places]))
    for component in problem.components:
        if not isinstance(component.basis, str):
            known = matrix(component.space, theta, component.basis, places)
            weights = solve(factor(with_jitter(component.space, theta, component.basis)), known)
            reach = max(reach, *(sum(abs(column)) for column in weights.T))
    return (1 + turns(problem, theta)) * (1 + (1 + reach) ** 2 * found.ratio)


def turns(problem: Problem, theta: Any) -> Any:
    """The most periods of a kernel from one end of the times, or of the places, to the other."""
    times = np.concatenate([problem.times, problem.asked_times])
    places = np.concatenate([problem.places, problem.asked_places])
    found = [
        span / theta[kernel.numbers[0]]
        for component in problem.components
        for whole, span in ((component.time, np.ptp(times)), (component.space, np.sum(np.ptp(places, axis=0))))
        for kernel in leaves(whole)
        if kernel.kind in ("cosine", "periodic")
    ]
    return max(found, default=mp.mpf(0))


def leaves(kernel: Kernel) -> list[Kernel]:
    return [leaf for part in kernel.parts for leaf in leaves(part)] if kernel.parts else [kernel]


def positive(values: np.ndarray) -> np.ndarray:
    return np.array([max(value, mp.mpf(0)) for value in values], dtype=object)


def answer(problem: Problem, theta: Any, *, sites: tuple[np.ndarray, np.ndarray] | None = None) -> Answer:
    """Evidence and joint moments; where `sites` (values and precisions) are given, these stand for the likelihood."""
    distinct, place = np.unique(problem.places, axis=0, return_inverse=True)
    place = place.ravel()
    data, asked = exact(distinct), exact(problem.asked_places)
    times, time_of_row = np.unique(problem.times, return_inverse=True)
    when, asked_when = exact(times)[:, None], exact(problem.asked_times)[:, None]
    k_ff = k_af = k_aa = rest = signal = 0
    for component in problem.components:
        variance = theta[component.variance]
        in_space = spatial(component, theta, data, asked, problem)
        in_time = variance * matrix(component.time, theta, when, when, in_time=True)
        own_time = np.diagonal(in_time)[time_of_row]
        k_ff = k_ff + in_space.explained[np.ix_(place, place)] * in_time[np.ix_(time_of_row, time_of_row)]
        across = variance * matrix(component.time, theta, asked_when, when, in_time=True)
        k_af = k_af + in_space.cross[:, place] * across[:, time_of_row]
        k_aa = k_aa + variance * matrix(component.space, theta, asked, asked) * matrix(
            component.time, theta, asked_when, asked_when, in_time=True
        )
        rest = rest + in_space.rest[place] * own_time
        signal = signal + in_space.variance[place] * own_time
    if sites is None:
        noise = np.array(
            [
                max(theta[problem.noise] + own, NOISE_FLOOR * size)
                for own, size in zip(exact(problem.own_noise), signal, strict=True)
            ],
            dtype=object,
        )
        values, power = exact(problem.values), mp.mpf(problem.power)
        smallest = min(noise)
        effective = noise + power * rest
        ratio = rest / noise
        charge = sum(ratio) / 2
        if problem.power > 0:
            charge = (1 - power) / (2 * power) * sum(mp.log(1 + power * share) for share in ratio)
    else:
        values, effective, charge = exact(sites[0]), 1 / exact(sites[1]), mp.mpf(0)
        smallest = min(effective)
    factored = factor(k_ff + np.diag(effective))
    solved = solve(factored, values)
    quadratic = values @ solved / 2
    logs = [mp.log(2 * mp.pi * pivot) / 2 for pivot in factored[1]]
    if sites is not None:
        logs = [log - mp.log(2 * mp.pi * size) / 2 for log, size in zip(logs, effective, strict=True)]
    return Answer(
        evidence=-quadratic - sum(logs) - charge,
        terms=quadratic + sum(abs(log) for log in logs) + charge,
        mean=k_af @ solved,
        covariance=k_aa - k_af @ solve(factored, k_af.T),
        prior_variance=np.diagonal(k_aa),
        ratio=max([*signal, *np.diagonal(k_aa)]) / smallest,
    )


def prior_variance(components: tuple[Component, ...], theta: Any, times: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Of f at these rows."""
    total = 0
    for part in components:
        in_space = [covariance(part.space, theta, x, x) for x in exact(places)]
        in_time = [covariance(part.time, theta, [t], [t], in_time=True) for t in exact(times)]
        total = total + theta[part.variance] * np.array(in_space, dtype=object) * np.array(in_time, dtype=object)
    return total


def gradient(problem: Problem, theta: Any, directions: list[Any]) -> list[Any]:
    """Derivatives of the evidence along changes of the parameters, each a function from (problem, theta, step) to both."""
    problem = problem._replace(asked_times=problem.asked_times[:0], asked_places=problem.asked_places[:0])
    here = answer(problem, theta).evidence
    return [(answer(*direction(problem, theta, STEP)).evidence - here) / STEP for direction in directions]
