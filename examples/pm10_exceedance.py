# SPDX-License-Identifier: MIT
"""Days above the PM10 limit at places without a monitor in Germany: probabilities from yes/no data, with a Bernoulli likelihood.

    python examples/pm10_exceedance.py [--quick] [--data ../shared/data]

`pm10_exceedance.md` says what the model is and what came out.
"""

import argparse
import pathlib
import time

import jax
import numpy as np
import pandas as pd

import weft
from weft.likelihoods import Bernoulli

DATA = pathlib.Path(__file__).resolve().parents[2] / "shared" / "data"
# The daily limit of the European directive 2008/50/EC, in ug/m3.
LIMIT = 50.0
FIRST_DAY = "2003-01-01"
# Rare events say little about how far the logit swings beyond certainty; these keep it within reason.
PRIORS = {
    "kernel.components[0].variance": weft.LogNormalPrior(median=6.0, deviation=0.5),
    "kernel.components[1].variance": weft.LogNormalPrior(median=2.0, deviation=0.5),
}


def read(folder: pathlib.Path, num_days: int) -> pd.DataFrame:
    table = pd.read_parquet(folder / "germany_pm10" / "germany_pm10_daily.parquet")
    table["day"] = (table["time"] - pd.Timestamp(FIRST_DAY)) / pd.Timedelta(days=1)
    table = table[(table["day"] >= 0) & (table["day"] < num_days)].reset_index(drop=True)
    table["east"] = 111.2 * np.cos(np.deg2rad(51.0)) * (table["lon"].astype(float) - 10.5)
    table["north"] = 111.2 * (table["lat"].astype(float) - 51.0)
    table["exceeds"] = (table["value"] > LIMIT).astype(float)
    return table


def held_out(table: pd.DataFrame) -> np.ndarray:
    """Rows of one station in five, drawn once: the model sees nothing of them."""
    stations = np.sort(table["station"].astype(str).unique())
    chosen = np.random.default_rng(0).choice(stations, len(stations) // 5, replace=False)
    return table["station"].astype(str).isin(chosen).to_numpy()


def make_model(places: np.ndarray, num_pseudo: int) -> weft.Model:
    """Episodes of a few days that cover a region, on slow seasons; on the logit scale, around an unknown level."""
    episodes = 4.0 * weft.Separable(space=weft.Matern32(250.0), time=weft.Matern12(3.0))
    seasons = 2.0 * weft.Separable(space=weft.Constant(1.0), time=weft.Matern32(30.0))
    points = np.asarray(weft.place(places, num_pseudo))
    return weft.Model(episodes + seasons, Bernoulli(), points, mean=weft.ConstantMean(25.0))


def score(values: np.ndarray, probability: np.ndarray) -> dict:
    probability = np.clip(probability, 1e-4, 1 - 1e-4)
    loss = -(values * np.log(probability) + (1 - values) * np.log1p(-probability))
    likely = probability > 0.2
    return {
        "rows": len(values),
        "mean negative log probability": float(np.mean(loss)),
        "Brier score": float(np.mean((values - probability) ** 2)),
        "exceedances": float(values.sum()),
        "exceedances expected": float(probability.sum()),
        "frequency where above 0.2": float(values[likely].mean()) if likely.any() else np.nan,
        "mean probability there": float(probability[likely].mean()) if likely.any() else np.nan,
    }


def monthly_frequency(train: pd.DataFrame, test: pd.DataFrame) -> np.ndarray:
    """The naive answer: how often the limit was exceeded anywhere in the same calendar month (with half a day added)."""
    by_month = train.groupby(train["time"].dt.month)["exceeds"].agg(["sum", "size"])
    frequency = (by_month["sum"] + 0.5) / (by_month["size"] + 1.0)
    return frequency.reindex(test["time"].dt.month).to_numpy()


def daily_frequency(train: pd.DataFrame, test: pd.DataFrame) -> np.ndarray:
    """A harder one: the share of all other stations that exceeded it on the same day (with the month's as one station)."""
    by_day = train.groupby("day")["exceeds"].agg(["sum", "size"]).reindex(test["day"]).fillna(0.0)
    return (by_day["sum"].to_numpy() + monthly_frequency(train, test)) / (by_day["size"].to_numpy() + 1.0)


def run(folder: pathlib.Path, *, quick: bool = False) -> pd.DataFrame:
    """Fit, predict and score; one row a method."""
    num_days, num_pseudo, iterations = (60, 12, 3) if quick else (365, 25, 15)
    table = read(folder, num_days)
    test_rows = held_out(table)
    train, test = table[~test_rows], table[test_rows]
    data = weft.Observations(train["day"], train[["east", "north"]], train["exceeds"])
    began = time.perf_counter()
    model = make_model(data.places, num_pseudo)
    result = weft.fit(model, data, priors=PRIORS, max_iterations=iterations, tolerance=1e-6, progress=None)
    print(f"{data}\n{result}\n{result.num_engine_calls} engine calls")
    for name, value in result.parameters.items():
        print(f"  {name} = {np.round(value, 3).tolist()}")
    prediction = weft.condition(result.model, data).predict(test["day"], test[["east", "north"]])
    values = test["exceeds"].to_numpy()
    answers = {
        "weft": prediction.mean,
        "frequency of the day": daily_frequency(train, test),
        "frequency of the month": monthly_frequency(train, test),
    }
    print(f"{time.perf_counter() - began:.0f} s")
    return pd.DataFrame([{"method": name, **score(values, probability)} for name, probability in answers.items()])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two months, in seconds")
    parser.add_argument("--data", type=pathlib.Path, default=DATA, help="the folder with the data sets")
    given = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    print(run(given.data, quick=given.quick).round(4).to_string(index=False))
