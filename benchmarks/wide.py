# SPDX-License-Identifier: MIT
"""Wide tables: weft with nothing chosen beside what a specialist would try first, on the same rows, in one run.

    python benchmarks/wide.py --peer PYTHON [--only NAME ...] [--limit SECONDS]

Ocean floats of which no place is seen twice, made oceans that differ from each other (`oceans.py`, where the law they were made by
answers too: nobody can do better), and a year of daily maxima at 900 stations with rows and whole stations held out. The rivals: rows
nearest in space and time, local kriging of anomalies, gradient boosting on neighbours' values (LightGBM, where it is installed), and
GPBoost's space-time Matern by a Vecchia approximation, for which `--peer` names a Python that can import gpboost. Results go to
benchmarks/results/wide.json and wide.md, beside those of tables run before.
"""

import argparse
import json
import pathlib
import subprocess
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from oceans import law_scores, oceans_split
from published import argo_split, estimator, us_2017_split
from results import FOLDER, read_results, write_results
from scipy.stats import norm

import weft
from weft.baselines import available_baselines, fit_baseline
from weft.estimator.evaluation import make_sheet, periods_in
from weft.scores import crps_gaussian

Split = tuple[pd.DataFrame, dict[str, pd.DataFrame]]
TABLES: dict[str, tuple[tuple[str, ...], Callable[[], Split]]] = {
    "argo_north_pacific": (("lon", "lat"), argo_split),
    "made_oceans": (("lon", "lat"), oceans_split),
    "us_2017": (("lon", "lat", "elevation"), us_2017_split),
}
RIVALS = ("nearest_rows", "local_kriging", "boosting")
TITLES = {
    "weft": "weft",
    "nearest_rows": "nearest rows",
    "local_kriging": "local kriging",
    "boosting": "gradient boosting on neighbours",
    "gpboost": "GPBoost, Vecchia",
    "law": "the law it was made by",
}
# Of tables that were made, what the best answer scores.
LAWS = {"made oceans": law_scores}


def run(name: str, peer: str | None, limit: float) -> dict[str, dict[str, Any]]:
    """Scores of each part that is held out, by who predicted it."""
    space, split = TABLES[name]
    train, tests = split()
    found: dict[str, dict[str, Any]] = {
        part: {"rows": len(test), "trained on": len(train)} for part, test in tests.items()
    }
    begun = time.process_time()
    gp = estimator(train, *space).fit(train)
    scores = {part: gp.score(test) for part, test in tests.items()}
    seconds = time.process_time() - begun
    for part, each in scores.items():
        found[part]["weft"] = {
            "CRPS": each["mean_crps"],
            "RMSE": each["rmse"],
            "coverage 90 %": each["coverage_90"],
            "processor_seconds": seconds,
        }
    for rival in (each for each in RIVALS if each in available_baselines()):
        for part, each in by_baseline(rival, gp, train, tests).items():
            found[part][rival] = each
    for part, each in by_peer(peer, space, train, tests, limit).items():
        found[part]["gpboost"] = each
    for part in LAWS.keys() & tests.keys():
        begun = time.process_time()
        found[part]["law"] = LAWS[part](train, tests[part]) | {"processor_seconds": time.process_time() - begun}
    return found


def by_baseline(
    rival: str, gp: weft.SpaceTimeGP, train: pd.DataFrame, tests: dict[str, pd.DataFrame]
) -> dict[str, dict[str, float]]:
    """A rival that is among weft's baselines, given times and kilometres as weft reads them."""
    fitted = gp.fitted_

    def sheet(table: pd.DataFrame) -> Any:
        return make_sheet(fitted.read(table), fitted.translation)

    known = sheet(train)
    begun = time.process_time()
    baseline = fit_baseline(
        rival, known.times, known.places, known.values, periods=periods_in(known.times, fitted.translation)
    )
    answers = {}
    for part, test in tests.items():
        asked = sheet(test)
        answers[part] = asked.values, baseline.predict(asked.times, asked.places)
    seconds = time.process_time() - begun
    return {
        part: {
            "CRPS": float(np.mean(crps_gaussian(values, forecast.mean, forecast.sd))),
            "RMSE": float(np.sqrt(np.mean((values - forecast.mean) ** 2))),
            "coverage 90 %": float(np.mean(np.abs(values - forecast.mean) <= norm.ppf(0.95) * forecast.sd)),
            "processor_seconds": seconds,
        }
        for part, (values, forecast) in answers.items()
    }


def by_peer(
    python: str | None, space: tuple[str, ...], train: pd.DataFrame, tests: dict[str, pd.DataFrame], limit: float
) -> dict[str, dict[str, Any]]:
    """GPBoost in a process and an environment of its own."""
    if python is None:
        return {}
    columns = ["time", *space, "value"]
    asked = pd.concat([test[columns].assign(part=part) for part, test in tests.items()])
    with tempfile.TemporaryDirectory() as folder:
        train[columns].to_parquet(pathlib.Path(folder) / "train.parquet")
        asked.to_parquet(pathlib.Path(folder) / "test.parquet")
        script = pathlib.Path(__file__).with_name("peer_gpboost.py")
        command = [python, str(script), folder, ",".join(space), "identity"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
        except subprocess.TimeoutExpired:
            return {part: {"failure": f"no result within {limit:.0f} s"} for part in tests}
    if done.returncode:
        return {part: {"failure": (done.stderr.strip().splitlines() or ["no message"])[-1]} for part in tests}
    answer = json.loads(done.stdout.strip().splitlines()[-1])
    return {
        part: {**answer["parts"][part], "processor_seconds": answer["processor_seconds"], "version": answer["version"]}
        for part in tests
    }


def as_markdown(results: dict[str, dict[str, Any]]) -> str:
    lines = ["| held out | by | CRPS | RMSE | 90 % intervals hold | processor time |", "|---|---|---|---|---|---|"]
    for part, found in results.items():
        present = [who for who in TITLES if who in found]
        rivals = [who for who in present if who != "law"]
        best = min((found[who]["CRPS"] for who in rivals if "CRPS" in found[who]), default=np.nan)
        for number, who in enumerate(present):
            title = f"{part}, {found['rows']:,} rows" if number == 0 else ""
            each = found[who]
            if "failure" in each:
                lines.append(f"| {title} | {TITLES[who]} | {each['failure']} | | | |")
                continue
            crps = f"**{each['CRPS']:.3f}**" if each["CRPS"] == best else f"{each['CRPS']:.3f}"
            held = f"{100 * each['coverage 90 %']:.0f} %" if "coverage 90 %" in each else ""
            taken = f"{each['processor_seconds']:.0f} s"
            lines.append(f"| {title} | {TITLES[who]} | {crps} | {each['RMSE']:.3f} | {held} | {taken} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--peer", help="a Python that can import gpboost")
    options.add_argument("--only", nargs="*", default=list(TABLES), choices=list(TABLES))
    options.add_argument("--limit", type=float, default=900.0, help="seconds that the peer may take for a table")
    arguments = options.parse_args()
    results: dict[str, dict[str, Any]] = dict(read_results("wide"))
    for name in arguments.only:
        results |= run(name, arguments.peer, arguments.limit)
        write_results("wide", results)
        (FOLDER / "wide.md").write_text(as_markdown(results))
    print(as_markdown(results))


if __name__ == "__main__":
    main()
