# SPDX-License-Identifier: MIT
"""Built-in kernels at pairs of inputs and their slopes in closed form, in NumPy alone.

Compiling a kernel and its derivative takes longer than all that small blocks of a table ask of it, and most models that are tried are
tried once. So the kernels that models are usually made of are differentiated here by hand; any other has its derivative from JAX.
Formulas are those of the kernels' own files, and `tests/kernels/test_closed_forms.py` holds each to them, value and slopes.
"""

import abc
import dataclasses
import functools
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple, final

import numpy as np
from jaxtyping import Float, Int

from weft.arrays import is_concrete
from weft.kernels.base import Kernel, Product, Scaled, Sum
from weft.kernels.categories import Alike
from weft.kernels.columns import Columns
from weft.kernels.distances import matern_polynomial
from weft.kernels.stationary import (
    EQ,
    Constant,
    Cosine,
    Matern12,
    Matern32,
    Matern52,
    Matern72,
    Periodic,
    RationalQuadratic,
)
from weft.kernels.trends import Linear
from weft.kernels.uneven import Uneven

__all__ = [
    "ClosedForm",
    "EachAlone",
    "EachWithEach",
    "EachWithOthers",
    "Pairs",
    "closed_features",
    "closed_form",
    "covariance_at",
    "has_closed_features",
    "has_closed_form",
    "variances_at",
]

# The slopes of a kernel: an object with the kernel's own attributes, each parameter's with the number of the block in front.
KernelSlopes = Any
OfPairs = Float[np.ndarray, "block *pair"]
OfPoints = Float[np.ndarray, "block point"]


class ClosedForm(NamedTuple):
    """What a kernel is somewhere, block by block, and how slopes in that become slopes in its parameters."""

    value: Float[np.ndarray, "block ..."]
    pull_back: Callable[[Float[np.ndarray, "block ..."]], KernelSlopes]


class Pairs(abc.ABC):
    """Pairs of points, of several blocks at once. What kernels ask for again and again is computed once."""

    def __init__(self, first: Float[np.ndarray, "block x dim"], second: Float[np.ndarray, "block y dim"]):
        self.first, self.second = first, second
        self._chosen: dict[tuple[int, ...], Pairs] = {}

    @property
    def width(self) -> int:
        return int(self.first.shape[2])

    @functools.cached_property
    def apart(self) -> list[OfPairs]:
        """The first less the second of each pair, column by column."""
        return [
            self.at_first(self.first[:, :, column]) - self.at_second(self.second[:, :, column])
            for column in range(self.width)
        ]

    def columns(self, numbers: tuple[int, ...]) -> "Pairs":
        """The same pairs, of these columns alone."""
        if numbers not in self._chosen:
            chosen = np.array(numbers)
            self._chosen[numbers] = self.of(self.first[:, :, chosen], self.second[:, :, chosen])
        return self._chosen[numbers]

    @abc.abstractmethod
    def of(self, first: Float[np.ndarray, "block x dim"], second: Float[np.ndarray, "block y dim"]) -> "Pairs":
        """Pairs of other points in the same places."""

    @abc.abstractmethod
    def at_first(self, numbers: OfPoints) -> OfPairs:
        """A number of each point, as that of the first of each pair."""

    @abc.abstractmethod
    def at_second(self, numbers: OfPoints) -> OfPairs: ...

    @abc.abstractmethod
    def to_points(
        self, of_first: OfPairs, of_second: OfPairs
    ) -> tuple[Float[np.ndarray, "block x"], Float[np.ndarray, "block y"]]:
        """Sums over the pairs that a point is the first of, and the second of."""


