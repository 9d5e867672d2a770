# SPDX-License-Identifier: MIT
"""How good are weft's defaults on real data, beside naive baselines and GPBoost? One run over every set in ../shared/data.

    python benchmarks/real.py [--only NAME ...] [--peer PYTHON] [--limit SECONDS] [--station]

A tenth of the rows is held out at random. Every set is cut so that a run takes minutes; what was cut is part of the
result. weft runs with its defaults and the transform that its command line chooses. `--peer` names a Python with
gpboost, which gets the same rows, coordinates and transform, its own defaults (Vecchia, Matern in space-time) and so
many seconds; without it, what it did before with the same rows and transform is kept beside weft's new figures.
Results go to benchmarks/results/real.json and real.md after each set, beside those of sets run before.
"""

import argparse
import json
import os
import pathlib
import subprocess
import tempfile
import time

import numpy as np
import pandas as pd
from results import BASELINES, FOLDER, circumstances, write_results

ROOT = pathlib.Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data"
HELD_OUT = 0.1

# File, columns of space, first and last day.
SETS = {
    "ghcn_pnw, paper's box": (
        "ghcn_pnw/paper_box_tmax.parquet",
        ("lat", "lon", "elevation"),
        ("2018-07-07", "2020-05-31"),
    ),
    "ghcn_pnw, HCN": (
        "ghcn_pnw/pnw_hcn_tmax_2000_2018.parquet",
        ("lat", "lon", "elevation"),
        ("2016-01-01", "2016-12-31"),
    ),
    "ghcn_conus": (
        "ghcn_conus/hcn_tmax_2000_2018.parquet",
        ("lat", "lon", "elevation"),
        ("2017-01-01", "2017-06-30"),
    ),
    "beijing_air": (
        "beijing_air/beijing_air_hourly.parquet",
        ("lat", "lon"),
        ("2016-12-01", "2017-02-28"),
    ),
    "germany_pm10": (
        "germany_pm10/germany_pm10_daily.parquet",
        ("lat", "lon"),
        ("2005-01-01", "2006-12-31"),
    ),
    "italy_covid": (
        "italy_covid/italy_covid_daily.parquet",
        ("lat", "lon"),
        ("2021-09-01", "2022-02-28"),
    ),
    "price_paid": ("price_paid/flats_2015_2024.parquet", ("lat", "lon"), ("2018-01-01", "2018-12-31")),
}


