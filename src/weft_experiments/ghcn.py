# SPDX-License-Identifier: MIT
"""The paper's temperature experiment: pseudo-points against a subset of the stations, by speed and accuracy, and maps."""

import dataclasses
import functools
import pathlib
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int
from scipy.spatial import KDTree

from weft.data.observations import Observations
from weft.inference.posterior import Posterior
from weft.kernels import Matern52, Separable, SumSeparable
from weft.pseudo_points import place
from weft_experiments import ghcn_page
from weft_experiments.figures import draw_map, new_figure, save
from weft_experiments.learning import (
    KERNELS,
    Limits,
    Scale,
    learn,
    limits_of,
    load_engine,
    make_model,
    noise_variance_of,
    scores,
    start_kernel,
)
from weft_experiments.options import RunOptions
from weft_experiments.results import Results, Steps, check, say
from weft_experiments.temperatures import TemperatureSet, load_sets

__all__ = ["measure", "page"]

page = ghcn_page.page

NUM_PSEUDO = (5, 10, 20, 50)
TEST_SHARE = 0.1
# (variances, rates of place, rates of time) of each kernel where learning starts, as the scripts and as the text have them.
STARTS = {
    "scripts": {
        "separable": ((1.0,), (1.0,), (1e-2,)),
        "sum-separable": ((0.7**2, 0.3**2), (1.0, 5.0), (1e-2, 1e-1)),
    },
    "text": {
        "separable": ((1.0,), (1.0,), (1e-2,)),
        "sum-separable": ((0.7, 0.3), (1.0, 5.0), (1e-3, 1e-1)),
    },
}
# The map shows this many days before the last; in the paper's set that is 6 March 2019.
DAYS_BEFORE_END = 301
PSEUDO, SUBSET, EXACT = "pseudo-points", "subset of stations", "all stations, exact"
# Pseudo-points again, given only the time that the subset of the same size took.
EQUAL = "pseudo-points, in the subset's time"


def measure(options: RunOptions) -> Results:
    limits, steps = limits_of(options, 1000), Steps("ghcn", options)
    load_engine()
    sets, rows, figures = [], [], []
    for temperatures in load_sets(options):
        found, maps = measure_set(temperatures, options, limits, steps)
        rows.extend(found)
        sets.append(describe(temperatures, maps))
        figures.append(ghcn_page.draw_trade_off(found, options.output, temperatures.name))
    return {
        "settings": {
            "max_iterations": limits.max_iterations,
            "max_seconds": limits.max_seconds,
            "test_share": TEST_SHARE,
        },
        "sets": sets,
        "rows": rows,
        "figures": figures,
        "checks": [
            one for each in sets for one in checks([row for row in rows if row["set"] == each["name"]], each["name"])
        ],
    }


def describe(temperatures: TemperatureSet, maps: dict[str, Any] | None) -> dict[str, Any]:
    described = {
        "name": temperatures.name,
        "story": temperatures.story,
        "num_stations": len(temperatures.stations),
        "num_rows": len(temperatures.value),
        "num_days": temperatures.num_days,
        "map": maps,
    }
    for name in ("reading", "no_elevations"):
        if getattr(temperatures, name) is not None:
            described[name] = getattr(temperatures, name)
    return described


def fewer_than_stations(options: RunOptions, temperatures: TemperatureSet) -> tuple[int, ...]:
    """The numbers of pseudo-points asked for, without those that the set has too few stations for."""
    counts = options.pseudo_points or ((5,) if options.quick else NUM_PSEUDO)
    num_stations = len(temperatures.stations)
    kept, many = ([count for count in counts if (count < num_stations) == few] for few in (True, False))
    words = f"pseudo-points must be fewer than the {num_stations} stations of {temperatures.name}"
    if not kept:
        raise ValueError(f"{words}; they are {', '.join(str(count) for count in many)}; give a smaller number")
    if many:
        say(f"ghcn: {words}; left out: {', '.join(str(count) for count in many)}")
    return tuple(kept)


