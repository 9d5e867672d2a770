# SPDX-License-Identifier: MIT
"""One sentence on whether to trust the model, the numbers behind it, and what to worry about, in plain words."""

import math
from collections.abc import Sequence

from weft.report.content import Check, Fact, Verdict
from weft.report.residuals import Autocorrelation, Variogram

__all__ = ["judge"]

# A 90 % interval is honest within these.
_COVERAGE = (0.85, 0.95)
_COVERAGE_AT_ALL = (0.75, 0.985)
# Residuals that still hang together by this much leave something to learn.
_LEFT_IN_TIME = 0.2
_LEFT_IN_SPACE = 0.8
# Skill that may be chance, and a loss that is more than a draw.
_SKILL = 0.02
_LOSS = 0.05
_OFFSET = 0.08


def judge(
    *,
    converged: bool,
    message: str,
    checks: Sequence[Check],
    in_space: Variogram,
    in_time: Autocorrelation,
    notes: Sequence[str] = (),
) -> Verdict:
    """`checks` in order of weight: the first gives the coverage named in the headline."""
    facts = [
        Fact("learning", "converged" if converged else "not converged", message, "good" if converged else "caution")
    ]
    worries = [] if converged else [f"The fit did not converge ({message}); more iterations may change the numbers."]
    for check in checks:
        facts += [_coverage_fact(check), _skill_fact(check)]
        worries += _worries_of(check)
    late = in_time.correlation[len(in_time.correlation) // 2 :]
    if len(late) > 2 and float(late.mean()) > _OFFSET:
        worries.append(
            f"Residuals of one place stay correlated at long lags ({late.mean():.2f}): some places read a little high or low "
            "throughout, and the model has no offset for each place."
        )
    if len(in_time.correlation) and abs(in_time.correlation[0]) > _LEFT_IN_TIME:
        worries.append(
            f"Residuals of one step and the next are correlated ({in_time.correlation[0]:.2f}): something that changes "
            "slower than the noise is not in the model."
        )
    if len(in_space.gamma) and in_space.gamma[0] < _LEFT_IN_SPACE:
        worries.append(
            f"Neighbours err together: at {in_space.distance[0]:.3g} {in_space.unit} residuals differ by "
            f"{100 * in_space.gamma[0]:.0f} % of what strangers do; more pseudo-points or a rougher kernel may help."
        )
    worries += notes
    beaten = bool(checks) and all(not check.skill > 0 for check in checks)
    state = "poor" if beaten else _worst([fact.state for fact in facts])
    return Verdict(state, _headline(converged, checks, state), tuple(facts), tuple(worries))


def _headline(converged: bool, checks: Sequence[Check], state: str) -> str:
    learned = "The fit converged" if converged else "The fit did not converge"
    if not checks:
        return f"{learned}; nothing was held out, so how good it is remains open."
    first = checks[0]
    covered = f"its 90 % intervals hold {100 * first.coverage_90:.0f} % of hidden values"
    losing = [check for check in checks if not check.skill > 0]
    if losing:
        how = " and ".join(_short(check) for check in losing)
        advice = ": prefer that" if state == "poor" else ""
        said = f"but it does not beat {_guesses(losing)} ({how}){advice}"
    else:
        least = min(checks, key=lambda check: check.skill)
        most = max(checks, key=lambda check: check.skill)
        span = (
            f"{100 * least.skill:.0f} %"
            if round(100 * least.skill) == round(100 * most.skill)
            else f"{100 * least.skill:.0f} to {100 * most.skill:.0f} %"
        )
        said = f"and its CRPS is {span} below that of the best simple guess ({_guesses(checks)})"
    opening = {"good": "Looks trustworthy", "caution": "Use with care", "poor": "Do not rely on this"}[state]
    return f"{opening}. {learned}, {covered}, {said}."


def _coverage_fact(check: Check) -> Fact:
    covered = check.coverage_90
    inside = _COVERAGE[0] <= covered <= _COVERAGE[1]
    bearable = _COVERAGE_AT_ALL[0] <= covered <= _COVERAGE_AT_ALL[1]
    state = "good" if inside else "caution" if bearable else "poor"
    return Fact(f"90 % coverage, {_short(check)}", f"{100 * covered:.1f} %", "of hidden values inside", state)


def _skill_fact(check: Check) -> Fact:
    skill = check.skill
    state = "good" if skill > _SKILL else "caution" if skill >= -_LOSS else "poor"
    sign = "−" if skill < 0 else "+"
    value = f"{sign}{abs(100 * skill):.0f} %" if math.isfinite(skill) else "–"
    return Fact(f"skill, {_short(check)}", value, f"CRPS against {check.best_baseline}, the best baseline", state)


def _worries_of(check: Check) -> list[str]:
    worries = []
    covered = f"{100 * check.coverage_90:.0f} %"
    if check.coverage_90 < _COVERAGE[0]:
        worries.append(
            f"Intervals are too narrow with {_hidden(check)}: those of 90 % hold {covered} of values. Widen them in your head."
        )
    elif check.coverage_90 > _COVERAGE[1]:
        worries.append(
            f"Intervals are wider than they need be with {_hidden(check)}: those of 90 % hold {covered} of values."
        )
    if not check.skill > 0:
        worries.append(
            f"With {_hidden(check)}, the model does not beat {check.best_baseline} (CRPS {100 * -check.skill:.0f} % higher)."
        )
    return worries


def _short(check: Check) -> str:
    return {
        "held_out": "held-out rows",
        "random": "hidden rows",
        "station": "hidden stations",
        "block": "hidden blocks",
    }[check.by]


def _hidden(check: Check) -> str:
    return {
        "held_out": "the rows held out",
        "random": "rows hidden at random",
        "station": "whole stations hidden",
        "block": "whole neighbourhoods hidden",
    }[check.by]


def _guesses(checks: Sequence[Check]) -> str:
    return " and ".join(dict.fromkeys(check.best_baseline for check in checks))


def _worst(states: Sequence[str]) -> str:
    return next((state for state in ("poor", "caution") if state in states), "good")
