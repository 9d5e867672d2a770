# SPDX-License-Identifier: MIT
"""The paper's experiment on prices of flats: a separable and a sum-separable model at arbitrary places each day."""

import dataclasses
import functools
import pathlib
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from weft.data.observations import Observations
from weft.estimator.wide import regional_of
from weft.inference.posterior import Posterior
from weft.kernels import Matern32
from weft.pseudo_points import place
from weft.space_time_gp import SpaceTimeGP
from weft_experiments.figures import draw_map, new_figure, save
from weft_experiments.learning import (
    KERNELS,
    Scale,
    data_folder,
    learn,
    limits_of,
    load_engine,
    make_model,
    noise_variance_of,
    scores,
    start_kernel,
)
from weft_experiments.options import RunOptions
from weft_experiments.originals.download import fetch_experiment
from weft_experiments.originals.price_paid import read_paper_sales
from weft_experiments.results import (
    Results,
    Steps,
    check,
    checks_table,
    number,
    provenance,
    reading_section,
    say,
    table,
)

__all__ = ["measure", "page"]

WANTED = "HM Land Registry's pp-complete.csv and a table of postcodes (ONSPD, NSPL, Code-Point Open, ukpostcodes)"
SAMPLE = "flats_2015_2024.parquet"
NUM_PSEUDO, QUICK_PSEUDO, QUICK_DAYS = 75, 10, 40
# (variances, rates of place, rates of time) of each kernel where learning starts.
STARTS = {
    "separable": ((1.0,), (1.0,), (1e-2,)),
    "sum-separable": ((0.7, 0.3), (1.0, 5.0), (1e-3, 1e-1)),
}
PAPER_ROWS = 1_687_536
PAPER_TABLE = {"separable": (0.658, 2920.0), "sum-separable": (0.618, 192.0)}
DAYS_BEFORE_END = 101
MAP_CELLS_A_DEGREE, MAP_CELLS = 50, 160
# What an estimator is told where it goes beyond the paper.
BEYOND: Mapping[str, Mapping[str, Any]] = {
    "nothing": {},
    "`habits=None`": {"habits": None},
    "`regions=None`": {"regions": None},
}


@dataclasses.dataclass(frozen=True)
class Sales:
    """Log prices at places (latitude, longitude) and days since the first sale, and the set's story."""

    day: Float[np.ndarray, " row"]
    places: Float[np.ndarray, "row 2"]
    value: Float[np.ndarray, " row"]
    first_date: pd.Timestamp
    story: str
    # What the reader of original files kept, refused and left out.
    reading: str | None = None


def load(options: RunOptions) -> Sales:
    if options.download and options.data is not None:
        fetch_experiment("apartments", options.data)
    folder = data_folder(options, "price_paid", WANTED)
    reading = None
    if (folder / SAMPLE).exists():
        table_ = pd.read_parquet(folder / SAMPLE).sort_values("time", kind="stable")
        story = (
            f"{len(table_):,} real sales of flats in 15 London authorities and Brentwood, {table_['time'].min():%Y-%m-%d} to "
            f"{table_['time'].max():%Y-%m-%d}, on {table_['time'].nunique():,} days, where the paper had {PAPER_ROWS:,} over England "
            "and Wales from 2010 to 2019. The area is small and dear, and its prices vary less by place than the country's."
        )
    else:
        table_, report = read_paper_sales(folder)
        reading = str(report)
        say(f"apartments: {reading}")
        if table_.empty:
            raise ValueError(
                f"{folder} holds no sale of a flat that the paper would have taken, of 2010 to 2019 in England and Wales:\n{reading}"
            )
        story = (
            f"HM Land Registry's files by the paper's selection: {len(table_):,} sales on {table_['time'].nunique():,} days, where "
            f"the paper had {PAPER_ROWS:,} (one more for each day without a sale). {report.num_rejected:,} lines were refused and "
            f"{report.num_left_out:,} left out."
        )
    first = table_["time"].min()
    if options.quick:
        table_ = table_[table_["time"] < first + pd.Timedelta(days=QUICK_DAYS)]
        story += f" Of these only the first {QUICK_DAYS} days, for a quick run."
    return Sales(
        (table_["time"] - first).dt.days.to_numpy(dtype=np.float64),
        table_[["lat", "lon"]].to_numpy(dtype=np.float64),
        table_["value"].to_numpy(dtype=np.float64),
        first,
        story,
        reading,
    )


