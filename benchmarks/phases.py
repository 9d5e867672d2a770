# SPDX-License-Identifier: MIT
"""Where does the time go, and is it less than it was? Every set of real.py and published.py, by version 0.1 and now, in one run.

    python benchmarks/phases.py [--sets NAME ...] [--folds NUMBER] [--limit SECONDS] [--before COMMIT] [--python PYTHON]

Sets are read and split as there, and fitted with nothing chosen: by the estimator that `weft fit` of the version would fit. Each version
has a fresh process for each set, and they take turns. Recorded: seconds of the processor from the start of the process to its end, now by
phase (`weft.phases`); peak memory; scores; evaluations of the objective in climbs to the parameters that answer (trials of components
are not among them); the machine's load before. What numba compiles is compiled before anything is timed, once a version; what JAX
compiles is compiled in every process, as in anybody's script. `--before` is the commit of 0.1, whose sources are run by the same Python
as those here unless `--python` names that of another environment. `--folds` scores the first so many folds of sets that have many.
Results go to benchmarks/results/phases.json and phases.md after each set, beside those of sets run before.
"""

import argparse
import contextlib
import importlib
import importlib.util
import json
import math
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from checkouts import COMMIT_OF_0_1, HERE, checked_out, environment_of
from results import FOLDER, read_results, write_results

SHOWN = ("import", "compile", "read", "learn", "condition", "habits", "evaluate", "predict")
# The score by which a set is compared: the first of these that it has.
SCORES = ("CRPS", "normalised CRPS", "RMSE")
WARM_UP = "nothing, to compile the engine"
# Ratios of scores that count as equal.
EQUAL = 1.005


def names() -> list[str]:
    import published
    import real

    return [*real.SETS, *published.SETS]


def measure(name: str, num_folds: int | None) -> dict[str, Any]:
    """In a process of its own: one set, by the weft that is imported here."""
    with account() as phases:
        import published
        import real

        if name == WARM_UP:
            real.warm_up()
            return {}
        made: list[Any] = []

        def make(table: Any, *space: str) -> Any:
            make_one = published.estimator if is_now() else estimator_of_0_1
            made.append(make_one(table, *space))
            return made[-1]

        scores = published.SETS[name](num_folds, make) if name in published.SETS else score_real(name, make)
        return {
            "processor_seconds": time.process_time(),
            "memory_gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9,
            "num_evaluations": sum(gp.result_.num_evaluations for gp in made),
            "num_rows": made[0].num_rows_,
            "scores": scores,
            "phases": phases(),
        }


def is_now() -> bool:
    """Whether the weft that is imported keeps an account of phases; 0.1 did not."""
    return importlib.util.find_spec("weft.phases") is not None


@contextlib.contextmanager
def account() -> Iterator[Callable[[], dict[str, Any] | None]]:
    """What to call for the phases so far. Whatever is before and between questions is reading; all before that was importing."""
    if not is_now():
        yield lambda: None
        return
    from weft.phases import recording, timing

    with recording("read") as kept:
        kept.add("import", time.process_time())
        with timing("import"):
            importlib.import_module("published")
            importlib.import_module("weft.project")
        yield lambda: kept.so_far().to_json()


def score_real(name: str, make: Callable[..., Any]) -> dict[str, dict[str, float]]:
    """A set of real.py: a tenth of the rows held out at random."""
    import real

    train, test = real.read_set(name)
    gp = make(train, *real.SETS[name][1]).fit(train)
    gp.predict(test)
    return {name: {"CRPS": gp.score(test)["mean_crps"]}}


def estimator_of_0_1(table: Any, *space: str) -> Any:
    """What `weft fit` of 0.1 fitted: its defaults, with the transform or the likelihood that it advised."""
    import weft
    from weft.data.inspect import survey_table
    from weft.data.tables import as_table

    advice = survey_table(as_table(table), time="time", space=space, target="value").advice
    chosen = {"transform": advice.transform, "likelihood": advice.likelihood}
    given = {option: value for option, value in chosen.items() if value is not None}
    return weft.SpaceTimeGP(time="time", space=space, target="value", progress=None, **given)


