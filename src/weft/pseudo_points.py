# SPDX-License-Identifier: MIT
"""Where to put pseudo-points: by k-means, by greedy conditional variance, or on a grid."""

import logging
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from jaxtyping import Float, Int
from scipy.spatial import KDTree

from weft.arrays import AnyArray, ArrayLike, Given, require_float64
from weft.data.observations import Observations, Outline
from weft.data.places import distinct_places
from weft.kernels import Kernel, Matern32, Separable, SumSeparable
from weft.kernels.closed_forms import covariance_at, variances_at

__all__ = ["place"]

logger = logging.getLogger("weft")

METHODS = ("kmeans", "greedy", "grid")

# Greedy placement chooses among so many places and measures what is unexplained on so many: time
# O(points * CANDIDATES^2) and memory O(CANDIDATES^2 + MEASURED * points), however many places there are.
CANDIDATES = 2048
MEASURED = 20_000

# k-means converges on so many places, then takes a few more turns over all of them.
LLOYD_SAMPLE = 100_000
SEEDING_SAMPLE = 20_000
NUM_SEEDINGS = 4
MAX_TURNS = 100
FINAL_TURNS = 5


class WeightedPlaces(NamedTuple):
    """Distinct places, how much each counts (summing to 1), and the times of the data if they are known."""

    places: Float[np.ndarray, "place dim"]
    weight: Float[np.ndarray, " place"]
    times: Float[np.ndarray, " time"] | None


def place(
    data: Observations | Outline | ArrayLike,
    count: Given[int | Literal["auto"] | npt.NDArray[np.floating[Any]]] = "auto",
    *,
    method: Given[Literal["kmeans", "greedy", "grid"] | None] = None,
    weights: Given[Literal["rows", "places"]] = "rows",
    kernel: Kernel | Separable | SumSeparable | None = None,
    tolerance: float = 0.01,
    max_points: int = 500,
    seed: int = 0,
) -> Any:
    """Pseudo-points for `data` (observations, or a matrix of places): a matrix with one row a point.

    `count` is how many, or "auto" (greedy: as many as `tolerance` takes, up to `max_points`), or a matrix of points
    given, which is checked and returned. Never more than there are distinct places. Methods:

    - "kmeans" (the default for a count): centres of clusters, by Euclidean distance in the units of the columns, so
      scale those first. It needs no kernel.
    - "greedy" (the default for "auto"): a pivoted Cholesky factorisation of the space kernel. Each turn takes the place
      that leaves the least variance unexplained on average over all, until the rest is below `tolerance` of the prior
      variance. That average is what the evidence is charged for. `kernel` is a space kernel or a whole one (default:
      Matern32 with one lengthscale a column, the column's standard deviation). Of a sum each component gets points of
      its own and the result is a tuple: a smooth component then takes few and a rough one many, and the cost, cubic in
      all of them together, is not spent twice. A count is then that of each component.
    - "grid": a regular grid, equally fine in all columns, cut to where the data are; at most `count` points.

    `weights="rows"` counts a place as often as it was measured, "places" once. `seed` settles all that is random: the
    same seed gives the same points. Beyond 2048 distinct places greedy chooses among that many of them, drawn by
    weight, and beyond 20,000 it measures the average on so many.
    """
    seen = weighted_places(data, weights)
    if isinstance(count, float | np.floating):
        raise TypeError(f"count must be a whole number, 'auto' or a matrix of points; it is {count}")
    if not isinstance(count, int | np.integer | str):
        return given_points(count, seen.places.shape[1])
    if isinstance(count, str) and count != "auto":
        raise ValueError(f"count must be a number, 'auto' or a matrix of points; it is {count!r}")
    if method is None:
        method = "greedy" if count == "auto" else "kmeans"
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(map(repr, METHODS))}; it is {method!r}")
    if count == "auto" and method != "greedy":
        raise ValueError(f"count 'auto' is for method 'greedy', which knows when to stop; give {method!r} a number")
    if not isinstance(count, str) and count < 1:
        raise ValueError(f"count must be at least 1; it is {count}")
    number = None if isinstance(count, str) else int(count)
    if method == "greedy":
        return greedy(seen, number, kernel, tolerance, max_points, seed)
    assert number is not None
    if number >= len(seen.places):
        return seen.places.copy()
    return k_means(seen, number, seed) if method == "kmeans" else grid(seen.places, number)


