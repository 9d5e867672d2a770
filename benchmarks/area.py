# SPDX-License-Identifier: MIT
"""Four times the area at the same density: how much longer do regions take to answer, and does one of them take more memory?

    python benchmarks/area.py [--repeats 5]

Parameters are given, regions are of one size, and questions are as dense as rows. Rows at places of their own are answered from
matrices of rows, stations seen again and again by chains over time. Both areas are measured in turn after everything is compiled; seconds
are the processor's, and compared by their least. Regions are kept for the next question up to half a gigabyte of them, which the
memory of the process shows. And a
million distinct places, half of them crowded, are cut into as many regions as take least. Results go to benchmarks/results/area.json.
"""

import argparse
import time
from typing import Any

import jax
import numpy as np
from memory import resident_megabytes
from results import write_results

import weft
from weft.inference.cuts import cut
from weft.inference.division import divide
from weft.inference.regional import RegionalPosterior, condition_regions

# Of the small area; the large one has four times as much.
SIDE = 6.0
ROWS, REGIONS_OF_ROWS = 6_000, 40
STATIONS, TIMES, REGIONS_OF_STATIONS = 160, 60, 8


def model() -> weft.Model:
    return weft.Model(
        weft.Separable(space=weft.Matern32(1.0), time=weft.Matern32(4.0))
        + 0.4 * weft.Separable(space=weft.Matern12(0.5), time=weft.Matern12(1.5)),
        weft.Gaussian(0.15),
    )


def problem(kind: str, factor: int) -> tuple[RegionalPosterior, tuple[np.ndarray, np.ndarray]]:
    """Regions of an area so many times as large, and what they are asked."""
    rng = np.random.default_rng(factor)
    side = SIDE * np.sqrt(factor)
    if kind == "rows":
        times, places = rng.uniform(0, 30, ROWS * factor), rng.uniform(0, side, (ROWS * factor, 2))
        regions = REGIONS_OF_ROWS * factor
    else:
        stations = rng.uniform(0, side, (STATIONS * factor, 2))
        times = np.repeat(np.arange(float(TIMES)), len(stations))
        places = np.tile(stations, (TIMES, 1))
        regions = REGIONS_OF_STATIONS * factor
    data = weft.Observations(times, places, rng.normal(size=len(times)))
    asked = rng.choice(times, len(times) // 4), rng.uniform(0, side, (len(times) // 4, 2))
    return condition_regions(model(), data, num_regions=regions), asked


def measure(kind: str, repeats: int) -> dict[str, Any]:
    """Of both areas in turn, so that what else the machine does troubles both."""
    jax.config.update("jax_enable_x64", True)
    found: dict[int, dict[str, Any]] = {}
    seconds: dict[int, list[float]] = {1: [], 4: []}
    for repeat in range(1 + repeats):
        for factor in seconds:
            begun = time.process_time()
            posterior, asked = problem(kind, factor)
            posterior.marginals(*asked)
            if repeat > 0:
                seconds[factor].append(time.process_time() - begun)
            else:
                found[factor] = {
                    "rows": posterior.rows.num_rows,
                    "regions": posterior.num_regions,
                    "most rows a region sees": max(len(region.rows) for region in posterior.division.regions),
                    "megabytes at most so far": resident_megabytes("VmHWM"),
                }
    for factor, each in found.items():
        each["processor_seconds"] = seconds[factor]
    ratio = min(seconds[4]) / min(seconds[1])
    return {"area 1": found[1], "area 4": found[4], "times as long": ratio}


def million() -> dict[str, dict[str, float]]:
    """A million places cut and told who sees whom: rows each at a time of its own, and stations seen twice."""
    rng = np.random.default_rng(0)
    places = rng.uniform(0, 1000, (1_000_000, 2))
    places[::2] /= 5
    made = {
        "rows": weft.Observations(rng.uniform(0, 10, len(places)), places, np.zeros(len(places))),
        "stations": weft.Observations(
            np.repeat([0.0, 1.0], len(places)), np.tile(places, (2, 1)), np.zeros(2 * len(places))
        ),
    }
    found = {}
    for kind, data in made.items():
        begun = time.process_time()
        cut(places, 10_000)
        between = time.process_time()
        regions = divide(model(), data).regions
        found[kind] = {
            "processor seconds of cuts": between - begun,
            "processor seconds in all": time.process_time() - between,
            "regions": len(regions),
        }
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--repeats", type=int, default=5)
    repeats = options.parse_args().repeats
    found = {kind: measure(kind, repeats) for kind in ("rows", "stations")}
    for kind, each in found.items():
        print(f"{kind}: four times the area takes {each['times as long']:.2f} times as long")
    write_results("area", found | {"a million places": million()})


if __name__ == "__main__":
    main()