@final
class EachWithEach(Pairs):
    """The lower triangle of the matrix of some points with themselves, diagonal included, row by row."""

    def __init__(self, points: Float[np.ndarray, "block point dim"]):
        super().__init__(points, points)
        self.row, self.column = lower_triangle(points.shape[1])

    @property
    def num_points(self) -> int:
        return int(self.first.shape[1])

    def of(self, first: Float[np.ndarray, "block x dim"], second: Float[np.ndarray, "block y dim"]) -> Pairs:
        return EachWithEach(first)

    def at_first(self, numbers: OfPoints) -> OfPairs:
        return np.take(numbers, self.row, axis=1)

    def at_second(self, numbers: OfPoints) -> OfPairs:
        return np.take(numbers, self.column, axis=1)

    def to_points(
        self, of_first: OfPairs, of_second: OfPairs
    ) -> tuple[Float[np.ndarray, "block x"], Float[np.ndarray, "block y"]]:
        return self.below(of_first).sum(axis=2), self.below(of_second).sum(axis=1)

    def below(self, numbers: OfPairs) -> Float[np.ndarray, "block point point"]:
        """Those of pairs as matrices with zeros above the diagonal."""
        whole = np.zeros((len(numbers), self.num_points, self.num_points))
        whole[:, self.row, self.column] = numbers
        return whole

    def matrices(self, numbers: OfPairs) -> Float[np.ndarray, "block point point"]:
        """Those of pairs as symmetric matrices."""
        whole = np.empty((len(numbers), self.num_points, self.num_points))
        whole[:, self.row, self.column] = numbers
        whole[:, self.column, self.row] = numbers
        return whole

    def pair_slopes(self, slopes: Float[np.ndarray, "block point point"]) -> OfPairs:
        """Slopes in the entries of whole matrices, as slopes in the pairs: one pair is two entries, beside the diagonal."""
        folded = slopes + np.swapaxes(slopes, 1, 2)
        each = np.arange(self.num_points)
        folded[:, each, each] = slopes[:, each, each]
        return folded[:, self.row, self.column]


@final
class EachWithOthers(Pairs):
    """Every point of one group with every point of another."""

    def of(self, first: Float[np.ndarray, "block x dim"], second: Float[np.ndarray, "block y dim"]) -> Pairs:
        return EachWithOthers(first, second)

    def at_first(self, numbers: OfPoints) -> OfPairs:
        return numbers[:, :, None]

    def at_second(self, numbers: OfPoints) -> OfPairs:
        return numbers[:, None, :]

    def to_points(
        self, of_first: OfPairs, of_second: OfPairs
    ) -> tuple[Float[np.ndarray, "block x"], Float[np.ndarray, "block y"]]:
        return of_first.sum(axis=2), of_second.sum(axis=1)


@final
class EachAlone(Pairs):
    """Every point with the one of its number in another group: of a group with itself, the diagonal."""

    def of(self, first: Float[np.ndarray, "block x dim"], second: Float[np.ndarray, "block y dim"]) -> Pairs:
        return EachAlone(first, second)

    def at_first(self, numbers: OfPoints) -> OfPairs:
        return numbers

    def at_second(self, numbers: OfPoints) -> OfPairs:
        return numbers

    def to_points(
        self, of_first: OfPairs, of_second: OfPairs
    ) -> tuple[Float[np.ndarray, "block x"], Float[np.ndarray, "block y"]]:
        return of_first, of_second


@functools.lru_cache(maxsize=32)
def lower_triangle(size: int) -> tuple[Int[np.ndarray, " pair"], Int[np.ndarray, " pair"]]:
    """Numbers of rows and columns."""
    row, column = np.tril_indices(size)
    return row, column


def has_closed_form(kernel: Kernel) -> bool:
    """Whether `closed_form` knows this kernel and all that it is made of; kinds derived from these may be anything."""
    return type(kernel) in _FORMS and _is_made_of(has_closed_form, kernel)


def closed_form(kernel: Kernel, pairs: Pairs) -> ClosedForm:
    """The covariance of the pairs."""
    return _FORMS[type(kernel)](kernel, pairs)


