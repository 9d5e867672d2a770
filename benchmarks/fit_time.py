# SPDX-License-Identifier: MIT
"""Does `weft check` tell how long a fit then takes? Seconds estimated and measured, each in a fresh process.

    python benchmarks/fit_time.py [--processor] [--sets "demo, 300 rows"]

By the clock of a machine that does nothing else; on a busy one by the processor's seconds, of the trial and of the fit.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import time

DATA = pathlib.Path(__file__).resolve().parents[2] / "shared" / "data"
STATIONS = {"time": "time", "space": ("lat", "lon"), "target": "value"}
SETS = ("demo, 300 rows", "demo, 1,280 rows", "argo_north_pacific", "germany_pm10, a year", "beijing_air, two months")


def load(name):
    import pandas as pd

    import weft.demo

    if name.startswith("demo"):
        shape = {"stations": 10, "days": 30} if "300" in name else {"stations": 25, "days": 60}
        return weft.demo.temperatures(**shape), {
            "time": "date",
            "space": ("lat", "lon", "elevation"),
            "target": "tmax",
        }
    if name.startswith("argo"):
        table = pd.read_parquet(DATA / "argo_north_pacific" / "argo_north_pacific.parquet")
        return table[~table["held_out"]], STATIONS
    if name.startswith("germany"):
        table = pd.read_parquet(DATA / "germany_pm10" / "germany_pm10_daily.parquet")
        return table[table["time"].between("2005-01-01", "2005-12-31")], STATIONS
    table = pd.read_parquet(DATA / "beijing_air" / "beijing_air_hourly.parquet")
    return table[table["time"].between("2014-01-01", "2014-02-28")], STATIONS | {"transform": "log"}


def measure(name, what, clock):
    import weft
    from weft.project.cost import cost_of
    from weft.project.prepared import prepare

    table, arguments = load(name)
    gp = weft.SpaceTimeGP(**arguments, progress=None)
    begun = clock()
    if what == "check":
        cost = cost_of(prepare(gp.get_params(), table), clock)
        return {"estimated": cost.fit_seconds, "check": clock() - begun, "num_rows": len(table)}
    gp.fit(table)
    return {"measured": clock() - begun}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    parser.add_argument("--processor", action="store_true")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one is not None:
        clock = time.process_time if arguments.processor else time.perf_counter
        print(json.dumps(measure(*arguments.one, clock)))
        return
    from results import read_results, write_results

    results = dict(read_results("fit_time"))
    for name in arguments.sets:
        found = {}
        for what in ("check", "fit"):
            command = [sys.executable, __file__, "--one", name, what, *(["--processor"] if arguments.processor else [])]
            output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            found |= json.loads(output.splitlines()[-1])
        results[name] = found | {"ratio": found["estimated"] / found["measured"], "by_processor": arguments.processor}
        print(f"{name:26s} {found['estimated']:6.1f} s estimated, {found['measured']:6.1f} s measured", flush=True)
        write_results("fit_time", results)


if __name__ == "__main__":
    main()
