# SPDX-License-Identifier: MIT
"""Daily COVID-19 counts of Italy's provinces: fill in missing reports and forecast a week, with honest intervals.

    python examples/italy_covid.py [--quick] [--data ../shared/data]

`italy_covid.md` says what the model is and what came out.
"""

import argparse
import pathlib
import time
from typing import Any

import jax
import numpy as np
import pandas as pd
from scipy import stats

import weft
from weft.likelihoods import NegativeBinomial, RowExtras
from weft.scores import crps_from_samples

DATA = pathlib.Path(__file__).resolve().parents[2] / "shared" / "data"
FIRST_DAY, NUM_DAYS, NUM_FORECAST = "2020-10-01", 119, 7
NUM_DRAWS = 400


def read(folder: pathlib.Path, num_days: int) -> pd.DataFrame:
    table = pd.read_parquet(folder / "italy_covid" / "italy_covid_daily.parquet").dropna(subset=["value"])
    table["day"] = (table["time"] - pd.Timestamp(FIRST_DAY)) / pd.Timedelta(days=1)
    table = table[(table["day"] >= 0) & (table["day"] < num_days)].reset_index(drop=True)
    # Kilometres east and north, near enough for a country.
    table["east"] = 111.2 * np.cos(np.deg2rad(42.0)) * (table["lon"] - 12.5)
    table["north"] = 111.2 * (table["lat"] - 42.0)
    return table


def split(table: pd.DataFrame, num_days: int) -> np.ndarray:
    """What each row is for: "train", "fill" (a report here and there is missing) or "forecast" (the last week is)."""
    missing = np.random.default_rng(0).random(len(table)) < 0.15
    role = np.where(missing, "fill", "train")
    return np.where(table["day"] >= num_days - NUM_FORECAST, "forecast", role)


def make_model(places: np.ndarray, num_pseudo: int) -> weft.Model:
    """Waves that spread over weeks, and a weekly pattern of reporting, the same everywhere, that drifts over months."""
    week = weft.Cosine(7.0) + weft.Cosine(7.0 / 2) + weft.Cosine(7.0 / 3)
    waves = 0.5 * weft.Separable(space=weft.Matern32(200.0), time=weft.Matern32(20.0))
    weekly = 0.1 * weft.Separable(space=weft.Constant(1.0), time=weft.Matern12(200.0) * week)
    points = np.asarray(weft.place(places, num_pseudo))
    return weft.Model(waves + weekly, NegativeBinomial(5.0), points, mean=weft.ConstantMean(4.0))


def score(
    values: np.ndarray, log_probability: np.ndarray, draws: np.ndarray, low: np.ndarray, high: np.ndarray
) -> dict:
    return {
        "rows": len(values),
        "mean CRPS": float(np.mean(crps_from_samples(values, draws))),
        "mean negative log probability": -float(np.mean(log_probability)),
        "mean absolute error": float(np.mean(np.abs(np.median(draws, axis=1) - values))),
        "coverage of 90 % intervals": float(np.mean((values >= low) & (values <= high))),
    }


def score_model(posterior: Any, table: pd.DataFrame, exposure: np.ndarray) -> dict:
    """Scores of the model at the rows of `table`."""
    values, likelihood = table["value"].to_numpy(dtype=float), posterior.model.likelihood
    prediction = posterior.predict(table["day"], table[["east", "north"]], exposure=exposure)
    low, high = prediction.quantile([0.05, 0.95]).T
    rng, extra = np.random.default_rng(1), RowExtras(exposure=exposure)
    deviation = np.sqrt(prediction.latent_variance)
    f = prediction.latent_mean + deviation * rng.standard_normal((NUM_DRAWS, len(values)))
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    log_densities = np.stack(
        [likelihood.log_density(values, prediction.latent_mean + deviation * z, extra) for z in nodes]
    )
    log_probability = np.logaddexp.reduce(log_densities + np.log(weights / weights.sum())[:, None], axis=0)
    return score(values, log_probability, likelihood.sample(rng, f, extra).T, low, high)


class SameWeekday:
    """The naive forecast: the province's last report on the same weekday, spread by a negative binomial fitted to it."""

    def __init__(self, train: pd.DataFrame):
        self.known = train.pivot(index="station", columns="day", values="value").astype(float)
        values = train["value"].to_numpy(dtype=float)
        candidates = np.geomspace(0.5, 50.0, 40)
        at_train = self.mean(train)
        fits = [np.mean(stats.nbinom.logpmf(values, size, size / (size + at_train))) for size in candidates]
        self.size = candidates[int(np.argmax(fits))]

    def mean(self, table: pd.DataFrame) -> np.ndarray:
        """A week before, or as many weeks as it takes; a week after, where there is no report before."""
        days, stations = table["day"].to_numpy(), table["station"].to_numpy()
        answer = np.full(len(table), np.nan)
        for shift in (-7, -14, -21, -28, 7, 14):
            lagged = self.known.reindex(columns=np.unique(days + shift))
            rows, columns = lagged.index.get_indexer(stations), lagged.columns.get_indexer(days + shift)
            answer = np.where(np.isnan(answer), lagged.to_numpy()[rows, columns], answer)
        own = self.known.mean(axis=1).to_numpy()[self.known.index.get_indexer(stations)]
        # A forecast of exactly zero would rule out every case.
        return np.maximum(np.where(np.isnan(answer), own, answer), 0.5)

    def score(self, table: pd.DataFrame) -> dict:
        values, mean = table["value"].to_numpy(dtype=float), self.mean(table)
        spread = stats.nbinom(self.size, self.size / (self.size + mean))
        draws = np.stack([spread.rvs(random_state=number) for number in range(NUM_DRAWS)], axis=1).astype(float)
        return score(values, spread.logpmf(values), draws, spread.ppf(0.05), spread.ppf(0.95))


def run(folder: pathlib.Path, *, quick: bool = False) -> pd.DataFrame:
    """Fit, predict and score; one row a method and task."""
    num_days, num_pseudo, iterations = (28, 12, 3) if quick else (NUM_DAYS, 40, 20)
    table = read(folder, num_days)
    role = split(table, num_days)
    train = table[role == "train"]
    # No populations in the file, so a province's mean report stands in for its size: f is then relative to that.
    size_of = train.groupby("station", observed=True)["value"].mean()
    exposure = np.maximum(table["station"].map(size_of).to_numpy(dtype=float), 0.5)
    data = weft.Observations(
        train["day"], train[["east", "north"]], train["value"].astype(float), exposure=exposure[role == "train"]
    )
    model = make_model(data.places, num_pseudo)
    began = time.perf_counter()
    result = weft.fit(model, data, frozen=["*period*"], max_iterations=iterations, tolerance=1e-6, progress=None)
    print(f"{data}\n{result}\n{result.num_engine_calls} engine calls")
    for name, value in result.parameters.items():
        print(f"  {name} = {np.round(value, 3).tolist()}")
    posterior = weft.condition(result.model, data)
    naive = SameWeekday(train)
    answers = []
    for task in ("fill", "forecast"):
        rows = role == task
        answers.append({"task": task, "method": "weft", **score_model(posterior, table[rows], exposure[rows])})
        answers.append({"task": task, "method": "same weekday", **naive.score(table[rows])})
    print(f"{time.perf_counter() - began:.0f} s")
    return pd.DataFrame(answers)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="four weeks and few pseudo-points, in seconds")
    parser.add_argument("--data", type=pathlib.Path, default=DATA, help="the folder with the data sets")
    given = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    print(run(given.data, quick=given.quick).round(3).to_string(index=False))
