# SPDX-License-Identifier: MIT
"""Does an audit find faults that were planted in real tables, of each kind, and nothing else?

    python benchmarks/audit.py [--sets NAME ...] [--seeds N ...]

Every kind is planted at once, the model is fitted to the table with its faults, but for the rows that a fit refuses (codes, values that
the transform has none for, latitudes beyond the pole), and all of it is audited. What real tables have of their own faults nobody knows:
rows that are listed in the table as it was too are counted apart, neither for nor against.
"""

import argparse
import collections
import json
import pathlib
import subprocess
import sys
import time

import numpy as np
import pandas as pd
from results import read_results, write_results

import weft

DATA = pathlib.Path(__file__).resolve().parents[2] / "shared" / "data"
NUM_SINGLE, STUCK, COPIED, SHIFT = 12, 12, 30, 3
CODE, FAHRENHEIT, COPIED_WORDS = -9999.0, "unit", "copied from another station"


def stretch(name: str, column: str, first: str, last: str, most: int = 45) -> pd.DataFrame:
    """Some months of a set, at stations that hardly miss a row."""
    table = pd.read_parquet(DATA / name)
    table = table[table["time"].between(first, last)]
    table = table[["time", "station", "lon", "lat", *(["elevation"] if "elevation" in table else []), column]].dropna()
    counts = table.groupby("station").size()
    # Always the same stations, spread over the map as they come.
    full = counts.index[counts > 0.8 * counts.max()]
    kept = np.random.default_rng(0).permutation(full)[:most]
    table = table[table["station"].isin(kept)].rename(columns={column: "value"})
    return table.sort_values(["time", "station"]).reset_index(drop=True)


def made(seed: int = 3, num_days: int = 120, num_places: int = 36) -> pd.DataFrame:
    """Concentrations whose logarithm is a field of days and places: what neighbours say of it is known."""
    rng = np.random.default_rng(seed)
    lon, lat = rng.uniform(8.0, 12.0, num_places), rng.uniform(46.0, 49.0, num_places)
    apart = np.hypot(lon[:, None] - lon, lat[:, None] - lat)
    shape = np.linalg.cholesky(0.36 * np.exp(-apart / 2.0) + 1e-9 * np.eye(num_places))
    field = np.zeros((num_days, num_places))
    field[0] = shape @ rng.normal(size=num_places)
    for day in range(1, num_days):
        field[day] = 0.8 * field[day - 1] + 0.6 * (shape @ rng.normal(size=num_places))
    value = 20.0 * np.exp(field + 0.25 * rng.normal(size=field.shape) + 0.3 * rng.normal(size=num_places))
    return pd.DataFrame(
        {
            "time": np.repeat(pd.date_range("2022-01-01", periods=num_days), num_places),
            "station": np.tile(np.arange(num_places), num_days),
            "lon": np.tile(lon, num_days),
            "lat": np.tile(lat, num_days),
            "value": np.round(value, 1).ravel(),
        }
    )


SETS = {
    "made concentrations": made,
    "German PM10, 2005": lambda: stretch(
        "germany_pm10/germany_pm10_daily.parquet", "value", "2005-01-01", "2005-06-30"
    ),
    "German PM10, 2008": lambda: stretch(
        "germany_pm10/germany_pm10_daily.parquet", "value", "2008-06-01", "2008-11-30"
    ),
    "Beijing PM2.5": lambda: stretch("beijing_air/beijing_air_hourly.parquet", "value", "2014-01-01", "2014-01-21"),
    "Beijing PM10": lambda: stretch("beijing_air/beijing_air_hourly.parquet", "pm10", "2015-06-01", "2015-06-21"),
    "Beijing NO2": lambda: stretch("beijing_air/beijing_air_hourly.parquet", "no2", "2016-03-01", "2016-03-21"),
    "Beijing ozone": lambda: stretch("beijing_air/beijing_air_hourly.parquet", "o3", "2015-07-01", "2015-07-21"),
    "north-west US tmax": lambda: stretch(
        "ghcn_pnw/pnw_hcn_tmax_2000_2018.parquet", "value", "2016-03-01", "2016-06-30"
    ),
}