def measure_set(
    temperatures: TemperatureSet, options: RunOptions, limits: Limits, steps: Steps
) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    """Every kernel, method and number of pseudo-points on one set, and a map by the largest of the pseudo-point models."""
    rng = np.random.default_rng(options.seed)
    is_test = np.zeros(len(temperatures.value), dtype=bool)
    is_test[rng.permutation(len(is_test))[: int(TEST_SHARE * len(is_test))]] = True
    scale = Scale.of(temperatures.value[~is_test])
    counts = fewer_than_stations(options, temperatures)
    rows: list[dict[str, Any]] = []

    def work(kernel: str, count: int | None, method: str) -> dict[str, Any]:
        start = start_kernel(*STARTS[options.variant][kernel], 3, Matern52)
        given = limits
        if method == EQUAL:
            given = dataclasses.replace(limits, max_processor_seconds=rows[-1]["processor_seconds"])
        row, posterior, points = measure_method(temperatures, is_test, scale, start, method, count, options.seed, given)
        row = {"set": temperatures.name, "kernel": kernel, **row}
        if points is not None and (kernel, count, method) == (KERNELS[-1], max(counts), PSEUDO):
            row["map"] = (
                None
                if temperatures.elevations is None
                else maps_of(temperatures, scale, posterior, points, kernel, len(points), options.output)
            )
        return row

    for kernel in KERNELS:
        fits = [(count, method) for count in counts for method in (PSEUDO, SUBSET, EQUAL)]
        for count, method in fits if options.quick else [*fits, (None, EXACT)]:
            step = f"{temperatures.name}, {kernel}, {method} {count or ''}".strip()
            row = steps.once(step, functools.partial(work, kernel, count, method))
            rows.append(row)
            say(f"ghcn: {step}: RMSE {row['standardised_rmse']:.4f} after {row['seconds']:.0f} s ({row['message']})")
    return [{name: value for name, value in row.items() if name != "map"} for row in rows], next(
        row["map"] for row in rows if "map" in row
    )


def measure_method(
    temperatures: TemperatureSet,
    is_test: Bool[np.ndarray, " row"],
    scale: Scale,
    start: Separable | SumSeparable,
    method: str,
    count: int | None,
    seed: int,
    limits: Limits,
) -> tuple[dict[str, Any], Posterior, Float[np.ndarray, "pseudo 3"] | None]:
    places = temperatures.places
    centres = None if count is None else place(places, count, method="kmeans", weights="places", seed=seed)
    used = ~is_test
    if method == SUBSET and centres is not None:
        used = used & np.isin(temperatures.station, first_of_each_cluster(places, centres))
    data = Observations(
        temperatures.day[used].astype(np.float64),
        places[temperatures.station[used]],
        scale.standardise(temperatures.value[used]),
    )
    points = centres if method in (PSEUDO, EQUAL) else None
    result, posterior = learn(make_model(start, points), data, limits)
    mean, variance = posterior.marginals(
        temperatures.day[is_test].astype(np.float64), places[temperatures.station[is_test]]
    )
    noise_variance = noise_variance_of(posterior)
    accuracy = scores(scale.standardise(temperatures.value[is_test]), mean, variance, noise_variance)
    row = {"method": method, "num_pseudo": count, "num_rows": int(used.sum()), **accuracy, **result}
    return row, posterior, points


def first_of_each_cluster(
    places: Float[np.ndarray, "station 3"], centres: Float[np.ndarray, "pseudo 3"]
) -> Int[np.ndarray, " chosen"]:
    """Of each cluster the first station in the list's order, as the paper chose its subset (not the nearest to the centre)."""
    _, cluster = KDTree(centres).query(places)
    return np.sort(np.unique(cluster, return_index=True)[1])


