# SPDX-License-Identifier: MIT
"""Rain by its own likelihood, and by a Gaussian of its square root: made sets of several kinds, and real ones.

python benchmarks/rain.py [drizzle convective monsoon two_fields own northwest beijing] [--seeds 0 1]

A fifth of the values is held out, nothing else is chosen. Log scores of both count a zero by its probability.
"""

import argparse
import pathlib
import time
from collections.abc import Callable

import numpy as np
import pandas as pd
from results import read_results, write_results

import weft

DATA = pathlib.Path(__file__).resolve().parents[2] / "shared" / "data"
SCORES = ("mean_negative_log_density", "mean_crps", "rmse", "coverage_90")
WAYS = {"rain": {"likelihood": "rain"}, "root": {"transform": "sqrt"}}
MADE_OPTIONS = {"time": "time", "space": ("x", "y"), "target": "rain"}
NUM_PLACES, NUM_DAYS, WIDE = 24, 80, 100.0


def stations(rng: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray]:
    """A row for every place and day, and the places."""
    places = rng.uniform(0.0, WIDE, (NUM_PLACES, 2))
    day, place = (
        each.ravel() for each in np.meshgrid(np.arange(float(NUM_DAYS)), np.arange(NUM_PLACES), indexing="ij")
    )
    return pd.DataFrame({"time": day, "x": places[place, 0], "y": places[place, 1]}), places


def field(rng: np.random.Generator, places: np.ndarray, length: float, memory: float) -> np.ndarray:
    """Of unit variance, rough in space, forgetting from day to day; by day and place."""
    apart = np.linalg.norm(places[:, None] - places[None], axis=2)
    root = np.linalg.cholesky(np.exp(-apart / length) + 1e-9 * np.eye(len(places)))
    draws = rng.normal(size=(NUM_DAYS, len(places))) @ root.T
    for day in range(1, NUM_DAYS):
        draws[day] = memory * draws[day - 1] + np.sqrt(1 - memory**2) * draws[day]
    return draws


def drizzle(rng: np.random.Generator) -> tuple[pd.DataFrame, dict]:
    """Half the days have a little, told to a tenth of a millimetre."""
    table, places = stations(rng)
    wetness = field(rng, places, 80.0, 0.6)
    amount = rng.gamma(2.0, 0.5 * np.exp(0.6 * wetness))
    wet = wetness + 0.4 * rng.normal(size=wetness.shape) > 0.0
    return table.assign(rain=np.round(np.where(wet, amount, 0.0), 1).ravel()), MADE_OPTIONS


def convective(rng: np.random.Generator) -> tuple[pd.DataFrame, dict]:
    """Cells that drift for a day or two; five values in six are none, and a few are large."""
    table, places = stations(rng)
    rain = np.zeros((NUM_DAYS, len(places)))
    for _ in range(rng.poisson(0.9 * NUM_DAYS)):
        centre, radius = rng.uniform(-10.0, WIDE + 10.0, 2), rng.uniform(6.0, 22.0)
        strength, begun = rng.lognormal(2.2, 0.8), rng.integers(NUM_DAYS)
        for day in range(begun, min(begun + rng.integers(1, 3), NUM_DAYS)):
            rain[day] += strength * np.exp(-0.5 * np.sum((places - centre) ** 2, axis=1) / radius**2)
            centre = centre + rng.normal(0.0, 15.0, 2)
    rain *= rng.gamma(6.0, 1 / 6.0, rain.shape)
    return table.assign(rain=np.round(np.where(rain < 0.5, 0.0, rain), 1).ravel()), MADE_OPTIONS


def monsoon(rng: np.random.Generator) -> tuple[pd.DataFrame, dict]:
    """Dry weeks and wet ones, in which it rains on most days, by log-normal amounts."""
    table, places = stations(rng)
    season = 1.6 * np.sin(2 * np.pi * np.arange(NUM_DAYS) / NUM_DAYS)[:, None]
    wetness = season + 0.8 * field(rng, places, 120.0, 0.5) - 0.7
    wet = rng.random(wetness.shape) < 1 / (1 + np.exp(-3 * wetness))
    amount = np.exp(1.0 + 0.8 * wetness + 0.7 * rng.normal(size=wetness.shape))
    return table.assign(rain=np.where(wet, amount, 0.0).ravel()), MADE_OPTIONS


def two_fields(rng: np.random.Generator) -> tuple[pd.DataFrame, dict]:
    """Whether it rains and how much have little to do with each other; seven values in ten are none."""
    table, places = stations(rng)
    whether, much = field(rng, places, 60.0, 0.7), field(rng, places, 60.0, 0.7)
    wet = rng.random(whether.shape) < 1 / (1 + np.exp(-(2.5 * whether - 1.6)))
    amount = rng.gamma(1.2, 3.0 * np.exp(0.3 * whether + 0.5 * much))
    return table.assign(rain=np.where(wet, amount, 0.0).ravel()), MADE_OPTIONS