def covariance_at(
    kernel: Kernel, xs: Float[np.ndarray, "x dim"], ys: Float[np.ndarray, "y dim"]
) -> Float[np.ndarray, "x y"]:
    """The covariance of any kernel as numbers, by its closed form where there is one: JAX would compile each operation for them."""
    if not has_closed_form(kernel):
        return np.asarray(kernel.covariance(xs, ys))
    value = closed_form(kernel, EachWithOthers(xs[None], ys[None])).value[0]
    return np.broadcast_to(value, (len(xs), len(ys)))


def variances_at(kernel: Kernel, xs: Float[np.ndarray, "x dim"]) -> Float[np.ndarray, " x"]:
    """The same for the variance at each input."""
    if not has_closed_form(kernel):
        return np.asarray(kernel.variances(xs))
    points = xs[None]
    return closed_form(kernel, EachAlone(points, points)).value[0]


def has_closed_features(kernel: Kernel) -> bool:
    """The same for `closed_features`."""
    return type(kernel) in _FEATURES and _is_made_of(has_closed_features, kernel)


def closed_features(kernel: Kernel, points: Float[np.ndarray, "block point dim"]) -> ClosedForm:
    """The features that a kernel consists of (see `Kernel.features`) at some points."""
    return _FEATURES[type(kernel)](kernel, points)


def _is_made_of(known: Callable[[Kernel], bool], kernel: Kernel) -> bool:
    values = [getattr(kernel, field.name) for field in dataclasses.fields(kernel)]
    return all(known(value) if isinstance(value, Kernel) else is_concrete(value) for value in values)


def total(first: Float[np.ndarray, "block ..."], second: Float[np.ndarray, "block ..."]) -> Float[np.ndarray, " block"]:
    """Of the products, block by block."""
    return np.einsum("bp,bp->b", *(each.reshape(len(each), -1) for each in (first, second)))


def _number(parameter: Any) -> float:
    return float(np.asarray(parameter))


def _by_column(parameter: Any, width: int) -> Float[np.ndarray, " dim"]:
    return np.broadcast_to(np.asarray(parameter), (width,))


def _as_given(parameter: Any, by_column: Sequence[Float[np.ndarray, " block"]]) -> Float[np.ndarray, "block ..."]:
    """Slopes column by column as those of a parameter that was given once, or once a column."""
    shape, stacked = np.shape(parameter), np.stack(by_column, axis=1)
    together = stacked.sum(axis=1) if np.size(parameter) == 1 else stacked
    return together.reshape((len(stacked), *shape))


class _Squares(NamedTuple):
    """((x - y) / lengthscale)^2 of pairs, and column by column."""

    total: OfPairs
    by_column: list[OfPairs]
    lengthscale: Any

    @classmethod
    def of(cls, pairs: Pairs, lengthscale: Any) -> "_Squares":
        scales = _by_column(lengthscale, pairs.width)
        by_column = [np.square(apart / scale) for apart, scale in zip(pairs.apart, scales, strict=True)]
        return cls(functools.reduce(np.add, by_column), by_column, lengthscale)

    def pull_back(self, slopes: OfPairs) -> Float[np.ndarray, "block ..."]:
        """Slopes in the length scales from those in the squares."""
        scales = _by_column(self.lengthscale, len(self.by_column))
        by_column = [-2 / scale * total(slopes, each) for each, scale in zip(self.by_column, scales, strict=True)]
        return _as_given(self.lengthscale, by_column)


