# SPDX-License-Identifier: MIT
"""One sentence on whether to trust the model, the numbers behind it, and what to worry about, in plain words."""

import math
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from weft.report.content import Check, Fact, Verdict
from weft.report.residuals import Autocorrelation, Variogram

__all__ = ["ANOTHER_LIKELIHOOD", "LEARN_HABITS", "MORE_ROWS", "judge"]

# What may set intervals right: habits, if nobody looked for any; else more to learn them from, or another distribution.
LEARN_HABITS = "Set habits='auto', so that noise and tails are learned from rows left out"
MORE_ROWS = "Noise and tails were looked for (habits='auto'), and rows left out told too little of them; more rows may"
ANOTHER_LIKELIHOOD = "Another likelihood may suit the values better"

# What is left to do where the model has everything that could be added.
_TELL_APART = "a column that tells such places apart (elevation, distance to the sea, kind of site), in space or as a covariate, may help"

# How far the share of values inside an interval may be from what it says, by its level; and how far at all.
_COVERAGE = {0.5: 0.05, 0.8: 0.05, 0.9: 0.05, 0.95: 0.03}
_COVERAGE_AT_ALL = {0.5: 0.25, 0.8: 0.2, 0.9: 0.15, 0.95: 0.12}
# At stations that are hidden whole, 90 % intervals have to hold this much.
_NEW_STATIONS = 0.85
# Residuals that still hang together by this much leave something to learn.
_LEFT_IN_TIME = 0.2
_LEFT_IN_SPACE = 0.8
# Skill below which a baseline would do as well, and a loss that is more than a draw.
_SKILL = 0.05
_LOSS = 0.05
_OFFSET = 0.08
# The part of the noise that may be field which pseudo-points cannot hold.
_UNEXPLAINED = 0.5


def judge(
    *,
    converged: bool,
    message: str,
    checks: Sequence[Check],
    in_space: Variogram,
    in_time: Autocorrelation,
    has: Collection[str] = (),
    remedy: str = LEARN_HABITS,
    unexplained: float = 0.0,
    degenerate: Sequence[str] = (),
) -> Verdict:
    """`checks` in order of weight: the first gives the coverage named in the headline.

    `has` are the kinds of things that the model has already ("places", "local", "season"), which are no remedy then; `remedy` is what
    may set intervals right; `unexplained` is the variance that pseudo-points leave, by the noise's; `degenerate` are sentences about
    scales that no data can have told. Each worry names its remedy.
    """
    facts = [
        Fact("learning", "converged" if converged else "not converged", message, "good" if converged else "caution")
    ]
    worries = (
        [] if converged else [f"The fit did not converge ({message}): raise max_iterations, the numbers may change."]
    )
    for check in checks:
        facts += [_coverage_fact(check), _skill_fact(check)]
        worries += _worries_of(check, remedy)
    doubts = [
        *degenerate,
        *_left_in_time(in_time, has, looked_for_habits=remedy != LEARN_HABITS),
        *_left_in_space(in_space),
        *_unexplained_words(unexplained),
    ]
    worries += doubts
    beaten = bool(checks) and all(not check.skill > 0 for check in checks)
    state = "poor" if beaten else _worst([fact.state for fact in facts] + ["caution"] * bool(doubts))
    return Verdict(state, _headline(converged, checks, state), tuple(facts), tuple(worries))


