# SPDX-License-Identifier: MIT
"""The paper's posterior pictures over time and place, and the same numbers by dense linear algebra."""

import pathlib
from typing import Any

import numpy as np

from weft.inference.single import condition
from weft.likelihoods import Gaussian
from weft.model import Model
from weft_experiments.dense import dense_bound
from weft_experiments.figures import new_figure, save
from weft_experiments.synthetic import (
    ARBITRARY_EXTENT,
    GRID_EXTENT,
    LAYOUTS,
    Variant,
    components_of,
    make_kernel,
    make_problem,
)

__all__ = ["draw_posteriors"]

NUM_PSEUDO, NUM_PREDICTED = 10, 100
STEPS = {"arbitrary": 0.3, "grid": 0.2}
EXTENTS = {"arbitrary": ARBITRARY_EXTENT, "grid": GRID_EXTENT}


def draw_posteriors(variant: Variant, num_times: int, seed: int, folder: pathlib.Path) -> list[dict[str, Any]]:
    """For each layout a picture, and how far its numbers are from dense ones."""
    shown = []
    for layout in LAYOUTS:
        problem = make_problem(variant, "separable", layout, num_times, seed, step=STEPS[layout])
        pseudo = np.linspace(0, EXTENTS[layout], NUM_PSEUDO)[:, None]
        times, places = np.unique(problem.times), np.linspace(0, EXTENTS[layout], NUM_PREDICTED)
        asked = np.repeat(times, len(places)), np.tile(places, len(times))[:, None]
        posterior = condition(Model(make_kernel(variant, "separable"), Gaussian(0.0), pseudo), problem.observations())
        mean, variance = posterior.marginals(*asked)
        deviation = np.sqrt(variance)
        dense = dense_bound(components_of(variant, "separable"), variant.smoothness, problem, pseudo)
        dense_mean, dense_deviation = dense.marginals(*asked)
        figure, axes = new_figure(2, 1, width=6.0, height=2.2, sharex=True)
        shape = (len(times), len(places))
        for axis, numbers, label in ((axes[0, 0], mean, "mean"), (axes[1, 0], deviation, "standard deviation")):
            image = axis.pcolormesh(times, places, numbers.reshape(shape).T, shading="nearest", rasterized=True)
            figure.colorbar(image, ax=axis, label=label)
            axis.plot(np.full(NUM_PSEUDO, times[0]), pseudo[:, 0], "x", color="#d55e00", markersize=5, clip_on=False)
            axis.set_ylabel("place")
        axes[0, 0].plot(problem.times, problem.places[:, 0], ".", color="white", markersize=0.8, alpha=0.6)
        axes[1, 0].set_xlabel("time")
        shown.append(
            {
                "layout": layout,
                "num_times": num_times,
                "mean_error": float(np.max(np.abs(mean - dense_mean))),
                "deviation_error": float(np.max(np.abs(deviation - dense_deviation))),
                "figure": save(figure, folder, f"posterior_{layout}.png"),
            }
        )
    return shown
