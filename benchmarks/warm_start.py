# SPDX-License-Identifier: MIT
"""Does a warm start with few pseudo-points save time? Fits of real daily temperatures, cold and warm.

python benchmarks/warm_start.py [--days 300] [--pseudo 30]
"""

import argparse
import pathlib

import jax
import numpy as np
import pandas as pd
from results import write_results

import weft

DATA = pathlib.Path(__file__).resolve().parents[2] / "shared" / "data"


def temperatures(days: int, span: str) -> weft.Observations:
    """Days of the dense core of the Pacific Northwest set: 61 stations, one value a station and day at most."""
    table = pd.read_parquet(DATA / "ghcn_pnw" / "paper_box_tmax.parquet")
    table = table[table["time"] >= span]
    day = (table["time"] - table["time"].min()).dt.days.to_numpy(dtype=float)
    table, day = table[day < days], day[day < days]
    places = np.stack([table["lat"], table["lon"], table["elevation"] / 100], axis=1).astype(float)
    values = table["value"].to_numpy(dtype=float)
    return weft.Observations(day, places, (values - values.mean()) / values.std())


def start_model(data: weft.Observations, num_pseudo: int) -> weft.Model:
    slow = 0.5 * weft.Separable(space=weft.Matern32([1.0, 1.0, 5.0]), time=weft.Matern32(30.0))
    fast = 0.5 * weft.Separable(space=weft.Matern32([1.0, 1.0, 5.0]), time=weft.Matern12(3.0))
    return weft.Model(slow + fast, weft.Gaussian(0.3), weft.place(data, num_pseudo, weights="places"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--days", type=int, default=300)
    parser.add_argument("--pseudo", type=int, default=30)
    arguments = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    data = temperatures(arguments.days, "2018-07-07")
    model = start_model(data, arguments.pseudo)
    print(data, f"{arguments.pseudo} pseudo-points a component", flush=True)
    weft.fit(model, data, max_iterations=1, progress=None)
    rows = {}
    for name, few in (("cold", None), ("warm, 5", 5), ("warm, 10", 10), ("cold again", None)):
        result = weft.fit(model, data, warm_start=few, progress=None)
        warm = result.warm_start
        rows[name] = {
            "seconds": result.seconds,
            "warm_seconds": None if warm is None else warm.seconds,
            "warm_evaluations": None if warm is None else warm.num_evaluations,
            "evaluations": result.num_evaluations,
            "log_evidence": result.log_evidence,
            "message": result.message,
        }
        print(name, rows[name], flush=True)
    write_results(f"warm_start_{arguments.days}_days_{arguments.pseudo}_points", rows)


if __name__ == "__main__":
    main()
