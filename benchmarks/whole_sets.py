# SPDX-License-Identifier: MIT
"""Does every real set go from file to report by `weft init` and `weft run` alone, how well, and what does it take?

    python benchmarks/whole_sets.py [--only NAME ...] [--limit SECONDS] [--keep FOLDER]

Each set in ../shared/data is taken whole, by the command line with nothing chosen, in a process of its own. Recorded:
rows, seconds and peak memory of `weft run`, CRPS beside every naive baseline with rows and with stations held out, the
coverage of 90 % intervals, the verdict, the size of the report, and every remark on the way. For the largest set also a
prediction of all its rows. Results go to benchmarks/results/whole_sets.json and whole_sets.md after each set, beside
those of sets run before.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

from results import BASELINES, FOLDER, circumstances, write_results

ROOT = pathlib.Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data"
SETS = {
    "beijing_air": "beijing_air/beijing_air_hourly.parquet",
    "germany_pm10": "germany_pm10/germany_pm10_daily.parquet",
    "italy_covid": "italy_covid/italy_covid_daily.parquet",
    "ghcn_pnw, paper's box": "ghcn_pnw/paper_box_tmax.parquet",
    "ghcn_pnw, HCN": "ghcn_pnw/pnw_hcn_tmax_2000_2018.parquet",
    "price_paid, London": "price_paid/flats_2015_2024.parquet",
    "price_paid, SW19": "price_paid/flats_sw19_2010_2020.parquet",
    "price_paid, January 2016": "price_paid/flats_england_wales_2016_01.parquet",
    "ghcn_conus": "ghcn_conus/hcn_tmax_2000_2018.parquet",
}
PREDICTED_WHOLE = ("ghcn_conus",)


def run_command(arguments: list[str], folder: pathlib.Path, limit: float) -> dict:
    """One call of the command line: what it said, its seconds and its peak memory."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])}
    with (folder / "out.txt").open("w") as out, (folder / "remarks.txt").open("w") as remarks:
        begun = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-m", "weft", *arguments], cwd=folder, stdout=out, stderr=remarks, env=environment
        )
        # wait4 rather than getrusage: the peak of this child alone.
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            if time.perf_counter() - begun > limit:
                process.kill()
                _, status, usage = os.wait4(process.pid, 0)
                break
            time.sleep(0.05)
    return {
        "arguments": arguments,
        "status": os.waitstatus_to_exitcode(status),
        "seconds": time.perf_counter() - begun,
        "processor_seconds": usage.ru_utime + usage.ru_stime,
        "memory_gigabytes": usage.ru_maxrss * 1024 / 1e9,
        "output": (folder / "out.txt").read_text(),
        "remarks": [line for line in (folder / "remarks.txt").read_text().splitlines() if line.startswith("weft:")],
    }


def run_set(name: str, limit: float, keep: pathlib.Path | None) -> dict:
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made)
        table = folder / pathlib.Path(SETS[name]).name
        shutil.copy(DATA / SETS[name], table)
        begun = run_command(["init", table.name], folder, limit)
        if begun["status"]:
            return {"failure": begun}
        done = run_command(["run", "weft.toml", "--json"], folder, limit)
        if done["status"]:
            return {"inferred": begun["output"].splitlines(), "failure": done}
        record = json.loads(done["output"].splitlines()[-1])
        if keep is not None:
            keep.mkdir(parents=True, exist_ok=True)
            shutil.copy(folder / "report.html", keep / f"{table.stem}.html")
        found = {
            "inferred": begun["output"].splitlines(),
            "rows": record["check"]["num_rows"],
            "places": record["check"]["num_places"],
            "times": record["check"]["num_times"],
            "seconds": done["seconds"],
            "processor_seconds": done["processor_seconds"],
            "memory_gigabytes": done["memory_gigabytes"],
            "learning_seconds": record["fit"]["seconds"],
            "message": record["fit"]["message"],
            "verdict": record["verdict"],
            "remarks": done["remarks"],
            "report_megabytes": (folder / "report.html").stat().st_size / 1e6,
            "scores": scores_of(record["scores"]),
            "circumstances": circumstances() | {"processors": len(os.sched_getaffinity(0))},
        }
        if name in PREDICTED_WHOLE:
            asked = ["predict", "model.weft", table.name, "-o", "predictions.parquet", "--json"]
            predicted = run_command(asked, folder, limit)
            found["prediction"] = {
                key: predicted[key] for key in ("status", "seconds", "processor_seconds", "memory_gigabytes")
            }
        return found


