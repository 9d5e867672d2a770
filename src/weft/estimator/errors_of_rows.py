# SPDX-License-Identifier: MIT
"""How far off sound rows are, and from where on a row is too far off to be one.

Errors of real tables are mixtures: of places, of seasons, of high and low values. What their middle says about their ends is far too
pessimistic (a value sixty deviations off would be nothing much), so that the ends are told by the ends: the largest tenth of the
errors, less the largest of them where faults may be.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, final

import numpy as np
from jaxtyping import Bool, Float
from scipy import special

__all__ = ["MIDDLE", "Errors", "discoveries", "explained"]

# The part of the errors that tells of the ends.
_END = 0.1
# Shapes of the ends, from exponential ones, which mixtures of normals have, to such as have hardly a variance; the usual shape of those
# that were seen, by which they are believed before (exponentially); and scales by that of the middle.
_SHAPES, _USUAL_SHAPE, _SCALES = np.linspace(0.0, 0.4, 17), 0.1, np.geomspace(0.1, 5.0, 80)
# The median of the size of a standard normal.
MIDDLE = 0.6744897501960817
# How far out ends are looked up, by where they begin, and in how many steps: an error beyond is as good as impossible.
_FARTHEST, _LOOKED_UP = 1e6, 500
_ROUNDS = 50
# A part of all rows that have a mistake, beyond which it would be no mistake.
_MOST_FREQUENT = 0.5


@final
@dataclasses.dataclass(frozen=True)
class Errors:
    """The distribution of errors of sound rows, in deviations: symmetric, normal in the middle, with ends of their own.

    Beyond a high threshold every usual distribution is one of Pareto's generalised ones, with a shape and a scale (Pickands 1975).
    `scale` is that of the middle, and `begin` where ends begin; `shapes`, `scales` and `weights` are of a mixture of such.
    """

    scale: float
    begin: float
    shapes: Float[np.ndarray, " part"]
    scales: Float[np.ndarray, " part"]
    weights: Float[np.ndarray, " part"]

    @classmethod
    def of(cls, z: Float[np.ndarray, " row"], counted: float) -> "Errors":
        """By errors of rows that are sound, but for a few: of the largest, a part `counted`, no more is taken than that they are.

        Shapes of the ends are weighted by their likelihood, so that a few rows, which tell little, make ends long.
        """
        size = np.abs(z)
        middle, begin, most = np.quantile(size, [0.5, 1 - _END, 1 - counted])
        scale = max(float(middle) / MIDDLE, 1e-300)
        begin = max(float(begin), scale)
        inside = size[(size > begin) & (size <= most)]
        num_beyond = int(np.count_nonzero(size > max(most, begin)))
        shapes, scales = (each.ravel() for each in np.meshgrid(_SHAPES, _SCALES * scale))
        belief = num_beyond * _log_beyond(max(most, begin) - begin, shapes, scales) - shapes / _USUAL_SHAPE
        for one in inside:
            belief += _log_density(float(one) - begin, shapes, scales)
        weights = np.exp(belief - np.max(belief))
        return cls(scale, begin, shapes, scales, weights / weights.sum())

    def probability(self, z: Float[np.ndarray, "*row"]) -> Float[np.ndarray, "*row"]:
        """Of an error at least as large, either way."""
        size = np.abs(z)
        inside = 1 - (1 - _END) * special.erf(size / self.scale / np.sqrt(2)) / self._of_middle
        return np.where(size <= self.begin, inside, _END * self._at_ends(_log_beyond, size))

    def density(self, z: Float[np.ndarray, "*row"]) -> Float[np.ndarray, "*row"]:
        size = np.abs(z)
        inside = np.exp(-0.5 * (size / self.scale) ** 2) / np.sqrt(2 * np.pi) / self.scale
        return np.where(
            size <= self.begin, (1 - _END) * inside / self._of_middle, _END * self._at_ends(_log_density, size) / 2
        )

    @property
    def _of_middle(self) -> float:
        return float(special.erf(self.begin / self.scale / np.sqrt(2)))

    def _at_ends(self, log_of: Callable[..., Any], size: Float[np.ndarray, "*row"]) -> Float[np.ndarray, "*row"]:
        """Of the mixture given that it is at the ends; looked up in a table, since rows may be millions."""
        sizes = self.begin * np.geomspace(1.0, _FARTHEST, _LOOKED_UP)
        parts = log_of((sizes - self.begin)[:, None], self.shapes[None], self.scales[None])
        known = np.log(np.maximum(np.exp(parts) @ self.weights, 1e-300))
        return np.exp(np.interp(np.log(np.maximum(size, self.begin)), np.log(sizes), known))


def _log_beyond(excess: Any, shapes: Float[np.ndarray, "*part"], scales: Float[np.ndarray, "*part"]) -> Any:
    """The logarithm of the probability of at least such an excess over where ends begin."""
    return -_stretched(excess / scales, shapes)


def _log_density(excess: Any, shapes: Float[np.ndarray, "*part"], scales: Float[np.ndarray, "*part"]) -> Any:
    return -(1 + shapes) * _stretched(excess / scales, shapes) - np.log(scales)


def _stretched(excess: Any, shapes: Float[np.ndarray, "*part"]) -> Any:
    """log(1 + shape x) / shape, which is x at shape 0."""
    return np.where(shapes > 0, np.log1p(shapes * excess) / np.where(shapes > 0, shapes, 1.0), excess)


def discoveries(probability: Float[np.ndarray, " row"], rate: float) -> Bool[np.ndarray, " row"]:
    """Rows to raise an alarm for, so that a share `rate` of alarms is false (Benjamini & Hochberg 1995)."""
    order = np.argsort(probability)
    passed = probability[order] <= rate * np.arange(1, len(order) + 1) / len(order)
    alarms = np.zeros(len(order), dtype=bool)
    if passed.any():
        alarms[order[: int(np.flatnonzero(passed)[-1]) + 1]] = True
    return alarms


def explained(ratio: Float[np.ndarray, "row mistake"], rate: float) -> Bool[np.ndarray, " row"]:
    """Rows that one of several mistakes explains, so that a share `rate` of them is right after all.

    `ratio` is how much likelier each mistake makes a row than none does. How frequent a mistake is in this table is learned from all
    rows together (Dempster, Laird & Rubin 1977), so that one that nobody made accuses nobody.
    """
    num_rows, num_mistakes = ratio.shape
    frequency = np.full(num_mistakes, 1 / num_rows)
    right = np.ones(num_rows)
    for _ in range(_ROUNDS):
        share = frequency * ratio
        total = (1 - frequency.sum()) + share.sum(axis=1)
        right = (1 - frequency.sum()) / total
        frequency = np.minimum((share / total[:, None]).mean(axis=0), _MOST_FREQUENT / num_mistakes)
    order = np.argsort(right)
    found = np.zeros(num_rows, dtype=bool)
    found[order] = np.cumsum(right[order]) <= rate * np.arange(1, num_rows + 1)
    return found