def _matern(order: int) -> Callable[[Any, Pairs], ClosedForm]:
    """See `distances.matern`: d matern_p / d squares = -matern_(p-1) / (4p - 2), and at the cusp of the roughest 0."""

    def form(kernel: Any, pairs: Pairs) -> ClosedForm:
        squares, factor, variance = _Squares.of(pairs, kernel.lengthscale), 2 * order + 1, _number(kernel.variance)
        u = np.sqrt(factor * squares.total)
        decayed = np.exp(-u)
        correlation = decayed if order == 0 else decayed * np.polyval(matern_polynomial(order), u)

        def pull_back(slopes: OfPairs) -> KernelSlopes:
            if order == 0:
                steepness = np.divide(decayed, 2 * u, out=np.zeros_like(u), where=u > 0)
            else:
                steepness = decayed * np.polyval(matern_polynomial(order - 1), u) / (4 * order - 2)
            return SimpleNamespace(
                lengthscale=squares.pull_back(-variance * factor * slopes * steepness),
                variance=total(slopes, correlation),
            )

        return ClosedForm(variance * correlation, pull_back)

    return form


def _eq(kernel: EQ, pairs: Pairs) -> ClosedForm:
    squares, variance = _Squares.of(pairs, kernel.lengthscale), _number(kernel.variance)
    correlation = np.exp(-0.5 * squares.total)

    def pull_back(slopes: OfPairs) -> KernelSlopes:
        return SimpleNamespace(
            lengthscale=squares.pull_back(-0.5 * variance * slopes * correlation),
            variance=total(slopes, correlation),
        )

    return ClosedForm(variance * correlation, pull_back)


def _rational_quadratic(kernel: RationalQuadratic, pairs: Pairs) -> ClosedForm:
    squares, variance, shape = _Squares.of(pairs, kernel.lengthscale), _number(kernel.variance), _number(kernel.shape)
    relative = squares.total / (2 * shape)
    logarithm = np.log1p(relative)
    correlation = np.exp(-shape * logarithm)

    def pull_back(slopes: OfPairs) -> KernelSlopes:
        weighted = variance * slopes * correlation
        return SimpleNamespace(
            lengthscale=squares.pull_back(-0.5 * weighted / (1 + relative)),
            shape=total(weighted, relative / (1 + relative) - logarithm),
            variance=total(slopes, correlation),
        )

    return ClosedForm(variance * correlation, pull_back)


def _periodic(kernel: Periodic, pairs: Pairs) -> ClosedForm:
    periods, scales = _by_column(kernel.period, pairs.width), _by_column(kernel.lengthscale, pairs.width)
    variance = _number(kernel.variance)
    halves = [phase_of(apart, period) / 2 for apart, period in zip(pairs.apart, periods, strict=True)]
    sines = [np.sin(half) / scale for half, scale in zip(halves, scales, strict=True)]
    correlation = np.exp(-2 * functools.reduce(np.add, map(np.square, sines)))

    def pull_back(slopes: OfPairs) -> KernelSlopes:
        weighted = variance * slopes * correlation
        each = zip(halves, sines, scales, periods, pairs.apart, strict=True)
        # d phase / d period = -2 pi lag / period^2, however many turns came off.
        of_period = [
            4 * np.pi / (scale * period**2) * total(weighted, sine * np.cos(half) * apart)
            for half, sine, scale, period, apart in each
        ]
        of_scale = [4 / scale * total(weighted, sine**2) for sine, scale in zip(sines, scales, strict=True)]
        return SimpleNamespace(
            period=_as_given(kernel.period, of_period),
            lengthscale=_as_given(kernel.lengthscale, of_scale),
            variance=total(slopes, correlation),
        )

    return ClosedForm(variance * correlation, pull_back)


def _cosine(kernel: Cosine, pairs: Pairs) -> ClosedForm:
    periods, variance = _by_column(kernel.period, pairs.width), _number(kernel.variance)
    angle = functools.reduce(
        np.add, [phase_of(apart, period) for apart, period in zip(pairs.apart, periods, strict=True)]
    )
    correlation = np.cos(angle)

    def pull_back(slopes: OfPairs) -> KernelSlopes:
        weighted = variance * slopes * np.sin(angle)
        of_period = [
            2 * np.pi / period**2 * total(weighted, apart) for period, apart in zip(periods, pairs.apart, strict=True)
        ]
        return SimpleNamespace(period=_as_given(kernel.period, of_period), variance=total(slopes, correlation))

    return ClosedForm(variance * correlation, pull_back)


