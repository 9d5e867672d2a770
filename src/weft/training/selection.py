# SPDX-License-Identifier: MIT
"""Which of several models: changes tried one at a time on small samples of rows, kept where both tests say so.

The first test is evidence, the second what happens to rows and whole places that are left out: on a small table a rougher
kernel had the higher evidence and predicted new places 8 % worse.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.optimize import minimize

from weft.engines.cpu.threads import single_blas_thread
from weft.model import Model
from weft.scores import crps_gaussian
from weft.training.parameters import ParameterSpace, Path, Prior, log_prior, make_space, prior_terms
from weft.training.samples import LeftOut, Stack, leave_out, log_evidence_of

__all__ = ["Candidate", "Draft", "Selection", "Trial", "select"]

# Nats of evidence that a parameter more has to bring.
_NATS_PER_PARAMETER = 2.0
# Part of the CRPS of what was left out that a change has to take off, and that it may add either to rows or to places.
_LEAST_GAIN = 0.002
_MOST_LOSS = 0.005
_ITERATIONS = 60
_ITERATIONS_AGAIN = 25
_RELATIVE_TOLERANCE = 1e-6


@final
@dataclasses.dataclass(frozen=True)
class Draft:
    """A model with a Gaussian likelihood, the names of its components, and of parameters: which stay and what is known of them."""

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


class Selection(NamedTuple):
    """The draft chosen, its parameters learned from the samples, and all that was tried on the way."""

    draft: Draft
    trials: tuple[Trial, ...]


def select(start: Draft, candidates: Sequence[Candidate], learning: Stack, checking: Stack) -> Selection:
    """Learn `start` from the samples, then each candidate in turn from where the draft kept so far stands."""
    trials = []
    # Matrices of a few hundred rows: threads would wait for each other longer than they work.
    with single_blas_thread():
        kept = _Learned.from_draft(start, learning, checking, _ITERATIONS)
        for candidate in candidates:
            changed = candidate.change(kept.draft)
            if changed is None:
                continue
            tried = _Learned.from_draft(changed, learning, checking, _ITERATIONS_AGAIN)
            trial = _judge(candidate.name, kept, tried, learning.num_rows)
            trials.append(trial)
            if trial.kept:
                kept = tried
    return Selection(kept.draft, tuple(trials))


@final
@dataclasses.dataclass(frozen=True)
class _Learned:
    draft: Draft
    objective: float
    num_parameters: int
    row_crps: float
    place_crps: float

    @classmethod
    def from_draft(cls, draft: Draft, learning: Stack, checking: Stack, iterations: int) -> "_Learned":
        space = make_space(draft.model, frozen=draft.frozen)
        model, objective = _climb(draft, space, learning, iterations)
        left = leave_out(model, checking)
        return cls(dataclasses.replace(draft, model=model), objective, space.size, *_mean_crps(left))


def _judge(name: str, before: _Learned, after: _Learned, num_rows: int) -> Trial:
    evidence = after.objective - before.objective
    row = 1 - after.row_crps / before.row_crps
    place = 1 - after.place_crps / before.place_crps
    needed = _NATS_PER_PARAMETER * max(after.num_parameters - before.num_parameters, 0)
    kept = evidence > needed and (row + place) / 2 > _LEAST_GAIN and min(row, place) > -_MOST_LOSS
    return Trial(name, evidence / num_rows, row, place, bool(kept))


def _mean_crps(left: LeftOut) -> tuple[float, float]:
    nothing = np.zeros_like(left.row_error)
    return (
        float(np.mean(crps_gaussian(left.row_error, nothing, left.row_sd))),
        float(np.mean(crps_gaussian(left.place_error, nothing, left.place_sd))),
    )


def _climb(draft: Draft, space: ParameterSpace, stack: Stack, iterations: int) -> tuple[Model, float]:
    """The draft's model at the best parameters found, and the evidence there with the priors' log densities."""
    terms = prior_terms(draft.priors, space, draft.model) if draft.priors else ()
    worst = [np.inf]

    def loss(point: Float[np.ndarray, " free"]) -> tuple[float, Float[np.ndarray, " free"]]:
        value, gradient = _value_and_gradient(jnp.asarray(point), space, draft.model, terms, stack)
        found, slope = -float(value), -np.asarray(gradient)
        if not (np.isfinite(found) and np.all(np.isfinite(slope))):
            # A trial point too extreme to compute: worse than any, so that the step is shortened.
            return abs(worst[0]) * 10 + 1e6, np.zeros_like(slope)
        worst[0] = found
        return found, slope

    found = minimize(
        loss,
        space.start(draft.model),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": iterations, "ftol": _RELATIVE_TOLERANCE, "maxls": 12},
    )
    return space.place_numpy(draft.model, found.x), -float(found.fun)


def _value_and_gradient(
    point: Float[Array, " free"],
    space: ParameterSpace,
    model: Model,
    terms: tuple[tuple[Path, Prior], ...],
    stack: Stack,
) -> tuple[Array, Array]:
    def objective(point: Array) -> Array:
        placed, prior = _placed(point, space, model, terms)
        return log_evidence_of(placed, stack) + prior

    return jax.value_and_grad(objective)(point)


@eqx.filter_jit
def _placed(
    point: Float[Array, " free"], space: ParameterSpace, model: Model, terms: tuple[tuple[Path, Prior], ...]
) -> tuple[Model, Float[Array, ""]]:
    """The model at `point` on the real line, and its log prior."""
    placed = space.place(model, point)
    return placed, log_prior(placed, terms)
