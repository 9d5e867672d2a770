# SPDX-License-Identifier: MIT
"""Made oceans that differ: where every basin has eddies of its own strength, size and age, how far is weft from the law they were made by?

30,000 profiles, no two at one place, over the whole sphere with the antimeridian in the midst of one basin. `law_scores` answers
by that law itself from the nearest rows: nobody can do better but by chance.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy.spatial import cKDTree
from scipy.stats import norm

from weft.scores import crps_gaussian

RADIUS = 6371.0
DAYS = 90
HELD_OUT = 0.1
# Waves of a drawn field, and rows that the law answers from, nearest by this many kilometres a day.
WAVES = 3_000
NEAREST = 200
KILOMETRES_A_DAY = 20.0


class Field(NamedTuple):
    """Matern-3/2 in space, Matern-1/2 in time: deviation, kilometres, days."""

    sd: float
    length: float
    age: float


class Basin(NamedTuple):
    """Longitudes, latitudes, profiles, what varies there alone, and the deviation of its noise."""

    east: tuple[float, float]
    north: tuple[float, float]
    profiles: int
    eddies: Field
    noise: float


BASINS = {
    "wide and quiet": Basin((120, 260), (-60, 60), 14_000, Field(0.6, 150, 25), 0.15),
    "a strong current": Basin((130, 180), (25, 45), 2_500, Field(2.5, 120, 15), 0.3),
    "lively": Basin((290, 350), (-60, 65), 8_000, Field(1.0, 100, 20), 0.2),
    "slow": Basin((40, 110), (-60, 20), 6_000, Field(0.8, 200, 30), 0.15),
    "under ice": Basin((0, 360), (68, 85), 1_200, Field(0.3, 60, 40), 0.05),
}
GYRES = Field(1.5, 1500, 200)


def made_oceans(seed: int = 7) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    parts = []
    for name, basin in BASINS.items():
        low, high = np.sin(np.radians(basin.north))
        table = pd.DataFrame(
            {
                "basin": name,
                "lon": rng.uniform(*basin.east, basin.profiles),
                "lat": np.degrees(np.arcsin(rng.uniform(low, high, basin.profiles))),
                "day": rng.uniform(0, DAYS, basin.profiles),
            }
        )
        noise = basin.noise * rng.normal(size=basin.profiles)
        table["value"] = climate(table) + drawn(basin.eddies, table, rng) + noise
        parts.append(table)
    table = pd.concat(parts, ignore_index=True)
    table["value"] += drawn(GYRES, table, rng)
    table["lon"] = (table["lon"] + 180) % 360 - 180
    table["time"] = pd.Timestamp("2016-01-01") + pd.to_timedelta((table["day"] * 86_400).round(), unit="s")
    table["held_out"] = rng.random(len(table)) < HELD_OUT
    return table.sample(frac=1, random_state=seed).reset_index(drop=True)


def oceans_split() -> tuple[pd.DataFrame, dict[str, pd.DataFrame]]:
    table = made_oceans()
    return table[~table["held_out"]], {"made oceans": table[table["held_out"]]}


def climate(table: pd.DataFrame) -> Float[np.ndarray, " row"]:
    return 15 + 12 * np.cos(2 * np.radians(table["lat"].to_numpy()))


def on_globe(table: pd.DataFrame) -> Float[np.ndarray, "row 3"]:
    north, east = np.radians(table["lat"].to_numpy()), np.radians(table["lon"].to_numpy())
    return RADIUS * np.column_stack([np.cos(north) * np.cos(east), np.cos(north) * np.sin(east), np.sin(north)])


def drawn(field: Field, table: pd.DataFrame, rng: np.random.Generator) -> Float[np.ndarray, " row"]:
    """By waves of the field's spectral density: Student's t of three degrees of freedom in space, Cauchy's in time."""
    spread = np.sqrt(rng.chisquare(3, size=(WAVES, 1)) / 3)
    in_space = rng.normal(size=(WAVES, 3)) / spread / field.length
    in_time, phase = rng.standard_cauchy(WAVES) / field.age, rng.uniform(0, 2 * np.pi, WAVES)
    places, days = on_globe(table), table["day"].to_numpy()
    pieces = [
        np.cos(places[rows] @ in_space.T + days[rows, None] * in_time + phase).sum(axis=1)
        for rows in np.array_split(np.arange(len(table)), max(len(table) // 2_000, 1))
    ]
    return field.sd * np.sqrt(2 / WAVES) * np.concatenate(pieces)


def law_scores(train: pd.DataFrame, test: pd.DataFrame) -> dict[str, float]:
    """CRPS and RMSE of the law that the table was made by, and what its 90 % intervals hold."""
    places, asked = on_globe(train), on_globe(test)
    days, days_asked = train["day"].to_numpy(), test["day"].to_numpy()
    near = cKDTree(np.column_stack([places, KILOMETRES_A_DAY * days])).query(
        np.column_stack([asked, KILOMETRES_A_DAY * days_asked]), k=NEAREST
    )[1]
    anomalies, basins = (train["value"] - climate(train)).to_numpy(), train["basin"].to_numpy()
    noises = train["basin"].map({name: basin.noise for name, basin in BASINS.items()}).to_numpy()
    mean, sd = climate(test), np.empty(len(test))
    for number, basin in enumerate(test["basin"]):
        rows = near[number]
        apart = cross_distances(np.vstack([places[rows], asked[number]]))
        lag = cross_distances(np.append(days[rows], days_asked[number])[:, None])
        of = np.append(basins[rows], basin)
        covariance = covariances(GYRES, apart, lag)
        for name in np.unique(of):
            covariance += np.outer(of == name, of == name) * covariances(BASINS[name].eddies, apart, lag)
        weights = np.linalg.solve(covariance[:-1, :-1] + np.diag(noises[rows] ** 2), covariance[:-1, -1])
        mean[number] += weights @ anomalies[rows]
        sd[number] = np.sqrt(covariance[-1, -1] - weights @ covariance[:-1, -1] + BASINS[basin].noise ** 2)
    error = test["value"].to_numpy() - mean
    return {
        "CRPS": float(np.mean(crps_gaussian(test["value"].to_numpy(), mean, sd))),
        "RMSE": float(np.sqrt(np.mean(error**2))),
        "coverage 90 %": float(np.mean(np.abs(error) <= norm.ppf(0.95) * sd)),
    }


def cross_distances(points: Float[np.ndarray, "point dim"]) -> Float[np.ndarray, "point point"]:
    return np.linalg.norm(points[:, None] - points[None], axis=-1)


def covariances(
    field: Field, apart: Float[np.ndarray, "point point"], lag: Float[np.ndarray, "point point"]
) -> Float[np.ndarray, "point point"]:
    scaled = np.sqrt(3) * apart / field.length
    return field.sd**2 * (1 + scaled) * np.exp(-scaled) * np.exp(-lag / field.age)