def phase_of(lag: OfPairs, period: float) -> OfPairs:
    """See `distances.phase`."""
    rest = np.fmod(lag, period)
    centred = np.where(rest > period / 2, rest - period, np.where(rest < -period / 2, rest + period, rest))
    return 2 * np.pi * (centred / period)


def _constant(kernel: Constant, pairs: Pairs) -> ClosedForm:
    return ClosedForm(
        np.full(pairs.apart[0].shape, _number(kernel.variance)),
        lambda slopes: SimpleNamespace(variance=slopes.reshape(len(slopes), -1).sum(axis=1)),
    )


def _linear(kernel: Linear, pairs: Pairs) -> ClosedForm:
    variances, centres = _by_column(kernel.variance, pairs.width), _by_column(kernel.centre, pairs.width)
    sides = [
        (pairs.at_first(pairs.first[:, :, column] - centre), pairs.at_second(pairs.second[:, :, column] - centre))
        for column, centre in enumerate(centres)
    ]

    def pull_back(slopes: OfPairs) -> KernelSlopes:
        return SimpleNamespace(
            variance=_as_given(kernel.variance, [total(slopes, one * other) for one, other in sides]),
            centre=_as_given(
                kernel.centre,
                [
                    -variance * total(slopes, one + other)
                    for (one, other), variance in zip(sides, variances, strict=True)
                ],
            ),
        )

    parts = [variance * one * other for (one, other), variance in zip(sides, variances, strict=True)]
    return ClosedForm(functools.reduce(np.add, parts), pull_back)


def _alike(kernel: Alike, pairs: Pairs) -> ClosedForm:
    differ = pairs.at_first(np.rint(pairs.first[:, :, 0])) != pairs.at_second(np.rint(pairs.second[:, :, 0]))
    return ClosedForm(
        np.where(differ, _number(kernel.correlation), 1.0),
        lambda slopes: SimpleNamespace(correlation=total(slopes, differ.astype(np.float64))),
    )


def _sum(kernel: Sum, pairs: Pairs) -> ClosedForm:
    first, second = closed_form(kernel.first, pairs), closed_form(kernel.second, pairs)
    return ClosedForm(
        first.value + second.value,
        lambda slopes: SimpleNamespace(first=first.pull_back(slopes), second=second.pull_back(slopes)),
    )


def _product(kernel: Product, pairs: Pairs) -> ClosedForm:
    first, second = closed_form(kernel.first, pairs), closed_form(kernel.second, pairs)
    return ClosedForm(
        first.value * second.value,
        lambda slopes: SimpleNamespace(
            first=first.pull_back(slopes * second.value), second=second.pull_back(slopes * first.value)
        ),
    )


def _scaled(kernel: Scaled, pairs: Pairs) -> ClosedForm:
    inner, variance = closed_form(kernel.kernel, pairs), _number(kernel.variance)
    return ClosedForm(
        variance * inner.value,
        lambda slopes: SimpleNamespace(kernel=inner.pull_back(variance * slopes), variance=total(slopes, inner.value)),
    )


def _columns(kernel: Columns, pairs: Pairs) -> ClosedForm:
    inner = closed_form(kernel.kernel, pairs.columns(kernel.columns))
    return ClosedForm(inner.value, lambda slopes: SimpleNamespace(kernel=inner.pull_back(slopes)))