def planted(table: pd.DataFrame, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """The table with faults of every kind that makes sense for its values, and each row's fault: "" where there is none."""
    rng = np.random.default_rng(seed)
    wrong, fault = table.copy(), np.full(len(table), "", dtype=object)
    values = wrong["value"].to_numpy().copy()
    stations = rng.permutation(table["station"].unique())
    of_station = {name: np.flatnonzero(table["station"] == name) for name in stations}
    is_temperature = bool(np.any(values < 0))
    # A station each for what lasts; single faults at the others.
    lasting = ("stuck", "copied", "shifted", "swapped", "jump", *([FAHRENHEIT] if is_temperature else []))
    at = dict(zip(lasting, stations, strict=False))
    others = [name for name in stations if name not in at.values()]
    # A mistake that makes no difference is none: zero, or a Fahrenheit that nearly is the Celsius it should be.
    telling = np.abs(values) > np.quantile(np.abs(values), 0.1)
    free = rng.permutation(np.flatnonzero(table["station"].isin(others) & telling))
    kinds = ["code", "sign", "large", "small", "rounded", *([FAHRENHEIT] if is_temperature else [])]
    # Rounded to the decimals of the table, a value that lost its point shows no more than its size.
    decimals = next(number for number in range(7) if np.allclose(np.round(values, number), values, atol=1e-5))
    for kind in kinds:
        some, free = free[:NUM_SINGLE], free[NUM_SINGLE:]
        own = values[some]
        changed = {
            "code": 0 * own + CODE,
            "sign": -own,
            "large": own * 10,
            "small": own / 10,
            "rounded": np.round(own / 10, decimals),
            FAHRENHEIT: own * 1.8 + 32,
        }
        values[some], fault[some] = changed[kind], kind

    def part(kind: str, num: int) -> np.ndarray:
        rows = of_station[at[kind]]
        start = int(rng.integers(0, len(rows) - num))
        return rows[start : start + num]

    rows = part("stuck", STUCK)
    # The first of a run was measured.
    values[rows[1:]], fault[rows[1:]] = values[rows[0]], "stuck"
    rows = part("copied", COPIED)
    by_time = dict(zip(table["time"].iloc[of_station[others[0]]], values[of_station[others[0]]], strict=True))
    rows = rows[[when in by_time and by_time[when] > CODE for when in table["time"].iloc[rows]]]
    values[rows], fault[rows] = [by_time[when] for when in table["time"].iloc[rows]], "copied"
    rows = of_station[at["shifted"]]
    values[rows], fault[rows] = np.roll(values[rows], SHIFT), "shifted"
    rows = of_station[at["jump"]]
    later = rows[len(rows) * 3 // 5 :]
    spread = float(np.std(np.log(values[rows]) if values[rows].min() > 0 else values[rows]))
    values[later] = values[later] * np.exp(1.5 * spread) if values[rows].min() > 0 else values[later] + 1.5 * spread
    fault[later] = "jump"
    if is_temperature:
        rows = part(FAHRENHEIT, COPIED)
        values[rows], fault[rows] = values[rows] * 1.8 + 32, FAHRENHEIT
    wrong["value"] = values
    rows = of_station[at["swapped"]]
    fault[rows] = "swapped"
    wrong.loc[rows, ["lon", "lat"]] = table.loc[rows, ["lat", "lon"]].to_numpy()
    # What was observed at another time, once more.
    some = free[:NUM_SINGLE]
    again = wrong.iloc[some].copy()
    again["value"] = [rng.choice(values[of_station[name]]) for name in again["station"]]
    again = again[again["value"].to_numpy() != values[some]]
    wrong = pd.concat([wrong, again], ignore_index=True)
    return wrong, np.concatenate([fault, np.full(len(again), "twice", dtype=object)])


WORDS = {
    "code": "code",
    "sign": "sign",
    "large": "10 times too large",
    "small": "10 times too small",
    "rounded": "10 times too small",
    FAHRENHEIT: "Fahrenheit for Celsius",
    "stuck": "stuck",
    "copied": "copied",
    "shifted": "dates shifted",
    "swapped": "swapped",
    "jump": "jump",
    "twice": "observed twice",
}


def acceptable(table: pd.DataFrame, transform: str) -> np.ndarray:
    possible = (table["value"] != CODE) & (table["lat"].abs() <= 90)
    return (possible & ((table["value"] > 0) | (transform == "identity"))).to_numpy()


def measured(name: str, seed: int | None) -> dict:
    """Recall and precision of one audit; of the table as it is, the rows listed."""
    table = SETS[name]()
    wrong, fault = (table, np.full(len(table), "", dtype=object)) if seed is None else planted(table, seed)
    # The transform that suits the target is that of sound values: one that is negative would rule out all that help.
    survey = weft.survey(table, time="time", space=("lat", "lon"), target="value")
    gp = survey.estimator().set_params(progress=None)
    begun = time.process_time()
    gp.fit(wrong[acceptable(wrong, gp.transform)])
    fitted = time.process_time() - begun
    found = gp.audit(wrong)
    cause = np.full(len(wrong), "", dtype=object)
    cause[found["row"]] = found["cause"]
    # Of two rows at a time and place either may be listed: nobody knows which was first.
    where = wrong.groupby(["time", "station"], sort=False).ngroup().to_numpy()
    twice = np.isin(where, where[fault == "twice"]) & (fault == "")
    listed = np.isin(where, where[twice & (cause != "")])
    # So it is with two stations that report the same: where the values fit the copy better, nobody could tell.
    copied = np.flatnonzero(fault == "copied")
    same_value = wrong.groupby(["time", "value"], sort=False).ngroup().to_numpy()
    source = (fault == "") & np.isin(same_value, same_value[copied]) & (cause == COPIED_WORDS)
    either = collections.defaultdict(lambda: False, twice=listed, copied=np.isin(same_value, same_value[source]))
    return {
        "set": name,
        "seed": seed,
        "num_rows": len(wrong),
        "transform": gp.transform,
        "fit_seconds": fitted,
        "audit_seconds": time.process_time() - begun - fitted,
        "kinds": {
            kind: {
                "planted": int(np.sum(fault == kind)),
                "found": int(np.sum((fault == kind) & ((cause != "") | either[kind]))),
                "named": int(sum(words in cause[row] for row in np.flatnonzero(fault == kind))),
            }
            for kind, words in WORDS.items()
            if np.any(fault == kind)
        },
        "listed": {
            int(row): str(cause[row]) for row in np.flatnonzero((cause != "") & (fault == "") & ~twice & ~source)
        },
        "num_listed": len(found),
    }


def summary(lines: list[dict]) -> None:
    """Over all seeds of a set."""
    for name in dict.fromkeys(line["set"] for line in lines):
        own = [line for line in lines if line["set"] == name]
        as_it_is = next((set(line["listed"]) for line in own if line["seed"] is None), set())
        seeded = [line for line in own if line["seed"] is not None]
        if not seeded:
            continue
        kinds = dict.fromkeys(kind for line in seeded for kind in line["kinds"])
        cells = []
        for kind in kinds:
            planted_, found, named = (
                sum(line["kinds"].get(kind, {}).get(what, 0) for line in seeded)
                for what in ("planted", "found", "named")
            )
            cells.append(f"{kind} {found / planted_:.0%} ({named / planted_:.0%})")
        right = sum(each["found"] for line in seeded for each in line["kinds"].values())
        whole = sum(each["planted"] for line in seeded for each in line["kinds"].values())
        false = sum(len(set(line["listed"]) - as_it_is) for line in seeded)
        apart = sum(len(set(line["listed"]) & as_it_is) for line in seeded)
        print(
            f"{name} ({seeded[0]['transform']}, {len(seeded)} seeds): recall {right / whole:.3f}, "
            f"precision {right / max(right + false, 1):.3f} ({right / max(right + false + apart, 1):.3f} with rows listed in the "
            f"table as it is, of which there are {len(as_it_is)})\n    " + ", ".join(cells)
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    parser.add_argument("--seeds", nargs="*", type=int, default=[1, 2, 3])
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--summary", action="store_true", help="print what was measured last")
    arguments = parser.parse_args()
    if arguments.one is not None:
        name, seed = arguments.one
        print(json.dumps(measured(name, None if seed == "none" else int(seed))))
        return
    for name in [] if arguments.summary else arguments.sets:
        for seed in ("none", *arguments.seeds):
            command = [sys.executable, __file__, "--one", name, str(seed)]
            line = json.loads(
                subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1]
            )
            others = [each for each in read_results("audit") if (each["set"], each["seed"]) != (name, line["seed"])]
            write_results("audit", [*others, line])
    summary(read_results("audit"))


if __name__ == "__main__":
    main()
