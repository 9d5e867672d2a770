# SPDX-License-Identifier: MIT
"""GPBoost's space-time Matern by a Vecchia approximation, with its defaults; needs gpboost, scipy and pandas, not weft.

    python peer_gpboost.py FOLDER lat,lon,elevation TRANSFORM

reads train.parquet and test.parquet and prints scores as JSON, also those of each part that a column `part` of the test rows
names. Coordinates and target are standardised, which its defaults expect; the log density is of the target in its deviations, as weft
reports it, the CRPS of the transformed target's Gaussian in the transformed target's units.
"""

import json
import pathlib
import sys
import time

import gpboost
import numpy as np
import pandas as pd
from scipy.stats import norm

FORWARD = {
    "identity": lambda y: y,
    "sqrt": np.sqrt,
    "fourth_root": lambda y: np.sqrt(np.sqrt(y)),
    "log": np.log,
    "log1p": np.log1p,
}
LOG_JACOBIAN = {
    "identity": lambda y: 0 * y,
    "sqrt": lambda y: -np.log(2 * np.sqrt(y)),
    "fourth_root": lambda y: -np.log(4 * y**0.75),
    "log": lambda y: -np.log(y),
    "log1p": lambda y: -np.log1p(y),
}


def moments(name: str, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Mean of the target from that of its transform."""
    if name == "identity":
        return mean
    if name == "sqrt":
        return mean**2 + variance
    if name == "fourth_root":
        return mean**4 + 6 * mean**2 * variance + 3 * variance**2
    return np.exp(mean + variance / 2) - (1.0 if name == "log1p" else 0.0)


def crps_gaussian(values: np.ndarray, mean: np.ndarray, sd: np.ndarray) -> np.ndarray:
    """Of a normal distribution, in closed form (Gneiting & Raftery 2007)."""
    z = (values - mean) / sd
    return sd * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi))


def main() -> None:
    folder, space, transform = pathlib.Path(sys.argv[1]), sys.argv[2].split(","), sys.argv[3]
    train, test = (pd.read_parquet(folder / f"{role}.parquet") for role in ("train", "test"))
    values = FORWARD[transform](train["value"].to_numpy())
    centre, scale = values.mean(), values.std()
    places = train[space].drop_duplicates()

    def coordinates(table: pd.DataFrame) -> np.ndarray:
        days = (table["time"] - train["time"].min()) / pd.Timedelta("1D")
        span = (train["time"].max() - train["time"].min()) / pd.Timedelta("1D")
        where = (table[space] - places.mean()) / places.std(ddof=0)
        return np.column_stack([days / span, where])

    begun, begun_processor = time.perf_counter(), time.process_time()
    model = gpboost.GPModel(
        gp_coords=coordinates(train),
        cov_function="matern_space_time",
        cov_fct_shape=1.5,
        gp_approx="vecchia",
        likelihood="gaussian",
    )
    model.fit(y=(values - centre) / scale)
    predicted = model.predict(gp_coords_pred=coordinates(test), predict_var=True, predict_response=True)
    seconds, processor_seconds = time.perf_counter() - begun, time.process_time() - begun_processor
    mean, variance = predicted["mu"] * scale + centre, predicted["var"] * scale**2
    # A root has no density at exactly zero, of which one set has one.
    is_root = transform in ("sqrt", "fourth_root")
    truth = np.maximum(test["value"].to_numpy(), 1e-3) if is_root else test["value"].to_numpy()
    log_density = (
        -0.5 * np.log(2 * np.pi * variance)
        - 0.5 * (FORWARD[transform](truth) - mean) ** 2 / variance
        + LOG_JACOBIAN[transform](truth)
    )
    target_sd = float(train["value"].std(ddof=0))
    error = moments(transform, mean, variance) - truth
    crps = crps_gaussian(FORWARD[transform](truth), mean, np.sqrt(variance))
    inside = np.abs(FORWARD[transform](truth) - mean) <= norm.ppf(0.95) * np.sqrt(variance)
    parts = test["part"].to_numpy() if "part" in test else np.full(len(test), "all")
    print(
        json.dumps(
            {
                "seconds": seconds,
                "processor_seconds": processor_seconds,
                "standardised_rmse": float(np.sqrt(np.mean(error**2)) / target_sd),
                "standardised_mean_negative_log_density": float(-np.mean(log_density) - np.log(target_sd)),
                "parts": {
                    part: {
                        "CRPS": float(np.mean(crps[parts == part])),
                        "RMSE": float(np.sqrt(np.mean(error[parts == part] ** 2))),
                        "coverage 90 %": float(np.mean(inside[parts == part])),
                    }
                    for part in sorted(set(parts))
                },
                "version": gpboost.__version__,
            }
        )
    )


if __name__ == "__main__":
    main()