def _left_in_time(in_time: Autocorrelation, has: Collection[str], *, looked_for_habits: bool) -> list[str]:
    """What residuals of one place say about components that are not there."""
    found = []
    correlation, lags, unit = in_time.correlation, in_time.lags, in_time.unit
    late = correlation[len(correlation) // 2 :]
    if len(late) > 2 and float(late.mean()) > _OFFSET:
        missing = [
            *(["set habits='auto'"] if not looked_for_habits and "places" not in has else []),
            *(["add a 'local' component"] if "local" not in has else []),
            *(["add a season"] if "places" in has and "season" not in has else []),
        ]
        known = (
            "more than the levels found for them explain"
            if "places" in has
            else "and the model has no level for each place"
        )
        remedy = ", or ".join(missing) or _TELL_APART
        found.append(
            f"Residuals of one place stay correlated at long lags ({late.mean():.2f}): some places read a little high or low "
            f"throughout, {known}: {remedy}."
        )
    if len(correlation) and abs(correlation[0]) > _LEFT_IN_TIME:
        found.append(
            f"Residuals of one step and the next are correlated ({correlation[0]:.2f}): something that changes "
            "slower than the noise is not in the model; try components='auto', or a kernel with one more component in time."
        )
    elif len(correlation) and float(np.max(correlation)) > _LEFT_IN_TIME:
        where = int(np.argmax(correlation))
        found.append(
            f"Residuals {lags[where]:g} {unit} apart are correlated ({correlation[where]:.2f}): "
            + (
                f"the season in the model does not hold all of it, as where it differs from place to place: {_TELL_APART}."
                if "season" in has
                else f"a cycle of that length is not in the model; give it as seasonality={lags[where]:g}, or as 'yearly', "
                "'weekly' or 'daily' if it is one."
            )
        )
    return found


def _left_in_space(in_space: Variogram) -> list[str]:
    if not (len(in_space.gamma) and in_space.gamma[0] < _LEFT_IN_SPACE):
        return []
    return [
        f"Neighbours err together: at {in_space.distance[0]:.3g} {in_space.unit} residuals differ by "
        f"{100 * in_space.gamma[0]:.0f} % of what strangers do; more pseudo-points or a 'local' component may help."
    ]


def _unexplained_words(unexplained: float) -> list[str]:
    if not unexplained > _UNEXPLAINED:
        return []
    return [
        f"What pseudo-points cannot hold has {100 * unexplained:.0f} % of the variance of the noise, so much of what is called "
        "noise is field: use more pseudo-points, or regions."
    ]


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
    off = _off(check, _COVERAGE)
    state = "good" if not off else "poor" if _off(check, _COVERAGE_AT_ALL) else "caution"
    if state == "good" and _fails_new_stations(check):
        state = "caution"
    return Fact(f"90 % coverage, {_short(check)}", f"{100 * covered:.1f} %", "of hidden values inside", state)


def _off(check: Check, within: Mapping[float, float]) -> list[tuple[float, float]]:
    """Levels whose intervals hold more or less than they say, and how much they hold."""
    # Half a per mille for what cannot be told apart when it is written.
    return [
        (level, held) for level, held in check.coverage if level in within and abs(held - level) > within[level] + 5e-4
    ]


def _fails_new_stations(check: Check) -> bool:
    return check.by in ("station", "block") and check.coverage_90 < _NEW_STATIONS


def _skill_fact(check: Check) -> Fact:
    skill = check.skill
    state = "good" if skill >= _SKILL else "caution" if skill >= -_LOSS else "poor"
    sign = "−" if skill < 0 else "+"
    value = f"{sign}{abs(100 * skill):.0f} %" if math.isfinite(skill) else "–"
    return Fact(f"skill, {_short(check)}", value, f"CRPS against {check.best_baseline}, the best baseline", state)


def _worries_of(check: Check, remedy: str) -> list[str]:
    worries = []
    off = _off(check, _COVERAGE)
    narrow = [each for each in off if each[1] < each[0]]
    wide = [each for each in off if each[1] > each[0]]
    where = _hidden(check)
    if narrow:
        worries.append(
            f"Intervals are too narrow with {where}: {_held(narrow)}. {remedy}; until then widen them in your head."
        )
    if wide:
        worries.append(f"Intervals are wider than they need be with {where}: {_held(wide)}. {remedy}.")
    if not narrow and _fails_new_stations(check):
        worries.append(
            f"At places never seen 90 % intervals hold {100 * check.coverage_90:.0f} %: a 'local' component, or levels of "
            "places (habits='auto'), widens them there."
        )
    if not check.skill > 0:
        worries.append(
            f"With {where}, the model does not beat {check.best_baseline} (CRPS {100 * -check.skill:.0f} % higher): "
            "use that, or give the model what it does not know (covariates, a season, a transform)."
        )
    elif check.skill < _SKILL:
        worries.append(
            f"With {where}, {check.best_baseline} is as good within 5 % (CRPS {100 * check.skill:.0f} % higher): covariates, a "
            "season or a transform may set the model apart."
        )
    return worries


def _held(intervals: Sequence[tuple[float, float]]) -> str:
    return (
        ", ".join(f"those of {100 * level:.0f} % hold {100 * held:.0f} %" for level, held in intervals) + " of values"
    )


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