def scores_of(lines: list[dict]) -> dict:
    """Scores over all folds, by what was held out and by model."""
    found: dict = {}
    for line in lines:
        if line["fold"] == "all":
            found.setdefault(line["by"], {}).setdefault(line["model"], {})[line["score"]] = line["value"]
    return found


def as_markdown(results: dict) -> str:
    lines = [
        "| set | rows | held out by | CRPS: weft | climatology | nearest | inverse distance | 90 % coverage | processor time | memory |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, found in results.items():
        if "failure" in found:
            lines.append(f"| {name} | failed: status {found['failure']['status']} | | | | | | | | |")
            continue
        for number, (by, models) in enumerate(found["scores"].items()):
            ours = models["weft"]
            others = [models[baseline]["mean_crps"] for baseline in BASELINES]
            best = min(ours["mean_crps"], *others)
            cells = [f"**{value:.4g}**" if value == best else f"{value:.4g}" for value in (ours["mean_crps"], *others)]
            first = number == 0
            lines.append(
                f"| {name if first else ''} | {format(found['rows'], ',') if first else ''} | {by} | {' | '.join(cells)} | "
                f"{ours['coverage_90']:.1%} | {in_minutes(found['processor_seconds']) if first else ''} | "
                f"{format(found['memory_gigabytes'], '.1f') + ' GB' if first else ''} |"
            )
    lines.append("")
    lines.append(
        "Whole files by `weft init` and `weft run` with nothing chosen: processor time (of all cores together; the clock on "
        "the wall would count what else the machine was doing) and peak memory of the run, which fits, cross-validates both "
        "ways and writes the report. The defaults were chosen with parts of these same files in view, and a fold keeps the "
        "parameters learned from all rows: on files never seen, expect a little less. Verdicts:"
    )
    lines.append("")
    lines += [f"- {name}: {found['verdict']}" for name, found in results.items() if "verdict" in found]
    for name, found in results.items():
        if "prediction" in found:
            took = found["prediction"]
            lines.append("")
            lines.append(
                f"`weft predict` of all {found['rows']:,} rows of {name}: {in_minutes(took['processor_seconds'])} of processor "
                f"time, {took['memory_gigabytes']:.1f} GB."
            )
    return "\n".join(lines) + "\n"


def in_minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.1f} min"


def read_earlier() -> dict:
    path = FOLDER / "whole_sets.json"
    return json.loads(path.read_text())["results"] if path.exists() else {}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", nargs="*", default=list(SETS), choices=list(SETS))
    options.add_argument("--limit", type=float, default=3600.0, help="seconds after which a command is given up")
    options.add_argument("--keep", type=pathlib.Path, help="a folder to keep the reports in")
    arguments = options.parse_args()
    for name in arguments.only:
        if not (DATA / SETS[name]).exists():
            print(f"{name}: {SETS[name]} is not in ../shared/data; left out")
            continue
        found = run_set(name, arguments.limit, arguments.keep)
        results = {**read_earlier(), name: found}
        ordered = {each: results[each] for each in SETS if each in results}
        write_results("whole_sets", ordered)
        (FOLDER / "whole_sets.md").write_text(as_markdown(ordered))
        print("\n".join(as_markdown({name: found}).splitlines()[2:]), flush=True)


if __name__ == "__main__":
    main()