def weighted_places(data: Observations | Outline | ArrayLike, weights: str) -> WeightedPlaces:
    if isinstance(data, Observations | Outline):
        places, times, rows = data.places, data.times, data.rows_of_places
    else:
        matrix = given_points(data, None)
        places, number = distinct_places(matrix)
        rows, times = np.bincount(number, minlength=len(places)), None
    if weights not in ("rows", "places"):
        raise ValueError(f"weights must be 'rows' or 'places'; it is {weights!r}")
    weight = rows.astype(np.float64) if weights == "rows" else np.ones(len(places))
    return WeightedPlaces(places, weight / weight.sum(), times)


def given_points(points: Any, width: int | None) -> Float[np.ndarray, "point dim"]:
    try:
        matrix = np.array(points, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"places must be Observations or a matrix of numbers, one row a place; {error}") from error
    if matrix.ndim != 2 or 0 in matrix.shape or not np.all(np.isfinite(matrix)):
        raise ValueError(f"places must be a matrix of finite numbers, one row a place; its shape is {matrix.shape}")
    if width is not None and matrix.shape[1] != width:
        raise ValueError(f"the points given have {matrix.shape[1]} columns and the places of the data {width}")
    return matrix


# --- k-means ----------------------------------------------------------------------------------------------------------


def k_means(seen: WeightedPlaces, count: int, seed: int) -> Float[np.ndarray, "point dim"]:
    """Lloyd's algorithm from k-means++ starts (Arthur & Vassilvitskii 2007), the best of a few."""
    rng = np.random.default_rng(seed)
    # About the middle: far from the origin (eastings in metres) squares would lose digits.
    middle = seen.weight @ seen.places
    places = seen.places - middle
    few, few_weight = sample(places, seen.weight, max(SEEDING_SAMPLE, 10 * count), rng)
    starts = [lloyd(few, few_weight, seeding(few, few_weight, count, rng), MAX_TURNS) for _ in range(NUM_SEEDINGS)]
    centres = min(starts, key=lambda start: start[1])[0]
    if len(places) > len(few):
        many, many_weight = sample(places, seen.weight, max(LLOYD_SAMPLE, 10 * count), rng)
        centres, _ = lloyd(many, many_weight, centres, MAX_TURNS)
        if len(places) > len(many):
            centres, _ = lloyd(places, seen.weight, centres, FINAL_TURNS)
    return centres + middle


def sample(
    places: Float[np.ndarray, "place dim"], weight: Float[np.ndarray, " place"], size: int, rng: np.random.Generator
) -> tuple[Float[np.ndarray, "some dim"], Float[np.ndarray, " some"]]:
    """All places with their weights, or `size` distinct ones drawn evenly, with theirs."""
    if len(places) <= size:
        return places, weight
    chosen = np.sort(rng.choice(len(places), size, replace=False))
    return places[chosen], weight[chosen] / weight[chosen].sum()


def seeding(
    places: Float[np.ndarray, "place dim"], weight: Float[np.ndarray, " place"], count: int, rng: np.random.Generator
) -> Float[np.ndarray, "point dim"]:
    """Places drawn one after another with probability proportional to the squared distance from those drawn already."""
    chosen = [int(rng.choice(len(places), p=weight / weight.sum()))]
    nearest = np.full(len(places), np.inf)
    for _ in range(count - 1):
        nearest = np.minimum(nearest, np.sum((places - places[chosen[-1]]) ** 2, axis=1))
        chance = nearest * weight
        chosen.append(int(rng.choice(len(places), p=chance / chance.sum())))
    return places[chosen]