def measure(options: RunOptions) -> Results:
    sales, limits, steps = load(options), limits_of(options, 100), Steps("apartments", options)
    load_engine()
    count = (options.pseudo_points or ((QUICK_PSEUDO,) if options.quick else (NUM_PSEUDO,)))[0]
    rng = np.random.default_rng(options.seed)
    is_train = np.zeros(len(sales.value), dtype=bool)
    is_train[rng.permutation(len(is_train))[: len(is_train) // 2]] = True
    scale = Scale.of(sales.value[is_train])
    data = Observations(sales.day[is_train], sales.places[is_train], scale.standardise(sales.value[is_train]))
    points = place(data, count, method="kmeans", weights="rows", seed=options.seed)

    def measured(kernel: str) -> Results:
        """One of the paper's models: what it scores, and its map."""
        result, posterior = learn(make_model(start_kernel(*STARTS[kernel], 2, Matern32), points), data, limits)
        mean, variance = posterior.marginals(sales.day[~is_train], sales.places[~is_train])
        accuracy = scores(scale.standardise(sales.value[~is_train]), mean, variance, noise_variance_of(posterior))
        say(
            f"apartments: {kernel}: RMSE {accuracy['standardised_rmse']:.4f} after {result['seconds']:.0f} s ({result['message']})"
        )
        return {
            "row": {"kernel": kernel, "num_pseudo": len(points), **accuracy, **result},
            "map": maps_of(sales, scale, posterior, points, kernel, options.output),
        }

    models = [steps.once(kernel, functools.partial(measured, kernel)) for kernel in KERNELS]
    rows = [model["row"] for model in models]
    beyond = beyond_the_paper(sales, is_train, scale, steps)
    return {
        "settings": {
            "max_iterations": limits.max_iterations,
            "max_seconds": limits.max_seconds,
            "num_pseudo": len(points),
        },
        "story": sales.story,
        **({} if sales.reading is None else {"reading": sales.reading}),
        "num_train": int(is_train.sum()),
        "num_test": int((~is_train).sum()),
        "num_days": len(data.times),
        "rows": rows,
        "maps": [model["map"] for model in models],
        "beyond": beyond,
        "checks": checks(rows),
    }


def beyond_the_paper(
    sales: Sales, is_train: Bool[np.ndarray, " row"], scale: Scale, steps: Steps
) -> list[dict[str, Any]]:
    """The estimator on the same rows: with nothing chosen, and without each of what the paper does not have."""
    rows = pd.DataFrame(sales.places, columns=["lat", "lon"])
    rows["time"] = sales.first_date + pd.to_timedelta(sales.day, unit="D")
    rows["value"] = sales.value
    return [
        {
            "name": name,
            **steps.once(name, functools.partial(estimator_scores, rows[is_train], rows[~is_train], scale, chosen)),
        }
        for name, chosen in BEYOND.items()
    ]


def estimator_scores(
    train: pd.DataFrame, test: pd.DataFrame, scale: Scale, chosen: Mapping[str, Any]
) -> dict[str, Any]:
    begun = time.process_time()
    gp = SpaceTimeGP(time="time", space=("lat", "lon"), target="value", progress=None, **chosen).fit(train)
    found = gp.score(test)
    regions = regional_of(gp.fitted_.posterior)
    say(f"apartments: SpaceTimeGP({dict(chosen)}): RMSE {found['rmse'] / scale.deviation:.4f}")
    return {
        "standardised_rmse": found["rmse"] / scale.deviation,
        # Of the standardised values, whose density is higher by their deviation.
        "mean_negative_log_density": found["mean_negative_log_density"] - float(np.log(scale.deviation)),
        "coverage_90": found["coverage_90"],
        "num_regions": 0 if regions is None else regions.num_regions,
        "habits": sorted(set(gp.habits_["habit"])),
        "processor_seconds": time.process_time() - begun,
    }


def beyond_section(results: Results) -> list[str]:
    """What lies beyond the paper, on pages whose numbers have it."""
    if "beyond" not in results:
        return []
    return [
        "## Beyond the paper",
        "`SpaceTimeGP` on the same rows, which tries components, learns from small exact parts of the table, cuts a table that is "
        "wide for its length scales into regions, and looks for habits of places (a level, noise or shift of their own). With "
        "nothing chosen, and without either of the last two:",
        table(
            (
                "chosen",
                "who answers",
                "habits found",
                "RMSE (RSMSE)",
                "neg. log density, correct",
                "90 % intervals hold",
                "processor seconds",
            ),
            [
                (
                    found["name"],
                    f"{found['num_regions']:,} regions" if found["num_regions"] else "one model",
                    ", ".join(found["habits"]) or "none",
                    f"{found['standardised_rmse']:.4f}",
                    f"{found['mean_negative_log_density']:.4f}",
                    f"{100 * found['coverage_90']:.1f} %",
                    f"{found['processor_seconds']:.0f}",
                )
                for found in results["beyond"]
            ],
        ),
    ]


def maps_of(
    sales: Sales,
    scale: Scale,
    posterior: Posterior,
    pseudo_points: Float[np.ndarray, "pseudo 2"],
    kernel: str,
    folder: pathlib.Path,
) -> dict[str, Any]:
    """Mean and deviation of f on one day, on the standardised scale, as the paper shows it."""
    day = max(float(sales.day.max()) + 1 - DAYS_BEFORE_END, 0.0)
    edges = np.stack([sales.places.min(axis=0), sales.places.max(axis=0)])
    # Around sales that are all at one latitude or longitude a cell is shown on either side.
    edges += np.where(edges[0] == edges[1], [[-1], [1]], 0) / MAP_CELLS_A_DEGREE
    (south, west), (north, east) = edges
    # The paper's fifty cells a degree, or finer where the data cover less than a few degrees.
    cells = max(MAP_CELLS_A_DEGREE, round(MAP_CELLS / (east - west)))
    latitudes = np.linspace(south, north, max(round(cells * (north - south)), 2))
    longitudes = np.linspace(west, east, max(round(cells * (east - west)), 2))
    lat, lon = np.meshgrid(latitudes, longitudes, indexing="ij")
    mean, variance = posterior.marginals(np.full(lat.size, day), np.stack([lat.ravel(), lon.ravel()], axis=1))
    figure, axes = new_figure(1, 2, width=5.2, height=2.8)
    for axis, numbers, label in (
        (axes[0, 0], mean, "mean of standardised log price"),
        (axes[0, 1], np.sqrt(variance), "standard deviation"),
    ):
        draw_map(
            figure,
            axis,
            longitudes,
            latitudes,
            numbers.reshape(lat.shape),
            label=label,
            points=((pseudo_points, "#ff7f0e", "o", "pseudo-points"),),
        )
    date = (sales.first_date + pd.Timedelta(days=day)).date().isoformat()
    return {"kernel": kernel, "figure": save(figure, folder, f"map_{kernel}.png"), "date": date}


def checks(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    plain, summed = (next(row for row in rows if row["kernel"] == kernel) for kernel in KERNELS)
    meanings = {
        "standardised_rmse": "root mean squared error",
        "mean_negative_log_density": "correct density",
        "mean_negative_log_density_latent_only": "the paper's density",
    }
    return [
        check(
            f"sum-separable is better than separable by {meaning}",
            summed[metric] < plain[metric],
            f"{summed[metric]:.4f} against {plain[metric]:.4f}",
        )
        for metric, meaning in meanings.items()
    ]


def page(results: Results) -> str:
    limits, seconds = results["settings"], results["settings"]["max_seconds"]
    limited = f"at most {number(limits['max_iterations'])} iterations" + (
        f" or {number(seconds)} seconds" if seconds else ""
    )
    header = (
        "model",
        "RMSE (RSMSE)",
        "neg. log density, correct",
        "neg. log density, latent only (NPPLP)",
        "paper's RSMSE",
        "paper's NPPLP",
        "processor seconds",
        "iterations",
        "converged",
        "ELBO",
    )
    body = [
        (
            row["kernel"],
            f"{row['standardised_rmse']:.4f}",
            f"{row['mean_negative_log_density']:.4f}",
            f"{row['mean_negative_log_density_latent_only']:.1f}",
            f"{PAPER_TABLE[row['kernel']][0]}",
            f"{PAPER_TABLE[row['kernel']][1]:.0f}",
            f"{row['processor_seconds']:.0f}",
            row["iterations"],
            row["converged"],
            f"{row['log_evidence']:.1f}",
        )
        for row in results["rows"]
    ]
    parts = [
        "# Prices of flats",
        "The paper's second experiment on real data: standardised log prices of flats at their postcodes, half of the sales held out "
        "at random; EQ in latitude and longitude, Matern-3/2 in days, one component or two.",
        results["story"],
        *reading_section(results),
        f"{results['num_train']:,} sales on {results['num_days']:,} days were learned from and {results['num_test']:,} predicted, with "
        f"{limits['num_pseudo']} pseudo-points at the k-means centres of the sales. Each fit was given {limited} (the paper: 100 "
        "evaluations of the gradient on eight cores).",
        checks_table(results["checks"]),
        table(header, body),
        "The paper's densities leave out the noise of the observations: noisy values under the law of f alone, which is why they read "
        "in the hundreds and thousands. The correct density adds the noise variance. Both are given; the paper's own numbers are of "
        "another, larger set and only their order compares.",
        *[
            f"Posterior of f on {shown['date']}, {shown['kernel']} (orange dots are pseudo-points):\n\n"
            f"![mean and standard deviation of f]({shown['figure']})"
            for shown in results["maps"]
        ],
        *beyond_section(results),
        "## What could not be reproduced",
        "- The paper's set: HM Land Registry's complete file and the Camden postcode table cannot be had here. With a network, "
        "`weft reproduce apartments --data FOLDER --download` fetches them and runs the paper's selection.\n"
        "- The paper puts one missing value on each day without a sale, and its counts include these; steps between times may differ "
        "here, so such days need nothing.\n"
        "- The random split and k-means starts are NumPy's, not Julia's.",
        provenance(results),
    ]
    return "\n\n".join(parts)
