# SPDX-License-Identifier: MIT
"""Do several targets at once predict better than a model each? Made data where the truth is known, and real ones.

python benchmarks/targets.py [argo beijing made independent]

Values are held out in two ways: "apart", a tenth of each target by itself, so that the others are there where one is missing; "rows",
a tenth of the rows with all their targets.
"""

import pathlib
import sys
import time

import numpy as np
import pandas as pd
from results import read_results, write_results

import weft

DATA = pathlib.Path(__file__).resolve().parents[2] / "shared" / "data"
SCORES = ("mean_crps", "rmse", "mean_negative_log_density", "coverage_90")


def argo() -> tuple[pd.DataFrame, dict]:
    """Ocean temperature at three depths, no place twice."""
    table = pd.read_parquet(DATA / "argo_north_pacific" / "argo_north_pacific.parquet")
    return table, {"time": "time", "space": ("lat", "lon"), "target": ("value", "temp150", "temp200")}


def beijing() -> tuple[pd.DataFrame, dict]:
    """Hourly PM2.5 and PM10 of twelve stations over twelve days of winter."""
    table = pd.read_parquet(DATA / "beijing_air" / "beijing_air_hourly.parquet")
    table = table[(table["time"] >= "2017-01-01") & (table["time"] < "2017-01-13")].reset_index(drop=True)
    options = {"time": "time", "space": ("lat", "lon"), "target": ("value", "pm10"), "transform": "log1p"}
    return table, options | {"components": ("slow", "fast")}


def made(shared: float = 0.8, num_days: int = 120, num_places: int = 25) -> tuple[pd.DataFrame, dict]:
    """Two targets whose fields are alike by `shared`, in different units and noises."""
    rng = np.random.default_rng(3)
    places = rng.uniform(0.0, 10.0, (num_places, 2))
    apart = np.linalg.norm(places[:, None] - places[None], axis=2)
    shape = np.linalg.cholesky(np.exp(-apart / 4.0) + 1e-9 * np.eye(num_places))
    fields = []
    for _ in range(3):
        field = np.zeros((num_days, num_places))
        for day in range(num_days):
            field[day] = 0.7 * field[max(day - 1, 0)] + shape @ rng.normal(size=num_places)
        fields.append(field.ravel())
    mixed = [
        np.sqrt(shared) * fields[0] * sign + np.sqrt(1 - shared) * own
        for sign, own in ((1, fields[1]), (-1, fields[2]))
    ]
    day, place = (
        each.ravel() for each in np.meshgrid(np.arange(float(num_days)), np.arange(num_places), indexing="ij")
    )
    table = pd.DataFrame({"time": day, "x": places[place, 0], "y": places[place, 1]})
    table["first"] = 10 + 2 * mixed[0] + 0.8 * rng.normal(size=len(table))
    table["second"] = 500 + 70 * mixed[1] + 50 * rng.normal(size=len(table))
    return table, {"time": "time", "space": ("x", "y"), "target": ("first", "second")}


def independent() -> tuple[pd.DataFrame, dict]:
    return made(shared=0.0)


def scores_of(gp: weft.SpaceTimeGP, table: pd.DataFrame, target: str, hidden: np.ndarray) -> dict[str, float]:
    scores = gp.score(table[hidden & table[target].notna()])
    return {name: float(scores[name]) for name in SCORES}


def compared(table: pd.DataFrame, options: dict, way: str) -> list[dict]:
    """Scores of held-out values by target, of one model for all and of one each."""
    rng = np.random.default_rng(11)
    rows = table["held_out"].to_numpy() if "held_out" in table else rng.random(len(table)) < 0.1
    targets = options["target"]
    hidden = {target: rows if way == "rows" else rng.random(len(table)) < 0.1 for target in targets}
    known = table.assign(**{target: table[target].where(~hidden[target]) for target in targets})
    started = time.perf_counter()
    together = weft.SpaceTimeGP(**options, progress="log").fit(known)
    seconds = time.perf_counter() - started
    found = []
    for target in targets:
        started = time.perf_counter()
        alone = weft.SpaceTimeGP(**options | {"target": target}, progress="log").fit(known)
        each = {
            "way": way,
            "target": target,
            "rank": together.rank_,
            "seconds_together": seconds,
            "seconds_alone": time.perf_counter() - started,
            "together": scores_of(together.only(target), table, target, hidden[target]),
            "alone": scores_of(alone, table, target, hidden[target]),
        }
        each["crps_ratio"] = each["together"]["mean_crps"] / each["alone"]["mean_crps"]
        print(each, flush=True)
        found.append(each)
    return found


CASES = {"made": made, "independent": independent, "argo": argo, "beijing": beijing}


def main() -> None:
    for name in sys.argv[1:] or CASES:
        table, options = CASES[name]()
        for way in ("apart", "rows"):
            lines = [{"set": name, **line} for line in compared(table, options, way)]
            others = [line for line in read_results("targets") if (line["set"], line["way"]) != (name, way)]
            write_results("targets", others + lines)


if __name__ == "__main__":
    main()