def lloyd(
    places: Float[np.ndarray, "place dim"],
    weight: Float[np.ndarray, " place"],
    centres: Float[np.ndarray, "point dim"],
    max_turns: int,
) -> tuple[Float[np.ndarray, "point dim"], float]:
    """Centres after Lloyd's turns, and the mean squared distance to them; a centre without places moves far out."""
    cost = np.inf
    for _ in range(max_turns):
        distance, owner = KDTree(centres).query(places)
        before, cost = cost, float(weight @ distance**2)
        mass = np.bincount(owner, weight, minlength=len(centres))
        sums = np.stack([np.bincount(owner, weight * column, minlength=len(centres)) for column in places.T], axis=1)
        empty = np.flatnonzero(mass == 0)
        centres = np.where(mass[:, None] > 0, sums / np.where(mass > 0, mass, 1.0)[:, None], centres)
        if len(empty):
            centres[empty] = places[np.argsort(-weight * distance**2, kind="stable")[: len(empty)]]
        elif cost >= before * (1 - 1e-5):
            break
    return centres, cost


# --- grid -------------------------------------------------------------------------------------------------------------


def grid(places: Float[np.ndarray, "place dim"], count: int) -> Float[np.ndarray, "point dim"]:
    """The finest of a series of grids that keeps at most `count` points within half a cell's diagonal of some place."""
    low, extent = places.min(axis=0), np.ptp(places, axis=0)
    tree = KDTree(places)
    spacing = extent.max()
    best = (low + extent / 2)[None, :]
    # One grid of every 3 % of fineness: the number kept does not grow evenly, so a bisection would stop anywhere.
    while True:
        cells = np.maximum(np.ceil(extent / spacing - 1e-9), 0) + 1
        if np.prod(cells) > 1e6 or np.prod(cells) > 1000 * count:
            return best
        axes = [
            origin + size / 2 + spacing * (np.arange(number) - (number - 1) / 2)
            for origin, size, number in zip(low, extent, cells, strict=True)
        ]
        points = np.stack([axis.reshape(-1) for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
        near = tree.query(points)[0] <= 0.5 * np.sqrt(len(axes)) * spacing
        kept = points[near]
        if len(kept) > 2 * count:
            return best
        if len(best) <= len(kept) <= count:
            best = kept
        spacing /= 1.03


# --- greedy -----------------------------------------------------------------------------------------------------------


class Elimination:
    """A pivoted Cholesky factorisation of one space kernel, one pivot at a time.

    It keeps the covariance of the candidates given the points taken, and the variance of the measured places given
    those.
    """

    def __init__(self, kernel: Kernel, scale: float, candidates: WeightedPlaces, measured: WeightedPlaces):
        self.kernel, self.scale = kernel, scale
        self.candidates, self.measured = candidates, measured
        # Features are exact without pseudo-points.
        self.is_exact = bool(np.isfinite(kernel.num_features(candidates.places.shape[1])))
        self.taken: list[int] = []
        if self.is_exact:
            return
        self.rest = np.array(covariance_at(kernel, candidates.places, candidates.places))
        self.prior = self.rest.diagonal().copy()
        self.unexplained = np.array(variances_at(kernel, measured.places))
        self.columns = np.zeros((len(measured.places), 0))
        # Rows of the factor at the candidates, to bring a measured place's column up to date.
        self.rows = np.zeros((len(candidates.places), 0))

    @property
    def mean_unexplained(self) -> float:
        return 0.0 if self.is_exact else self.scale * float(self.measured.weight @ self.unexplained)

    def best(self) -> tuple[float, int]:
        """The largest fall of the mean unexplained variance that one more candidate brings, and which brings it."""
        if self.is_exact:
            return 0.0, 0
        variance = self.rest.diagonal()
        # Below this a pivot is rounding: the place is explained, or a copy of one taken.
        usable = variance > 1e-10 * self.prior
        gains = np.einsum("i,ij,ij->j", self.candidates.weight, self.rest, self.rest)
        gains = np.where(usable, gains / np.where(usable, variance, 1.0), 0.0)
        chosen = int(np.argmax(gains))
        return self.scale * float(gains[chosen]), chosen

    def take(self, chosen: int) -> None:
        root = np.sqrt(self.rest[chosen, chosen])
        here = self.candidates.places[chosen : chosen + 1]
        covariance = covariance_at(self.kernel, self.measured.places, here)[:, 0]
        column = (covariance - self.columns @ self.rows[chosen]) / root
        row = self.rest[:, chosen] / root
        self.columns = np.concatenate([self.columns, column[:, None]], axis=1)
        self.rows = np.concatenate([self.rows, row[:, None]], axis=1)
        self.unexplained = np.maximum(self.unexplained - column**2, 0.0)
        self.rest -= np.outer(row, row)
        self.taken.append(chosen)

    def points(self) -> Float[np.ndarray, "point dim"]:
        """The places taken; one for a kernel that needs none, because a model wants a row."""
        return self.candidates.places[self.taken if self.taken else [0]]


def greedy(
    seen: WeightedPlaces,
    count: int | None,
    kernel: Kernel | Separable | SumSeparable | None,
    tolerance: float,
    max_points: int,
    seed: int,
) -> Float[np.ndarray, "point dim"] | tuple[Float[np.ndarray, "_ dim"], ...]:
    if not 0 < tolerance < 1:
        raise ValueError(f"tolerance must be between 0 and 1, a share of the prior variance; it is {tolerance}")
    require_float64()
    rng = np.random.default_rng(seed)
    candidates = drawn_by_weight(seen, CANDIDATES, rng)
    measured = candidates if len(seen.places) <= CANDIDATES else drawn_by_weight(seen, MEASURED, rng)
    parts = [
        Elimination(space, scale, candidates, measured) for space, scale in space_kernels(kernel, seen, measured.places)
    ]
    if count is not None:
        for part in parts:
            take_until(
                [part],
                lambda part=part: len(part.taken) >= min(count, len(candidates.places)),  # type: ignore[misc]
            )
    else:
        allowed = tolerance * sum(part.mean_unexplained for part in parts)
        take_until(
            parts,
            lambda: (
                sum(part.mean_unexplained for part in parts) <= allowed
                or sum(len(part.taken) for part in parts) >= max_points
            ),
        )
        rest = sum(part.mean_unexplained for part in parts)
        if rest > allowed * (1 + 1e-9):
            logger.warning(
                "greedy placement stopped at %d points with %.3g of the prior variance unexplained, above the "
                "tolerance %g; allow more by max_points, or expect an approximate fit",
                sum(len(part.taken) for part in parts),
                rest / allowed * tolerance,
                tolerance,
            )
    sets = tuple(part.points() for part in parts)
    return sets if isinstance(kernel, SumSeparable) else sets[0]


def take_until(parts: list[Elimination], is_enough: Callable[[], bool]) -> None:
    """Take whichever point of whichever part gains most, until there is enough or nothing to gain."""
    while not is_enough():
        bests = [part.best() for part in parts]
        gain, chosen = max(bests, key=lambda best: best[0])
        if gain <= 0:
            return
        parts[bests.index((gain, chosen))].take(chosen)


def drawn_by_weight(seen: WeightedPlaces, size: int, rng: np.random.Generator) -> WeightedPlaces:
    """All places, or `size` distinct ones drawn in proportion to their weight, which then count alike."""
    if len(seen.places) <= size:
        return seen
    # The largest of log(u) / weight are such a draw without replacement (Efraimidis & Spirakis 2006).
    keys = np.log(rng.random(len(seen.places))) / seen.weight
    chosen: Int[np.ndarray, " some"] = np.sort(np.argpartition(-keys, size)[:size])
    return WeightedPlaces(seen.places[chosen], np.full(size, 1 / size), seen.times)


def space_kernels(
    kernel: Kernel | Separable | SumSeparable | None, seen: WeightedPlaces, measured: Float[AnyArray, "place dim"]
) -> list[tuple[Kernel, float]]:
    """Each component's space kernel with the variance that multiplies it."""
    if kernel is None:
        deviations = measured.std(axis=0)
        return [(Matern32(np.where(deviations > 0, deviations, 1.0)), 1.0)]
    if isinstance(kernel, Kernel):
        pairs = [(kernel, 1.0)]
    elif isinstance(kernel, Separable | SumSeparable):
        pairs = [
            (component.space, float(component.variance) * time_variance(component, seen.times))
            for component in kernel.components
        ]
    else:
        raise TypeError(f"kernel must be a space kernel, a Separable or a sum of them; it is {kernel!r}")
    for space, _ in pairs:
        space.check_inputs(measured)
    return pairs


def time_variance(component: Separable, times: Float[np.ndarray, " time"] | None) -> float:
    """Mean prior variance of the component's time process over the data; at time 1 where no times are known."""
    at = np.ones(1) if times is None else times
    return float(np.mean(component.time.variances(at[:, None])))
