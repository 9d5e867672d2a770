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
MAP = ("lat", "lon")
HILLS = (*MAP, "elevation")
# File, columns of space, first and last day.
OF_FILES = {
    "argo_north_pacific": ("argo_north_pacific/argo_north_pacific.parquet", MAP, None),
    "germany_pm10, two weeks": ("germany_pm10/germany_pm10_daily.parquet", MAP, ("2006-01-01", "2006-01-14")),
    "germany_pm10, a year": ("germany_pm10/germany_pm10_daily.parquet", MAP, ("2005-01-01", "2005-12-31")),
    "beijing_air, two months": ("beijing_air/beijing_air_hourly.parquet", MAP, ("2014-01-01", "2014-02-28")),
    "italy_covid, a year": ("italy_covid/italy_covid_daily.parquet", MAP, ("2021-01-01", "2021-12-31")),
    "ghcn_pnw, two years": ("ghcn_pnw/paper_box_tmax.parquet", HILLS, ("2018-07-07", "2020-05-31")),
    "croatia": ("published/croatia/table.parquet", HILLS, None),
    "price_paid, SW19": ("price_paid/flats_sw19_2010_2020.parquet", MAP, None),
    "price_paid, January": ("price_paid/flats_england_wales_2016_01.parquet", MAP, None),
    "us_2017": ("us_2017/split.parquet", HILLS, None),
    "heaton": ("published/heaton/table.parquet", MAP, None),
}
# Every so many rows of another, and the first days by their counts.
THINNED = {
    "argo_north_pacific, thinned": ("argo_north_pacific", 10),
    "price_paid, SW19, thinned": ("price_paid, SW19", 13),
}
COUNTED = {"italy_covid, counts": ("italy_covid, a year", "2021-01-14", "negative_binomial")}
SMALL = {"demo, 300 rows": (10, 30), "demo, 650 rows": (25, 30), "demo, 1,280 rows": (25, 60)}
SETS = (*SMALL, *THINNED, *COUNTED, *OF_FILES)


def load(name):
    """The table, and the estimator that `weft fit` would fit to it."""
    import pandas as pd
    import published

    import weft.demo

    if name in SMALL:
        stations, days = SMALL[name]
        table = weft.demo.temperatures(stations=stations, days=days)
        return table, estimator(table, "date", HILLS, "tmax")
    if name in THINNED:
        whole, every = THINNED[name]
        table, gp = load(whole)
        return table.iloc[::every].reset_index(drop=True), gp
    if name in COUNTED:
        whole, last, likelihood = COUNTED[name]
        table, gp = load(whole)
        return table[table["time"] <= last], gp.set_params(likelihood=likelihood, transform=None)
    file, space, days = OF_FILES[name]
    table = published.us_2017_split()[0] if name == "us_2017" else pd.read_parquet(DATA / file)
    if days is not None:
        first, last = map(pd.Timestamp, days)
        table = table[(table["time"] >= first) & (table["time"] < last + pd.Timedelta("1D"))]
    if "held_out" in table:
        table = table[~table["held_out"]]
    elif name == "heaton":
        table = table[table["fold"] == 0]
    table = table[["time", *space, "value"]]
    return table, estimator(table, "time", space, "value")


def estimator(table, time, space, target):
    import weft

    return weft.survey(table, time=time, space=space, target=target).estimator().set_params(progress=None)


def measure(name, what, clock):
    from weft.project.cost import cost_of
    from weft.project.prepared import prepare

    table, gp = load(name)
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

    for name in arguments.sets:
        found = {}
        for what in ("check", "fit"):
            command = [sys.executable, __file__, "--one", name, what, *(["--processor"] if arguments.processor else [])]
            output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            found |= json.loads(output.splitlines()[-1])
        # Read again, since another run may measure other sets beside this one.
        results = dict(read_results("fit_time") or {})
        results[name] = found | {"ratio": found["estimated"] / found["measured"], "by_processor": arguments.processor}
        print(f"{name:26s} {found['estimated']:6.1f} s estimated, {found['measured']:6.1f} s measured", flush=True)
        write_results("fit_time", {each: results[each] for each in SETS if each in results})


if __name__ == "__main__":
    main()