def _uneven(kernel: Uneven, pairs: Pairs) -> ClosedForm:
    inner = closed_form(kernel.kernel, pairs)
    logarithms = np.asarray(kernel.logarithms)
    near = kernel.nearness(pairs.first)
    nearness = [near, near if pairs.second is pairs.first else kernel.nearness(pairs.second)]
    strengths = [np.exp(near @ logarithms) for near in nearness]
    both = pairs.at_first(strengths[0]) * pairs.at_second(strengths[1])
    value = both * inner.value

    def pull_back(slopes: OfPairs) -> KernelSlopes:
        # log a(x) + log a(y) is what the logarithms move, by nearness.
        weighted = slopes * value
        of_points = pairs.to_points(weighted, weighted)
        return SimpleNamespace(
            kernel=inner.pull_back(slopes * both),
            logarithms=sum(np.einsum("bx,bxc->bc", each, near) for each, near in zip(of_points, nearness, strict=True)),
        )

    return ClosedForm(value, pull_back)


_FORMS: dict[type, Callable[[Any, Pairs], ClosedForm]] = {
    Matern12: _matern(0),
    Matern32: _matern(1),
    Matern52: _matern(2),
    Matern72: _matern(3),
    EQ: _eq,
    RationalQuadratic: _rational_quadratic,
    Periodic: _periodic,
    Cosine: _cosine,
    Constant: _constant,
    Linear: _linear,
    Alike: _alike,
    Sum: _sum,
    Product: _product,
    Scaled: _scaled,
    Columns: _columns,
    Uneven: _uneven,
}


# --- features of a few kernels that consist of them
# --------------------------------------------------------------------------


def _constant_features(kernel: Constant, points: Float[np.ndarray, "block point dim"]) -> ClosedForm:
    deviation = np.sqrt(_number(kernel.variance))
    return ClosedForm(
        np.full((*points.shape[:2], 1), deviation),
        lambda slopes: SimpleNamespace(variance=slopes.sum(axis=(1, 2)) / (2 * deviation)),
    )


def _linear_features(kernel: Linear, points: Float[np.ndarray, "block point dim"]) -> ClosedForm:
    width = points.shape[2]
    deviations = np.sqrt(_by_column(kernel.variance, width))
    from_centre = points - _by_column(kernel.centre, width)

    def pull_back(slopes: Float[np.ndarray, "block point dim"]) -> KernelSlopes:
        return SimpleNamespace(
            variance=_as_given(kernel.variance, list((np.sum(slopes * from_centre, axis=1) / (2 * deviations)).T)),
            centre=_as_given(kernel.centre, list((-np.sum(slopes, axis=1) * deviations).T)),
        )

    return ClosedForm(from_centre * deviations, pull_back)


def _sum_features(kernel: Sum, points: Float[np.ndarray, "block point dim"]) -> ClosedForm:
    first, second = closed_features(kernel.first, points), closed_features(kernel.second, points)
    count = first.value.shape[2]
    return ClosedForm(
        np.concatenate([first.value, second.value], axis=2),
        lambda slopes: SimpleNamespace(
            first=first.pull_back(slopes[:, :, :count]), second=second.pull_back(slopes[:, :, count:])
        ),
    )


def _scaled_features(kernel: Scaled, points: Float[np.ndarray, "block point dim"]) -> ClosedForm:
    inner, deviation = closed_features(kernel.kernel, points), np.sqrt(_number(kernel.variance))
    return ClosedForm(
        deviation * inner.value,
        lambda slopes: SimpleNamespace(
            kernel=inner.pull_back(deviation * slopes), variance=total(slopes, inner.value) / (2 * deviation)
        ),
    )


def _columns_features(kernel: Columns, points: Float[np.ndarray, "block point dim"]) -> ClosedForm:
    inner = closed_features(kernel.kernel, points[:, :, np.array(kernel.columns)])
    return ClosedForm(inner.value, lambda slopes: SimpleNamespace(kernel=inner.pull_back(slopes)))


_FEATURES: dict[type, Callable[[Any, Float[np.ndarray, "block point dim"]], ClosedForm]] = {
    Constant: _constant_features,
    Linear: _linear_features,
    Sum: _sum_features,
    Scaled: _scaled_features,
    Columns: _columns_features,
}
