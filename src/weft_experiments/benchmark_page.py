# SPDX-License-Identifier: MIT
"""Figures and page of the benchmark, in the paper's layout: time against number of times, bound against exact evidence."""

import pathlib
from typing import Any

from weft_experiments.figures import BLACK, COLOURS, MARKERS, new_figure, save
from weft_experiments.results import Results, checks_table, provenance, table
from weft_experiments.synthetic import KERNELS, LAYOUTS

__all__ = ["PAPER_TIMES", "draw", "page"]

PAPER_TIMES = (10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 25_000, 50_000, 100_000)
TITLES = {"arbitrary": "arbitrary places", "grid": "grid with missing rows"}
READINGS = {
    "scripts": "what the paper's authors ran: Matern-5/2 in time, slices of 500 times drawn independently, grid times 50 apart "
    "(so that the slices are independent) and pseudo-points on twice the extent of the grid",
    "text": "what the paper says: Matern-3/2 in time, length scales 0.9 and 1.2, one joint draw, grid times 0.2 apart and "
    "pseudo-points on the grid's extent (the step is that of the paper's pictures; the text names none)",
}


def method_name(row: dict[str, Any]) -> str:
    return f"{row['num_pseudo']} pseudo-points" if row.get("num_pseudo") else row["method"]


def draw(rows: list[dict[str, Any]], folder: pathlib.Path) -> list[str]:
    names = []
    for kernel in KERNELS:
        here = [row for row in rows if row["kernel"] == kernel]
        figure, axes = new_figure(2, 2)
        for column, layout in enumerate(LAYOUTS):
            for line, (prefix, label) in enumerate((("", "ELBO"), ("gradient_", "ELBO and gradient"))):
                field = f"{prefix}processor_seconds"
                draw_lines(axes[line, column], here, layout, lambda row, field=field: row.get(field))
                axes[line, column].set(
                    xscale="log", yscale="log", xlabel="times T", ylabel=f"processor seconds, {label}"
                )
                axes[line, column].set_title(TITLES[layout], fontsize=9)
        axes[0, 1].legend(fontsize=7, frameon=False)
        names.append(save(figure, folder, f"time_{kernel}.png"))
        figure, axes = new_figure(1, 2)
        for column, layout in enumerate(LAYOUTS):
            draw_lines(axes[0, column], here, layout, lambda row: row["log_evidence"] / row["num_times"])
            axes[0, column].set(xscale="log", xlabel="times T", ylabel="log evidence or ELBO, over T")
            axes[0, column].set_title(TITLES[layout], fontsize=9)
        axes[0, 1].legend(fontsize=7, frameon=False)
        names.append(save(figure, folder, f"bound_{kernel}.png"))
    return names


def draw_lines(axis: Any, rows: list[dict[str, Any]], layout: str, value: Any) -> None:
    here = [row for row in rows if row["layout"] == layout]
    looks = {"exact dense": (BLACK, "o", "-"), "state space": (COLOURS[1], "s", "--")}
    sizes = sorted({row["num_pseudo"] for row in here if row.get("num_pseudo")})
    looks |= {
        f"{size} pseudo-points": (colour, marker, "-")
        for size, colour, marker in zip(
            sizes, (COLOURS[0], COLOURS[2], COLOURS[3], COLOURS[4]), MARKERS[2:] + MARKERS, strict=False
        )
    }
    for name, (colour, marker, line) in looks.items():
        points = [(row["num_times"], value(row)) for row in here if method_name(row) == name and value(row) is not None]
        if points:
            axis.plot(*zip(*points, strict=True), color=colour, marker=marker, linestyle=line, markersize=4, label=name)


def page(results: Results) -> str:
    kernels = [kernel for kernel in KERNELS if any(row["kernel"] == kernel for row in results["rows"])]
    parts = [
        "# Benchmark on synthetic data",
        "Time to compute the bound, and how tight it is, on ten random places at each time and on a grid of fifty places of "
        f"which five are missing. Variant `{results['variant']}`: {READINGS[results['variant']]}. "
        "The random numbers are not the paper's, whose generator cannot be had here.",
        "Seconds are the least over repeats after a first call that compiles. They include making the state-space model from "
        "kernel, places and noise, as the paper's do, and not sorting the rows by time (a column of its own below). Exact dense "
        "is a plain Cholesky factorisation, up to 10,000 rows. Figures and checks count processor seconds, of all threads "
        "together, which other work on the machine changes least; the tables have both (where the clock's are far above, "
        "the run was held up). The paper used one thread and times no "
        "gradients; weft uses two threads where it may, and its gradients are in every parameter, pseudo-points included.",
        checks_table(results["checks"]),
    ]
    for kernel in kernels:
        parts += [
            f"## {kernel.capitalize()} kernel",
            f"![time against number of times](time_{kernel}.png)",
            f"![bound against number of times](bound_{kernel}.png)",
        ]
        for layout in LAYOUTS:
            parts += [f"{TITLES[layout].capitalize()}:", timing_table(results["rows"], kernel, layout)]
    if results["left_out"]:
        parts.append("Left out because they would have taken too long here: " + "; ".join(results["left_out"]) + ".")
    absent = [f"{times:,}" for times in PAPER_TIMES if times not in results["settings"]["num_times"]]
    if absent:
        parts.append(f"Of the paper's numbers of times these were not run: {', '.join(absent)}.")
    parts += [
        "## Posterior pictures",
        "Mean and standard deviation of f given all rows; dots are rows, crosses pseudo-points. Held to the dense computation:",
        table(
            ("layout", "largest error of the mean", "of the deviation"),
            [
                (TITLES[p["layout"]], f"{p['mean_error']:.1e}", f"{p['deviation_error']:.1e}")
                for p in results["pictures"]
            ],
        ),
        *[f"![posterior]({p['figure']})" for p in results["pictures"]],
        "## What differs from the paper",
        "- A draw uses some forty features of place in which the spatial kernel is exact to about 1e-12, so that 4.5 million rows "
        "can be drawn; the paper's scripts factor slices of 5,000 rows.\n"
        "- The committed script of the sum-separable grid builds the separable kernel again; here it is the sum of the two kernels "
        "of the other layout.\n"
        "- Missing rows are left out; the scripts give them a noise variance of 1e9 and correct the result.\n"
        "- The state-space model with all places is not run at arbitrary places, where it is larger than a dense matrix; nor does "
        "the paper.\n"
        "- Seconds of the authors' own program (TemporalGPs.jl) are in the paper's figures alone. The sources of these are neither "
        "with the paper's text nor with its scripts, so none can be set beside ours.",
        provenance(results),
    ]
    return "\n\n".join(parts)


def timing_table(rows: list[dict[str, Any]], kernel: str, layout: str) -> str:
    here = [row for row in rows if row["kernel"] == kernel and row["layout"] == layout]
    return table(
        (
            "method",
            "times",
            "rows",
            "ELBO or log evidence, over T",
            "seconds",
            "processor seconds",
            "processor seconds with gradient",
            "sorting rows, seconds",
        ),
        [
            (
                method_name(row),
                row["num_times"],
                row["num_rows"],
                f"{row['log_evidence'] / row['num_times']:.4f}",
                *(
                    None if row.get(field) is None else f"{row[field]:.3g}"
                    for field in ("seconds", "processor_seconds", "gradient_processor_seconds", "grouping_seconds")
                ),
            )
            for row in here
        ],
    )
