# SPDX-License-Identifier: MIT
"""How much longer does a fit take whose noise is not Gaussian? Seconds of the processor beside those of a Gaussian fit of the same rows.

    python benchmarks/likelihoods.py [--tables NAME ...] [--likelihoods NAME ...] [--repeat N]

Each fit has a process of its own, with what that has to compile, and the default estimator; one process after another. A tenth of the
rows and a tenth of the places are held out, and scores of both are beside the times. Of several repeats the least time counts.
Results go to benchmarks/results/likelihoods.json, beside those of tables not run this time.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import time

from results import read_results, write_results

DATA = pathlib.Path(__file__).resolve().parents[2] / "shared" / "data"
COLUMNS = {"time": "time", "space": ("lat", "lon"), "target": "value"}
HELD_OUT = 0.1

ITALY = ("gaussian", "poisson", "negative_binomial", "student_t")
TABLES = {
    "Italian counts, 44 provinces in 92 days": ITALY,
    "Italian counts, 107 provinces in 181 days": ITALY,
    "German PM10, a year": ("gaussian", "student_t"),
    "German PM10 above 30, a year": ("gaussian", "bernoulli"),
}


def load(name):
    import pandas as pd

    if name.startswith("Italian"):
        table = pd.read_parquet(DATA / "italy_covid" / "italy_covid_daily.parquet")
        first, last = ("2021-10-01", "2021-12-31") if "44" in name else ("2021-09-01", "2022-02-28")
        table = table[table["time"].between(first, last)].dropna(subset=["value"])
        provinces = sorted(table["station"].unique())[: 44 if "44" in name else None]
        return table[table["station"].isin(provinces)][["time", "lat", "lon", "value"]].reset_index(drop=True)
    table = pd.read_parquet(DATA / "germany_pm10" / "germany_pm10_daily.parquet")
    table = table[table["time"].between("2005-01-01", "2005-12-31")].dropna(subset=["value"]).reset_index(drop=True)
    if "above" in name:
        table["value"] = (table["value"] > 30).astype(float)
    return table[["time", "lat", "lon", "value"]]


def parts_of(table):
    """Rows to learn from, rows held out one by one, and rows of places held out whole."""
    import numpy as np

    rng = np.random.default_rng(0)
    place = table.groupby(["lat", "lon"], sort=True).ngroup().to_numpy()
    count = place.max() + 1
    with_place = np.isin(place, rng.permutation(count)[: max(1, round(HELD_OUT * count))])
    alone = ~with_place & (rng.random(len(table)) < HELD_OUT)
    return table[~(alone | with_place)], table[alone], table[with_place]


def measure(name, likelihood):
    """One fit in this process, and what it is worth."""
    import weft

    learned, alone, with_place = parts_of(load(name))
    gp = weft.SpaceTimeGP(**COLUMNS, likelihood=likelihood, progress=None)
    begun = time.process_time()
    gp.fit(learned)
    fitted = time.process_time()
    scores = {kind: scores_of(gp, rows) for kind, rows in (("rows", alone), ("places", with_place))}
    return {
        "fit": fitted - begun,
        "predict": time.process_time() - fitted,
        "num_rows": len(learned),
        "num_evaluations": gp.result_.num_evaluations,
        "num_engine_calls": gp.result_.num_engine_calls,
        "num_blocks": gp.result_.num_blocks,
        "log_evidence": gp.result_.log_evidence,
        "components": list(gp.component_names_),
        "scores": scores,
    }


def scores_of(gp, rows):
    """None where predictions have no mean: heavy tails may have been learned to be as heavy as that."""
    try:
        return gp.score(rows)
    except ValueError as error:
        print(error, file=sys.stderr)
        return None


def in_a_process(name, likelihood):
    command = [sys.executable, __file__, "--measure", name, likelihood]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"failure": (done.stderr.strip().splitlines() or ["no message"])[-1]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="*", default=list(TABLES))
    parser.add_argument("--likelihoods", nargs="*", default=None)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--measure", nargs=2, metavar=("TABLE", "LIKELIHOOD"))
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(*arguments.measure)))
        return
    kept = {result["table"]: result for result in read_results("likelihoods")}
    for name in arguments.tables:
        found = {}
        for likelihood in TABLES[name]:
            if arguments.likelihoods and likelihood not in ("gaussian", *arguments.likelihoods):
                continue
            tries = [in_a_process(name, likelihood) for _ in range(arguments.repeat)]
            found[likelihood] = min(tries, key=lambda each: each.get("fit", float("inf")))
            own = found[likelihood]
            if "failure" not in own and "failure" not in found["gaussian"]:
                own["ratio"] = own["fit"] / found["gaussian"]["fit"]
                told = {kind: scores and round(scores["mean_crps"], 4) for kind, scores in own["scores"].items()}
                print(f"{name}: {likelihood} {own['fit']:.1f} s, {own['ratio']:.2f} times Gaussian, CRPS {told}")
            else:
                print(f"{name}: {likelihood} {own.get('failure', 'fitted, the Gaussian was not')}")
        kept[name] = {"table": name, "likelihoods": found}
        write_results("likelihoods", list(kept.values()))


if __name__ == "__main__":
    main()
