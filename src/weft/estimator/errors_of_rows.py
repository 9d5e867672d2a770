# SPDX-License-Identifier: MIT
"""How far off sound rows are, and from where on a row is too far off to be one.

Errors of real tables are mixtures: of places, of seasons, of high and low values. What their middle says about their ends is far too
pessimistic (a value sixty deviations off would be nothing much), so that the ends are told by the ends: the largest tenth of the
errors, less the largest of them where faults may be, and less those that a mistake explains, such as a decimal point that slipped, if
the table as a whole is likelier so: ends of sound errors fall off, and mistakes stand where they put a value.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, final

import numpy as np
from jaxtyping import Bool, Float
from scipy import special

__all__ = ["AGREES", "MIDDLE", "Errors", "discoveries", "ends_beside_mistakes", "explained", "likelihood_ratios"]

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
# Deviations within which a value set right agrees with its neighbours.
AGREES = 2.5
# Of the largest errors, the part that tells no more than that they are large, besides rows that differ from their neighbours.
_COUNTED = 0.001
# Turns of telling ends and mistakes apart, and errors at the ends that are looked at one by one.
_TURNS, _GROUPS = 8, 500
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
    def of(
        cls, z: Float[np.ndarray, " row"], counted: float, sound: Float[np.ndarray, " row"] | None = None
    ) -> "Errors":
        """By errors of rows that are sound, but for a few: of the largest, a part `counted`, no more is taken than that they are.

        Shapes of the ends are weighted by their likelihood, so that a few rows, which tell little, make ends long. `sound` is how
        probable each row is to be sound, if that is known.
        """
        size = np.abs(z)
        sound = np.ones(len(z)) if sound is None else sound
        middle, begin, most = np.quantile(size, [0.5, 1 - _END, 1 - counted], weights=sound, method="inverted_cdf")
        scale = max(float(middle) / MIDDLE, 1e-300)
        begin = max(float(begin), scale)
        inside = (size > begin) & (size <= most)
        num_beyond = float(sound[size > max(most, begin)].sum())
        shapes, scales = (each.ravel() for each in np.meshgrid(_SHAPES, _SCALES * scale))
        belief = num_beyond * _log_beyond(max(most, begin) - begin, shapes, scales) - shapes / _USUAL_SHAPE
        for excess, number in zip(*_in_groups(size[inside] - begin, sound[inside]), strict=True):
            belief += number * _log_density(excess, shapes, scales)
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


def _in_groups(
    excess: Float[np.ndarray, " row"], number: Float[np.ndarray, " row"]
) -> tuple[Float[np.ndarray, " group"], Float[np.ndarray, " group"]]:
    """About the same by means of neighbouring ones, where there are thousands, and how many each stands for."""
    order = np.argsort(excess)
    groups = [rows for rows in np.array_split(order, min(_GROUPS, len(order)) or 1) if number[rows].sum() > 0]
    totals = np.array([number[rows].sum() for rows in groups])
    means = np.array([excess[rows] @ number[rows] for rows in groups]) / totals
    return means, totals


def ends_beside_mistakes(
    z: Float[np.ndarray, " row"],
    undone: Float[np.ndarray, "row mistake"],
    slopes: Float[np.ndarray, "row mistake"],
    far: Bool[np.ndarray, " row"],
) -> Errors:
    """Errors of sound rows of a table where some rows may have mistakes: those that they explain tell nothing of the ends.

    `undone` is how far off each row would be were a mistake undone, `slopes` by how much that spreads values and how likely it makes what
    else is seen of them, and `far` marks rows that
    neighbours speak against; of these, those that no mistake explains are counted only. Found by turns (Dempster, Laird & Rubin 1977),
    once beginning with all rows sound and once with all faulty that a mistake explains; what makes the whole table likelier is taken.
    """
    agrees = np.any(undone <= AGREES, axis=1)
    counted = _COUNTED + float(np.mean(far & ~agrees))
    size = np.abs(z)
    begin, most = np.quantile(size, [1 - _END, 1 - counted])
    beyond = ~agrees & (size > most)
    best: tuple[float, Errors] | None = None
    for doubtful in (far & agrees, agrees & (size > begin)):
        sound = np.where(doubtful, 0.0, 1.0)
        for _ in range(_TURNS):
            errors = Errors.of(z, counted, sound)
            ratio = likelihood_ratios(errors, z, undone, slopes)
            sound, frequency = _soundness(ratio)
        mixed = (1 - frequency.sum()) + ratio @ frequency
        likelihood = float(np.sum(np.log(errors.density(z[~beyond]) * mixed[~beyond])))
        likelihood += float(np.count_nonzero(beyond) * np.log(errors.probability(np.array([most]))[0]))
        # A frequency more to learn (Schwarz 1978).
        likelihood -= 0.5 * np.count_nonzero(frequency * len(z) > 0.5) * np.log(len(z))
        if best is None or likelihood > best[0]:
            best = likelihood, errors
    assert best is not None
    return best[1]


def likelihood_ratios(
    errors: Errors,
    z: Float[np.ndarray, " row"],
    undone: Float[np.ndarray, "row mistake"],
    slopes: Float[np.ndarray, "row mistake"],
) -> Float[np.ndarray, "row mistake"]:
    """How much likelier each mistake makes a row than none does; not at all where, undone, it does not agree either."""
    found = np.zeros_like(undone)
    row, mistake = np.nonzero(undone <= AGREES)
    as_it_is = np.maximum(errors.density(z[row]), 1e-300)
    found[row, mistake] = errors.density(undone[row, mistake]) * slopes[row, mistake] / as_it_is
    return found


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
    num_rows = len(ratio)
    right, _ = _soundness(ratio)
    order = np.argsort(right)
    found = np.zeros(num_rows, dtype=bool)
    found[order] = np.cumsum(right[order]) <= rate * np.arange(1, num_rows + 1)
    return found


def _soundness(
    ratio: Float[np.ndarray, "row mistake"],
) -> tuple[Float[np.ndarray, " row"], Float[np.ndarray, " mistake"]]:
    """How probable each row is to have none of the mistakes, and how frequent each of them is."""
    num_rows, num_mistakes = ratio.shape
    frequency = np.full(num_mistakes, 1 / num_rows)
    right = np.ones(num_rows)
    for _ in range(_ROUNDS):
        share = frequency * ratio
        total = (1 - frequency.sum()) + share.sum(axis=1)
        right = (1 - frequency.sum()) / total
        frequency = np.minimum((share / total[:, None]).mean(axis=0), _MOST_FREQUENT / num_mistakes)
    return right, frequency