def own(rng: np.random.Generator) -> tuple[pd.DataFrame, dict]:
    """As the likelihood has it, with a power of 2.5."""
    table, places = stations(rng)
    latent = 1.2 * field(rng, places, 80.0, 0.6) - 0.4 + 0.5 * rng.normal(size=(NUM_DAYS, NUM_PLACES))
    return table.assign(rain=(np.maximum(latent, 0.0) ** 2.5).ravel()), MADE_OPTIONS


def northwest(rng: np.random.Generator) -> tuple[pd.DataFrame, dict]:
    """Daily rain of some forty stations around Seattle, over 60 days in a row of whatever season."""
    table = pd.read_parquet(DATA / "ghcn_pnw" / "paper_box_tmax.parquet")
    table = table[table["prcp"].notna()].drop_duplicates(["time", "station"])
    begun = pd.Timestamp("2018-08-01") + pd.Timedelta(days=int(rng.integers(560)))
    table = table[(table["time"] >= begun) & (table["time"] < begun + pd.Timedelta(days=60))]
    return table.reset_index(drop=True), {"time": "time", "space": ("lon", "lat"), "target": "prcp"}


def beijing(rng: np.random.Generator) -> tuple[pd.DataFrame, dict]:
    """Daily sums of the hourly rain in Beijing, 120 days from spring on, one station for each gauge: some of the twelve share one."""
    table = pd.read_parquet(DATA / "beijing_air" / "beijing_air_hourly.parquet")
    table["day"] = table["time"].dt.floor("D")
    sums = table.groupby(["station", "day"]).agg(
        rain=("rain", lambda hours: hours.sum(min_count=24)), lon=("lon", "first"), lat=("lat", "first")
    )
    series = sums["rain"].unstack("station")
    series = series[(series > 0).any(axis=1)]
    own: list[str] = []
    for station in series:
        if not any((series[station] == series[other]).mean() > 0.8 for other in own):
            own.append(station)
    begun = pd.Timestamp(f"{rng.integers(2013, 2017)}-05-01")
    sums = sums.reset_index()
    within = (sums["day"] >= begun) & (sums["day"] < begun + pd.Timedelta(days=120))
    sums = sums[within & sums["station"].isin(own) & sums["rain"].notna()]
    return sums.reset_index(drop=True), {"time": "day", "space": ("lon", "lat"), "target": "rain"}


SETS: dict[str, Callable[[np.random.Generator], tuple[pd.DataFrame, dict]]] = {
    each.__name__: each for each in (drizzle, convective, monsoon, two_fields, own, northwest, beijing)
}


def compared(name: str, seed: int) -> dict:
    rng = np.random.default_rng([seed, *name.encode()])
    table, options = SETS[name](rng)
    hidden = rng.random(len(table)) < 0.2
    line: dict = {"set": name, "seed": seed, "num_rows": len(table)}
    line["zeros"] = float(np.mean(table[options["target"]] == 0))
    squares = {}
    for way, how in WAYS.items():
        begun = time.process_time()
        gp = weft.SpaceTimeGP(**options, **how, progress=None).fit(table[~hidden])
        scores = gp.score(table[hidden])
        squares[way] = (table[options["target"]][hidden] - gp.predict(table[hidden])["mean"]).to_numpy() ** 2
        line[way] = {score: float(scores[score]) for score in SCORES}
        line[way]["processor_seconds"] = time.process_time() - begun
    # Of a few hundred rows, of which a handful are large, the two may differ by chance.
    more = squares["rain"] - squares["root"]
    line["more_squared_error"] = {
        "mean": float(more.mean()),
        "standard_error": float(more.std(ddof=1) / len(more) ** 0.5),
    }
    told = "; ".join(f"{score[:14]} {line['rain'][score]:.3f} ({line['root'][score]:.3f})" for score in SCORES)
    seconds = " / ".join(f"{line[way]['processor_seconds']:.0f}" for way in WAYS)
    by_chance = "squared error {mean:+.3g} +- {standard_error:.2g}".format(**line["more_squared_error"])
    print(
        f"{name} {seed}: {line['num_rows']} rows, {line['zeros']:.0%} zeros; {told}; {by_chance}; {seconds} s",
        flush=True,
    )
    return line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="*")
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1])
    arguments = parser.parse_args()
    for name in arguments.sets or SETS:
        for seed in arguments.seeds:
            line = compared(name, seed)
            others = [each for each in read_results("rain") if (each["set"], each["seed"]) != (name, seed)]
            write_results("rain", [*others, line])


if __name__ == "__main__":
    main()
