# SPDX-License-Identifier: MIT
"""Which of several models: changes tried one at a time on small exact blocks of a table, kept where both tests say so.

The first test is evidence, the second what happens to rows and whole places that are left out: on a small table a rougher
kernel had the higher evidence and predicted new places 8 % worse.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, final

from weft.data.observations import Observations
from weft.model import Model
from weft.training.composite import CompositeObjective
from weft.training.left_out import leave_places_out, leave_rows_out
from weft.training.maximise import Outcome, maximise
from weft.training.parameters import ParameterSpace, Path, Prior, make_space, prior_terms

__all__ = ["Candidate", "Checks", "Draft", "Selection", "Trial", "learned_from", "numbers_of", "select"]

# Nats of evidence that a parameter more has to bring.
_NATS_PER_PARAMETER = 2.0
# Part of the CRPS of what was left out that a change has to take off, and that it may add either to rows or to places.
_LEAST_GAIN = 0.002
_MOST_LOSS = 0.005
_ITERATIONS = 40
_ITERATIONS_AGAIN = 14
# A climb ends where two steps in a row gain less than so many nats, or so many a row: what is left would change no verdict. A part of the
# CRPS is about as many nats a row, and such a step is a twentieth of the part that a change has to take off.
_NATS = 0.5
_NATS_PER_ROW = _LEAST_GAIN / 20
_GRADIENT_PER_ROW = 5e-4


@final
@dataclasses.dataclass(frozen=True)
class Draft:
    """A model (among candidates one with Gaussian noise), names of its components, and of parameters: which stay, what is known of them."""

    model: Model
    names: tuple[str, ...]
    frozen: tuple[str, ...] = ()
    priors: Mapping[str, Prior] = dataclasses.field(default_factory=dict)


@final
@dataclasses.dataclass(frozen=True)
class Candidate:
    """A change to a draft, called by `name`; None where it does not apply."""

    name: str
    change: Callable[[Draft], Draft | None]


@final
@dataclasses.dataclass(frozen=True)
class Trial:
    """One change and what it brought: nats of evidence a row, and parts of the CRPS of left-out rows and places taken off."""

    name: str
    evidence_gain: float
    row_gain: float
    place_gain: float
    kept: bool

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.evidence_gain:+.3f} nats a row, CRPS of left-out rows {100 * self.row_gain:+.1f} %, of places "
            f"{100 * self.place_gain:+.1f} % better; {'kept' if self.kept else 'left'}"
        )


class Checks(NamedTuple):
    """Small blocks that rows are left out of, and neighbourhoods over the whole series that places are.

    Over one spell of weather a place errs as one, and which of two models serves it better is chance: on three of four tables places
    left out of six stretches told most gains with one and a half to three times the standard error of those left out over the series.
    """

    rows: Sequence[Observations]
    places: Sequence[Observations]


class Selection(NamedTuple):
    """The draft chosen, its parameters learned from the blocks, and all that was tried on the way."""

    draft: Draft
    trials: tuple[Trial, ...]


def select(
    start: Draft, candidates: Sequence[Candidate], learning: Sequence[Observations], checks: Checks
) -> Selection:
    """Learn `start` from the blocks `learning`, then each candidate in turn from where the draft kept so far stands; rows and
    places are left out of the blocks of `checks`.
    """
    trials = []
    kept = _learn(start, learning, checks, _ITERATIONS)
    for candidate in candidates:
        changed = candidate.change(kept.draft)
        if changed is None:
            continue
        tried = _learn(changed, learning, checks, _ITERATIONS_AGAIN)
        trial = _judge(candidate.name, kept, tried)
        trials.append(trial)
        if trial.kept:
            kept = tried
    return Selection(kept.draft, tuple(trials))


@final
@dataclasses.dataclass(frozen=True)
class _Learned:
    """A draft as blocks of so many rows have taught it, and how it does where rows and places are left out."""

    draft: Draft
    objective: float
    num_rows: int
    num_parameters: int
    row_crps: float
    place_crps: float


def _learn(draft: Draft, blocks: Sequence[Observations], checks: Checks, iterations: int) -> _Learned:
    learned, objective, num_parameters = _climbed(draft, blocks, iterations)
    rows, places = leave_rows_out(learned.model, checks.rows), leave_places_out(learned.model, checks.places)
    num_rows = sum(block.num_rows for block in blocks)
    return _Learned(learned, objective, num_rows, num_parameters, rows.mean_crps, places.mean_crps)


def learned_from(draft: Draft, blocks: Sequence[Observations]) -> Draft:
    """The draft with the parameters that blocks teach it, whatever its likelihood, as finely as candidates are told apart."""
    return _climbed(draft, blocks, _ITERATIONS)[0]


def _climbed(draft: Draft, blocks: Sequence[Observations], iterations: int) -> tuple[Draft, float, int]:
    """The draft with its parameters learned, the objective there, and how many parameters they are."""
    space, terms = numbers_of(draft)
    num_rows = sum(block.num_rows for block in blocks)
    ascent = maximise(
        CompositeObjective(space, draft.model, blocks, terms, power=0.0, engine="auto"),
        space.start(draft.model),
        max_iterations=iterations,
        tolerance=max(_NATS / num_rows, _NATS_PER_ROW),
        gradient_tolerance=_GRADIENT_PER_ROW * num_rows,
        scale=float(num_rows),
    )
    if ascent.outcome is Outcome.INTERRUPTED:
        # Nothing is fitted yet that a fit could end with.
        raise KeyboardInterrupt
    top = ascent.best
    model = space.place_numpy(draft.model, top.point)
    return dataclasses.replace(draft, model=model), top.evaluation.value, space.size


def numbers_of(draft: Draft) -> tuple[ParameterSpace, tuple[tuple[Path, Prior], ...]]:
    """What of a draft is learned, and what is known of it."""
    space = make_space(draft.model, frozen=draft.frozen)
    return space, prior_terms(draft.priors, space, draft.model) if draft.priors else ()


def _judge(name: str, before: _Learned, after: _Learned) -> Trial:
    evidence = after.objective - before.objective
    row = 1 - after.row_crps / before.row_crps
    place = 1 - after.place_crps / before.place_crps
    needed = _NATS_PER_PARAMETER * max(after.num_parameters - before.num_parameters, 0)
    kept = evidence > needed and (row + place) / 2 > _LEAST_GAIN and min(row, place) > -_MOST_LOSS
    return Trial(name, evidence / before.num_rows, row, place, bool(kept))