def read_set(name: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows to learn from and rows held out."""
    file, space, (first, last) = SETS[name]
    table = pd.read_parquet(DATA / file)
    last_moment = pd.Timestamp(last) + pd.Timedelta("1D")
    table = table[(table["time"] >= first) & (table["time"] < last_moment) & table["value"].notna()]
    table = table[["time", *space, "value"]].astype(dict.fromkeys([*space, "value"], np.float64)).reset_index(drop=True)
    hidden = np.random.default_rng(0).random(len(table)) < HELD_OUT
    return table[~hidden].reset_index(drop=True), table[hidden].reset_index(drop=True)


def chosen_transform(name: str, train: pd.DataFrame) -> str | None:
    """The transform that the command line would choose."""
    from weft.data.inspect import count_table
    from weft.data.tables import as_table

    space = SETS[name][1]
    return count_table(as_table(train), time="time", space=space, target="value").advice.transform


def run_weft(name: str, train: pd.DataFrame, test: pd.DataFrame, transform: str | None, *, by_station: bool) -> dict:
    import weft

    space = SETS[name][1]
    gp = weft.SpaceTimeGP(time="time", space=space, target="value", transform=transform)
    begun, begun_processor = time.perf_counter(), time.process_time()
    gp.fit(train)
    fitted = time.perf_counter()
    gp.predict(test)
    predicted, predicted_processor = time.perf_counter(), time.process_time()
    scores = gp.score(test)
    found = {
        "seconds": predicted - begun,
        "fit_seconds": fitted - begun,
        # Of all threads together: what does not change with what else the machine is doing.
        "processor_seconds": predicted_processor - begun_processor,
        "num_evaluations": gp.result_.num_evaluations,
        "message": gp.result_.message,
        "scores": scores,
        "summary": gp.summary(),
    }
    if by_station:
        tidy = gp.cross_validate(train, by="station", folds=5)
        whole = tidy[tidy["fold"] == "all"]
        found["by_station"] = whole.pivot(index="model", columns="score", values="value").to_dict("index")
    return found


def warm_up() -> None:
    """Compile the engine and the tracer's usual suspects, which happens once on a machine, outside the timings."""
    import weft

    rng = np.random.default_rng(0)
    table = pd.DataFrame({"time": np.repeat(np.arange(20.0), 5), "x": np.tile(rng.normal(size=5), 20)})
    table["value"] = rng.normal(size=100)
    gp = weft.SpaceTimeGP(time="time", space=("x",), target="value", max_iterations=1, progress=None)
    gp.fit(table).predict(table)


def run_peer(
    python: str, name: str, train: pd.DataFrame, test: pd.DataFrame, transform: str | None, limit: float
) -> dict:
    """GPBoost in a process of its own, on standardised columns."""
    space = SETS[name][1]
    with tempfile.TemporaryDirectory() as folder:
        for role, table in (("train", train), ("test", test)):
            table.to_parquet(pathlib.Path(folder) / f"{role}.parquet")
        script = pathlib.Path(__file__).with_name("peer_gpboost.py")
        command = [python, str(script), folder, ",".join(space), transform or "identity"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
        except subprocess.TimeoutExpired:
            return {"failure": f"no result within {limit:.0f} s"}
        if done.returncode:
            return {"failure": (done.stderr.strip().splitlines() or ["no message"])[-1]}
        return json.loads(done.stdout.strip().splitlines()[-1])


def peer_before(earlier: dict | None, found: dict) -> dict | None:
    """What GPBoost did with these rows and this transform, and when, if it ever did."""
    same = ("num_train", "num_test", "transform")
    if earlier is None or "gpboost" not in earlier or any(earlier[name] != found[name] for name in same):
        return None
    return {"circumstances": earlier["circumstances"], **earlier["gpboost"]}


def as_markdown(results: dict) -> str:
    """One line a set: standardised RMSE, standardised mean negative log density, CRPS, coverage and seconds."""
    lines = [
        "| set | rows | weft: RMSE / NLD | 90 % coverage | CRPS, weft | CRPS, best naive | processor s | GPBoost: RMSE / NLD "
        "| processor s |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, found in results.items():
        scores = found["weft"]["scores"]
        naive = min(scores[f"mean_crps_{baseline}"] for baseline in BASELINES)
        peer = found.get("gpboost")
        if peer is None:
            beside = ("not run", "")
        elif "failure" in peer:
            beside = (peer["failure"], "")
        else:
            beside = (
                f"{peer['standardised_rmse']:.3f} / {peer['standardised_mean_negative_log_density']:.3f}",
                f"{peer['processor_seconds']:.0f}",
            )
        lines.append(
            f"| {name} | {found['num_train']:,} + {found['num_test']:,} | {scores['standardised_rmse']:.3f} / "
            f"{scores['standardised_mean_negative_log_density']:.3f} | {scores['coverage_90']:.1%} | "
            f"{scores['mean_crps']:.4g} | {naive:.4g} | {found['weft']['processor_seconds']:.0f} | {beside[0]} | {beside[1]} |"
        )
    lines.append("")
    lines.append(
        "RMSE and NLD (mean negative log density) are of the target in its deviations; with a transform both are of "
        "the target itself, back-transformed. Lower is better. Times are of fit and prediction together, in seconds of all processors "
        "together: the clock on the wall would count what else the machine was doing."
    )
    return "\n".join(lines) + "\n"


def read_earlier() -> dict:
    """Results of sets run before, each with its own commit and machine; those run now replace theirs."""
    path = FOLDER / "real.json"
    return json.loads(path.read_text())["results"] if path.exists() else {}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", nargs="*", default=list(SETS), choices=list(SETS))
    options.add_argument("--peer", help="a Python that can import gpboost")
    options.add_argument("--limit", type=float, default=300.0, help="seconds that the peer may take for a set")
    options.add_argument("--station", action="store_true", help="also cross-validate by station, parameters kept")
    arguments = options.parse_args()
    warm_up()
    results = read_earlier()
    for name in arguments.only:
        if not (DATA / SETS[name][0]).exists():
            print(f"{name}: {SETS[name][0]} is not in ../shared/data; left out")
            continue
        train, test = read_set(name)
        transform = chosen_transform(name, train)
        found = {
            "num_train": len(train),
            "num_test": len(test),
            "days": SETS[name][2],
            "transform": transform,
            "circumstances": circumstances() | {"processors": len(os.sched_getaffinity(0))},
            "weft": run_weft(name, train, test, transform, by_station=arguments.station),
        }
        if arguments.peer is not None:
            found["gpboost"] = run_peer(arguments.peer, name, train, test, transform, arguments.limit)
            found["gpboost"]["circumstances"] = found["circumstances"]
        elif peer := peer_before(results.get(name), found):
            found["gpboost"] = peer
        results[name] = found
        print(as_markdown({name: found}).splitlines()[2], flush=True)
        write_results("real", results)
        (FOLDER / "real.md").write_text(as_markdown(results))


if __name__ == "__main__":
    main()
