# SPDX-License-Identifier: MIT
"""Figures and page of the temperature experiment."""

import pathlib
from typing import Any

from weft_experiments.figures import BLACK, COLOURS, new_figure, save
from weft_experiments.results import Results, checks_table, number, provenance, reading_section, table

__all__ = ["draw_trade_off", "page"]

LINES = (
    ("separable", "pseudo-points", COLOURS[0], "o", "-"),
    ("separable", "subset of stations", COLOURS[0], "s", ":"),
    ("sum-separable", "pseudo-points", COLOURS[1], "o", "-"),
    ("sum-separable", "subset of stations", COLOURS[1], "s", ":"),
)
EXACT, EQUAL = "all stations, exact", "pseudo-points, in the subset's time"


def draw_trade_off(rows: list[dict[str, Any]], folder: pathlib.Path, name: str) -> str:
    """The paper's speed-accuracy figure: each metric against seconds of training, a line a method, a point a number M.

    Below it the same again, as far up as the pseudo-points reach.
    """
    figure, axes = new_figure(2, 2, height=3.0, sharex=True)
    for column, metric, label in (
        (0, "standardised_rmse", "root mean squared error, standardised"),
        (1, "mean_negative_log_density", "mean negative log density"),
    ):
        for axis in axes[:, column]:
            draw_lines(axis, rows, metric)
        shown = [row[metric] for row in rows if row["method"] in ("pseudo-points", EXACT)]
        margin = 0.08 * (max(shown) - min(shown))
        axes[1, column].set(ylim=(min(shown) - margin, max(shown) + 2 * margin), xlabel="processor seconds of training")
        axes[0, column].set_title(label, fontsize=9)
    axes[0, 0].set_ylabel("all")
    axes[1, 0].set_ylabel("the lower part")
    axes[0, 0].legend(fontsize=7, frameon=False)
    return save(figure, folder, f"trade_off_{name}.png")


def draw_lines(axis: Any, rows: list[dict[str, Any]], metric: str) -> None:
    for kernel, method, colour, marker, line in LINES:
        here = [row for row in rows if row["kernel"] == kernel and row["method"] == method]
        exact = [row for row in rows if row["kernel"] == kernel and row["method"] == EXACT]
        # With all stations a subset is exact: the last point of its line, as in the paper.
        points = here + (exact if method == "subset of stations" else [])
        axis.plot(
            [row["processor_seconds"] for row in points],
            [row[metric] for row in points],
            color=colour,
            marker=marker,
            linestyle=line,
            markersize=4,
            label=f"{kernel}, {method}",
        )
        for row in points:
            axis.annotate(
                str(row["num_pseudo"] or "all"),
                (row["processor_seconds"], row[metric]),
                fontsize=6,
                color=BLACK,
                # Below the line of pseudo-points, above that of subsets.
                xytext=(-3, -9) if method == "pseudo-points" else (3, 3),
                textcoords="offset points",
                annotation_clip=True,
            )
    axis.set(xscale="log")


def page(results: Results) -> str:
    limits = results["settings"]
    seconds = limits["max_seconds"]
    limited = f"at most {number(limits['max_iterations'])} iterations" + (
        f" or {number(seconds)} seconds (whichever ended first; the iteration under way is finished)" if seconds else ""
    )
    parts = [
        "# Daily maximum temperature",
        "The paper's first experiment on real data: station-days held out at random (one in ten), a separable and a sum-separable "
        "model (EQ in latitude, longitude and hundreds of metres; Matern-5/2 in days), pseudo-points at the k-means centres of the "
        "stations against exact inference with a subset of the stations (of each cluster the first in the list).",
        f"Each fit was given {limited}; the table says which converged. The paper allowed 1,000 iterations on eight cores. "
        f"Starting values are those of the {'authors’ scripts' if results['variant'] == 'scripts' else 'paper’s text'}; the noise "
        "variance stays in (0.01, 2); L-BFGS remembers 50 steps.",
    ]
    if any(row["method"] == EQUAL for row in results["rows"]):
        parts.append(
            "Pseudo-points are also learned once more with no more processor time than the subset of the same size took, compiling "
            "included, so that the two can be compared after equal training. A subset without a rival as short as its own fit (to a "
            "tenth) is not counted, and named below."
        )
    parts.append(checks_table(results["checks"]))
    for each in results["sets"]:
        parts += set_section(each, [row for row in results["rows"] if row["set"] == each["name"]])
    parts += [
        "## Metrics",
        "All on the standardised scale (training mean and deviation). The root mean squared error is the paper's RSMSE. The paper's "
        "NPPLP, the mean negative log density of a held-out value, was computed by its scripts with the *sum of the deviations* of f "
        "and of the noise; a normal law adds variances. Both are given: *correct* and *scripts*. The paper's figures are plotted from "
        "the second, this page's from the first.",
        "## What could not be reproduced",
        "- The paper's set (99 stations, 368,357 values): NOAA's whole archive cannot be had here. With a network, "
        "`weft reproduce ghcn --data FOLDER --download` fetches it and runs the paper's selection.\n"
        "- NASADEM heights need an account; the maps use a grid of 1/24 degree (PRISM) unless the folder holds tiles.\n"
        "- The random split and k-means starts are NumPy's, not Julia's.\n"
        "- The paper's numbers are only in figures, so none is set beside ours.",
        provenance(results),
    ]
    return "\n\n".join(parts)


def set_section(each: dict[str, Any], rows: list[dict[str, Any]]) -> list[str]:
    body = [
        (
            f"{row['kernel']}, {row['method']}",
            row["num_pseudo"],
            row["num_rows"],
            f"{row['standardised_rmse']:.4f}",
            f"{row['mean_negative_log_density']:.4f}",
            f"{row['mean_negative_log_density_deviations_added']:.4f}",
            f"{row['processor_seconds']:.1f}",
            row["iterations"],
            row["converged"],
            f"{row['log_evidence']:.1f}",
        )
        for row in rows
    ]
    header = (
        "model",
        "M",
        "values learned from",
        "standardised RMSE",
        "neg. log density, correct",
        "neg. log density, scripts",
        "processor seconds",
        "iterations",
        "converged",
        "log evidence or ELBO",
    )
    parts = [
        f"## Set `{each['name']}`",
        each["story"],
        *reading_section(each),
        "A subset learns from the values of its own stations only; where these report for a part of the days, it has next to nothing "
        "to go by on the others, which weighs on a small subset the more.",
        table(header, body),
        f"![accuracy against seconds of training](trade_off_{each['name']}.png)",
    ]
    if each["map"] is None:
        return [*parts, f"No map: {each.get('no_elevations', 'the folder holds no elevations')}."]
    shown = each["map"]
    return [
        *parts,
        f"Posterior of f on {shown['date']} ({shown['kernel']}, M = {shown['num_pseudo']}): pink squares are stations, orange dots "
        "pseudo-points.",
        f"![map of mean and standard deviation]({shown['figure']})",
    ]