def maps_of(
    temperatures: TemperatureSet,
    scale: Scale,
    posterior: Posterior,
    pseudo_points: Float[np.ndarray, "pseudo 3"],
    kernel: str,
    count: int,
    folder: pathlib.Path,
) -> dict[str, Any]:
    """Mean and standard deviation of f on one day, in degrees, with stations and pseudo-points."""
    elevations = temperatures.elevations
    assert elevations is not None
    day = max(temperatures.num_days - DAYS_BEFORE_END, 0)
    lat, lon = np.meshgrid(elevations.latitudes, elevations.longitudes, indexing="ij")
    # A void of the elevation model is taken as sea.
    height = np.nan_to_num(elevations.elevation) / 100
    asked = np.stack([lat.ravel(), lon.ravel(), height.ravel()], axis=1)
    mean, variance = posterior.marginals(np.full(len(asked), float(day)), asked)
    figure, axes = new_figure(1, 2, width=5.2, height=3.6)
    points = ((temperatures.places, "#e7298a", "s", "stations"), (pseudo_points, "#ff7f0e", "o", "pseudo-points"))
    for axis, numbers, label in (
        (axes[0, 0], mean * scale.deviation + scale.mean, "mean, degrees C"),
        (axes[0, 1], np.sqrt(variance) * scale.deviation, "standard deviation, degrees C"),
    ):
        draw_map(
            figure,
            axis,
            elevations.longitudes,
            elevations.latitudes,
            numbers.reshape(lat.shape),
            label=label,
            points=points,
        )
    axes[0, 0].legend(fontsize=7, loc="lower left")
    return {
        "figure": save(figure, folder, f"map_{temperatures.name}.png"),
        "date": (temperatures.first_date + pd.Timedelta(days=day)).date().isoformat(),
        "kernel": kernel,
        "num_pseudo": count,
    }


# --- what should show --------------------------------------------------------------------------------------------------------


METRICS = ("standardised_rmse", "mean_negative_log_density")


def checks(rows: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [
        better_in_the_time(rows, name, (PSEUDO,), "fits run to their end"),
        better_in_the_time(rows, name, (PSEUDO, EQUAL), "fits stopped at the subset's time too"),
        sum_is_better(rows, name),
        near_exact(rows, name),
    ]


def better_in_the_time(rows: list[dict[str, Any]], name: str, methods: tuple[str, ...], which: str) -> dict[str, Any]:
    """For each subset run, the runs of these methods that took no longer; for how many one of them is better on both metrics."""
    claim = f"{name}: pseudo-points are better than a subset in no more processor time (to a tenth); {which}"
    wins, all_of, left_out = 0, 0, []
    for row in rows:
        if row["method"] != SUBSET:
            continue
        rivals = [
            other
            for other in rows
            if other["kernel"] == row["kernel"]
            and other["method"] in methods
            and other["processor_seconds"] <= row["processor_seconds"] * 1.1
        ]
        if not rivals:
            left_out.append(f"{row['kernel']} M = {row['num_pseudo']}")
            continue
        all_of += 1
        wins += any(all(other[metric] < row[metric] for metric in METRICS) for other in rivals)
    words = f"in {wins} of {all_of} comparisons, on both metrics"
    if left_out:
        words += f"; no fit as short as the subset's: {', '.join(left_out)}"
    return check(claim, wins == all_of if all_of else None, words)


def sum_is_better(rows: list[dict[str, Any]], name: str) -> dict[str, Any]:
    claim = f"{name}: sum-separable is more accurate than separable on both metrics, with the most pseudo-points"
    most = max(row["num_pseudo"] for row in rows if row["method"] == PSEUDO)
    plain, summed = (
        next(row for row in rows if (row["kernel"], row["method"], row["num_pseudo"]) == (kernel, PSEUDO, most))
        for kernel in KERNELS
    )
    words = ", ".join(f"{summed[metric]:.4f} against {plain[metric]:.4f}" for metric in METRICS)
    return check(claim, all(summed[metric] < plain[metric] for metric in METRICS), f"{words} (M = {most})")


def near_exact(rows: list[dict[str, Any]], name: str) -> dict[str, Any]:
    claim = (
        f"{name}: the most pseudo-points are nearly as accurate as all stations (root mean squared error within 5 %)"
    )
    exact = {row["kernel"]: row for row in rows if row["method"] == EXACT}
    if not exact:
        return check(claim, None, "")
    most = max(row["num_pseudo"] for row in rows if row["method"] == PSEUDO)
    ratios = [
        row["standardised_rmse"] / exact[row["kernel"]]["standardised_rmse"]
        for row in rows
        if row["method"] == PSEUDO and row["num_pseudo"] == most
    ]
    return check(
        claim, max(ratios) < 1.05, f"{', '.join(f'{ratio:.3f}' for ratio in ratios)} times the exact (M = {most})"
    )