def run(name: str, folder: pathlib.Path, python: str, num_folds: int | None, limit: float) -> dict[str, Any]:
    """What a fresh process of a checkout measures; a sentence where it fails."""
    command = [python, str(pathlib.Path(__file__)), "--measure", name]
    command += [] if num_folds is None else ["--folds", str(num_folds)]
    try:
        done = subprocess.run(
            command, env=environment_of(folder), cwd=HERE, capture_output=True, text=True, timeout=limit
        )
    except subprocess.TimeoutExpired:
        return {"failure": f"no result within {limit:.0f} s"}
    if done.returncode:
        return {"failure": (done.stderr.strip().splitlines() or ["no message"])[-1]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def as_markdown(results: dict[str, Any]) -> str:
    """A table of both versions, then one of the phases now."""
    lines = [
        "| set | rows | 0.1: processor | now | ratio | score | 0.1 | now | evaluations, 0.1 | now | load |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, found in results.items():
        before, now = found["before"], found["now"]
        failures = {who: each["failure"] for who, each in (("0.1", before), ("now", now)) if "failure" in each}
        rows = next((f"{each['num_rows']:,}" for each in (now, before) if "num_rows" in each), "")
        cells = [name, rows, *map(in_seconds, (before, now))]
        cells.append("" if failures else f"{now['processor_seconds'] / before['processor_seconds']:.2f}")
        for number, (part, score) in enumerate(scores_of(before, now)):
            whole = cells if number == 0 else [part, *[""] * 4]
            values = [in_four(each, part, score) for each in (before, now)]
            counts = [f"{each.get('num_evaluations', '')}" for each in (before, now)] if number == 0 else ["", ""]
            load = f"{found['load'][0]:.1f}" if number == 0 else ""
            lines.append(f"| {' | '.join([*whole, score, *values, *counts, load])} |")
        lines += [f"| | | {who}: {failure} | | | | | | | | |" for who, failure in failures.items()]
    both = [found for found in results.values() if not {"failure"} & (found["before"].keys() | found["now"].keys())]
    if both:
        lines += ["", in_all(both)]
    lines += ["", f"| now, seconds of the processor | {' | '.join(SHOWN)} | memory |", "|---" * (len(SHOWN) + 2) + "|"]
    for name, found in results.items():
        phases = found["now"].get("phases")
        if phases is not None:
            spent = [f"{phases.get(phase, {'processor_seconds': 0.0})['processor_seconds']:.1f}" for phase in SHOWN]
            lines.append(f"| {name} | {' | '.join(spent)} | {found['now']['memory_gigabytes']:.1f} GB |")
    lines += [
        "",
        "Each version in a fresh process a set, with nothing chosen, by turns on one machine; seconds of all processors together, from "
        "the start of the process to its end. Evaluations are those of the climbs to the parameters that answer; since 0.2 most are of "
        "small parts of the table.",
    ]
    return "\n".join(lines) + "\n"


def scores_of(before: dict[str, Any], now: dict[str, Any]) -> list[tuple[str, str]]:
    """Parts of a set, and the score by which each is compared; nothing is there of a set that failed twice."""
    scores = now.get("scores") or before.get("scores") or {"": {SCORES[0]: math.nan}}
    return [(part, next(score for score in SCORES if score in found)) for part, found in scores.items()]


def in_seconds(found: dict[str, Any]) -> str:
    return f"{found['processor_seconds']:.0f} s" if "processor_seconds" in found else "-"


def in_four(found: dict[str, Any], part: str, score: str) -> str:
    return f"{found['scores'][part][score]:.4g}" if "scores" in found else "-"


def in_all(both: list[dict[str, Any]]) -> str:
    """The sums and the median that the sets are judged by."""
    before, now = (sum(found[who]["processor_seconds"] for found in both) for who in ("before", "now"))
    slower = sum(found["now"]["processor_seconds"] > found["before"]["processor_seconds"] for found in both)
    evaluations = [found["now"]["num_evaluations"] / max(found["before"]["num_evaluations"], 1) for found in both]
    worse = sum(
        found["now"]["scores"][part][score] > EQUAL * found["before"]["scores"][part][score]
        for found in both
        for part, score in scores_of(found["before"], found["now"])
    )
    return (
        f"Sets that both did: {len(both)}. In all {before:.0f} s by 0.1, {now:.0f} s now, a ratio of {now / before:.2f}; {slower} slower "
        f"now, {worse} scores worse by more than {EQUAL - 1:.1%}; evaluations by those of 0.1 {statistics.median(evaluations):.2f} in "
        "the median.".replace("%", " %")
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--sets", nargs="*", default=None, metavar="NAME")
    options.add_argument("--folds", type=int, default=None, help="score the first so many folds only")
    options.add_argument("--limit", type=float, default=3600.0, help="seconds that a set may take")
    options.add_argument("--before", default=COMMIT_OF_0_1, help="a commit of 0.1")
    options.add_argument("--python", default=sys.executable, help="the Python that runs 0.1")
    options.add_argument("--measure", help=argparse.SUPPRESS)
    asked = options.parse_args()
    if asked.measure is not None:
        print(json.dumps(measure(asked.measure, asked.folds)))
        return
    known = names()
    unknown = [name for name in asked.sets or () if name not in known]
    if unknown:
        options.error(f"there is no set {unknown[0]!r}; there are {', '.join(known)}")
    with checked_out(asked.before) as folder:
        versions = {"before": (folder, asked.python), "now": (HERE, sys.executable)}
        for place, python in versions.values():
            run(WARM_UP, place, python, None, asked.limit)
        for name in known if asked.sets is None else asked.sets:
            found: dict[str, Any] = {"load": os.getloadavg(), "folds": asked.folds}
            for who, (place, python) in versions.items():
                found[who] = run(name, place, python, asked.folds, asked.limit)
            results = {**(read_results("phases") or {}), name: found}
            ordered = {each: results[each] for each in known if each in results}
            write_results("phases", ordered)
            (FOLDER / "phases.md").write_text(as_markdown(ordered))
            print(as_markdown({name: found}), flush=True)


if __name__ == "__main__":
    main()
